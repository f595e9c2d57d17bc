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
                print(&lab.to_string())?;
            }
        }
        LabCommand::Clean => {
            let removed = kneepoint_lab::clean();
            if removed.is_empty() {
                print("nothing was left behind")?;
            }
            for thing in removed {
                print(&format!("removed {thing}"))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
