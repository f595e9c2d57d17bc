//! How response times are spread near R*.

use super::{Curve, milliseconds};
use crate::html::axis::Axis;
use crate::html::plot::Plot;
use crate::words;
use kneepoint_model::{LoadPoint, Slo};
use maud::{Markup, html};

/// A configuration, its step, and (odds against exceeding, ms) along its distribution.
type Line<'a> = (&'a Curve<'a>, &'a LoadPoint, Vec<(f64, f64)>);

/// Shares of a distribution to draw, and those to name.
const QUANTILES: [f64; 15] = [
    0.01, 0.1, 0.25, 0.5, 0.65, 0.75, 0.82, 0.87, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.999,
];
const NAMED: [f64; 5] = [0.01, 0.5, 0.9, 0.99, 0.999];

/// Tails side by side: a share becomes the odds against exceeding it.
fn tail(quantile: f64) -> f64 {
    1.0 / (1.0 - quantile)
}

/// The response times of the step nearest to R* of each configuration; nothing where there is none.
pub(crate) fn figure(curves: &[Curve<'_>], slo: &Slo) -> Markup {
    let lines: Vec<Line<'_>> = curves
        .iter()
        .filter_map(|curve| {
            let load = curve.at_limit?;
            let reach = 1.0 - 1.0 / load.response.count() as f64;
            let quantiles = QUANTILES.iter().filter(|q| **q <= reach);
            let line = quantiles.filter_map(|q| Some((tail(*q), load.response.quantile_ms(*q)?)));
            Some((curve, load, line.collect()))
        })
        .collect();
    if lines.is_empty() {
        return html! {};
    }
    let target = slo.response_time.as_secs_f64() * 1e3;
    // As far as a line reaches: of a hundred answers none says what p99.9 is.
    let reached = lines.iter().filter_map(|line| Some(line.2.last()?.0));
    let end = reached.fold(2.0, f64::max) * 1.2;
    let plot = Plot {
        x: Axis::between(1.0, end),
        y: Axis::log(
            lines
                .iter()
                .flat_map(|line| line.2.iter().map(|p| p.1))
                .chain([target]),
            1.2,
        ),
        x_label: "percentile of answers",
        y_label: "response time, ms (log)",
        x_text: |odds| format!("p{}", ((1.0 - 1.0 / odds) * 1000.0).round() / 10.0),
        y_text: milliseconds,
        x_ticks: Some(
            NAMED
                .iter()
                .map(|q| tail(*q))
                .filter(|odds| *odds <= end)
                .collect(),
        ),
    };
    let marks = html! {
        (plot.level(target, &format!("SLO {}", words::ms(Some(target)))))
        @for (curve, _, line) in &lines { (plot.line(curve.tone, line)) }
    };
    let steps: Vec<_> = lines
        .iter()
        .map(|(curve, load, _)| {
            let answers = words::counted(load.response.count(), "answer", "answers");
            format!("{} at {} ({answers})", curve.name, words::offered(load))
        })
        .collect();
    let title = "Distribution of response times near R*";
    html! { figure {
        (plot.draw("distribution", title, &format!("Of the steps {}.", words::listed(&steps)), &marks))
        figcaption class="caption" { "Response times of the step nearest to R*: " (words::listed(&steps)) "."
            @if lines.len() > 1 { " Each step was at its own rate, so the lines do not compare the two at the same load." }
        }
    } }
}
