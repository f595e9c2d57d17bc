//! SES-01: requests of one session wait for each other.

use crate::evidence::chains::is_session_file;
use crate::evidence::worker_insight::is_session_lock;
use crate::evidence::{LOCKS, Wait};
use crate::rule::prelude::*;
use crate::saturation::waits::stuck;

/// Share of busy workers asleep in a file lock from which on it costs \[ours\].
const LOCKED: f64 = 0.2;

pub(crate) static RULE: Rule = Rule {
    code: "SES-01",
    name: "session-lock",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::WORKERS_WAITING],
    // Workers that compile what a full OPcache could not take wait for its own lock, a file's as well.
    yields_to: &["OPC-03", "OPC-04"],
    title: "requests of one session wait for each other",
    doc: RuleDoc {
        what_it_is: "PHP's session files are locked from session_start() until the request ends. Two requests of the \
            same visitor therefore run one after the other, and each that waits occupies a worker. A page that \
            loads ten things at once from one session, or a load test with one cookie for everybody, turns the \
            whole pool into a single file.",
        how_it_shows: "Workers sleep in flock; the CPU is idle; all workers are active. Ten requests of 0.2 s with one \
            cookie take 2 s, with ten cookies 0.3 s.",
        how_it_is_confirmed: "Give every simulated visitor a cookie of their own: the limit rises.",
        what_to_write: "In the application, as soon as the session is read:\n\n    session_start(['read_and_close' => \
            true]);\n\nor session_write_close() before the slow part. In the load test let `users` be as many as \
            there are visitors.",
        references: &[
            "https://ma.ttias.be/php-session-locking-prevent-sessions-blocking-in-requests/",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let (phase, pool, locked) = stuck(evidence, LOCKED, Wait::is_lock)?;
    // A lock that the application took itself is another matter (APP-17).
    if evidence
        .share_of_session_locks()
        .is_some_and(|share| share < 0.5)
    {
        return None;
    }
    let share = locked / pool.busy.max(1.0);
    RULE.finds(Layer::App, RULE.title)
        .measured(format!("{locked:.1} of {:.1} busy workers wait for a lock", pool.busy), phase)
        .measured(pool.describe(), phase)
        .inside(evidence.seen_first(is_session_file))
        .inside(evidence.seen_waiting(|wait| LOCKS.contains(&wait)))
        .inside(evidence.seen_calls(CallKind::Lock, is_session_lock))
        .weight(share)
        .refuted_by("as many waits for locks when every visitor has a session of their own")
        .remedy(
            Advice::new(
                evidence,
                "Close the session as soon as it was read (session_write_close, read_and_close), or keep sessions in \
                 Redis; in the scenario give the load more users.",
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
    fn fires_when_workers_sleep_in_flock() {
        let case = Case::healthy()
            .machine_at(PhaseKind::Over, 0.3)
            .running(PhaseKind::Over, 1.0)
            .waiting(PhaseKind::Over, "flock", 6.5);
        check(
            case,
            expect![[r#"
            named: SES-01
            suspected app (81 %): requests of one session wait for each other
              saw 6.5 of 8.0 busy workers wait for a lock, at 240/s offered for 10 s
              saw 8.0 of at most 8 workers busy, 120.0 requests queue before them, at 240/s offered for 10 s
              do: Close the session as soon as it was read (session_write_close, read_and_close), or keep sessions in Redis; in the scenario give the load more users.
        "#]],
        );
    }

    #[test]
    fn stays_silent_without_locks() {
        stays_silent(&RULE, Case::healthy());
    }
}
