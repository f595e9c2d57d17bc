//! Inside the workers: where they spend their time, and what each request does.

use super::flame;
use crate::html::Section;
use crate::subjects::inside::{self, List, Total};
use crate::subjects::{arm_name, tone};
use crate::words;
use kneepoint_model::{CallTrace, Run, SlowRequests, StackProfile};
use maud::{Markup, html};

/// Flame graphs and calls; `None` when nobody looked. With another run, its latest graph is what each is told from;
/// without, the first configuration of this one.
pub(crate) fn section(run: &Run, against: Option<&Run>) -> Option<Section> {
    let other = against.and_then(|other| Some((other.stacks.last()?, format!("in {}", other.id))));
    let stacks = latest(&run.stacks, |stacks| &stacks.arm);
    let calls = latest(&run.calls, |calls| &calls.arm);
    if stacks.is_empty() && calls.is_empty() {
        return None;
    }
    Some(Section {
        id: "inside",
        title: "Inside the workers",
        body: html! {
            @for profile in &stacks {
                @let first = stacks.first().filter(|first| first.arm != profile.arm);
                @let before = first.map(|first| (*first, "before".to_owned()));
                (profile_figure(run, profile, other.clone().or(before)))
            }
            @if !calls.is_empty() { (calls_tables(run, &calls)) }
        },
    })
}

/// Whether there is a flame graph.
pub(crate) fn has_graph(run: &Run) -> bool {
    let mut accounts = run.accounts.iter().flat_map(|account| &account.native);
    run.stacks.iter().any(|stacks| stacks.samples() > 0)
        || accounts.any(|native| !native.kernel.is_empty())
}

/// The latest of the first configuration and of the last, when that is another.
fn latest<T>(all: &[T], arm: impl Fn(&T) -> &String) -> Vec<&T> {
    let first = all
        .iter()
        .rev()
        .find(|one| arm(one) == "base")
        .or_else(|| all.first());
    let last = all
        .last()
        .filter(|last| first.is_some_and(|first| arm(first) != arm(last)));
    first.into_iter().chain(last).collect()
}

fn profile_figure(
    run: &Run,
    profile: &StackProfile,
    other: Option<(&StackProfile, String)>,
) -> Markup {
    let samples = profile.samples();
    let waiting = profile
        .stacks
        .iter()
        .filter(|stack| profile.wait_of(stack).is_some());
    let waiting: u64 = waiting.map(|stack| stack.count).sum();
    html! {
        figure class={ "flame-figure " (tone(&profile.arm)) } {
            h3 { "Where the workers are, " (arm_name(run, &profile.arm)) }
            p class="caption" {
                (profile.php) ", " (words::counted(samples, "stack", "stacks")) " sampled " (profile.rate_hz)
                " times a second for each worker at load beyond the limit (" (words::count(profile.salvaged))
                " salvaged, " (words::count(profile.error)) " failed). Width is wall time, of which "
                (words::share(waiting as f64 / samples.max(1) as f64))
                " is waiting: grey, with what for in brackets. Click to zoom."
                @if let Some((_, whose)) = &other { " Orange is a larger share of the time than " (whose) ", blue a smaller one." }
            }
            @if samples > 0 { (flame::graph(profile, other.as_ref().map(|(other, whose)| (*other, whose.as_str())))) }
            @for note in &profile.notes { p class="caption" { (note) } }
        }
        @if let Some(slow) = &profile.slow { (slow_requests(slow, arm_name(run, &profile.arm))) }
    }
}

/// Most places of the slowest requests that are shown.
const SLOW_PLACES: usize = 8;

fn slow_requests(slow: &SlowRequests, arm: &str) -> Markup {
    let (of_slow, of_all) = slow.samples;
    let (requests, all) = slow.requests;
    let share = |count: u64, of: u64| words::share(count as f64 / of.max(1) as f64);
    html! {
        h3 { "The slowest requests near R*, " (arm) }
        p class="caption" {
            "The " (words::count(requests)) " slowest of " (words::count(all)) " requests took "
            (words::ms(Some(slow.above_ms))) " or more. Where their workers were met meanwhile, beside those of all \
            requests (" (words::count(of_slow)) " and " (words::count(of_all)) " stacks)."
            @if of_slow == 0 { " None was met in a worker: they were slow before one took them, or too short to be met." }
        }
        @if of_slow > 0 {
            div class="scroll" { table {
                thead { tr {
                    th scope="col" class="num" { "slowest" }
                    th scope="col" class="num" { "all" }
                    th scope="col" { "where" }
                } }
                tbody {
                    @for met in slow.met.iter().take(SLOW_PLACES) {
                        tr {
                            td class="num" { (share(met.slow, of_slow)) }
                            td class="num" { (share(met.all, of_all)) }
                            td {
                                code { (met.place) }
                                @if let Some(wait) = &met.wait { " waiting: " (wait) }
                                br; small { (met.route) }
                            }
                        }
                    }
                }
            } }
        }
    }
}

fn calls_tables(run: &Run, calls: &[&CallTrace]) -> Markup {
    html! {
        h3 { "What a request does" }
        p class="caption" {
            @for (nth, trace) in calls.iter().enumerate() {
                @if nth > 0 { "; " }
                (words::sentence(arm_name(run, &trace.arm))) ": " (inside::traced(trace))
            }
            ". Every system call was counted at low load; nothing here was timed."
        }
        div class="scroll" { (totals_table(run, calls)) }
        @for trace in calls {
            @let lists = inside::lists(trace);
            @if !lists.is_empty() {
                details class={ "calls " (tone(&trace.arm)) } {
                    summary { "The most frequent calls, " (arm_name(run, &trace.arm)) }
                    @for list in &lists { (list_table(list)) }
                }
            }
        }
    }
}

fn totals_table(run: &Run, calls: &[&CallTrace]) -> Markup {
    let totals: Vec<Vec<Total>> = calls.iter().map(|trace| inside::totals(trace)).collect();
    let mut names: Vec<&str> = Vec::new();
    for total in totals.iter().flatten() {
        if !names.contains(&total.name) {
            names.push(total.name);
        }
    }
    let cell = |of: &[Total], name: &str| {
        of.iter().find(|total| total.name == name).map_or_else(
            || "0".to_owned(),
            |total| {
                let failed = match total.failed {
                    failed if failed > 0.0 => format!(" + {} failed", inside::times(failed)),
                    _ => String::new(),
                };
                format!("{}{failed}", inside::times(total.each))
            },
        )
    };
    html! {
        table {
            thead { tr {
                th scope="col" { "For each request" }
                @for trace in calls { th scope="col" class="num" { (arm_name(run, &trace.arm)) } }
            } }
            tbody {
                @for name in names {
                    tr {
                        th scope="row" { (name) }
                        @for of in &totals { td class="num" { (cell(of, name)) } }
                    }
                }
            }
        }
    }
}

fn list_table(list: &List) -> Markup {
    html! {
        table class="call-list" {
            caption { (list.title) }
            tbody {
                @for row in &list.rows {
                    tr {
                        td class="num" { (inside::times(row.each)) }
                        td { code { (row.what) } br; small { (row.details) } }
                    }
                }
                @if list.more > 0 { tr { td {} td { small { "and " (list.more) " more" } } } }
            }
        }
    }
}
