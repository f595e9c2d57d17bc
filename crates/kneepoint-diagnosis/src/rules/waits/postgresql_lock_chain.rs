//! PG-03: requests wait for one another's locks in PostgreSQL.

use crate::evidence::chains::{Queued, is_of_database};
use crate::rule::prelude::*;
use kneepoint_model::LockKind;

/// Share of the busy workers that wait for a lock of the database, from which on it is what binds \[ours\].
const BINDS: f64 = 0.2;
/// The same from which on it is worth a note \[ours\].
const NOTICEABLE: f64 = 0.05;

pub(crate) static RULE: Rule = Rule {
    code: "PG-03",
    name: "postgresql-lock-chain",
    since: "0.1.0",
    layers: &[Layer::Db],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Server("postgresql"),
    requires: &[metric::WORKERS_WAITING],
    yields_to: &["SES-04"],
    title: "requests wait for one another's locks in PostgreSQL",
    doc: RuleDoc {
        what_it_is: "A statement that changes a row locks it until its transaction ends, and so does SELECT ... FOR UPDATE; \
            an advisory lock is held until somebody gives it back. Another transaction that wants the same row or lock \
            waits, and others wait behind it. When the first one meanwhile asks another service, or its page is slow, all of \
            them wait for that.",
        how_it_shows: "Workers wait in recv towards the database while its CPU is idle; pg_blocking_pids names who stands \
            before each; sessions are `idle in transaction` for longer than a page takes.",
        how_it_is_confirmed: "Let each request change a row of its own for one run: the waits go away and the limit rises.",
        what_to_write: "Change the shared row last, right before COMMIT, and do nothing else within the transaction. End \
            what somebody forgot, for the application's role alone, since migrations may wait longer:\n\n    ALTER ROLE app \
            SET lock_timeout = '2s';\n    ALTER ROLE app SET idle_in_transaction_session_timeout = '10s';\n\nStatements \
            then fail with an error that the page must handle.",
        references: &[
            "https://www.postgresql.org/docs/current/explicit-locking.html",
            "https://www.postgresql.org/docs/current/functions-info.html",
            "https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-LOCK-TIMEOUT",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let queued = evidence
        .queued_behind(is_of_database)
        .filter(|queued| queued.share >= NOTICEABLE)?;
    let Queued {
        phase,
        workers,
        share,
        most,
    } = queued;
    let title = match (most.kind, most.object.as_str()) {
        (_, "") => RULE.title.to_owned(),
        (LockKind::Named, name) => format!("{}: {name}", RULE.title),
        (_, table) => format!("{} on {table}", RULE.title),
    };
    let mut verdict = RULE.finds(Layer::Db, title).measured(
        format!(
            "{workers:.1} workers wait for a lock, {} of the busy ones",
            format_share(share)
        ),
        phase,
    );
    if let Some(idle) = phase.series.mean(Layer::Db, metric::DB_IDLE_IN_TRANSACTION) {
        verdict = verdict.measured(format!("{idle:.1} sessions idle in a transaction"), phase);
    }
    if let Some(cores) = phase.cores_used(Layer::Db) {
        verdict = verdict.measured(format!("the database uses {cores:.2} cores"), phase);
    }
    let first = evidence.first_in_words(is_of_database);
    let begin = first.map_or_else(String::new, |first| format!("Begin with {first}. "));
    verdict
        .inside(evidence.seen_first(is_of_database))
        .inside(evidence.seen_waiting(|wait| wait == "recv db"))
        .suspected_if(share >= BINDS)
        .weight(share)
        .refuted_by("the same limit where each request changes a row of its own")
        .remedy(
            Advice::new(
                evidence,
                format!(
                    "{begin}Change what others want right before COMMIT, and do nothing else within the transaction; give each \
                     visitor or page a row or a lock of its own; end forgotten transactions \
                     (idle_in_transaction_session_timeout)."
                ),
            )
            .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::place;
    use kneepoint_model::{LockChain, LockChains};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    /// So many of eight workers wait for a row that one request holds.
    fn waiting(workers: f64) -> Case {
        let chain = LockChain {
            kind: LockKind::Row,
            object: "stock".to_owned(),
            doing: "in recv 10.0.0.9:80".to_owned(),
            route: "POST /checkout".to_owned(),
            place: Some(place("App\\Payment::charge", "app/Payment.php", 31)),
            share: 1.0,
            longest: 4,
            circle: false,
        };
        Case::healthy()
            .machine_at(PhaseKind::Over, 0.3)
            .running(PhaseKind::Over, 8.0 - workers)
            .waiting(PhaseKind::Over, "recv db", workers)
            .waiting(PhaseKind::Over, "recv cache", 0.0)
            .with(|evidence| {
                evidence.chains = LockChains {
                    phase: "over".to_owned(),
                    looks: 80,
                    waiting: workers,
                    chains: vec![chain],
                };
            })
    }

    #[test]
    fn fires_with_who_holds_the_row() {
        check(
            waiting(6.0),
            expect![[r#"
            named: PG-03
            suspected db (75 %): requests wait for one another's locks in PostgreSQL on stock
              saw 6.0 workers wait for a lock, 75 % of the busy ones, at 240/s offered for 10 s
              saw the database uses 0.25 cores, at 240/s offered for 10 s
              saw 100 % of those who waited were behind POST /checkout, App\Payment::charge at app/Payment.php:31 (in recv 10.0.0.9:80), which holds stock; up to 4 in a row, looked at 80 times, at 240/s offered for 10 s
              do: Begin with POST /checkout, App\Payment::charge at app/Payment.php:31 (in recv 10.0.0.9:80). Change what others want right before COMMIT, and do nothing else within the transaction; give each visitor or page a row or a lock of its own; end forgotten transactions (idle_in_transaction_session_timeout).
        "#]],
        );
    }

    #[test]
    fn only_notes_a_few_waits() {
        check(
            waiting(0.8).machine_at(PhaseKind::Over, 0.96),
            expect![[r#"
                named: CAP-02
                noted db (10.0 %): requests wait for one another's locks in PostgreSQL on stock
                  saw 0.8 workers wait for a lock, 10.0 % of the busy ones, at 240/s offered for 10 s
                  saw the database uses 0.25 cores, at 240/s offered for 10 s
                  saw 100 % of those who waited were behind POST /checkout, App\Payment::charge at app/Payment.php:31 (in recv 10.0.0.9:80), which holds stock; up to 4 in a row, looked at 80 times, at 240/s offered for 10 s
                  do: Begin with POST /checkout, App\Payment::charge at app/Payment.php:31 (in recv 10.0.0.9:80). Change what others want right before COMMIT, and do nothing else within the transaction; give each visitor or page a row or a lock of its own; end forgotten transactions (idle_in_transaction_session_timeout).
            "#]],
        );
    }

    #[test]
    fn stays_silent_when_nobody_waits_for_locks() {
        stays_silent(&RULE, Case::healthy());
        stays_silent(
            &RULE,
            Case::healthy().with(|evidence| "over".clone_into(&mut evidence.chains.phase)),
        );
    }
}
