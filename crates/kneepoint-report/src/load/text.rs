//! A load for a person at a terminal: what was sent, how it was answered, how long that took, and whether the
//! numbers hold. Of several targets the numbers stand side by side.

use super::{LoadHop, LoadRun, QUANTILES, bins};
use crate::Styles;
use crate::tables::generators::is_known;
use crate::text::{Page, Style, visible};
use kneepoint_model::units::{format_bytes, format_ms, format_rate, format_share};
use kneepoint_model::{LatencyHistogram, LoadPoint, Outcome, Validity};

/// Width of the column of names, and of one of the two columns each target has.
const NAME: usize = 24;
const CELL: usize = 14;
/// Least width of the page, and the width of the longest bar.
const WIDTH: usize = 96;
const BAR: usize = 40;

/// The whole text.
pub(super) fn text(run: &LoadRun, styles: Styles) -> String {
    let width = WIDTH.max(NAME + 2 * CELL * run.hops.len());
    let mut page = Page::new(width, styles);
    for hop in &run.hops {
        head(&mut page, run, hop);
    }
    if run.hops.len() > 1 {
        names(&mut page, run);
    }
    counts(&mut page, run);
    times(&mut page, run);
    generator(&mut page, run);
    for hop in &run.hops {
        generators(&mut page, hop);
    }
    for hop in &run.hops {
        distribution(&mut page, run, hop);
        outcomes(&mut page, run, hop);
    }
    for hop in &run.hops {
        thresholds(&mut page, run, hop);
        validity(&mut page, run, hop);
    }
    page.finish()
}

/// The name of a target where there are several.
fn whose(run: &LoadRun, hop: &LoadHop) -> String {
    if run.hops.len() > 1 {
        format!(" of {}", hop.name)
    } else {
        String::new()
    }
}

fn head(page: &mut Page, run: &LoadRun, hop: &LoadHop) {
    let point = &hop.point;
    page.columns(&[], &hop.name, Some(Style::Strong));
    let ended = match (run.interrupted, point.aborted) {
        (true, _) => ", ended by you",
        (false, true) => ", ended early by its rule",
        (false, false) => "",
    };
    let text = format!(
        "{}; {}; {} requests in {:.1} s{ended}",
        asked(hop),
        hop.plan,
        point.arrivals,
        point.window_s
    );
    page.columns(&[("", 2, None)], &text, None);
    if let Some(visits) = &point.sessions {
        let text = format!(
            "visits: {} begun, {} completed, {} broken off by a request that failed",
            visits.started, visits.completed, visits.broken_off
        );
        page.columns(&[("", 2, None)], &text, None);
    }
    for doubt in &point.doubts {
        page.columns(
            &[("", 2, None)],
            &format!("doubt: {doubt}"),
            Some(Style::Alert),
        );
    }
    if let Some(because) = &point.stopped_because {
        let text = format!("ended early: {because}");
        page.columns(&[("", 2, None)], &text, Some(Style::Alert));
    }
}

/// The requests, the first few by name.
fn asked(hop: &LoadHop) -> String {
    let first: Vec<&str> = hop.requests.iter().map(String::as_str).take(4).collect();
    match hop.requests.len().saturating_sub(first.len()) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

fn names(page: &mut Page, run: &LoadRun) {
    page.blank();
    let cells: Vec<String> = run
        .hops
        .iter()
        .map(|hop| format!("{:>26}", shorten(&visible(&hop.name), 26)))
        .collect();
    row(page, "", &cells, 2 * CELL, Some(Style::Strong));
}

/// One line: a name, and cells of a width with their text at the right.
fn row(page: &mut Page, name: &str, cells: &[String], width: usize, style: Option<Style>) {
    let line: String = cells.iter().map(|cell| format!("{cell:>width$}")).collect();
    // One cell with blanks of its own: the page would cut a column that is full to the edge.
    let padded = format!("{name:<NAME$}{line}");
    page.columns(&[(&padded, padded.chars().count() + 1, style)], "", None);
}

/// A line with two cells a target.
fn pairs(
    page: &mut Page,
    run: &LoadRun,
    name: &str,
    cells: impl Fn(&LoadHop) -> [String; 2],
    style: Option<Style>,
) {
    let cells: Vec<String> = run.hops.iter().flat_map(cells).collect();
    row(page, name, &cells, CELL, style);
}

/// A line with one cell a target, under the second of its two columns.
fn singles(page: &mut Page, run: &LoadRun, name: &str, cell: impl Fn(&LoadPoint) -> String) {
    let cells: Vec<String> = run.hops.iter().map(|hop| cell(&hop.point)).collect();
    row(page, name, &cells, 2 * CELL, None);
}

fn counts(page: &mut Page, run: &LoadRun) {
    page.blank();
    let title = |_: &LoadHop| ["per second".to_owned(), "requests".to_owned()];
    pairs(page, run, "", title, Some(Style::Faint));
    let per_second = |hop: &LoadHop, count: u64| {
        let s = hop.point.window_s;
        format_rate(if s > 0.0 { count as f64 / s } else { 0.0 })
    };
    let mut line = |name: &str, style, count: &dyn Fn(&LoadHop) -> u64| {
        let cells = |hop: &LoadHop| [per_second(hop, count(hop)), count(hop).to_string()];
        pairs(page, run, name, cells, style);
    };
    let failed = |hop: &LoadHop| hop.point.outcomes.failed();
    let alert = run.hops.iter().any(|hop| failed(hop) > 0);
    let within = run.hops.first().map_or_else(String::new, |hop| {
        format_ms(hop.slo.response_time.as_secs_f64() * 1e3)
    });
    line("offered", None, &|hop| hop.point.arrivals);
    line("ok", None, &|hop| hop.point.outcomes.of(Outcome::Ok));
    line(&format!("good (in {within})"), None, &|hop| hop.point.good);
    line("failed", alert.then_some(Style::Alert), &failed);
    let received = |hop: &LoadHop| {
        let bytes = hop.point.bytes_received;
        let rate = bytes as f64 / hop.point.window_s.max(1e-3);
        [
            format!("{}/s", format_bytes(rate as u64)),
            format_bytes(bytes),
        ]
    };
    pairs(page, run, "received", received, None);
}

fn times(page: &mut Page, run: &LoadRun) {
    page.blank();
    let title = |_: &LoadHop| ["response".to_owned(), "service".to_owned()];
    pairs(page, run, "times of ok requests", title, Some(Style::Faint));
    let mut line = |name: &str, of: &dyn Fn(&LatencyHistogram) -> Option<f64>| {
        let ms = |times: &LatencyHistogram| of(times).map_or_else(|| "-".to_owned(), format_ms);
        let cells = |hop: &LoadHop| [ms(&hop.point.response), ms(&hop.point.service)];
        pairs(page, run, name, cells, None);
    };
    line("mean", &LatencyHistogram::mean_ms);
    for (name, share) in QUANTILES {
        line(name, &|times| times.quantile_ms(share));
    }
    line("max", &LatencyHistogram::max_ms);
    let closed = run
        .hops
        .iter()
        .any(|hop| hop.point.closed_workers.is_some());
    let legend = if closed {
        "response, service: from the send. A closed loop waits for a slow server: real users would not, and the \
         times they would see are longer (--rate)"
    } else {
        "response: from the intended start, waiting for a connection included; service: from the send"
    };
    page.columns(&[], legend, Some(Style::Faint));
}

fn generator(page: &mut Page, run: &LoadRun) {
    page.blank();
    singles(page, run, "connections opened", |point| {
        point.connections_opened.to_string()
    });
    if run.hops.iter().any(|hop| hop.point.sent_again > 0) {
        singles(page, run, "sent again", |point| {
            point.sent_again.to_string()
        });
    }
    singles(page, run, "most waiting unsent", |point| {
        point.health.backlog_max.to_string()
    });
    singles(page, run, "generator's send lag p99", |point| {
        format_ms(point.health.send_lag_p99_ms)
    });
    singles(page, run, "generator's CPU", |point| {
        format!("{} of a core", format_share(point.health.cpu_share))
    });
}

fn distribution(page: &mut Page, run: &LoadRun, hop: &LoadHop) {
    let bins = bins(&hop.point.response);
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0);
    if most == 0 {
        return;
    }
    page.heading(&format!("response times{}", whose(run, hop)));
    let total = hop.point.response.count() as f64;
    for bin in bins {
        let edge = format!("{:>12}", format!("to {}", format_ms(bin.to_ms)));
        let length = (bin.count as f64 / most as f64 * BAR as f64).round() as usize;
        // A few among millions are still to be seen.
        let bar = "█".repeat(length.max(usize::from(bin.count > 0)));
        let text = format!("{} {}", bin.count, format_share(bin.count as f64 / total));
        let cells = [
            (edge.as_str(), 14, None),
            (bar.as_str(), BAR + 2, Some(Style::Good)),
        ];
        page.columns(&cells, &text, None);
    }
}

fn outcomes(page: &mut Page, run: &LoadRun, hop: &LoadHop) {
    let point = &hop.point;
    if point.arrivals == 0 {
        return;
    }
    page.heading(&format!("outcomes{}", whose(run, hop)));
    let mut line = |name: &str, count: u64, style| {
        let share = format_share(count as f64 / point.arrivals as f64);
        let count = format!("{count:>10}");
        let cells = [("", 2, None), (name, 18, style), (count.as_str(), 13, None)];
        page.columns(&cells, &share, None);
    };
    for outcome in Outcome::ALL {
        let count = point.outcomes.of(outcome);
        if count > 0 {
            let style = (outcome != Outcome::Ok).then_some(Style::Alert);
            line(outcome.name(), count, style);
        }
    }
    for (status, count) in &point.outcomes.by_status {
        line(&format!("status {status}"), *count, None);
    }
    for example in &point.examples {
        page.columns(&[("", 2, None), ("example:", 10, None)], example, None);
    }
}

fn thresholds(page: &mut Page, run: &LoadRun, hop: &LoadHop) {
    if !hop.judgements.is_empty() {
        page.heading(&format!("thresholds{}", whose(run, hop)));
    }
    for (_, judged) in &hop.judgements {
        let (word, style) = if judged.held {
            ("held", Style::Good)
        } else {
            ("BROKEN", Style::Alert)
        };
        let cells = [("", 2, None), (word, 8, Some(style))];
        page.columns(&cells, &judged.sentence, None);
    }
}

/// Each of several generators, with its part and its own health.
fn generators(page: &mut Page, hop: &LoadHop) {
    for part in &hop.point.generators {
        let health = &part.health;
        let (lag, cpu) = if is_known(part) {
            (
                format_ms(health.send_lag_p99_ms),
                format_share(health.cpu_share),
            )
        } else {
            ("-".to_owned(), "-".to_owned())
        };
        let text = format!(
            "agent {}: {} of the load, {} requests, send lag p99 {lag}, {cpu} of a core, start within {}",
            part.name,
            format_share(part.share),
            part.arrivals,
            format_ms(part.start_within_ms)
        );
        page.columns(&[("", 2, None)], &text, None);
        if let Some(said) = &part.said {
            page.columns(&[("", 4, None)], said, Some(Style::Alert));
        }
    }
}

fn validity(page: &mut Page, run: &LoadRun, hop: &LoadHop) {
    let Validity::Invalid { because } = &hop.point.validity else {
        return;
    };
    let name = whose(run, hop);
    page.heading(&format!(
        "INVALID{name}: these numbers tell of the generator, not of the server"
    ));
    for reason in because {
        page.columns(&[("", 2, None), ("!", 2, Some(Style::Alert))], reason, None);
    }
}

/// A name with its middle left out: the scheme and the end tell targets apart.
fn shorten(text: &str, width: usize) -> String {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= width {
        return text.to_owned();
    }
    let head = width / 3;
    let tail = width - head - 1;
    let mut short: String = characters[..head].iter().collect();
    short.push('…');
    short.extend(&characters[characters.len() - tail..]);
    short
}

#[cfg(test)]
mod tests {
    use super::super::tests::{invalid, judged, run};
    use super::*;

    fn check(run: &LoadRun, expected: &[&str]) {
        let told = text(run, Styles::Plain);
        for words in expected {
            assert!(told.contains(words), "expected `{words}` in:\n{told}");
        }
    }

    #[test]
    fn a_load_tells_what_was_sent_and_how_it_was_answered() {
        check(
            &run(&["http://127.0.0.1/"]),
            &[
                "http://127.0.0.1/\n  GET /; const(50,10s), evenly spaced arrivals; 500 requests in 10.0 s",
                "offered                         50.0/s           500",
                "failed                           0.2/s             2",
                "p99.9",
                "from the intended start",
                "  http error                 2   0.4 %",
                "  status 502                 2   0.4 %",
                "status 502: Bad Gateway",
                "to 5.00 ms",
            ],
        );
    }

    #[test]
    fn requests_that_went_out_twice_are_told() {
        let mut run = run(&["http://127.0.0.1/"]);
        assert!(!text(&run, Styles::Plain).contains("sent again"));
        run.hops[0].point.sent_again = 37;
        let told = text(&run, Styles::Plain);
        let line = told.lines().find(|line| line.starts_with("sent again"));
        assert!(line.is_some_and(|line| line.ends_with(" 37")), "{told}");
    }

    #[test]
    fn targets_stand_side_by_side() {
        let told = text(
            &run(&[
                "http://127.0.0.1:8080/a/long/way/down",
                "fastcgi unix:/php.sock",
            ]),
            Styles::Plain,
        );
        let line = told
            .lines()
            .find(|line| line.starts_with("offered"))
            .expect("a line of offered rates");
        assert_eq!(line.matches("50.0/s").count(), 2, "{line}");
        let names = told.lines().find(|line| line.contains('…'));
        let names = names.expect("a long name is shortened");
        assert!(names.ends_with("fastcgi unix:/php.sock"), "{names}");
        assert_eq!(names.chars().count(), line.chars().count());
    }

    #[test]
    fn an_invalid_load_says_which_gate_and_what_to_do() {
        check(
            &invalid(),
            &[
                "INVALID",
                "! the generator was late; give it a core of its own",
            ],
        );
    }

    #[test]
    fn thresholds_tell_whether_they_held() {
        check(
            &judged(),
            &[
                "  held    p95 was 4.80 ms\n",
                "  BROKEN  errors were 0.4 %\n",
            ],
        );
    }

    #[test]
    fn what_a_server_answered_cannot_move_the_cursor() {
        let mut run = run(&["http://127.0.0.1/"]);
        run.hops[0].point.examples = vec!["status 500: \u{1b}[2Jgone".into()];
        assert!(!text(&run, Styles::Plain).contains('\u{1b}'));
    }
}
