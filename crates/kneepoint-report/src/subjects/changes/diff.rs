//! The configuration diff from base to best.

use crate::html::Section;
use crate::markdown::{fenced, html_text, line, section as heading};
use kneepoint_model::Run;
use maud::{Markup, html};

/// The files that changed; `None` when none did.
pub(crate) fn section(run: &Run) -> Option<Section> {
    let changed: Vec<_> = run
        .diff
        .iter()
        .filter(|file| !file.diff.trim().is_empty())
        .collect();
    if changed.is_empty() {
        return None;
    }
    Some(Section {
        id: "diff",
        title: "The configuration, before and after",
        body: html! {
            p class="caption" { "Unified diffs from “before” to “after”: those of files can be applied to the files that were measured; ••• stands for what is hidden. Statements and commands are run, not applied." }
            @for file in changed {
                h3 class="file" { (file.file) }
                pre class="diff scroll" tabindex="0" aria-label={ "Diff of " (file.file) } {
                    @for line in file.diff.lines() { (coloured(line)) }
                }
            }
        },
    })
}

fn coloured(line: &str) -> Markup {
    let class = match line {
        line if line.starts_with("+++") || line.starts_with("---") => "name",
        line if line.starts_with("@@") => "place",
        line if line.starts_with('+') => "added",
        line if line.starts_with('-') => "removed",
        _ => "context",
    };
    html! { span class=(class) { (line) "\n" } }
}

/// The files that changed, folded.
pub(crate) fn markdown(out: &mut String, run: &Run) {
    if run.diff.is_empty() {
        return;
    }
    heading(out, "Configuration diff");
    for file in &run.diff {
        line(
            out,
            &format!("<details><summary>{}</summary>\n", html_text(&file.file)),
        );
        fenced(out, "diff", &file.diff);
        line(out, "\n</details>\n");
    }
}
