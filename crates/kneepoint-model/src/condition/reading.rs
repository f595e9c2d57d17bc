//! What a second of load, or a whole run, says of a metric.

use super::{LoadMetric, Mask, Observed, net_code};
use crate::{LoadPoint, Outcome, OutcomeCounts, Second};
use std::iter::Sum;
use std::ops::Add;
use std::time::Duration;

/// A part of a whole. What is no part of anything is over 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Reading {
    pub(super) part: f64,
    pub(super) whole: f64,
}

impl Add for Reading {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            part: self.part + other.part,
            whole: self.whole + other.whole,
        }
    }
}

impl Sum for Reading {
    fn sum<I: Iterator<Item = Self>>(readings: I) -> Self {
        readings.fold(Self::default(), Add::add)
    }
}

fn of(part: u64, whole: u64) -> Option<Reading> {
    Some(Reading {
        part: part as f64,
        whole: whole as f64,
    })
}

fn alone(part: Option<f64>) -> Option<Reading> {
    part.map(|part| Reading { part, whole: 1.0 })
}

impl LoadMetric {
    /// What it was in a second.
    pub(super) fn in_second(&self, observed: &Observed<'_>) -> Option<Reading> {
        let second = observed.second;
        let counts = &second.outcomes;
        let all = counts.total();
        match self {
            Self::Quantile(percent) => alone(quantile_of_second(second, *percent)),
            Self::Mean | Self::Max => None,
            Self::Errors => of(counts.failed(), all),
            Self::GoodShare => of(second.good, all),
            Self::Good => of(second.good, 1),
            Self::Rate => of(counts.of(Outcome::Ok), 1),
            Self::TankMean => alone(tank_mean_ms(observed)),
            Self::TankQuantile(percent) => alone(tank_quantile_ms(observed, *percent)),
            Self::Slower(limit) => of(slower(observed, *limit), all),
            Self::Status(mask) => of(statuses(counts, mask), all),
            Self::SystemError(mask) => of(system_errors(counts, mask), all),
            Self::Busy => observed.busy.and_then(|(busy, most)| of(busy, most)),
            Self::Elapsed => alone(Some((second.at_s + 1.0) * 1e3)),
        }
    }

    /// What it was over a whole run; `None` for what is known of seconds only.
    pub(super) fn in_run(&self, point: &LoadPoint) -> Option<f64> {
        let any = point.arrivals > 0;
        let ok = point.outcomes.of(Outcome::Ok);
        match self {
            Self::Quantile(percent) if any && leaves_no_room(*percent, ok, point.arrivals) => {
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
            _ => None,
        }
    }
}

/// Whether so many requests failed that the quantile is among them.
fn leaves_no_room(percent: f64, ok: u64, all: u64) -> bool {
    (ok as f64) < percent / 100.0 * all as f64 - 1e-9
}

fn quantile_of_second(second: &Second, percent: f64) -> Option<f64> {
    let (ok, all) = (second.outcomes.of(Outcome::Ok), second.outcomes.total());
    if all > 0 && leaves_no_room(percent, ok, all) {
        return Some(f64::INFINITY);
    }
    match percent {
        50.0 => second.p50_ms,
        95.0 => second.p95_ms,
        _ => second.p99_ms,
    }
}

fn statuses(counts: &OutcomeCounts, mask: &Mask) -> u64 {
    let all = counts.by_status.iter();
    let matching = all.filter(|(status, _)| mask.matches(**status));
    matching.map(|(_, count)| count).sum()
}

fn system_errors(counts: &OutcomeCounts, mask: &Mask) -> u64 {
    let matches = |outcome: Outcome| net_code(outcome).is_some_and(|code| mask.matches(code));
    let all = counts.by_outcome.iter();
    let matching = all.filter(|(outcome, _)| matches(**outcome));
    matching.map(|(_, count)| count).sum()
}

/// Requests that took longer than anybody waited: their times are above every limit.
fn endless(counts: &OutcomeCounts) -> u64 {
    counts.of(Outcome::Timeout) + counts.of(Outcome::Unsent)
}

/// A quantile over the `Ok` responses and those that never came, which are infinitely slow. Without the histogram,
/// the record's quantile at or below it, which it is not smaller than. `None` without either.
fn tank_quantile_ms(observed: &Observed<'_>, percent: f64) -> Option<f64> {
    let counts = &observed.second.outcomes;
    let (ok, endless) = (counts.of(Outcome::Ok), endless(counts));
    let all = ok + endless;
    if all == 0 {
        return None;
    }
    // The rank of the quantile among all, as a share of the `Ok` ones.
    let among_ok = percent / 100.0 * all as f64 / ok as f64;
    if among_ok > 1.0 {
        return Some(f64::INFINITY);
    }
    if let Some(response) = observed.response {
        return response.quantile_ms(among_ok);
    }
    let known = known_quantiles(observed).filter(|(quantile, _)| *quantile <= among_ok + 1e-9);
    known.last().map(|(_, ms)| ms)
}

/// The quantiles of the record, ascending.
fn known_quantiles(observed: &Observed<'_>) -> impl Iterator<Item = (f64, f64)> {
    let second = observed.second;
    let known = [
        (0.5, second.p50_ms),
        (0.95, second.p95_ms),
        (0.99, second.p99_ms),
    ];
    let known = known.into_iter();
    known.filter_map(|(quantile, ms)| Some((quantile, ms?)))
}

/// The mean over the `Ok` responses; infinite when more requests were endless than had one. Without the histogram the
/// least it can be: half of the median, since half of the responses took no less.
fn tank_mean_ms(observed: &Observed<'_>) -> Option<f64> {
    let counts = &observed.second.outcomes;
    if endless(counts) > counts.of(Outcome::Ok) {
        return Some(f64::INFINITY);
    }
    match observed.response {
        Some(response) => response.mean_ms(),
        None => observed.second.p50_ms.map(|ms| ms / 2.0),
    }
}

/// How many requests took longer than a limit; without the histogram, how many at least.
fn slower(observed: &Observed<'_>, limit: Duration) -> u64 {
    let counts = &observed.second.outcomes;
    let ok = counts.of(Outcome::Ok) as f64;
    let late = match observed.response {
        Some(response) => response.count_above_us(limit.as_micros().try_into().unwrap_or(u64::MAX)),
        None => {
            let limit_ms = limit.as_secs_f64() * 1e3;
            let mut above = known_quantiles(observed).filter(|(_, ms)| *ms > limit_ms);
            let first = above.next();
            first.map_or(0, |(quantile, _)| ((1.0 - quantile) * ok).floor() as u64)
        }
    };
    late + endless(counts)
}
