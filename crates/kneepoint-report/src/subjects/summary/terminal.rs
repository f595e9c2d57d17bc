//! The head of the terminal summary: the verdict, and what its numbers rest on.

use super::{RunOutcome, Summary};
use crate::subjects::limits;
use crate::text::{LABEL, Page, Style};
use crate::words;
use kneepoint_model::Run;

/// The verdict first, then facts with their labels.
pub(crate) fn head(page: &mut Page, run: &Run, summary: &Summary) {
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
        RunOutcome::Improved => Style::Good,
        RunOutcome::Worse | RunOutcome::Nothing => Style::Alert,
        _ => Style::Strong,
    };
    page.columns(&[], &summary.verdict, Some(tone));
    if summary.base_hz.is_some_and(|base| base.estimate > 0.0) {
        page.columns(&[], "In parentheses: 95 % intervals.", Some(Style::Faint));
    }
    let mut fact =
        |label: &str, text: &str| page.columns(&[(label, LABEL, Some(Style::Faint))], text, None);
    if let Some(slo) = &summary.slo {
        fact("SLO", slo);
    }
    if let Some(confirmed) = summary.confirmed() {
        fact("Errors", &confirmed);
    }
    if let Some((_, limit)) = limits::limits(run).last() {
        fact("Limit", &limits::breaks_first(run, limit));
        if let Some(machine) = limits::machine_speed(limit) {
            fact("Machine", &machine);
        }
    }
    for (nth, (whose, limit)) in limits::limits(run).into_iter().enumerate() {
        let basis = words::limit_basis(&run.limit_basis(limit));
        fact(
            if nth == 0 { "R* from" } else { "" },
            &format!("{whose}{basis}"),
        );
    }
    if let Some((code, title)) = &summary.bound_by {
        // What is fixed binds no more.
        let when = crate::subjects::is_compared(run).then_some(", before the changes");
        let when = when.unwrap_or_default();
        fact("Limited by", &format!("{code} {title}{when}"));
    }
    if let Some(now) = &summary.limited_now {
        fact("Limit now", now);
    }
    if let Some(now) = &summary.bound_now {
        fact("Time", now);
    }
    if let Some(next) = super::next(run) {
        fact("Next", &next);
    }
}
