//! The searches that a limit is compared with: what other tools do, on the same stacks.

use kneepoint_planner::bench::{Bench, Step};
use kneepoint_planner::simulated::SimulatedStack;
use std::time::Duration;

/// Length of a step of either search.
const STEP: Duration = Duration::from_secs(30);
/// Where both begin, and the rungs of the ladder, per second.
const RUNG_HZ: f64 = 25.0;
/// Relative distance of the highest rate that held and the lowest that did not at which the bisection ends.
const WIDTH: f64 = 0.02;
/// Rates beyond which no stack of these goes: a search that gets there ends.
const MOST_HZ: f64 = 10_000.0;

fn holds(stack: &mut SimulatedStack, rate_hz: f64, seed: u64) -> bool {
    let mut step = Step::at_rate("", rate_hz, STEP, seed);
    step.may_abort = false;
    let point = match stack.measure("base", &step) {
        Ok(point) => point,
        Err(never) => match never {},
    };
    let slo = stack.slo();
    point.violating_share() <= slo.violating_share() && point.error_share() <= slo.errors
}

/// Doubles the rate until the SLO does not hold, then bisects to 2 %, as the `cliff` crate does. The middle of what is
/// left, per second.
pub(super) fn bisection(stack: &mut SimulatedStack, seed: u64) -> f64 {
    let (mut low, mut high) = (RUNG_HZ, RUNG_HZ);
    let mut seeds = seed..;
    let mut try_at = |rate| holds(stack, rate, seeds.next().unwrap_or(seed));
    while high < MOST_HZ && try_at(high) {
        low = high;
        high *= 2.0;
    }
    while high - low > WIDTH * low {
        let middle = f64::midpoint(low, high);
        if try_at(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Climbs in equal rungs until the SLO does not hold. The middle of the last two, per second.
pub(super) fn ladder(stack: &mut SimulatedStack, seed: u64) -> f64 {
    let mut rate_hz = RUNG_HZ;
    let mut seeds = seed..;
    while rate_hz < MOST_HZ && holds(stack, rate_hz, seeds.next().unwrap_or(seed)) {
        rate_hz += RUNG_HZ;
    }
    rate_hz - RUNG_HZ / 2.0
}
