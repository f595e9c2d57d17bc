//! A profile for other tools.

use anyhow::{Result, bail};
use inferno::flamegraph;
use kneepoint_model::Place;
use kneepoint_profiler::PhpProfile;
use serde_json::{Value, json};

/// A flame graph.
pub(super) fn svg(profile: &PhpProfile) -> Result<String> {
    let folded = profile.folded();
    if folded.is_empty() {
        bail!("there is nothing to draw: no worker had a request");
    }
    let mut options = flamegraph::Options::default();
    options.title = format!("{} at {} Hz, wall time", profile.php, profile.rate_hz);
    options.count_name = "samples".to_owned();
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, folded.iter().map(String::as_str), &mut svg)?;
    Ok(String::from_utf8(svg)?)
}

/// A profile as https://www.speedscope.app reads it (its file-format-schema.json, type `sampled`). Each stack stands
/// once, with the time it was seen as its weight.
pub(super) fn speedscope(profile: &PhpProfile) -> Result<String> {
    let frames: Vec<_> = profile.frames().iter().map(described).collect();
    let stacks = profile.stacks();
    let period_ms = 1000.0 / f64::from(profile.rate_hz.max(1));
    let weights: Vec<f64> = stacks
        .iter()
        .map(|(_, count)| *count as f64 * period_ms)
        .collect();
    let samples: Vec<_> = stacks.iter().map(|(stack, _)| stack).collect();
    let document = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": concat!("kneepoint ", env!("CARGO_PKG_VERSION")),
        "shared": { "frames": frames },
        "profiles": [{
            "type": "sampled",
            "name": profile.php,
            "unit": "milliseconds",
            "startValue": 0,
            "endValue": weights.iter().sum::<f64>(),
            "samples": samples,
            "weights": weights,
        }],
    });
    Ok(serde_json::to_string(&document)?)
}

fn described(frame: &Place) -> Value {
    let mut described = json!({ "name": frame.function });
    if let Some(file) = &frame.file {
        described["file"] = json!(file);
    }
    if let Some(line) = frame.line {
        described["line"] = json!(line);
    }
    described
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_profiler::{Sample, SampleOutcome, State, WorkerRequest};

    fn profile() -> PhpProfile {
        let mut profile = PhpProfile::new("PHP 8.2.35".to_owned(), 100);
        for name in ["a<b>", "a<b>", "c"] {
            let frame = |function: &str| Place {
                function: function.to_owned(),
                file: None,
                line: None,
            };
            profile.add(
                &Sample {
                    outcome: SampleOutcome::Ok,
                    stack: vec![frame("main"), frame(name)],
                    request: WorkerRequest::default(),
                    state: (State::Running, State::Running),
                },
                None,
                false,
            );
        }
        profile
    }

    #[test]
    fn the_flame_graph_names_every_function_and_escapes_it() {
        let svg = svg(&profile()).expect("a flame graph");
        assert!(
            svg.contains("a&lt;b&gt; (2 samples") && svg.contains("c (1 samples"),
            "{svg}"
        );
        assert!(super::svg(&PhpProfile::default()).is_err());
    }

    #[test]
    fn speedscope_gets_the_time_of_each_stack() {
        let text = speedscope(&profile()).expect("JSON");
        let document: Value = serde_json::from_str(&text).expect("JSON");
        let shown = &document["profiles"][0];
        assert_eq!(shown["samples"], json!([[0, 1], [0, 2]]));
        assert_eq!(shown["weights"], json!([20.0, 10.0]));
        assert_eq!(shown["endValue"], json!(30.0));
        assert_eq!(document["shared"]["frames"][1]["name"], "a<b>");
    }
}
