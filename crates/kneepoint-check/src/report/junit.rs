//! For the test view of a pipeline: each rule is a test, which fails where it found a problem or a risk.

use super::Report;
use crate::rule::{CheckFinding, Severity};
use crate::rules::CHECKS;
use quick_junit::{NonSuccessKind, Report as JUnit, TestCase, TestCaseStatus, TestSuite};
use std::time::Duration;

pub(super) fn render(report: &Report) -> String {
    let mut rules = TestSuite::new("kneepoint check");
    rules.add_test_cases(CHECKS.iter().map(|rule| {
        let own = |finding: &&CheckFinding| finding.rule == rule.name;
        let findings: Vec<&CheckFinding> = report.findings.iter().filter(own).collect();
        let name = format!("{} {}", rule.code, rule.title);
        let mut case = TestCase::new(name, status(&findings));
        case.set_classname(format!("kneepoint.check.{}", rule.name));
        let notes: Vec<String> = findings
            .iter()
            .filter(|one| one.severity == Severity::Note)
            .map(|one| words(one))
            .collect();
        if !notes.is_empty() {
            case.set_system_out(notes.join("\n"));
        }
        case
    }));
    let elapsed = Duration::try_from_secs_f64(report.took_s).unwrap_or_default();
    rules.set_time(elapsed);
    rules.set_system_out(report.picture.join("\n"));
    let mut unseen = TestSuite::new("could not see");
    unseen.add_test_cases(report.blind.iter().map(|blind| {
        let mut status = match blind.weighs {
            true => TestCaseStatus::non_success(NonSuccessKind::Error),
            false => TestCaseStatus::skipped(),
        };
        status.set_message(format!("{}; {}", blind.why, blind.remedy));
        let mut case = TestCase::new(blind.what.clone(), status);
        case.set_classname("kneepoint.check.unseen");
        case
    }));
    if report.is_blind() {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message("no server program was found that could be looked at");
        let mut case = TestCase::new("something to look at", status);
        case.set_classname("kneepoint.check.unseen");
        unseen.add_test_case(case);
    }
    let mut junit = JUnit::new("kneepoint check");
    junit.set_time(elapsed);
    junit.add_test_suite(rules);
    junit.add_test_suite(unseen);
    // It is written to memory, and what XML cannot hold is shown as what it is.
    junit.to_string().unwrap_or_default()
}

fn status(findings: &[&CheckFinding]) -> TestCaseStatus {
    let failing: Vec<&&CheckFinding> = findings
        .iter()
        .filter(|one| one.severity != Severity::Note)
        .collect();
    let Some(first) = failing.first() else {
        return TestCaseStatus::success();
    };
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_type(first.severity.name());
    status.set_message(format!("{} ({})", first.title, first.places()));
    let all: Vec<String> = failing.iter().map(|one| words(one)).collect();
    status.set_description(all.join("\n\n"));
    status
}

fn words(finding: &CheckFinding) -> String {
    let mut text = format!(
        "{}: {}\nwhere: {}",
        finding.severity.name(),
        finding.title,
        finding.places()
    );
    for seen in &finding.seen {
        text.push_str(&format!("\nseen: {} ({})", seen.what, seen.source));
    }
    text.push_str(&format!(
        "\ncosts: {}\ndo: {}",
        finding.cost, finding.fix.text
    ));
    for written in finding.fix.written() {
        text.push_str(&format!("\n    {written}"));
    }
    if !finding.fix.apply.is_empty() {
        text.push_str(&format!("\nthen: {}", finding.fix.apply));
    }
    text
}
