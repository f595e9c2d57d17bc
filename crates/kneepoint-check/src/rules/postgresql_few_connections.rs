//! PG-01: the database takes fewer connections than PHP has workers.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "PG-01",
    name: "postgresql-few-connections",
    title: "PostgreSQL takes fewer connections than PHP has workers",
    what_it_is: "Every worker that is busy with a page holds a connection, a process of PostgreSQL. Beyond max_connections (100 \
        by default, 3 of them kept back) it answers `sorry, too many clients already`.",
    unless: "A pooler such as PgBouncer stands between.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Postgresql) {
        let value = service.settings.or("max_connections", "100");
        let Some(most) = value.number() else { continue };
        let hits = service
            .logged(LogKind::TooManyDbClients)
            .filter(|hits| is_recent(hits));
        let workers = snapshot.workers_behind(at).unwrap_or(0);
        if hits.is_none() && workers as f64 <= most - 3.0 {
            continue;
        }
        let mut draft = RULE
            .at(
                snapshot,
                at,
                if hits.is_some() {
                    Severity::Problem
                } else {
                    Severity::Risk
                },
            )
            .value("max_connections", &value);
        if let Some(hits) = hits {
            draft = draft.seen(often(hits), &hits.path);
        }
        draft
            .seen(format!("pools of PHP with {workers} workers in all ask it"), "")
            .cost("an error page for every worker beyond it, in the moment of the highest load")
            .fix(Fix::words(format!(
                "PgBouncer with pool_mode = transaction and a pool of two to four connections a core; or pools of {:.0} workers in all.",
                most * 0.9
            )))
            .weight(0.3)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().set(4, "max_connections", "20"),
                Severity::Risk,
                "20 workers",
            )],
        );
    }
}
