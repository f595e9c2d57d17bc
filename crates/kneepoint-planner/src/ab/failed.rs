//! Which arm of a comparison refuses more: what it serves does not speak for it then.

use super::Side;
use kneepoint_model::LoadPoint;

/// By how much a larger share of the requests of one arm must fail for what it serves not to speak for it \[ours\].
const FAILS_MORE: f64 = 0.01;

/// What failed of each arm, by the steps alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failed([Asked; 2]);

/// Requests, and how many failed.
#[derive(Debug, Clone, Copy, Default)]
struct Asked {
    requests: u64,
    failed: u64,
}

impl Asked {
    /// The share that failed, and its variance.
    fn failed(self) -> (f64, f64) {
        let requests = self.requests.max(1) as f64;
        let share = (self.failed as f64 / requests).min(1.0);
        (share, share * (1.0 - share) / requests)
    }
}

impl Failed {
    /// Takes in a step of one arm.
    pub(super) fn take(&mut self, side: Side, point: &LoadPoint) {
        let asked = &mut self.0[side as usize];
        asked.requests += point.arrivals;
        asked.failed += point.outcomes.failed();
    }

    /// Whether a larger share fails on this side than on the other, by more than chance.
    pub(crate) fn more(&self, side: Side) -> bool {
        let [own, other] = match side {
            Side::A => [self.0[0], self.0[1]],
            Side::B => [self.0[1], self.0[0]],
        };
        let ((own, by), (other, at)) = (own.failed(), other.failed());
        own - other > FAILS_MORE + 2.0 * (by + at).sqrt()
    }

    /// Share of the requests of this side that failed.
    pub(crate) fn share(&self, side: Side) -> f64 {
        self.0[side as usize].failed().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::Outcome;

    #[test]
    fn the_arm_that_refuses_more_is_known() {
        let check = |of_each: [u64; 2], expected: [bool; 2]| {
            let mut failed = Failed::default();
            for (side, count) in [(Side::A, of_each[0]), (Side::B, of_each[1])] {
                let mut point = LoadPoint {
                    arrivals: 1000 + count,
                    ..LoadPoint::default()
                };
                let outcomes = &mut point.outcomes.by_outcome;
                outcomes.insert(Outcome::HttpError, count);
                failed.take(side, &point);
            }
            let told = [Side::A, Side::B].map(|side| failed.more(side));
            assert_eq!(told, expected, "{of_each:?}");
        };
        check([0, 400], [false, true]);
        check([400, 0], [true, false]);
        check([400, 400], [false, false]);
        // A few are chance.
        check([0, 8], [false, false]);
    }
}
