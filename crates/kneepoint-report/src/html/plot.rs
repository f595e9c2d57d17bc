//! A plot: two axes with marks between them.

use super::axis::Axis;
use maud::{Markup, html};

/// Where the plot area begins and ends: x in percent of the width, y in pixels.
const LEFT: f64 = 13.0;
const RIGHT: f64 = 97.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 252.0;
const HEIGHT: f64 = 292.0;
/// Where the names of bands stand, above the plot area and below what y is called: the first row, and from row to row.
const NAMES: f64 = 27.0;
const NAME_HEIGHT: f64 = 15.0;

/// A pair of axes with what they show.
pub(crate) struct Plot<'a> {
    /// The axis from left to right.
    pub x: Axis,
    /// The axis from bottom to top.
    pub y: Axis,
    /// What x is, with its unit.
    pub x_label: &'a str,
    /// What y is, with its unit.
    pub y_label: &'a str,
    /// How a value of x is written.
    pub x_text: fn(f64) -> String,
    /// How a value of y is written.
    pub y_text: fn(f64) -> String,
    /// Values of x to mark; round ones when `None`.
    pub x_ticks: Option<Vec<f64>>,
}

impl Plot<'_> {
    /// The x coordinate of a value.
    pub(crate) fn x(&self, value: f64) -> String {
        percent(LEFT + (RIGHT - LEFT) * self.x.place(value))
    }

    /// The y coordinate of a value.
    pub(crate) fn y(&self, value: f64) -> String {
        format!("{:.1}", BOTTOM - (BOTTOM - TOP) * self.y.place(value))
    }

    /// The picture around its marks. `title` and `description` are what a screen reader says.
    pub(crate) fn draw(&self, id: &str, title: &str, description: &str, marks: &Markup) -> Markup {
        let x_ticks = self.x_ticks.clone().unwrap_or_else(|| self.x.ticks(5));
        html! {
            svg class="plot" role="img" aria-labelledby={ (id) "-t " (id) "-d" } width="100%" height=(HEIGHT) {
                title id={ (id) "-t" } { (title) }
                desc id={ (id) "-d" } { (description) }
                text class="axis-label" x="0" y="12" { (self.y_label) }
                @for tick in self.y.ticks(6) {
                    line class="grid" x1=(percent(LEFT)) x2=(percent(RIGHT)) y1=(self.y(tick)) y2=(self.y(tick)) {}
                    text class="tick end" x=(percent(LEFT - 1.5)) y=(self.y(tick)) dy="0.35em" { ((self.y_text)(tick)) }
                }
                line class="axis" x1=(percent(LEFT)) x2=(percent(RIGHT)) y1=(BOTTOM) y2=(BOTTOM) {}
                @for tick in x_ticks {
                    line class="axis" x1=(self.x(tick)) x2=(self.x(tick)) y1=(BOTTOM) y2=(BOTTOM + 4.0) {}
                    text class="tick mid" x=(self.x(tick)) y=(BOTTOM + 17.0) { ((self.x_text)(tick)) }
                }
                text class="axis-label end" x=(percent(RIGHT)) y=(HEIGHT - 5.0) { (self.x_label) }
                (marks)
            }
        }
    }

    /// A vertical band over the plot area. Its middle is a line up to its name above, in row 0 or 1.
    pub(crate) fn band(
        &self,
        class: &str,
        ends: (f64, f64),
        middle: f64,
        name: &str,
        row: usize,
    ) -> Markup {
        let (low, high) = (self.x.place(ends.0), self.x.place(ends.1));
        let place = self.x.place(middle);
        let (anchor, shift) = if place > 0.5 {
            ("end", -4)
        } else {
            ("start", 4)
        };
        let label_y = NAMES + NAME_HEIGHT * row as f64;
        html! {
            rect class={ "band " (class) } x=(percent(LEFT + (RIGHT - LEFT) * low)) y=(TOP)
                width=(percent((RIGHT - LEFT) * (high - low).max(0.0))) height=(BOTTOM - TOP) {}
            line class={ "limit " (class) } x1=(self.x(middle)) x2=(self.x(middle)) y1=(label_y - 10.0) y2=(BOTTOM) {}
            text class={ "direct " (class) " " (anchor) } x=(self.x(middle)) dx=(shift) y=(label_y) { (name) }
        }
    }

    /// A horizontal line with its name above its left end.
    pub(crate) fn level(&self, value: f64, name: &str) -> Markup {
        html! {
            line class="level" x1=(percent(LEFT)) x2=(percent(RIGHT)) y1=(self.y(value)) y2=(self.y(value)) {}
            text class="direct quiet" x=(percent(LEFT + 1.0)) y=(self.y(value)) dy="-4" { (name) }
        }
    }

    /// A column from the bottom of the plot up to a value, between two values of x.
    pub(crate) fn column(&self, class: &str, ends: (f64, f64), value: f64) -> Markup {
        let (low, high) = (self.x.place(ends.0), self.x.place(ends.1));
        let height = (BOTTOM - TOP) * self.y.place(value);
        html! {
            rect class={ "column " (class) } x=(percent(LEFT + (RIGHT - LEFT) * low))
                width=(percent((RIGHT - LEFT) * (high - low).max(0.0)))
                y=(format!("{:.1}", BOTTOM - height)) height=(format!("{height:.1}")) {}
        }
    }

    /// Straight pieces from point to point.
    pub(crate) fn line(&self, class: &str, points: &[(f64, f64)]) -> Markup {
        html! {
            @for pair in points.windows(2) {
                line class={ "curve " (class) } x1=(self.x(pair[0].0)) y1=(self.y(pair[0].1))
                    x2=(self.x(pair[1].0)) y2=(self.y(pair[1].1)) {}
            }
        }
    }
}

/// `12.34%`.
pub(crate) fn percent(value: f64) -> String {
    format!("{value:.2}%")
}
