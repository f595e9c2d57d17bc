//! Thresholds that decide the exit code of a run: `p95<200ms`, `errors<0.1%`, `rate>=490/s`, `p99<500ms over 10s`.
//!
//! A threshold without `over` is about the whole window that a [`LoadPoint`] reports. With `over`, it is about every
//! stretch of that many consecutive seconds, so that a breach in the middle is not averaged away:
//!
//! - `rate`, `good` and `errors` are taken over each stretch as a whole; the last second of a run, which may be a part
//!   of one, is left out;
//! - a response time fails when it breaches in *every* second of a stretch, as in [`crate::condition::autostop`]: quantiles of
//!   seconds do not add up.

use crate::units::{exact_duration, format_ms, format_rate, format_share, parse_share};
use crate::{LoadPoint, Outcome, Second};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What a threshold is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// `p95`: a quantile of the response time, in percent. Limit in ms. It is that of `Ok` requests, and above every
    /// limit when more requests failed than the quantile leaves room for.
    Quantile(f64),
    /// `mean`: the mean response time of `Ok` requests. Limit in ms.
    Mean,
    /// `max`: the longest response time of an `Ok` request. Limit in ms.
    Max,
    /// `errors`: requests that failed. Limit as a share.
    Errors,
    /// `good` with a percentage: requests that met the SLO's response time. Limit as a share.
    GoodShare,
    /// `good` with a rate: the goodput. Limit per second.
    Good,
    /// `rate`: requests that ended `Ok`. Limit per second.
    Rate,
}

/// How a measure is compared with its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

/// A threshold. Written and printed as `MEASURE COMPARISON LIMIT [over SECONDS]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// What it is about.
    pub measure: Measure,
    /// How it is compared.
    pub comparison: Comparison,
    /// The limit, in the unit of the measure.
    pub limit: f64,
    /// The stretch of seconds over which it is judged; `None` judges the whole run.
    pub over_s: Option<u32>,
}

/// Whether a threshold held.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Whether it did.
    pub held: bool,
    /// What was measured, in the unit of the measure; of several stretches the worst. `None` when nothing was.
    pub measured: Option<f64>,
    /// The same in words, with its numbers.
    pub sentence: String,
}

/// What is wrong with a threshold somebody wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("threshold `{text}`: {problem}")]
pub struct ThresholdError {
    /// The text as given.
    pub text: String,
    /// What is wrong and what to write.
    pub problem: String,
}

impl Measure {
    /// A value of it in words.
    fn spell(self, value: f64) -> String {
        match self {
            Self::Quantile(_) | Self::Mean | Self::Max if value.is_infinite() => {
                "beyond every limit".to_owned()
            }
            Self::Quantile(_) | Self::Mean | Self::Max => format_ms(value),
            Self::Errors | Self::GoodShare => share(value),
            Self::Good | Self::Rate => format_rate(value),
        }
    }

    /// Its value over the whole run.
    fn of_run(self, point: &LoadPoint) -> Option<f64> {
        let any = point.arrivals > 0;
        let ok = point.outcomes.of(Outcome::Ok);
        match self {
            Self::Quantile(percent) if any && leaves_no_room(percent, ok, point.arrivals) => {
                Some(f64::INFINITY)
            }
            Self::Quantile(percent) => point.response.quantile_ms(percent / 100.0),
            Self::Mean | Self::Max if any && ok == 0 => Some(f64::INFINITY),
            Self::Mean => point.response.mean_ms(),
            Self::Max => point.response.max_ms(),
            Self::Errors => any.then(|| point.error_share()),
            Self::GoodShare => any.then(|| 1.0 - point.violating_share()),
            Self::Good => (point.window_s > 0.0).then(|| point.goodput_hz()),
            Self::Rate => (point.window_s > 0.0).then(|| point.throughput_hz()),
        }
    }

    /// Its value in one second; of a response time.
    fn of_second(self, second: &Second) -> Option<f64> {
        let (ok, all) = (second.outcomes.of(Outcome::Ok), second.outcomes.total());
        let Self::Quantile(percent) = self else {
            return None;
        };
        if all > 0 && leaves_no_room(percent, ok, all) {
            return Some(f64::INFINITY);
        }
        match percent {
            50.0 => second.p50_ms,
            95.0 => second.p95_ms,
            _ => second.p99_ms,
        }
    }

    /// Its value over a stretch of seconds; of a count.
    fn of_stretch(self, stretch: &[Second]) -> Option<f64> {
        let sum = |count: fn(&Second) -> u64| stretch.iter().map(count).sum::<u64>() as f64;
        let all = sum(|second| second.outcomes.total());
        let good = sum(|second| second.good);
        let length_s = stretch.len() as f64;
        match self {
            Self::Errors => (all > 0.0).then(|| sum(|second| second.outcomes.failed()) / all),
            Self::GoodShare => (all > 0.0).then(|| good / all),
            Self::Good => Some(good / length_s),
            Self::Rate => Some(sum(|second| second.outcomes.of(Outcome::Ok)) / length_s),
            Self::Quantile(_) | Self::Mean | Self::Max => None,
        }
    }
}

/// Whether so many requests failed that the quantile is among them.
fn leaves_no_room(percent: f64, ok: u64, all: u64) -> bool {
    (ok as f64) < percent / 100.0 * all as f64 - 1e-9
}

/// A share with the figures that a tight limit needs.
fn share(value: f64) -> String {
    if value > 0.0 && value < 0.001 {
        format!("{:.3} %", value * 100.0)
    } else {
        format_share(value)
    }
}

impl Comparison {
    fn holds(self, measured: f64, limit: f64) -> bool {
        match self {
            Self::Below => measured < limit,
            Self::AtMost => measured <= limit,
            Self::Above => measured > limit,
            Self::AtLeast => measured >= limit,
        }
    }

    /// Whether `a` is further on the wrong side than `b`.
    fn is_worse(self, a: f64, b: f64) -> bool {
        match self {
            Self::Below | Self::AtMost => a > b,
            Self::Above | Self::AtLeast => a < b,
        }
    }

    fn sign(self) -> &'static str {
        match self {
            Self::Below => "<",
            Self::AtMost => "<=",
            Self::Above => ">",
            Self::AtLeast => ">=",
        }
    }
}

impl Threshold {
    /// Judges a run. What was not measured has not held.
    #[must_use]
    pub fn judge(&self, point: &LoadPoint) -> Judgement {
        let Some(over_s) = self.over_s else {
            return self.judge_run(point, "");
        };
        let length = over_s as usize;
        let is_time = matches!(self.measure, Measure::Quantile(_));
        // A second that may be a part of one has a rate too low.
        let whole = match point.seconds.split_last() {
            Some((_, whole)) if !is_time => whole,
            _ => point.seconds.as_slice(),
        };
        if whole.len() < length {
            let aside =
                format!(" (the run is shorter than {over_s} s, so it is judged as a whole)");
            return self.judge_run(point, &aside);
        }
        let stretches = whole.windows(length).map(|stretch| {
            if is_time {
                self.mildest(stretch)
            } else {
                self.measure.of_stretch(stretch)
            }
        });
        let mut worst: Option<(f64, f64)> = None;
        for (stretch, measured) in whole.windows(length).zip(stretches) {
            let Some(measured) = measured else { continue };
            if worst.is_none_or(|(so_far, _)| self.comparison.is_worse(measured, so_far)) {
                worst = Some((measured, stretch[0].at_s));
            }
        }
        let Some((measured, at_s)) = worst else {
            return self.judgement(None, "");
        };
        let how = if is_time { "in each second of" } else { "over" };
        let aside = format!(" {how} the worst {over_s} s, from second {at_s}");
        self.judgement(Some(measured), &aside)
    }

    /// Of the seconds of a stretch, that which is furthest on the right side: when it breaches, all do. A second
    /// without a response cannot breach.
    fn mildest(&self, stretch: &[Second]) -> Option<f64> {
        let values = stretch.iter().map(|second| self.measure.of_second(second));
        let values: Vec<f64> = values.collect::<Option<_>>()?;
        let milder = |a: f64, b: f64| if self.comparison.is_worse(a, b) { b } else { a };
        values.into_iter().reduce(milder)
    }

    fn judge_run(&self, point: &LoadPoint, aside: &str) -> Judgement {
        self.judgement(self.measure.of_run(point), aside)
    }

    fn judgement(&self, measured: Option<f64>, aside: &str) -> Judgement {
        let held = measured.is_some_and(|measured| self.comparison.holds(measured, self.limit));
        let verdict = if held { "held" } else { "did not hold" };
        let seen = measured.map_or_else(
            || "nothing was measured".to_owned(),
            |measured| self.measure.spell(measured),
        );
        Judgement {
            held,
            measured,
            sentence: format!("{self} {verdict}: {seen}{aside}"),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantile(percent) => write!(f, "p{percent}"),
            Self::Mean => f.write_str("mean"),
            Self::Max => f.write_str("max"),
            Self::Errors => f.write_str("errors"),
            Self::GoodShare | Self::Good => f.write_str("good"),
            Self::Rate => f.write_str("rate"),
        }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.measure, self.comparison.sign())?;
        match self.measure {
            Measure::Quantile(_) | Measure::Mean | Measure::Max if self.limit % 1000.0 == 0.0 => {
                write!(f, "{}s", self.limit / 1000.0)?;
            }
            Measure::Quantile(_) | Measure::Mean | Measure::Max => write!(f, "{}ms", self.limit)?,
            Measure::Errors | Measure::GoodShare => {
                f.write_str(&crate::units::exact_percent(self.limit))?;
            }
            Measure::Good | Measure::Rate => write!(f, "{}/s", self.limit)?,
        }
        match self.over_s {
            Some(over_s) => write!(f, " over {over_s}s"),
            None => Ok(()),
        }
    }
}

const SHAPES: &str = "write for example p95<200ms, mean<100ms, errors<0.1%, good>=99%, rate>=490/s or p99<500ms over 10s";

impl FromStr for Threshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Self, ThresholdError> {
        read(text.trim()).map_err(|problem| ThresholdError {
            text: crate::pieces::excerpt(text.trim()),
            problem,
        })
    }
}

fn read(text: &str) -> Result<Threshold, String> {
    let (text, over_s) = match text.split_once(" over ") {
        Some((text, length)) => (text, Some(stretch(length.trim())?)),
        None => (text, None),
    };
    let at = text
        .find(['<', '>'])
        .ok_or_else(|| format!("there is no < or > in it; {SHAPES}"))?;
    let (name, rest) = text.split_at(at);
    let signs = [
        ("<=", Comparison::AtMost),
        (">=", Comparison::AtLeast),
        ("<", Comparison::Below),
        (">", Comparison::Above),
    ];
    let found = signs
        .iter()
        .find_map(|(sign, comparison)| Some((rest.strip_prefix(sign)?, *comparison)));
    let (limit, comparison) = found.ok_or_else(|| SHAPES.to_owned())?;
    let limit = limit.trim();
    let measure = measure(name.trim(), limit)?;
    if let (Measure::Mean | Measure::Max, Some(_)) = (measure, over_s) {
        return Err(format!(
            "`{measure}` is known for the whole run only; leave `over` out, or take p99"
        ));
    }
    if let (Measure::Quantile(percent), Some(_)) = (measure, over_s)
        && ![50.0, 95.0, 99.0].contains(&percent)
    {
        return Err(format!(
            "of single seconds p50, p95 and p99 are known, not p{percent}; take one of them"
        ));
    }
    Ok(Threshold {
        measure,
        comparison,
        limit: limit_of(measure, limit)?,
        over_s,
    })
}

fn measure(name: &str, limit: &str) -> Result<Measure, String> {
    let quantile = name
        .strip_prefix('p')
        .and_then(|percent| percent.parse().ok())
        .filter(|percent: &f64| *percent > 0.0 && *percent < 100.0);
    match (name, quantile) {
        (_, Some(percent)) => Ok(Measure::Quantile(percent)),
        ("mean" | "avg", _) => Ok(Measure::Mean),
        ("med" | "median", _) => Ok(Measure::Quantile(50.0)),
        ("max", _) => Ok(Measure::Max),
        ("errors", _) => Ok(Measure::Errors),
        ("good", _) if limit.ends_with('%') => Ok(Measure::GoodShare),
        ("good", _) => Ok(Measure::Good),
        ("rate", _) => Ok(Measure::Rate),
        _ => Err(format!("there is no measure `{name}`; {SHAPES}")),
    }
}

/// The limit in the unit of its measure: ms, a share, or per second.
fn limit_of(measure: Measure, text: &str) -> Result<f64, String> {
    const UNITS: &[(&str, u64)] = crate::units::GO_UNITS;
    let number = match measure {
        Measure::Quantile(_) | Measure::Mean | Measure::Max => exact_duration(text, UNITS, None)
            .filter(|limit| !limit.is_zero())
            .map(|limit| limit.as_nanos() as f64 / 1e6)
            .ok_or("a time such as 200ms or 1.5s"),
        Measure::Errors | Measure::GoodShare => {
            parse_share(text).map_err(|_| "a share such as 0.1%")
        }
        Measure::Good | Measure::Rate => {
            let digits = text.strip_suffix("/s").unwrap_or(text);
            crate::workload::schedule::text::parse_rate(digits.trim())
                .map_err(|_| "a rate such as 490/s")
        }
    };
    number.map_err(|wanted| format!("`{text}` is no limit of {measure}; write {wanted}"))
}

fn stretch(text: &str) -> Result<u32, String> {
    let length = exact_duration(text, crate::units::GO_UNITS, None);
    let whole =
        length.filter(|length| length.subsec_nanos() == 0 && *length >= Duration::from_secs(1));
    let whole = whole.and_then(|length| u32::try_from(length.as_secs()).ok());
    whole.ok_or_else(|| {
        format!("`{text}` is no stretch of seconds; write whole ones, such as over 10s")
    })
}

#[cfg(test)]
mod tests;
