//! How wide the interval of R* is, and why: what a search tells where it is wider than was asked.

use super::LimitSearch;
use kneepoint_model::Interval;
use kneepoint_model::units::{format_precision, format_share};

/// Relative half width from which on an interval says little.
const TOO_WIDE: f64 = 0.1;
/// Steps from which on it is what they scatter by that keeps an interval wide, and below which it is their number: as many
/// as a search takes at least that has the time \[ours\].
const ENOUGH_STEPS: usize = 10;

/// Whether the interval of R* as the machine was says little of it. At reference speed it may be narrow all the same.
pub(super) fn too_wide(rate_hz: &Interval) -> bool {
    rate_hz.relative_half_width() > TOO_WIDE
}

impl LimitSearch {
    /// Whether the interval says little although there were steps enough.
    pub(super) fn is_noise_to_blame(&self) -> bool {
        too_wide(&self.estimate().rate_hz) && self.steps.len() >= ENOUGH_STEPS
    }

    /// Says that the time is over and the interval wider than was asked, and why: of the last steps, where there were more
    /// after a confirming stretch.
    pub(super) fn warn_of_the_width(&mut self) {
        let fitted = self.estimate();
        let half = fitted.rate_hz.relative_half_width();
        let width = format_precision(half);
        let steps = match self.steps.len() {
            1 => "1 step".to_owned(),
            steps => format!("{steps} steps"),
        };
        self.why_wide = Some(if self.is_noise_to_blame() {
            format!(
                "the load time ran out with the interval still at {width}: too noisy for a narrower interval \
                 within the budget (R* scatters by {} from step to step)",
                format_share(fitted.step_sd)
            )
        } else if too_wide(&fitted.rate_hz) {
            format!(
                "the interval is still {width}, from {steps}: the budget was too small for a narrower interval; about {:.0} times \
                 the time under load would make it +-{}",
                (half / TOO_WIDE).powi(2).max(2.0),
                format_share(TOO_WIDE)
            )
        } else {
            format!("the load time ran out with the interval still at {width}, from {steps}")
        });
    }
}
