//! What some rules share: a line in a log that has one meaning.

use super::prelude::*;

/// Lines of a log, and what they tell.
pub(crate) struct Logged {
    /// The programs whose logs are meant; any when empty.
    pub(crate) kinds: &'static [ServiceKind],
    /// What the lines mean.
    pub(crate) line: LogKind,
    /// Fewer lines than this are an accident.
    pub(crate) least: u64,
    pub(crate) severity: Severity,
    /// What this many lines cost.
    pub(crate) costs: fn(u64) -> String,
    pub(crate) remedy: &'static str,
    pub(crate) weight: f64,
}

impl Logged {
    /// Finds the services in whose logs of the last days the lines are.
    pub(crate) fn check(
        &self,
        rule: &'static CheckRule,
        snapshot: &Snapshot,
        found: &mut Vec<CheckFinding>,
    ) {
        for (at, service) in snapshot.services.iter().enumerate() {
            let of_kind = self.kinds.is_empty() || self.kinds.contains(&service.kind);
            let hits = service.logged(self.line).filter(|hits| is_recent(hits));
            let Some(hits) = hits.filter(|hits| of_kind && hits.count >= self.least) else {
                continue;
            };
            rule.at(snapshot, at, self.severity)
                .seen(often(hits), &hits.path)
                .cost((self.costs)(hits.count))
                .fix(Fix::words(self.remedy))
                .weight(self.weight)
                .tell(found);
        }
    }
}
