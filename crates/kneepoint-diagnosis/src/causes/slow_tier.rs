//! A tier that requests wait for.

use crate::evidence::{CPU_HEADROOM, Wait};
use crate::rule::prelude::*;
use crate::saturation::pool::PoolState;
use crate::saturation::waits::Part;
use kneepoint_model::Remedy;

/// Share of the time of busy workers that waits take, from which on they are most of what a request does \[ours\].
const MOST: f64 = 0.5;

/// Requests that wait for a tier most of their time, whether or not the pool is full: where an SLO of latency binds, none
/// need be.
pub(crate) fn mostly_waits(rule: &Rule, evidence: &Evidence) -> Option<Finding> {
    let is_tier = |wait: &Wait| matches!(wait.layer(), Some(Layer::Cache | Layer::Db));
    let part = Part::find(evidence, MOST, |wait| is_tier(wait) && !wait.is_connect())?;
    let layer: Layer = part.peer().parse().ok()?;
    let cpu = evidence.cpu_use(evidence.stressed()?)?;
    if cpu.share >= CPU_HEADROOM {
        return None;
    }
    // In a small pool that is used up its size is the matter, as long as the tier answers as fast as it does alone.
    let small = PoolState::read(evidence, evidence.stressed()?)
        .is_some_and(|pool| pool.exhausted() && !pool.is_ample(evidence));
    let mut verdict = rule
        .finds(
            layer,
            format!(
                "requests wait for {layer} {} of their time",
                format_share(part.share)
            ),
        )
        .waited(&part);
    if let Some(cores) = part.phase.cores_used(layer) {
        verdict = verdict.measured(format!("{layer} uses {cores:.2} cores"), part.phase);
    }
    verdict
        .inside(evidence.seen_waiting(|wait| part.is_it(wait)))
        .inside(evidence.seen_longest(CallKind::Query))
        .suspected_if(!small || part.congested(evidence))
        .weight(part.share)
        .refuted_by(format!("the same limit when {layer} answers at once"))
        .remedy(slow_peer(evidence, layer))
        .done()
}

/// What to do about a tier that answers slowly.
pub(crate) fn slow_peer(evidence: &Evidence, layer: Layer) -> Remedy {
    let text = format!(
        "Look for what makes {layer} slow (locks, missing indexes, slow commands), and set timeouts. More workers help only \
         when its answers do not get slower with them."
    );
    Advice::new(evidence, text).build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::check_code;

    fn check(case: Case, expected: expect_test::Expect) {
        check_code("FPM-04", case, expected);
    }

    #[test]
    fn fires_when_requests_mostly_wait_though_the_pool_has_room() {
        let case = Case::healthy()
            .machine_at(PhaseKind::Over, 0.3)
            .running(PhaseKind::Over, 0.7)
            .running(PhaseKind::Knee, 0.5)
            .waiting(PhaseKind::Knee, "recv db", 2.5);
        check(
            case,
            expect![[r#"
            named: FPM-04, FPM-01
            suspected db (79 %): requests wait for db 79 % of their time
              saw recv db takes 79 % of the time of busy workers, at 190/s offered for 10 s
              saw 13.2 ms of it in each request, at 190/s offered for 10 s
              saw db uses 0.23 cores, at 190/s offered for 10 s
              do: Look for what makes db slow (locks, missing indexes, slow commands), and set timeouts. More workers help only when its answers do not get slower with them.
        "#]],
        );
    }
}
