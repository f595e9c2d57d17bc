//! Says what is wrong with a stack that already runs, without a request, a write or a signal.
//!
//! [`check`] finds the server programs of this machine, in whatever namespace and control group, reads the settings in
//! force with the file and line each comes from, joins the programs to chains, and asks the rules. The result is a
//! [`Report`]; [`render`] says it for a terminal, in Markdown and as JSON. [`StackWatch`] looks again and again, at what changes.
//!
//! What containers hold is a stranger's: files are opened below the root directory of their process only, regular files
//! only, so much of each and no more, and a program that takes too long to look at is left out and named.
//!
//! This crate must never send a request, write a file, signal or trace a process, start a program, or print. Its rules
//! are pure functions of the [`snapshot`]: they open nothing and read no clock.

mod chain;
mod config;
mod files;
mod find;
mod logs;
mod process;
mod report;
mod rule;
mod rules;
pub mod snapshot;
mod sockets;
mod watch;

#[cfg(any(test, feature = "fuzzing"))]
pub use config::fuzzing;
pub use find::{CheckOptions, look};
pub use report::{CheckFormat, Report, SCHEMA, check, redacted, render};
pub use rule::{CheckFinding, CheckRule, Fix, FixFile, Seen, Severity, shell_word};
pub use rules::{CHECKS, codes, explain};
pub use watch::{
    Moment, OwnCost, PoolMoment, ServiceMoment, StackWatch, TrafficMoment, WatchOptions, Watched,
    metrics,
};
