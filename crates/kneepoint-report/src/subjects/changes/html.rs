//! Changes that were decided on: a forest plot of each A/B with its leave-one-out.

use crate::html::axis::Axis;
use crate::html::{Section, broken_at_dots, effect, spread};
use crate::words;
use kneepoint_model::run::{Decision, Standing};
use kneepoint_model::{Effect, Run};
use maud::{Markup, html};

/// The decisions; `None` when nothing was tried.
pub(crate) fn section(run: &Run) -> Option<Section> {
    if run.decisions.is_empty() && run.proof.is_none() {
        return None;
    }
    let ratios = run.decisions.iter().flat_map(|decision| {
        let left_out = decision.leave_one_out.as_ref();
        [Some(&decision.effect), left_out]
            .into_iter()
            .flatten()
            .filter_map(|effect| effect.ratio.as_ref())
    });
    let together = [&run.restarted, &run.proof].into_iter().flatten();
    let axis = effect::axis(ratios.chain(together.filter_map(|effect| effect.ratio.as_ref())));
    Some(Section {
        id: "changes",
        title: "What was tried and what it did",
        body: html! {
            div class="scroll" {
                table class="effects forest" {
                    caption {
                        "Factor with the change over without it; the vertical line, 1×, is no effect. Dot: the A/B that \
                         decided. Ring: leave-one-out, the final configuration with it over without it. Bars are \
                         95 % intervals."
                    }
                    thead { tr {
                        th scope="col" { "change" }
                        th scope="col" class="bar" { (spread::scale(&axis, 6, effect::tick)) }
                        th scope="col" class="num" { "A/B" }
                        th scope="col" class="num" { "left out" }
                    } }
                    tbody {
                        @for decision in &run.decisions { (row(run, &axis, decision)) }
                        @if let Some(restarted) = &run.restarted { (last_row(&axis, "restart", restarted)) }
                        @if let Some(proof) = &run.proof { (last_row(&axis, "all together", proof)) }
                    }
                }
            }
            @if let Some(told) = super::quantities(run) { p class="caption" { (told) } }
            (reasons(run))
            @for (decision, finding) in super::recommended(run) {
                p { (super::RECOMMENDED) ": " code { (decision.effect.change) }
                    " (" (decision.code) ", " (finding.title) "). " (super::untold(decision)) }
            }
        },
    })
}

fn row(run: &Run, axis: &Axis, decision: &Decision) -> Markup {
    let left_out = decision.leave_one_out.as_ref();
    let standing = decision.standing();
    // The class is one word.
    let class = match standing {
        Standing::NotTried => Standing::Undecided.name(),
        other => other.name(),
    };
    html! {
        tr class=(class) {
            td {
                span class={ "verdict " (class) } { (standing.name()) }
                @if super::is_uncertain(run, decision) { ", " (super::NOT_CERTAIN) }
                " " span class="code" { (decision.code) }
                br; code { (broken_at_dots(&decision.effect.change)) }
                @if standing != Standing::NotTried { br; small { (decision.effect.quantity) } }
            }
            td class="bar" { (picture(axis, &decision.effect, left_out, if decision.kept { "best" } else { "quiet" })) }
            td class="num" { @if standing != Standing::NotTried { (effect::factor(&decision.effect)) } }
            td class="num" {
                @match left_out {
                    Some(left_out) => (effect::factor(left_out)),
                    None => span class="side" { (super::not_left_out(run, decision)) },
                }
            }
        }
    }
}

/// What is said of the changes together.
fn last_row(axis: &Axis, what: &str, effect: &Effect) -> Markup {
    html! {
        tr class="proof" {
            td { span class="verdict" { (what) } br; (effect.change) ", " (effect.quantity) }
            td class="bar" { (picture(axis, effect, None, "ink")) }
            td class="num" { (effect::factor(effect)) }
            td {}
        }
    }
}

fn picture(axis: &Axis, effect: &Effect, left_out: Option<&Effect>, class: &str) -> Markup {
    let title = match left_out {
        Some(left_out) => format!(
            "A/B {}, left out {}",
            words::factor(effect),
            words::factor(left_out)
        ),
        None => format!("A/B {}", words::factor(effect)),
    };
    let marks = html! {
        @if let Some(ratio) = &effect.ratio { (spread::interval(axis, ratio, class, 14.0, false)) }
        @if let Some(ratio) = left_out.and_then(|it| it.ratio.as_ref()) {
            (spread::interval(axis, ratio, class, 30.0, true))
        }
    };
    spread::row(axis, 44.0, Some(1.0), &title, &marks)
}

fn reasons(run: &Run) -> Markup {
    html! {
        dl class="reasons" {
            @for decision in &run.decisions {
                dt { (decision.code) }
                dd {
                    (decision.reason)
                    @if decision.standing() != Standing::NotTried {
                        @if !decision.reason.is_empty() { br; }
                        small { (decision.effect.quantity) ": " (effect::basis(&decision.effect)) }
                    }
                    @if let Some(left_out) = &decision.leave_one_out {
                        br; small { "left out, " (left_out.quantity) ": " (effect::basis(left_out)) }
                    }
                }
            }
            @if let Some(restarted) = &run.restarted {
                dt { "Restart" }
                dd {
                    "The stack after the changes, freshly started, against the same as tuning left it standing. "
                    @if let Some(kept) = run.kept_gain() { (words::kept_gain(&kept)) ". " }
                    small { (effect::basis(restarted)) }
                }
            }
            @if let Some(proof) = &run.proof {
                dt { "Proof" } dd { "Before against after, both freshly started. " small { (effect::basis(proof)) } }
            }
        }
    }
}
