//! PG-01: the database takes fewer connections than PHP has workers.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "PG-01",
    name: "postgresql-few-connections",
    title: "PostgreSQL takes fewer connections than PHP has workers",
    what_it_is: "Every worker that is busy with a page holds a connection, a process of PostgreSQL. Beyond max_connections (100 \
        by default, 3 of them kept back) it answers `sorry, too many clients already`.",
    how_it_shows: "Error pages with `too many clients already` at the peak.",
    unless: "A pooler such as PgBouncer stands between.",
    what_to_write: "max_connections = all workers of PHP and some more, or PgBouncer between them.",
    check,
};

const ADMISSION: Admission = Admission {
    kind: ServiceKind::Postgresql,
    most: ("max_connections", "100"),
    kept_back: 3.0,
    refused: LogKind::TooManyDbClients,
    cost: "an error page for every worker beyond it, in the moment of the highest load",
    fix: |_, _, _, most| {
        Fix::words(format!(
            "PgBouncer with pool_mode = transaction and a pool of two to four connections a core; or pools of {:.0} workers in all.",
            most * 0.9
        ))
    },
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    ADMISSION.check(&RULE, snapshot, found);
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
