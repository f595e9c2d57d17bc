//! How conditions are written: comparisons and calls, and the way back.

use super::{Comparator, Condition, Limit, LoadMetric, Mask, Window};
use crate::pieces::TextPiece;
use crate::units::{
    GO_UNITS, SECOND_NS, exact_duration, exact_percent, format_ms, format_rate, format_share,
    parse_share,
};
use crate::workload::schedule::text::{parse_rate, seconds};
use std::fmt;
use std::time::Duration;

/// What to write as calls.
pub(super) const CALLS: &str = "write time(1s,10s), quantile(95,100ms,10s), http(5xx,10%,1m), net(110,5%,10s), \
     total_time(300ms,70%,3s), total_http(5xx,10%,1m), total_net(xx,25,10s), instances(80%,30s) or limit(10m)";

/// What to write as comparisons.
pub(super) const COMPARISONS: &str = "write for example p95<200ms, mean<100ms, errors<0.1%, good>=99%, rate>=490/s or p99<500ms over 10s";

const SIGNS: [(&str, Comparator); 4] = [
    ("<=", Comparator::AtMost),
    (">=", Comparator::AtLeast),
    ("<", Comparator::Below),
    (">", Comparator::Above),
];

const MILLISECOND_NS: u64 = 1_000_000;

/// The units of yandex.tank.
const UNITS: &[(&str, u64)] = &[
    ("ms", MILLISECOND_NS),
    ("s", SECOND_NS),
    ("m", 60 * SECOND_NS),
    ("h", 3600 * SECOND_NS),
    ("d", 86_400 * SECOND_NS),
];

/// Longest window: more seconds are kept of no run.
const LONGEST_WINDOW_S: u64 = 86_400;

/// Reads a call: `http(5xx,10%,1m)`.
pub(super) fn call(piece: &TextPiece<'_>) -> Result<Condition, String> {
    use Comparator::{Above, AtLeast};
    let values = piece.values();
    let (name, total) = match piece.name.strip_prefix("total_") {
        Some(name) => (name, true),
        None => (piece.name, false),
    };
    let (metric, comparison, limit, window) = match (name, values.as_slice()) {
        ("time", [limit, window]) if !total => (LoadMetric::TankMean, Above, time(limit)?, window),
        ("time", [limit, share, window]) if total => {
            let slower = LoadMetric::Slower(span(limit, MILLISECOND_NS)?);
            (slower, AtLeast, part(share)?, window)
        }
        ("quantile", [percent, limit, window]) if !total => {
            let quantile = LoadMetric::TankQuantile(percentage(percent)?);
            (quantile, Above, time(limit)?, window)
        }
        ("http", [numbers, limit, window]) => (
            LoadMetric::Status(mask(numbers)?),
            AtLeast,
            level(limit)?,
            window,
        ),
        ("net", [numbers, limit, window]) => {
            let errors = LoadMetric::SystemError(mask(numbers)?);
            (errors, AtLeast, level(limit)?, window)
        }
        ("instances", [limit, window]) if !total => {
            (LoadMetric::Busy, Above, level(limit)?, window)
        }
        ("limit", [length]) if !total => {
            let length = Limit::Time(span(length, SECOND_NS)?);
            (LoadMetric::Elapsed, AtLeast, length, &"1s")
        }
        ("http" | "net" | "quantile", [_, _, _, tag]) => {
            return Err(format!(
                "requests are not counted by tag; leave `{tag}` out"
            ));
        }
        _ => {
            return Err(format!(
                "there is no such condition with these values; {CALLS}"
            ));
        }
    };
    let length = whole_seconds(window)?;
    Ok(Condition {
        metric,
        comparison,
        limit,
        window: if total {
            Window::Together(length)
        } else {
            Window::Each(length)
        },
    })
}

/// A number without a unit is milliseconds where a response time is meant, as in yandex.tank.
fn time(text: &str) -> Result<Limit, String> {
    span(text, MILLISECOND_NS).map(Limit::Time)
}

fn span(text: &str, bare: u64) -> Result<Duration, String> {
    exact_duration(text, UNITS, Some(bare))
        .filter(|length| !length.is_zero())
        .ok_or_else(|| format!("`{text}` is no duration; write for example 500ms, 10s or 1m"))
}

fn whole_seconds(text: &str) -> Result<u32, String> {
    let length = span(text, SECOND_NS)?;
    let seconds = length.as_secs();
    if length.subsec_nanos() != 0 || !(1..=LONGEST_WINDOW_S).contains(&seconds) {
        return Err(format!(
            "`{text}` is no window; write whole seconds, up to a day, such as 10s"
        ));
    }
    Ok(seconds as u32)
}

fn part(text: &str) -> Result<Limit, String> {
    let share = parse_share(text)
        .ok()
        .filter(|share| *share > 0.0 && text.ends_with('%'));
    share
        .map(Limit::Share)
        .ok_or_else(|| format!("`{text}` is no share; write for example 10%"))
}

fn level(text: &str) -> Result<Limit, String> {
    if text.ends_with('%') {
        return part(text);
    }
    let count = text.parse().ok().filter(|count: &u64| *count > 0);
    count
        .map(|count| Limit::Amount(count as f64))
        .ok_or_else(|| {
            format!("`{text}` is no number of requests and no share; write for example 25 or 10%")
        })
}

fn percentage(text: &str) -> Result<f64, String> {
    percent(text.trim_end_matches('%')).ok_or_else(|| {
        format!("`{text}` is no quantile; write percent between 0 and 100, such as 95")
    })
}

fn percent(text: &str) -> Option<f64> {
    let number = text.parse().ok();
    number.filter(|percent: &f64| *percent > 0.0 && *percent < 100.0)
}

fn mask(text: &str) -> Result<Mask, String> {
    let lower = text.to_ascii_lowercase();
    let fits = lower.bytes().all(|b| b == b'x' || b.is_ascii_digit());
    if !fits || !(1..=3).contains(&lower.len()) {
        return Err(format!(
            "`{text}` means no status and no error; write digits and x for any digit, such as 5xx, 404 or 110"
        ));
    }
    Ok(Mask(lower))
}

/// Reads a comparison: `p99<500ms over 10s`.
pub(super) fn comparison(text: &str) -> Result<Condition, String> {
    let (text, over_s) = match text.split_once(" over ") {
        Some((text, length)) => (text, Some(stretch(length.trim())?)),
        None => (text, None),
    };
    let at = text
        .find(['<', '>'])
        .ok_or_else(|| format!("there is no < or > in it; {COMPARISONS}"))?;
    let (name, rest) = text.split_at(at);
    let found = SIGNS
        .iter()
        .find_map(|(sign, comparison)| Some((rest.strip_prefix(sign)?, *comparison)));
    let (limit, comparison) = found.ok_or_else(|| COMPARISONS.to_owned())?;
    let limit = limit.trim();
    let metric = metric(name.trim(), limit)?;
    match (&metric, over_s) {
        (LoadMetric::Mean | LoadMetric::Max, Some(_)) => {
            return Err(format!(
                "`{metric}` is known for the whole run only; leave `over` out, or take p99"
            ));
        }
        (LoadMetric::Quantile(percent), Some(_)) if ![50.0, 95.0, 99.0].contains(percent) => {
            return Err(format!(
                "of single seconds p50, p95 and p99 are known, not p{percent}; take one of them"
            ));
        }
        _ => {}
    }
    Ok(Condition {
        limit: limit_of(&metric, limit)?,
        window: match over_s {
            None => Window::Run,
            Some(length) if metric.is_time() => Window::Each(length),
            Some(length) => Window::Together(length),
        },
        metric,
        comparison,
    })
}

fn metric(name: &str, limit: &str) -> Result<LoadMetric, String> {
    match (name, name.strip_prefix('p').and_then(percent)) {
        (_, Some(percent)) => Ok(LoadMetric::Quantile(percent)),
        ("mean" | "avg", _) => Ok(LoadMetric::Mean),
        ("med" | "median", _) => Ok(LoadMetric::Quantile(50.0)),
        ("max", _) => Ok(LoadMetric::Max),
        ("errors", _) => Ok(LoadMetric::Errors),
        ("good", _) if limit.ends_with('%') => Ok(LoadMetric::GoodShare),
        ("good", _) => Ok(LoadMetric::Good),
        ("rate", _) => Ok(LoadMetric::Rate),
        _ => Err(format!("there is no measure `{name}`; {COMPARISONS}")),
    }
}

/// The limit in the unit of its metric.
fn limit_of(metric: &LoadMetric, text: &str) -> Result<Limit, String> {
    let limit = if metric.is_time() {
        exact_duration(text, GO_UNITS, None)
            .filter(|limit| !limit.is_zero())
            .map(Limit::Time)
            .ok_or("a time such as 200ms or 1.5s")
    } else if matches!(metric, LoadMetric::Errors | LoadMetric::GoodShare) {
        let share = parse_share(text).map(Limit::Share);
        share.map_err(|_| "a share such as 0.1%")
    } else {
        let digits = text.strip_suffix("/s").unwrap_or(text).trim();
        let rate = parse_rate(digits).map(Limit::Amount);
        rate.map_err(|_| "a rate such as 490/s")
    };
    limit.map_err(|wanted| format!("`{text}` is no limit of {metric}; write {wanted}"))
}

fn stretch(text: &str) -> Result<u32, String> {
    let whole = exact_duration(text, GO_UNITS, None)
        .filter(|length| length.subsec_nanos() == 0 && *length >= Duration::from_secs(1))
        .and_then(|length| u32::try_from(length.as_secs()).ok());
    whole.ok_or_else(|| {
        format!("`{text}` is no stretch of seconds; write whole ones, such as over 10s")
    })
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A time with its unit: milliseconds when it is a whole number of them below ten seconds.
fn spelled(time: Duration) -> String {
    let ms = time.as_millis();
    let whole = time.as_nanos() == ms * u128::from(MILLISECOND_NS);
    if whole && ms < 10_000 && !ms.is_multiple_of(1000) {
        format!("{ms}ms")
    } else {
        format!("{}s", seconds(time))
    }
}

impl LoadMetric {
    /// A value of it in words.
    pub(super) fn spell(&self, value: f64) -> String {
        match self {
            Self::Errors | Self::GoodShare if value > 0.0 && value < 0.001 => {
                format!("{:.3} %", value * 100.0)
            }
            Self::Errors | Self::GoodShare => format_share(value),
            Self::Good | Self::Rate => format_rate(value),
            _ if value.is_infinite() => "beyond every limit".to_owned(),
            _ => format_ms(value),
        }
    }
}

impl fmt::Display for LoadMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantile(percent) | Self::TankQuantile(percent) => write!(f, "p{percent}"),
            Self::Mean | Self::TankMean => f.write_str("mean"),
            Self::Max => f.write_str("max"),
            Self::Errors => f.write_str("errors"),
            Self::GoodShare | Self::Good => f.write_str("good"),
            Self::Rate => f.write_str("rate"),
            Self::Slower(limit) => write!(f, "response times above {}", spelled(*limit)),
            Self::Status(mask) => write!(f, "responses with a status {mask}"),
            Self::SystemError(mask) => write!(f, "system errors {mask}"),
            Self::Busy => f.write_str("busy connections"),
            Self::Elapsed => f.write_str("time"),
        }
    }
}

impl Condition {
    /// The limit as the notation of the metric has it.
    pub(super) fn limit_text(&self) -> String {
        let ms = self.limit.value();
        match (self.limit, &self.metric) {
            (Limit::Time(_), LoadMetric::Quantile(_) | LoadMetric::Mean | LoadMetric::Max) => {
                if ms % 1000.0 == 0.0 {
                    format!("{}s", ms / 1000.0)
                } else {
                    format!("{ms}ms")
                }
            }
            (Limit::Time(limit), _) => spelled(limit),
            (Limit::Share(share), _) => exact_percent(share),
            (Limit::Amount(rate), LoadMetric::Good | LoadMetric::Rate) => format!("{rate}/s"),
            (Limit::Amount(count), _) => count.to_string(),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit_text();
        let (total, length) = match self.window {
            Window::Run => ("", 0),
            Window::Each(length) => ("", length),
            Window::Together(length) => ("total_", length),
        };
        match &self.metric {
            LoadMetric::TankMean => write!(f, "time({limit},{length}s)"),
            LoadMetric::TankQuantile(percent) => write!(f, "quantile({percent},{limit},{length}s)"),
            LoadMetric::Slower(than) => {
                write!(f, "total_time({},{limit},{length}s)", spelled(*than))
            }
            LoadMetric::Status(mask) => write!(f, "{total}http({mask},{limit},{length}s)"),
            LoadMetric::SystemError(mask) => write!(f, "{total}net({mask},{limit},{length}s)"),
            LoadMetric::Busy => write!(f, "instances({limit},{length}s)"),
            LoadMetric::Elapsed => write!(f, "limit({limit})"),
            compared => {
                let own = SIGNS.iter().find(|(_, sign)| *sign == self.comparison);
                let sign = own.map_or("", |(sign, _)| sign);
                write!(f, "{compared}{sign}{limit}")?;
                match length {
                    0 => Ok(()),
                    _ => write!(f, " over {length}s"),
                }
            }
        }
    }
}
