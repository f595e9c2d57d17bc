//! The live view of a load, written anew five times a second.

use super::moment::Moment;
use crate::progress::minutes;
use crate::screen::Screen;
use console::{Style, truncate_str};
use kneepoint_model::units::{format_ms, format_rate};
use std::collections::VecDeque;

/// Seconds that are remembered: more than the widest terminal shows.
const MOST_SECONDS: usize = 500;
/// Widest bar and widest sparkline.
const WIDEST: usize = 100;
/// Width of a cell, and of the names before them.
const CELL: usize = 11;
const NAME: usize = 14;

/// The view of one load.
pub(super) struct Live {
    name: String,
    history: History,
    screen: Screen,
}

impl Live {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            history: History::default(),
            screen: Screen::new(),
        }
    }

    /// Shows a moment.
    pub(super) fn tell(&mut self, moment: &Moment) {
        self.history.add(moment);
        let lines = lines(&self.name, moment, &self.history, self.screen.columns());
        self.screen.draw(&lines);
    }
}

/// One value a second.
#[derive(Debug, Default)]
struct History {
    second: Option<u64>,
    good_hz: VecDeque<Option<f64>>,
    p95_ms: VecDeque<Option<f64>>,
}

impl History {
    fn add(&mut self, moment: &Moment) {
        if self.second == Some(moment.second()) {
            return;
        }
        self.second = Some(moment.second());
        self.good_hz.push_back(Some(moment.good_hz));
        self.p95_ms.push_back(moment.p95_ms);
        if self.good_hz.len() > MOST_SECONDS {
            self.good_hz.pop_front();
            self.p95_ms.pop_front();
        }
    }
}

/// The lines of the view, no wider than the terminal.
fn lines(name: &str, moment: &Moment, history: &History, columns: usize) -> Vec<String> {
    let width = columns.saturating_sub(1).max(1);
    let bold = style().bold();
    let faint = style().dim();
    let failed: u64 = moment.recent.failed();
    let ms = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), format_ms);
    let cells = |name: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>CELL$}")).collect();
        format!("{name:<NAME$}{cells}")
    };
    let names = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        faint.apply_to(cells("", &names)).to_string()
    };
    let rates = [
        format_rate(moment.wanted_hz),
        format_rate(moment.offered_hz),
        format_rate(moment.ok_hz),
        format_rate(moment.good_hz),
        failed.to_string(),
    ];
    let times = [ms(moment.p50_ms), ms(moment.p95_ms), ms(moment.p99_ms)];
    let errors = match failed {
        0 => style().green().apply_to("none".to_owned()),
        _ => style().yellow().apply_to(moment.errors()),
    };
    let lines = [
        format!("{}  {}", bold.apply_to(name), clock(moment)),
        bar(moment, width.min(WIDEST)),
        names(&["scheduled", "offered", "ok", "good", "failed"]),
        cells("last second", &rates),
        names(&["p50", "p95", "p99"]),
        cells("response", &times),
        sparkline("good", &history.good_hz, width, format_rate),
        sparkline("p95", &history.p95_ms, width, format_ms),
        format!("{:<NAME$}   {errors}", "errors"),
        format!(
            "{:<NAME$}   {} so far, {} failed, {} under way",
            "requests", moment.requests, moment.failed, moment.under_way
        ),
        format!(
            "{:<NAME$}   {} open, {} requests wait for one",
            "connections", moment.connections, moment.waiting
        ),
    ];
    let cut = |line: &String| truncate_str(line, width, "…").into_owned();
    lines.iter().map(cut).collect()
}

fn style() -> Style {
    Style::new().for_stderr()
}

fn clock(moment: &Moment) -> String {
    let left = moment.total.saturating_sub(moment.elapsed);
    if left.is_zero() {
        return "waiting for the last answers".to_owned();
    }
    format!(
        "{} of {}, {} left",
        minutes(moment.elapsed),
        minutes(moment.total),
        minutes(left)
    )
}

fn bar(moment: &Moment, width: usize) -> String {
    let share = moment.elapsed.as_secs_f64() / moment.total.as_secs_f64().max(1e-9);
    let done = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    format!(
        "{}{}",
        style().green().apply_to("━".repeat(done)),
        style().dim().apply_to("─".repeat(width - done))
    )
}

/// The heights a character can have.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The last seconds from zero to the largest of them, which stands behind.
fn sparkline(
    name: &str,
    values: &VecDeque<Option<f64>>,
    width: usize,
    unit: fn(f64) -> String,
) -> String {
    let room = width.saturating_sub(NAME + 3 + 16).clamp(1, WIDEST);
    let shown: Vec<Option<f64>> = values
        .iter()
        .skip(values.len().saturating_sub(room))
        .copied()
        .collect();
    let most = shown.iter().flatten().copied().fold(0.0, f64::max);
    let height = |value: f64| {
        let step = if most > 0.0 { value / most * 7.0 } else { 0.0 };
        HEIGHTS[(step.round() as usize).min(7)]
    };
    let drawn: String = shown
        .iter()
        .map(|value| value.map_or(' ', height))
        .collect();
    format!(
        "{name:<NAME$}   {} {}",
        style().cyan().apply_to(drawn),
        style().dim().apply_to(match most {
            0.0 => String::new(),
            most => format!("max {}", unit(most)),
        })
    )
}

#[cfg(test)]
mod tests {
    use super::super::moment::tests::moment;
    use super::*;
    use console::measure_text_width;
    use expect_test::{Expect, expect};

    fn check(columns: usize, expected: Expect) {
        let mut history = History::default();
        for (second, p95_ms) in [(1, Some(2.0)), (2, None), (3, Some(16.0)), (5, Some(12.5))] {
            let mut moment = moment();
            moment.elapsed = std::time::Duration::from_secs(second);
            moment.good_hz = 100.0 * second as f64;
            moment.p95_ms = p95_ms;
            history.add(&moment);
            history.add(&moment);
        }
        let told = lines("http://127.0.0.1/", &moment(), &history, columns);
        for line in &told {
            assert!(measure_text_width(line) < columns, "{line}");
        }
        let plain = console::strip_ansi_codes(&told.join("\n")).into_owned();
        expected.assert_eq(&plain);
    }

    #[test]
    fn the_view_tells_rates_times_errors_and_their_course() {
        check(
            80,
            expect![[r#"
            http://127.0.0.1/  5 s of 10 s, 4 s left
            ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━──────────────────────────────────────
                            scheduled    offered         ok       good     failed
            last second         500/s      499/s      490/s      480/s          4
                                  p50        p95        p99
            response          1.25 ms    12.5 ms          -
            good             ▂▄▅█ max 500/s
            p95              ▂ █▆ max 16.0 ms
            errors           timeout 3, refused 1
            requests         2600 so far, 8 failed, 12 under way
            connections      7 open, 2 requests wait for one"#]],
        );
    }

    #[test]
    fn a_narrow_terminal_cuts_lines_and_wraps_none() {
        check(
            24,
            expect![[r#"
            http://127.0.0.1/  5 s…
            ━━━━━━━━━━━━───────────
                            schedu…
            last second         50…
                                  …
            response          1.25…
            good             █ max…
            p95              █ max…
            errors           timeo…
            requests         2600 …
            connections      7 ope…"#]],
        );
    }
}
