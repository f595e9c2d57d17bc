//! A replayed field report: what it tells, what was found without being told, and both side by side.

use crate::html::Section;
use crate::html::axis::Axis;
use crate::html::plot::Plot;
use crate::subjects::replay;
use crate::tables::html::draw;
use crate::words;
use kneepoint_model::Run;
use kneepoint_model::replay::{Sockets, Stage};
use maud::{Markup, html};

/// The report; `None` where none was replayed.
pub(crate) fn section(run: &Run) -> Option<Section> {
    let it = run.replay.as_ref()?;
    Some(Section {
        id: "replay",
        title: "The report, replayed",
        body: html! {
            p { (it.told) }
            h3 { "What was found without being told" }
            dl class="facts" {
                @for (name, text) in replay::causes(it) { dt { (name) } dd { (text) } }
            }
            @for it in replay::tables(it) { (draw(&it)) }
            @for (nth, (stage, sockets)) in with_sockets(&it.stages).enumerate() {
                figure {
                    figcaption {
                        (stage.name) ": sockets of " (sockets.layer) " towards " (sockets.peer)
                    }
                    (plot(nth, stage, sockets))
                    ul class="legend" {
                        @for (class, name) in [("base", "closed, in TIME_WAIT"), ("best", "open")] {
                            li { span class={ "key " (class) } {} (name) }
                        }
                    }
                }
            }
            h3 { "What was done" }
            dl class="facts" {
                @for (name, text) in replay::steps(it) { dt { (name) } dd { (text) } }
            }
            h3 { "Where it differs, and why" }
            ul { @for note in replay::notes(it) { li { (note) } } }
        },
    })
}

/// Stages that held sockets enough to be worth a picture.
fn with_sockets(stages: &[Stage]) -> impl Iterator<Item = (&Stage, &Sockets)> {
    const WORTH: f64 = 500.0;
    let with = stages
        .iter()
        .filter_map(|stage| Some((stage, stage.sockets.as_ref()?)));
    with.filter(|(_, sockets)| sockets.most() >= WORTH && sockets.time_wait.len() > 1)
}

/// Connections closed a while ago and open ones over time, below the ports there are.
fn plot(nth: usize, stage: &Stage, sockets: &Sockets) -> Markup {
    let end_s = sockets
        .time_wait
        .last()
        .map_or(1.0, |(at_s, _)| at_s.max(1.0));
    let near = sockets
        .port_range
        .filter(|range| *range < 3.0 * sockets.most());
    let top = sockets.most().max(near.unwrap_or(0.0));
    let plot = Plot {
        x: Axis::from_zero([end_s]),
        y: Axis::from_zero([top]),
        x_label: "seconds of load",
        y_label: "sockets",
        x_text: |value| format!("{value:.0}"),
        y_text: |value| words::count(value as u64),
        x_ticks: None,
    };
    let marks = html! {
        @if let Some(range) = near { (plot.level(range, "local ports")) }
        (plot.line("base", &sockets.time_wait))
        (plot.line("best", &sockets.established))
    };
    let most = words::count(sockets.most() as u64);
    let described = format!("At most {most} ports were taken at {}.", stage.name);
    plot.draw(
        &format!("sockets-{nth}"),
        "Sockets over time",
        &described,
        &marks,
    )
}
