//! The terminal summary: plain text of at most 100 columns, the verdict first.

use crate::subjects::{
    account, capacity, changes, conditions, contest, findings, gate, replay, summary,
};
use crate::text::{LABEL, Page, Style};
use crate::{Format, Options, summarise};
use kneepoint_model::Run;

/// For whoever ran the command.
pub(super) static FORMAT: Format = Format {
    name: "terminal",
    extension: "txt",
    about: "a summary of at most 100 columns",
    render,
};

const COLUMNS: usize = 100;

fn render(run: &Run, options: &Options) -> String {
    let summary = summarise(run);
    let mut page = Page::new(COLUMNS, options.styles);
    summary::terminal::head(&mut page, run, &summary);
    gate::terminal::gate(&mut page, run);
    replay::terminal::replay(&mut page, run);
    capacity::terminal::plan(&mut page, run);
    contest::terminal::contest(&mut page, run);
    account::terminal::account(&mut page, run);
    findings::terminal::findings(&mut page, run);
    findings::mending::terminal(&mut page, run);
    changes::terminal::decisions(&mut page, run);
    changes::terminal::recommended(&mut page, run);
    conditions::terminal::generators(&mut page, run);
    sentences(&mut page, "Not in this run", &summary.missing, Style::Alert);
    sentences(&mut page, "Doubts", &summary.doubts, Style::Alert);
    results(&mut page, options);
    page.finish()
}

fn sentences(page: &mut Page, heading: &str, sentences: &[String], style: Style) {
    if sentences.is_empty() {
        return;
    }
    page.heading(heading);
    for sentence in sentences {
        page.columns(&[("  -", 4, Some(style))], sentence, None);
    }
}

fn results(page: &mut Page, options: &Options) {
    if options.files.is_empty() {
        return;
    }
    page.heading("Results");
    for (what, path) in &options.files {
        page.columns(
            &[("", 2, None), (what, LABEL - 2, Some(Style::Faint))],
            path,
            None,
        );
    }
}
