//! `kneepoint runs`: the stored runs, newest last.

pub(super) mod report;

use crate::args::RunsArgs;
use crate::session::print;
use anyhow::Result;
use kneepoint_experiment::RunStore;
use kneepoint_model::Run;
use kneepoint_model::redact::shown::visible;
use std::process::ExitCode;

pub(super) fn run(args: &RunsArgs) -> Result<ExitCode> {
    let files = RunStore::list(&args.runs);
    if files.is_empty() {
        print(&format!("no runs in {}", args.runs.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let runs: Vec<_> = files.iter().map(|file| RunStore::read(file)).collect();
    for line in table(&runs.iter().flatten().collect::<Vec<_>>()) {
        print(&line)?;
    }
    for error in runs.iter().filter_map(|run| run.as_ref().err()) {
        print(&visible(&error.to_string()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A line with the columns' names, and one for each run, in columns.
fn table(runs: &[&Run]) -> Vec<String> {
    if runs.is_empty() {
        return Vec::new();
    }
    let rows: Vec<[String; 5]> = std::iter::once(HEADINGS.map(str::to_owned))
        .chain(runs.iter().map(|run| row(run)))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; 5] = std::array::from_fn(|column| width(column).unwrap_or_default());
    rows.iter()
        .map(|row| {
            let cells = row.iter().zip(widths);
            let cells: Vec<String> = cells
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            cells.join("  ").trim_end().to_owned()
        })
        .collect()
}

const HEADINGS: [&str; 5] = ["RUN", "TOOK", "R*", "GATE", "ENDED"];

fn row(run: &Run) -> [String; 5] {
    let limits: Vec<String> = ["base", "best"]
        .into_iter()
        .filter_map(|arm| {
            let limit = run.limit(arm)?;
            Some(limit.met_hz().map_or_else(
                || "none".to_owned(),
                |met| limit.unit().format(met.estimate),
            ))
        })
        .collect();
    let or_dash = |text: String| {
        if text.is_empty() {
            "-".to_owned()
        } else {
            text
        }
    };
    let gate = run.gate.as_ref().map(|gate| gate.verdict.name());
    [
        visible(&run.id).into_owned(),
        format!("{:.0} s", run.elapsed_s),
        or_dash(limits.join(" -> ")),
        or_dash(gate.unwrap_or_default().to_owned()),
        match run.ended.is_empty() {
            true => "did not end (killed?)".to_owned(),
            false => visible(&run.ended).into_owned(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::Interval;
    use kneepoint_model::run::LimitResult;

    #[test]
    fn a_limit_of_visits_is_told_as_one() {
        let limit = LimitResult {
            arm: "base".into(),
            rate_hz: Interval {
                low: 25.0,
                estimate: 26.0,
                high: 27.0,
            },
            requests_a_visit: Some(5.0),
            ..LimitResult::default()
        };
        let run = Run {
            limits: vec![limit],
            ..Run::default()
        };
        assert_eq!(row(&run)[2], "26.0 visits/s");
    }

    #[test]
    fn what_a_stranger_wrote_moves_no_cursor() {
        let run = Run {
            id: "a\u{1b}[2J".into(),
            ended: "failed: \u{1b}]0;x\n".into(),
            ..Run::default()
        };
        let row = row(&run);
        assert_eq!(row[0], "a\\x1b[2J");
        assert_eq!(row[4], "failed: \\x1b]0;x\\n");
    }

    #[test]
    fn runs_stand_in_columns_below_their_names() {
        let run = |id: &str, ended: &str| Run {
            id: id.to_owned(),
            ended: ended.to_owned(),
            elapsed_s: 61.2,
            ..Run::default()
        };
        let (long, short) = (run("2026-11-28-shop", "R* is 20/s"), run("x", ""));
        expect_test::expect![[r#"
            RUN              TOOK  R*  GATE  ENDED
            2026-11-28-shop  61 s  -   -     R* is 20/s
            x                61 s  -   -     did not end (killed?)"#]]
        .assert_eq(&table(&[&long, &short]).join("\n"));
        assert!(table(&[]).is_empty());
    }
}
