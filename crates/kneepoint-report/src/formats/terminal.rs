//! The terminal summary: plain text of at most 100 columns, the verdict first.

mod account;
mod changes;
mod contest;
mod replay;
mod table;

use crate::summary::{self, Told};
use crate::text::{Page, Style};
use crate::words;
use crate::{Format, Options, Outcome, Summary, summarise};
use crate::{capacity, gate};
use kneepoint_model::{Confidence, Effect, GateVerdict, Run};

/// For whoever ran the command.
pub(super) static FORMAT: Format = Format {
    name: "terminal",
    extension: "txt",
    about: "a summary of at most 100 columns",
    render,
};

const COLUMNS: usize = 100;
const LABEL: usize = 11;

fn render(run: &Run, options: &Options) -> String {
    let summary = summarise(run);
    let mut page = Page::new(COLUMNS, options.styles);
    head(&mut page, run, &summary);
    gate(&mut page, run);
    replay::replay(&mut page, run);
    plan(&mut page, run);
    contest::contest(&mut page, run);
    account::account(&mut page, run);
    findings(&mut page, run);
    changes::decisions(&mut page, run);
    changes::recommended(&mut page, run);
    sentences(&mut page, "Not in this run", &summary.missing, Style::Alert);
    sentences(&mut page, "Doubts", &summary.doubts, Style::Alert);
    results(&mut page, options);
    page.finish()
}

fn head(page: &mut Page, run: &Run, summary: &Summary) {
    let when = [
        words::moment(&run.started_at),
        if run.elapsed_s > 0.0 {
            words::duration(run.elapsed_s)
        } else {
            String::new()
        },
        words::counted(summary.trials as u64, "step", "steps"),
        words::counted(summary.requests, "request", "requests"),
    ];
    let when: Vec<_> = when.into_iter().filter(|part| !part.is_empty()).collect();
    let title = format!("Kneepoint {} {}", run.command, summary.subject);
    page.columns(&[], &title, Some(Style::Strong));
    page.columns(&[], &when.join(", "), Some(Style::Faint));
    page.blank();
    let tone = match summary.outcome {
        Outcome::Improved => Style::Good,
        Outcome::Worse | Outcome::Nothing => Style::Alert,
        _ => Style::Strong,
    };
    page.columns(&[], &summary.verdict, Some(tone));
    if summary.base_hz.is_some() {
        page.columns(&[], "In parentheses: 95 % intervals.", Some(Style::Faint));
    }
    let mut fact =
        |label: &str, text: &str| page.columns(&[(label, LABEL, Some(Style::Faint))], text, None);
    if let Some(slo) = &summary.slo {
        fact("SLO", slo);
    }
    if let Some(confirmation) = &summary.confirmation {
        let configuration = match (confirmation.held, confirmation.arm == "best") {
            (_, true) => "at the new R*",
            (true, false) => "confirmed",
            (false, false) => "at R*",
        };
        fact(
            "Errors",
            &format!("{} ({configuration})", confirmation.sentence()),
        );
    }
    if let Some((_, limit)) = summary::limits(run).last() {
        let saturation = words::saturation(limit);
        fact(
            "Limit",
            &format!("{} is what the SLO binds on; {saturation}", limit.bound_by),
        );
        if let Some(machine) = summary::machine_speed(limit) {
            fact("Machine", &machine);
        }
    }
    for (nth, (whose, limit)) in summary::limits(run).into_iter().enumerate() {
        let basis = words::limit_basis(&run.limit_basis(limit));
        fact(
            if nth == 0 { "R* from" } else { "" },
            &format!("{whose}{basis}"),
        );
    }
    if let Some((code, title)) = &summary.bound_by {
        fact("Bound by", &format!("{code} {title}"));
    }
    if let Some(now) = &summary.bound_now {
        fact("Time", now);
    }
}

fn gate(page: &mut Page, run: &Run) {
    let Some(gate) = &run.gate else { return };
    page.heading(&format!("Gate: {}", gate::question(gate)));
    for claim in &gate.claims {
        let style = match claim.verdict {
            GateVerdict::Pass => Style::Good,
            GateVerdict::Fail | GateVerdict::Inconclusive => Style::Alert,
        };
        let rates = gate::rates(claim).map_or_else(String::new, |(before, now)| {
            format!(", from {before} to {now}")
        });
        page.columns(
            &[("", 2, None), (claim.verdict.name(), 14, Some(style))],
            &format!("{} {}{rates}", claim.quantity, gate::change(claim)),
            Some(Style::Strong),
        );
        page.columns(&[("", 16, None)], &claim.conditions, None);
    }
}

fn plan(page: &mut Page, run: &Run) {
    let Some(plan) = &run.capacity else { return };
    page.heading("Plan");
    for (label, text) in capacity::facts(plan) {
        page.columns(
            &[("", 2, None), (label, LABEL, Some(Style::Faint))],
            &text,
            None,
        );
    }
    page.blank();
    let mut row = |cells: [&str; 3], style| {
        let [rate, measured, predicted] = cells;
        let before = [("", 2, None), (rate, 12, style), (measured, 16, style)];
        page.columns(&before, predicted, style);
    };
    row(capacity::COLUMNS, Some(Style::Faint));
    for [rate, measured, predicted] in &capacity::rows(plan) {
        row([rate, measured, predicted], None);
    }
}

fn confidence_style(confidence: Confidence) -> Option<Style> {
    match confidence {
        Confidence::Noted => Some(Style::Faint),
        Confidence::Suspected => None,
        Confidence::Confirmed => Some(Style::Alert),
        Confidence::Proved => Some(Style::Good),
    }
}

fn findings(page: &mut Page, run: &Run) {
    let all = summary::told(run);
    if all.is_empty() {
        return;
    }
    page.heading("Findings");
    for told in &all {
        finding(page, told, run.tried(told.finding));
    }
}

fn finding(page: &mut Page, told: &Told<'_>, tried: Option<&Effect>) {
    let finding = told.finding;
    let confidence = finding.confidence;
    page.columns(
        &[
            ("", 2, None),
            (&finding.code, 9, Some(Style::Strong)),
            (confidence.name(), LABEL, confidence_style(confidence)),
        ],
        &format!("{} ({})", finding.title, finding.layer),
        Some(Style::Strong),
    );
    let mut detail = |label: &str, text: &str| {
        page.columns(
            &[("", 11, None), (label, LABEL, Some(Style::Faint))],
            text,
            None,
        );
    };
    for (i, seen) in finding.seen.iter().enumerate() {
        let conditions = match seen.conditions.as_str() {
            "" => String::new(),
            conditions => format!(" ({conditions})"),
        };
        detail(
            if i == 0 { "seen" } else { "" },
            &format!("{}{conditions}", seen.what),
        );
    }
    if let Some(remedy) = &finding.remedy {
        detail("remedy", &remedy.text);
        for setting in &remedy.settings {
            detail("", &setting.to_string());
        }
    }
    if let Some(effect) = tried {
        let factor = words::factor(effect);
        detail("measured", &format!("{factor}, {}", effect.verdict));
    }
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
