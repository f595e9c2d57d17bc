//! What a diagnosis judged by, as a file: written once, and judged anew by a later version without a load.

use crate::args::RulesArgs;
use crate::session::{print, write_text};
use anyhow::{Context as _, Result, bail};
use kneepoint_diagnosis::{Evidence, diagnose};
use kneepoint_experiment::record::secrets_of;
use kneepoint_model::redact::{Redact as _, Secrets};
use kneepoint_model::units::format_share;
use kneepoint_model::{Finding, Scenario};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The form of the file.
const SCHEMA: &str = "kneepoint.evidence/1";

#[derive(Serialize, Deserialize)]
struct Document {
    schema: String,
    evidence: Evidence,
}

/// Writes the evidence of a scenario's stack to a file, without what is secret.
///
/// # Errors
/// The file cannot be written, or could not be read again.
pub(super) fn write(evidence: &Evidence, scenario: &Scenario, path: &Path) -> Result<()> {
    let secrets = secrets_of(scenario);
    let mut evidence = evidence.clone();
    hide(&mut evidence, &secrets);
    // JSON has no infinity.
    if let Some(limit_hz) = &mut evidence.limit_hz {
        limit_hz.high = limit_hz.high.min(f64::MAX);
    }
    let document = Document {
        schema: SCHEMA.to_owned(),
        evidence,
    };
    let mut json = serde_json::to_value(&document)?;
    if let Some(chains) = json.pointer_mut("/evidence/chains") {
        secrets.prose_everywhere(chains);
    }
    secrets.everywhere(&mut json);
    let text = serde_json::to_string(&json)?;
    serde_json::from_str::<Document>(&text)
        .context("a number in the evidence is none, so that nothing could read the file")?;
    write_text(path, &text)
}

/// Hides what a record of the run hides as well.
fn hide(evidence: &mut Evidence, secrets: &Secrets) {
    evidence.stack.redact(secrets);
    for phase in &mut evidence.phases {
        phase.load.redact(secrets);
        let lines = phase.log.iter_mut().map(|event| &mut event.example);
        lines.for_each(|line| secrets.prose(line));
    }
    if let Some(calls) = &mut evidence.calls {
        calls.redact(secrets);
    }
    for stacks in [&mut evidence.stacks, &mut evidence.knee_stacks] {
        stacks.iter_mut().for_each(|it| it.redact(secrets));
    }
}

/// Says what the rules of this version make of a file of evidence.
///
/// # Errors
/// The file cannot be read, or is none of evidence.
pub(super) fn judge(path: &Path, args: &RulesArgs) -> Result<()> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the evidence {}", path.display()))?;
    let document: Document = serde_json::from_str(&text).with_context(|| {
        let path = path.display();
        format!("{path} is no file that `kneepoint diagnose --evidence` of this version wrote")
    })?;
    if document.schema != SCHEMA {
        let path = path.display();
        bail!("{path} has the form {}, and not {SCHEMA}", document.schema);
    }
    let findings = diagnose(&document.evidence);
    if args.json {
        return print(&serde_json::to_string_pretty(&findings)?);
    }
    print(&listed(&findings))
}

/// A finding a line: what binds first stands first.
fn listed(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "no rule found anything\n".to_owned();
    }
    let line = |finding: &Finding| {
        let (code, sure) = (&finding.code, finding.confidence.name());
        let share = format_share(finding.weight);
        format!("{code:<7} {sure:<10} {share:>6}  {}\n", finding.title)
    };
    findings.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_diagnosis::{Phase, PhaseKind};
    use kneepoint_model::{
        CallKind, CallTrace, Interval, Layer, LoadPoint, LogEvent, LogKind, SeriesSet, TracedCall,
    };

    #[test]
    fn evidence_is_read_as_it_was_written_but_for_secrets() {
        let directory = tempfile::tempdir().expect("temp dir");
        let path = directory.path().join("evidence.json");
        let log = |example: &str| LogEvent {
            layer: Layer::Php,
            kind: LogKind::OutOfMemory,
            count: 1,
            example: example.to_owned(),
        };
        let lines = vec![log("redis://user:hunter2@cache refused")];
        let (kind, load) = (PhaseKind::Knee, LoadPoint::default());
        let phase = Phase::new(kind, load, SeriesSet::default(), lines);
        let asked = TracedCall {
            route: "GET /".to_owned(),
            kind: CallKind::Http,
            what: "GET https://api.example/?token=hunter2".to_owned(),
            peer: String::new(),
            through: String::new(),
            place: None,
            own: None,
            count: 1,
            failed: 0,
            most: 1,
            answer_bytes: 0,
            waited_us: 0,
        };
        let evidence = Evidence {
            phases: vec![phase],
            memory_budget_bytes: Some(1 << 30),
            limit_hz: Some(Interval {
                low: 1.0,
                estimate: 2.0,
                high: f64::INFINITY,
            }),
            calls: Some(CallTrace {
                calls: vec![asked],
                ..CallTrace::default()
            }),
            ..Evidence::default()
        };
        let plain = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/plain/kneepoint.toml");
        let scenario = crate::config::load(&plain).expect("apps/plain");
        write(&evidence, &scenario, &path).expect("written");
        let text = std::fs::read_to_string(&path).expect("a file");
        assert!(!text.contains("hunter2"), "{text}");
        let read: Document = serde_json::from_str(&text).expect("evidence");
        assert_eq!(read.evidence.memory_budget_bytes, Some(1 << 30));
        assert_eq!(read.evidence.phases[0].log.len(), 1);
        assert_eq!(read.evidence.phases[0].kind, PhaseKind::Knee);
    }

    #[test]
    fn another_file_is_refused_with_its_name() {
        let directory = tempfile::tempdir().expect("temp dir");
        let path = directory.path().join("run.json");
        std::fs::write(&path, "{\"schema\": \"kneepoint.run/1\"}").expect("written");
        let args = RulesArgs {
            json: false,
            judge: None,
        };
        let error = format!("{:#}", judge(&path, &args).expect_err("no evidence"));
        assert!(error.contains("run.json is no file that"), "{error}");
    }
}
