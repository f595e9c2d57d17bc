//! Curves over the offered rate: goodput, response time, violating share; and the response times at R*.

mod distribution;

use crate::html::Section;
use crate::html::axis::Axis;
use crate::html::plot::Plot;
use crate::subjects::{arm_name, tone};
use crate::words;
use kneepoint_model::run::LimitResult;
use kneepoint_model::units::RateUnit;
use kneepoint_model::{LoadPoint, Run, Slo};
use maud::{Markup, html};

/// Shares below this are drawn at it, so that "none" has a place on a logarithmic axis.
const SHARE_FLOOR: f64 = 0.001;

/// One step as the pictures show it.
pub(crate) struct Point {
    /// In the unit of the run's loads.
    offered_hz: f64,
    /// In requests.
    goodput_hz: f64,
    /// `None`: more than the quantile leaves room for did not answer.
    quantile_ms: Option<f64>,
    violating: f64,
    arrivals: u64,
    failed: bool,
}

/// A configuration with its steps.
pub(crate) struct Curve<'a> {
    /// The class of its marks.
    pub(crate) tone: &'static str,
    /// What it is called.
    pub(crate) name: &'a str,
    limit: Option<&'a LimitResult>,
    points: Vec<Point>,
    window_s: Option<f64>,
    /// What its loads are offered in, and how many requests one of those is.
    unit: RateUnit,
    requests_of_one: f64,
    /// The valid step nearest to R*.
    pub(crate) at_limit: Option<&'a LoadPoint>,
}

/// The curves; `None` when no step of an open loop is known.
pub(crate) fn section(run: &Run) -> Option<Section> {
    let slo = run
        .scenario
        .as_ref()
        .map(|scenario| scenario.slo.clone())
        .unwrap_or_default();
    let curves: Vec<_> = ["base", "best"]
        .iter()
        .filter_map(|arm| curve(run, arm, &slo))
        .collect();
    if curves.is_empty() {
        return None;
    }
    Some(Section {
        id: "curves",
        title: "How it behaves as load rises",
        body: html! {
            (legend(&curves))
            div class="pair" {
                (goodput(&curves))
                (response(&curves, &slo))
                (violations(&curves, &slo))
                (distribution::figure(&curves, &slo))
            }
            p class="caption" { (caption(&curves)) }
        },
    })
}

fn curve<'a>(run: &'a Run, arm: &'a str, slo: &Slo) -> Option<Curve<'a>> {
    let usable = || {
        let open = |load: &&LoadPoint| load.closed_workers.is_none() && load.validity.is_valid();
        let of_arm = run.trials.iter().filter(move |trial| trial.arm == arm);
        of_arm.map(|trial| &trial.load).filter(open)
    };
    let searched = run.limit(arm);
    // Where no rate meets the SLO, there is no R* to draw.
    let limit = searched.filter(|limit| limit.met_hz().is_some());
    let measured: Vec<Point> = usable().map(|load| point(load, slo)).collect();
    let points = match (measured.is_empty(), searched) {
        (true, Some(limit)) => limit.steps.iter().map(|step| fitted(step, limit)).collect(),
        _ => measured,
    };
    let distance = |load: &LoadPoint, limit: &LimitResult| {
        (load.rate_hz() / limit.rate_hz.estimate).ln().abs()
    };
    let at_limit = limit.and_then(|limit| {
        usable()
            .filter(|load| load.response.count() > 0)
            .min_by(|a, b| distance(a, limit).total_cmp(&distance(b, limit)))
    });
    let mut windows: Vec<f64> = usable().map(|load| load.window_s).collect();
    windows.sort_by(f64::total_cmp);
    (!points.is_empty()).then(|| Curve {
        tone: tone(arm),
        name: arm_name(run, arm),
        limit,
        window_s: windows.get(windows.len() / 2).copied(),
        unit: run.unit(),
        requests_of_one: limit
            .and_then(|limit| limit.requests_a_visit)
            .unwrap_or(1.0),
        points,
        at_limit,
    })
}

fn point(load: &LoadPoint, slo: &Slo) -> Point {
    let ok = load.response.count() as f64;
    // The quantile of all arrivals: those that failed are slower than any that answered.
    let quantile = slo.quantile * load.arrivals as f64 / ok;
    Point {
        offered_hz: load.rate_hz(),
        goodput_hz: load.goodput_hz(),
        quantile_ms: (quantile <= 1.0)
            .then(|| load.response.quantile_ms(quantile))
            .flatten(),
        violating: load.violating_share(),
        arrivals: load.arrivals,
        failed: load.outcomes.failed() > 0,
    }
}

fn fitted(&(offered_hz, violating, arrivals): &(f64, f64, u64), limit: &LimitResult) -> Point {
    Point {
        offered_hz,
        goodput_hz: limit.in_requests_hz(offered_hz) * (1.0 - violating),
        quantile_ms: None,
        violating,
        arrivals,
        failed: false,
    }
}

fn rate_axis(curves: &[Curve<'_>]) -> Axis {
    let points = curves
        .iter()
        .flat_map(|curve| curve.points.iter().map(|point| point.offered_hz));
    let limits = curves
        .iter()
        .filter_map(|curve| Some(curve.limit?.rate_hz.high));
    Axis::rates(&points.chain(limits).collect::<Vec<_>>())
}

fn unit_of(curves: &[Curve<'_>]) -> RateUnit {
    curves
        .first()
        .map_or(RateUnit::Requests, |curve| curve.unit)
}

/// What the axis of offered rates counts: the unit that the search's steps and R* have.
fn offered_label(curves: &[Curve<'_>]) -> &'static str {
    match unit_of(curves) {
        RateUnit::Visits => "visits offered, per second",
        RateUnit::Requests => "offered, per second",
    }
}

fn bands(plot: &Plot<'_>, curves: &[Curve<'_>]) -> Markup {
    html! {
        @for (row, curve) in curves.iter().enumerate() {
            @if let Some(limit) = curve.limit {
                @let rate = &limit.rate_hz;
                @let whose = if curves.len() > 1 { curve.name } else { "" };
                @let name = format!("R* {whose} {}", words::rate_in(curve.unit, rate.estimate)).replace("  ", " ");
                (plot.band(curve.tone, (rate.low, rate.high), rate.estimate, &name, row))
            }
        }
    }
}

fn dots(plot: &Plot<'_>, curves: &[Curve<'_>], y: impl Fn(&Point) -> f64) -> Markup {
    let most = curves
        .iter()
        .flat_map(|c| &c.points)
        .map(|p| p.arrivals)
        .max()
        .unwrap_or(1)
        .max(1);
    html! {
        @for curve in curves {
            @for point in &curve.points {
                @let radius = 2.0 + 3.5 * (point.arrivals as f64 / most as f64).sqrt();
                @let hollow = if point.failed { " hollow" } else { "" };
                circle class={ "dot " (curve.tone) (hollow) } cx=(plot.x(point.offered_hz))
                    cy=(plot.y(y(point))) r=(format!("{radius:.1}")) {
                    title {
                        (words::rate_in(curve.unit, point.offered_hz)) " planned, " (words::requests_in(curve.unit, point.goodput_hz)) " answered in time, "
                        (words::share(point.violating)) " violating, " (words::counted(point.arrivals, "arrival", "arrivals"))
                    }
                }
            }
        }
    }
}

fn described(curves: &[Curve<'_>]) -> String {
    let limits: Vec<_> = curves
        .iter()
        .filter_map(|curve| {
            let limit = curve.limit?;
            Some(format!(
                "R* {} {}",
                curve.name,
                words::interval_in(curve.unit, &limit.rate_hz)
            ))
        })
        .collect();
    if limits.is_empty() {
        return "One dot a step.".to_owned();
    }
    format!("One dot a step. {}.", words::listed(&limits))
}

fn goodput(curves: &[Curve<'_>]) -> Markup {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let plot = Plot {
        x: rate_axis(curves),
        y: Axis::from_zero(points().map(|point| point.goodput_hz)),
        x_label: offered_label(curves),
        y_label: match unit_of(curves) {
            RateUnit::Visits => "good requests, per second",
            RateUnit::Requests => "goodput, per second",
        },
        x_text: words::rate_tick,
        y_text: words::rate_tick,
        x_ticks: None,
    };
    // So many good requests come of every rate that is offered when all are good.
    let each = curves.first().map_or(1.0, |curve| curve.requests_of_one);
    let end = plot.x.high().min(plot.y.high() / each);
    let start = plot.x.low().max(plot.y.low() / each);
    let diagonal: Vec<_> = (0..=24)
        .map(|i| start + (end - start) * f64::from(i) / 24.0)
        .map(|v| (v, v * each))
        .collect();
    let marks = html! {
        (bands(&plot, curves))
        (plot.line("ideal", &diagonal))
        (dots(&plot, curves, |point| point.goodput_hz))
    };
    html! { figure {
        (plot.draw("goodput", "Goodput over the offered rate", &described(curves), &marks))
        figcaption class="caption" { "Responses within the SLO's time. On the grey line every arrival is good; the knee is where the dots leave it." }
    } }
}

/// Milliseconds on an axis.
pub(crate) fn milliseconds(value: f64) -> String {
    let text = if value >= 1000.0 {
        format!("{:.1} s", value / 1000.0)
    } else {
        format!("{value:.0}")
    };
    text.replace(".0 s", " s").replace(' ', "\u{a0}")
}

fn response(curves: &[Curve<'_>], slo: &Slo) -> Markup {
    let most = slo.timeout.as_secs_f64() * 1e3;
    let target = slo.response_time.as_secs_f64() * 1e3;
    let points = || curves.iter().flat_map(|curve| &curve.points);
    if points().all(|point| point.quantile_ms.is_none() && !point.failed) {
        return html! {};
    }
    let y_of = |point: &Point| point.quantile_ms.unwrap_or(most);
    let label = format!("{}, ms (log)", percentile(slo));
    let plot = Plot {
        x: rate_axis(curves),
        y: Axis::log(points().map(y_of).chain([target]), 1.2),
        x_label: offered_label(curves),
        y_label: &label,
        x_text: words::rate_tick,
        y_text: milliseconds,
        x_ticks: None,
    };
    let marks = html! {
        (bands(&plot, curves))
        (plot.level(target, &format!("SLO {}", words::ms(Some(target)))))
        (dots(&plot, curves, y_of))
    };
    html! { figure {
        (plot.draw("response", "Response time over the offered rate", &described(curves), &marks))
        figcaption class="caption" {
            "Response time from the intended start, of all arrivals: a failed one counts as slower than any \
             answer, and is drawn at the timeout where it decides."
        }
    } }
}

fn violations(curves: &[Curve<'_>], slo: &Slo) -> Markup {
    let plot = Plot {
        x: rate_axis(curves),
        y: Axis::between(SHARE_FLOOR / 1.3, 1.0),
        x_label: offered_label(curves),
        y_label: "violating share (log)",
        x_text: words::rate_tick,
        y_text: |value| words::share(value).replace(".0", ""),
        x_ticks: None,
    };
    let allowed = slo.violating_share();
    let marks = html! {
        (bands(&plot, curves))
        (plot.level(allowed, &format!("{}: {}", percentile(slo), words::share(allowed))))
        (dots(&plot, curves, |point| point.violating.max(SHARE_FLOOR)))
    };
    html! { figure {
        (plot.draw("violations", "Violating share over the offered rate", &described(curves), &marks))
        figcaption class="caption" { (violations_caption(slo)) }
    } }
}

/// The quantile of the SLO as people write it: `p95`.
pub(crate) fn percentile(slo: &Slo) -> String {
    format!("p{}", slo.percentile())
}

/// What the share is of, and how much of it the SLO allows: where its errors bind, R* is lower than the line says.
fn violations_caption(slo: &Slo) -> String {
    let ms = words::ms(Some(slo.response_time.as_secs_f64() * 1e3));
    format!(
        "Arrivals that failed or took longer than {ms}. {} <= {ms} allows {} of them, which is the dashed line. R* is where \
         the share crosses it, or lower where more than {} fail. Steps with none are at the bottom edge.",
        percentile(slo),
        words::share(slo.violating_share()),
        words::share(slo.errors)
    )
}

fn legend(curves: &[Curve<'_>]) -> Markup {
    html! {
        ul class="legend" {
            @for curve in curves {
                li { span class={ "key " (curve.tone) } {} (curve.name) }
            }
            li { span class="key hollow" {} "with failed requests" }
            @if curves.iter().any(|curve| curve.limit.is_some()) {
                li { span class="key block" {} "95 % interval of R*" }
            }
            li { "larger dot: more arrivals" }
        }
    }
}

fn caption(curves: &[Curve<'_>]) -> String {
    let told: Vec<_> = curves
        .iter()
        .map(|curve| {
            let steps = words::counted(curve.points.len() as u64, "step", "steps");
            let length = curve.window_s.map_or_else(String::new, |s| {
                format!(" of typically {}", words::duration(s))
            });
            let arrivals = curve
                .points
                .iter()
                .map(|point| point.arrivals)
                .fold(0, u64::saturating_add);
            format!(
                "{} {steps}{length} ({})",
                curve.name,
                words::counted(arrivals, "arrival", "arrivals")
            )
        })
        .collect();
    format!(
        "Every valid open-loop step: {}. Invalid steps are left out.",
        words::listed(&told)
    )
}
