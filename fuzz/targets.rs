//! The fuzz targets: what each does with bytes nobody thought of, and what must hold. One list for the fuzzer and for the
//! test of the program that gives every seed of `corpus/` to its target, so that no target is without one.

use kneepoint::config;
use kneepoint_access_log::{LearnOptions, LineFormat, learn, parse_line};
use kneepoint_experiment::RunStore;
use kneepoint_load::Page;
use kneepoint_model::Schedule;
use kneepoint_model::folding::{Sql, fold_path, fold_query};
use kneepoint_model::running::LogFormat;
use kneepoint_schedules::Imported;
use kneepoint_stack::text::lines::Dialect;
use kneepoint_stack::text::{ini, lines, nginx};

/// A target: its name, which is that of its directory in `corpus/`, and what it does with an input.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// All of them.
pub(crate) const TARGETS: &[Target] = &[
    ("access_log", |input| as_text(input, access_log)),
    ("answers", kneepoint_telemetry::fuzzing::answers),
    ("check_config", kneepoint_check::fuzzing::configuration),
    ("conf_lines", |input| as_text(input, conf_lines)),
    ("consent", consent),
    ("cookies", kneepoint_load::fuzzing::cookies),
    ("fastcgi_record", kneepoint_load::fuzzing::fastcgi_response),
    ("http_response", kneepoint_load::fuzzing::http_response),
    ("ini", |input| as_text(input, php_ini)),
    ("log_lines", |input| as_text(input, log_lines)),
    ("netlink", kneepoint_linux::sock_diag::fuzz),
    ("nginx_conf", |input| as_text(input, nginx_conf)),
    ("page", page),
    ("proc_text", proc_text),
    ("program", kneepoint_profiler::fuzzing::program),
    ("run_file", run_file),
    ("scenario", |input| as_text(input, scenario)),
    ("schedule", |input| as_text(input, schedule)),
    ("sql", |input| as_text(input, sql)),
    ("wire", kneepoint_profiler::fuzzing::said),
];

/// Gives an input to the target of this name.
///
/// # Panics
/// There is no such target, or what must hold does not.
pub(crate) fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let (_, target) = target.unwrap_or_else(|| panic!("there is no target `{name}`"));
    target(input);
}

/// What is no text is none of a parser's that takes text.
fn as_text(input: &[u8], target: fn(&str)) {
    if let Ok(text) = std::str::from_utf8(input) {
        target(text);
    }
}

/// The first line of the input is the format (empty: to be found out), the others are the log.
fn access_log(text: &str) {
    let (format, log) = text.split_once('\n').unwrap_or((text, ""));
    if let Ok(format) = LineFormat::parse(format) {
        let lines = log.lines();
        for entry in lines.filter_map(|line| parse_line(&format, line).ok()) {
            assert!(entry.start_us <= entry.end_us, "{entry:?}");
            let request = entry.request.as_ref();
            let is_path = request.is_none_or(|request| request.target.starts_with('/'));
            assert!(is_path, "{entry:?}");
        }
    }
    let options = LearnOptions {
        format: (!format.is_empty()).then(|| format.to_owned()),
        ..LearnOptions::default()
    };
    if let Ok(learned) = learn(log.as_bytes(), &options) {
        assert!(
            !learned.workload.requests.is_empty(),
            "nothing learnt must be an error"
        );
        assert!(learned.schedule_at(2.0).total_area().is_finite());
    }
}

/// `redis.conf` and `postgresql.conf`: what is read prints back byte for byte, and what is set is read.
fn conf_lines(text: &str) {
    for dialect in [Dialect::Redis, Dialect::Postgresql] {
        let mut parsed = lines::parse(dialect, text);
        assert_eq!(parsed.to_string(), text);
        parsed.set("max_connections", "100");
        let printed = parsed.to_string();
        let read = lines::parse(dialect, &printed).get("max_connections");
        assert_eq!(read.as_deref(), Some("100"), "{printed}");
    }
}

/// `php.ini` and FPM's pool files: what is read prints back byte for byte, and what is set is read.
fn php_ini(text: &str) {
    use ini::Section;
    let Ok(mut parsed) = ini::parse(text) else {
        return;
    };
    assert_eq!(parsed.to_string(), text);
    for section in parsed.sections() {
        for key in parsed.keys(Section::Named(section)) {
            let last = parsed.all(Section::Named(section), &key).pop();
            assert_eq!(parsed.get(Section::Named(section), &key), last, "{key}");
        }
    }
    for section in [Section::Any, Section::Named("www")] {
        parsed.set(section, "pm.max_children", "12");
        let printed = parsed.to_string();
        let read = ini::parse(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
        let value = read.get(section, "pm.max_children");
        assert_eq!(value.as_deref(), Some("12"), "{printed}");
    }
}

/// The first byte says whose log; a line either means something or not.
fn log_lines(text: &str) {
    let formats = [
        LogFormat::NginxError,
        LogFormat::FpmError,
        LogFormat::PhpError,
        LogFormat::Postgresql,
        LogFormat::Redis,
        LogFormat::Mariadb,
    ];
    for line in text.lines() {
        for format in formats {
            let _ = kneepoint_telemetry::classify(format, line);
        }
    }
}

/// nginx configurations: what is read prints back byte for byte, and what is set is read.
fn nginx_conf(text: &str) {
    let Ok(mut block) = nginx::parse(text) else {
        return;
    };
    assert_eq!(block.to_string(), text);
    // The text is the value as well: it may hold everything that must be quoted.
    let value: String = text.chars().take(20).collect();
    block.set("set_by_fuzzing", &[&value]);
    let printed = block.to_string();
    let read = nginx::parse(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    let found = read.find("set_by_fuzzing");
    let args = found.map(|directive| directive.args());
    assert_eq!(args, Some(vec![value]), "{printed}");
}

/// Response bodies, HTML or not: what is shown is short, links are paths, and a page is known again by its marks.
fn page(body: &[u8]) {
    for content_type in [None, Some("text/html"), Some("text/plain")] {
        let page = Page::read(body, content_type);
        assert!(page.text.chars().count() <= 401);
        assert_eq!(page.size_bytes, body.len());
        let _ = (page.hosts(), page.asks_for_password());
        for link in page.links("/a/b?c", |host| host == "example.org") {
            assert!(link.starts_with('/'), "{link}");
        }
        for mark in page.marks(body) {
            let mut windows = body.windows(mark.len());
            assert!(windows.any(|piece| piece == mark.as_bytes()), "{mark}");
        }
        if let Some(error) = page.error_page() {
            assert!(error.sentence.chars().count() <= 241);
        }
    }
}

/// Files of `/proc`.
fn proc_text(input: &[u8]) {
    use kneepoint_linux::{CpuTicks, network, process};
    let _ = process::parse_stat(input);
    let _ = process::parse_name(input);
    let _ = process::parse_switches(input);
    let _ = process::parse_pss(input);
    let _ = process::parse_number_inside(input);
    let _ = CpuTicks::parse(input);
    let _ = network::parse_counter(input, "TcpExt", "ListenOverflows");
}

/// What a machine serves about whether it may be loaded: a consent has a host, a rate and an end, whatever was read.
fn consent(input: &[u8]) {
    match kneepoint_load::Consent::parse(input) {
        Ok(consent) => assert!(!consent.host.is_empty() && consent.highest_hz > 0.0),
        Err(why) => assert!(!why.is_empty()),
    }
}

/// A run file from anybody: it is read or refused.
fn run_file(input: &[u8]) {
    let Ok(directory) = tempfile::tempdir() else {
        return;
    };
    let path = directory.path().join("x.kneepoint.sqlite");
    if std::fs::write(&path, input).is_ok() {
        let _ = RunStore::read(&path);
    }
}

/// Scenarios: read, or refused with what to write instead.
fn scenario(text: &str) {
    let nowhere = std::path::Path::new("/nowhere");
    if let Err(errors) = config::parse(text, nowhere, "kneepoint.toml", &config::StackServers) {
        assert!(!errors.to_string().is_empty());
    }
}

/// Queries: no value that stands in quotes is left, and what is folded is folded.
fn sql(text: &str) {
    for kind in [Sql::Postgresql, Sql::Mysql] {
        let folded = fold_query(kind, text);
        // What stands before the input cannot be opened by anything in it: whatever the values are, the shape is the same.
        let with = |word: &str, number: u32| {
            fold_query(kind, &format!("select '{word}', {number}, {text}"))
        };
        assert_eq!(with("planted7Q", 71_717_171), with("x", 1));
        let _ = fold_query(kind, &folded);
    }
    let _ = fold_path(text);
}

/// Areas are exact to a ten-trillionth: beyond so many arrivals, the last ones are one and the same.
const COUNTABLE: u64 = 1_000_000_000;
/// Arrivals that are looked at.
const MOST_ARRIVALS: u64 = 2000;
/// Times are used in whole nanoseconds.
const NANOSECOND: f64 = 1e-9;

/// What is read prints back to the same schedule, and its arrivals come in order, within its length.
fn schedule(text: &str) {
    if let Ok(imported) = text.parse::<Imported>() {
        let printed = imported.to_string();
        assert_eq!(
            printed.parse::<Imported>().as_ref(),
            Ok(&imported),
            "{printed}"
        );
    }
    let Ok(schedule) = text.parse::<Schedule>() else {
        return;
    };
    let printed = schedule.to_string();
    assert_eq!(
        printed.parse::<Schedule>().as_ref(),
        Ok(&schedule),
        "{printed}"
    );
    let (total, length_s) = (schedule.total_arrivals(), schedule.duration().as_secs_f64());
    if total > COUNTABLE {
        return;
    }
    let mut cursor = schedule.cursor();
    let mut before = 0.0;
    // The first ones one by one, then leaps to the last.
    let first = 0..total.min(MOST_ARRIVALS / 2);
    let leap = usize::try_from((total / MOST_ARRIVALS).max(1)).unwrap_or(usize::MAX);
    let rest = (first.end..total).step_by(leap);
    for number in first.chain(rest).chain(total.checked_sub(1)) {
        let at = cursor.time_of(number as f64);
        let at = at.unwrap_or_else(|| panic!("{printed}: arrival {number} of {total} never comes"));
        assert!(at.is_finite(), "{printed}: arrival {number} comes at {at}");
        assert!(
            at >= before - NANOSECOND,
            "{printed}: arrival {number} at {at} after {before}"
        );
        let latest = length_s * (1.0 + 1e-12) + NANOSECOND;
        assert!(at <= latest, "{printed}: arrival {number} at {at}");
        before = at;
    }
}
