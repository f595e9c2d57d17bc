//! Pictures of one target: rates and quantiles over time, the distribution and the percentiles of its times.

use crate::html::axis::Axis;
use crate::html::plot::Plot;
use crate::load::{Bin, LoadHop, bins};
use crate::words;
use kneepoint_model::{LatencyHistogram, LoadPoint, Outcome, Second};
use maud::{Markup, html};

/// Most points along a line: more than a screen has room for.
const MOST_POINTS: usize = 300;
/// A shorter piece of a second at the end is left out: a rate over it says nothing.
const SHORTEST_S: f64 = 0.25;

/// Where a picture stands on the page.
pub(super) struct Place<'a> {
    /// Number of the target, which keeps ids apart.
    pub(super) index: usize,
    /// ` of NAME` where there are several targets.
    pub(super) whose: &'a str,
}

/// One or more seconds as a point of the lines.
struct Sample {
    /// Its middle, in seconds since the load began.
    at_s: f64,
    offered_hz: f64,
    ok_hz: f64,
    good_hz: f64,
    failed_hz: f64,
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
    p99_ms: Option<f64>,
}

/// How many seconds make one point.
fn seconds_a_point(point: &LoadPoint) -> usize {
    point.seconds.len().div_ceil(MOST_POINTS).max(1)
}

fn samples(point: &LoadPoint) -> Vec<Sample> {
    let each = seconds_a_point(point);
    let chunks = point.seconds.chunks(each);
    chunks
        .filter_map(|seconds| {
            let start = seconds.first()?.at_s;
            let length = (point.window_s - start).min(seconds.len() as f64);
            (length >= SHORTEST_S).then(|| sample(seconds, start, length))
        })
        .collect()
}

fn sample(seconds: &[Second], start: f64, length: f64) -> Sample {
    let rate =
        |count: &dyn Fn(&Second) -> u64| seconds.iter().map(count).sum::<u64>() as f64 / length;
    // Quantiles of several seconds cannot be put together, so the worst one stands for them.
    let worst =
        |quantile: fn(&Second) -> Option<f64>| seconds.iter().filter_map(quantile).reduce(f64::max);
    Sample {
        at_s: start + length / 2.0,
        offered_hz: rate(&|second| second.offered),
        ok_hz: rate(&|second| second.outcomes.of(Outcome::Ok)),
        good_hz: rate(&|second| second.good),
        failed_hz: rate(&|second| second.outcomes.failed()),
        p50_ms: worst(|second| second.p50_ms),
        p95_ms: worst(|second| second.p95_ms),
        p99_ms: worst(|second| second.p99_ms),
    }
}

/// A line through what there is: a gap where there is nothing, a dot for what stands alone.
fn line(
    plot: &Plot<'_>,
    class: &str,
    samples: &[Sample],
    value: impl Fn(&Sample) -> Option<f64>,
) -> Markup {
    let pieces = samples.split(|sample| value(sample).is_none());
    html! {
        @for piece in pieces {
            @let points: Vec<(f64, f64)> = piece.iter().filter_map(|s| Some((s.at_s, value(s)?))).collect();
            (plot.line(class, &points))
            @if let [(x, y)] = points.as_slice() {
                circle class={ "dot " (class) } cx=(plot.x(*x)) cy=(plot.y(*y)) r="3" {}
            }
        }
    }
}

/// A key to the lines of a picture: class and name.
fn legend(lines: &[(&str, &str)]) -> Markup {
    html! {
        ul class="legend" {
            @for (class, name) in lines { li { span class={ "key " (class) } {} (name) } }
        }
    }
}

fn time_axis(point: &LoadPoint) -> Axis {
    Axis::from_zero([point.window_s / 1.05])
}

/// Offered, ok, good and failed requests per second over time.
pub(super) fn rates(hop: &LoadHop, place: &Place<'_>) -> Markup {
    let samples = samples(&hop.point);
    let highest = |s: &Sample| s.offered_hz.max(s.ok_hz);
    let plot = Plot {
        x: time_axis(&hop.point),
        y: Axis::from_zero(samples.iter().map(highest)),
        x_label: "time, seconds",
        y_label: "requests per second",
        x_text: words::rate_tick,
        y_text: words::rate_tick,
        x_ticks: None,
    };
    let failing = hop.point.outcomes.failed() > 0;
    let marks = html! {
        (line(&plot, "ideal", &samples, |s| Some(s.offered_hz)))
        (line(&plot, "quiet", &samples, |s| Some(s.ok_hz)))
        (line(&plot, "best", &samples, |s| Some(s.good_hz)))
        @if failing { (line(&plot, "base", &samples, |s| Some(s.failed_hz))) }
    };
    let mut keys = vec![("ideal", "offered"), ("quiet", "ok"), ("best", "good")];
    if failing {
        keys.push(("base", "failed"));
    }
    let title = format!("Rate over time{}", place.whose);
    let told = format!(
        "Offered {}, answered {}, good {} on average.",
        words::rate(hop.point.offered_hz),
        words::rate(hop.point.throughput_hz()),
        words::rate(hop.point.goodput_hz())
    );
    html! { figure {
        (legend(&keys))
        (plot.draw(&format!("rates-{}", place.index), &title, &told, &marks))
        figcaption class="caption" { (title) ", by the second in which a request was meant to start" (averaged(&hop.point)) "." }
    } }
}

fn averaged(point: &LoadPoint) -> String {
    match seconds_a_point(point) {
        1 => String::new(),
        each => format!("; each point stands for {each} seconds"),
    }
}

/// Quantiles of the response time over time.
pub(super) fn quantiles(hop: &LoadHop, place: &Place<'_>) -> Markup {
    let samples = samples(&hop.point);
    let values = |s: &Sample| [s.p50_ms, s.p95_ms, s.p99_ms];
    if samples.iter().flat_map(values).flatten().next().is_none() {
        return html! {};
    }
    let good = hop.slo.response_time.as_secs_f64() * 1e3;
    let plot = Plot {
        x: time_axis(&hop.point),
        y: Axis::log(samples.iter().flat_map(values).flatten().chain([good]), 1.3),
        x_label: "time, seconds",
        y_label: "response time, ms (log)",
        x_text: words::rate_tick,
        y_text: milliseconds,
        x_ticks: None,
    };
    let marks = html! {
        (plot.level(good, &format!("good: {}", words::ms(Some(good)))))
        (line(&plot, "base", &samples, |s| s.p99_ms))
        (line(&plot, "best", &samples, |s| s.p95_ms))
        (line(&plot, "quiet", &samples, |s| s.p50_ms))
    };
    let title = format!("Response times over time{}", place.whose);
    let told = format!(
        "Over all: p50 {}, p95 {}, p99 {}.",
        words::ms(hop.point.response.quantile_ms(0.5)),
        words::ms(hop.point.response.quantile_ms(0.95)),
        words::ms(hop.point.response.quantile_ms(0.99))
    );
    let worst = if seconds_a_point(&hop.point) > 1 {
        ", the worst second of each"
    } else {
        ""
    };
    html! { figure {
        (legend(&[("quiet", "p50"), ("best", "p95"), ("base", "p99")]))
        (plot.draw(&format!("times-{}", place.index), &title, &told, &marks))
        figcaption class="caption" {
            (title) ", from the intended start, of requests that ended ok" (averaged(&hop.point)) (worst) "."
        }
    } }
}

/// Milliseconds on an axis, with no more figures than the tick has: `0.5`, `20`, `1.5 s`.
fn milliseconds(value: f64) -> String {
    let figures = |value: f64| {
        let text = format!("{value:.4}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    if value >= 1000.0 {
        format!("{}\u{a0}s", figures(value / 1000.0))
    } else {
        figures(value)
    }
}

/// How often which response time occurred.
pub(super) fn distribution(hop: &LoadHop, place: &Place<'_>) -> Markup {
    let times = &hop.point.response;
    let bins = bins(times);
    let (Some(first), Some(last)) = (bins.first(), bins.last()) else {
        return html! {};
    };
    let total = times.count() as f64;
    let share = |bin: &Bin| bin.count as f64 / total;
    let plot = Plot {
        x: Axis::between(first.from_ms, last.to_ms),
        y: Axis::from_zero(bins.iter().map(share)),
        x_label: "response time, ms (log)",
        y_label: "share of ok requests",
        x_text: milliseconds,
        y_text: |value| words::share(value).replace(".0", ""),
        x_ticks: None,
    };
    let marks = html! {
        @for bin in &bins { (plot.column("best", (bin.from_ms, bin.to_ms), share(bin))) }
        @for (row, (name, quantile, tone)) in [("p95", 0.95, "base"), ("p50", 0.5, "best")].into_iter().enumerate() {
            @if let Some(ms) = times.quantile_ms(quantile) {
                (plot.band(tone, (ms, ms), ms, &format!("{name} {}", words::ms(Some(ms))), row))
            }
        }
    };
    let title = format!("Distribution of response times{}", place.whose);
    let told = format!(
        "{}, from {} to {}.",
        words::counted(times.count(), "request", "requests"),
        words::ms(Some(first.from_ms)),
        words::ms(Some(last.to_ms))
    );
    html! { figure {
        (plot.draw(&format!("distribution-{}", place.index), &title, &told, &marks))
        figcaption class="caption" { (title) "." }
    } }
}

/// Shares along the percentile picture, and those it names.
const SHARES: [f64; 16] = [
    0.1, 0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.87, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999, 0.9995, 0.9999,
];
const NAMED: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];

/// Tails side by side: a share becomes the odds against exceeding it.
fn odds(share: f64) -> f64 {
    1.0 / (1.0 - share)
}

/// Response and service time at each percentile.
pub(super) fn percentiles(hop: &LoadHop, place: &Place<'_>) -> Markup {
    let count = hop.point.response.count();
    if count < 2 {
        return html! {};
    }
    // Beyond this share the distribution is one request.
    let reach = 1.0 - 1.0 / count as f64;
    let points = |times: &LatencyHistogram| -> Vec<(f64, f64)> {
        let within = SHARES.iter().filter(|share| **share <= reach);
        within
            .filter_map(|share| Some((odds(*share), times.quantile_ms(*share)?)))
            .collect()
    };
    let (response, service) = (points(&hop.point.response), points(&hop.point.service));
    let furthest = response.last().map_or(1.0, |point| point.0);
    let end = furthest.max(2.0) * 1.15;
    let plot = Plot {
        x: Axis::between(1.0, end),
        y: Axis::log(response.iter().chain(&service).map(|point| point.1), 1.3),
        x_label: "percentile of ok requests",
        y_label: "time, ms (log)",
        x_text: |odds| format!("p{}", ((1.0 - 1.0 / odds) * 1e4).round() / 100.0),
        y_text: milliseconds,
        x_ticks: Some(
            NAMED
                .iter()
                .map(|share| odds(*share))
                .filter(|odds| *odds <= end)
                .collect(),
        ),
    };
    let marks = html! {
        (plot.line("quiet", &service))
        (plot.line("best", &response))
    };
    let title = format!("Percentiles{}", place.whose);
    html! { figure {
        (legend(&[("best", "response, from the intended start"), ("quiet", "service, from the send")]))
        (plot.draw(&format!("percentiles-{}", place.index), &title, "Response and service time at each percentile.", &marks))
        figcaption class="caption" { (title) ". Where the lines part, requests waited for a connection." }
    } }
}
