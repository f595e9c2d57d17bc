//! Workers that sleep.

use crate::evidence::Wait;
use crate::rule::prelude::*;
use crate::saturation::pool::PoolState;
use crate::saturation::waits::{Part, has_headroom};

/// Share of the time of busy workers that pauses take, from which on they are most of what a request does \[ours\].
const MOST: f64 = 0.5;
/// Workers for each core that a page which only computes needs at most (catalogue FPM-01).
const ORDINARY: f64 = 2.0;

/// Workers that do nothing on purpose, while others queue for one.
pub(crate) fn pauses(rule: &Rule, evidence: &Evidence) -> Option<Finding> {
    let part = Part::find(evidence, MOST, Wait::is_pause)?;
    let (phase, pool) = [PhaseKind::Over, PhaseKind::Knee]
        .into_iter()
        .filter_map(|kind| evidence.phase(kind))
        .filter_map(|phase| Some((phase, PoolState::read(evidence, phase)?)))
        // Where the CPU is used up, workers wait for it, and a pause only lets another one compute.
        .find(|(phase, pool)| pool.exhausted() && has_headroom(evidence, phase))?;
    let verdict = rule
        .finds(Layer::App, "workers sleep while requests wait for one")
        .waited(&part)
        .measured(pool.describe(), phase)
        .inside(evidence.seen_waiting(|wait| part.is_it(wait)))
        .inside(evidence.seen_calls(CallKind::Sleep, |_| true));
    verdict
        // A pool that is small for a page that only computes is too small for any (FPM-01).
        .suspected_if(pool.max >= ORDINARY * evidence.cpus(Layer::Php))
        .weight(part.share)
        .refuted_by("the same limit without the pause")
        .remedy(
            Advice::new(
                evidence,
                "Do not sleep in a page: answer at once and refuse what comes too often (nginx limit_req), or move what \
                 has to wait into a queue.",
            )
            .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::check_code;

    fn check(case: Case, expected: expect_test::Expect) {
        check_code("FPM-04", case, expected);
    }

    #[test]
    fn stays_silent_when_the_cpu_is_used_up_however_long_a_page_pauses_at_low_load() {
        let computing = Case::healthy()
            .pool_of(12)
            .machine_at(PhaseKind::Over, 1.0)
            .running(PhaseKind::Low, 0.1)
            .waiting(PhaseKind::Low, "sleep", 0.3)
            .running(PhaseKind::Over, 10.5)
            .waiting(PhaseKind::Over, "sleep", 1.5);
        check(
            computing,
            expect![[r#"
            named: CAP-02
            silent
        "#]],
        );
    }

    #[test]
    fn fires_when_workers_sleep_while_requests_wait_for_one() {
        let sleeping = |workers: u64| {
            Case::healthy()
                .pool_of(workers)
                .machine_at(PhaseKind::Over, 0.4)
                .running(PhaseKind::Over, 0.5)
                .waiting(PhaseKind::Over, "sleep", workers as f64 - 0.5)
        };
        check(
            sleeping(5),
            expect![[r#"
            named: FPM-04
            suspected app (80 %): workers sleep while requests wait for one
              saw sleep takes 80 % of the time of busy workers, at 240/s offered for 10 s
              saw 22.0 ms of it in each request, at 240/s offered for 10 s
              saw 5.0 of at most 5 workers busy, 120.0 requests queue before them, at 240/s offered for 10 s
              do: Do not sleep in a page: answer at once and refuse what comes too often (nginx limit_req), or move what has to wait into a queue.
        "#]],
        );
        check(
            sleeping(2),
            expect![[r#"
            named: CAP-02
            noted app (57 %): workers sleep while requests wait for one
              saw sleep takes 57 % of the time of busy workers, at 240/s offered for 10 s
              saw 7.32 ms of it in each request, at 240/s offered for 10 s
              saw 2.0 of at most 2 workers busy, 120.0 requests queue before them, at 240/s offered for 10 s
              do: Do not sleep in a page: answer at once and refuse what comes too often (nginx limit_req), or move what has to wait into a queue.
        "#]],
        );
    }
}
