//! How long each part of a diagnosis took, from the journal of its run.

use serde::{Deserialize, Serialize};

/// A line of a run's journal, as far as times go.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Entry {
    at_s: f64,
    kind: String,
    text: String,
}

/// Seconds that the parts took. The cause is named at the end of `diagnosis_s`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Times {
    /// Until the stack stood and its pages were known.
    pub(super) standing_up_s: f64,
    /// To find the limit.
    pub(super) limit_s: f64,
    /// To drive the phases, sample, trace and judge.
    pub(super) diagnosis_s: f64,
    /// To try remedies, until the run's end.
    pub(super) remedies_s: f64,
}

impl Times {
    /// Reads them from a journal; `None` where no cause was looked for.
    pub(super) fn of(journal: &[Entry], elapsed_s: f64) -> Option<Self> {
        let stage = |name: &str| {
            let mut stages = journal.iter().enumerate();
            stages.find(|(_, entry)| entry.kind == "stage" && entry.text.starts_with(name))
        };
        let (_, limit) = stage("Limit")?;
        let (begins, diagnosis) = stage("Diagnose")?;
        let behind = &journal[begins + 1..];
        let remedies = behind.iter().position(|entry| entry.kind == "stage");
        let of_diagnosis = &behind[..remedies.unwrap_or(behind.len())];
        // What was found is written down at the end.
        let named_s = of_diagnosis.last().unwrap_or(diagnosis).at_s;
        let remedies_s = remedies.map_or(0.0, |at| elapsed_s - behind[at].at_s);
        Some(Self {
            standing_up_s: limit.at_s,
            limit_s: diagnosis.at_s - limit.at_s,
            diagnosis_s: named_s - diagnosis.at_s,
            remedies_s,
        })
    }

    /// From the stack that stands to the named cause.
    pub(super) fn named_s(&self) -> f64 {
        self.limit_s + self.diagnosis_s
    }

    /// What the middle one of several took, part by part; `None` of none.
    pub(super) fn median(times: &[Self]) -> Option<String> {
        let middle = |of: fn(&Self) -> f64| {
            let mut all: Vec<f64> = times.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied()
        };
        Some(format!(
            "medians: {:.0} s from the stack that stands to the named cause, of which {:.0} s to find the limit and {:.0} s to \
             diagnose; {:.0} s before that to stand it up, {:.0} s after it to try remedies",
            middle(Self::named_s)?,
            middle(|it| it.limit_s)?,
            middle(|it| it.diagnosis_s)?,
            middle(|it| it.standing_up_s)?,
            middle(|it| it.remedies_s)?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(lines: &[(f64, &str, &str)]) -> Vec<Entry> {
        let entry = |(at_s, kind, text): &(f64, &str, &str)| Entry {
            at_s: *at_s,
            kind: (*kind).to_owned(),
            text: (*text).to_owned(),
        };
        lines.iter().map(entry).collect()
    }

    #[test]
    fn parts_end_where_the_next_begins() {
        let lines = [
            (3.0, "result", "the stack stands"),
            (4.0, "stage", "Limit: where to look"),
            (30.0, "stage", "Diagnose: which tier and which cause bind"),
            (61.0, "result", "OPC-01 suspected"),
            (62.0, "stage", "Confirm OPC-01: opcache.enable = 1"),
            (80.0, "result", "better"),
        ];
        let parts = |lines: &[(f64, &str, &str)]| {
            let times = Times::of(&journal(lines), 85.0)?;
            let before = (times.standing_up_s, times.limit_s);
            Some((before, times.diagnosis_s, times.remedies_s))
        };
        assert_eq!(parts(&lines), Some(((4.0, 26.0), 31.0, 23.0)));
        assert_eq!(parts(&lines[..4]), Some(((4.0, 26.0), 31.0, 0.0)));
        assert_eq!(parts(&lines[..2]), None, "it ended before");
    }

    #[test]
    fn the_median_tells_each_part() {
        let times = |limit_s| Times {
            standing_up_s: 3.0,
            limit_s,
            diagnosis_s: 30.0,
            remedies_s: 0.0,
        };
        let all = [times(50.0), times(20.0), times(26.0)];
        let said = Times::median(&all).expect("some");
        assert!(
            said.starts_with("medians: 56 s from the stack") && said.contains("26 s to find"),
            "{said}"
        );
        assert_eq!(Times::median(&[]), None);
    }
}
