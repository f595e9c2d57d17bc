//! What a diagnosis judged by, as a file: written once, and judged anew by a later version without a load.

use crate::args::{DiagnoseArgs, RulesArgs, is_stdout};
use crate::say::say_line;
use crate::session::{print, results, write_text};
use anyhow::{Context as _, Result, bail, ensure};
use kneepoint_diagnosis::{Evidence, diagnose, unjudged};
use kneepoint_experiment::record::secrets_of;
use kneepoint_model::redact::shown::{visible, visible_json};
use kneepoint_model::redact::{Redact as _, Secrets};
use kneepoint_model::units::format_share;
use kneepoint_model::{Finding, Scenario};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::Read as _;
use std::path::Path;

/// The form of the file.
const SCHEMA: &str = "kneepoint.evidence/1";
/// The longest file that is read: a hundred times what a diagnosis of a large application leaves.
const MOST_BYTES: u64 = 256 << 20;
/// The largest count that anything measured has; rules add counts up, and must not run over.
const MOST_COUNTED: u64 = 1 << 53;
/// The largest number, which is what the kernel says where there is no limit.
const MOST: f64 = 2e19;

#[derive(Serialize, Deserialize)]
struct Document {
    schema: String,
    /// The version of Kneepoint that wrote it.
    #[serde(default)]
    tool_version: String,
    evidence: Evidence,
}

/// Whether the evidence that was asked for can be written where it is to go. Looked at before the run, as for its other results.
pub(super) fn check_place(args: &DiagnoseArgs) -> Result<()> {
    let path = args.evidence.as_deref();
    if path.is_some_and(is_stdout) {
        bail!("--evidence needs a file: standard output is for the summary, or for a format");
    }
    let output = &args.run.output;
    let mut asked = output.asked().to_vec();
    asked.push(("evidence", path));
    results::check_places(&asked, Some(&output.runs))
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
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        evidence,
    };
    let mut json = serde_json::to_value(&document)?;
    if let Some(chains) = json.pointer_mut("/evidence/chains") {
        secrets.prose_everywhere(chains);
    }
    secrets.everywhere(&mut json);
    let text = serde_json::to_string(&json)?;
    read(&text).context("what was written down could not be read again")?;
    write_text(path, &text)
}

/// Hides what a record of the run hides as well.
fn hide(evidence: &mut Evidence, secrets: &Secrets) {
    evidence.stack.redact(secrets);
    for phase in &mut evidence.phases {
        phase.load.redact(secrets);
        phase.series.redact(secrets);
        phase.afterwards.redact(secrets);
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
    let text =
        text_of(path).with_context(|| format!("cannot read the evidence {}", path.display()))?;
    let evidence = read(&text).with_context(|| {
        let path = path.display();
        format!("{path} is no evidence that `kneepoint diagnose --evidence` of this version wrote")
    })?;
    let findings = diagnose(&evidence);
    let silent = silent(&evidence);
    if args.json {
        silent.iter().for_each(|line| say_line(line));
        return print(&visible_json(&serde_json::to_string_pretty(&findings)?));
    }
    print(&(listed(&findings) + &silent.join("\n")))
}

/// The text of a file, where it is one and not endless.
fn text_of(path: &Path) -> Result<String> {
    ensure!(path.metadata()?.is_file(), "it is no regular file");
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    ensure!(
        text.len() as u64 <= MOST_BYTES,
        "it is longer than {} MiB",
        MOST_BYTES >> 20
    );
    Ok(text)
}

/// The evidence that a text is, whole enough to be judged.
fn read(text: &str) -> Result<Evidence> {
    let json: Value = serde_json::from_str(text)?;
    match json.get("schema").and_then(Value::as_str) {
        Some(SCHEMA) => {}
        Some(other) if other.starts_with("kneepoint.run") => {
            bail!("it is a run: judge its evidence")
        }
        Some(other) => bail!("it has the form {other:?}, and this version knows {SCHEMA:?}"),
        None => bail!("it has no schema"),
    }
    ensure!(
        is_sane(&json),
        "a number in it is larger than anything that can be measured"
    );
    let Document { evidence, .. } = serde_json::from_value(json)?;
    ensure!(
        !evidence.phases.is_empty(),
        "no load was measured: it has no phases"
    );
    ensure!(!evidence.stack.tiers.is_empty(), "it has no stack");
    ensure!(
        evidence.machine.cores > 0,
        "it does not say how many cores the machine has"
    );
    Ok(evidence)
}

/// Whether all numbers are such as can be measured, but for the end of an interval that is open.
fn is_sane(json: &Value) -> bool {
    match json {
        Value::Number(number) => match number.as_u64() {
            Some(count) => count <= MOST_COUNTED,
            None => number.as_f64().is_some_and(|number| number.abs() <= MOST),
        },
        Value::Array(items) => items.iter().all(is_sane),
        Value::Object(fields) => fields
            .iter()
            .all(|(name, item)| is_sane(item) || (name == "high" && item.is_number())),
        _ => true,
    }
}

/// Which rules had nothing to judge by, a line each: that they found nothing says nothing.
fn silent(evidence: &Evidence) -> Vec<String> {
    let lacking = unjudged(evidence);
    let line = |(rule, lacking): &(&kneepoint_diagnosis::Rule, Vec<&str>)| {
        format!(
            "{:<7} could not be judged: no numbers of {}",
            rule.code,
            lacking.join(", ")
        )
    };
    lacking.iter().map(line).collect()
}

/// A finding a line: what binds first stands first.
fn listed(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "no rule found anything\n".to_owned();
    }
    let line = |finding: &Finding| {
        let (code, sure) = (&finding.code, finding.confidence.name());
        let share = format_share(finding.weight);
        format!(
            "{code:<7} {sure:<10} {share:>6}  {}\n",
            visible(&finding.title)
        )
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
        let at_once = kneepoint_model::MetAtOnce {
            at_s: 0.5,
            stacks: vec![0, 0],
        };
        let evidence = Evidence {
            phases: vec![phase],
            stacks: Some(kneepoint_model::StackProfile {
                moments: vec![at_once],
                ..Default::default()
            }),
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
            ..measured()
        };
        let (text, read) = written(&evidence, &[]);
        assert!(!text.contains("hunter2"), "{text}");
        assert_eq!(read.memory_budget_bytes, Some(1 << 30));
        assert_eq!(read.phases[0].log.len(), 1);
        assert_eq!(read.phases[0].kind, PhaseKind::Knee);
        assert_eq!(read.stacks, evidence.stacks, "who was met together, too");
    }

    /// What is written of some evidence where the application is given these variables, and what is read of it.
    fn written(evidence: &Evidence, env: &[(&str, &str)]) -> (String, Evidence) {
        let directory = tempfile::tempdir().expect("temp dir");
        let path = directory.path().join("evidence.json");
        let plain = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/plain/kneepoint.toml");
        let mut scenario = crate::config::load(&plain).expect("apps/plain");
        let env = env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        scenario.env.extend(env);
        write(evidence, &scenario, &path).expect("written");
        let text = std::fs::read_to_string(&path).expect("a file");
        let evidence = read(&text).expect("evidence");
        (text, evidence)
    }

    /// Evidence of a stack with a database, and nothing that any rule would find.
    fn measured() -> Evidence {
        let (kind, load) = (PhaseKind::Knee, LoadPoint::default());
        let mut series = SeriesSet::default();
        series.push(
            Layer::Php,
            kneepoint_model::metric::WORKERS_RUNNING,
            "",
            0.0,
            1.0,
        );
        let database: kneepoint_model::Tier = serde_json::from_value(serde_json::json!({
            "layer": "db", "server": "postgresql", "version": "15.1", "listen": {"tcp": "198.18.0.2:5432"},
            "settings": {}, "tunables": [], "cpus": 2.0, "memory_bytes": 0, "own_network": true,
        }))
        .expect("a tier");
        Evidence {
            phases: vec![Phase::new(kind, load, series, Vec::new())],
            stack: kneepoint_model::Stack {
                tiers: vec![database],
                ..Default::default()
            },
            machine: kneepoint_model::run::Machine {
                cores: 2,
                ..Default::default()
            },
            ..Evidence::default()
        }
    }

    #[test]
    fn a_password_that_is_a_word_of_ours_hides_no_server_and_no_metric() {
        let password = [
            ("DB_PASSWORD", "postgres"),
            ("APP_SECRET", "workers"),
            ("API_TOKEN", "kneepoint"),
        ];
        let (text, read) = written(&measured(), &password);
        assert_eq!(read.stack.tiers, measured().stack.tiers, "{text}");
        assert_eq!(read.phases[0].series, measured().phases[0].series, "{text}");
    }

    /// Why a text is no evidence.
    fn refused(text: &str) -> String {
        format!("{:#}", read(text).expect_err(text))
    }

    #[test]
    fn what_cannot_be_judged_is_refused_and_not_found_healthy() {
        let whole = serde_json::to_value(Document {
            schema: SCHEMA.to_owned(),
            tool_version: String::new(),
            evidence: measured(),
        })
        .expect("JSON");
        let with = |path: &str, value: Value| {
            let mut json = whole.clone();
            *json.pointer_mut(path).expect(path) = value;
            json.to_string()
        };
        read(&whole.to_string()).expect("it is whole");
        for (text, words) in [
            (String::new(), "EOF"),
            ("{}".to_owned(), "no schema"),
            (with("/schema", "kneepoint.run/3".into()), "it is a run"),
            (
                with("/schema", "kneepoint.evidence/2".into()),
                "\"kneepoint.evidence/2\"",
            ),
            (with("/evidence", serde_json::json!({})), "no phases"),
            (with("/evidence", serde_json::json!([])), "no phases"),
            (with("/evidence/phases", serde_json::json!([])), "no phases"),
            (
                with("/evidence/stack/tiers", serde_json::json!([])),
                "no stack",
            ),
            (with("/evidence/machine/cores", 0.into()), "cores"),
            (
                with(
                    "/evidence/phases/0/series/series/0/points/0/1",
                    1e308.into(),
                ),
                "larger than",
            ),
            (
                with(
                    "/evidence/phases/0/series/series/0/points/0/1",
                    (-1e308).into(),
                ),
                "larger than",
            ),
        ] {
            let said = refused(&text);
            assert!(said.contains(words), "{said}, of {text}");
        }
    }

    #[test]
    fn names_of_strangers_stay_on_their_line_and_give_no_orders() {
        let finding = Finding {
            code: "APP-17".to_owned(),
            arm: String::new(),
            title: "a lock on \u{1b}[31mred\nFPM-99  proved".to_owned(),
            layer: Layer::App,
            seen: Vec::new(),
            refuted_by: String::new(),
            remedy: None,
            expected_gain: String::new(),
            confidence: kneepoint_model::Confidence::Suspected,
            weight: 0.5,
            source: String::new(),
            effects: Vec::new(),
        };
        let text = listed(&[finding]);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("\\x1b[31mred\\nFPM-99"), "{text}");
    }

    #[test]
    fn an_endless_file_is_not_read() {
        let error = text_of(Path::new("/dev/zero")).expect_err("no regular file");
        assert!(error.to_string().contains("no regular file"), "{error}");
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
        assert!(
            error.contains("run.json is no evidence that") && error.contains("it is a run"),
            "{error}"
        );
    }
}
