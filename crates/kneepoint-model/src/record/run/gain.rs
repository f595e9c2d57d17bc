//! What all changes together gained, and what of it a restart leaves.

use super::Run;
use crate::statistics::Interval;

impl Run {
    /// R* of best over R* of base with a conservative interval (quotient of the interval ends); `None`
    /// unless both were measured.
    #[must_use]
    pub fn gain(&self) -> Option<Interval> {
        let rate = |arm| {
            let limit = self.limit(arm);
            limit
                .filter(|it| it.missed_alone.is_none())
                .map(|it| it.rate_hz)
        };
        let (base, best) = (rate("base")?, rate("best")?);
        Some(Interval {
            low: best.low / base.high,
            estimate: best.estimate / base.estimate,
            high: best.high / base.low.max(f64::MIN_POSITIVE),
        })
    }

    /// Share of the changes' gain that is there after a fresh start, 1 where a restart takes nothing; `None` unless
    /// base against best and the restart were both compared, and the whole of the restart's interval says that best had
    /// gained before it.
    ///
    /// With G, the proved ratio of fresh best over base, and r, fresh best over the one that stood, best gained G / r
    /// before the restart: the share is (G - 1) / (G / r - 1). The interval is that of r; what it does not know of G
    /// hardly matters, since G stands above and below.
    #[must_use]
    pub fn kept_gain(&self) -> Option<Interval> {
        let gain = self.proof.as_ref()?.ratio?.estimate;
        let ratio = self.restarted.as_ref()?.ratio?;
        let kept = |ratio: f64| {
            let before = gain / ratio - 1.0;
            (before > 0.0).then(|| (gain - 1.0) / before)
        };
        Some(Interval {
            low: kept(ratio.low)?,
            estimate: kept(ratio.estimate)?,
            high: kept(ratio.high)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Effect;

    /// A run whose fresh best is `gain` times the base, and `restarted` times what it was before its restart.
    fn check(gain: f64, restarted: Option<f64>, kept: Option<f64>) {
        let effect = |estimate: f64| Effect {
            ratio: Some(Interval {
                low: estimate * 0.98,
                estimate,
                high: estimate * 1.02,
            }),
            ..Effect::default()
        };
        let run = Run {
            proof: Some(effect(gain)),
            restarted: restarted.map(effect),
            ..Run::default()
        };
        let found = run.kept_gain();
        assert_eq!(
            found.map(|kept| (kept.estimate * 1e3).round() / 1e3),
            kept,
            "{gain} after {restarted:?}"
        );
        if let Some(found) = found {
            assert!(
                found.low < found.estimate && found.estimate < found.high,
                "{found:?}"
            );
        }
    }

    #[test]
    fn the_gain_that_a_restart_leaves_is_what_is_proved_over_what_was_there_before() {
        check(9.0, Some(1.0), Some(1.0));
        // Ten times before, nine times after it: eight of nine.
        check(9.0, Some(0.9), Some(0.889));
        // Twice before, one and a half times after it: half.
        check(1.5, Some(0.75), Some(0.5));
        // More than before is no more than a number above 1.
        check(9.0, Some(1.1), Some(1.114));
    }

    #[test]
    fn where_nothing_was_gained_before_a_restart_nothing_is_kept() {
        check(1.05, Some(1.2), None);
        check(9.0, None, None);
    }
}
