//! The stack as a picture: tiers joined in a chain, the binding layer marked, key numbers beside.

use crate::html::Section;
use crate::subjects::stack::waterfall::{Pair, phase};
use crate::subjects::stack::{self, TierNumbers};
use crate::subjects::{arm_name, is_compared};
use crate::words;
use kneepoint_model::{Layer, Run, Tier, units};
use maud::{Markup, html};

/// The chain; `None` when the stack is not known.
pub(crate) fn section(run: &Run) -> Option<Section> {
    let stack = run.base.as_ref().or(run.best.as_ref())?;
    if stack.tiers.is_empty() {
        return None;
    }
    let behind = |tier: &&Tier| matches!(tier.layer, Layer::Cache | Layer::Db);
    let (back, front): (Vec<&Tier>, Vec<&Tier>) = stack.tiers.iter().partition(behind);
    let binds = stack::binding_before(run).is_some();
    Some(Section {
        id: "stack",
        title: if binds {
            "The stack and what binds it"
        } else {
            "The stack"
        },
        body: html! {
            figure {
                ol class="chain" {
                    @for tier in &front { li { (tier_box(run, tier)) } }
                    @if !back.is_empty() {
                        li { div class="fork" { @for tier in &back { (tier_box(run, tier)) } } }
                    }
                }
                figcaption class="caption" { (caption(run)) }
            }
            (elsewhere(run))
        },
    })
}

fn last_arm(run: &Run) -> Option<&str> {
    Pair::of_best(run).map(|pair| pair.arm)
}

fn tier_box(run: &Run, tier: &Tier) -> Markup {
    let before = stack::numbers(run, tier.layer, "base");
    let after = last_arm(run).map(|arm| stack::numbers(run, tier.layer, arm));
    let holds = |layer: Option<Layer>| match layer {
        Some(Layer::App) => tier.layer == Layer::Php,
        layer => layer == Some(tier.layer),
    };
    let binds_before = holds(stack::binding_before(run));
    let binds_after = holds(stack::binding_after(run));
    html! {
        div class=(if binds_before { "tier binds" } else { "tier" }) {
            p class="name" { strong { (tier.layer) } " " span class="side" { (tier.server) " " (tier.version) } }
            @if binds_before { p class="mark" { "◆ " (mark(run)) } }
            @if binds_after { p class="mark best" { "◆ most time after" } }
            (numbers(tier, &before, after.as_ref()))
        }
    }
}

/// What the first configuration's mark says: a finding binds, a waterfall only shows where the time goes.
fn mark(run: &Run) -> &'static str {
    match (run.headline().is_some(), is_compared(run)) {
        (true, true) => "binds at first",
        (true, false) => "binds",
        (false, true) => "most time at first",
        (false, false) => "most time near R*",
    }
}

type Row = (&'static str, String, Option<String>);

fn numbers(tier: &Tier, before: &TierNumbers, after: Option<&TierNumbers>) -> Markup {
    let row = |name, text: fn(&TierNumbers) -> Option<String>| -> Option<Row> {
        let (old, new) = (text(before), after.and_then(text));
        (old.is_some() || new.is_some()).then(|| (name, old.unwrap_or_default(), new))
    };
    let rows: Vec<Row> = [
        row("CPU", |n| n.cpu_share.map(words::share)),
        row("queue", |n| n.queue.map(|(mean, limit)| of(mean, limit))),
        row("workers", |n| {
            n.workers
                .map(|(busy, most)| of(busy, most.map(|m| m as f64)))
        }),
    ]
    .into_iter()
    .flatten()
    .collect();
    let compared = rows.iter().any(|row| row.2.is_some());
    html! {
        @if !rows.is_empty() {
            table {
                thead class=(if compared { "" } else { "hidden" }) { tr {
                    th scope="col" { span class="hidden" { "number" } }
                    th scope="col" class="num base" { "before" }
                    @if compared { th scope="col" class="num best" { "after" } }
                } }
                tbody {
                    @for (name, old, new) in &rows {
                        tr {
                            th scope="row" { (name) }
                            td class="num" { (old) }
                            @if compared { td class="num" { (new.as_deref().unwrap_or("")) } }
                        }
                    }
                }
            }
        }
        p class="side host" { (host(tier)) }
    }
}

/// `6.2 of 511`, which a narrow box breaks before `of`: beside another it would stand out of its box.
fn of(value: f64, limit: Option<f64>) -> String {
    let value = if value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    };
    match limit.filter(|limit| limit.is_finite()) {
        Some(limit) => format!("{value} of\u{a0}{}", words::count(limit as u64)),
        None => value,
    }
}

fn host(tier: &Tier) -> String {
    let mut parts = Vec::new();
    if tier.cpus > 0.0 {
        let cores = if tier.cpus == 1.0 { "core" } else { "cores" };
        parts.push(format!("{} {cores}", tier.cpus));
    }
    if tier.memory_bytes > 0 {
        parts.push(units::format_bytes(tier.memory_bytes));
    }
    parts.join(", ")
}

fn caption(run: &Run) -> String {
    let loads = ["base", last_arm(run).unwrap_or("base")].map(|arm| {
        let seen = phase(run, arm, "knee")?;
        let trial = run.trials.iter().find(|trial| trial.id == seen.trial)?;
        Some(format!(
            "{} over {}",
            words::offered(&trial.load),
            words::duration(trial.load.window_s)
        ))
    });
    let measured = match (&loads[0], &loads[1], last_arm(run)) {
        (Some(before), Some(after), Some(last)) => {
            let name = arm_name(run, last);
            format!(" Measured at {before} before, at {after} {name}.")
        }
        (Some(before), ..) => format!(" Measured at {before}."),
        _ => String::new(),
    };
    format!(
        "Tiers in the order a request meets them. CPU is the share of the cores the tier may use; queue and workers \
         are means of those waiting and busy, of the most there can be.{measured}"
    )
}

/// What binds outside the boxes.
fn elsewhere(run: &Run) -> Markup {
    html! {
        @if stack::binding_before(run) == Some(Layer::Generator) {
            p { "◆ What bound at first was the load generator or its machine, not the stack." }
        }
    }
}
