//! `kneepoint lab`: what labs there are, and the removal of those left behind.

use crate::args::LabCommand;
use crate::session::print;
use anyhow::Result;
use std::process::ExitCode;

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
    }
    Ok(ExitCode::SUCCESS)
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
