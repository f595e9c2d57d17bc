//! What the engine must be able to do beside its peers, and whether it does.

use super::results::{CPU, RATE, Results, SEND_LAG, Spread};
use super::tools::OURS;
use std::fmt::Write as _;

/// Least requests per second in a closed loop, as a multiple of wrk's.
const LEAST_TIMES_WRK: f64 = 1.0;
/// Most CPU time per request in an open loop, as a multiple of another's.
const MOST_TIMES_OHA: f64 = 0.5;
const MOST_TIMES_K6: f64 = 0.1;
/// Largest 99th percentile of the send lag at 5 000/s.
const LARGEST_SEND_LAG_US: f64 = 200.0;

/// The bound of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
}

/// One demand with the figure that decides it.
#[derive(Debug)]
pub(super) struct Line {
    demand: String,
    bound: Bound,
    unit: &'static str,
    /// `None` when a peer was not there.
    figure: Option<Spread>,
}

impl Line {
    /// Whether the median is within the bound; `None` when it was not measured.
    pub(super) fn holds(&self) -> Option<bool> {
        let median = self.figure?.median;
        Some(match self.bound {
            Bound::AtLeast(least) => median >= least,
            Bound::AtMost(most) => median <= most,
            Bound::Below(limit) => median < limit,
        })
    }
}

/// Judges every demand, also those that could not be measured.
pub(super) fn judge(results: &Results) -> Vec<Line> {
    let times = |case: &str, tool: &str, metric| {
        let case = results.of(case)?;
        case.of(OURS)?.times(case.of(tool)?, metric)
    };
    let mut lines = vec![Line {
        demand: "closed loop, one thread: requests per second, times wrk's".into(),
        bound: Bound::AtLeast(LEAST_TIMES_WRK),
        unit: "",
        figure: times("closed", "wrk", &RATE),
    }];
    for (case, rate) in [("open-5000", "5 000/s"), ("open-15000", "15 000/s")] {
        for (tool, most) in [("oha", MOST_TIMES_OHA), ("k6", MOST_TIMES_K6)] {
            lines.push(Line {
                demand: format!("open loop at {rate}: CPU per request, times {tool}'s"),
                bound: Bound::AtMost(most),
                unit: "",
                figure: times(case, tool, &CPU),
            });
        }
    }
    let ours = results.of("open-5000").and_then(|case| case.of(OURS));
    lines.push(Line {
        demand: "open loop at 5 000/s: send lag p99".into(),
        bound: Bound::Below(LARGEST_SEND_LAG_US),
        unit: " us",
        figure: ours.and_then(|series| series.spread(&SEND_LAG)),
    });
    lines
}

/// One line each, with the figure.
pub(super) fn show(lines: &[Line]) -> String {
    let mut text =
        String::from("acceptance (median over the rounds, least and greatest in brackets)\n");
    for line in lines {
        let verdict = match line.holds() {
            Some(true) => "holds",
            Some(false) => "does not hold",
            None => "not measured",
        };
        let (words, limit) = match line.bound {
            Bound::AtLeast(least) => ("at least", least),
            Bound::AtMost(most) => ("at most", most),
            Bound::Below(limit) => ("below", limit),
        };
        let figure = line.figure.map_or_else(String::new, |spread| {
            let digits = if line.unit.is_empty() { 3 } else { 0 };
            let Spread { min, median, max } = spread;
            format!(
                "{median:.digits$}{} [{min:.digits$} {max:.digits$}], ",
                line.unit
            )
        });
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "  {verdict:<14} {}: {figure}{words} {limit}{}",
            line.demand, line.unit
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::cases::CASES;
    use super::super::results::tests::sample;
    use super::*;
    use expect_test::expect;

    #[test]
    fn each_demand_is_answered_with_its_figure() {
        let all: Vec<_> = CASES.iter().collect();
        let mut results = Results::new(&all, 5);
        for (round, (ours, wrk)) in [(101.0, 100.0), (99.0, 100.0), (104.0, 100.0)]
            .into_iter()
            .enumerate()
        {
            results.add(&CASES[0], OURS, round, sample(ours, 9.0));
            results.add(&CASES[0], "wrk", round, sample(wrk, 9.0));
            let mut open = sample(5000.0, 10.0);
            open.send_lag_p99_us = Some(200.0);
            results.add(&CASES[1], OURS, round, open);
            results.add(&CASES[1], "oha", round, sample(5000.0, 20.0));
            results.add(&CASES[1], "k6", round, sample(4900.0, 99.0));
            results.add(&CASES[2], OURS, round, sample(15_000.0, 6.0));
            results.add(&CASES[2], "oha", round, sample(15_000.0, 10.0));
        }
        expect![[r#"
            acceptance (median over the rounds, least and greatest in brackets)
              holds          closed loop, one thread: requests per second, times wrk's: 1.010 [0.990 1.040], at least 1
              holds          open loop at 5 000/s: CPU per request, times oha's: 0.500 [0.500 0.500], at most 0.5
              does not hold  open loop at 5 000/s: CPU per request, times k6's: 0.101 [0.101 0.101], at most 0.1
              does not hold  open loop at 15 000/s: CPU per request, times oha's: 0.600 [0.600 0.600], at most 0.5
              not measured   open loop at 15 000/s: CPU per request, times k6's: at most 0.1
              does not hold  open loop at 5 000/s: send lag p99: 200 us [200 200], below 200 us
        "#]]
        .assert_eq(&show(&judge(&results)));
    }
}
