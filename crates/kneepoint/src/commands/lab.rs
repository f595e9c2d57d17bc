//! `kneepoint lab`: what labs there are, the removal of those left behind, and one to look at.

use crate::args::LabCommand;
use crate::progress::Terminal;
use crate::session::{print, stop_flag};
use crate::{config, field_report};
use anyhow::{Context as _, Result};
use kneepoint_experiment::Testbed;
use kneepoint_model::Scenario;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often the flag of Ctrl-C is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The name of the only arm.
const ARM: &str = "stack";

pub(super) fn run(command: &LabCommand) -> Result<ExitCode> {
    match command {
        LabCommand::List => {
            let labs = kneepoint_lab::list();
            if labs.is_empty() {
                print("no lab on this machine")?;
            }
            for lab in labs {
                print(&line(&lab))?;
            }
        }
        LabCommand::Clean => {
            let removed = kneepoint_lab::clean();
            if removed.is_empty() {
                print("nothing was left behind")?;
            }
            for thing in removed {
                print(&thing.to_string())?;
            }
        }
        LabCommand::Up { scenario, stage } => up(scenario, *stage)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Stands a scenario up, says which processes it is made of, and removes it when somebody asks to stop.
fn up(path: &Path, stage: u32) -> Result<()> {
    // Nobody is to send anything.
    let scenario = Scenario {
        generators: None,
        ..read(path, stage)?
    };
    let stop = stop_flag()?;
    let terminal = Arc::new(Terminal::new());
    let mut testbed = Testbed::open(
        &scenario,
        false,
        None,
        Arc::clone(&stop),
        Arc::<Terminal>::clone(&terminal),
    )?;
    let stood = testbed.stand_up(ARM, &scenario);
    terminal.finish();
    let shown = stood
        .map_err(anyhow::Error::from)
        .and_then(|()| Ok(testbed.first_processes(ARM)?))
        .and_then(|processes| {
            for (layer, pid) in &processes {
                print(&format!("{layer} {pid}"))?;
            }
            let options: Vec<String> = processes
                .iter()
                .map(|(_, pid)| format!("--pid {pid}"))
                .collect();
            print(&format!(
                "It stands until Ctrl-C. Look at it: kneepoint check {}",
                options.join(" ")
            ))
        });
    while shown.is_ok() && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY);
    }
    testbed.close();
    shown
}

/// The scenario of a file, or that of a stage of a field report.
fn read(path: &Path, stage: u32) -> Result<Scenario> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read `{}`", path.display()))?;
    let table: toml::Table = text.parse().unwrap_or_default();
    if !table.contains_key("stage") {
        return config::load(path).map_err(|errors| anyhow::anyhow!("{errors}"));
    }
    let (played, _) = field_report::read(path)?;
    let count = played.stages.len();
    let staged = played.stages.into_iter().nth(stage as usize - 1);
    let staged =
        staged.with_context(|| format!("there is no stage {stage}: the report has {count}"))?;
    Ok(staged.scenario)
}

fn line(lab: &kneepoint_lab::LabState) -> String {
    let state = match (lab.live, lab.owner_pid) {
        (true, Some(pid)) => format!("running, used by process {pid}"),
        (true, None) => "running".to_owned(),
        (false, _) => "left behind: `kneepoint lab clean` removes it".to_owned(),
    };
    let dir = lab
        .dir
        .as_ref()
        .map_or(String::new(), |dir| format!(", {}", dir.display()));
    format!(
        "{} {}: {state}; {} processes, {} control groups{dir}",
        lab.id,
        lab.name,
        lab.pids.len(),
        lab.cgroups.len()
    )
}
