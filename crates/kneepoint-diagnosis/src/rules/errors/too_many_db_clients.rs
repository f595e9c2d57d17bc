//! PG-01: PostgreSQL has no connection slot left.

use crate::causes::database::no_slot_left;
use crate::rule::prelude::*;

/// Memory a PostgreSQL connection may cost; beyond this many a pooler is the better answer \[ours\].
const REASONABLE: f64 = 500.0;

pub(crate) static RULE: Rule = Rule {
    code: "PG-01",
    name: "too-many-db-clients",
    since: "0.1.0",
    layers: &[Layer::Db],
    stage: RuleStage::Errors,
    signal: UseSignal::Error,
    applies_to: AppliesTo::Server("postgresql"),
    requires: &[],
    yields_to: &[],
    title: "PostgreSQL has no connection slot left",
    doc: RuleDoc {
        what_it_is: "A database accepts a fixed number of connections (PostgreSQL: 100 by default, three of them for \
            the superuser). Every PHP worker can hold one, and queue workers, cron jobs and other hosts hold some \
            too. When more are wanted than there are, connecting fails and the page is an error.",
        how_it_shows: "The log says `sorry, too many clients already` or `remaining connection slots are reserved`; \
            the number of connections stands at its maximum while PHP still has idle workers.",
        how_it_is_confirmed: "Add up the workers of all hosts and compare with max_connections. Raise it, or lower the \
            workers: the errors go away.",
        what_to_write: "In postgresql.conf, more than all workers together, with some to spare:\n\n    max_connections = \
            200\n\nWith many hosts rather put PgBouncer in front (pool_mode = transaction, default_pool_size = two to \
            four times the database's cores). With pool_mode = transaction set PDO::ATTR_EMULATE_PREPARES => true, since \
            prepared statements, session settings, LISTEN and advisory locks do not outlive a transaction.",
        references: &[
            "https://www.pgbouncer.org/config.html",
            "https://wolf-tech.io/blog/database-connection-pool-math-symfony-postgresql-pgbouncer",
        ],
    },
    check,
};

const TEXT: &str = "Let the database accept more connections than all PHP workers hold together; with many hosts put a \
    pooler such as PgBouncer in front instead (with pool_mode = transaction, PDO needs ATTR_EMULATE_PREPARES).";

fn check(evidence: &Evidence) -> Option<Finding> {
    no_slot_left(&RULE, evidence, REASONABLE, TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    #[test]
    fn fires_when_connections_are_refused() {
        let case = Case::healthy()
            .set(Layer::Db, "max_connections", "6")
            .everywhere(Layer::Db, metric::DB_CONNECTIONS, "", 6.0)
            .log(
                PhaseKind::Knee,
                Layer::Db,
                LogKind::TooManyDbClients,
                40,
                "FATAL: sorry, too many clients already",
            );
        check(
            case,
            expect![[r#"
            named: PG-01
            suspected db (0 %): PostgreSQL has no connection slot left
              saw db.max_connections = 6
              saw 8 PHP workers, each of which can hold a connection
              saw at most 6 of 6 connections held
              saw 40 connections refused: FATAL: sorry, too many clients already, at 190/s offered for 10 s
              set db.max_connections = 30
        "#]],
        );
    }

    #[test]
    fn stays_silent_with_slots_to_spare() {
        stays_silent(&RULE, Case::healthy());
    }
}
