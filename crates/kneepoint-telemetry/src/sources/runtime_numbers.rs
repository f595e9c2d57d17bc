//! What a runtime that answers HTTP tells of its own queue, as JSON or as Prometheus' text.

use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use crate::transport::http_get;
use kneepoint_model::metric::{WORKER_REQUESTS, WORKERS_QUEUED};
use kneepoint_model::{Address, Endpoint, Sum};
use serde_json::Value;
use std::time::Duration;

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "runtime-numbers",
    about: "requests that wait inside a runtime with a queue of its own, where no accept queue shows them",
    requirements: "the runtime's status or metrics page (Unit's control socket, Caddy's admin address, ...)",
    overhead: "one short HTTP request a second",
    cadence: Duration::from_secs(1),
    metrics: &[WORKERS_QUEUED, WORKER_REQUESTS],
    lane: Lane::Own,
    open: Open::Tier(|tier| {
        tier.endpoints.iter().find_map(|endpoint| match endpoint {
            Endpoint::Numbers {
                address,
                path,
                sums,
            } => Some(Box::new(Numbers {
                address: address.clone(),
                path: path.clone(),
                sums: sums.clone(),
            }) as Box<dyn Probe>),
            _ => None,
        })
    }),
};

struct Numbers {
    address: Address,
    path: String,
    sums: Vec<Sum>,
}

impl Probe for Numbers {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        let on = || format!("{}{}", self.address, self.path);
        let failed = |why: &dyn std::fmt::Display| Failure::on("the runtime's page at", on(), why);
        let page = http_get(&self.address, &self.path).map_err(|why| failed(&why))?;
        let page = Page::parse(&String::from_utf8_lossy(&page));
        for sum in &self.sums {
            let metric = SOURCE.metrics.iter().find(|known| known.name == sum.metric);
            let metric = metric.ok_or_else(|| failed(&format!("no metric {}", sum.metric)))?;
            let value = page.sum(sum).map_err(|why| failed(&why))?;
            // Numbers of one page are of slightly different moments.
            sink.push(*metric, value.max(0.0));
        }
        Ok(())
    }
}

/// A page of numbers.
enum Page {
    Json(Value),
    /// Samples: name and value, labels left out.
    Text(Vec<(String, f64)>),
}

impl Page {
    fn parse(text: &str) -> Self {
        match serde_json::from_str(text) {
            Ok(value) => Self::Json(value),
            Err(_) => Self::Text(text.lines().filter_map(sample).collect()),
        }
    }

    fn sum(&self, sum: &Sum) -> Result<f64, String> {
        let values: Vec<Option<f64>> = sum.terms.iter().map(|(_, name)| self.value(name)).collect();
        // A sample of Prometheus' is not there before it has changed once.
        let may_miss = matches!(self, Self::Text(_)) && values.iter().any(Option::is_some);
        let term = |((factor, name), value): (&(i8, String), Option<f64>)| match value {
            Some(value) => Ok(f64::from(*factor) * value),
            None if may_miss => Ok(0.0),
            None => Err(format!("no `{name}` in the answer")),
        };
        sum.terms.iter().zip(values).map(term).sum()
    }

    fn value(&self, name: &str) -> Option<f64> {
        match self {
            Self::Json(value) => value.pointer(name)?.as_f64(),
            Self::Text(samples) => {
                let values = samples.iter().filter(|(known, _)| known == name);
                values.map(|(_, value)| *value).reduce(|a, b| a + b)
            }
        }
    }
}

/// A line of Prometheus' text format: `name{label="value"} 3 1700000000`.
fn sample(line: &str) -> Option<(String, f64)> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' ', '\t'])?;
    // A label's value may hold spaces and braces; what follows the last brace is the number.
    let rest = match line.rfind('}') {
        Some(close) if line[end..].starts_with('{') => &line[close + 1..],
        _ => &line[end..],
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some((line[..end].to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(page: &str, terms: &[(i8, &str)], expected: Result<f64, &str>) {
        let sum = Page::parse(page).sum(&Sum::new(WORKERS_QUEUED, terms));
        assert_eq!(sum, expected.map_err(str::to_owned), "{page}");
    }

    #[test]
    fn json_is_read_by_pointers() {
        let page = r#"{"requests":{"active":7},"processes":{"running":4,"idle":1}}"#;
        let terms = [
            (1, "/requests/active"),
            (-1, "/processes/running"),
            (1, "/processes/idle"),
        ];
        check(page, &terms, Ok(4.0));
        check(page, &[(1, "/queue")], Err("no `/queue` in the answer"));
    }

    #[test]
    fn samples_of_prometheus_are_summed_over_their_labels() {
        let page = "# HELP depth Requests\n# TYPE depth gauge\ndepth{worker=\"a b}.php\"} 3\ndepth{worker=\"c\"} 2 17\n\
                    busy_threads 1e1\n";
        check(page, &[(1, "depth")], Ok(5.0));
        check(page, &[(1, "busy_threads"), (-1, "depth")], Ok(5.0));
        check(page, &[(1, "depth"), (1, "other")], Ok(5.0));
        check(page, &[(1, "busy")], Err("no `busy` in the answer"));
    }

    proptest! {
        #[test]
        fn no_page_panics(text in "[a-c{}\"=0-9 .#\n\\u{e9}]{0,80}") {
            let _ = Page::parse(&text).sum(&Sum::new(WORKERS_QUEUED, &[(1, "a"), (1, "/a")]));
        }
    }
}
