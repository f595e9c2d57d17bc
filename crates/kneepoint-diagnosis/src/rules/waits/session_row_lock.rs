//! SES-04: a session that the database keeps locked for a whole request.

use crate::evidence::chains::{Queued, is_of_database};
use crate::rule::prelude::*;
use kneepoint_model::LockChain;

/// Share of the busy workers that wait from which on it is what binds \[ours\].
const BINDS: f64 = 0.2;
/// The same from which on it is worth a note \[ours\].
const NOTICEABLE: f64 = 0.05;
/// Share of those who wait for the database that open a session meanwhile, from which on what they wait for is the session's
/// \[ours\].
const OPENING: f64 = 0.5;

pub(crate) static RULE: Rule = Rule {
    code: "SES-04",
    name: "session-row-lock",
    since: "0.1.0",
    layers: &[Layer::Db, Layer::App],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::WORKERS_WAITING],
    yields_to: &[],
    title: "requests of one session wait for its row in the database",
    doc: RuleDoc {
        what_it_is: "Sessions in a database are locked as session files are: the row of the session, or a lock with its \
            name, is taken by session_start() and given back when the request ends. Requests of one visitor run one after \
            the other, each that waits occupies a worker and a connection, and a transaction stays open as long as a page.",
        how_it_shows: "Workers wait for the database in session_start(), for a SELECT by primary key that is slow only under \
            load; the database is idle, and tells of a lock on the table of sessions.",
        how_it_is_confirmed: "Give every simulated visitor a cookie of their own: the limit rises.",
        what_to_write: "In the application, as soon as the session is read:\n\n    session_write_close();\n\nor without the \
            lock, where nobody counts on it (Symfony):\n\n    new PdoSessionHandler($dsn, ['lock_mode' => \
            PdoSessionHandler::LOCK_NONE])\n\nNo session where none is needed: pages for guests, and the API.",
        references: &[
            "https://symfony.com/doc/current/session.html",
            "public reports on Symfony's PdoSessionHandler",
        ],
    },
    check,
};

/// Whether a chain is one of sessions, by the name of their table.
fn names_sessions(chain: &LockChain) -> bool {
    is_of_database(chain) && chain.object.to_ascii_lowercase().contains("session")
}

fn check(evidence: &Evidence) -> Option<Finding> {
    let opening = evidence.share_of_waits(
        |wait| wait == "recv db",
        |function| function.starts_with("session_"),
    );
    // Where a lock has no name that tells, the stacks do.
    let of_sessions = opening.is_some_and(|share| share >= OPENING);
    let which = |chain: &LockChain| names_sessions(chain) || (of_sessions && is_of_database(chain));
    let Queued {
        phase,
        workers,
        share,
        most,
    } = evidence
        .queued_behind(which)
        .filter(|queued| queued.share >= NOTICEABLE)?;
    let title = match most.object.as_str() {
        "" => RULE.title.to_owned(),
        object => format!("{}: {object}", RULE.title),
    };
    RULE.finds(Layer::Db, title)
        .measured(
            format!(
                "{workers:.1} workers wait for a session's lock, {} of the busy ones",
                format_share(share)
            ),
            phase,
        )
        .inside(evidence.seen_first(which))
        .inside(evidence.seen_waiting(|wait| wait == "recv db"))
        .suspected_if(share >= BINDS)
        .weight(share)
        .refuted_by("as many waits for locks when every visitor has a session of their own")
        .remedy(
            Advice::new(
                evidence,
                "Close the session as soon as it was read (session_write_close), or keep sessions without a lock (lock_mode \
                 none) or elsewhere; in the scenario give the load more users.",
            )
            .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{builtin, met, place, sampled};
    use kneepoint_model::{LockChains, LockKind};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    /// Six of eight workers wait for what one request holds.
    fn waiting(object: &str, opens: &str) -> Case {
        let at = || place("App\\Front::begin", "app/Front.php", 8);
        let chain = LockChain {
            kind: LockKind::Row,
            object: object.to_owned(),
            doing: "in sleep".to_owned(),
            route: "GET /cart".to_owned(),
            place: Some(place("App\\Cart::show", "app/Cart.php", 31)),
            share: 1.0,
            longest: 6,
            circle: false,
        };
        let stacks = sampled(
            50,
            vec![at(), builtin(opens), builtin("[recv db]")],
            vec![met("GET /cart", &[0, 1, 2], 400)],
        );
        Case::healthy()
            .machine_at(PhaseKind::Over, 0.3)
            .running(PhaseKind::Over, 2.0)
            .waiting(PhaseKind::Over, "recv db", 6.0)
            .waiting(PhaseKind::Over, "recv cache", 0.0)
            .with(|evidence| {
                evidence.stacks = Some(stacks);
                evidence.chains = LockChains {
                    phase: "over".to_owned(),
                    looks: 80,
                    waiting: 6.0,
                    chains: vec![chain],
                };
            })
    }

    #[test]
    fn fires_with_who_holds_the_session() {
        check(
            waiting("sessions", "PDOStatement::execute"),
            expect![[r#"
            named: SES-04
            suspected db (75 %): requests of one session wait for its row in the database: sessions
              saw 6.0 workers wait for a session's lock, 75 % of the busy ones, at 240/s offered for 10 s
              saw 100 % of those who waited were behind GET /cart, App\Cart::show at app/Cart.php:31 (in sleep), which holds sessions; up to 6 in a row, looked at 80 times, at 240/s offered for 10 s
              saw waiting there: GET /cart, App\Front::begin at app/Front.php:8, 100 % of 400 stacks, sampled 50 times a second, at 240/s offered for 10 s
              do: Close the session as soon as it was read (session_write_close), or keep sessions without a lock (lock_mode none) or elsewhere; in the scenario give the load more users.
        "#]],
        );
    }

    #[test]
    fn a_lock_without_a_telling_name_is_known_by_who_waits() {
        check(
            waiting("kv", "session_start"),
            expect![[r#"
            named: SES-04
            suspected db (75 %): requests of one session wait for its row in the database: kv
              saw 6.0 workers wait for a session's lock, 75 % of the busy ones, at 240/s offered for 10 s
              saw 100 % of those who waited were behind GET /cart, App\Cart::show at app/Cart.php:31 (in sleep), which holds kv; up to 6 in a row, looked at 80 times, at 240/s offered for 10 s
              saw waiting there: GET /cart, App\Front::begin at app/Front.php:8, 100 % of 400 stacks, sampled 50 times a second, at 240/s offered for 10 s
              do: Close the session as soon as it was read (session_write_close), or keep sessions without a lock (lock_mode none) or elsewhere; in the scenario give the load more users.
        "#]],
        );
    }

    #[test]
    fn leaves_other_rows_to_others() {
        check(
            waiting("stock", "PDOStatement::execute"),
            expect![[r#"
                named: PG-03
                silent
            "#]],
        );
        stays_silent(&RULE, Case::healthy());
    }
}
