//! JSON: the whole record and its summary, under a versioned schema.

use crate::{Format, Options, Summary, summarise};
use kneepoint_model::Run;
use serde::Serialize;

/// For programs.
pub(super) static FORMAT: Format = Format {
    name: "json",
    extension: "json",
    about: "the whole record and its summary, for programs",
    render,
};

/// Name and version of the document's shape: the number rises when a field changes its meaning or goes away.
const SCHEMA: &str = "kneepoint.run/1";

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    summary: Summary,
    run: &'a Run,
}

fn render(run: &Run, _: &Options) -> String {
    let document = Document {
        schema: SCHEMA,
        summary: summarise(run),
        run,
    };
    let mut text = serde_json::to_string_pretty(&document)
        .expect("a run has text keys only, and numbers that are none become null");
    text.push('\n');
    text
}
