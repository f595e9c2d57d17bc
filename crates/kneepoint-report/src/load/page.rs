//! The page of a load that was asked for by itself: its numbers, how they went over time, how they are spread,
//! and how requests ended.

mod charts;
mod tables;

use crate::html::{Document, Section, document, notes, percent_encoded};
use crate::load::{LoadHop, LoadRun, seconds_csv};
use crate::tables::generators as several;
use crate::tables::html::draw;
use crate::words;
use kneepoint_model::Validity;
use maud::{Markup, html};

/// The whole page.
pub(crate) fn load_page(run: &LoadRun) -> String {
    let sections: Vec<Section> = [
        over_time(run),
        spread(run),
        outcomes(run),
        Some(conditions(run)),
    ]
    .into_iter()
    .flatten()
    .collect();
    let names: Vec<String> = run.hops.iter().map(|hop| hop.name.clone()).collect();
    document(&Document {
        title: &format!("Kneepoint load: {}", words::listed(&names)),
        tool_version: &run.tool_version,
        header: header(run),
        sections: &sections,
        footer: &format!("Kneepoint {}", run.tool_version),
        script: None,
    })
}

fn header(run: &LoadRun) -> Markup {
    let length: f64 = run.hops.iter().map(|hop| hop.point.window_s).sum();
    let parts = [
        "Kneepoint load".to_owned(),
        words::moment(&run.started_at),
        words::duration(length),
    ];
    let known: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    html! {
        header {
            p class="kicker" { (known.join(" · ")) }
            h1 { (headline(run)) }
            (tables::hops(run))
            dl class="facts" {
                @for hop in &run.hops { (asked(run, hop)) }
                @if let Some(hop) = run.hops.first() {
                    dt { "Good" }
                    dd {
                        "answered as expected within " (words::ms(Some(hop.slo.response_time.as_secs_f64() * 1e3)))
                        " of the intended start; given up after " (words::ms(Some(hop.slo.timeout.as_secs_f64() * 1e3)))
                    }
                }
            }
            @for hop in &run.hops { (doubts(run, hop)) (held(run, hop)) (sent_again(run, hop)) }
            @if run.interrupted { p class="caption" { "A person ended this load before its time." } }
        }
    }
}

/// The name of a target where there are several.
fn whose(run: &LoadRun, hop: &LoadHop) -> String {
    if run.hops.len() > 1 {
        format!(" of {}", hop.name)
    } else {
        String::new()
    }
}

fn headline(run: &LoadRun) -> String {
    let holds = |hop: &&LoadHop| hop.point.validity.is_valid();
    match run.hops.iter().filter(holds).count() {
        0 if !run.hops.is_empty() => {
            return "These numbers tell of the generator, not of the server".into();
        }
        some if some < run.hops.len() => return "Not every number here holds".into(),
        _ => {}
    }
    match run.hops.as_slice() {
        [] => "Nothing was loaded".into(),
        [hop] => {
            let point = &hop.point;
            let failed = match point.outcomes.failed() {
                0 => "nothing failed".to_owned(),
                n => format!(
                    "{} of requests failed ({})",
                    words::share(point.error_share()),
                    words::count(n)
                ),
            };
            format!(
                "Answered {} requests per second, p95 {}, {failed}",
                words::rate(point.throughput_hz()).trim_end_matches("/s"),
                words::ms(point.response.quantile_ms(0.95)),
            )
        }
        hops => format!("{} targets under the same load", hops.len()),
    }
}

fn asked(run: &LoadRun, hop: &LoadHop) -> Markup {
    const MOST: usize = 8;
    let more = hop.requests.len().saturating_sub(MOST);
    html! {
        dt { @if run.hops.len() > 1 { (hop.name) } @else { "Load" } }
        dd {
            (hop.plan) br;
            @for (at, request) in hop.requests.iter().take(MOST).enumerate() {
                @if at > 0 { ", " }
                code { (request) }
            }
            @if more > 0 { " and " (more) " more" }
        }
    }
}

fn held(run: &LoadRun, hop: &LoadHop) -> Markup {
    let held: Vec<String> = hop
        .judgements
        .iter()
        .filter(|(_, judged)| judged.held)
        .map(|(_, judged)| judged.sentence.clone())
        .collect();
    html! {
        @if !held.is_empty() {
            p class="caption" { "Thresholds that held" (whose(run, hop)) ": " (held.join("; ")) "." }
        }
    }
}

/// Requests whose kept connection was closed meanwhile: few are no fault, many are.
fn sent_again(run: &LoadRun, hop: &LoadHop) -> Markup {
    let count = hop.point.sent_again;
    html! {
        @if count > 0 {
            p class="caption" {
                "Requests that went out once more" (whose(run, hop)) ", since the server had closed their kept connection \
                 without an answer: " (words::count(count)) "."
            }
        }
    }
}

fn doubts(run: &LoadRun, hop: &LoadHop) -> Markup {
    let broken: Vec<String> = hop.broken().map(str::to_owned).collect();
    html! {
        (notes(&format!("Thresholds that did not hold{}", whose(run, hop)), &broken))
        @if let Some(because) = &hop.point.stopped_because {
            (notes(&format!("Ended early{}", whose(run, hop)), std::slice::from_ref(because)))
        }
        (notes(&format!("Doubts{}", whose(run, hop)), &hop.point.doubts))
        (invalid(run, hop))
    }
}

fn invalid(run: &LoadRun, hop: &LoadHop) -> Markup {
    match &hop.point.validity {
        Validity::Valid => html! {},
        Validity::Invalid { because } => {
            let title = match run.hops.len() {
                1 => "Invalid, not slow".to_owned(),
                _ => format!("{}: invalid, not slow", hop.name),
            };
            notes(&title, because)
        }
    }
}

/// Figures of every target, in pairs.
fn figures(run: &LoadRun, draw: impl Fn(&LoadHop, &charts::Place<'_>) -> Markup) -> Markup {
    html! {
        @for (index, hop) in run.hops.iter().enumerate() {
            @let whose = whose(run, hop);
            (draw(hop, &charts::Place { index, whose: &whose }))
        }
    }
}

fn over_time(run: &LoadRun) -> Option<Section> {
    run.hops
        .iter()
        .any(|hop| !hop.point.seconds.is_empty())
        .then(|| Section {
            id: "time",
            title: "How it went over time",
            body: html! {
                div class="pair" {
                    (figures(run, charts::rates))
                    (figures(run, charts::quantiles))
                }
            },
        })
}

fn spread(run: &LoadRun) -> Option<Section> {
    run.hops
        .iter()
        .any(|hop| hop.point.response.count() > 0)
        .then(|| Section {
            id: "spread",
            title: "How response times are spread",
            body: html! {
                div class="pair" {
                    (figures(run, charts::distribution))
                    (figures(run, charts::percentiles))
                    (figures(run, |hop, place| tables::quantiles(hop, place.whose)))
                }
            },
        })
}

fn outcomes(run: &LoadRun) -> Option<Section> {
    run.hops
        .iter()
        .any(|hop| hop.point.arrivals > 0)
        .then(|| Section {
            id: "outcomes",
            title: "How requests ended",
            body: html! {
                div class="pair" { (figures(run, |hop, place| tables::outcomes(hop, place.whose))) }
            },
        })
}

fn conditions(run: &LoadRun) -> Section {
    let csv = seconds_csv(run);
    Section {
        id: "conditions",
        title: "What the numbers rest on",
        body: html! {
            p class="caption" {
                "The generator measures itself. Past a gate a load is invalid, never slow: the reason and what to \
                 do stand at the head of the page."
            }
            div class="scroll" tabindex="0" { (tables::generator(run)) }
            @if let Some(table) = several::table(run.hops.iter().map(|hop| &hop.point)) { (draw(&table)) }
            h3 { "Raw numbers" }
            p {
                a download="load.csv" href={ "data:text/csv;charset=utf-8," (percent_encoded(&csv)) } {
                    "Download every second as CSV"
                }
                ". It is inside this page."
            }
            details {
                summary { "Show it" }
                pre class="scroll raw" tabindex="0" { (csv) }
            }
        },
    }
}
