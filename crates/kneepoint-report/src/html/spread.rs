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
    // Labels nearer than a fifth of the width would run into each other, and in the narrow column of a phone those nearer
    // than half of it do: they are crowded, and shown where there is room.
    let (mut last, mut last_roomy) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    let spaced = ticks.into_iter().filter_map(|tick| {
        let place = axis.place(tick);
        if place - last < 0.2 {
            return None;
        }
        last = place;
        let is_crowded = place - last_roomy < 0.5;
        if !is_crowded {
            last_roomy = place;
        }
        Some((tick, place, if is_crowded { " crowded" } else { "" }))
    });
    html! {
        svg class="spread" aria-hidden="true" width="100%" height="18" {
            @for (tick, place, crowded) in spaced {
                @let anchor = if place < 0.06 { "start" } else if place > 0.94 { "end" } else { "mid" };
                text class={ "tick " (anchor) (crowded) } x=(x(axis, tick)) y="12" { (text(tick)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_column_shows_labels_that_have_room() {
        let axis = Axis::between(0.7, 11.0);
        let scale = scale(&axis, 6, |value| format!("{value}x")).into_string();
        let labels = |shown: &dyn Fn(&str) -> bool| -> Vec<String> {
            let all = scale.split("<text").skip(1).filter(|label| shown(label));
            let texts = all.filter_map(|label| label.split(['>', '<']).nth(1));
            texts.map(str::to_owned).collect()
        };
        assert_eq!(labels(&|_| true), ["1x", "2x", "5x", "10x"]);
        let roomy = labels(&|label| !label.contains("crowded"));
        assert_eq!(roomy, ["1x", "5x"]);
    }
}
