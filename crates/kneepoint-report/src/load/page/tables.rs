//! Tables of the page of a load.

use crate::load::{LoadHop, LoadRun, QUANTILES};
use crate::words;
use kneepoint_model::{LoadPoint, Outcome, units};
use maud::{Markup, html};

/// Every target with the numbers that say it in one line.
pub(super) fn hops(run: &LoadRun) -> Markup {
    html! {
        div class="scroll" tabindex="0" {
            table class="hops" {
                thead { tr {
                    th scope="col" { "target" }
                    @for name in ["offered", "good", "p50", "p95", "p99", "failed"] { th scope="col" class="num" { (name) } }
                } }
                tbody { @for hop in &run.hops { (hop_row(hop)) } }
            }
        }
    }
}

fn hop_row(hop: &LoadHop) -> Markup {
    let point = &hop.point;
    let ms = |quantile| words::ms(point.response.quantile_ms(quantile)).replace("no response", "-");
    html! {
        tr {
            th scope="row" { (hop.name) }
            td class="num" { (words::rate(point.arrivals as f64 / point.window_s.max(1e-3))) }
            td class="num" { strong { (words::rate(point.goodput_hz())) } }
            @for quantile in [0.5, 0.95, 0.99] { td class="num" { (ms(quantile)) } }
            td class="num" { (words::count(point.outcomes.failed())) }
        }
    }
}

/// Quantiles of response and service time.
pub(super) fn quantiles(hop: &LoadHop, whose: &str) -> Markup {
    let (response, service) = (&hop.point.response, &hop.point.service);
    let row = |name: &str, of_response: Option<f64>, of_service: Option<f64>| {
        html! { tr {
            th scope="row" { (name) }
            td class="num" { (words::ms(of_response)) }
            td class="num" { (words::ms(of_service)) }
        } }
    };
    html! { figure { table {
        caption { "Times of ok requests" (whose) ": response from the intended start, service from the send" }
        thead { tr {
            th scope="col" { span class="hidden" { "quantile" } }
            th scope="col" class="num" { "response" }
            th scope="col" class="num" { "service" }
        } }
        tbody {
            (row("mean", response.mean_ms(), service.mean_ms()))
            @for (name, share) in QUANTILES { (row(name, response.quantile_ms(share), service.quantile_ms(share))) }
            (row("max", response.max_ms(), service.max_ms()))
        }
    } } }
}

/// How requests ended, with which statuses, and examples of what went wrong.
pub(super) fn outcomes(hop: &LoadHop, whose: &str) -> Markup {
    let point = &hop.point;
    let ended = Outcome::ALL
        .into_iter()
        .map(|outcome| (outcome.name().to_owned(), point.outcomes.of(outcome)));
    let statuses = point
        .outcomes
        .by_status
        .iter()
        .map(|(status, count)| (format!("status {status}"), *count));
    html! { figure {
        table {
            caption { "Outcomes and statuses" (whose) }
            thead { tr {
                th scope="col" { span class="hidden" { "outcome" } }
                th scope="col" class="num" { "requests" }
                th scope="col" class="num" { "share" }
            } }
            tbody {
                @for (name, count) in ended.filter(|ended| ended.1 > 0).chain(statuses) { (count_row(point, &name, count)) }
            }
        }
        @if !point.examples.is_empty() {
            h3 { "Examples of what went wrong" (whose) }
            ul { @for example in &point.examples { li { code { (example) } } } }
        }
    } }
}

fn count_row(point: &LoadPoint, name: &str, count: u64) -> Markup {
    html! { tr {
        th scope="row" { (name) }
        td class="num" { (words::count(count)) }
        td class="num" { (words::share(count as f64 / point.arrivals.max(1) as f64)) }
    } }
}

/// What the generator says of itself, a row a target.
pub(super) fn generator(run: &LoadRun) -> Markup {
    const COLUMNS: [&str; 7] = [
        "sent in time",
        "send lag p50",
        "send lag p99",
        "most waiting",
        "CPU, of a core",
        "connections opened",
        "received",
    ];
    html! { table class="hops" {
        thead { tr {
            th scope="col" { "target" }
            @for name in COLUMNS { th scope="col" class="num" { (name) } }
        } }
        tbody { @for hop in &run.hops {
            @let health = &hop.point.health;
            tr {
                th scope="row" { (hop.name) }
                td class="num" { (words::share(health.achieved_share)) }
                td class="num" { (words::ms(Some(health.send_lag_p50_ms))) }
                td class="num" { (words::ms(Some(health.send_lag_p99_ms))) }
                td class="num" { (words::count(health.backlog_max)) }
                td class="num" { (words::share(health.cpu_share)) }
                td class="num" { (words::count(hop.point.connections_opened)) }
                td class="num" { (units::format_bytes(hop.point.bytes_received)) }
            }
        } }
    } }
}
