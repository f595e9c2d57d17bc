//! What was named of the planted faults, and the score.

use super::record::Named;
use crate::faults::write_columns;
use crate::flags;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// What came of a fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// It was diagnosed.
    Judged {
        /// Code and title of what was named first; `None` when nothing was.
        named: Option<(String, String)>,
        /// Whether that is one of the expected codes.
        right: bool,
        /// Whether the culprit is in the finding.
        culprit: bool,
        /// R*: low, estimate, high. JSON has no infinity, so an end may be missing.
        limit_hz: Option<[Option<f64>; 3]>,
    },
    /// There is no diagnosis: why.
    Failed(String),
    /// It was not tried: why.
    Skipped(String),
}

impl Outcome {
    /// Compares what was named with what is right. Culprits are found whatever the case of their letters.
    pub(super) fn judge(
        codes: &[String],
        culprits: &[String],
        named: Option<Named>,
        limit: Option<[f64; 3]>,
    ) -> Self {
        let text = named
            .as_ref()
            .map(|named| named.text.to_lowercase())
            .unwrap_or_default();
        Self::Judged {
            right: named
                .as_ref()
                .is_some_and(|named| codes.contains(&named.code)),
            culprit: culprits
                .iter()
                .any(|culprit| text.contains(&culprit.to_lowercase())),
            named: named.map(|named| (named.code, named.title)),
            limit_hz: limit.map(|ends| ends.map(|end| end.is_finite().then_some(end))),
        }
    }
}

/// A fault with what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) expected: String,
    pub(super) elapsed: Duration,
    pub(super) outcome: Outcome,
}

impl Row {
    fn is_right(&self) -> bool {
        matches!(
            self.outcome,
            Outcome::Judged {
                right: true,
                culprit: true,
                ..
            }
        )
    }

    /// One line for progress.
    pub(super) fn in_words(&self) -> String {
        let cells = self.cells();
        let word = if self.is_right() { "ok" } else { "MISSED" };
        match &self.outcome {
            Outcome::Judged { .. } => format!(
                "{word} in {} s: expected {}, named {}, culprit {}",
                self.elapsed.as_secs(),
                self.expected,
                cells[5],
                cells[3]
            ),
            Outcome::Failed(words) => format!("failed after {} s: {words}", self.elapsed.as_secs()),
            Outcome::Skipped(why) => format!("skipped: {why}"),
        }
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.name.clone(), self.expected.clone()];
        match &self.outcome {
            Outcome::Judged {
                named,
                right,
                culprit,
                limit_hz,
            } => {
                let word = |yes: &bool| if *yes { "yes" } else { "NO" }.to_owned();
                let limit = limit_hz.and_then(|[_, estimate, _]| estimate);
                cells.push(word(right));
                cells.push(word(culprit));
                cells.push(limit.map_or_else(|| "-".into(), |limit| format!("{limit:.1}/s")));
                cells.push(named.as_ref().map_or_else(
                    || "nothing".into(),
                    |(code, title)| format!("{code}: {title}"),
                ));
            }
            Outcome::Failed(words) => cells.push(format!("failed: {words}")),
            Outcome::Skipped(why) => cells.push(format!("skipped: {why}")),
        }
        cells
    }
}

/// The schema of the results.
const SCHEMA: &str = "kneepoint.apps-faults/1";

/// The rows of one program.
pub(super) struct Score {
    /// Which program was asked.
    pub(super) build: String,
    pub(super) rows: Vec<Row>,
}

/// What a program was asked before, by the file that [`Score::to_json`] fills; nothing when it was another one.
///
/// # Errors
/// The file is there and is none of ours.
pub(super) fn read(path: Option<&Path>, build: &str) -> anyhow::Result<Vec<Row>> {
    let rows: Vec<Row> = flags::kept_rows(path, SCHEMA, build)?;
    // What was skipped may be there now.
    Ok(rows
        .into_iter()
        .filter(|row| !matches!(row.outcome, Outcome::Skipped(_)))
        .collect())
}

impl Score {
    pub(super) fn has(&self, name: &str) -> bool {
        self.rows.iter().any(|row| row.name == name)
    }

    fn count(&self, matching: impl Fn(&Row) -> bool) -> usize {
        self.rows.iter().filter(|row| matching(row)).count()
    }

    /// Faults that were tried: one whose diagnosis failed was not named.
    fn tried(&self) -> usize {
        self.count(|row| !matches!(row.outcome, Outcome::Skipped(_)))
    }

    /// At least nine of ten named first with the culprit. Nothing that ran is not passed.
    pub(super) fn passed(&self) -> bool {
        self.tried() > 0 && self.count(Row::is_right) * 10 >= self.tried() * 9
    }

    /// For programs, schema `kneepoint.apps-faults/1`.
    pub(super) fn to_json(&self) -> Value {
        json!({ "schema": SCHEMA, "build": self.build, "rows": self.rows })
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["fault", "expected", "ok?", "culprit?", "R*", "named first"];
        write_columns(f, &head, self.rows.iter().map(Row::cells).collect())?;
        let first = self.count(|row| matches!(row.outcome, Outcome::Judged { right: true, .. }));
        writeln!(
            f,
            "{first} of {} faults named first, {} of them with the culprit; {} failed, {} skipped",
            self.tried(),
            self.count(Row::is_right),
            self.count(|row| matches!(row.outcome, Outcome::Failed(_))),
            self.rows.len() - self.tried()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(code: &str, text: &str) -> Option<Named> {
        Some(Named {
            code: code.into(),
            title: "t".into(),
            text: text.into(),
        })
    }

    fn row(name: &str, outcome: Outcome) -> Row {
        Row {
            name: name.into(),
            expected: "APP-10".into(),
            elapsed: Duration::from_secs(1),
            outcome,
        }
    }

    fn judged(found: Option<Named>) -> Outcome {
        let limit = Some([1.0, 2.0, f64::INFINITY]);
        Outcome::judge(
            &["APP-10".into()],
            &["WP_Options".into(), "blob".into()],
            found,
            limit,
        )
    }

    #[test]
    fn a_fault_counts_only_with_its_culprit() {
        let score = |outcome| Score {
            build: "b".into(),
            rows: vec![row("x", outcome)],
        };
        assert!(score(judged(named("APP-10", "wp_options is big"))).passed());
        assert!(!score(judged(named("APP-10", "something is big"))).passed());
        assert!(!score(judged(named("MYS-02", "wp_options is big"))).passed());
        assert!(!score(judged(None)).passed());
        assert!(!score(Outcome::Failed("no".into())).passed());
        assert!(!score(Outcome::Skipped("no".into())).passed());
    }

    #[test]
    fn results_are_taken_up_again_by_the_same_program_only() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("r.json");
        let rows = vec![
            row("a", judged(named("APP-10", "blob"))),
            row("b", Outcome::Skipped("no package".into())),
        ];
        let score = Score {
            build: "one".into(),
            rows,
        };
        assert_eq!(read(Some(&path), "one").expect("nothing yet"), []);
        std::fs::write(&path, score.to_json().to_string()).expect("file");
        assert_eq!(read(Some(&path), "one").expect("ours"), score.rows[..1]);
        assert_eq!(read(Some(&path), "another").expect("ours"), []);
        std::fs::write(&path, "{").expect("file");
        assert!(read(Some(&path), "one").is_err());
    }

    #[test]
    fn the_table_tells_code_culprit_and_score() {
        let score = Score {
            build: "b".into(),
            rows: vec![
                row("a", judged(named("APP-10", "blob"))),
                row("b", judged(named("MYS-02", "x"))),
                row("c", Outcome::Failed("init: no".into())),
                row("d", Outcome::Skipped("no package".into())),
            ],
        };
        let said = score.to_string();
        assert!(
            said.contains(
                "1 of 3 faults named first, 1 of them with the culprit; 1 failed, 1 skipped"
            ),
            "{said}"
        );
        assert!(
            said.contains("MYS-02: t") && said.contains("skipped: no package"),
            "{said}"
        );
    }
}
