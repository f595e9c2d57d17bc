//! What some rules share: a line in a log that has one meaning.

use super::prelude::*;
use crate::snapshot::LogHits;
use std::collections::BTreeMap;

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
            if !self.kinds.is_empty() && !self.kinds.contains(&service.kind) {
                continue;
            }
            let own = |hits: &&LogHits| hits.kind == self.line && is_recent(hits);
            // Of each pool once: of several logs the one that says it most often.
            let mut by_pool: BTreeMap<Option<&String>, &LogHits> = BTreeMap::new();
            for hits in service.logs.iter().filter(own) {
                let known = by_pool.entry(hits.pool.as_ref()).or_insert(hits);
                if hits.count > known.count {
                    *known = hits;
                }
            }
            for (name, hits) in by_pool {
                if hits.count < self.least {
                    continue;
                }
                let mut draft = rule.at(snapshot, at, self.severity);
                let pool = service.pools.iter().find(|pool| Some(&pool.name) == name);
                if let Some(pool) = pool {
                    draft = draft.pool(pool);
                }
                draft
                    .seen(often(hits), &hits.path)
                    .cost((self.costs)(hits.count))
                    .fix(Fix::words(self.remedy))
                    .weight(self.weight)
                    .tell(found);
            }
        }
    }
}
