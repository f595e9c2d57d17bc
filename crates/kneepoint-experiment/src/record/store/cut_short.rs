//! Puts together what there is of a step whose end was never written.

use super::InFlight;
use kneepoint_model::{LatencyHistogram, LoadPoint, Second, Validity};

/// What there is of a step whose end was never written.
#[derive(Debug, Default)]
pub(super) struct CutShort {
    arm: String,
    seconds: Vec<Second>,
    response: LatencyHistogram,
}

impl CutShort {
    /// Takes its next second; the first of another step begins anew.
    pub(super) fn second(&mut self, it: InFlight) {
        let InFlight {
            arm,
            second,
            response,
        } = it;
        let follows = self
            .seconds
            .last()
            .is_some_and(|last| last.at_s < second.at_s);
        if !follows || arm != self.arm {
            *self = Self {
                arm,
                ..Self::default()
            };
        }
        if let Some(response) = response {
            self.response.merge(&response);
        }
        self.seconds.push(second);
    }

    /// The arm and what its seconds add up to; `None` where there are none.
    pub(super) fn point(self) -> Option<(String, LoadPoint)> {
        let length = self.seconds.len();
        if length == 0 {
            return None;
        }
        let mut point = LoadPoint {
            window_s: length as f64,
            response: self.response,
            validity: Validity::Invalid {
                because: vec![format!(
                    "the program was ended in the middle of this step: what is here are the {length} s of it that were finished"
                )],
            },
            ..LoadPoint::default()
        };
        for second in &self.seconds {
            point.arrivals += second.offered;
            point.good += second.good;
            point.outcomes.merge(&second.outcomes);
        }
        point.offered_hz = point.arrivals as f64 / point.window_s;
        point.seconds = self.seconds;
        Some((self.arm, point))
    }
}
