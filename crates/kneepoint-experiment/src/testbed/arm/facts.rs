//! What an arm's application says of itself before its first request.

use kneepoint_model::{AppSwitch, Unprepared};
use kneepoint_stack::application;
use std::path::Path;

/// What an application's files of settings say that rules ask for. They are read from a copy that nobody has used yet: a line
/// has the number there that it has in the copy of the next arm, in which a change may replace it.
#[derive(Debug, Clone, Default)]
pub(crate) struct AppFacts {
    pub(crate) switches: Vec<AppSwitch>,
    pub(crate) unprepared: Vec<Unprepared>,
}

impl AppFacts {
    pub(super) fn of(root: &Path) -> Self {
        Self {
            switches: application::switches(root),
            unprepared: application::unprepared(root),
        }
    }
}
