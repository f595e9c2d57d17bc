//! The bench's answer: a table for people, the same as JSON, and whether it is passed.

use super::shape::Shape;
use super::verdict::Verdict;
use crate::faults::write_columns;
use serde_json::{Value, json};
use std::fmt;

/// What came of a shape.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    /// Both twins stood and were judged.
    Judged(Verdict),
    /// One did not stand: its last words.
    Failed(String),
    /// It was left out, for this reason.
    Skipped(String),
}

/// A shape with what came of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    name: String,
    engines: String,
    planted: usize,
    outcome: Outcome,
}

impl Row {
    /// What came of a shape.
    pub(super) fn new(shape: &Shape, outcome: Outcome) -> Self {
        Self {
            name: shape.name.clone(),
            engines: shape.healthy.engines(),
            planted: shape.faulty.planted.len(),
            outcome,
        }
    }

    /// A few lines for progress.
    pub(super) fn in_words(&self) -> String {
        match &self.outcome {
            Outcome::Skipped(why) => format!("skipped: {why}"),
            Outcome::Failed(words) => format!("FAILED: {words}"),
            Outcome::Judged(verdict) => {
                let word = if verdict.right() { "ok" } else { "TO MEND" };
                let mut text = format!(
                    "{word}: {} of {} named in {:.2} s",
                    verdict.named.len(),
                    self.planted,
                    verdict.took_s
                );
                for complaint in verdict.complaints() {
                    text.push_str("\n      ");
                    text.push_str(&complaint);
                }
                text
            }
        }
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![
            self.name.clone(),
            self.engines.clone(),
            self.planted.to_string(),
        ];
        match &self.outcome {
            Outcome::Skipped(why) => cells.push(format!("skipped: {why}")),
            Outcome::Failed(_) => cells.push("failed".into()),
            Outcome::Judged(verdict) => {
                let count = |list: &[String]| list.len().to_string();
                cells.extend([
                    count(&verdict.named),
                    count(&verdict.missed),
                    count(&verdict.beside),
                    count(&verdict.false_alarms),
                    count(&verdict.unjoined),
                    count(&verdict.did),
                    format!("{:.2}", verdict.took_s),
                ]);
            }
        }
        cells
    }

    fn to_json(&self) -> Value {
        let mut row = json!({"shape": self.name, "engine": self.engines, "planted": self.planted});
        match &self.outcome {
            Outcome::Skipped(why) => row["skipped"] = json!(why),
            Outcome::Failed(why) => row["failed"] = json!(why),
            Outcome::Judged(verdict) => {
                row["named"] = json!(verdict.named);
                row["missed"] = json!(verdict.missed);
                row["beside"] = json!(verdict.beside);
                row["false_alarms"] = json!(verdict.false_alarms);
                row["unjoined"] = json!(verdict.unjoined);
                row["not_seen"] = json!(verdict.blind);
                row["did"] = json!(verdict.did);
                row["took_s"] = json!(verdict.took_s);
            }
        }
        row
    }
}

/// All that was tried.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
}

impl Table {
    fn verdicts(&self) -> impl Iterator<Item = &Verdict> {
        self.rows.iter().filter_map(|row| match &row.outcome {
            Outcome::Judged(verdict) => Some(verdict),
            _ => None,
        })
    }

    /// Whether something was tried, and nothing of it is to be mended. What was skipped does not count.
    pub(super) fn passed(&self) -> bool {
        let failed = |row: &Row| matches!(row.outcome, Outcome::Failed(_));
        self.verdicts().count() > 0
            && self.verdicts().all(Verdict::right)
            && !self.rows.iter().any(failed)
    }

    /// The same for programs.
    pub(super) fn to_json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Row::to_json).collect();
        json!({"schema": "kneepoint.shapes/1", "rows": rows, "passed": self.passed()})
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = [
            "shape",
            "made by",
            "planted",
            "named",
            "missed",
            "beside",
            "false on the healthy twin",
            "not joined",
            "did more than read",
            "seconds",
        ];
        write_columns(f, &head, self.rows.iter().map(Row::cells).collect())?;
        let sum = |of: fn(&Verdict) -> usize| self.verdicts().map(of).sum::<usize>();
        writeln!(
            f,
            "{} of {} planted faults named in {} shapes, {} false, {} times more than reading",
            sum(|one| one.named.len()),
            sum(|one| one.named.len() + one.missed.len()),
            self.verdicts().count(),
            sum(|one| one.beside.len() + one.false_alarms.len()),
            sum(|one| one.did.len())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(outcome: Outcome) -> Row {
        Row {
            name: "one".into(),
            engines: "host".into(),
            planted: 1,
            outcome,
        }
    }

    #[test]
    fn one_missed_fault_fails_the_bench() {
        let right = Verdict {
            named: vec!["FPM-01".into()],
            took_s: 0.25,
            ..Verdict::default()
        };
        let passed = |outcomes: Vec<Outcome>| {
            let rows = outcomes.into_iter().map(row).collect();
            Table { rows }.passed()
        };
        let judged = Outcome::Judged(right.clone());
        let skipped = Outcome::Skipped("x".into());
        assert!(passed(vec![judged.clone(), skipped.clone()]));
        assert!(!passed(vec![skipped]) && !passed(vec![]));
        assert!(!passed(vec![judged, Outcome::Failed("y".into())]));
        let wrong = Verdict {
            missed: vec!["OPC-01".into()],
            ..right
        };
        assert!(!passed(vec![Outcome::Judged(wrong.clone())]));
        let rows = vec![row(Outcome::Judged(wrong))];
        let text = Table { rows }.to_string();
        assert!(text.contains("1 of 2 planted faults named"), "{text}");
    }
}
