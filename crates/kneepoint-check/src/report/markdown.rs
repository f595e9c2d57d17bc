//! For an issue or a comment.

use super::{Report, terminal};
use crate::rule::CheckFinding;
use std::fmt::Write as _;

pub(super) fn render(report: &Report) -> String {
    let mut text = String::from("## kneepoint check\n\n");
    text.push_str(&terminal::summary(report));
    let _ = write!(text, "\n```text\n{}\n```\n", report.picture.join("\n"));
    if !report.findings.is_empty() {
        text.push_str("\n| | code | what | where | seen |\n|---|---|---|---|---|\n");
        for finding in &report.findings {
            let seen: Vec<String> = finding
                .seen
                .iter()
                .map(|seen| match seen.source.as_str() {
                    "" => cell(&seen.what),
                    source => format!("{} (`{}`)", cell(&seen.what), cell(source)),
                })
                .collect();
            let place = cell(&finding.places());
            let _ = writeln!(
                text,
                "| {} | {} | {} | {place} | {} |",
                finding.severity.name(),
                finding.code,
                cell(&finding.title),
                seen.join("<br>")
            );
        }
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
                "- `{}`: {}; {}",
                cell(&blind.what),
                cell(&blind.why),
                cell(&blind.remedy)
            );
        }
    }
    text
}

fn remedy(finding: &CheckFinding) -> String {
    let mut text = format!(
        "\n**{} {}.** Costs: {}. Does not matter if: {}\n\n{}\n",
        finding.code, finding.title, finding.cost, finding.unless, finding.fix.text
    );
    let written: Vec<&str> = finding.fix.written().collect();
    if !written.is_empty() {
        let _ = write!(text, "\n```ini\n{}\n```\n", written.join("\n"));
    }
    let _ = match (finding.fix.apply.as_str(), finding.fix.is_command()) {
        ("", _) => Ok(()),
        (command, true) => writeln!(text, "\nThen: `{command}`"),
        (sentence, false) => writeln!(text, "\nThen: {sentence}"),
    };
    text
}

/// Text within a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
        .replace(['\n', '\r'], " ")
        .replace('<', "&lt;")
}
