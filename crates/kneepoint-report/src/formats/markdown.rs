//! Markdown for a pull request: the verdict, the changes, the findings and the diff.

use crate::markdown::list;
use crate::subjects::{
    account, capacity, changes, conditions, contest, findings, gate, limits, replay, summary,
};
use crate::words::plain;
use crate::{Format, Options, summarise};
use kneepoint_model::Run;

/// For a pull request.
pub(super) static FORMAT: Format = Format {
    name: "markdown",
    extension: "md",
    about: "the verdict, the changes and the diff, for a pull request",
    render,
};

fn render(run: &Run, options: &Options) -> String {
    let summary = summarise(run);
    let mut out = String::new();
    summary::markdown::head(&mut out, run, &summary);
    gate::markdown::gate(&mut out, run);
    replay::markdown::replay(&mut out, run);
    capacity::markdown::plan(&mut out, run);
    contest::markdown::contest(&mut out, run);
    limits::markdown::limits(&mut out, run);
    changes::markdown::decisions(&mut out, run);
    account::markdown::account(&mut out, run);
    findings::markdown::findings(&mut out, run);
    findings::mending::markdown(&mut out, run);
    conditions::markdown::generators(&mut out, run);
    list(&mut out, "Not in this run", &summary.missing);
    list(&mut out, "Doubts", &summary.doubts);
    changes::diff::markdown(&mut out, run);
    if !options.files.is_empty() {
        let files = options
            .files
            .iter()
            .map(|(what, path)| format!("{what}: {path}"))
            .collect::<Vec<_>>();
        list(&mut out, "Results", &files);
    }
    plain(&out)
}
