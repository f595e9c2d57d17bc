//! How findings, and what could not be read, are told in every form.

use super::*;
use crate::rule::case::Case;
use crate::rule::{Fix, FixFile, Seen};
use crate::snapshot::{Container, Runtime, SettingSource, SettingValue};

/// Every format.
pub(super) const FORMATS: [CheckFormat; 6] = [
    CheckFormat::Terminal { all: true },
    CheckFormat::Terminal { all: false },
    CheckFormat::Markdown,
    CheckFormat::Json,
    CheckFormat::Junit,
    CheckFormat::Sarif,
];

/// A report of which no field is empty.
pub(super) fn full() -> Report {
    let case = Case::healthy()
        .pool_with("request_slowlog_timeout = 0", "opcache.enable=0")
        .set(3, "slow_query_log", "0")
        .with(|all| {
            all.blind.push(Blind::new("x", "y", "z"));
            all.services[0].place.container = Some(Container {
                id: "0123456789abcdef".into(),
                runtime: Runtime::Docker,
                name: Some("n".into()),
                compose_service: Some("s".into()),
                in_pod: false,
            });
            let by_variable = SettingSource::Variable {
                name: "PM".into(),
                path: "/v".into(),
                line: 1,
            };
            all.services[1].pools[0]
                .settings
                .set("pm", "static", by_variable);
        });
    let mut report = judge(&case.0);
    let finding = &mut report.findings[0];
    finding.also.push("pool b".into());
    finding.seen.push(Seen {
        what: "a".into(),
        source: "/b:1".into(),
    });
    finding.fix = Fix {
        text: "Write:".into(),
        lines: vec!["a = 1".into()],
        file: Some(FixFile::new("/p", "[www]\nb = 2\n")),
        apply: "Do so.".into(),
    };
    report
}

#[test]
fn what_could_not_be_read_is_no_clean_stack() {
    let case = Case::healthy().with(|all| {
        let blind = Blind::new("/etc/nginx/nginx.conf", "it is not there", "look");
        all.services[0].blind.push(blind.weighing());
    });
    let report = judge(&case.0);
    assert!(report.is_clean() && report.is_partial());
    let text = render(&report, CheckFormat::Terminal { all: false });
    assert!(
        text.starts_with_line("Nothing found in what could be read"),
        "{text}"
    );
    let junit = render(&report, CheckFormat::Junit);
    assert!(junit.contains("errors=\"1\""), "{junit}");
    let sarif = render(&report, CheckFormat::Sarif);
    assert!(sarif.contains("\"executionSuccessful\": false"), "{sarif}");
}

trait Lines {
    fn starts_with_line(&self, words: &str) -> bool;
}

impl Lines for String {
    fn starts_with_line(&self, words: &str) -> bool {
        self.lines().any(|line| line.starts_with(words))
    }
}

/// Three findings, each with another form of what to do.
fn fixes() -> Report {
    let case = Case::healthy()
        .pool_with("request_slowlog_timeout = 0", "opcache.enable=0")
        .set(3, "slow_query_log", "0")
        .set(2, "maxmemory-policy", "noeviction")
        .with(|all| {
            let slow = SettingValue::new("0", SettingSource::Default);
            all.services[3].settings.put("slow_query_log", slow);
        });
    judge(&case.0)
}

#[test]
fn no_colon_stands_before_nothing() {
    let report = fixes();
    assert!(report.findings.iter().any(|one| one.fix.lines.len() > 1));
    for format in [
        CheckFormat::Terminal { all: true },
        CheckFormat::Markdown,
        CheckFormat::Junit,
        CheckFormat::Sarif,
    ] {
        let text = render(&report, format);
        assert!(text.contains("long_query_time = 1"), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.ends_with(':'))
        {
            let next = lines.get(at + 1).filter(|next| !next.is_empty());
            let next = next.or(lines.get(at + 2));
            assert!(
                next.is_some_and(|next| next.starts_with("    ")
                    || next.starts_with("```")
                    || format == CheckFormat::Junit),
                "{format:?}, line {at} `{line}`: {text}"
            );
        }
    }
}

#[test]
fn a_sentence_is_no_command() {
    let text = render(&fixes(), CheckFormat::Markdown);
    assert!(
        text.contains("Then: Restart MariaDB as it was started.\n"),
        "{text}"
    );
    assert!(
        text.contains("Then: `php-fpm -t -y /etc/php/php-fpm.conf && kill -USR2 13`"),
        "{text}"
    );
}

#[test]
fn a_command_that_would_hide_something_is_told() {
    let dir = "/etc/\u{202e}php/a.conf";
    let case = Case::healthy()
        .pool_with("", "opcache.enable=0")
        .with(|all| all.services[1].place.unit = Some("php\u{200b}-fpm.service".into()))
        .with(|all| all.services[1].files[0].path = dir.into());
    let report = judge(&case.0);
    assert!(
        !report.findings[0].fix.is_command(),
        "{:?}",
        report.findings[0]
    );
    let text = render(&report, CheckFormat::Markdown);
    assert!(
        text.contains("Then: Have the program read its files again."),
        "{text}"
    );
}
