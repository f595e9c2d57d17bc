//! What the check said of two twins, held against what was planted.

use super::quiet;
use super::shape::{Shape, Standing};
use anyhow::Context as _;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What the check said and did on one twin.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) report: Value,
    /// For people.
    pub(super) shown: String,
    /// What it did beyond reading.
    pub(super) did: Vec<String>,
}

impl Answer {
    /// Reads it from the files that a machine left.
    ///
    /// # Errors
    /// One is missing, or no report.
    pub(super) fn read(report: &Path, shown: &Path, trace: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(report).context("the check left no report")?;
        let trace = fs::read(trace).context("the check left no trace")?;
        let trace = String::from_utf8_lossy(&trace);
        anyhow::ensure!(trace.contains("execve("), "the trace is empty");
        Ok(Self {
            report: serde_json::from_str(&text).context("the report is no JSON")?,
            shown: fs::read_to_string(shown)?,
            did: quiet::more_than_reading(&trace),
        })
    }

    fn findings(&self) -> &[Value] {
        self.report["findings"]
            .as_array()
            .map_or(&[], Vec::as_slice)
    }

    fn codes(&self) -> BTreeSet<&str> {
        let findings = self.findings().iter();
        findings.filter_map(|one| one["code"].as_str()).collect()
    }

    fn has(&self, planted: &str) -> bool {
        self.findings().iter().any(|one| names(one, planted))
    }

    /// Links that must be seen and are not.
    fn unjoined(&self, standing: &Standing) -> Vec<String> {
        let seen: Vec<String> = self.report["links"]
            .as_array()
            .map_or(&[][..], Vec::as_slice)
            .iter()
            .map(|link| self.link(link))
            .collect();
        let chain = standing.chain.iter();
        chain.filter(|link| !seen.contains(link)).cloned().collect()
    }

    /// `web/nginx > php/php-fpm www`.
    fn link(&self, link: &Value) -> String {
        let end = |name: &str| {
            let at = link[name].as_u64().unwrap_or(u64::MAX) as usize;
            let service = &self.report["services"][at];
            let container = &service["container"];
            let called = container["compose_service"]
                .as_str()
                .or_else(|| container["name"].as_str());
            let kind = service["kind"].as_str().unwrap_or_default();
            called.map_or_else(|| kind.to_owned(), |called| format!("{called}/{kind}"))
        };
        let pool = link["pool"].as_str();
        let pool = pool.map_or_else(String::new, |pool| format!(" {pool}"));
        format!("{} > {}{pool}", end("from"), end("to"))
    }

    fn blind(&self) -> Vec<String> {
        let blind = self.report["blind"].as_array();
        let lines = blind.map_or(&[][..], Vec::as_slice).iter();
        lines
            .map(|one| format!("{}: {}", text(one, "what"), text(one, "why")))
            .collect()
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// Whether a finding of a report is one that is looked for: a code, and words that must stand in it.
pub(super) fn names(finding: &Value, planted: &str) -> bool {
    let (code, words) = planted.split_once(' ').unwrap_or((planted, ""));
    finding["code"] == code && finding.to_string().contains(words)
}

/// What came of a shape.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Verdict {
    /// Planted, and named.
    pub(super) named: Vec<String>,
    /// Planted, and not named.
    pub(super) missed: Vec<String>,
    /// Named on the faulty twin, and not planted.
    pub(super) beside: Vec<String>,
    /// Named on the healthy twin.
    pub(super) false_alarms: Vec<String>,
    /// Links that were not seen on one of the twins.
    pub(super) unjoined: Vec<String>,
    /// What could not be seen on the healthy twin.
    pub(super) blind: Vec<String>,
    /// What the check did beyond reading.
    pub(super) did: Vec<String>,
    /// How long the slower of the two checks took, in seconds.
    pub(super) took_s: f64,
}

impl Verdict {
    /// Judges the answers of two twins.
    pub(super) fn of(shape: &Shape, faulty: &Answer, healthy: &Answer) -> Self {
        let planted = shape.faulty.planted.iter().cloned();
        let (named, missed) = planted.partition(|planted| faulty.has(planted));
        let known: BTreeSet<&str> = shape
            .faulty
            .planted
            .iter()
            .filter_map(|planted| planted.split(' ').next())
            .collect();
        let beside = faulty
            .codes()
            .into_iter()
            .filter(|code| !known.contains(code));
        let both = |a: Vec<String>, b: Vec<String>| -> Vec<String> {
            let all: BTreeSet<String> = a.into_iter().chain(b).collect();
            all.into_iter().collect()
        };
        let took = |answer: &Answer| answer.report["took_s"].as_f64().unwrap_or(f64::INFINITY);
        Self {
            named,
            missed,
            beside: beside.map(str::to_owned).collect(),
            false_alarms: healthy.codes().into_iter().map(str::to_owned).collect(),
            unjoined: both(
                faulty.unjoined(&shape.faulty),
                healthy.unjoined(&shape.healthy),
            ),
            blind: healthy.blind(),
            did: both(faulty.did.clone(), healthy.did.clone()),
            took_s: took(faulty).max(took(healthy)),
        }
    }

    /// Whether there is nothing to mend.
    pub(super) fn right(&self) -> bool {
        [
            &self.missed,
            &self.beside,
            &self.false_alarms,
            &self.unjoined,
            &self.did,
        ]
        .iter()
        .all(|list| list.is_empty())
    }

    /// What is to be mended, a line each.
    pub(super) fn complaints(&self) -> Vec<String> {
        let said = |what: &str, list: &[String]| {
            let each = list.iter().map(|one| format!("{what}: {one}"));
            each.collect::<Vec<_>>()
        };
        [
            said("missed", &self.missed),
            said("named beside what was planted", &self.beside),
            said("false on the healthy twin", &self.false_alarms),
            said("not joined", &self.unjoined),
            said("not seen", &self.blind),
            said("did more than read", &self.did),
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(codes: &[&str], links: Value) -> Answer {
        let findings: Vec<Value> = codes
            .iter()
            .map(|code| json!({"code": code, "place": "pool shop of php-fpm"}))
            .collect();
        let services = json!([
            {"kind": "nginx", "container": {"name": "shop-web-1", "compose_service": "web"}},
            {"kind": "php-fpm", "container": null},
        ]);
        let report = json!({"findings": findings, "services": services, "links": links, "blind": [], "took_s": 0.5});
        Answer {
            report,
            shown: String::new(),
            did: Vec::new(),
        }
    }

    fn shape() -> Shape {
        let text = "about = \"x\"\nservices = []\nstart = []\nchain = [\"web/nginx > php-fpm www\"]\n[place]\n[faulty]\nplanted = [\"FPM-01 pool shop\", \"FPM-01 pool blog\", \"OPC-06\"]\n";
        Shape::read(Path::new("/x.toml"), text).expect("a shape")
    }

    #[test]
    fn what_was_planted_is_held_against_what_was_named() {
        let links = || json!([{"from": 0, "to": 1, "pool": "www"}]);
        let verdict = Verdict::of(
            &shape(),
            &answer(&["FPM-01", "NGX-01"], links()),
            &answer(&["KRN-01"], json!([])),
        );
        assert_eq!(verdict.named, ["FPM-01 pool shop"]);
        assert_eq!(verdict.missed, ["FPM-01 pool blog", "OPC-06"]);
        assert_eq!((verdict.beside.len(), verdict.false_alarms.len()), (1, 1));
        assert_eq!(verdict.unjoined, ["web/nginx > php-fpm www"]);
        assert_eq!((verdict.took_s, verdict.right()), (0.5, false));
        assert_eq!(verdict.complaints().len(), 5);
    }

    #[test]
    fn all_named_and_nothing_else_is_right() {
        let mut shape = shape();
        shape.faulty.planted = vec!["FPM-01".into()];
        let links = || json!([{"from": 0, "to": 1, "pool": "www"}]);
        let healthy = answer(&[], links());
        let faulty = answer(&["FPM-01"], links());
        assert!(Verdict::of(&shape, &faulty, &healthy).right());
        let mut loud = healthy.clone();
        loud.did.push("kill(1, 15)".into());
        assert!(!Verdict::of(&shape, &faulty, &loud).right());
    }
}
