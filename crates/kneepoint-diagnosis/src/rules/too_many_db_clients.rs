//! PG-01: the database has no connection slot left.

use crate::pool::SPARE_CONNECTIONS;
use crate::rules::prelude::*;

/// Share of the slots from which on they count as used up: a few are reserved for the superuser (catalogue PG-01).
const USED_UP: f64 = 0.97;
/// Memory a PostgreSQL connection may cost; beyond this many a pooler is the better answer \[prop\].
const REASONABLE: f64 = 500.0;

pub(crate) static RULE: Rule = Rule {
    code: "PG-01",
    name: "too-many-db-clients",
    since: "0.1.0",
    layers: &[Layer::Db],
    stage: Stage::Errors,
    signal: Signal::Error,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &[],
    title: "the database has no connection slot left",
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
            four times the database's cores).",
        references: &[
            "https://www.pgbouncer.org/config.html",
            "https://wolf-tech.io/blog/database-connection-pool-math-symfony-postgresql-pgbouncer",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let refused = evidence.logged(&[Layer::Db, Layer::Php], LogKind::TooManyDbClients);
    let slots = evidence
        .stack
        .number(Layer::Db, "max_connections")
        .or(evidence.latest(Layer::Db, metric::DB_MAX_CONNECTIONS))?;
    let held = evidence
        .largest(Layer::Db, metric::DB_CONNECTIONS)
        .unwrap_or(0.0);
    if refused.is_none() && held < USED_UP * slots {
        return None;
    }
    let workers = evidence
        .stack
        .tier(Layer::Php)
        .and_then(|tier| tier.pool.as_ref())
        .map_or(slots, |pool| pool.max_workers as f64);
    let wanted = ((workers.max(2.0 * slots) + SPARE_CONNECTIONS) / 10.0).ceil() * 10.0;
    let mut verdict = RULE
        .finds(Layer::Db, RULE.title)
        .configured(evidence.quote(Layer::Db, "max_connections"))
        .configured(format!(
            "{workers:.0} PHP workers, each of which can hold a connection"
        ))
        .under(
            format!("at most {held:.0} of {slots:.0} connections held"),
            String::new(),
        )
        .suspected_if(refused.is_some());
    if let Some(refused) = refused {
        verdict = verdict.under(
            format!("{} connections refused: {}", refused.count, refused.example),
            refused.conditions,
        );
    }
    let text = "Let the database accept more connections than all PHP workers hold together; with many hosts put a \
                pooler such as PgBouncer in front instead.";
    verdict
        .refuted_by("as many refusals with slots for every worker")
        .remedy(
            Advice::new(evidence, text)
                .set(
                    Layer::Db,
                    "max_connections",
                    wanted.min(REASONABLE.max(slots)),
                )
                .build(),
        )
        .done()
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
            suspected db (0 %): the database has no connection slot left
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
