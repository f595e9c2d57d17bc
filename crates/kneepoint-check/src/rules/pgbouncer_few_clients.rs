//! PG-05: the pooler lets fewer clients in than PHP has workers.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "PG-05",
    name: "pgbouncer-few-clients",
    title: "PgBouncer lets fewer clients in than PHP has workers",
    what_it_is: "max_client_conn is how many clients PgBouncer lets in, all databases together: 100 by default. Each worker \
        of PHP that uses a database is one. The next is refused: `no more connections allowed (max_client_conn)`.",
    how_it_shows: "Error pages at the peak, and `no more connections allowed` in the log of PgBouncer or PHP.",
    unless: "Only some of the workers use the database, or several processes of PgBouncer share the port.",
    what_to_write: "max_client_conn = twice the workers of PHP, and LimitNOFILE= of its unit above that: a client costs a few \
        kilobytes, and no connection to PostgreSQL.",
    check,
};

const ADMISSION: Admission = Admission {
    kind: ServiceKind::Pgbouncer,
    most: ("max_client_conn", "100"),
    kept_back: 0.0,
    refused: LogKind::TooManyDbClients,
    cost: "an error page for every worker beyond it, in the moment of the highest load",
    fix: |service, value, workers, most| {
        let enough = workers.max(most as u64) * 2;
        Fix::line(service, value, &format!("max_client_conn = {enough}"))
    },
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let mut told: Vec<CheckFinding> = Vec::new();
    ADMISSION.check(&RULE, snapshot, &mut told);
    // Where several processes share the port, nobody knows how many of the workers one of them gets.
    let shares_port = |at: usize| {
        let value = snapshot.services[at].settings.get("so_reuseport");
        value.and_then(SettingValue::is_on) == Some(true)
    };
    told.retain(|one| one.severity == Severity::Problem || !shares_port(one.service));
    found.append(&mut told);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::case::pgbouncer;

    #[test]
    fn sick_and_healthy() {
        let few = || pgbouncer(&[("max_client_conn", "10")]);
        let shared = || pgbouncer(&[("max_client_conn", "10"), ("so_reuseport", "1")]);
        let refused = crate::rule::case::logged(4, LogKind::TooManyDbClients, 9.0);
        let logs = refused.0.services[4].logs.clone();
        verify(
            &RULE,
            &[
                (few(), Severity::Risk, "max_client_conn = 40"),
                (few(), Severity::Risk, "kill -HUP"),
                (
                    pgbouncer(&[]).with(|all| all.services[5].logs.clone_from(&logs)),
                    Severity::Problem,
                    "max_client_conn = 200",
                ),
                (
                    shared().with(|all| all.services[5].logs.clone_from(&logs)),
                    Severity::Problem,
                    "max_client_conn = 40",
                ),
            ],
        );
        for healthy in [pgbouncer(&[]), shared()] {
            assert!(super::super::tests_of(&RULE, &healthy).is_empty());
        }
    }
}
