//! What four rules share: a server lets fewer connections in than PHP has workers.

use super::prelude::*;

/// What a server lets in, and what to do when that is too little.
pub(crate) struct Admission {
    /// The server.
    pub(crate) kind: ServiceKind,
    /// The directive with the most connections, and its value where none is written.
    pub(crate) most: (&'static str, &'static str),
    /// Connections of these that are not for the application.
    pub(crate) kept_back: f64,
    /// The log line of a server that refused one.
    pub(crate) refused: LogKind,
    /// What a refusal costs.
    pub(crate) cost: &'static str,
    /// What to do, for so many workers and connections.
    pub(crate) fix: fn(&Service, &SettingValue, u64, f64) -> Fix,
}

impl Admission {
    /// Finds the servers that refused connections, or would if all workers asked at once.
    pub(crate) fn check(
        &self,
        rule: &'static CheckRule,
        snapshot: &Snapshot,
        found: &mut Vec<CheckFinding>,
    ) {
        let (directive, usual) = self.most;
        for (at, service) in snapshot.of(self.kind) {
            let value = service.settings.or(directive, usual);
            let Some(most) = value.number() else { continue };
            let hits = service.logged(self.refused).filter(|hits| is_recent(hits));
            let workers = snapshot.workers_behind(at).unwrap_or(0);
            // A default says nothing where the command line is hidden.
            let unknown = service.settings_hidden && value.is_default();
            if hits.is_none() && (unknown || workers as f64 <= most - self.kept_back) {
                continue;
            }
            let severity = match hits {
                Some(_) => Severity::Problem,
                None => Severity::Risk,
            };
            let mut draft = rule.at(snapshot, at, severity).value(directive, &value);
            if let Some(hits) = hits {
                draft = draft.seen(often(hits), &hits.path);
            }
            draft
                .seen(
                    format!("pools of PHP with {workers} workers in all ask it"),
                    "",
                )
                .cost(self.cost)
                .fix((self.fix)(service, &value, workers, most))
                .weight(0.3)
                .tell(found);
        }
    }
}
