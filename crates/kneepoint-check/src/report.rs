//! What is said: the chains as a picture, what is wrong, what could not be seen.

mod grouped;
mod json;
mod junit;
mod markdown;
mod picture;
mod redact;
mod sarif;
mod secrets;
#[cfg(test)]
mod telling;
mod terminal;
pub(crate) mod texts;

pub use redact::redacted;

use crate::find::{CheckOptions, look};
use crate::rule::{CheckFinding, Severity};
use crate::rules::CHECKS;
use crate::snapshot::{Blind, Snapshot};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Instant;
use texts::Texts as _;

/// Version of the JSON that [`render`] writes; it changes where a reader would have to.
pub const SCHEMA: u32 = 1;

/// What a check says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program's version.
    pub kneepoint: String,
    /// How long it took, in seconds.
    pub took_s: f64,
    /// The services that were found.
    pub services: Vec<ServiceLine>,
    /// Who asks whom.
    pub links: Vec<LinkLine>,
    /// The chains as lines of text.
    pub picture: Vec<String>,
    /// What is wrong, worst first.
    pub findings: Vec<CheckFinding>,
    /// What could not be seen.
    pub blind: Vec<Blind>,
}

/// A service in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServiceLine {
    /// Its name.
    pub name: String,
    /// What program.
    pub kind: crate::snapshot::ServiceKind,
    /// Its version; empty where it could not be told.
    pub version: String,
    /// Its first process.
    pub pid: u32,
    /// Where it listens.
    pub listens: Vec<String>,
    /// Its container.
    pub container: Option<crate::snapshot::Container>,
    /// Settings in force that bear on how fast it is, by name; those of a pool behind the pool's name and a blank.
    pub settings: BTreeMap<String, crate::snapshot::SettingValue>,
    /// The files that were read.
    pub files: Vec<crate::snapshot::ReadFile>,
}

/// A link in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkLine {
    /// Position of who asks.
    pub from: usize,
    /// Position of who is asked.
    pub to: usize,
    /// The pool that is asked.
    pub pool: Option<String>,
    /// The pools of the one who asks that do so; left out where it is not known which.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from_pools: Vec<String>,
    /// The address.
    pub by: String,
    /// How it is known.
    pub how: String,
}

impl Report {
    /// How many findings there are of a severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        let findings = self.findings.iter();
        findings
            .filter(|finding| finding.severity == severity)
            .count()
    }

    /// Whether anything was found that is more than a note.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings
            .iter()
            .all(|finding| finding.severity == Severity::Note)
    }

    /// Whether nothing could be looked at.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.services.is_empty()
    }

    /// Whether a service, or settings of one, could not be read: then `nothing found` does not say that nothing is wrong.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.blind.iter().any(|blind| blind.weighs)
    }
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckFormat {
    /// For a terminal; every finding in full where told so.
    Terminal {
        /// Every finding in full.
        all: bool,
    },
    /// For an issue or a comment.
    Markdown,
    /// For programs.
    Json,
    /// For the test view of a pipeline: JUnit XML.
    Junit,
    /// For code scanning and editors: SARIF 2.1.0.
    Sarif,
}

/// Looks and judges.
#[must_use]
pub fn check(options: &CheckOptions) -> (Report, Snapshot) {
    let began = Instant::now();
    let snapshot = look(options);
    let mut report = judge(&snapshot);
    report.took_s = (began.elapsed().as_secs_f64() * 1000.0).round() / 1000.0;
    (report, snapshot)
}

/// A report as text, in which every character is seen as what it is: names and values are whose stack it is, and may hold
/// what a terminal obeys.
#[must_use]
pub fn render(report: &Report, format: CheckFormat) -> String {
    let shown = || report.clone().shown();
    match format {
        CheckFormat::Terminal { all } => terminal::render(&shown(), all),
        CheckFormat::Markdown => markdown::render(&shown()),
        // A program gets values as they are, and JSON has escapes of its own.
        CheckFormat::Json => json::render(report),
        CheckFormat::Junit => junit::render(&shown()),
        CheckFormat::Sarif => sarif::render(&shown()),
    }
}

/// What the rules say of what was seen.
pub(crate) fn judge(snapshot: &Snapshot) -> Report {
    let mut findings = Vec::new();
    for rule in CHECKS {
        (rule.check)(snapshot, &mut findings);
    }
    let mut findings = grouped::grouped(findings);
    for finding in &mut findings {
        let service = snapshot.services.get(finding.service);
        if let Some(service) = service.filter(|service| service.place.other_files) {
            finding.fix.within(service.pid, service.place.pid_within);
        }
        finding.fix.no_unseen_command();
    }
    findings.iter_mut().for_each(secrets::no_secret_in_fix);
    findings.sort_by(|a, b| {
        let by_weight = b.weight.total_cmp(&a.weight);
        a.severity
            .cmp(&b.severity)
            .then(by_weight)
            .then(a.code.cmp(b.code))
    });
    let own = snapshot
        .services
        .iter()
        .flat_map(|service| service.blind.iter().cloned());
    let mut blind: Vec<Blind> = snapshot.blind.iter().cloned().chain(own).collect();
    blind.sort();
    blind.dedup();
    Report {
        schema: SCHEMA,
        kneepoint: env!("CARGO_PKG_VERSION").to_owned(),
        took_s: 0.0,
        services: snapshot.services.iter().map(service_line).collect(),
        links: snapshot
            .links
            .iter()
            .map(|link| LinkLine {
                from: link.from,
                to: link.to,
                pool: link.pool.clone(),
                from_pools: link.from_pools.clone(),
                by: link.by.to_string(),
                how: link.how.clone(),
            })
            .collect(),
        picture: picture::draw(snapshot),
        findings,
        blind,
    }
    .without_secrets()
}

fn service_line(service: &crate::snapshot::Service) -> ServiceLine {
    let mut settings = BTreeMap::new();
    let mut keep = |prefix: &str, all: &crate::snapshot::Settings| {
        for (name, value) in all.iter().filter(|(name, _)| may_be_told(name)) {
            settings.insert(format!("{prefix}{name}"), value.clone());
        }
    };
    keep("", &service.settings);
    keep("", &service.kernel);
    for pool in &service.pools {
        keep(&format!("{} ", pool.name), &pool.settings);
        keep(&format!("{} ", pool.name), &pool.php);
    }
    ServiceLine {
        name: service.name(),
        kind: service.kind,
        version: service.version.clone(),
        pid: service.pid,
        listens: service
            .listens
            .iter()
            .map(|one| one.endpoint.to_string())
            .collect(),
        container: service.place.container.clone(),
        settings,
        files: service.files.clone(),
    }
}

/// Names of settings whose values are told. All others may hold what is nobody's business: passwords, names of people.
fn may_be_told(name: &str) -> bool {
    const BEGIN: [&str; 24] = [
        "pm",
        "listen.backlog",
        "request_",
        "process",
        "opcache.",
        "memory_limit",
        "realpath_cache_",
        "emergency_",
        "worker_",
        "keepalive",
        "gzip",
        "sendfile",
        "send_timeout",
        "client_",
        "fastcgi_",
        "net.",
        "netstat.",
        "fs.",
        "vm.",
        "maxmemory",
        "maxclients",
        "max_connections",
        "innodb_buffer_pool_size",
        "shared_buffers",
    ];
    let secret = ["param", "pass", "secret", "auth"]
        .iter()
        .any(|word| name.contains(word));
    !secret && BEGIN.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::case::Case;
    use expect_test::expect;

    fn sick() -> Case {
        Case::healthy()
            .pool_with(
                "request_slowlog_timeout = 0\nenv[DB_PASSWORD] = hunter2",
                "opcache.enable=0\nmysqli.default_pw=hunter2",
            )
            .with(|snapshot| {
                snapshot.blind.push(Blind::new(
                    "redis (process 12)",
                    "it may not be read",
                    "run the check as root",
                ));
            })
    }

    #[test]
    fn a_terminal_shows_the_worst_first_on_one_screen() {
        let report = judge(&sick().0);
        assert!(!report.is_clean() && !report.is_blind());
        let text = render(&report, CheckFormat::Terminal { all: false });
        expect![[r#"
              nginx 1.22.1 (process 11)
              └─ /run/php.sock ─▶ php-fpm 8.2.36 (process 13), pool www (static, at most 20)
                 ├─ /run/php.sock ─▶ redis (process 16)
                 ├─ /run/php.sock ─▶ mysql (process 17)
                 └─ /run/php.sock ─▶ postgresql (process 18)

            1 problem, 0 risks, 1 note in 5 services, looked at in 0.00 s without a request, a write or a signal.

            problem OPC-01  OPcache is off: PHP compiles every file for every request
              where  pool www of php-fpm (process 13)
              seen   opcache.enable = 0  (/etc/php/conf.d/a.ini:9)
              seen   before: opcache.enable = 1  (/etc/php/conf.d/a.ini:2)
              costs  about two thirds of PHP's CPU time where a framework runs (33 against 119 requests a second); it used 0.10 cores on average since its start 60m ago
              unless PHP runs one or two small files a request, or nobody asks for it.
              do     Write /etc/php/conf.d/zz-kneepoint.ini:
                         opcache.enable = 1
              then   php-fpm -t -y /etc/php/php-fpm.conf && kill -USR2 13

            note    FPM-16  There is no slow log (pool www of php-fpm (process 13), /etc/php/php-fpm.conf:16)

            Could not see
              redis (process 12): it may not be read. Run the check as root.

            --all tells every finding in full; kneepoint explain CODE tells what one is about.
        "#]].assert_eq(&text);
    }

    #[test]
    fn markdown_and_json_say_the_same() {
        let report = judge(&sick().0);
        let markdown = render(&report, CheckFormat::Markdown);
        assert!(
            markdown.contains("OPC-01") && markdown.contains("/etc/php/conf.d/a.ini:9"),
            "{markdown}"
        );
        let json: serde_json::Value =
            serde_json::from_str(&render(&report, CheckFormat::Json)).expect("JSON");
        assert_eq!(json["schema"], SCHEMA);
        assert_eq!(json["findings"][0]["code"], "OPC-01");
        assert_eq!(
            json["services"][1]["settings"]["www opcache.enable"]["text"],
            "0"
        );
        let all = format!(
            "{markdown}{json}{}",
            render(&report, CheckFormat::Terminal { all: true })
        );
        assert!(!all.contains("hunter2"), "a secret is told");
    }

    /// The keys of a value and of all within it; names of settings are people's own.
    fn keys(
        value: &serde_json::Value,
        within: &str,
        found: &mut std::collections::BTreeSet<String>,
    ) {
        match value {
            serde_json::Value::Object(map) => {
                for (key, value) in map {
                    let is_setting = within == "settings";
                    if !is_setting {
                        found.insert(key.clone());
                    }
                    keys(value, if is_setting { "" } else { key }, found);
                }
            }
            serde_json::Value::Array(list) => list.iter().for_each(|one| keys(one, within, found)),
            _ => {}
        }
    }

    #[test]
    fn every_key_of_the_json_is_documented() {
        let case = sick().with(|snapshot| {
            snapshot.services[0].place.container = Some(crate::snapshot::Container {
                id: "ab".into(),
                runtime: crate::snapshot::Runtime::Docker,
                name: None,
                compose_service: None,
                in_pod: false,
            });
        });
        let mut report = judge(&case.0);
        report.findings[0].also.push("pool b".into());
        let json = serde_json::to_value(&report).expect("JSON");
        let mut found = std::collections::BTreeSet::new();
        keys(&json, "", &mut found);
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/check.md");
        let page = std::fs::read_to_string(page).expect("the page");
        let table = page.split("## The JSON").nth(1).expect("the section");
        let table = table.split("## ").next().expect("its text");
        // How a source names its place is told by an example in the text above.
        let source = [
            "path", "line", "pid", "file", "kernel", "memory", "variable",
        ];
        for key in found.iter().filter(|key| !source.contains(&key.as_str())) {
            let words = [
                format!("`{key}`"),
                format!("`{key}[]`"),
                format!(".{key}`"),
                format!(".{key}[]`"),
                format!("\"{key}\""),
            ];
            assert!(
                words.iter().any(|word| table.contains(word)),
                "`{key}` is not in docs/check.md"
            );
        }
        assert!(table.contains(&format!("is {SCHEMA};")));
    }

    #[test]
    fn a_pipeline_sees_each_rule_as_a_test() {
        let text = render(&judge(&sick().0), CheckFormat::Junit);
        let rules = CHECKS.len();
        let head = format!(
            "name=\"kneepoint check\" tests=\"{rules}\" disabled=\"0\" errors=\"0\" failures=\"1\""
        );
        assert!(text.contains(&head), "{text}");
        assert!(text.contains("conf.d/a.ini:9") && text.contains("type=\"problem\""));
        // A note fails nothing, and is told all the same.
        assert!(text.contains("note: There is no slow log"), "{text}");
        assert!(text.contains("<skipped message=\"it may not be read; run the check as root\""));
        let nothing = render(&judge(&Snapshot::default()), CheckFormat::Junit);
        assert!(nothing.contains("errors=\"1\""), "{nothing}");
        assert!(!text.contains("hunter2"), "a secret is told");
    }

    #[test]
    fn sarif_names_the_line_that_is_wrong() {
        let report = judge(&sick().0);
        let text = render(&report, CheckFormat::Sarif);
        let sarif: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let run = &sarif["runs"][0];
        assert_eq!(sarif["version"], "2.1.0");
        let first = &run["results"][0];
        assert_eq!(
            (&first["ruleId"], &first["level"]),
            (&"OPC-01/opcache-off".into(), &"error".into())
        );
        let at = &first["locations"][0]["physicalLocation"];
        assert_eq!(
            at["artifactLocation"]["uri"],
            "file:///etc/php/conf.d/a.ini"
        );
        assert_eq!(at["region"]["startLine"], 9);
        for result in run["results"].as_array().expect("results") {
            let index = result["ruleIndex"].as_u64().expect("a position") as usize;
            assert_eq!(
                run["tool"]["driver"]["rules"][index]["id"],
                result["ruleId"]
            );
        }
        let unseen = &run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"];
        assert!(
            unseen
                .as_str()
                .is_some_and(|text| text.starts_with("redis (process 12)"))
        );
        assert!(!text.contains("hunter2"), "a secret is told");
    }

    #[test]
    fn what_is_the_same_of_two_pools_is_told_once_in_every_form() {
        let pools = "[shop]\nlisten = /run/shop.sock\nlisten.backlog = 511\npm = static\npm.max_children = 20\nrequest_slowlog_timeout = 5s\n\
            [www]\nrequest_terminate_timeout = 0\n";
        let case = Case::healthy().pool_with(pools, "display_errors=On\nopcache.revalidate_freq=2");
        let report = judge(&case.0);
        let of = |code: &str| -> Vec<&CheckFinding> {
            report
                .findings
                .iter()
                .filter(|one| one.code == code)
                .collect()
        };
        let shown = of("GEN-04");
        assert_eq!((shown.len(), shown[0].also.len()), (1, 1), "{shown:#?}");
        assert!(shown[0].also[0].starts_with("pool shop of php-fpm"));
        let forms = [
            CheckFormat::Terminal { all: true },
            CheckFormat::Markdown,
            CheckFormat::Json,
            CheckFormat::Junit,
            CheckFormat::Sarif,
        ];
        for form in forms {
            let text = render(&report, form);
            assert!(text.contains("pool shop of php-fpm"), "{form:?}: {text}");
        }
    }

    #[test]
    fn a_clean_stack_is_said_to_be_clean() {
        let report = judge(&Case::healthy().0);
        assert!(report.is_clean());
        let text = render(&report, CheckFormat::Terminal { all: false });
        assert!(text.contains("Nothing found"), "{text}");
    }
}
