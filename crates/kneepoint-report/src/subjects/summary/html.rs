//! The head of the page: the verdict, the numbers it rests on, and what they hold for.

use super::{RunOutcome, Summary};
use crate::html::axis::Axis;
use crate::html::notes;
use crate::html::spread;
use crate::subjects::{arm_name, changes, tone};
use crate::words;
use kneepoint_model::run::LimitResult;
use kneepoint_model::units::RateUnit;
use kneepoint_model::{Run, units};
use maud::{Markup, html};

/// Verdict, numbers, conditions, and what is missing.
pub(crate) fn header(run: &Run, summary: &Summary) -> Markup {
    html! {
        header {
            p class="kicker" { (kicker(run, summary)) }
            h1 { (headline(run, summary)) }
            @if headline(run, summary) != summary.verdict { p class="lead" { (summary.verdict) } }
            (limits(run))
            (kept(run))
            (conditions(run, summary))
            (notes("Not in this run", &summary.missing))
            (notes("Doubts", &summary.doubts))
        }
    }
}

fn kicker(run: &Run, summary: &Summary) -> String {
    let parts = [
        format!("Kneepoint {}", run.command),
        summary.subject.clone(),
        words::moment(&run.started_at),
        if run.elapsed_s > 0.0 {
            words::duration(run.elapsed_s)
        } else {
            String::new()
        },
    ];
    let parts: Vec<_> = parts
        .into_iter()
        .filter(|part| !part.trim().is_empty())
        .collect();
    parts.join(" · ")
}

fn headline(run: &Run, summary: &Summary) -> String {
    if let Some(it) = &run.replay {
        return format!("{}: {}", it.report, it.title);
    }
    let subject = words::sentence(&summary.subject);
    match (summary.outcome, summary.base_hz, summary.best_hz) {
        (RunOutcome::Improved, _, Some(best)) => {
            let times = words::ratio(summary.gain.map_or(f64::NAN, |gain| gain.estimate));
            let is_wide = |arm| run.limit(arm).is_some_and(words::is_wide);
            let times = match is_wide("base") || is_wide("best") {
                true => format!("about {times}"),
                false => times,
            };
            let rate = sustained(run, "best", best.estimate);
            if run.limit("best").is_some_and(refuted) {
                format!(
                    "{subject} may now sustain {rate}, {times} times as many as before, but not for long"
                )
            } else {
                format!("{subject} now sustains {rate}, {times} times as many as before")
            }
        }
        (RunOutcome::Unchanged, _, Some(best)) => {
            format!(
                "{subject} sustains {}; no change moved that measurably",
                sustained(run, "best", best.estimate)
            )
        }
        (RunOutcome::Worse, _, Some(best)) => {
            format!(
                "{subject} sustains {}, fewer than before",
                sustained(run, "best", best.estimate)
            )
        }
        (RunOutcome::Plan, ..) => {
            let predicted = run
                .capacity
                .as_ref()
                .map_or(f64::NAN, |plan| plan.limit_hz.estimate);
            format!(
                "{subject} is predicted to sustain {}",
                per_second(predicted, RateUnit::Requests)
            )
        }
        (RunOutcome::Limit, Some(base), _) if base.estimate > 0.0 => {
            let healthy = summary.bound_by.is_none() && !run.observations.is_empty();
            let tail = match (healthy, summary.kept) {
                (true, _) => "; what limits it was not found",
                (false, 0) => "",
                (false, _) => " before the changes",
            };
            format!(
                "{subject} sustains {}{tail}",
                sustained(run, "base", base.estimate)
            )
        }
        _ => summary.verdict.clone(),
    }
}

/// `26.3 visits per second (132 requests per second)`: R* of a configuration as the headline has it. `about 205 requests per
/// second (111 to 380)` where it is hardly known.
fn sustained(run: &Run, arm: &str, rate_hz: f64) -> String {
    let limit = run.limit(arm).or_else(|| run.limits.first());
    let unit = limit.map_or(RateUnit::Requests, LimitResult::unit);
    let requests = limit.filter(|_| unit == RateUnit::Visits).map(|limit| {
        let requests_hz = limit.in_requests_hz(rate_hz);
        per_second(requests_hz, RateUnit::Requests)
    });
    if let Some(limit) = limit.filter(|limit| words::has_no_low_end(limit)) {
        return format!("fewer than {}", per_second(limit.rate_hz.high, unit));
    }
    let own = per_second(rate_hz, unit);
    let range = limit.filter(|limit| words::is_wide(limit));
    let range = range.map(|limit| words::rate_range(&limit.rate_hz));
    let range = range.as_deref().map(|range| range.trim_end_matches("/s"));
    match (range, requests) {
        (Some(range), Some(requests)) => format!("about {own} ({range}), that is {requests}"),
        (Some(range), None) => format!("about {own} ({range})"),
        (None, Some(requests)) => format!("{own} ({requests})"),
        (None, None) => own,
    }
}

fn per_second(rate_hz: f64, unit: RateUnit) -> String {
    let number = words::rate(rate_hz);
    format!(
        "{} {} per second",
        number.trim_end_matches("/s"),
        unit.name()
    )
}

/// Whether the stretch of load that was to confirm a limit did not.
fn refuted(limit: &LimitResult) -> bool {
    limit.soak_arrivals > 0 && !limit.soak_held
}

fn limits(run: &Run) -> Markup {
    let measured: Vec<&LimitResult> = ["base", "best"]
        .iter()
        .filter_map(|arm| run.limit(arm))
        .collect();
    if measured.is_empty() {
        return html! {};
    }
    let axis = Axis::from_zero(measured.iter().map(|limit| limit.rate_hz.high));
    let is_confirmed = |limit: &LimitResult| {
        let stretch = super::confirmation(run, limit);
        stretch.is_some_and(|it| it.held && it.is_near(&limit.rate_hz))
    };
    let each = match measured.iter().all(|limit| is_confirmed(limit)) {
        true => "A longer stretch of load at the lower end of the interval confirms it.",
        false => "",
    };
    html! {
        table class="limits" {
            caption {
                "R* is the highest rate of arrivals at which the SLO holds; dot and bar are the estimate and its \
                 95 % interval. " (each)
            }
            thead { tr {
                th scope="col" { span class="hidden" { "configuration" } }
                th scope="col" { "R*" }
                th scope="col" class="bar" { (spread::scale(&axis, 4, words::rate_tick)) }
                th scope="col" { "longer stretch of load" }
            } }
            tbody { @for limit in measured { (limit_row(run, &axis, limit)) } }
        }
    }
}

fn limit_row(run: &Run, axis: &Axis, limit: &LimitResult) -> Markup {
    let tone = tone(&limit.arm);
    if limit.met_hz().is_none() {
        return html! {
            tr {
                th scope="row" class=(tone) { (words::sentence(arm_name(run, &limit.arm))) }
                td colspan="3" { (words::limit_is(limit)) }
            }
        };
    }
    let told = limit.rate_hz;
    let mark = spread::interval(axis, &told, tone, 14.0, false);
    html! {
        tr {
            th scope="row" class=(tone) { (words::sentence(arm_name(run, &limit.arm))) }
            td { strong class="big" { (words::rate_in(limit.unit(), limit.rate_hz.estimate)) } br; small { (words::rate_range(&told)) }
                @if let Some(besides) = limit.besides_visits() { br; small { (besides) } }
                br; small { (words::limit_basis(&run.limit_basis(limit))) } }
            td class="bar" { div class="phone" { (spread::scale(axis, 4, words::rate_tick)) } (spread::row(axis, 28.0, Some(0.0), &words::interval_in(limit.unit(), &told), &mark)) }
            td { (longer_stretch(run, limit)) }
        }
    }
}

/// What the confirming stretch of a limit came to, at which rate and for how long: R* itself, or only a lower rate.
fn longer_stretch(run: &Run, limit: &LimitResult) -> Markup {
    let Some(stretch) = super::confirmation(run, limit) else {
        return html! { "not confirmed: there was none" };
    };
    let rate = words::rate_in(limit.unit(), limit.rate_hz.estimate);
    html! {
        @if !stretch.held { "not confirmed: " }
        @else if !stretch.is_near(&limit.rate_hz) { (rate) " was not confirmed, a lower rate was: " }
        (words::count(stretch.failed)) " of " (words::count(stretch.requests)) " failed"
        br;
        small { "p95 " (words::ms(stretch.p95_ms)) " at " (words::rate_in(stretch.unit, stretch.offered_hz)) (stretch.length())
            "; limited by " (limit.bound_by) }
        @if let Some(machine) = crate::subjects::limits::machine_speed(limit) { br; small { (words::sentence(&machine)) } }
    }
}

fn kept(run: &Run) -> Markup {
    let kept: Vec<_> = run
        .decisions
        .iter()
        .filter(|decision| decision.kept)
        .collect();
    if kept.is_empty() {
        return html! {};
    }
    html! {
        h2 class="small" { "What was changed" }
        ol class="kept" {
            @for decision in kept {
                li {
                    code { (decision.effect.change) } " "
                    @for setting in &decision.settings { br; (words::owners_setting(setting)) } br;
                    span class="side" { (decision.code) ", " (decision.effect.quantity) " "
                        (words::factor(&decision.effect))
                        @if changes::is_uncertain(run, decision) { ", " (changes::NOT_CERTAIN) } }
                }
            }
        }
    }
}

fn conditions(run: &Run, summary: &Summary) -> Markup {
    html! {
        dl class="facts" {
            @if let Some(slo) = &summary.slo { dt { "SLO" } dd { (words::units_tied(slo)) } }
            @if let Some((code, title)) = &summary.bound_by { dt { (if crate::subjects::is_compared(run) { "Limited at first by" } else { "Limited by" }) } dd { (code) " " (title) } }
            @if let Some(now) = &summary.limited_now { dt { "Limited now by" } dd { (now) } }
            @if let Some(now) = &summary.bound_now { dt { "Where time goes" } dd { (now) } }
            @if let Some(next) = super::next(run) { dt { "Next" } dd { (next) } }
            @if run.machine.cores > 0 { dt { "Machine" } dd { (machine(run)) } }
            dt { "Measured" }
            dd {
                (words::counted(summary.trials as u64, "step", "steps")) ", "
                (words::counted(summary.requests, "request", "requests")) ", "
                (words::duration(summary.load_s)) " under load"
            }
        }
    }
}

/// The machine in a line: cores, memory, model, kernel.
pub(crate) fn machine(run: &Run) -> String {
    let machine = &run.machine;
    let mut parts = vec![machine.cores_in_words()];
    if machine.memory_bytes > 0 {
        parts.push(units::format_bytes(machine.memory_bytes));
    }
    if !machine.cpu.is_empty() {
        parts.push(machine.cpu.clone());
    }
    match machine.kernel.as_str() {
        "" => {}
        release if release.starts_with(|first: char| first.is_ascii_digit()) => {
            parts.push(format!("Linux {release}"));
        }
        other => parts.push(other.to_owned()),
    }
    if machine.shared_with_generator {
        parts.push("shared with the generator".into());
    }
    parts.join(", ")
}
