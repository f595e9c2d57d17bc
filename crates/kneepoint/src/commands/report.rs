//! `kneepoint report`: a stored run, rendered again.

use crate::args::ReportArgs;
use crate::session;
use anyhow::{Context as _, Result, bail};
use kneepoint_experiment::RunStore;
use kneepoint_report::{Options, Styles};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(super) fn run(args: &ReportArgs) -> Result<ExitCode> {
    let path = find(args)?;
    let run = RunStore::read(&path)?;
    let styles = if args.output.is_none() {
        session::styles()
    } else {
        Styles::Plain
    };
    let files = vec![("run file".to_owned(), path.display().to_string())];
    let text = session::rendered(&run, &args.format, &Options { styles, files })?;
    session::write_text(args.output.as_deref().unwrap_or(Path::new("-")), &text)?;
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
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(wanted))
        })
        .collect();
    if matching.len() > 1 && args.run.is_some() {
        let names = matching
            .iter()
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>()
            .join("\n  ");
        bail!("`{wanted}` fits several runs:\n  {names}");
    }
    matching.into_iter().next_back().with_context(|| {
        format!(
            "no run `{wanted}` in {}; `kneepoint runs` lists them",
            args.runs.display()
        )
    })
}
