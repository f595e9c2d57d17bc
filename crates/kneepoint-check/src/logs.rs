//! The end of a log: known lines, how often, since when.

mod slow;

pub(crate) use slow::Stacks;

use crate::files::{Content, Files, Unread};
use crate::snapshot::LogHits;
use kneepoint_model::{LogFormat, LogKind};
use kneepoint_telemetry::classify;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// How much of the end of a log is read, in bytes.
const TAIL_BYTES: u64 = 4 << 20;

/// What the end of a log says. Lines that tell of daily business are left out, and of what a setting mends those from
/// before `since_s`, when the settings that run were read (seconds since 1970): they tell of what somebody wrote then.
pub(crate) fn hits(
    files: &dyn Files,
    path: &str,
    format: LogFormat,
    (now_s, since_s): (f64, f64),
) -> Result<Vec<LogHits>, Unread> {
    let content = files.tail(path, TAIL_BYTES)?;
    let lines = Lines::of(&content, path, format);
    let end_age_s = (now_s - content.modified_s).max(0.0);
    Ok(lines.hits(path, end_age_s, now_s - since_s))
}

/// A line with a meaning.
struct Line {
    kind: LogKind,
    /// In seconds, of whatever zone; minus infinity where neither it nor a line before it carries a time.
    at: f64,
    said: String,
    pool: Option<String>,
    /// Whether a setting of the same program mends it.
    of_settings: bool,
}

struct Lines {
    told: Vec<Line>,
    /// The time of the last line of all.
    latest: f64,
}

impl Lines {
    fn of(content: &Content, path: &str, format: LogFormat) -> Self {
        let text = content.text();
        let mut told: Vec<Line> = Vec::new();
        let mut latest = f64::NEG_INFINITY;
        for line in whole_lines(&text, content) {
            let (line, stamp) = stamped(line, path);
            // A line without a time was written after the one before it.
            let at = stamp.as_ref().map_or(latest, |(_, at)| *at);
            latest = latest.max(at);
            if tells_of_reading(format, &line) {
                told.retain(|line| !line.of_settings);
            }
            if let Some(kind) = classify(format, &line).filter(|kind| tells(*kind)) {
                told.push(Line {
                    kind,
                    at,
                    said: stamp.map_or_else(String::new, |(text, _)| text),
                    pool: pool(&line),
                    of_settings: of_settings(format, kind),
                });
            }
        }
        Self { told, latest }
    }

    /// Lines of one meaning together, those of each pool for themselves. What runs was read `loaded_age_s` ago.
    fn hits(self, path: &str, end_age_s: f64, loaded_age_s: f64) -> Vec<LogHits> {
        let latest = self.latest;
        // Lines carry local time of somewhere: the distance to the last line of all is free of that.
        let age = |at: f64| at.is_finite().then_some(end_age_s + (latest - at));
        let mut found: BTreeMap<(LogKind, Option<String>), LogHits> = BTreeMap::new();
        for line in self.told {
            let age_s = age(line.at);
            // Stamps count whole seconds.
            if line.of_settings && age_s.is_some_and(|age_s| age_s > loaded_age_s + 1.0) {
                continue;
            }
            let hits = found
                .entry((line.kind, line.pool.clone()))
                .or_insert_with(|| LogHits {
                    kind: line.kind,
                    count: 0,
                    first: line.said.clone(),
                    last: String::new(),
                    age_s: None,
                    path: path.to_owned(),
                    pool: line.pool.clone(),
                });
            hits.count += 1;
            hits.last = line.said;
            hits.age_s = [hits.age_s, age_s].into_iter().flatten().reduce(f64::min);
        }
        found.into_values().collect()
    }
}

/// Whether a program says that it reads its settings: PHP-FPM after a start and after a reload, PgBouncer when it is told to.
fn tells_of_reading(format: LogFormat, line: &str) -> bool {
    let said: &[&str] = match format {
        LogFormat::FpmError => &["ready to handle connections"],
        LogFormat::Pgbouncer => &["got SIGHUP, re-reading config", "RELOAD command issued"],
        _ => &[],
    };
    said.iter().any(|words| line.contains(words))
}

/// Whether what a line tells is mended by a setting of the program that wrote it.
fn of_settings(format: LogFormat, kind: LogKind) -> bool {
    use LogKind as Kind;
    match format {
        LogFormat::FpmError => matches!(kind, Kind::PoolExhausted | Kind::PoolBusySpawning),
        LogFormat::NginxError => matches!(
            kind,
            Kind::NoConnectionSlots
                | Kind::NoFileDescriptors
                | Kind::HeaderTooBig
                | Kind::BufferedToFile
        ),
        LogFormat::Redis | LogFormat::Mariadb => {
            matches!(kind, Kind::TooManyDbClients | Kind::TooManyCacheClients)
        }
        LogFormat::Pgbouncer => matches!(kind, Kind::TooManyDbClients | Kind::PoolerTimeout),
        _ => false,
    }
}

/// Whether a line tells of trouble, and not of daily business.
fn tells(kind: LogKind) -> bool {
    !matches!(
        kind,
        LogKind::WorkerStarted | LogKind::WorkerRecycled | LogKind::Reloaded | LogKind::PhpWarning
    )
}

/// The lines of what was read of a file: where that is its end only, the first may be a part of one.
fn whole_lines<'t>(text: &'t str, content: &Content) -> std::str::Lines<'t> {
    let mut lines = text.lines();
    if content.length > content.bytes.len() as u64 {
        lines.next();
    }
    lines
}

/// A line of the log at a path, out of Docker's own file where that keeps it, with the time that it carries: as it is
/// written, and in seconds, of whatever zone.
fn stamped<'t>(line: &'t str, path: &str) -> (Cow<'t, str>, Option<(String, f64)>) {
    let is_kept = path.ends_with("-json.log");
    let Some((line, kept)) = is_kept.then(|| unwrap(line)).flatten() else {
        return (Cow::Borrowed(line), stamp(line));
    };
    // Docker's times are all of one zone, and lines without a time of their own have them, too.
    let time = stamp(&kept).or_else(|| stamp(&line));
    (Cow::Owned(line), time)
}

/// The line in a line of Docker's own file, and the time at which Docker took it.
fn unwrap(line: &str) -> Option<(String, String)> {
    let value: serde_json::Value = serde_json::from_str(line).ok()?;
    let text = value.get("log")?.as_str()?.trim_end().to_owned();
    let time = value.get("time").and_then(serde_json::Value::as_str);
    Some((text, time.unwrap_or_default().to_owned()))
}

fn pool(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("[pool ")?;
    Some(rest.split(']').next()?.to_owned())
}

/// The time that a line begins with: as it is written, and in seconds, of whatever zone.
fn stamp(line: &str) -> Option<(String, f64)> {
    let mut head: String = line.chars().take(48).collect();
    // `2026-11-19T22:00:00`: the letter stands for a blank.
    if let Some(at) = head
        .find('T')
        .filter(|at| head[..*at].ends_with(|c: char| c.is_ascii_digit()))
    {
        head.replace_range(at..=at, " ");
    }
    let is_part = |c: char| c.is_ascii_alphanumeric();
    let words: Vec<(usize, &str)> = head
        .split(|c| !is_part(c))
        .filter(|word| !word.is_empty())
        .map(|word| (word.as_ptr() as usize - head.as_ptr() as usize, word))
        .collect();
    // Five words in a row make a date and a time; Apache's year comes last.
    (0..words.len().saturating_sub(5)).find_map(|at| {
        let window = &words[at..at + 6];
        let (seconds, used) = of_words(window).or_else(|| {
            let year = words.get(at + 6)?;
            // Mon DD HH MM SS micro YYYY
            let order = [*year, window[0], window[1], window[2], window[3], window[4]];
            of_words(&order).map(|(seconds, _)| (seconds, 5))
        })?;
        let (last, word) = window[used - 1];
        let text = head[window[0].0..last + word.len()].to_owned();
        Some((text, seconds))
    })
}

/// Seconds of year, month, day, hour, minute and second, or of day, month, year and so on.
fn of_words(words: &[(usize, &str)]) -> Option<(f64, usize)> {
    let number = |at: usize| words[at].1.parse::<i64>().ok();
    let is_year = |year: &i64| (2000..2200).contains(year);
    let (year, month, day) = match number(0).filter(is_year) {
        Some(year) => (year, month(words[1].1)?, number(2)?),
        None => (
            number(2).filter(is_year)?,
            month_name(words[1].1)?,
            number(0)?,
        ),
    };
    let (hour, minute, second) = (number(3)?, number(4)?, number(5)?);
    let fits = (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    let days = days_of(year, month, day);
    fits.then(|| (days * 86_400 + hour * 3600 + minute * 60 + second) as f64)
        .map(|seconds| (seconds, 6))
}

fn month(word: &str) -> Option<i64> {
    let number = word.parse().ok().filter(|month| (1..=12).contains(month));
    number.or_else(|| month_name(word))
}

fn month_name(word: &str) -> Option<i64> {
    const NAMES: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let at = (word.len() == 3).then(|| NAMES.find(word))??;
    (at % 3 == 0).then(|| at as i64 / 3 + 1)
}

/// Days since 1970 in the calendar of today.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March: the odd day of a leap year comes last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_read_in_every_server_s_spelling() {
        let epoch = 1_795_125_600.0; // 2026-11-19 22:00:00
        for line in [
            "2026/11/19 22:00:00 [error] 1#1: x",
            "[19-Nov-2026 22:00:00] WARNING: x",
            "4711:M 19 Nov 2026 22:00:00.123 # x",
            "2026-11-19 22:00:00 0 [Warning] x",
            "[Thu Nov 19 22:00:00.000000 2026] [mpm:error] x",
            "2026-11-19T22:00:00.1Z x",
        ] {
            let found = stamp(line).map(|(_, seconds)| seconds);
            assert_eq!(found, Some(epoch), "{line}");
        }
        assert_eq!(
            stamp("[19-Nov-2026 22:00:00] x").expect("read").0,
            "19-Nov-2026 22:00:00"
        );
        assert_eq!(stamp("no time"), None);
        assert_eq!(days_of(1970, 1, 1), 0);
        assert_eq!(days_of(2024, 3, 1) - days_of(2024, 2, 28), 2);
    }

    /// What a log says that was written a second before 1010, of a program that read its settings so long ago.
    fn said(text: &str, loaded_age_s: f64) -> Vec<LogHits> {
        let content = Content {
            bytes: text.into(),
            modified_s: 1000.0,
            length: text.len() as u64,
        };
        Lines::of(&content, "/log", LogFormat::FpmError).hits("/log", 10.0, loaded_age_s)
    }

    #[test]
    fn what_was_so_before_a_reload_counts_no_more() {
        const FULL: &str = "[19-Nov-2026 22:00:00] WARNING: [pool www] server reached pm.max_children setting (5), consider raising it\n\
            [19-Nov-2026 22:10:00] WARNING: [pool www] child 7 exited on signal 11 (SIGSEGV) after 3.1 seconds from start\n";
        const LATER: &str = "[19-Nov-2026 22:30:00] WARNING: [pool shop] server reached pm.max_children setting (9), consider raising it\n";
        let kinds = |text: &str, age_s| {
            let found = said(text, age_s);
            let names = found
                .into_iter()
                .map(|one| (one.kind, one.pool.unwrap_or_default()));
            names.collect::<Vec<_>>()
        };
        let www = |kind| (kind, "www".to_owned());
        let shop = (LogKind::PoolExhausted, "shop".to_owned());
        let crash = www(LogKind::WorkerCrashed);
        let all = format!("{FULL}{LATER}");
        // The last line is 10 s old, the first one half an hour more.
        assert_eq!(
            kinds(&all, 9e9),
            [shop.clone(), www(LogKind::PoolExhausted), crash.clone()]
        );
        assert_eq!(kinds(&all, 600.0), [shop.clone(), crash.clone()]);
        assert_eq!(kinds(&all, 5.0), std::slice::from_ref(&crash));
        // PHP-FPM itself says when it was loaded.
        let reloaded =
            format!("{FULL}[19-Nov-2026 22:20:00] NOTICE: ready to handle connections\n{LATER}");
        assert_eq!(kinds(&reloaded, 9e9), [shop, crash]);
    }

    #[test]
    fn pgbouncer_says_when_it_reads_its_file_again() {
        const WAITED: &str =
            "2026-11-19 22:00:00.1 UTC [7] WARNING pooler error: query_wait_timeout\n";
        let count = |text: String| {
            let content = Content {
                length: text.len() as u64,
                bytes: text.into(),
                modified_s: 1000.0,
            };
            let found = Lines::of(&content, "/log", LogFormat::Pgbouncer).hits("/log", 10.0, 9e9);
            found.iter().map(|hits| hits.count).sum::<u64>()
        };
        assert_eq!(count(format!("{WAITED}{WAITED}")), 2);
        for said in ["got SIGHUP, re-reading config", "RELOAD command issued"] {
            let line = format!("2026-11-19 22:10:00.1 UTC [7] LOG {said}\n");
            assert_eq!(count(format!("{WAITED}{line}")), 0);
            assert_eq!(count(format!("{WAITED}{line}{WAITED}")), 1);
        }
    }

    #[test]
    fn lines_are_counted_with_their_age() {
        let text = "[19-Nov-2026 22:00:00] WARNING: [pool www] server reached pm.max_children setting (5), consider raising it\n\
            [19-Nov-2026 22:30:00] WARNING: [pool www] server reached pm.max_children setting (5), consider raising it\n\
            [19-Nov-2026 23:00:00] NOTICE: ready to handle connections\n";
        let text = text.replace("ready to handle connections", "a line of daily business");
        let found = said(&text, 9e9);
        let [hits] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(
            (hits.kind, hits.count, hits.pool.as_deref()),
            (LogKind::PoolExhausted, 2, Some("www"))
        );
        assert_eq!(
            (hits.first.as_str(), hits.age_s),
            ("19-Nov-2026 22:00:00", Some(1810.0))
        );
    }

    #[test]
    fn a_part_of_a_line_is_left_out_and_docker_s_lines_are_unwrapped() {
        let line = r#"{"log":"[19-Nov-2026 22:00:00] WARNING: [pool www] server reached pm.max_children setting (5)\n","time":"x"}"#;
        let content = Content {
            bytes: format!("{line}\n{line}\n").into(),
            modified_s: 0.0,
            length: 1 << 30,
        };
        let path = "/x/1-json.log";
        let found = Lines::of(&content, path, LogFormat::FpmError).hits(path, 0.0, 0.0);
        assert_eq!(found[0].count, 1);
    }

    #[test]
    fn a_line_without_a_time_is_as_old_as_the_one_before_it_or_as_docker_says() {
        const HEAP: &str = "zend_mm_heap corrupted";
        let age = |text: String, path: &str| {
            let content = Content {
                length: text.len() as u64,
                bytes: text.into(),
                modified_s: 0.0,
            };
            let found = Lines::of(&content, path, LogFormat::Apache).hits(path, 10.0, 0.0);
            let ages = found.into_iter().map(|hits| hits.age_s);
            ages.collect::<Vec<_>>()
        };
        let line =
            |minute: &str| format!("[Thu Nov 19 22:{minute}:00.000000 2026] [mpm:notice] x\n");
        assert_eq!(age(format!("{HEAP}\n"), "/error.log"), [None]);
        let between = format!("{}{HEAP}\n{}", line("00"), line("30"));
        assert_eq!(age(between, "/error.log"), [Some(1810.0)]);
        let kept = |minute: &str| {
            format!("{{\"log\":\"{HEAP}\\n\",\"time\":\"2026-11-19T22:{minute}:00.5Z\"}}\n")
        };
        let both = kept("00") + &kept("30");
        assert_eq!(age(both, "/x/1-json.log"), [Some(10.0)]);
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "\\PC{0,80}") {
            let _ = (stamp(&line), pool(&line), unwrap(&line));
        }
    }
}
