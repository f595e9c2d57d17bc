//! HTML: one self-contained page to read and to send on.

use crate::html::{Document, Section, document};
use crate::subjects::{
    account, capacity, changes, conditions, contest, findings, gate, inside, limits, replay, stack,
    summary,
};
use crate::{Format, Options, summarise};
use kneepoint_model::Run;

/// For people.
pub(super) static FORMAT: Format = Format {
    name: "html",
    extension: "html",
    about: "one self-contained page to read and to send on",
    render: |run, options: &Options| page(run, options.against.as_deref()),
};

/// The whole page. Flame graphs are told from those of `against`, where it has some.
fn page(run: &Run, against: Option<&Run>) -> String {
    let derived = summarise(run);
    let sections: Vec<Section> = [
        gate::html::section(run),
        replay::html::section(run),
        capacity::html::section(run),
        contest::html::section(run),
        stack::waterfall::html::section(run),
        account::html::section(run),
        stack::html::section(run),
        limits::html::section(run),
        findings::html::section(run),
        findings::mending::html(run),
        inside::html::section(run, against),
        changes::html::section(run),
        changes::diff::section(run),
        conditions::journal::section(run),
        conditions::html::section(run),
    ]
    .into_iter()
    .flatten()
    .collect();
    let title = format!("Kneepoint {}: {}", run.command, derived.subject);
    let version = format!("Kneepoint {}", run.tool_version);
    let footer = if run.id.is_empty() {
        version
    } else {
        format!("{version}, run {}", run.id)
    };
    document(&Document {
        title: &title,
        tool_version: &run.tool_version,
        header: summary::html::header(run, &derived),
        sections: &sections,
        footer: &footer,
        script: inside::html::has_graph(run).then_some(inside::flame::SCRIPT),
    })
}
