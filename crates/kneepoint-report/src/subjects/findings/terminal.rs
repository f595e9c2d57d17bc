//! Findings: what was seen, the remedy, and what that did.

use super::{LEGEND, Told, told};
use crate::text::{LABEL, Page, Style};
use crate::words;
use kneepoint_model::{Confidence, Effect, Run};

fn confidence_style(confidence: Confidence) -> Option<Style> {
    match confidence {
        Confidence::Noted => Some(Style::Faint),
        Confidence::Suspected => None,
        Confidence::Confirmed => Some(Style::Alert),
        Confidence::Proved => Some(Style::Good),
    }
}

/// Each cause once.
pub(crate) fn findings(page: &mut Page, run: &Run) {
    let all = told(run);
    if all.is_empty() {
        return;
    }
    page.heading("Findings");
    page.columns(&[("", 2, None)], LEGEND, Some(Style::Faint));
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
            detail("", &words::owners_setting(setting));
        }
    }
    if let Some(effect) = tried {
        let factor = words::factor(effect);
        detail("measured", &format!("{factor}, {}", effect.verdict));
    }
}
