//! The report page. One file, no network: style and pictures are inside. Where there is a flame graph, so is the one
//! script of the page, which zooms it and searches it; the page lets no other run.
//!
//! Pictures are SVG whose x coordinates are percentages, so that they follow the width of the page while
//! their text keeps its size, on a phone as on paper.

mod account;
mod axis;
mod capacity;
mod changes;
mod conditions;
mod contest;
mod curves;
mod diff;
mod distribution;
mod effect;
mod findings;
mod flame;
mod gate;
mod head;
mod inside;
mod journal;
mod load;
mod plot;
mod replay;
mod spread;
mod stack;
mod table;
mod waterfall;

use crate::summarise;
use crate::waterfall::Pair;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kneepoint_model::Run;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

pub(crate) use load::load_page;

const STYLE: &str = include_str!("html/style.css");

/// The whole page. Flame graphs are told from those of `against`, where it has some.
pub(crate) fn page(run: &Run, against: Option<&Run>) -> String {
    let summary = summarise(run);
    let sections: Vec<Section> = [
        gate::section(run),
        replay::section(run),
        capacity::section(run),
        contest::section(run),
        account::section(run),
        waterfall::section(run),
        stack::section(run),
        curves::section(run),
        findings::section(run),
        inside::section(run, against),
        changes::section(run),
        diff::section(run),
        journal::section(run),
        conditions::section(run),
    ]
    .into_iter()
    .flatten()
    .collect();
    let title = format!("Kneepoint {}: {}", run.command, summary.subject);
    let version = format!("Kneepoint {}", run.tool_version);
    let footer = if run.id.is_empty() {
        version
    } else {
        format!("{version}, run {}", run.id)
    };
    document(&Document {
        title: &title,
        tool_version: &run.tool_version,
        header: head::header(run, &summary),
        sections: &sections,
        footer: &footer,
        script: inside::has_graph(run).then_some(flame::SCRIPT),
    })
}

/// What every page consists of.
struct Document<'a> {
    title: &'a str,
    tool_version: &'a str,
    header: Markup,
    sections: &'a [Section],
    footer: &'a str,
    /// The one script that may run; none in most pages.
    script: Option<&'a str>,
}

/// What the page may load and run (CSP level 2): nothing but its own style, and this script, known by its hash.
fn policy(script: Option<&str>) -> String {
    let mut policy = "default-src 'none'; style-src 'unsafe-inline'".to_owned();
    if let Some(script) = script {
        let hash = BASE64_STANDARD.encode(Sha256::digest(script));
        policy.push_str(&format!("; script-src 'sha256-{hash}'"));
    }
    policy
}

/// A page that loads nothing: style and pictures are inside.
fn document(it: &Document<'_>) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "kneepoint " (it.tool_version) };
                meta http-equiv="Content-Security-Policy" content=(policy(it.script));
                title { (it.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (it.header)
                    @if !it.sections.is_empty() {
                        nav aria-label="Sections" {
                            @for section in it.sections { a href={ "#" (section.id) } { (section.title) } " " }
                        }
                    }
                    @for section in it.sections { (section.markup()) }
                    footer { p { (it.footer) } }
                }
                @if let Some(script) = it.script { script { (PreEscaped(script)) } }
            }
        }
    };
    page.into_string()
}

/// One part of the page.
struct Section {
    id: &'static str,
    title: &'static str,
    body: Markup,
}

impl Section {
    fn markup(&self) -> Markup {
        html! {
            section id=(self.id) aria-labelledby={ (self.id) "-title" } {
                h2 id={ (self.id) "-title" } { (self.title) }
                (self.body)
            }
        }
    }
}

/// The class that gives a configuration its colour: `base` or `best`.
fn tone(arm: &str) -> &'static str {
    if arm == "base" { "base" } else { "best" }
}

/// Whether there is anything to compare the first configuration with.
fn is_compared(run: &Run) -> bool {
    run.limit("best").is_some() || Pair::of_best(run).is_some()
}

/// What a configuration is called: `before` and `after` where there are two, else `as it is`; or its own name.
fn arm_name<'a>(run: &Run, arm: &'a str) -> &'a str {
    match arm {
        "base" if !is_compared(run) => "as it is",
        "base" => "before",
        "best" => "after",
        other => other,
    }
}
