//! The bench's answer: a table for people, the same as JSON, and whether it is passed.

use super::fault::{Expectation, Fault};
use super::times::Times;
use super::verdict::Verdict;
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

/// What the table for programs is called.
pub(super) const SCHEMA: &str = "kneepoint.faults/1";

/// What came of a fault.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    /// The diagnosis ran and was judged.
    Judged(Box<Verdict>),
    /// There is no diagnosis: its last words.
    Failed(String),
    /// It was not run, for this reason.
    Skipped(&'static str),
}

/// A fault with what came of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    fault: Fault,
    elapsed: Duration,
    outcome: Outcome,
}

impl Row {
    pub(super) fn new(fault: Fault, elapsed: Duration, outcome: Outcome) -> Self {
        Self {
            fault,
            elapsed,
            outcome,
        }
    }

    fn is_healthy(&self) -> bool {
        self.fault.expect == Expectation::Healthy
    }

    fn verdict(&self) -> Option<&Verdict> {
        match &self.outcome {
            Outcome::Judged(verdict) => Some(verdict),
            _ => None,
        }
    }

    fn right(&self) -> bool {
        self.verdict().is_some_and(|verdict| verdict.right)
    }

    /// Whether the remedy that must win did; `None` when it need not. A cause that was not found has no remedy that
    /// could win.
    fn remedy_won(&self) -> Option<bool> {
        self.fault.remedy_must_win.then(|| {
            self.verdict()
                .is_some_and(|verdict| verdict.right && verdict.won)
        })
    }

    /// One line for progress.
    pub(super) fn in_words(&self) -> String {
        let seconds = self.elapsed.as_secs();
        match &self.outcome {
            Outcome::Skipped(why) => format!("skipped: {why}"),
            Outcome::Failed(words) => format!("failed after {seconds} s: {words}"),
            Outcome::Judged(verdict) => {
                let word = match (verdict.right, self.is_healthy()) {
                    (true, _) => "ok",
                    (false, true) => "FALSE ALARM",
                    (false, false) => "MISSED",
                };
                let expected = self.fault.expect.in_words();
                let unmet = match verdict.unmet.as_slice() {
                    [] => String::new(),
                    unmet => format!("; {}", unmet.join("; ")),
                };
                format!(
                    "{word} in {seconds} s: expected {expected}, named {}{unmet}",
                    said(verdict)
                )
            }
        }
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.fault.name.clone(), self.fault.expect.in_words()];
        match &self.outcome {
            Outcome::Skipped(why) => cells.push(format!("skipped: {why}")),
            Outcome::Failed(words) => cells.extend(["-".into(), "failed".into(), words.clone()]),
            Outcome::Judged(verdict) => {
                cells.push(verdict.named.clone().unwrap_or_else(|| "nothing".into()));
                cells.push(if verdict.right { "yes" } else { "NO" }.into());
                cells.push(match self.remedy_won() {
                    Some(false) => format!("{} (must win)", verdict.standing),
                    _ => verdict.standing.clone(),
                });
                let gain = verdict.gain.as_ref().map(|gain| gain.ratio.in_words());
                cells.push(gain.unwrap_or_else(|| "-".into()));
                cells.push(format!("{} s", self.elapsed.as_secs()));
            }
        }
        cells
    }

    fn healthy_cells(&self) -> Vec<String> {
        let mut cells = vec![self.fault.name.clone()];
        match &self.outcome {
            Outcome::Skipped(why) => cells.push(format!("skipped: {why}")),
            Outcome::Failed(words) => cells.extend(["-".into(), "failed".into(), words.clone()]),
            Outcome::Judged(verdict) => {
                cells.push(verdict.named.clone().unwrap_or_else(|| "nothing".into()));
                cells.push(match verdict.false_alarms.as_slice() {
                    [] => "none".into(),
                    codes => codes.join(", "),
                });
                cells.push(format!("{} s", self.elapsed.as_secs()));
            }
        }
        cells
    }

    fn to_json(&self) -> Value {
        let (outcome, why) = match &self.outcome {
            Outcome::Judged(_) => ("judged", None),
            Outcome::Failed(words) => ("failed", Some(words.as_str())),
            Outcome::Skipped(why) => ("skipped", Some(*why)),
        };
        let expected = match &self.fault.expect {
            Expectation::Healthy => json!("healthy"),
            Expectation::First(codes) => json!(codes),
        };
        json!({
            "name": self.fault.name,
            "asked": self.fault.digest(),
            "about": self.fault.about,
            "expected": expected,
            "outcome": outcome,
            "why": why,
            "verdict": self.verdict(),
            "remedy_must_win": self.fault.remedy_must_win,
            "remedy_won": self.remedy_won(),
            "elapsed_s": self.elapsed.as_secs_f64(),
        })
    }
}

/// `OPC-01 (confirmed, 3.20 (3.10 to 3.31))`.
fn said(verdict: &Verdict) -> String {
    let Some(code) = &verdict.named else {
        return "nothing".into();
    };
    let gain = verdict
        .gain
        .as_ref()
        .map(|gain| format!(", {}", gain.ratio.in_words()));
    format!("{code} ({}{})", verdict.standing, gain.unwrap_or_default())
}

/// The rows in the order they ran.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
}

/// The counts the bench is judged by.
#[derive(Debug, Default, PartialEq)]
struct Summary {
    /// Faults that were run, those whose diagnosis failed included.
    faults: usize,
    named_first: usize,
    /// Healthy stacks that were run.
    healthy: usize,
    false_alarms: usize,
    /// Remedies that must win, and did.
    remedies: usize,
    remedies_won: usize,
    /// Diagnoses that failed, and those among them that were of healthy stacks.
    failed: usize,
    healthy_failed: usize,
    skipped: usize,
}

impl Table {
    fn summary(&self) -> Summary {
        let mut sum = Summary::default();
        for row in &self.rows {
            if matches!(row.outcome, Outcome::Skipped(_)) {
                sum.skipped += 1;
                continue;
            }
            let failed = usize::from(matches!(row.outcome, Outcome::Failed(_)));
            sum.failed += failed;
            if row.is_healthy() {
                sum.healthy += 1;
                sum.healthy_failed += failed;
                sum.false_alarms += row
                    .verdict()
                    .map_or(0, |verdict| verdict.false_alarms.len());
            } else {
                sum.faults += 1;
                sum.named_first += usize::from(row.right());
                sum.remedies += usize::from(row.remedy_won().is_some());
                sum.remedies_won += usize::from(row.remedy_won() == Some(true));
            }
        }
        sum
    }

    /// At least 95 % of the faults named first, no false alarm, and no healthy stack without an answer. A bench of which
    /// nothing ran is not passed.
    pub(super) fn passed(&self) -> bool {
        let sum = self.summary();
        sum.faults + sum.healthy > 0
            && sum.named_first * 20 >= sum.faults * 19
            && sum.false_alarms == 0
            && sum.healthy_failed == 0
    }

    /// The table for programs.
    pub(super) fn to_json(&self) -> Value {
        let sum = self.summary();
        json!({
            "schema": SCHEMA,
            "rows": self.rows.iter().map(Row::to_json).collect::<Vec<_>>(),
            "summary": {
                "faults": sum.faults,
                "named_first": sum.named_first,
                "healthy": sum.healthy,
                "false_alarms": sum.false_alarms,
                "remedies_that_must_win": sum.remedies,
                "remedies_won": sum.remedies_won,
                "failed": sum.failed,
                "skipped": sum.skipped,
                "passed": self.passed(),
            },
        })
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (healthy, faults): (Vec<&Row>, Vec<&Row>) =
            self.rows.iter().partition(|row| row.is_healthy());
        if !faults.is_empty() {
            let head = [
                "fault",
                "expected",
                "named first",
                "ok?",
                "confirmed",
                "remedy's gain",
                "time",
            ];
            write_columns(f, &head, faults.iter().map(|row| row.cells()).collect())?;
        }
        if !healthy.is_empty() {
            let head = ["healthy stack", "named first", "false alarms", "time"];
            write_columns(
                f,
                &head,
                healthy.iter().map(|row| row.healthy_cells()).collect(),
            )?;
        }
        let sum = self.summary();
        writeln!(
            f,
            "{} of {} named first, {} false alarms on {} healthy stacks",
            sum.named_first, sum.faults, sum.false_alarms, sum.healthy
        )?;
        let times = self.rows.iter().filter_map(|row| row.verdict()?.times);
        if let Some(medians) = Times::median(&times.collect::<Vec<_>>()) {
            writeln!(f, "{medians}")?;
        }
        if sum.remedies > 0 {
            writeln!(
                f,
                "{} of {} remedies that must win did",
                sum.remedies_won, sum.remedies
            )?;
        }
        if sum.failed > 0 {
            writeln!(f, "{} could not be diagnosed", sum.failed)?;
        }
        if sum.skipped > 0 {
            writeln!(f, "{} skipped", sum.skipped)?;
        }
        Ok(())
    }
}

/// A table with aligned columns and an empty line after it. The last cell of a row may be as long as it likes: it takes
/// no part in the widths, so that one failure's words do not push every column aside.
pub(crate) fn write_columns(
    f: &mut fmt::Formatter<'_>,
    head: &[&str],
    rows: Vec<Vec<String>>,
) -> fmt::Result {
    let head = head.iter().map(|cell| (*cell).to_owned()).collect();
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let mut widths: Vec<usize> = Vec::new();
    for line in &lines {
        for (column, cell) in line[..line.len().saturating_sub(1)].iter().enumerate() {
            let width = cell.chars().count();
            match widths.get_mut(column) {
                Some(widest) => *widest = width.max(*widest),
                None => widths.push(width),
            }
        }
    }
    for line in &lines {
        let last = line.len().saturating_sub(1);
        for (column, cell) in line.iter().enumerate() {
            if column == last {
                writeln!(f, "{cell}")?;
            } else {
                write!(f, "{cell:<width$}  ", width = widths[column])?;
            }
        }
    }
    writeln!(f)
}

#[cfg(test)]
mod tests {
    use super::super::verdict::{Gain, Ratio};
    use super::*;
    use std::path::Path;

    fn fault(name: &str, expect: &str, rest: &str) -> Fault {
        let text = format!("about = \"x\"\nscenario = \"s.toml\"\nexpect = \"{expect}\"\n{rest}");
        Fault::read(Path::new(&format!("/f/{name}.toml")), &text).expect(name)
    }

    fn judged(named: &str, right: bool, standing: &str, false_alarms: &[&str]) -> Outcome {
        let ratio = Ratio {
            low: Some(1.9),
            estimate: Some(2.0),
            high: Some(2.1),
        };
        Outcome::Judged(Box::new(Verdict {
            named: Some(named.into()),
            title: Some("title".into()),
            right,
            standing: standing.into(),
            won: standing == "confirmed",
            gain: (standing != "not tried").then(|| Gain {
                change: "a 1 -> 2".into(),
                quantity: "R*".into(),
                ratio,
            }),
            unmet: Vec::new(),
            times: None,
            false_alarms: false_alarms.iter().map(|code| (*code).to_owned()).collect(),
        }))
    }

    fn row(fault: Fault, outcome: Outcome) -> Row {
        Row::new(fault, Duration::from_secs(71), outcome)
    }

    #[test]
    fn the_table_reads_like_a_table() {
        let must_win = "remedy_raises_limit = true\n";
        let table = Table {
            rows: vec![
                row(
                    fault("opcache-off", "OPC-01", must_win),
                    judged("OPC-01", true, "confirmed", &[]),
                ),
                row(
                    fault("pool", "FPM-01", must_win),
                    judged("FPM-01", true, "equivalent", &[]),
                ),
                row(
                    fault("stats", "OPC-06", ""),
                    judged("CAP-02", false, "not tried", &[]),
                ),
                row(
                    fault("broken", "RDS-01", ""),
                    Outcome::Failed("error: no redis".into()),
                ),
                row(fault("ports", "KRN-01", ""), Outcome::Skipped("needs root")),
                row(
                    fault("page", "healthy", ""),
                    judged("CAP-02", true, "not tried", &[]),
                ),
            ],
        };
        let expected = "\
fault        expected  named first          ok?     confirmed              remedy's gain        time
opcache-off  OPC-01    OPC-01               yes     confirmed              2.00 (1.90 to 2.10)  71 s
pool         FPM-01    FPM-01               yes     equivalent (must win)  2.00 (1.90 to 2.10)  71 s
stats        OPC-06    CAP-02               NO      not tried              -                    71 s
broken       RDS-01    -                    failed  error: no redis
ports        KRN-01    skipped: needs root

healthy stack  named first  false alarms  time
page           CAP-02       none          71 s

2 of 4 named first, 0 false alarms on 1 healthy stacks
1 of 2 remedies that must win did
1 could not be diagnosed
1 skipped
";
        // Only the words: how columns are aligned is the next test.
        let squeezed = |text: &str| {
            let lines = text
                .lines()
                .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(squeezed(&table.to_string()), squeezed(expected));
        assert!(!table.passed());
    }

    #[test]
    fn columns_stand_under_their_heads() {
        let table = Table {
            rows: vec![
                row(
                    fault("a", "OPC-01", ""),
                    judged("OPC-01", true, "confirmed", &[]),
                ),
                row(
                    fault("long-name", "OPC-01", ""),
                    Outcome::Failed("w".repeat(200)),
                ),
            ],
        };
        let text = table.to_string();
        let column = |line: &str, word: &str| line.find(word).expect(word);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            column(lines[0], "named first"),
            "long-name  expected  ".len()
        );
        assert_eq!(column(lines[0], "confirmed"), column(lines[1], "confirmed"));
        assert_eq!(column(lines[0], "time"), column(lines[1], "71 s"));
    }

    #[track_caller]
    fn check(right: usize, wrong: usize, healthy: &[Outcome], passed: bool) {
        let named = std::iter::repeat_n(judged("OPC-01", true, "confirmed", &[]), right);
        let missed = std::iter::repeat_n(Outcome::Failed("x".into()), wrong);
        let faults = named
            .chain(missed)
            .map(|outcome| row(fault("f", "OPC-01", ""), outcome));
        let stacks = healthy
            .iter()
            .map(|outcome| row(fault("h", "healthy", ""), outcome.clone()));
        let table = Table {
            rows: faults.chain(stacks).collect(),
        };
        assert_eq!(table.passed(), passed, "{table}");
        assert_eq!(table.to_json()["summary"]["passed"], passed);
    }

    #[test]
    fn nineteen_in_twenty_and_no_false_alarm_pass() {
        let fine = judged("CAP-02", true, "not tried", &[]);
        check(19, 1, &[], true);
        check(18, 1, &[], false);
        check(10, 0, std::slice::from_ref(&fine), true);
        check(
            10,
            0,
            &[fine, judged("FPM-01", false, "not tried", &["FPM-01"])],
            false,
        );
        check(10, 0, &[Outcome::Failed("x".into())], false);
        check(0, 0, &[Outcome::Skipped("needs root")], false);
        check(0, 0, &[], false);
    }

    #[test]
    fn a_remedy_of_the_wrong_cause_does_not_win() {
        let must_win = fault("f", "OPC-01", "remedy_raises_limit = true\n");
        let table = Table {
            rows: vec![row(must_win, judged("FPM-01", false, "confirmed", &[]))],
        };
        let json = table.to_json();
        assert_eq!(json["summary"]["remedies_won"], 0);
        assert_eq!(json["rows"][0]["remedy_won"], false);
        assert_eq!(json["rows"][0]["expected"][0], "OPC-01");
        assert_eq!(json["rows"][0]["verdict"]["gain"]["ratio"]["high"], 2.1);
    }
}
