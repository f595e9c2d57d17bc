//! Findings: what was seen, what would refute it, what to do, what that did.

use super::Told;
use crate::html::{Section, effect};
use crate::words;
use kneepoint_model::{Confidence, Run, Setting};
use maud::{Markup, html};

/// Every finding, surest statement of each; `None` when nothing was diagnosed.
pub(crate) fn section(run: &Run) -> Option<Section> {
    let all = super::told(run);
    if all.is_empty() && run.observations.is_empty() {
        return None;
    }
    let (noted, told): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|told| told.finding.confidence == Confidence::Noted);
    Some(Section {
        id: "findings",
        title: "Findings",
        body: html! {
            @if told.is_empty() {
                p { "No misconfiguration was found. The waterfall shows where the time goes." }
            } @else {
                p class="caption" {
                    (super::ORDER) " " em { "Suspected" } ": the evidence fits. " em { "Confirmed" }
                    ": an intervention moved the limit as predicted. " em { "Proved" } ": the remedy won an A/B."
                }
            }
            @for told in &told { (article(run, told)) }
            @if !noted.is_empty() {
                h3 { "Noted on the side" }
                p class="caption" { "True, but not what limits." }
                @for told in &noted { (article(run, told)) }
            }
        },
    })
}

fn article(run: &Run, told: &Told<'_>) -> Markup {
    let finding = told.finding;
    let doubt = super::doubt(finding);
    html! {
        article class="finding" {
            h3 {
                span class="code" { (finding.code) } " " (finding.title)
            }
            p class="side" {
                span class={ "confidence " (finding.confidence.name()) } { (finding.confidence.name()) }
                " · " (finding.layer)
                @if told.times > 1 { " · found " (told.times) " times" }
                @if let Some(decision) = told.decision { " · remedy " (decision.standing().name()) }
            }
            dl {
                @if !finding.seen.is_empty() {
                    dt { "Seen" }
                    dd { ul { @for seen in &finding.seen {
                        li { (seen.what) @if !seen.conditions.is_empty() { span class="side" { " " (seen.conditions) } } }
                    } } }
                }
                @if !finding.refuted_by.is_empty() { dt { (doubt.0) } dd { (doubt.1) } }
                @if let Some(remedy) = &finding.remedy {
                    dt { "Remedy" }
                    dd { (remedy.text) (settings(run, &remedy.settings)) }
                }
                @if let Some(gain) = super::expected_gain(finding) { dt { "Expected gain" } dd { (gain) } }
                @if !finding.effects.is_empty() { dt { "Measured" } dd { (effect::table(&finding.effects)) } }
                @if !finding.source.is_empty() { dt { "Source" } dd class="side" { (finding.source) } }
            }
        }
    }
}

/// Settings as they are written, with what they were.
fn settings(run: &Run, settings: &[Setting]) -> Markup {
    let before = |setting: &Setting| {
        let base = run.base.as_ref()?;
        base.setting(setting.key.layer, &setting.key.name)
            .map(str::to_owned)
    };
    html! {
        @if !settings.is_empty() {
            ul class="settings" {
                @for setting in settings {
                    li {
                        code { (words::owners_setting(setting)) }
                        @if let Some(old) = before(setting) { span class="side" { " was " (old) } }
                    }
                }
            }
        }
    }
}
