//! Changes that were decided on: what became of each, and the difference they make to the configuration.

pub(crate) mod diff;
pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod terminal;

use kneepoint_model::run::Decision;
use kneepoint_model::{Finding, Run};

/// What the words on the changes mean, where reports tell them.
pub(crate) const LEGEND: &str = "kept: shown to help; dropped: shown not to, so the simpler stays; undecided: the run was too short \
     or the machine too busy to tell";

/// Remedies that could not be judged and stay a recommendation: what is wrong was read from the stack itself.
pub(crate) fn recommended(run: &Run) -> Vec<(&Decision, &Finding)> {
    let mut read = run.undecided();
    read.retain(|(_, finding)| finding.is_read());
    read
}
