//! An interval on a line: the estimate as a dot, its 95 % interval as a bar.

use super::axis::Axis;
use super::plot::percent;
use kneepoint_model::Interval;
use maud::{Markup, html};

const EDGE: f64 = 2.0;

fn x(axis: &Axis, value: f64) -> String {
    percent(EDGE + (100.0 - 2.0 * EDGE) * axis.place(value))
}

/// One interval at a height of its row. Hollow marks are for what is compared on the side.
pub(crate) fn interval(
    axis: &Axis,
    interval: &Interval,
    class: &str,
    y: f64,
    hollow: bool,
) -> Markup {
    html! {
        line class={ "whisker " (class) } x1=(x(axis, interval.low)) x2=(x(axis, interval.high)) y1=(y) y2=(y) {}
        @if hollow {
            circle class={ "dot hollow " (class) } cx=(x(axis, interval.estimate)) cy=(y) r="3.5" {}
        } @else {
            circle class={ "dot " (class) } cx=(x(axis, interval.estimate)) cy=(y) r="4" {}
        }
    }
}

/// A row of intervals of `height` pixels, with a line at `reference` where there is one.
pub(crate) fn row(
    axis: &Axis,
    height: f64,
    reference: Option<f64>,
    title: &str,
    marks: &Markup,
) -> Markup {
    html! {
        svg class="spread" role="img" aria-label=(title) width="100%" height=(height) {
            title { (title) }
            @if let Some(reference) = reference {
                line class="reference" x1=(x(axis, reference)) x2=(x(axis, reference)) y1="0" y2=(height) {}
            }
            (marks)
        }
    }
}

/// The scale above or below rows of intervals.
pub(crate) fn scale(axis: &Axis, ticks: usize, text: fn(f64) -> String) -> Markup {
    let ticks = axis.ticks(ticks);
    // Labels nearer than a fifth of the width would run into each other on a phone.
    let mut last = f64::NEG_INFINITY;
    let spaced = ticks.into_iter().filter(|tick| {
        let place = axis.place(*tick);
        let keeps = place - last >= 0.2;
        if keeps {
            last = place;
        }
        keeps
    });
    html! {
        svg class="spread" aria-hidden="true" width="100%" height="18" {
            @for tick in spaced {
                @let place = axis.place(tick);
                @let anchor = if place < 0.06 { "start" } else if place > 0.94 { "end" } else { "mid" };
                text class={ "tick " (anchor) } x=(x(axis, tick)) y="12" { (text(tick)) }
            }
        }
    }
}
