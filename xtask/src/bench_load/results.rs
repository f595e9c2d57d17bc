//! What was measured, round by round, and how it compares with ours in the same round.

use super::cases::Case;
use super::tools::{Answer, OURS};
use crate::program::measured::Measured;
use serde::Serialize;
use serde_json::{Value, json};

/// One measurement of one tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Sample {
    /// Requests that ended, in whatever way.
    pub(super) requests: u64,
    /// Of them, those that failed or were answered with an error.
    pub(super) errors: u64,
    /// Answers per second.
    pub(super) rate_hz: f64,
    /// User and system time per request, of the whole life of the tool's processes.
    pub(super) cpu_us: f64,
    pub(super) p50_ms: Option<f64>,
    pub(super) p95_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
    pub(super) peak_memory_mib: f64,
    /// How late requests were sent: 99th percentile. Only ours tells.
    pub(super) send_lag_p99_us: Option<f64>,
}

impl Sample {
    pub(super) fn new(answer: &Answer, measured: &Measured) -> Self {
        Self {
            requests: answer.requests,
            errors: answer.errors,
            rate_hz: answer.rate_hz,
            cpu_us: measured.cpu.as_secs_f64() * 1e6 / answer.requests as f64,
            p50_ms: answer.p50_ms,
            p95_ms: answer.p95_ms,
            p99_ms: answer.p99_ms,
            peak_memory_mib: measured.peak_memory_bytes as f64 / f64::from(1 << 20),
            send_lag_p99_us: answer.send_lag_p99_ms.map(|ms| ms * 1e3),
        }
    }

    /// For the person who watches.
    pub(super) fn in_words(&self) -> String {
        let errors = match self.errors {
            0 => String::new(),
            count => format!(", {count} of {} failed", self.requests),
        };
        format!(
            "{:.0}/s, {:.2} us of CPU a request{errors}",
            self.rate_hz, self.cpu_us
        )
    }
}

/// A figure of a sample.
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) value: fn(&Sample) -> Option<f64>,
    /// Digits after the point.
    pub(super) digits: usize,
}

pub(super) const RATE: Metric = Metric {
    name: "rate /s",
    value: |sample| Some(sample.rate_hz),
    digits: 0,
};
pub(super) const CPU: Metric = Metric {
    name: "CPU us/request",
    value: |sample| Some(sample.cpu_us),
    digits: 2,
};
pub(super) const SEND_LAG: Metric = Metric {
    name: "send lag p99 us",
    value: |sample| sample.send_lag_p99_us,
    digits: 0,
};

/// The columns of a table.
pub(super) const METRICS: &[Metric] = &[
    RATE,
    CPU,
    Metric {
        name: "p50 ms",
        value: |sample| sample.p50_ms,
        digits: 3,
    },
    Metric {
        name: "p95 ms",
        value: |sample| sample.p95_ms,
        digits: 3,
    },
    Metric {
        name: "p99 ms",
        value: |sample| sample.p99_ms,
        digits: 3,
    },
    Metric {
        name: "peak MiB",
        value: |sample| Some(sample.peak_memory_mib),
        digits: 1,
    },
];

/// The least, middle and greatest of some figures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) min: f64,
    pub(super) median: f64,
    pub(super) max: f64,
}

impl Spread {
    /// `None` of nothing. Of an even number, the median is the mean of the middle two.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values
            .into_iter()
            .filter(|value| value.is_finite())
            .collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self {
            min,
            median: f64::midpoint(low, high),
            max,
        })
    }
}

/// One tool in one case: its samples with their rounds.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) tool: &'static str,
    samples: Vec<(usize, Sample)>,
}

impl Series {
    pub(super) fn spread(&self, metric: &Metric) -> Option<Spread> {
        Spread::of(
            self.samples
                .iter()
                .filter_map(|(_, sample)| (metric.value)(sample)),
        )
    }

    /// The metric as a multiple of the other's in the same round.
    pub(super) fn times(&self, other: &Self, metric: &Metric) -> Option<Spread> {
        Spread::of(self.samples.iter().filter_map(|(round, sample)| {
            let (_, other) = other.samples.iter().find(|(at, _)| at == round)?;
            Some((metric.value)(sample)? / (metric.value)(other)?)
        }))
    }

    /// Failed requests of all rounds.
    pub(super) fn errors(&self) -> u64 {
        self.samples.iter().map(|(_, sample)| sample.errors).sum()
    }

    pub(super) fn rounds(&self) -> usize {
        self.samples.len()
    }
}

/// All tools in one case; ours is the first when there is any.
#[derive(Debug)]
pub(super) struct CaseResults {
    pub(super) case: &'static Case,
    pub(super) series: Vec<Series>,
}

impl CaseResults {
    pub(super) fn of(&self, tool: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.tool == tool)
    }
}

/// Everything that was measured.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) cases: Vec<CaseResults>,
    /// Length of each measurement.
    pub(super) seconds: u32,
}

impl Results {
    pub(super) fn new(cases: &[&'static Case], seconds: u32) -> Self {
        let cases = cases.iter().map(|case| CaseResults {
            case,
            series: vec![Series {
                tool: OURS,
                samples: Vec::new(),
            }],
        });
        Self {
            cases: cases.collect(),
            seconds,
        }
    }

    pub(super) fn of(&self, case: &str) -> Option<&CaseResults> {
        self.cases.iter().find(|results| results.case.name == case)
    }

    pub(super) fn add(&mut self, case: &Case, tool: &'static str, round: usize, sample: Sample) {
        let Some(results) = self.cases.iter_mut().find(|results| results.case == case) else {
            return;
        };
        let samples = vec![(round, sample)];
        match results.series.iter_mut().find(|series| series.tool == tool) {
            Some(series) => series.samples.extend(samples),
            None => results.series.push(Series { tool, samples }),
        }
    }

    /// Every sample, and the ratios, for programs.
    pub(super) fn to_json(&self) -> Value {
        let cases = self.cases.iter().map(|results| {
            let ours = results.of(OURS);
            let tools = results.series.iter().map(|series| {
                let rounds: Vec<Value> = series
                    .samples
                    .iter()
                    .map(|(round, sample)| json!({ "round": round, "sample": sample }))
                    .collect();
                let times: serde_json::Map<String, Value> = METRICS
                    .iter()
                    .filter_map(|metric| {
                        let times = series.times(ours?, metric)?;
                        Some((metric.name.to_owned(), json!(times)))
                    })
                    .collect();
                json!({ "tool": series.tool, "rounds": rounds, "times_ours": times })
            });
            json!({
                "case": results.case.name,
                "connections": results.case.connections,
                "tools": tools.collect::<Vec<_>>(),
            })
        });
        json!({ "seconds": self.seconds, "cases": cases.collect::<Vec<_>>() })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::cases::CASES;
    use super::*;

    /// A sample with this rate and CPU time.
    pub(in super::super) fn sample(rate_hz: f64, cpu_us: f64) -> Sample {
        Sample {
            requests: 1000,
            errors: 0,
            rate_hz,
            cpu_us,
            p50_ms: Some(0.5),
            p95_ms: None,
            p99_ms: Some(1.25),
            peak_memory_mib: 8.0,
            send_lag_p99_us: None,
        }
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        let of =
            |values: &[f64]| Spread::of(values.iter().copied()).map(|s| (s.min, s.median, s.max));
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some((1.0, 2.0, 3.0)));
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), Some((1.0, 2.5, 4.0)));
        assert_eq!(of(&[f64::NAN, 1.0]), Some((1.0, 1.0, 1.0)));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn a_ratio_is_taken_within_its_round() {
        let mut results = Results::new(&[&CASES[0]], 5);
        // The machine was twice as fast in round 1. wrk was always at half of ours, and failed in round 2.
        for (round, rate) in [(0, 100.0), (1, 200.0), (2, 500.0)] {
            results.add(&CASES[0], OURS, round, sample(rate, 10.0));
        }
        for (round, rate) in [(1, 100.0), (0, 50.0)] {
            results.add(&CASES[0], "wrk", round, sample(rate, 20.0));
        }
        let case = results.of("closed").expect("the case");
        let (ours, wrk) = (case.of(OURS).expect("ours"), case.of("wrk").expect("wrk"));
        let times = wrk.times(ours, &RATE).expect("two rounds");
        assert_eq!((times.min, times.median, times.max), (0.5, 0.5, 0.5));
        assert_eq!(wrk.times(ours, &CPU).expect("two rounds").median, 2.0);
        assert_eq!(wrk.times(ours, &METRICS[3]), None, "no tool told its p95");
        assert_eq!(wrk.spread(&RATE).expect("two rounds").median, 75.0);
        let json = results.to_json();
        assert_eq!(
            json["cases"][0]["tools"][1]["times_ours"]["rate /s"]["median"],
            0.5
        );
    }
}
