//! When a load is ended early: calls as in yandex.tank's autostop, with its semantics, or comparisons.
//!
//! `time(1s,10s) http(5xx,10%,1m) net(110,5%,10s) quantile(95,100ms,10s) instances(80%,30) limit(1m)`: each of these
//! wants *every* second of its window to breach. `total_time(300ms,70%,3s)`, `total_http(5xx,10%,1m)` and
//! `total_net(xx,25,10)` add the seconds of their window up instead. A comparison needs its window: `errors>10% over
//! 10s`.

pub use super::Observed;

use super::reading::Reading;
use super::{Comparator, Condition, ConditionError, LoadMetric, Window, text};
use crate::pieces::{self, excerpt};
use crate::units::format_ms;
use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

/// The conditions of a run, and what they have seen of it so far. Read from text, and printed as such.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Autostop {
    watches: Vec<Watch>,
}

/// Why a load is to be ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Stop {
    /// The condition that held.
    pub condition: Condition,
    /// Seconds from the start to the end of the second that decided.
    pub at_s: f64,
    /// What was seen, with its numbers.
    pub sentence: String,
}

impl Autostop {
    /// Waits for any of some conditions.
    #[must_use]
    pub fn new(conditions: Vec<Condition>) -> Self {
        let watches = conditions.into_iter().map(|condition| Watch {
            condition,
            window: VecDeque::new(),
        });
        Self {
            watches: watches.collect(),
        }
    }

    /// Looks at the next second, and says whether the load is to end. Seconds come in order, each once, whole.
    pub fn push<'a>(&mut self, observed: impl Into<Observed<'a>>) -> Option<Stop> {
        let observed = observed.into();
        let mut stop = None;
        for watch in &mut self.watches {
            // Every condition looks at every second, also when another has held already.
            let own = watch.push(&observed);
            stop = stop.or(own);
        }
        stop
    }
}

/// A condition and what it has seen.
#[derive(Debug, Clone, PartialEq)]
struct Watch {
    condition: Condition,
    /// The last seconds.
    window: VecDeque<Option<Reading>>,
}

impl Watch {
    fn push(&mut self, observed: &Observed<'_>) -> Option<Stop> {
        let condition = &self.condition;
        let length = match condition.window {
            Window::Run => 1,
            Window::Each(length) | Window::Together(length) => length as usize,
        };
        let reading = condition.metric.in_second(observed);
        self.window.push_back(reading);
        if self.window.len() > length {
            self.window.pop_front();
        }
        if self.window.len() < length {
            return None;
        }
        let value = condition.decisive(condition.comparison, self.window.iter())?;
        if !condition.comparison.holds(value, condition.limit.value()) {
            return None;
        }
        let at_s = observed.second.at_s + 1.0;
        let seen = match (&condition.metric, condition.window) {
            (LoadMetric::Elapsed, _) => format!("the load has lasted {at_s} s"),
            (_, Window::Together(length)) => {
                let sum = self.window.iter().flatten().copied().sum();
                format!("{} in {length} s together", numbers(condition, sum))
            }
            (_, Window::Each(length)) if length > 1 => format!(
                "{} in each of {length} seconds, the last of them with {}",
                meaning(condition),
                numbers(condition, reading?)
            ),
            _ => format!("{} in one second", numbers(condition, reading?)),
        };
        Some(Stop {
            condition: condition.clone(),
            at_s,
            sentence: format!("{condition}: {seen}"),
        })
    }
}

/// What the condition says of a second, in words.
fn meaning(condition: &Condition) -> String {
    let limit = condition.limit_text();
    match &condition.metric {
        LoadMetric::TankMean => format!("mean response time above {limit}"),
        LoadMetric::TankQuantile(percent) => {
            format!("p{percent} of the response time above {limit}")
        }
        LoadMetric::Status(mask) => {
            format!("at least {limit} of the responses had a status {mask}")
        }
        LoadMetric::SystemError(mask) => {
            format!("at least {limit} of the requests ended in a system error {mask}")
        }
        LoadMetric::Busy => format!("more than {limit} connections busy"),
        metric => {
            let how = match condition.comparison {
                Comparator::Below => "below",
                Comparator::AtMost => "at most",
                Comparator::Above => "above",
                Comparator::AtLeast => "at least",
            };
            format!("{metric} {how} {limit}")
        }
    }
}

/// What was seen, in words.
fn numbers(condition: &Condition, reading: Reading) -> String {
    let Reading { part, whole } = reading;
    let counted = |what: &str| format!("{part} such {what} of {whole}");
    match (&condition.metric, condition.window) {
        (LoadMetric::TankMean | LoadMetric::TankQuantile(_), _) => {
            let metric = &condition.metric;
            if part.is_finite() {
                format!("{metric} {}", format_ms(part))
            } else {
                format!("{metric} beyond the timeout")
            }
        }
        (LoadMetric::Busy, _) => format!("{part} connections of {whole} busy"),
        (LoadMetric::Status(_), Window::Each(_)) => counted("responses"),
        (LoadMetric::SystemError(_), Window::Each(_)) => counted("errors"),
        (LoadMetric::Status(_) | LoadMetric::SystemError(_) | LoadMetric::Slower(_), _) => {
            counted("requests")
        }
        (metric, _) => format!("{metric} {}", metric.spell(part / whole)),
    }
}

impl fmt::Display for Autostop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, watch) in self.watches.iter().enumerate() {
            let gap = if index == 0 { "" } else { " " };
            write!(f, "{gap}{}", watch.condition)?;
        }
        Ok(())
    }
}

impl FromStr for Autostop {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let wrong = |piece: &str, problem: String| ConditionError {
            what: "autostop:",
            piece: excerpt(piece),
            problem,
        };
        let mut rest = text.trim_matches(pieces::BETWEEN);
        let mut conditions = Vec::new();
        while !rest.is_empty() {
            let end = match end_of_comparison(rest) {
                Some(end) => {
                    let read = text::comparison(&rest[..end]).and_then(with_window);
                    conditions.push(read.map_err(|problem| wrong(&rest[..end], problem))?);
                    end
                }
                None => {
                    let piece = pieces::first(rest).map_err(|at| {
                        wrong(at, format!("this is no condition; {}", text::CALLS))
                    })?;
                    let read = text::call(&piece);
                    conditions.push(read.map_err(|problem| wrong(piece.whole, problem))?);
                    piece.whole.len()
                }
            };
            rest = rest[end..].trim_start_matches(pieces::BETWEEN);
        }
        if conditions.is_empty() {
            return Err(wrong(text, format!("there is nothing; {}", text::CALLS)));
        }
        Ok(Self::new(conditions))
    }
}

/// Where a text that begins with a comparison ends it: behind the word that follows `over`.
fn end_of_comparison(text: &str) -> Option<usize> {
    let sign = text.find(['<', '>'])?;
    if text[..sign].contains('(') {
        return None;
    }
    let Some(over) = text[sign..].find(" over ") else {
        return Some(text.len());
    };
    let from = sign + over + " over ".len();
    let word = text[from..].trim_start();
    let length = word.find(pieces::BETWEEN).unwrap_or(word.len());
    Some(text.len() - word.len() + length)
}

/// A load that goes on has no whole to judge.
fn with_window(condition: Condition) -> Result<Condition, String> {
    match condition.window {
        Window::Run => Err("say over how long, such as errors>10% over 10s".to_owned()),
        _ => Ok(condition),
    }
}

#[cfg(test)]
mod tests;
