//! For an issue or a comment.

use super::{Report, terminal};
use crate::rule::CheckFinding;
use kneepoint_model::redact::shown::{markdown_code, markdown_fence, markdown_text};
use std::fmt::Write as _;

pub(super) fn render(report: &Report) -> String {
    let mut text = String::from("## kneepoint check\n\n");
    text.push_str(&terminal::summary(report));
    text.push('\n');
    text.push_str(&markdown_fence("text", &report.picture.join("\n")));
    if !report.findings.is_empty() {
        text.push_str("\n| | code | what | where | seen |\n|---|---|---|---|---|\n");
        report
            .findings
            .iter()
            .for_each(|finding| text.push_str(&row(finding)));
        text.push_str("\n### What to do\n");
        report
            .findings
            .iter()
            .for_each(|finding| text.push_str(&remedy(finding)));
    }
    if !report.blind.is_empty() {
        text.push_str("\n### Could not see\n\n");
        for blind in &report.blind {
            let _ = writeln!(
                text,
                "- {}: {}; {}",
                markdown_code(&blind.what),
                markdown_text(&blind.why),
                markdown_text(&blind.remedy)
            );
        }
    }
    text
}

fn row(finding: &CheckFinding) -> String {
    let seen: Vec<String> = finding
        .seen
        .iter()
        .map(|seen| match seen.source.as_str() {
            "" => markdown_text(&seen.what),
            source => format!("{} ({})", markdown_text(&seen.what), markdown_code(source)),
        })
        .collect();
    format!(
        "| {} | {} | {} | {} | {} |\n",
        finding.severity.name(),
        finding.code,
        markdown_text(&finding.title),
        markdown_text(&finding.places()),
        seen.join("<br>")
    )
}

fn remedy(finding: &CheckFinding) -> String {
    let mut text = format!(
        "\n**{} {}.** Costs: {}. Does not matter if: {}\n\n{}\n",
        finding.code,
        markdown_text(&finding.title),
        markdown_text(&finding.cost),
        markdown_text(&finding.unless),
        markdown_text(&finding.fix.text)
    );
    let written: Vec<&str> = finding.fix.written().collect();
    if !written.is_empty() {
        text.push('\n');
        text.push_str(&markdown_fence("ini", &written.join("\n")));
    }
    let _ = match (finding.fix.apply.as_str(), finding.fix.is_command()) {
        ("", _) => Ok(()),
        (command, true) => writeln!(text, "\nThen: {}", markdown_code(command)),
        (sentence, false) => writeln!(text, "\nThen: {}", markdown_text(sentence)),
    };
    text
}
