//! A load as JSON: everything that was measured, and its summary in names that carry their units.

use super::{LoadHop, LoadRun, QUANTILES};
use kneepoint_model::threshold::Judgement;
use kneepoint_model::{LatencyHistogram, Outcome, Validity};
use serde_json::{Map, Value, json};

/// An array with an object per target: what was asked, `summary` for a quick look, and `result`, the whole record
/// with its histograms (base64 of the HDR V2 encoding) and its seconds.
pub(super) fn json(run: &LoadRun) -> String {
    let hops: Vec<Value> = run.hops.iter().map(|hop| object(run, hop)).collect();
    // Keys are strings and a number that is not finite becomes null, so this cannot fail.
    serde_json::to_string_pretty(&hops).unwrap_or_default()
}

fn object(run: &LoadRun, hop: &LoadHop) -> Value {
    json!({
        "target": hop.name,
        "requests": hop.requests,
        "load": hop.plan,
        "timeout_ms": hop.slo.timeout.as_secs_f64() * 1e3,
        "good_ms": hop.slo.response_time.as_secs_f64() * 1e3,
        "started_at": run.started_at,
        "interrupted": run.interrupted,
        "tool_version": run.tool_version,
        "thresholds": hop.judgements.iter().map(threshold).collect::<Vec<_>>(),
        "summary": summary(hop),
        "result": hop.point,
    })
}

fn threshold((written, judged): &(String, Judgement)) -> Value {
    json!({
        "threshold": written,
        "held": judged.held,
        "measured": judged.measured,
        "sentence": judged.sentence,
    })
}

fn summary(hop: &LoadHop) -> Value {
    let point = &hop.point;
    let mut summary = Map::new();
    let mut put = |key: &str, value: Value| {
        summary.insert(key.to_owned(), value);
    };
    put("duration_s", json!(point.window_s));
    put("requests", json!(point.arrivals));
    put("ok", json!(point.outcomes.of(Outcome::Ok)));
    put("good", json!(point.good));
    put("failed", json!(point.outcomes.failed()));
    put("error_share", json!(point.error_share()));
    put("offered_hz", json!(point.offered_hz));
    put("ok_hz", json!(point.throughput_hz()));
    put("good_hz", json!(point.goodput_hz()));
    put("received_bytes", json!(point.bytes_received));
    times(&mut put, "response", &point.response);
    times(&mut put, "service", &point.service);
    put("valid", json!(point.validity.is_valid()));
    if let Validity::Invalid { because } = &point.validity {
        put("invalid_because", json!(because));
    }
    Value::Object(summary)
}

fn times(put: &mut impl FnMut(&str, Value), name: &str, times: &LatencyHistogram) {
    put(&format!("{name}_mean_ms"), json!(times.mean_ms()));
    for (quantile, share) in QUANTILES {
        let key = format!("{name}_{}_ms", quantile.replace('.', "_"));
        put(&key, json!(times.quantile_ms(share)));
    }
    put(&format!("{name}_max_ms"), json!(times.max_ms()));
}

#[cfg(test)]
mod tests {
    use super::super::tests::{invalid, judged, run};
    use super::*;

    fn read(run: &LoadRun) -> Value {
        serde_json::from_str(&json(run)).expect("JSON")
    }

    #[test]
    fn the_summary_carries_its_units_and_the_result_is_whole() {
        let run = run(&["http://127.0.0.1/"]);
        let told = read(&run);
        let summary = &told[0]["summary"];
        assert_eq!(summary["requests"], 500);
        assert_eq!(summary["failed"], 2);
        assert_eq!(summary["ok_hz"], 49.8);
        assert_eq!(summary["valid"], true);
        for key in ["response_p50_ms", "response_p99_9_ms", "service_max_ms"] {
            assert!(summary[key].is_number(), "{key} in {summary}");
        }
        let result: kneepoint_model::LoadPoint =
            serde_json::from_value(told[0]["result"].clone()).expect("reads back");
        assert_eq!(result.arrivals, 500);
        assert_eq!(result.seconds, run.hops[0].point.seconds);
        assert_eq!(
            result.response.curve(),
            run.hops[0].point.response.curve(),
            "the histogram is whole"
        );
    }

    #[test]
    fn thresholds_say_whether_they_held() {
        let told = read(&judged());
        assert_eq!(told[0]["thresholds"][0]["held"], true);
        assert_eq!(told[0]["thresholds"][1]["threshold"], "errors<0.1%");
        assert_eq!(told[0]["thresholds"][1]["held"], false);
    }

    #[test]
    fn an_invalid_load_says_why() {
        let told = read(&invalid());
        assert_eq!(told[0]["summary"]["valid"], false);
        assert!(told[0]["summary"]["invalid_because"][0].is_string());
    }
}
