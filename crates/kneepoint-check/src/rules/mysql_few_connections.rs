//! MYS-01: the database takes fewer connections than PHP has workers.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "MYS-01",
    name: "mysql-few-connections",
    title: "MariaDB takes fewer connections than PHP has workers",
    what_it_is: "Every worker that is busy with a page holds a connection. Beyond max_connections (151 by default) the \
        database answers `Too many connections`, and the page is an error.",
    how_it_shows: "Error pages with `Too many connections` at the moment of the highest load; Max_used_connections equals max_connections.",
    unless: "A pooler stands between, or the pools are never full at the same time.",
    what_to_write: "max_connections = all workers of PHP and 30 more; or smaller pools, where the database is busy with as \
        many as it takes.",
    check,
};

const ADMISSION: Admission = Admission {
    kind: ServiceKind::Mysql,
    most: ("max_connections", "151"),
    kept_back: 0.0,
    refused: LogKind::TooManyDbClients,
    cost: "an error page for every worker beyond it, in the moment of the highest load",
    fix: |service, value, workers, _| {
        Fix::line(
            service,
            value,
            &format!("max_connections = {}", workers + 30),
        )
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
                Case::healthy().set(3, "max_connections", "10"),
                Severity::Risk,
                "20 workers",
            )],
        );
    }
}
