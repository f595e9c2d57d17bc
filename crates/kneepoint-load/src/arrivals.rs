//! When requests start, and which ones: schedules, closed loops, sessions.

mod dispatcher;
mod mix;
mod random;
mod sessions;
mod stream;
mod think_time;
mod virtual_users;

pub(crate) use dispatcher::{Dispatcher, Shared, has_due_times};
pub(crate) use mix::Mix;
