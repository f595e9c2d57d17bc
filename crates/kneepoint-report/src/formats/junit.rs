//! JUnit XML: what a pipeline's test view shows of a run.
//!
//! The run is a test (did it finish?), each R* is one (is there a rate at which the SLO holds?), and so is each claim of a
//! gate. A claim that is neither shown nor excluded is skipped, unless whoever asked wants it to fail.

use crate::subjects::gate;
use crate::words::{self, plain};
use crate::{Format, Options, summarise};
use kneepoint_model::gate::GateClaim;
use kneepoint_model::run::LimitResult;
use kneepoint_model::{GateResult, GateVerdict, Run};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::time::Duration;

/// For the test view of a pipeline.
pub(super) static FORMAT: Format = Format {
    name: "junit",
    extension: "xml",
    about: "JUnit XML, for the test view of a pipeline",
    render,
};

fn render(run: &Run, _: &Options) -> String {
    let summary = summarise(run);
    let mut suite = TestSuite::new(format!("kneepoint {} {}", run.command, summary.subject));
    suite.add_test_case(case(&summary.subject, "the run finished", finished(run)));
    for limit in &run.limits {
        let name = format!("R* of {}", limit.arm);
        let mut case = case(&summary.subject, &name, sustains(limit));
        case.set_system_out(told(run, limit));
        suite.add_test_case(case);
    }
    if let Some(gate) = &run.gate {
        let decides = |claim: &GateClaim| gate.deciding().is_some_and(|it| std::ptr::eq(it, claim));
        let cases = gate.claims.iter();
        suite.add_test_cases(
            cases.map(|claim| claimed(&summary.subject, run, gate, claim, decides(claim))),
        );
    }
    let mut lines = vec![summary.verdict];
    lines.extend(summary.missing);
    lines.extend(summary.doubts);
    suite.set_system_out(plain(&lines.join("\n")));
    let elapsed = Duration::try_from_secs_f64(run.elapsed_s).unwrap_or_default();
    suite.set_time(elapsed);
    let mut report = Report::new("kneepoint");
    report.set_time(elapsed);
    report.add_test_suite(suite);
    report
        .to_string()
        .expect("XML is written to memory, and what XML cannot hold was filtered out")
}

fn case(subject: &str, name: &str, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(name, status);
    case.set_classname(format!("kneepoint.{subject}"));
    case
}

fn finished(run: &Run) -> TestCaseStatus {
    let why = match run.ended.as_str() {
        "finished" => return TestCaseStatus::success(),
        "" => "the run has not ended",
        how => how,
    };
    not(NonSuccessKind::Error, why)
}

fn sustains(limit: &LimitResult) -> TestCaseStatus {
    if limit.met_hz().is_some() {
        TestCaseStatus::success()
    } else {
        not(
            NonSuccessKind::Failure,
            "there is no rate at which the SLO holds",
        )
    }
}

fn told(run: &Run, limit: &LimitResult) -> String {
    if limit.met_hz().is_none() {
        return plain(&words::limit_is(limit));
    }
    plain(&format!(
        "{}, bound by {}; {}",
        words::of_limit(limit),
        limit.bound_by,
        words::limit_basis(&run.limit_basis(limit))
    ))
}

fn claimed(
    subject: &str,
    run: &Run,
    gate: &GateResult,
    claim: &GateClaim,
    decides: bool,
) -> TestCase {
    let most = words::share(gate.max_loss);
    let name = plain(&format!("{}: at most {most} lost", claim.quantity));
    let mut case = case(subject, &name, held(gate, claim, decides));
    case.set_system_out(compared(run, gate, claim));
    case
}

fn held(gate: &GateResult, claim: &GateClaim, decides: bool) -> TestCaseStatus {
    let changed = plain(&format!("{} {}", claim.quantity, gate::change(claim)));
    let clear = gate.obstacles.is_empty() && claim.verdict != GateVerdict::Inconclusive;
    match claim.verdict {
        GateVerdict::Pass if clear => TestCaseStatus::success(),
        _ if clear => not(NonSuccessKind::Failure, &changed),
        // Whoever asked may want what is not known to stop the pipeline.
        _ if decides && gate.counts_as() == GateVerdict::Fail => {
            not(NonSuccessKind::Failure, &format!("inconclusive: {changed}"))
        }
        _ => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(format!("inconclusive: {changed}"));
            status
        }
    }
}

fn compared(run: &Run, gate: &GateResult, claim: &GateClaim) -> String {
    let mut lines = vec![format!("against {}", gate.baseline)];
    if let Some((before, now)) = gate::rates(claim, run.unit()) {
        lines.push(format!("before {before}, now {now}"));
    }
    lines.push(claim.conditions.clone());
    lines.extend(gate.obstacles.iter().chain(&gate.notes).cloned());
    plain(&lines.join("\n"))
}

fn not(kind: NonSuccessKind, why: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    // Some views show the one, some the other.
    status.set_message(why);
    status.set_description(why);
    status
}
