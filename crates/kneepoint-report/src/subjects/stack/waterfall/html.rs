//! The first picture: where a request's time goes at low load and at R*.

use crate::html::Section;
use crate::html::axis::Axis;
use crate::html::plot::percent;
use crate::subjects::stack::waterfall::{Pair, PairedPart, near, overload, phase};
use crate::subjects::{arm_name, tone, tuning_note};
use crate::words;
use kneepoint_model::Run;
use kneepoint_model::run::Waterfall;
use maud::{Markup, html};

/// The waterfalls before and after; `None` when there is none.
pub(crate) fn section(run: &Run) -> Option<Section> {
    let pairs: Vec<Pair<'_>> = [Pair::of_base(run), Pair::of_best(run)]
        .into_iter()
        .flatten()
        .collect();
    if pairs.is_empty() {
        return None;
    }
    let axis = Axis::from_zero(pairs.iter().map(Pair::longest_ms));
    let arms: Vec<&str> = pairs.iter().map(|pair| pair.arm).collect();
    Some(Section {
        id: "waterfall",
        title: "Where a request's time goes",
        body: html! {
            div class="pair" { @for pair in &pairs { (figure(run, pair, &axis)) } }
            p class="caption" {
                "Mean milliseconds per request, in the order a request meets the parts; each bar begins where the one \
                 before ends. Thin grey: low load; thick: near R*; bold: the largest part."
                @if pairs.len() > 1 { " Both pictures have the same time axis." }
                @if let Some(note) = tuning_note(run, &arms) { " " (note) }
            }
        },
    })
}

fn figure(run: &Run, pair: &Pair<'_>, axis: &Axis) -> Markup {
    let parts = pair.parts();
    let largest = parts
        .iter()
        .filter_map(|part| part.knee_ms.or(part.low_ms))
        .fold(0.0, f64::max);
    let (mut low_at, mut knee_at) = (0.0, 0.0);
    html! {
        figure class={ "waterfall " (tone(pair.arm)) } {
            table {
                caption { (words::sentence(arm_name(run, pair.arm))) }
                thead { tr {
                    th scope="col" { "part" }
                    th scope="col" class="bar" { span class="hidden" { "picture" } }
                    th scope="col" class="num" { "low load" (rate(run, pair.low)) }
                    th scope="col" class="num" { "near R*" (rate(run, pair.knee)) }
                } }
                tbody {
                    @for part in &parts {
                        tr class=(if part.knee_ms.or(part.low_ms) == Some(largest) { "largest" } else { "" }) {
                            th scope="row" { span class="layer" { (part.layer) } " " (part.what) }
                            td class="bar" { (bars(axis, part, &mut low_at, &mut knee_at)) }
                            td class="num" { (part.low_ms.map_or_else(String::new, number)) }
                            td class="num" { (part.knee_ms.map_or_else(String::new, number)) }
                        }
                    }
                }
                tfoot { tr {
                    th scope="row" { "response, ms" }
                    td class="bar" {}
                    td class="num" { (pair.low.map_or_else(String::new, |w| number(w.response_ms))) }
                    td class="num" { (pair.knee.map_or_else(String::new, |w| number(w.response_ms))) }
                } }
            }
            figcaption class="caption" { (caption(run, pair)) }
        }
    }
}

fn rate(run: &Run, waterfall: Option<&Waterfall>) -> Markup {
    html! { @if let Some(waterfall) = waterfall { br; small { (words::requests_in(run.unit(), waterfall.offered_hz)) } } }
}

fn number(ms: f64) -> String {
    match ms {
        v if !v.is_finite() => "unknown".into(),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn bars(axis: &Axis, part: &PairedPart, low_at: &mut f64, knee_at: &mut f64) -> Markup {
    let title = format!(
        "{} {}: {} at low load, {} near R*",
        part.layer,
        part.what,
        part.low_ms
            .map_or_else(|| "not measured".into(), |ms| words::ms(Some(ms))),
        part.knee_ms
            .map_or_else(|| "not measured".into(), |ms| words::ms(Some(ms))),
    );
    html! {
        svg role="img" aria-label=(title) width="100%" height="22" {
            title { (title) }
            (bar(axis, low_at, part.low_ms, "low", 2, 5))
            (bar(axis, knee_at, part.knee_ms, "knee", 9, 11))
        }
    }
}

/// A bar that begins where the one before it ended.
fn bar(axis: &Axis, at: &mut f64, ms: Option<f64>, class: &str, y: u32, height: u32) -> Markup {
    let Some(ms) = ms.filter(|ms| ms.is_finite()) else {
        return html! {};
    };
    let (from, to) = (axis.place(*at) * 100.0, axis.place(*at + ms) * 100.0);
    *at += ms;
    // A part too short to see would look like one that is not there.
    let width = (to - from).max(0.6);
    html! { rect class=(class) x=(percent(from.min(99.4))) y=(y) width=(percent(width)) height=(height) {} }
}

fn caption(run: &Run, pair: &Pair<'_>) -> String {
    let steps = ["low", "knee"].iter().filter_map(|name| {
        let seen = phase(run, pair.arm, name)?;
        let trial = run.trials.iter().find(|trial| trial.id == seen.trial)?;
        Some(format!(
            "{} in {}",
            words::counted(trial.load.arrivals, "request", "requests"),
            words::duration(trial.load.window_s)
        ))
    });
    let steps: Vec<_> = steps.collect();
    let over = match steps.is_empty() {
        true => String::new(),
        false => format!("Measured on {}. ", words::listed(&steps)),
    };
    let little = match pair.knee.or(pair.low).map(|w| w.little.as_str()) {
        Some(text) if !text.is_empty() => format!(
            "Check by Little's law (requests inside are rate times time): {}.",
            text.trim_end_matches('.')
        ),
        _ => String::new(),
    };
    let overload = near(run, pair.arm).and_then(|seen| overload(run, seen));
    let overload = overload.map_or_else(String::new, |said| format!(" {said}"));
    format!("{over}{little}{overload}")
}
