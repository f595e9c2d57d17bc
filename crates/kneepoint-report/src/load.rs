//! A load that somebody asked for by itself (`kneepoint load`), told as text, page, JSON, CSV or percentiles.

mod bins;
mod csv;
mod json;
mod page;
mod percentiles;
mod text;

use crate::{Styles, redact_text};
use kneepoint_model::redact::redact_point;
use kneepoint_model::threshold::Judgement;
use kneepoint_model::{LoadPoint, Slo};

pub(crate) use bins::{Bin, bins};
pub(crate) use csv::seconds_csv;

/// Quantiles that are told, with their names.
pub(crate) const QUANTILES: [(&str, f64); 6] = [
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
];

/// One target and what it answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoadHop {
    /// Where requests went: the URL, or `fastcgi unix:/run/php.sock`.
    pub name: String,
    /// What was asked, one entry a kind of request: `GET /`, `POST /login (weight 2)`.
    pub requests: Vec<String>,
    /// When requests started: `const(50,10s), Poisson arrivals`.
    pub plan: String,
    /// The timeout, and the response time that counted as good.
    pub slo: Slo,
    /// What was measured.
    pub point: LoadPoint,
    /// The thresholds that were set, as written, with whether they held.
    pub judgements: Vec<(String, Judgement)>,
}

impl LoadHop {
    /// The sentences of the thresholds that did not hold.
    pub(crate) fn broken(&self) -> impl Iterator<Item = &str> {
        let broken = self.judgements.iter().filter(|(_, judged)| !judged.held);
        broken.map(|(_, judged)| judged.sentence.as_str())
    }
}

/// One call of `kneepoint load`: the targets in the order they were loaded, one after the other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoadRun {
    /// Version of the program.
    pub tool_version: String,
    /// When it began, RFC 3339 in UTC.
    pub started_at: String,
    /// Whether a person ended it before its time.
    pub interrupted: bool,
    /// The targets.
    pub hops: Vec<LoadHop>,
}

/// How a load is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadFormat {
    /// For a person at a terminal; of several targets the numbers stand side by side.
    Text,
    /// Everything: an array with an object per target. Units are in the names of the keys.
    Json,
    /// One line a second and target (RFC 4180).
    Csv,
    /// One self-contained page.
    Html,
    /// The percentile distribution of response times as HdrHistogram writes it, for its plotters. Of the first
    /// target only: the format has no place for a second.
    Percentiles,
}

/// Writes a load in a format. Secrets that can be recognised by their form are replaced first. `styles` is for
/// [`LoadFormat::Text`] alone.
#[must_use]
pub fn render_load(run: &LoadRun, format: LoadFormat, styles: Styles) -> String {
    let run = &redacted(run);
    match format {
        LoadFormat::Text => text::text(run, styles),
        LoadFormat::Json => json::json(run),
        LoadFormat::Csv => seconds_csv(run),
        LoadFormat::Html => page::load_page(run),
        LoadFormat::Percentiles => run
            .hops
            .first()
            .map_or_else(String::new, |hop| percentiles::table(&hop.point.response)),
    }
}

fn redacted(run: &LoadRun) -> LoadRun {
    let mut copy = run.clone();
    for hop in &mut copy.hops {
        hop.name = redact_text(&hop.name);
        for request in &mut hop.requests {
            *request = redact_text(request);
        }
        redact_point(&mut hop.point);
    }
    copy
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use kneepoint_model::{Outcome, Second, Validity};

    /// Ten seconds at 50/s whose response times grow from 1 to 5 ms, with two failures in the last second.
    pub(crate) fn hop(name: &str) -> LoadHop {
        let mut point = LoadPoint {
            offered_hz: 50.0,
            window_s: 10.0,
            arrivals: 500,
            good: 498,
            connections_opened: 4,
            bytes_received: 512_000,
            examples: vec!["GET /: http error, status 502: Bad Gateway".into()],
            ..LoadPoint::default()
        };
        for k in 0..498u64 {
            point.response.record_us(1000 + k * 8);
            point.service.record_us(900 + k * 8);
        }
        point.failed_response.record_us(300);
        point.failed_response.record_us(400);
        point.outcomes.by_outcome = [(Outcome::Ok, 498), (Outcome::HttpError, 2)].into();
        point.outcomes.by_status = [(200, 498), (502, 2)].into();
        point.health.achieved_share = 1.0;
        point.seconds = (0..10).map(second).collect();
        LoadHop {
            name: name.into(),
            requests: vec!["GET /".into()],
            plan: "const(50,10s), evenly spaced arrivals".into(),
            point,
            ..LoadHop::default()
        }
    }

    fn second(at: u32) -> Second {
        let failed = if at == 9 { 2 } else { 0 };
        let mut second = Second {
            at_s: f64::from(at),
            offered: 50,
            good: 50 - failed,
            p50_ms: Some(1.25 + 0.5 * f64::from(at)),
            p90_ms: Some(1.5 + 0.5 * f64::from(at)),
            p95_ms: Some(1.625 + 0.5 * f64::from(at)),
            p99_ms: Some(1.75 + 0.5 * f64::from(at)),
            max_ms: Some(1.875 + 0.5 * f64::from(at)),
            ..Second::default()
        };
        second.outcomes.by_outcome.insert(Outcome::Ok, 50 - failed);
        if failed > 0 {
            second
                .outcomes
                .by_outcome
                .insert(Outcome::HttpError, failed);
        }
        second
    }

    /// A load of these targets.
    pub(crate) fn run(names: &[&str]) -> LoadRun {
        LoadRun {
            tool_version: "0.1.0".into(),
            started_at: "2026-11-20T03:12:44Z".into(),
            interrupted: false,
            hops: names.iter().map(|name| hop(name)).collect(),
        }
    }

    /// The same when the generator was late.
    pub(crate) fn invalid() -> LoadRun {
        let mut run = run(&["http://127.0.0.1/"]);
        run.hops[0].point.validity = Validity::Invalid {
            because: vec!["the generator was late; give it a core of its own".into()],
        };
        run
    }

    /// A load with a threshold that held and one that did not.
    pub(crate) fn judged() -> LoadRun {
        let mut run = run(&["http://127.0.0.1/"]);
        let judged = |held, sentence: &str| Judgement {
            held,
            measured: Some(1.0),
            sentence: sentence.to_owned(),
        };
        run.hops[0].judgements = vec![
            ("p95<1s".into(), judged(true, "p95 was 4.80 ms")),
            ("errors<0.1%".into(), judged(false, "errors were 0.4 %")),
        ];
        run
    }

    const EVERY: [LoadFormat; 5] = [
        LoadFormat::Text,
        LoadFormat::Json,
        LoadFormat::Csv,
        LoadFormat::Html,
        LoadFormat::Percentiles,
    ];

    #[test]
    fn no_format_tells_a_secret() {
        let mut run = run(&["http://user:hunter2-hunter2@127.0.0.1/?api_token=q8Zr77xx"]);
        run.hops[0].requests = vec!["GET /?api_token=q8Zr77xx".into()];
        run.hops[0].point.examples = vec!["GET /?api_token=q8Zr77xx: status 500".into()];
        for format in EVERY {
            let told = render_load(&run, format, Styles::Plain);
            assert!(!told.contains("q8Zr77xx"), "{format:?}: {told}");
            assert!(!told.contains("hunter2"), "{format:?}: {told}");
        }
    }

    #[test]
    fn a_load_that_measured_nothing_is_told_in_every_format() {
        let empty = LoadRun {
            hops: vec![LoadHop::default()],
            ..LoadRun::default()
        };
        for run in [&empty, &LoadRun::default()] {
            for format in EVERY {
                let told = render_load(run, format, Styles::Ansi);
                assert!(!told.contains("NaN") && !told.contains("inf"), "{told}");
            }
        }
    }
}
