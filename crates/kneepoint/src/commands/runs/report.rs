//! `kneepoint report`: a stored run, rendered again.

use crate::args::ReportArgs;
use crate::{session, stored};
use anyhow::Result;
use kneepoint_experiment::RunStore;
use kneepoint_report::{Options, Styles};
use std::path::Path;
use std::process::ExitCode;

pub(in crate::commands) fn run(args: &ReportArgs) -> Result<ExitCode> {
    let path = stored::find(&args.runs, args.run.as_deref())?;
    let run = RunStore::read(&path)?;
    let styles = if args.output.is_none() {
        session::styles()
    } else {
        Styles::Plain
    };
    let files = vec![("run file".to_owned(), path.display().to_string())];
    let against = match &args.against {
        Some(name) => Some(Box::new(RunStore::read(&stored::find(
            &args.runs,
            Some(name),
        )?)?)),
        None => None,
    };
    let options = Options {
        styles,
        files,
        against,
    };
    let text = session::rendered(&run, &args.format, &options)?;
    session::write_text(args.output.as_deref().unwrap_or(Path::new("-")), &text)?;
    Ok(ExitCode::SUCCESS)
}
