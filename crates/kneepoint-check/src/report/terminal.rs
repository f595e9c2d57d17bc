//! For a terminal: worst first, on one screen.

use super::Report;
use crate::rule::{CheckFinding, Severity};
use std::fmt::Write as _;

/// Findings that are told in full where not all are.
const FULL: usize = 5;

pub(super) fn render(report: &Report, all: bool) -> String {
    let mut text = String::new();
    for line in &report.picture {
        let _ = writeln!(text, "  {line}");
    }
    if report.is_blind() {
        text.push_str(match report.blind.is_empty() {
            true => "No server program was found that could be looked at.\n",
            false => "Nothing was looked at.\n",
        });
    } else {
        text.push('\n');
        text.push_str(&summary(report));
    }
    for (index, finding) in report.findings.iter().enumerate() {
        if all || (index < FULL && finding.severity != Severity::Note) {
            text.push_str(&in_full(finding));
        } else {
            if index == FULL
                || (index < FULL && index == report.findings.len() - report.count(Severity::Note))
            {
                text.push('\n');
            }
            let source = finding.seen.first().map_or("", |seen| seen.source.as_str());
            let _ = writeln!(
                text,
                "{:<7} {:<7} {} ({})",
                finding.severity.name(),
                finding.code,
                finding.title,
                place(finding, source)
            );
        }
    }
    if !report.blind.is_empty() {
        text.push_str("\nCould not see\n");
        for blind in &report.blind {
            let _ = writeln!(
                text,
                "  {}: {}. {}",
                blind.what,
                blind.why,
                sentence(&blind.remedy)
            );
        }
    }
    if !all && report.findings.len() > 1 {
        text.push_str("\n--all tells every finding in full; kneepoint explain CODE tells what one is about.\n");
    }
    text
}

fn place(finding: &CheckFinding, source: &str) -> String {
    /// More places than that do not fit a line.
    const SHOWN: usize = 3;
    let places = match finding.also.len() {
        count if count > SHOWN => format!("{} and {count} more", finding.place),
        _ => finding.places(),
    };
    match source {
        "" => places,
        source => format!("{places}, {source}"),
    }
}

pub(super) fn summary(report: &Report) -> String {
    let count = |severity: Severity| match report.count(severity) {
        1 => format!("1 {}", severity.name()),
        count => format!("{count} {}s", severity.name()),
    };
    let read = match report.is_partial() {
        true => "what could be read of ",
        false => "",
    };
    let services = match report.services.len() {
        1 => format!("{read}1 service"),
        count => format!("{read}{count} services"),
    };
    let found = match report.findings.is_empty() {
        true => "Nothing found".to_owned(),
        false => [Severity::Problem, Severity::Risk, Severity::Note]
            .map(count)
            .join(", "),
    };
    format!(
        "{found} in {services}, looked at in {:.2} s without a request, a write or a signal.\n",
        report.took_s
    )
}

fn in_full(finding: &CheckFinding) -> String {
    let mut text = format!(
        "\n{:<7} {}  {}\n",
        finding.severity.name(),
        finding.code,
        finding.title
    );
    let mut line = |name: &str, words: &str| {
        if !words.is_empty() {
            let _ = writeln!(text, "  {name:<6} {words}");
        }
    };
    line("where", &finding.place);
    line("also", &finding.also.join("; "));
    for seen in &finding.seen {
        let source = if seen.source.is_empty() {
            String::new()
        } else {
            format!("  ({})", seen.source)
        };
        line("seen", &format!("{}{source}", seen.what));
    }
    line("costs", &finding.cost);
    line("unless", &finding.unless);
    line("do", &finding.fix.text);
    for written in finding.fix.written() {
        line("", &format!("    {written}"));
    }
    line("then", &finding.fix.apply);
    text
}

/// With a capital and a full stop.
fn sentence(words: &str) -> String {
    let mut chars = words.chars();
    let first = chars.next().map(|c| c.to_uppercase().collect::<String>());
    format!(
        "{}{}.",
        first.unwrap_or_default(),
        chars.as_str().trim_end_matches('.')
    )
}
