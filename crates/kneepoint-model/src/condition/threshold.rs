//! Thresholds that decide the exit code of a run: `p95<200ms`, `errors<0.1%`, `rate>=490/s`, `p99<500ms over 10s`.
//!
//! A threshold without `over` is about the whole window that a [`LoadPoint`] reports. With `over`, it is about every
//! stretch of that many consecutive seconds, so that a breach in the middle is not averaged away:
//!
//! - `rate`, `good` and `errors` are taken over each stretch as a whole; the last second of a run, which may be a part
//!   of one, is left out;
//! - a response time fails when it breaches in *every* second of a stretch: quantiles of seconds do not add up.

use super::{Condition, ConditionError, Observed, Window, text};
use crate::LoadPoint;
use std::fmt;
use std::str::FromStr;

/// A comparison that must hold. Written and printed as `METRIC COMPARISON LIMIT [over SECONDS]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold(Condition);

/// Whether a threshold held.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Whether it did.
    pub held: bool,
    /// What was measured, in ms, as a share or per second; of several stretches the worst. `None` when nothing was.
    pub measured: Option<f64>,
    /// The same in words, with its numbers.
    pub sentence: String,
}

impl Threshold {
    /// Judges a run. What was not measured has not held.
    #[must_use]
    pub fn judge(&self, point: &LoadPoint) -> Judgement {
        let condition = &self.0;
        let (length, how) = match condition.window {
            Window::Run => return self.judge_run(point, ""),
            Window::Each(length) => (length, "in each second of"),
            Window::Together(length) => (length, "over"),
        };
        // A second that may be a part of one has a rate too low.
        let whole = match point.seconds.split_last() {
            Some((_, whole)) if condition.window == Window::Together(length) => whole,
            _ => point.seconds.as_slice(),
        };
        if whole.len() < length as usize {
            let aside =
                format!(" (the run is shorter than {length} s, so it is judged as a whole)");
            return self.judge_run(point, &aside);
        }
        let readings = whole
            .iter()
            .map(|second| condition.metric.in_second(&Observed::from(second)));
        let readings: Vec<_> = readings.collect();
        let mut worst: Option<(f64, f64)> = None;
        // A stretch breaches as a whole: what decides is the second that breaches least.
        let breach = condition.comparison.opposite();
        for (first, stretch) in whole.iter().zip(readings.windows(length as usize)) {
            let Some(measured) = condition.decisive(breach, stretch.iter()) else {
                continue;
            };
            if worst.is_none_or(|(so_far, _)| condition.comparison.is_worse(measured, so_far)) {
                worst = Some((measured, first.at_s));
            }
        }
        let aside = worst.map_or_else(String::new, |(_, at_s)| {
            format!(" {how} the worst {length} s, from second {at_s}")
        });
        self.judgement(worst.map(|(measured, _)| measured), &aside)
    }

    fn judge_run(&self, point: &LoadPoint, aside: &str) -> Judgement {
        self.judgement(self.0.metric.in_run(point), aside)
    }

    fn judgement(&self, measured: Option<f64>, aside: &str) -> Judgement {
        let limit = self.0.limit.value();
        let held = measured.is_some_and(|measured| self.0.comparison.holds(measured, limit));
        let verdict = if held { "held" } else { "did not hold" };
        let seen = measured.map_or_else(
            || "nothing was measured".to_owned(),
            |measured| self.0.metric.spell(measured),
        );
        Judgement {
            held,
            measured,
            sentence: format!("{self} {verdict}: {seen}{aside}"),
        }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Threshold {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let read = text::comparison(text.trim());
        read.map(Self).map_err(|problem| ConditionError {
            what: "threshold",
            piece: crate::pieces::excerpt(text.trim()),
            problem,
        })
    }
}

#[cfg(test)]
mod tests;
