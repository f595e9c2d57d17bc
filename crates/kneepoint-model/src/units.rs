//! Durations, sizes, shares and rates as people write them, and back.

use std::time::Duration;

/// What is wrong with a quantity somebody wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct UnitError {
    /// The text as given.
    pub text: String,
    /// What would have been accepted, with an example.
    pub expected: &'static str,
}

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// The units of Go's durations, which k6 and vegeta take, in nanoseconds; and days, which k6 adds.
pub const GO_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND_NS),
    ("m", 60 * SECOND_NS),
    ("h", 3600 * SECOND_NS),
    ("d", 86_400 * SECOND_NS),
];

/// A sum of numbers with units, such as `1h30m` or `1.5s`, without any rounding: a number has at most nine
/// decimals. `units` are names with their nanoseconds; `bare` is what a number without a unit counts in, when it
/// may be without. `None` when the text is anything else, or longer than a `Duration` holds.
#[must_use]
pub fn exact_duration(text: &str, units: &[(&str, u64)], bare: Option<u64>) -> Option<Duration> {
    let mut rest = text.trim();
    let mut nanos = 0u128;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(rest.len());
        let (whole, fraction) = rest[..end].split_once('.').unwrap_or((&rest[..end], ""));
        if fraction.len() > 9 || whole.len() > 12 {
            return None;
        }
        let number: u128 = whole.parse().ok()?;
        let part: u128 = format!("{fraction:0<9}").parse().ok()?;
        rest = rest[end..].trim_start();
        let next = rest
            .find(|c: char| c.is_ascii_digit() || c == '.' || c.is_whitespace())
            .unwrap_or(rest.len());
        let unit = match &rest[..next] {
            "" if rest.is_empty() => bare?,
            name => units.iter().find(|(unit, _)| *unit == name)?.1,
        };
        let own =
            (number * u128::from(SECOND_NS) + part) * u128::from(unit) / u128::from(SECOND_NS);
        nanos = nanos.saturating_add(own);
        rest = rest[next..].trim_start();
    }
    let seconds = u64::try_from(nanos / u128::from(SECOND_NS)).ok()?;
    Some(Duration::new(
        seconds,
        (nanos % u128::from(SECOND_NS)) as u32,
    ))
}

fn split_number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then(|| (number, text[end..].trim()))
}

/// A duration: one or more of `90`, `90s`, `1500ms`, `2m`, `1h30m`, `250us`. A bare number is seconds.
///
/// # Errors
/// The text is empty, negative, or has an unknown unit.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let error = || UnitError {
        text: text.to_owned(),
        expected: "a duration such as \"200ms\", \"2s\" or \"20m\"",
    };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(error());
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let (number, tail) = split_number(rest).ok_or_else(error)?;
        let unit_end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        seconds += number
            * match tail[..unit_end].trim() {
                "us" | "µs" => 1e-6,
                "ms" => 1e-3,
                "" | "s" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3600.0,
                "d" => 86400.0,
                _ => return Err(error()),
            };
        rest = tail[unit_end..].trim();
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| error())
}

/// A share: `0.1%` or a plain number between 0 and 1.
///
/// # Errors
/// Not a number, or outside 0 to 1.
pub fn parse_share(text: &str) -> Result<f64, UnitError> {
    let error = || UnitError {
        text: text.to_owned(),
        expected: "a share such as \"0.1%\" or 0.001",
    };
    let share = match split_number(text).ok_or_else(error)? {
        (number, "%") => number / 100.0,
        (number, "") => number,
        _ => return Err(error()),
    };
    (0.0..=1.0)
        .contains(&share)
        .then_some(share)
        .ok_or_else(error)
}

/// A share as a percentage that [`parse_share`] reads back to the same share: the shortest digits that do.
pub(crate) fn exact_percent(share: f64) -> String {
    let exact =
        |text: &String| parse_share(text).is_ok_and(|read| read.to_bits() == share.to_bits());
    let mut candidates = (0..=17).map(|digits| format!("{:.digits$}%", share * 100.0));
    candidates.find(exact).unwrap_or_else(|| share.to_string())
}

/// A size in bytes: `512`, `64K`, `128M`, `2GiB`. As PHP and nginx do, K, M and G are powers of 1024.
///
/// # Errors
/// Not a number, or an unknown unit.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let (number, factor, _) = split_bytes(text)?;
    Ok((number * factor as f64).round() as u64)
}

/// The same in parts: the number, the bytes of its unit, and the unit as it is written.
///
/// # Errors
/// As [`parse_bytes`].
pub fn split_bytes(text: &str) -> Result<(f64, u64, &str), UnitError> {
    let error = || UnitError {
        text: text.to_owned(),
        expected: "a size such as \"512K\", \"128M\" or \"2GiB\"",
    };
    let (number, unit) = split_number(text).ok_or_else(error)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1u64,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err(error()),
    };
    Ok((number, factor, unit))
}

/// A number of bytes for a person: `512 B`, `1.5 MiB`.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// Milliseconds for a person, with three significant figures: `0.42 ms`, `12.3 ms`, `1.25 s`, `2 s`.
#[must_use]
pub fn format_ms(ms: f64) -> String {
    if ms >= 1000.0 && ms % 1000.0 == 0.0 {
        format!("{:.0} s", ms / 1000.0)
    } else if ms >= 1000.0 {
        format!("{:.2} s", ms / 1000.0)
    } else if ms >= 100.0 {
        format!("{ms:.0} ms")
    } else if ms >= 10.0 {
        format!("{ms:.1} ms")
    } else {
        format!("{ms:.2} ms")
    }
}

/// A duration as a budget is written: `45s`, `8m`, `1m30s`.
#[must_use]
pub fn format_span(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, 0) => format!("{minutes}m"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

/// A rate for a person, with no more figures than it deserves: `38.5/s`, `420/s`, `12 400/s`.
#[must_use]
pub fn format_rate(per_second: f64) -> String {
    if per_second < 100.0 {
        return format!("{per_second:.1}/s");
    }
    let whole = format!("{:.0}", per_second);
    if whole.len() > 4 {
        let (head, tail) = whole.split_at(whole.len() - 3);
        format!("{head} {tail}/s")
    } else {
        format!("{whole}/s")
    }
}

/// What a rate counts. Where visitors make several requests each, load is offered in visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RateUnit {
    /// Requests, each of which stands for itself.
    Requests,
    /// Visits of one or more requests.
    Visits,
}

impl RateUnit {
    /// A rate for a person: `38.5/s` where there is nothing but requests, `38.5 visits/s`.
    #[must_use]
    pub fn format(self, per_second: f64) -> String {
        match self {
            Self::Requests => format_rate(per_second),
            Self::Visits => format_named(per_second, self.name()),
        }
    }

    /// What is counted, in the plural: `requests`, `visits`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Visits => "visits",
        }
    }
}

/// A rate of requests where it stands beside one of visits: `130 requests/s`.
#[must_use]
pub fn format_requests(per_second: f64) -> String {
    format_named(per_second, RateUnit::Requests.name())
}

fn format_named(per_second: f64, what: &str) -> String {
    let rate = format_rate(per_second);
    format!("{} {what}/s", rate.trim_end_matches("/s"))
}

/// Percent below which one decimal says little of a share, or nothing \[ours\].
const SMALL_PERCENT: f64 = 0.095;
/// Percent below which a share is as good as none \[ours\].
const LEAST_PERCENT: f64 = 0.0001;

/// A share as a percentage: `0.1 %`, `12 %`; a small one with two figures: `0.02 %`.
#[must_use]
pub fn format_share(share: f64) -> String {
    // An empty sum is -0.0, and that is 0 %.
    let percent = share * 100.0 + 0.0;
    if (LEAST_PERCENT..SMALL_PERCENT).contains(&percent.abs()) {
        let decimals = (1.0 - percent.abs().log10().floor()) as usize;
        let text = format!("{percent:.decimals$}");
        format!("{} %", text.trim_end_matches('0'))
    } else if percent != 0.0 && percent.abs() < 10.0 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// Half a relative width up to which both ends of an interval are the same percentage, to half a point \[ours\].
const SAID_AS_ONE_SHARE: f64 = 0.1;
/// Half a relative width from which on a percentage says nothing that a person could use \[ours\]: the lower end of such an
/// interval is two fifths off, and the upper one two thirds.
const SAID_AS_A_FACTOR: f64 = 0.5;

/// How well a number is known whose interval has this relative half width, and whose ends lie as far from it by ratio:
/// `+-7.1 %`, `-25 % to +33 %` where the two ends are not the same percentage, and `a factor of 2.4` from where a percentage
/// says nothing.
#[must_use]
pub fn format_precision(half_width: f64) -> String {
    // (f - 1/f) / 2 is the half width.
    let factor = half_width + half_width.hypot(1.0);
    if half_width < SAID_AS_ONE_SHARE {
        format!("+-{}", format_share(half_width))
    } else if half_width < SAID_AS_A_FACTOR {
        let (below, above) = (1.0 - 1.0 / factor, factor - 1.0);
        format!("-{} to +{}", format_share(below), format_share(above))
    } else {
        format!("a factor of {factor:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, ms) in [
            ("2s", 2000.0),
            ("200ms", 200.0),
            ("1h30m", 5_400_000.0),
            ("90", 90_000.0),
            ("1m30s", 90_000.0),
            ("250us", 0.25),
        ] {
            let read = parse_duration(text).expect(text);
            assert!((read.as_secs_f64() * 1e3 - ms).abs() < 1e-6, "{text}");
        }
        for text in ["", "-1s", "3 parsecs", "s", "1e9999"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_and_sizes_keep_their_bounds() {
        assert_eq!(parse_share("0.1%"), Ok(0.001));
        assert_eq!(parse_share("0.25"), Ok(0.25));
        assert!(parse_share("120%").is_err());
        assert_eq!(parse_bytes("128M"), Ok(128 << 20));
        assert_eq!(parse_bytes("2GiB"), Ok(2 << 30));
        assert!(parse_bytes("two").is_err());
    }

    #[test]
    fn numbers_are_printed_with_the_figures_they_deserve() {
        assert_eq!(format_rate(12_432.0), "12 432/s");
        assert_eq!(format_rate(38.46), "38.5/s");
        assert_eq!(RateUnit::Requests.format(38.46), "38.5/s");
        assert_eq!(RateUnit::Visits.format(38.46), "38.5 visits/s");
        assert_eq!(format_requests(192.3), "192 requests/s");
        for span in ["45s", "8m", "1m30s"] {
            let time = parse_duration(span).expect("a duration");
            assert_eq!(format_span(time), span);
        }
        assert_eq!(format_ms(1250.0), "1.25 s");
        assert_eq!(format_bytes(1536 * 1024), "1.5 MiB");
        assert_eq!(format_share(0.001), "0.1 %");
    }

    #[test]
    fn a_small_share_is_not_told_as_nothing() {
        for (share, expected) in [
            (0.0, "0 %"),
            (-0.0, "0 %"),
            (1e-9, "0.0 %"),
            (0.000_02, "0.002 %"),
            (0.000_2, "0.02 %"),
            (-0.000_417, "-0.042 %"),
            (0.000_96, "0.1 %"),
            (0.0123, "1.2 %"),
        ] {
            assert_eq!(format_share(share), expected);
        }
    }

    #[test]
    fn what_is_hardly_known_is_known_to_a_factor() {
        assert_eq!(format_precision(0.071), "+-7.1 %");
        assert_eq!(format_precision(0.29), "-25 % to +33 %");
        assert_eq!(format_precision(0.49), "-38 % to +60 %");
        // 50.5 to 451 around 151.
        assert_eq!(format_precision(1.326), "a factor of 3.0");
    }
}
