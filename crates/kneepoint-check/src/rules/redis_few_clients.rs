//! RDS-02: Redis lets fewer clients in than there are workers.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "RDS-02",
    name: "redis-few-clients",
    title: "Redis lets fewer clients in than PHP has workers",
    what_it_is: "With persistent connections each worker keeps one for each database it uses. Beyond maxclients Redis refuses: \
        `max number of clients reached`.",
    how_it_shows: "`max number of clients reached` in the log of PHP or of Redis.",
    unless: "Only some of the workers use Redis.",
    what_to_write: "maxclients = all workers of PHP times the databases each uses, and some more.",
    check,
};

const ADMISSION: Admission = Admission {
    kind: ServiceKind::Redis,
    most: ("maxclients", "10000"),
    kept_back: 0.0,
    refused: LogKind::TooManyCacheClients,
    cost: "errors for every worker beyond it, in the moment of the highest load",
    fix: |service, value, workers, _| {
        Fix::line(
            service,
            value,
            &format!("maxclients {}", (workers * 2).max(10_000)),
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
            &[
                (
                    Case::healthy().set(2, "maxclients", "10"),
                    Severity::Risk,
                    "20 workers",
                ),
                (
                    crate::rule::case::logged(2, LogKind::TooManyCacheClients, 9.0),
                    Severity::Problem,
                    "/var/log/x.log",
                ),
            ],
        );
    }
}
