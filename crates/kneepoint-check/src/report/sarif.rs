//! SARIF 2.1.0, as code scanning of forges and editors read it.
//!
//! A finding is a result at the file and line that sets what is wrong, and at the pool as a logical location. What could
//! not be seen is a notification of the run.

use super::{Report, json};
use crate::rule::{CheckFinding, Severity};
use crate::rules::{CHECKS, explain};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) fn render(report: &Report) -> String {
    let rules = rules(report);
    let results: Vec<Value> = report
        .findings
        .iter()
        .map(|finding| result(finding, &rules))
        .collect();
    let unseen: Vec<Value> = report
        .blind
        .iter()
        .map(|blind| {
            let text = format!("{}: {}; {}", blind.what, blind.why, blind.remedy);
            json!({"level": "warning", "message": message(&text)})
        })
        .collect();
    let descriptors: Vec<&Value> = {
        let mut sorted: Vec<&(usize, Value)> = rules.values().collect();
        sorted.sort_by_key(|(index, _)| *index);
        sorted.into_iter().map(|(_, rule)| rule).collect()
    };
    let sarif = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "kneepoint check",
                "semanticVersion": report.kneepoint,
                "rules": descriptors,
            }},
            "invocations": [{
                "executionSuccessful": !report.is_blind() && !report.is_partial(),
                "toolExecutionNotifications": unseen,
            }],
            "results": results,
        }],
    });
    json::written(&sarif)
}

/// Text of a message, in which a viewer makes links of `[word](address)`.
fn message(text: &str) -> Value {
    json!({"text": text.replace("](", "] (")})
}

/// A code stands for a cause, and several rules may find it.
fn id(finding: &CheckFinding) -> String {
    format!("{}/{}", finding.code, finding.rule)
}

/// The rules that found something, by id, each with its position.
fn rules(report: &Report) -> BTreeMap<String, (usize, Value)> {
    let mut rules = BTreeMap::new();
    for finding in &report.findings {
        let position = rules.len();
        let known = CHECKS.iter().find(|rule| rule.name == finding.rule);
        let title = known.map_or(finding.title.as_str(), |rule| rule.title);
        let about = known.map_or("", |rule| rule.what_it_is);
        let help = explain(finding.rule).unwrap_or_else(|| title.to_owned());
        rules.entry(id(finding)).or_insert_with(|| {
            let rule = json!({
                "id": id(finding),
                "name": finding.rule,
                "shortDescription": {"text": title},
                "fullDescription": {"text": about},
                "help": {"text": help},
            });
            (position, rule)
        });
    }
    rules
}

fn result(finding: &CheckFinding, rules: &BTreeMap<String, (usize, Value)>) -> Value {
    let level = match finding.severity {
        Severity::Problem => "error",
        Severity::Risk => "warning",
        Severity::Note => "note",
    };
    let seen: Vec<String> = finding.seen.iter().map(|seen| seen.what.clone()).collect();
    let text = format!(
        "{}: {} ({}). Costs: {}. To do: {}",
        finding.code,
        finding.title,
        seen.join("; "),
        finding.cost,
        finding.fix.in_one_line()
    );
    let places = std::iter::once(&finding.place).chain(&finding.also);
    let places: Vec<Value> = places
        .map(|place| json!({"fullyQualifiedName": place, "kind": "resource"}))
        .collect();
    let mut location = json!({"logicalLocations": places});
    let line = finding
        .seen
        .iter()
        .find_map(|seen| file_and_line(&seen.source));
    if let Some((path, line)) = line {
        location["physicalLocation"] = json!({
            "artifactLocation": {"uri": uri(path)},
            "region": {"startLine": line},
        });
    }
    json!({
        "ruleId": id(finding),
        "ruleIndex": rules.get(&id(finding)).map(|(index, _)| index),
        "level": level,
        "message": message(&text),
        "locations": [location],
        // The same finding at the same place is the same, whatever line it moved to.
        "partialFingerprints": {"kneepoint/v1": format!("{} {}", id(finding), finding.place)},
    })
}

/// The file and line in a source: `/etc/x.conf:3`, `variable PM, by /etc/x.conf:3`.
fn file_and_line(source: &str) -> Option<(&str, u64)> {
    let (before, line) = source.rsplit_once(':')?;
    let line = line.parse().ok().filter(|line| *line > 0)?;
    let path = &before[before.find('/')?..];
    Some((path, line))
}

fn uri(path: &str) -> String {
    let mut text = String::from("file://");
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => text.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_tells_its_file_and_line() {
        assert_eq!(file_and_line("/etc/a b.ini:3"), Some(("/etc/a b.ini", 3)));
        assert_eq!(
            file_and_line("variable PM, by /etc/x.conf:12"),
            Some(("/etc/x.conf", 12))
        );
        assert_eq!(file_and_line("memory of process 7"), None);
        assert_eq!(file_and_line("/proc/7/maps"), None);
        assert_eq!(file_and_line(""), None);
        assert_eq!(uri("/etc/a b.ini"), "file:///etc/a%20b.ini");
    }
}
