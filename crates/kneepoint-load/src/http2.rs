//! HTTP/2: many requests at a time on a connection, by the `h2` crate on one tokio runtime per thread.
//!
//! A transport of its own. It takes the same arrivals, mix and users as the epoll loop and writes down the same, but it
//! costs more CPU per request (futures, frames, header tables) and allocates for each, so it claims less: `ceiling`
//! measures the other transport. Its timer is a timerfd and not tokio's, which is a millisecond coarse; how late it still
//! is, the send lag says (p99 74 microseconds at 1000/s beside a busy nginx on two cores).
//!
//! An arrival takes a connection without a request on it, else a new one while there may be more, else the one with the
//! fewest requests, within what the server allows (SETTINGS_MAX_CONCURRENT_STREAMS). So `max_connections` says how many
//! visitors' connections there are, and what is more goes out side by side on them. A request counts as sent when it is
//! handed to the connection; bytes received are those of bodies, since heads are compressed together.

mod connections;
mod exchange;
mod h2_request;
mod opening;
mod single;
mod timer;
mod worker;

pub(crate) use h2_request::scheme;
pub(crate) use single::{Timing, fetch};
pub(crate) use worker::Worker;
