//! Numbers in words, the same in every format.
//!
//! Spaces inside a number or between a number and its unit are no-break spaces, so that no format wraps there;
//! [`plain`] turns them back where text is meant to be searched and copied.

use kneepoint_model::run::{LimitBasis, LimitResult};
use kneepoint_model::units::{self, RateUnit};
use kneepoint_model::{Change, Effect, Health, Interval, Layer, LoadPoint, Setting};

const NO_BREAK: char = '\u{a0}';

fn tied(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

/// The text with each unit tied to its number, so that a page never breaks between them.
pub(crate) fn units_tied(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split(' ') {
        let is_unit = matches!(
            word.trim_end_matches([',', ';', '.', ')']),
            "ms" | "s" | "min" | "h" | "%"
        );
        if !out.is_empty() {
            let after_number = out.ends_with(|last: char| last.is_ascii_digit());
            out.push(if is_unit && after_number {
                NO_BREAK
            } else {
                ' '
            });
        }
        out.push_str(word);
    }
    out
}

/// The text with ordinary spaces.
pub(crate) fn plain(text: &str) -> String {
    text.replace(NO_BREAK, " ")
}

/// `38.5/s`; `unknown` for what is not a number.
pub(crate) fn rate(per_second: f64) -> String {
    if per_second.is_finite() {
        tied(&units::format_rate(per_second))
    } else {
        "unknown".into()
    }
}

/// `38.5/s`, and `38.5 visits/s` where those are counted; `unknown` for what is not a number.
pub(crate) fn rate_in(unit: RateUnit, per_second: f64) -> String {
    if per_second.is_finite() {
        tied(&unit.format(per_second))
    } else {
        "unknown".into()
    }
}

/// A rate of requests: `130/s`, and `130 requests/s` in a run whose loads are of visits.
pub(crate) fn requests_in(unit: RateUnit, per_second: f64) -> String {
    match unit {
        RateUnit::Visits if per_second.is_finite() => tied(&units::format_requests(per_second)),
        RateUnit::Visits | RateUnit::Requests => rate(per_second),
    }
}

/// What a load was offered at: `130/s`, or `26.0 visits/s`.
pub(crate) fn offered(load: &LoadPoint) -> String {
    let unit = match load.sessions {
        Some(_) => RateUnit::Visits,
        None => RateUnit::Requests,
    };
    rate_in(unit, load.rate_hz())
}

/// Ends of an interval over its middle from which on the middle alone is no answer \[ours\].
pub(crate) const WIDE: f64 = 1.5;

/// Whether R* is known so badly that it is told as a range.
pub(crate) fn is_wide(limit: &LimitResult) -> bool {
    let rate = &limit.rate_hz;
    rate.high > WIDE * rate.estimate || rate.estimate > WIDE * rate.low
}

/// Whether no rate was seen at which the SLO surely holds, so that nobody knows how low R* is.
pub(crate) fn has_no_low_end(limit: &LimitResult) -> bool {
    limit.rate_hz.estimate > 0.0 && limit.rate_hz.low <= 0.0
}

/// What is said of a stack that serves nothing.
const NO_RATE: &str =
    "No rate was found at which the SLO holds: no request succeeded, not even one at a time";

/// `R* is 38.5/s (37.2 to 39.8)`; where it is not known that well, that it is not, and what would tell.
pub(crate) fn limit_is(limit: &LimitResult) -> String {
    if limit.serves_nothing() {
        return NO_RATE.to_owned();
    }
    if let Some(missed) = limit.missed_alone {
        return format!("No rate meets the SLO: {}", missed.in_words());
    }
    if !is_wide(limit) {
        return format!("R* is {}", of_limit(limit));
    }
    let (told, unit) = (limit.rate_hz, limit.unit());
    if has_no_low_end(limit) {
        return format!(
            "R* lies below {}, and nobody knows how far: no rate was seen at which the SLO surely holds",
            rate_in(unit, told.high)
        );
    }
    format!(
        "R* lies somewhere between {} and {}, best guess {}; a longer --budget narrows that",
        rate_in(unit, told.low),
        rate_in(unit, told.high),
        rate_in(unit, told.estimate),
    )
}

/// A part of a request's time with where it is: `db waiting`, and `PHP running` where the part says it itself.
pub(crate) fn part(layer: Layer, what: &str) -> String {
    let first = what.split(' ').next().unwrap_or_default();
    match first.eq_ignore_ascii_case(layer.name()) {
        true => what.to_owned(),
        false => format!("{layer} {what}"),
    }
}

/// A setting as its owner writes it, with the name by which Kneepoint takes it: `opcache.enable = 1 in php.ini (--set
/// php.opcache.enable=1)`. As it is, where what to write depends on the application or on the server's version.
pub(crate) fn owners_setting(setting: &Setting) -> String {
    let written = written_setting(setting);
    match (setting.key.name.as_str(), setting.value.as_str()) {
        ("innodb_flush_log_at_trx_commit", "0" | "2") | ("synchronous_commit", "off") => {
            format!("{written}, with which a crash may lose the last second of what was written")
        }
        _ => written,
    }
}

fn written_setting(setting: &Setting) -> String {
    let (name, value) = (setting.key.name.as_str(), setting.value.as_str());
    match Change::of(&setting.key) {
        Some(Change::Statement { .. }) => return value.to_owned(),
        Some(Change::Line { file, line }) => return format!("{value} in line {line} of {file}"),
        Some(Change::Command { .. }) => return format!("{value} in the application's directory"),
        None => {}
    }
    let of_pool = ["pm", "listen.", "request_", "process.", "rlimit_"];
    let of_ini = [
        "opcache.",
        "realpath_cache_",
        "memory_limit",
        "session.",
        "zend.",
    ];
    let begins = |all: &[&str]| all.iter().any(|begin| name.starts_with(begin));
    let own = match (setting.key.layer, name) {
        (Layer::Php, _) if begins(&of_pool) => format!("{name} = {value} in PHP-FPM's pool file"),
        (Layer::Php, _) if begins(&of_ini) => format!("{name} = {value} in php.ini"),
        (Layer::Web | Layer::Proxy, "upstream.keepalive") => {
            format!("keepalive {value}; in the upstream block of nginx")
        }
        (Layer::App, "db.persistent") if value == "true" => {
            "persistent connections to the database, in the application's own settings".to_owned()
        }
        (Layer::App, "redis.persistent") if value == "true" => {
            "persistent connections to Redis, in the application's own settings".to_owned()
        }
        _ => return setting.to_string(),
    };
    format!("{own} (--set {}={value})", setting.key)
}

/// R* with its interval: `38.5/s (37.2 to 39.8)`; of visits `26.3 visits/s (25.0 to 27.5), that is 131 requests/s, about 40
/// users online`.
pub(crate) fn of_limit(limit: &LimitResult) -> String {
    let own = interval_in(limit.unit(), &limit.rate_hz);
    match limit.besides_visits() {
        Some(besides) => format!("{own}, that is {besides}"),
        None => own,
    }
}

/// `38.5 visits/s (37.2 to 39.8)`.
pub(crate) fn interval_in(unit: RateUnit, interval: &Interval) -> String {
    let range = rate_range(interval);
    format!(
        "{} ({})",
        rate_in(unit, interval.estimate),
        range.trim_end_matches("/s")
    )
}

/// `37.2 to 39.8 visits/s`.
pub(crate) fn range_in(unit: RateUnit, interval: &Interval) -> String {
    let low = rate(interval.low);
    let low = low.trim_end_matches("/s");
    format!(
        "{low}{NO_BREAK}to{NO_BREAK}{}",
        rate_in(unit, interval.high)
    )
}

/// A round rate on an axis: `0`, `2.5`, `50`, `12 000`.
pub(crate) fn rate_tick(per_second: f64) -> String {
    rate(per_second)
        .trim_end_matches("/s")
        .trim_end_matches(".0")
        .to_owned()
}

/// `37.2 to 39.8/s`.
pub(crate) fn rate_range(interval: &Interval) -> String {
    range_in(RateUnit::Requests, interval)
}

/// `38.5/s (37.2 to 39.8)`.
pub(crate) fn rate_interval(interval: &Interval) -> String {
    interval_in(RateUnit::Requests, interval)
}

/// A ratio with the figures it deserves: `1.84`, `0.993`, `12.4`; `unknown` for what is not a number.
pub(crate) fn ratio(value: f64) -> String {
    match value.abs() {
        v if !v.is_finite() => "unknown".into(),
        v if v > 1e6 => "over a million".into(),
        v if (v - 1.0).abs() < 0.1 => format!("{value:.3}"),
        v if v < 10.0 => format!("{value:.2}"),
        v if v < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// `1.84 (1.74 to 1.95)`, and `1.84 (at least 1.74)` where the other end says nothing; `None` where neither does.
pub(crate) fn ratio_interval(interval: &Interval) -> Option<String> {
    let range = tied(&ratio_range(interval)?);
    Some(match interval.estimate.is_finite() {
        true => format!("{} ({range})", ratio(interval.estimate)),
        false => range,
    })
}

/// `x1.84 (1.74 to 1.95)`; that it is not known, where neither end says anything.
pub(crate) fn times(interval: &Interval) -> String {
    match ratio_interval(interval) {
        Some(_) if (1e6..f64::INFINITY).contains(&interval.estimate) => {
            "over a million times".to_owned()
        }
        Some(told) if interval.estimate.is_finite() => format!("x{told}"),
        Some(told) => told,
        None => "not known".to_owned(),
    }
}

/// `x1.84 (1.74 to 1.95)`; that it is not known, where there were too few pairs to tell.
pub(crate) fn factor(effect: &Effect) -> String {
    let ratio = effect.ratio.as_ref();
    ratio.map_or_else(|| "not known".to_owned(), times)
}

/// `1.74 to 1.95`, `at least 1.74`, `at most 1.95`; `None` where neither end says anything.
pub(crate) fn ratio_range(interval: &Interval) -> Option<String> {
    interval.ratio_range(ratio)
}

/// `8 pairs, 32 closed-loop workers, 5 s steps; changes below 3.1 % would hardly show`: how many trials an effect rests on, over how long, and how
/// small an effect the noise would have let through.
pub(crate) fn effect_basis(effect: &Effect) -> String {
    let separator = if effect.conditions.is_empty() {
        ""
    } else {
        ", "
    };
    format!("{}{separator}{}", pairs(effect), effect_conditions(effect))
}

/// `8 pairs`.
pub(crate) fn pairs(effect: &Effect) -> String {
    counted(u64::from(effect.pairs), "pair", "pairs")
}

/// [`effect_basis`] without the pairs.
pub(crate) fn effect_conditions(effect: &Effect) -> String {
    let unseen = unseen(effect);
    format!("{}{unseen}{}", effect.conditions, by_measure(effect))
}

/// `; changes below 3.1 % would hardly show`; nothing where there are too few pairs to say.
pub(crate) fn unseen(effect: &Effect) -> String {
    effect.visible().map_or_else(String::new, |least| {
        format!("; changes below {} would hardly show", share(least))
    })
}

/// `; by CPU time a request, both at once: x1.05, pairs vary by 1.6 % (8 pairs); ...`: what each measure says, where there
/// were several; and that the CPU does not bind, where it does not.
pub(crate) fn by_measure(effect: &Effect) -> String {
    let told = effect.measures.iter().map(|measure| {
        let scatter = measure
            .pair_sd
            .map_or_else(String::new, |sd| format!(", pairs vary by {}", share(sd)));
        format!(
            "; by {}: x{}{scatter} ({})",
            measure.quantity,
            ratio(measure.ratio),
            counted(u64::from(measure.pairs), "pair", "pairs")
        )
    });
    let told = match effect.measures.len() {
        0 | 1 => String::new(),
        _ => told.collect(),
    };
    let bound = match effect.cpu_binds {
        Some(false) => {
            "; the CPU does not bind, so what a request costs of it says nothing of capacity"
        }
        _ => "",
    };
    format!("{told}{bound}")
}

/// `99 % of the gain (96 % to 102 %) survive a restart`.
pub(crate) fn kept_gain(kept: &Interval) -> String {
    format!(
        "{} of the gain ({} to {}) survives a restart",
        share(kept.estimate),
        share(kept.low),
        share(kept.high)
    )
}

/// `18 steps in 3 min 24 s of load`: how many steps an R* rests on, and over how long. Its interval stands beside it. Where
/// others took a noticeable share of the machine, that too.
pub(crate) fn limit_basis(basis: &LimitBasis) -> String {
    /// Steal that is worth a word.
    const NOTICEABLE: f64 = 0.02;
    let steps = counted(basis.steps as u64, "step", "steps");
    let stolen = match basis.steal_share {
        Some(stolen) if stolen >= NOTICEABLE => {
            format!(", up to {} kept by its host", share(stolen))
        }
        _ => String::new(),
    };
    let others = match basis.foreign_share {
        Some(used) if used >= Health::QUIET => {
            format!(", while others used {} of the machine", share(used))
        }
        _ => String::new(),
    };
    format!(
        "{steps} in {} of load{stolen}{others}",
        duration(basis.load_s)
    )
}

/// `12.3 ms`; `no response` for `None`.
pub(crate) fn ms(value: Option<f64>) -> String {
    match value {
        Some(value) if value.is_finite() => tied(&units::format_ms(value)),
        Some(_) => "unknown".into(),
        None => "no response".into(),
    }
}

/// `4.2 %`.
pub(crate) fn share(value: f64) -> String {
    if value.is_finite() {
        tied(&units::format_share(value))
    } else {
        "unknown".into()
    }
}

/// A count with its thousands apart: `41 297`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) && digits.len() > 4 {
            out.push(NO_BREAK);
        }
        out.push(digit);
    }
    out
}

/// `1 request`, `3 requests`.
pub(crate) fn counted(value: u64, one: &str, many: &str) -> String {
    format!(
        "{}{NO_BREAK}{}",
        count(value),
        if value == 1 { one } else { many }
    )
}

/// A duration: `48 s`, `14 min 32 s`, `1 h 05 min`.
pub(crate) fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "unknown".into();
    }
    // A sum of nothing is minus zero.
    let seconds = seconds.abs();
    let whole = seconds.round() as u64;
    let text = match whole {
        0..=9 => format!("{seconds:.1} s"),
        10..=59 => format!("{whole} s"),
        60..=3599 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    };
    tied(&text)
}

/// A moment of the run: `04:07`, `1:02:03`.
pub(crate) fn clock(seconds: f64) -> String {
    let whole = if seconds.is_finite() {
        seconds.max(0.0) as u64
    } else {
        0
    };
    let (hours, minutes, rest) = (whole / 3600, whole % 3600 / 60, whole % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{rest:02}")
    } else {
        format!("{minutes:02}:{rest:02}")
    }
}

/// An RFC 3339 time in UTC as people read it: `2026-11-20 03:12 UTC`; anything else as it is.
pub(crate) fn moment(rfc3339: &str) -> String {
    match (rfc3339.get(0..10), rfc3339.get(10..11), rfc3339.get(11..16)) {
        (Some(day), Some("T"), Some(time)) if rfc3339.ends_with('Z') => {
            tied(&format!("{day} {time} UTC"))
        }
        _ => rfc3339.to_owned(),
    }
}

/// The first letter in upper case.
pub(crate) fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + chars.as_str()
    })
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(written: String, expected: &str) {
        assert_eq!(plain(&written), expected);
    }

    #[test]
    fn numbers_read_as_people_write_them() {
        check(count(4_146), "4146");
        check(count(1_234_567), "1 234 567");
        check(counted(1, "request", "requests"), "1 request");
        check(duration(872.0), "14 min 32 s");
        check(duration(3900.0), "1 h 05 min");
        check(clock(247.9), "04:07");
        check(moment("2026-11-20T03:12:44Z"), "2026-11-20 03:12 UTC");
        check(moment("yesterday"), "yesterday");
        check(listed(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }

    #[test]
    fn a_limit_of_visits_says_what_it_counts() {
        let mut limit = LimitResult {
            rate_hz: Interval {
                low: 25.0,
                estimate: 26.3,
                high: 27.5,
            },
            ..LimitResult::default()
        };
        check(of_limit(&limit), "26.3/s (25.0 to 27.5)");
        (limit.requests_a_visit, limit.visit_s) = (Some(5.0), Some(13.0));
        check(
            of_limit(&limit),
            "26.3 visits/s (25.0 to 27.5), that is 132 requests/s, about 342 users online",
        );
        check(requests_in(RateUnit::Visits, 131.5), "132 requests/s");
        check(requests_in(RateUnit::Requests, 131.5), "132/s");
    }

    #[test]
    fn a_limit_that_is_hardly_known_is_told_as_the_range_that_the_search_found() {
        let mut limit = LimitResult {
            rate_hz: Interval {
                low: 50.5,
                estimate: 151.0,
                high: 451.0,
            },
            saturation_hz: 204.0,
            ..LimitResult::default()
        };
        check(
            limit_is(&limit),
            "R* lies somewhere between 50.5/s and 451/s, best guess 151/s; a longer --budget narrows that",
        );
        // One short closed loop is no bound: later steps of a run may serve more than it did.
        check(of_limit(&limit), "151/s (50.5 to 451)");
        (limit.rate_hz.low, limit.rate_hz.high) = (140.0, 160.0);
        check(limit_is(&limit), "R* is 151/s (140 to 160)");
        limit.rate_hz.low = 0.0;
        check(
            limit_is(&limit),
            "R* lies below 160/s, and nobody knows how far: no rate was seen at which the SLO surely holds",
        );
        limit.rate_hz = Interval::default();
        check(limit_is(&limit), NO_RATE);
    }

    #[test]
    fn a_setting_is_told_as_its_owner_writes_it() {
        let told = |key: &str, value: &str| {
            owners_setting(&Setting {
                key: key.parse().expect("a key"),
                value: value.into(),
            })
        };
        assert_eq!(
            told("php.opcache.enable", "1"),
            "opcache.enable = 1 in php.ini (--set php.opcache.enable=1)"
        );
        assert_eq!(
            told("php.pm.max_children", "16"),
            "pm.max_children = 16 in PHP-FPM's pool file (--set php.pm.max_children=16)"
        );
        assert!(told("web.upstream.keepalive", "32").starts_with("keepalive 32; in the upstream"));
        assert_eq!(told("cache.maxclients", "9"), "cache.maxclients = 9");
    }

    #[test]
    fn a_unit_stays_with_its_number() {
        assert_eq!(
            units_tied("p95 <= 200 ms, timeout 2 s in s"),
            "p95 <= 200\u{a0}ms, timeout 2\u{a0}s in s"
        );
    }

    #[test]
    fn a_part_does_not_name_its_layer_twice() {
        assert_eq!(part(Layer::Php, "PHP running"), "PHP running");
        assert_eq!(part(Layer::Db, "waiting"), "db waiting");
    }

    #[test]
    fn what_is_no_number_is_not_printed_as_one() {
        check(rate(f64::NAN), "unknown");
        check(ratio(f64::INFINITY), "unknown");
        check(ratio(4e8), "over a million");
        check(ms(None), "no response");
        check(duration(-1.0), "unknown");
        check(clock(f64::NAN), "00:00");
    }

    #[test]
    fn a_factor_is_told_as_far_as_its_interval_says_something() {
        let told = |low, estimate, high, expected| {
            let ratio = Interval {
                low,
                estimate,
                high,
            };
            check(times(&ratio), expected);
        };
        told(1.74, 1.84, 1.95, "x1.84 (1.74 to 1.95)");
        told(1.3, 2.0, f64::INFINITY, "x2.00 (at least 1.30)");
        told(1.3, f64::INFINITY, f64::INFINITY, "at least 1.30");
        told(0.0, 0.8, 1.3, "x0.80 (at most 1.30)");
        told(1.3, 4e8, f64::INFINITY, "over a million times");
        told(0.0, 1.2, f64::INFINITY, "not known");
        told(f64::NAN, 0.0, f64::INFINITY, "not known");
    }
}
