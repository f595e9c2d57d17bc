//! `kneepoint report`: a stored run, rendered again.

use crate::args::ReportArgs;
use crate::session;
use anyhow::{Context as _, Result, bail};
use kneepoint_experiment::RunStore;
use kneepoint_report::{Format, render};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(super) fn run(args: &ReportArgs) -> Result<ExitCode> {
    let path = find(args)?;
    let run = RunStore::read(&path)?;
    let to_terminal = args.output.is_none() && console::Term::stdout().is_term();
    let format = Format::parse(&args.format, to_terminal).map_err(anyhow::Error::msg)?;
    session::write_text(args.output.as_deref().unwrap_or(Path::new("-")), &render(&run, format))?;
    Ok(ExitCode::SUCCESS)
}

fn find(args: &ReportArgs) -> Result<PathBuf> {
    if let Some(name) = &args.run
        && Path::new(name).is_file()
    {
        return Ok(name.into());
    }
    let files = RunStore::list(&args.runs);
    let wanted = args.run.as_deref().unwrap_or("");
    let matching: Vec<PathBuf> = files
        .into_iter()
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(wanted)))
        .collect();
    if matching.len() > 1 && args.run.is_some() {
        let names = matching.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join("\n  ");
        bail!("`{wanted}` fits several runs:\n  {names}");
    }
    matching.into_iter().next_back().with_context(|| format!("no run `{wanted}` in {}; `kneepoint runs` lists them", args.runs.display()))
}
