//! What a load is to do: where to, what, when, how fast, and when to give up.

mod error;
mod limits;
mod load_plan;
mod share;
mod stop;
mod target;

pub use error::LoadError;
pub use kneepoint_model::AbortRule;
pub use load_plan::{LoadPlan, Mode, Progress};
pub use share::Share;
pub(crate) use share::{Counter, Numbers};
pub use stop::{StopRule, StopWhen};
pub use target::{HttpVersion, Target, Tls, Verify};
