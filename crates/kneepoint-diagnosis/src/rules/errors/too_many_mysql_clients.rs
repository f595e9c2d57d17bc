//! MYS-01: MariaDB has no connection slot left.

use crate::causes::database::no_slot_left;
use crate::rule::prelude::*;

/// Connections beyond which a proxy such as ProxySQL is the better answer \[ours\]: each is a thread with buffers.
const REASONABLE: f64 = 1000.0;

pub(crate) static RULE: Rule = Rule {
    code: "MYS-01",
    name: "too-many-mysql-clients",
    since: "0.1.0",
    layers: &[Layer::Db],
    stage: RuleStage::Errors,
    signal: UseSignal::Error,
    applies_to: AppliesTo::Server("mariadb"),
    requires: &[],
    yields_to: &[],
    title: "MariaDB has no connection slot left",
    doc: RuleDoc {
        what_it_is: "MariaDB and MySQL accept a fixed number of connections, 151 by default. Every PHP worker can hold \
            one, and queue workers, cron jobs and other hosts hold some too. When more are wanted than there are, \
            connecting fails and the page is an error.",
        how_it_shows: "PHP says `SQLSTATE[HY000] [1040] Too many connections`; Connection_errors_max_connections grows, \
            and Max_used_connections equals max_connections.",
        how_it_is_confirmed: "Add up the workers of all hosts and compare with max_connections. Raise it, or lower the \
            workers: the errors go away.",
        what_to_write: "In the section [mysqld], more than all workers together, with some to spare:\n\n    \
            max_connections = 300\n\nWith many hosts rather put ProxySQL in front.",
        references: &[
            "https://mariadb.com/docs/server/ha-and-performance/optimization-and-tuning/system-variables/handling-too-many-connections",
            "https://mariadb.com/docs/server/ha-and-performance/optimization-and-tuning/system-variables/server-system-variables#max_connections",
        ],
    },
    check,
};

const TEXT: &str = "Let the database accept more connections than all PHP workers hold together; with many hosts put a \
    proxy such as ProxySQL in front instead.";

fn check(evidence: &Evidence) -> Option<Finding> {
    no_slot_left(&RULE, evidence, REASONABLE, TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fires_when_connections_are_refused() {
        let case = Case::healthy()
            .on_mariadb()
            .set(Layer::Db, "max_connections", "6")
            .everywhere(Layer::Db, metric::DB_CONNECTIONS, "", 6.0)
            .log(
                PhaseKind::Over,
                Layer::Php,
                LogKind::TooManyDbClients,
                40,
                "SQLSTATE[HY000] [1040] Too many connections",
            );
        verify(
            &RULE,
            case,
            expect![[r#"
            named: MYS-01
            suspected db (0 %): MariaDB has no connection slot left
              saw db.max_connections = 6
              saw 8 PHP workers, each of which can hold a connection
              saw at most 6 of 6 connections held
              saw 40 connections refused: SQLSTATE[HY000] [1040] Too many connections, at 240/s offered for 10 s
              set db.max_connections = 30
        "#]],
        );
    }

    #[test]
    fn stays_silent_on_postgresql_and_with_slots_to_spare() {
        stays_silent(&RULE, Case::healthy());
        stays_silent(&RULE, Case::healthy().on_mariadb());
    }
}
