//! Changes that were decided on: what became of each, and the difference they make to the configuration.

pub(crate) mod diff;
pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod terminal;

use kneepoint_model::run::Decision;
use kneepoint_model::{Finding, Run};

/// Remedies that could not be judged and stay a recommendation: what is wrong was read from the stack itself.
pub(crate) fn recommended(run: &Run) -> Vec<(&Decision, &Finding)> {
    let mut read = run.undecided();
    read.retain(|(_, finding)| finding.is_read());
    read
}
