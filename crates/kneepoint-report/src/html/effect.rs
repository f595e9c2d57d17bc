//! Effects: a factor with its interval, on an axis where 1 is no effect.

use super::axis::Axis;
use super::spread;
use crate::words;
use kneepoint_model::{Effect, Interval};
use maud::{Markup, html};

/// The least and the most an axis of factors shows; what lies beyond is drawn at the end.
const LEAST: f64 = 0.05;
const MOST: f64 = 20.0;

/// An axis that holds every factor and 1.
pub(crate) fn axis<'a>(ratios: impl IntoIterator<Item = &'a Interval>) -> Axis {
    let ends = ratios.into_iter().flat_map(|ratio| [ratio.low, ratio.high]);
    let within = ends.filter(|v| v.is_finite()).map(|v| v.clamp(LEAST, MOST));
    Axis::log(within.chain([0.95, 1.05]), 1.04)
}

/// One factor on an axis.
pub(crate) fn bar(axis: &Axis, effect: &Effect) -> Markup {
    let title = format!("factor {}, 1 is no effect", words::factor(effect));
    let mark = html! {
        @if let Some(ratio) = &effect.ratio { (spread::interval(axis, ratio, "ink", 22.0, false)) }
    };
    spread::row(axis, 44.0, Some(1.0), &title, &mark)
}

/// A factor as the scale writes it.
pub(crate) fn tick(value: f64) -> String {
    let text = format!("{value:.2}");
    format!("{}×", text.trim_end_matches('0').trim_end_matches('.'))
}

/// `14 pairs at 36/s, e-value 312 (20 decides), better`.
pub(crate) fn basis(effect: &Effect) -> String {
    let pairs = words::counted(u64::from(effect.pairs), "pair", "pairs");
    let conditions = match effect.conditions.as_str() {
        "" => String::new(),
        conditions => format!(" {conditions}"),
    };
    format!(
        "{pairs}{conditions}, e-value {} (20 decides), {}{}{}",
        e_value(effect.e_value),
        effect.verdict,
        words::unseen(effect),
        words::by_measure(effect),
    )
}

/// An e-value without figures nobody needs.
fn e_value(value: f64) -> String {
    match value {
        v if v >= 1000.0 => "over 1000".into(),
        v if !v.is_finite() => "unknown".into(),
        v if v >= 10.0 => format!("{v:.0}"),
        v => format!("{v:.2}"),
    }
}

/// A table of effects with one axis.
pub(crate) fn table(effects: &[Effect]) -> Markup {
    if effects.is_empty() {
        return html! {};
    }
    let axis = axis(effects.iter().filter_map(|effect| effect.ratio.as_ref()));
    html! {
        div class="scroll" {
            table class="effects" {
                thead { tr {
                    th scope="col" { "compared" }
                    th scope="col" class="bar" { (spread::scale(&axis, 5, tick)) }
                    th scope="col" class="num" { "factor" }
                } }
                tbody {
                    @for effect in effects {
                        tr {
                            td { (effect.change) br; small { (effect.quantity) ", " (basis(effect)) } }
                            td class="bar" { (bar(&axis, effect)) }
                            td class="num" { (factor(effect)) }
                        }
                    }
                }
            }
        }
    }
}

/// A factor with its interval beneath.
pub(crate) fn factor(effect: &Effect) -> Markup {
    let ratio = effect.ratio.as_ref();
    let told = ratio.and_then(|ratio| Some((ratio.estimate, words::ratio_range(ratio)?)));
    html! {
        @match told {
            Some((estimate, range)) if estimate.is_finite() => { (words::ratio(estimate)) "×" br; small { (range) } },
            Some((_, range)) => { (range) },
            None => span class="side" { "not known" },
        }
    }
}
