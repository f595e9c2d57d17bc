//! One condition, watching the seconds go by.

use super::{Condition, Level, Mask, Observed, Stop, net_code, text};
use crate::units::{format_ms, format_share};
use crate::{Outcome, OutcomeCounts};
use std::collections::VecDeque;
use std::time::Duration;

/// A condition and what it has seen.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Watch {
    pub(super) condition: Condition,
    /// How many seconds in a row have breached.
    streak: u32,
    /// (matching, all) requests of the last seconds, for conditions over a window as a whole.
    window: VecDeque<(u64, u64)>,
}

/// What a second showed: whether it breached, and the numbers in words.
struct Verdict {
    breached: bool,
    seen: String,
}

impl Watch {
    pub(super) fn new(condition: Condition) -> Self {
        Self {
            condition,
            streak: 0,
            window: VecDeque::new(),
        }
    }

    /// Looks at the next second.
    pub(super) fn push(&mut self, observed: &Observed<'_>) -> Option<Stop> {
        let end_s = observed.second.at_s + 1.0;
        if let Condition::Limit { limit } = self.condition {
            let sentence = format!("{}: the load has lasted {end_s} s", self.condition);
            return (end_s >= limit.as_secs_f64()).then(|| self.stop(end_s, sentence));
        }
        let (seconds, total) = self.window_length();
        if total {
            return self.push_total(observed, seconds, end_s);
        }
        let verdict = self.look(observed);
        self.streak = if verdict.breached {
            self.streak.saturating_add(1)
        } else {
            0
        };
        if self.streak < seconds {
            return None;
        }
        let each = match seconds {
            1 => "in one second".to_owned(),
            n => format!(
                "in each of {n} seconds, the last of them with {}",
                verdict.seen
            ),
        };
        let what = if seconds == 1 {
            verdict.seen
        } else {
            self.meaning()
        };
        let sentence = format!("{}: {what} {each}", self.condition);
        Some(self.stop(end_s, sentence))
    }

    fn stop(&self, at_s: f64, sentence: String) -> Stop {
        Stop {
            condition: self.condition.clone(),
            at_s,
            sentence,
        }
    }

    /// The window in seconds, and whether it is judged as a whole.
    fn window_length(&self) -> (u32, bool) {
        match self.condition {
            Condition::Http { seconds, total, .. } | Condition::Net { seconds, total, .. } => {
                (seconds, total)
            }
            Condition::TotalTime { seconds, .. } => (seconds, true),
            Condition::Time { seconds, .. }
            | Condition::Quantile { seconds, .. }
            | Condition::Instances { seconds, .. } => (seconds, false),
            Condition::Limit { .. } => (1, false),
        }
    }

    /// What a breach is, in words.
    fn meaning(&self) -> String {
        match &self.condition {
            Condition::Time { limit, .. } => {
                format!("mean response time above {}", text::spelled(*limit))
            }
            Condition::Quantile { percent, limit, .. } => {
                format!(
                    "p{percent} of the response time above {}",
                    text::spelled(*limit)
                )
            }
            Condition::Http { mask, level, .. } => {
                format!("at least {level} of the responses had a status {mask}")
            }
            Condition::Net { mask, level, .. } => {
                format!("at least {level} of the requests ended in a system error {mask}")
            }
            Condition::TotalTime { limit, share, .. } => {
                format!(
                    "{} of the response times above {}",
                    format_share(*share),
                    text::spelled(*limit)
                )
            }
            Condition::Instances { level, .. } => format!("more than {level} connections busy"),
            Condition::Limit { limit } => format!("{} of load", text::spelled(*limit)),
        }
    }

    /// Judges one second by itself.
    fn look(&self, observed: &Observed<'_>) -> Verdict {
        let counts = &observed.second.outcomes;
        match &self.condition {
            Condition::Time { limit, .. } => over(mean_ms(observed), *limit, "mean"),
            Condition::Quantile { percent, limit, .. } => over(
                quantile_ms(observed, *percent),
                *limit,
                &format!("p{percent}"),
            ),
            Condition::Http { mask, level, .. } => at_least(
                statuses(counts, mask),
                counts.total(),
                *level,
                "such responses",
            ),
            Condition::Net { mask, level, .. } => at_least(
                net_errors(counts, mask),
                counts.total(),
                *level,
                "such errors",
            ),
            Condition::Instances { level, .. } => busy(observed, *level),
            Condition::TotalTime { .. } | Condition::Limit { .. } => Verdict {
                breached: false,
                seen: String::new(),
            },
        }
    }

    fn push_total(&mut self, observed: &Observed<'_>, seconds: u32, end_s: f64) -> Option<Stop> {
        let counts = &observed.second.outcomes;
        let (matching, level) = match &self.condition {
            Condition::Http { mask, level, .. } => (statuses(counts, mask), *level),
            Condition::Net { mask, level, .. } => (net_errors(counts, mask), *level),
            Condition::TotalTime { limit, share, .. } => {
                (slower(observed, *limit), Level::Share(*share))
            }
            _ => return None,
        };
        self.window.push_back((matching, counts.total()));
        if self.window.len() > seconds as usize {
            self.window.pop_front();
        }
        if self.window.len() < seconds as usize {
            return None;
        }
        let (matching, all) = self
            .window
            .iter()
            .fold((0, 0), |(a, b), (matching, all)| (a + matching, b + all));
        let verdict = at_least(matching, all, level, "such requests");
        verdict.breached.then(|| {
            let sentence = format!(
                "{}: {} in {seconds} s together",
                self.condition, verdict.seen
            );
            self.stop(end_s, sentence)
        })
    }
}

fn over(ms: Option<f64>, limit: Duration, what: &str) -> Verdict {
    let limit_ms = limit.as_secs_f64() * 1e3;
    Verdict {
        breached: ms.is_some_and(|ms| ms > limit_ms),
        seen: match ms {
            Some(ms) if ms.is_finite() => format!("{what} {}", format_ms(ms)),
            Some(_) => format!("{what} beyond the timeout"),
            None => "no response".to_owned(),
        },
    }
}

/// `level` of them are already too many, as in yandex.tank.
fn at_least(matching: u64, all: u64, level: Level, what: &str) -> Verdict {
    let breached = match level {
        Level::Count(count) => matching >= count,
        Level::Share(share) => all > 0 && matching as f64 / all as f64 >= share,
    };
    Verdict {
        breached,
        seen: format!("{matching} {what} of {all}"),
    }
}

fn busy(observed: &Observed<'_>, level: Level) -> Verdict {
    let Some((busy, most)) = observed.busy else {
        return Verdict {
            breached: false,
            seen: "no count of busy connections".to_owned(),
        };
    };
    let limit = match level {
        Level::Count(count) => count as f64,
        Level::Share(share) => share * most as f64,
    };
    Verdict {
        breached: busy as f64 > limit,
        seen: format!("{busy} connections of {most} busy"),
    }
}

fn statuses(counts: &OutcomeCounts, mask: &Mask) -> u64 {
    let matching = counts
        .by_status
        .iter()
        .filter(|(status, _)| mask.matches(**status));
    matching.map(|(_, count)| count).sum()
}

fn net_errors(counts: &OutcomeCounts, mask: &Mask) -> u64 {
    let matches = |outcome: Outcome| net_code(outcome).is_some_and(|code| mask.matches(code));
    let matching = counts
        .by_outcome
        .iter()
        .filter(|(outcome, _)| matches(**outcome));
    matching.map(|(_, count)| count).sum()
}

/// Requests that took longer than anybody waited: their times are above every limit.
fn endless(counts: &OutcomeCounts) -> u64 {
    counts.of(Outcome::Timeout) + counts.of(Outcome::Unsent)
}

/// A quantile over the `Ok` responses and those that never came, which are infinitely slow. Without the histogram,
/// the record's quantile at or below it, which it is not smaller than. `None` without either.
fn quantile_ms(observed: &Observed<'_>, percent: f64) -> Option<f64> {
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
    known_quantiles(observed)
        .filter(|(quantile, _)| *quantile <= among_ok + 1e-9)
        .last()
        .map(|(_, ms)| ms)
}

/// The quantiles of the record, ascending.
fn known_quantiles(observed: &Observed<'_>) -> impl Iterator<Item = (f64, f64)> {
    let second = observed.second;
    let known = [
        (0.5, second.p50_ms),
        (0.95, second.p95_ms),
        (0.99, second.p99_ms),
    ];
    known
        .into_iter()
        .filter_map(|(quantile, ms)| Some((quantile, ms?)))
}

/// The mean over the `Ok` responses; infinite when more requests were endless than had one. Without the histogram the
/// least it can be: half of the median, since half of the responses took no less.
fn mean_ms(observed: &Observed<'_>) -> Option<f64> {
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
    let ok = counts.of(Outcome::Ok);
    let late = match observed.response {
        Some(response) => response.count_above_us(limit.as_micros().try_into().unwrap_or(u64::MAX)),
        None => {
            let limit_ms = limit.as_secs_f64() * 1e3;
            let mut above = known_quantiles(observed).filter(|(_, ms)| *ms > limit_ms);
            above.next().map_or(0, |(quantile, _)| {
                ((1.0 - quantile) * ok as f64).floor() as u64
            })
        }
    };
    late + endless(counts)
}
