//! `kneepoint init`: a first scenario, from looking at the application and the host.

use crate::args::InitArgs;
use crate::{init, session};
use anyhow::{Context as _, Result, bail};
use std::process::ExitCode;

pub(super) fn run(args: &InitArgs) -> Result<ExitCode> {
    let root = args
        .root
        .canonicalize()
        .with_context(|| format!("cannot look at {}", args.root.display()))?;
    let text = init::draft(&init::look(&root)?);
    if args.print {
        session::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let target = root.join("kneepoint.toml");
    if target.exists() {
        bail!(
            "{} is there already; remove it, or use --print to see what would be written",
            target.display()
        );
    }
    session::write_text(&target, &text)?;
    session::print(&format!(
        "wrote {}; look it over, then run: kneepoint tune {}",
        target.display(),
        target.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}
