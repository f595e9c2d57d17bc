//! The field reports' first stages, standing and without load: does a look at them name what their authors found?
//!
//! `kneepoint lab up` keeps a stage standing; the check looks at its processes only, since a machine may hold other
//! stacks. A look can tell more than a load: that OPcache is configured and not installed (OPC-02), where under load it is
//! only off (OPC-01).

use crate::faults::write_columns;
use crate::shapes::Options;
use crate::shapes::verdict::names;
use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use std::fmt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

/// What must be named of each report: of every list one code at least, with the words behind it in its finding.
const CAUSES: [(&str, &[&[&str]]); 5] = [
    ("S1", &[&["RDS-01"]]),
    ("S2", &[&["OPC-01"], &["FPM-01", "FPM-03"]]),
    ("S3", &[&["OPC-02"]]),
    ("S4", &[&["NGX-04 net.ipv4.ip_local_port_range"]]),
    ("S5", &[&["OPC-02"]]),
];

/// A report with what the check said of its first stage.
#[derive(Debug, Clone, PartialEq, Default)]
struct Row {
    name: String,
    /// Of each list one at least must be named.
    causes: &'static [&'static [&'static str]],
    /// Findings in the check's order, notes left out.
    named: Vec<Value>,
    took_s: f64,
}

impl Row {
    fn missed(&self) -> Vec<String> {
        let has = |cause: &&str| self.named.iter().any(|one| names(one, cause));
        let missed = self.causes.iter().filter(|any| !any.iter().any(has));
        missed.map(|any| any.join(" or ")).collect()
    }
}

/// What came of all.
struct Table(Vec<Row>);

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = |row: &Row| {
            let missed = row.missed();
            let word = if missed.is_empty() {
                "named".to_owned()
            } else {
                format!("MISSED {}", missed.join(", "))
            };
            let expected: Vec<String> = row.causes.iter().map(|any| any.join(" or ")).collect();
            let mut codes: Vec<&str> = Vec::new();
            for code in row.named.iter().filter_map(|one| one["code"].as_str()) {
                if !codes.contains(&code) {
                    codes.push(code);
                }
            }
            vec![
                row.name.clone(),
                expected.join(" and "),
                word,
                format!("{:.2}", row.took_s),
                codes.join(" "),
            ]
        };
        let head = [
            "report",
            "cause",
            "named?",
            "seconds",
            "problems and risks, in order",
        ];
        write_columns(f, &head, self.0.iter().map(cells).collect())
    }
}

/// Looks at each report's first stage. The exit code is 1 when a cause is not named.
///
/// # Errors
/// A report cannot be read, or its first stage does not stand.
pub(super) fn run(options: &Options, binary: &Path) -> anyhow::Result<ExitCode> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/field-reports");
    let mut progress = std::io::stderr();
    let mut rows = Vec::new();
    for (name, causes) in CAUSES {
        let mut row = Row {
            name: name.to_owned(),
            causes,
            ..Row::default()
        };
        if !options.only.is_empty() && !options.only.contains(&row.name) {
            continue;
        }
        writeln!(progress, "{}: standing up", row.name)?;
        let path = find(&dir, name)?;
        look(&mut row, &path, binary, options.show).with_context(|| row.name.clone())?;
        rows.push(row);
    }
    ensure!(!rows.is_empty(), "there is no such report");
    let right = rows.iter().all(|row| row.missed().is_empty());
    write!(std::io::stdout(), "{}", Table(rows))?;
    Ok(if right {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The file of a report.
fn find(dir: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let entries = std::fs::read_dir(dir)
        .with_context(|| format!("there are no field reports at `{}`", dir.display()))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let is = |path: &PathBuf| {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        stem.is_some_and(|stem| stem.split('-').next() == Some(name))
    };
    paths
        .find(is)
        .with_context(|| format!("there is no field report {name}"))
}

fn look(row: &mut Row, path: &Path, binary: &Path, show: bool) -> anyhow::Result<()> {
    let mut standing = Standing::up(binary, path)?;
    let pids = standing.pids()?;
    let check = |rest: &[&str]| -> anyhow::Result<String> {
        let mut command = Command::new(binary);
        command.arg("check").args(rest);
        for pid in &pids {
            command.args(["--pid", pid]);
        }
        let output = command.stdin(Stdio::null()).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let report: Value = serde_json::from_str(&check(&["--json", "-"])?).context("no report")?;
    row.took_s = report["took_s"].as_f64().unwrap_or(f64::INFINITY);
    let findings = report["findings"].as_array().into_iter().flatten();
    let named = findings.filter(|finding| finding["severity"] != "note");
    row.named = named.cloned().collect();
    if show {
        writeln!(std::io::stderr(), "{}", check(&["--all"])?)?;
    }
    Ok(())
}

/// A stage that stands until it is dropped.
struct Standing(Child);

impl Standing {
    fn up(binary: &Path, path: &Path) -> anyhow::Result<Self> {
        let child = Command::new(binary)
            .args(["lab", "up"])
            .arg(path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("the program cannot be started")?;
        Ok(Self(child))
    }

    /// The first process of each tier, once all stand.
    fn pids(&mut self) -> anyhow::Result<Vec<String>> {
        let out = self.0.stdout.take().context("it has no output")?;
        let mut pids = Vec::new();
        for line in BufReader::new(out).lines() {
            let line = line?;
            if line.starts_with("It stands") {
                return Ok(pids);
            }
            pids.extend(line.split_once(' ').map(|(_, pid)| pid.to_owned()));
        }
        bail!("the stage does not stand")
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_every_list_one_code_is_enough() {
        let row = |named: &[&str]| Row {
            causes: &[&["OPC-01", "OPC-02"], &["FPM-01"]],
            named: named
                .iter()
                .map(|code| json!({ "code": code, "where": "its words" }))
                .collect(),
            ..Row::default()
        };
        assert!(row(&["FPM-01", "OPC-02"]).missed().is_empty());
        assert_eq!(row(&["OPC-01"]).missed(), ["FPM-01"]);
        assert_eq!(row(&["FPM-01"]).missed(), ["OPC-01 or OPC-02"]);
        let words = Row {
            causes: &[&["FPM-01 its words"], &["OPC-01 others"]],
            ..row(&["FPM-01", "OPC-01"])
        };
        assert_eq!(words.missed(), ["OPC-01 others"]);
    }

    #[test]
    fn every_report_is_there() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/field-reports");
        for (name, _) in CAUSES {
            assert!(find(&dir, name).is_ok(), "{name}");
        }
        assert!(find(&dir, "S9").is_err());
    }
}
