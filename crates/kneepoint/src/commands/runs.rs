//! `kneepoint runs`: the stored runs, newest last.

pub(super) mod report;

use crate::args::RunsArgs;
use crate::session::print;
use anyhow::Result;
use kneepoint_experiment::RunStore;
use kneepoint_model::Run;
use kneepoint_model::units::format_rate;
use std::process::ExitCode;

pub(super) fn run(args: &RunsArgs) -> Result<ExitCode> {
    let files = RunStore::list(&args.runs);
    if files.is_empty() {
        print(&format!("no runs in {}", args.runs.display()))?;
    }
    for file in files {
        match RunStore::read(&file) {
            Ok(run) => print(&line(&run))?,
            Err(error) => print(&format!("{error}"))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn line(run: &Run) -> String {
    let limits: Vec<String> = ["base", "best"]
        .into_iter()
        .filter_map(|arm| {
            run.limit(arm)
                .map(|limit| format!("{arm} {}", format_rate(limit.rate_hz.estimate)))
        })
        .collect();
    let ended = if run.ended.is_empty() {
        "did not end (killed?)"
    } else {
        &run.ended
    };
    let gate = run.gate.as_ref().map_or_else(String::new, |gate| {
        format!(", gate: {}", gate.verdict.name())
    });
    format!(
        "{}  {:>4.0} s  {}{gate}  {ended}",
        run.id,
        run.elapsed_s,
        if limits.is_empty() {
            "no limit".to_owned()
        } else {
            limits.join(" -> ")
        }
    )
}
