//! PG-03: nothing ends a transaction that somebody forgot.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "PG-03",
    name: "postgresql-idle-in-transaction",
    title: "Nothing ends a transaction that somebody forgot",
    what_it_is: "A request that calls somebody else within a transaction, or dies in it, keeps its locks: others wait behind \
        it. idle_in_transaction_session_timeout ends such sessions.",
    how_it_shows: "pg_stat_activity shows sessions `idle in transaction` for minutes, and others wait for their locks.",
    unless: "The application never waits within a transaction.",
    what_to_write: "idle_in_transaction_session_timeout = 10s",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Postgresql) {
        let value = service
            .settings
            .or("idle_in_transaction_session_timeout", "0");
        if value.seconds() == Some(0.0) && !service.settings.is_empty() {
            RULE.at(snapshot, at, Severity::Note)
                .value("idle_in_transaction_session_timeout", &value)
                .cost("nothing until it happens; then every request that needs the same row")
                .fix(Fix::line(
                    service,
                    &value,
                    "idle_in_transaction_session_timeout = '10s'",
                ))
                .tell(found);
        }
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
                Case::healthy().set(4, "idle_in_transaction_session_timeout", "0"),
                Severity::Note,
                "10s",
            )],
        );
    }
}
