//! MYS-01: the database takes fewer connections than PHP has workers.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "MYS-01",
    name: "mysql-few-connections",
    title: "MariaDB takes fewer connections than PHP has workers",
    what_it_is: "Every worker that is busy with a page holds a connection. Beyond max_connections (151 by default) the \
        database answers `Too many connections`, and the page is an error.",
    unless: "A pooler stands between, or the pools are never full at the same time.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Mysql) {
        let value = service.settings.or("max_connections", "151");
        let Some(most) = value.number() else { continue };
        let hits = service
            .logged(LogKind::TooManyDbClients)
            .filter(|hits| is_recent(hits));
        let workers = snapshot.workers_behind(at).unwrap_or(0);
        if hits.is_none() && workers as f64 <= most {
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
            .seen(
                format!("pools of PHP with {workers} workers in all ask it"),
                "",
            )
            .cost("an error page for every worker beyond it, in the moment of the highest load")
            .fix(Fix::line(
                service,
                &value,
                &format!(
                    "max_connections = {}, or pools of {:.0} workers in all",
                    workers + 30,
                    most * 0.9
                ),
            ))
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
                Case::healthy().set(3, "max_connections", "10"),
                Severity::Risk,
                "20 workers",
            )],
        );
    }
}
