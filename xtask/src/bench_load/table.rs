//! The results for people: a table per case, medians above, multiples of ours below.

use super::results::{CaseResults, METRICS, Metric, Results, SEND_LAG, Series};
use super::tools::OURS;
use std::fmt::Write as _;

const NAME_WIDTH: usize = 12;
const CELL_WIDTH: usize = 18;

/// All tables, one after the other.
pub(super) fn show(results: &Results) -> String {
    let mut text = String::new();
    for case in &results.cases {
        show_case(case, results.seconds, &mut text);
        text.push('\n');
    }
    text
}

/// Writing into a String cannot fail, which is why the results of `write!` are let go.
fn show_case(results: &CaseResults, seconds: u32, text: &mut String) {
    let Some(ours) = results.of(OURS) else {
        return;
    };
    let _ = writeln!(
        text,
        "{}: {} connections, {} rounds of {seconds} s; medians, below them times ours: median [min max]",
        results.case.title,
        results.case.connections,
        ours.rounds()
    );
    let _ = write!(text, "{:NAME_WIDTH$}", "");
    for metric in METRICS {
        let _ = write!(text, "{:>CELL_WIDTH$}", metric.name);
    }
    text.push('\n');
    for series in &results.series {
        let _ = write!(text, "{:NAME_WIDTH$}", series.tool);
        for metric in METRICS {
            let _ = write!(text, "{:>CELL_WIDTH$}", median(series, metric));
        }
        text.push('\n');
        if series.tool != OURS {
            let _ = write!(text, "{:NAME_WIDTH$}", "");
            for metric in METRICS {
                let _ = write!(text, "{:>CELL_WIDTH$}", times(series, ours, metric));
            }
            text.push('\n');
        }
    }
    if let Some(lag) = ours.spread(&SEND_LAG) {
        let _ = writeln!(
            text,
            "{OURS}: send lag p99 {:.0} us [{:.0} {:.0}]",
            lag.median, lag.min, lag.max
        );
    }
    for series in &results.series {
        if series.errors() > 0 {
            let _ = writeln!(text, "{}: {} requests failed", series.tool, series.errors());
        }
        if series.rounds() < ours.rounds() {
            let (tool, done, all) = (series.tool, series.rounds(), ours.rounds());
            let _ = writeln!(text, "{tool}: only {done} of {all} rounds succeeded");
        }
    }
}

fn median(series: &Series, metric: &Metric) -> String {
    series.spread(metric).map_or_else(
        || "-".to_owned(),
        |spread| format!("{:.*}", metric.digits, spread.median),
    )
}

fn times(series: &Series, ours: &Series, metric: &Metric) -> String {
    series
        .times(ours, metric)
        .map_or_else(String::new, |spread| {
            let [median, min, max] = [spread.median, spread.min, spread.max].map(ratio);
            format!("{median} [{min} {max}]")
        })
}

/// Three digits are what a ratio of measurements is worth.
fn ratio(value: f64) -> String {
    let digits = match value {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::super::cases::CASES;
    use super::super::results::tests::sample;
    use super::*;
    use expect_test::expect;

    #[test]
    fn ratios_have_three_digits() {
        let shown = [0.0625, 1.0, 9.994, 12.34, 250.4].map(ratio);
        assert_eq!(shown, ["0.06", "1.00", "9.99", "12.3", "250"]);
    }

    #[test]
    fn a_table_shows_medians_and_ratios() {
        let mut results = Results::new(&[&CASES[1]], 5);
        for (round, rate) in [(0, 5000.0), (1, 4999.0)] {
            let mut own = sample(rate, 8.0);
            own.send_lag_p99_us = Some(40.0 + round as f64);
            results.add(&CASES[1], OURS, round, own);
        }
        let mut failed = sample(2500.0, 20.0);
        failed.errors = 3;
        failed.p50_ms = None;
        results.add(&CASES[1], "k6", 1, failed);
        let lines: Vec<String> = show(&results)
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        expect![[r#"
            static page, open loop at 5 000/s: 64 connections, 2 rounds of 5 s; medians, below them times ours: median [min max]
                                   rate /s    CPU us/request            p50 ms            p95 ms            p99 ms          peak MiB
            kneepoint                 5000              8.00             0.500                 -             1.250               8.0
            k6                        2500             20.00                 -                 -             1.250               8.0
                          0.50 [0.50 0.50]  2.50 [2.50 2.50]                                      1.00 [1.00 1.00]  1.00 [1.00 1.00]
            kneepoint: send lag p99 40 us [40 41]
            k6: 3 requests failed
            k6: only 1 of 2 rounds succeeded
        "#]]
        .assert_eq(&(lines.join("\n").trim_end().to_owned() + "\n"));
    }
}
