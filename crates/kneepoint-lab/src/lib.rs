//! The lab: hosts as network namespaces on one cable, with limits by control group, and the processes on them.
//!
//! This crate alone creates namespaces, control groups and lab directories, and alone starts, signals and
//! kills processes. It owns all of them through one *keeper* process per lab, which outlives its owner just
//! long enough to remove everything, whatever way the owner ended.
//!
//! It must never know what a program *is*: a server is a [`ProcessSpec`](kneepoint_model::ProcessSpec) that
//! somebody else wrote. It must never touch a process, a group or a directory of a lab that still lives, or
//! one that no lab made.
//!
//! A program that uses [`Lab`] calls [`keeper_entry`] before anything else in `main`, because the keeper is
//! the same program started once more.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the crate that starts processes"
)]

mod beneath;
mod error;
mod identity;
mod isolation;
mod keeper;
mod lab;
mod launch;
mod plan;
mod protocol;
mod record;
mod room;
mod traces;

pub use error::LabError;
pub use keeper::keeper_entry;
pub use lab::Lab;
pub use lab::commands::{HostCommands, SystemCommands};
pub use lab::helper::Helper;
pub use plan::{Capabilities, HostInfo, HostPlan, LabPlan, Process, Stopped};
pub use traces::{LabState, Removed, clean, list};
