//! The configuration diff from base to best.

use crate::html::Section;
use crate::markdown::{escaped, fenced, html_text, line, section as heading};
use kneepoint_model::Run;
use kneepoint_model::run::FileDiff;
use maud::{Markup, html};

/// The files that changed.
fn changed(run: &Run) -> Vec<&FileDiff> {
    let files = run.diff.iter();
    files.filter(|file| !file.diff.trim().is_empty()).collect()
}

/// What the diffs are of. `/LAB` is what the experiments write in the place of the directories that only the lab has.
fn caption(changed: &[&FileDiff]) -> String {
    let lab = match changed.iter().any(|file| file.diff.contains("/LAB/")) {
        true => " /LAB stands for the lab's directories.",
        false => "",
    };
    format!(
        "Unified diffs from “before” to “after”. The files were copies in a lab, which is removed after the run: make the same \
         changes in your own.{lab} ••• stands for what is hidden. Statements and commands are run, not written."
    )
}

/// The files that changed; `None` when none did.
pub(crate) fn section(run: &Run) -> Option<Section> {
    let changed = changed(run);
    if changed.is_empty() {
        return None;
    }
    Some(Section {
        id: "diff",
        title: "The configuration, before and after",
        body: html! {
            p class="caption" { (caption(&changed)) }
            @for file in &changed {
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
    let changed = changed(run);
    if changed.is_empty() {
        return;
    }
    heading(out, "Configuration diff");
    line(out, &format!("{}\n", escaped(&caption(&changed))));
    for file in changed {
        line(
            out,
            &format!("<details><summary>{}</summary>\n", html_text(&file.file)),
        );
        fenced(out, "diff", &file.diff);
        line(out, "\n</details>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_labs_directories_is_explained_where_it_is_named() {
        let file = |diff: &str| FileDiff {
            file: "web: nginx.conf".to_owned(),
            diff: diff.to_owned(),
        };
        let mut run = Run {
            diff: vec![file("+keepalive 32;\n"), file("")],
            ..Run::default()
        };
        assert!(!caption(&changed(&run)).contains("LAB"));
        let mut out = String::new();
        markdown(&mut out, &run);
        assert_eq!(out.matches("<details>").count(), 1, "{out}");
        run.diff.push(file(" root /LAB/php/app;\n+keepalive 32;\n"));
        assert!(caption(&changed(&run)).contains("/LAB stands for"));
    }
}
