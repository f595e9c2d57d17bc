//! What came of a load that no scenario asked for, where its run file is read.

use crate::words;
use kneepoint_model::Run;
use kneepoint_model::run::Trial;

/// Whether a run is one.
pub(super) fn is_load(run: &Run) -> bool {
    run.command == "load" && run.scenario.is_none()
}

/// A sentence for each target; `None` where nothing came of it, or a scenario was run.
pub(super) fn sentence(run: &Run) -> Option<String> {
    let told: Vec<String> = run.trials.iter().map(of_target).collect();
    (is_load(run) && !told.is_empty()).then(|| told.join(" "))
}

fn of_target(trial: &Trial) -> String {
    let point = &trial.load;
    let failed = match point.outcomes.failed() {
        0 => "nothing failed".to_owned(),
        some => format!("{} failed", words::count(some)),
    };
    format!(
        "{}: {} in {}, {} answered, p95 {}, {failed}.",
        trial.arm,
        words::counted(point.arrivals, "request", "requests"),
        words::duration(point.window_s),
        words::rate(point.throughput_hz()),
        words::ms(point.response.quantile_ms(0.95)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::run::TrialId;
    use kneepoint_model::{LoadPoint, Outcome};

    #[test]
    fn a_load_is_told_by_its_targets_and_lacks_nothing_of_a_search() {
        let mut load = LoadPoint {
            arrivals: 40,
            window_s: 4.0,
            ..LoadPoint::default()
        };
        load.outcomes.by_outcome = [(Outcome::Ok, 38), (Outcome::Timeout, 2)].into();
        load.response.record_us(12_000);
        let mut run = Run {
            command: "load".into(),
            ended: "finished".into(),
            ..Run::default()
        };
        assert_eq!(sentence(&run), None);
        run.trials.push(Trial {
            id: TrialId(0),
            purpose: "load".into(),
            arm: "http://a/".into(),
            at_s: 0.0,
            load,
            cpu: None,
        });
        let summary = crate::summarise(&run);
        assert_eq!(
            summary.verdict.replace('\u{a0}', " "),
            "http://a/: 40 requests in 4.0 s, 9.5/s answered, p95 12.0 ms, 2 failed."
        );
        assert_eq!(summary.missing, Vec::<String>::new());
    }
}
