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

/// How bad lines are that would be so bad if they came all the time: a handful of them, or the last of them long ago, is a note.
pub(crate) fn graded(severity: Severity, service: &Service, hits: &LogHits) -> Severity {
    /// Fewer lines than this are a handful \[ours\].
    const FEW: u64 = 5;
    let weighs_alone = match hits.kind {
        // Apache writes it once an hour at the most. The kernel ended somebody.
        LogKind::PoolExhausted | LogKind::OutOfMemory => true,
        // The end of a server is the end of every request that asks it.
        LogKind::WorkerCrashed => matches!(
            service.kind,
            ServiceKind::Redis | ServiceKind::Mysql | ServiceKind::Postgresql
        ),
        _ => false,
    };
    let is_few = hits.count < FEW && !weighs_alone;
    match is_few || hits.is_over() {
        true => Severity::Note,
        false => severity,
    }
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
                let severity = graded(self.severity, service, hits);
                let mut draft = rule.at(snapshot, at, severity);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::case::logged;

    fn check(at: usize, kind: LogKind, count: u64, age_s: Option<f64>, expected: Severity) {
        let case = logged(at, kind, 60.0).with(|all| {
            let hits = &mut all.services[at].logs[0];
            (hits.count, hits.age_s) = (count, age_s);
        });
        let service = &case.0.services[at];
        let found = graded(Severity::Problem, service, &service.logs[0]);
        assert_eq!(found, expected, "{kind:?} {count} {age_s:?}");
    }

    #[test]
    fn a_handful_of_lines_and_what_is_over_is_a_note() {
        use Severity::{Note, Problem};
        let (now, long_ago) = (Some(60.0), Some(2.0 * 86_400.0));
        check(1, LogKind::PhpFatal, 1, now, Note);
        check(1, LogKind::PhpFatal, 4, now, Note);
        check(1, LogKind::PhpFatal, 5, now, Problem);
        check(1, LogKind::PhpFatal, 500, long_ago, Note);
        // Without a time only the number tells.
        check(1, LogKind::PhpFatal, 4, None, Note);
        check(1, LogKind::PhpFatal, 5, None, Problem);
        // One alone is trouble: the kernel ended a process, a database fell.
        check(1, LogKind::OutOfMemory, 1, now, Problem);
        check(3, LogKind::WorkerCrashed, 1, now, Problem);
        check(1, LogKind::WorkerCrashed, 1, now, Note);
    }
}
