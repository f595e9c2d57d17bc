//! Every measured step as a line of CSV.

use crate::csv::quoted;
use kneepoint_model::{Outcome, Run, Trial, Validity};

const COLUMNS: &str = "id,purpose,arm,at_s,loop,offered_hz,window_s,arrivals,goodput_hz,throughput_hz,violating_share,\
failed,p50_ms,p95_ms,p99_ms,generator_cpu_share,send_lag_p99_ms,valid,because";

/// The steps as CSV (RFC 4180) with a header line.
pub(crate) fn csv(run: &Run) -> String {
    let mut out = String::from(COLUMNS);
    for outcome in Outcome::ALL {
        out.push(',');
        out.push_str(&outcome.name().replace(' ', "_"));
    }
    out.push_str("\r\n");
    for trial in &run.trials {
        out.push_str(&line(trial));
        out.push_str("\r\n");
    }
    out
}

fn line(trial: &Trial) -> String {
    let load = &trial.load;
    let quantile = |q| {
        load.response
            .quantile_ms(q)
            .map_or_else(String::new, |ms| format!("{ms:.3}"))
    };
    let because = match &load.validity {
        Validity::Valid => String::new(),
        Validity::Invalid { because } => because.join(" "),
    };
    let mut fields = vec![
        trial.id.to_string(),
        quoted(&trial.purpose),
        quoted(&trial.arm),
        format!("{:.3}", trial.at_s),
        load.closed_workers
            .map_or_else(|| "open".into(), |workers| format!("closed {workers}")),
        format!("{:.3}", load.offered_hz),
        format!("{:.3}", load.window_s),
        load.arrivals.to_string(),
        format!("{:.3}", load.goodput_hz()),
        format!("{:.3}", load.throughput_hz()),
        format!("{:.5}", load.violating_share()),
        load.outcomes.failed().to_string(),
        quantile(0.5),
        quantile(0.95),
        quantile(0.99),
        format!("{:.4}", load.health.cpu_share),
        format!("{:.3}", load.health.send_lag_p99_ms),
        load.validity.is_valid().to_string(),
        quoted(&because),
    ];
    fields.extend(
        Outcome::ALL
            .iter()
            .map(|outcome| load.outcomes.of(*outcome).to_string()),
    );
    fields.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::run::TrialId;

    #[test]
    fn every_line_has_every_column() {
        let run = Run {
            trials: vec![Trial {
                id: TrialId(3),
                purpose: "limit: step".into(),
                arm: "base".into(),
                at_s: 1.5,
                load: Default::default(),
                cpu: None,
            }],
            ..Run::default()
        };
        let text = csv(&run);
        let counts: Vec<_> = text.lines().map(|line| line.split(',').count()).collect();
        // The last column that is no outcome is the reason of an invalid step.
        let columns = 19 + Outcome::ALL.len();
        assert_eq!(counts, [columns, columns], "{text}");
    }
}
