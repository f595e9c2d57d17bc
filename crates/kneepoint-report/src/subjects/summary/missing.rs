//! What a complete run would have and this one has not.

use kneepoint_model::Run;

/// A sentence for each thing that is missing; empty for a complete run of its command.
pub(crate) fn missing(run: &Run) -> Vec<String> {
    if super::load::is_load(run) {
        return ending(run).into_iter().collect();
    }
    let parts = [
        ending(run),
        limits(run),
        diagnosis(run),
        proof(run),
        restart(run),
    ];
    parts.into_iter().flatten().collect()
}

fn ending(run: &Run) -> Option<String> {
    match run.ended.as_str() {
        "finished" => None,
        "" => Some("The run has not ended: this is what there is so far.".into()),
        "interrupted" => Some("The run was interrupted: this is what there was by then.".into()),
        other => Some(format!(
            "The run did not finish ({other}): this is what there was by then."
        )),
    }
}

fn limits(run: &Run) -> Option<String> {
    let kept = run.decisions.iter().any(|decision| decision.kept);
    match (run.limit("base"), run.limit("best")) {
        _ if run.limits.is_empty() && run.command == "diagnose" => {
            Some("R* was not measured: the diagnose command looks at given rates only.".into())
        }
        _ if run.limits.is_empty() && run.command == "plan" => {
            Some("R* was not driven: it is predicted from low load.".into())
        }
        _ if run.limits.is_empty() => Some("R* was not measured.".into()),
        (Some(_), None) if kept => {
            Some("R* after the changes was not measured, so their joint gain is not known.".into())
        }
        (None, Some(_)) => Some("R* before the changes was not measured.".into()),
        _ => None,
    }
}

fn diagnosis(run: &Run) -> Option<String> {
    if !run.observations.is_empty() || run.command == "plan" || run.contest.is_some() {
        return None;
    }
    Some(if run.command == "limit" {
        "Nothing was diagnosed: the limit command measures R* and does not ask what binds.".into()
    } else {
        "Nothing was diagnosed, so what binds is not known.".into()
    })
}

fn proof(run: &Run) -> Option<String> {
    let kept: Vec<_> = run
        .decisions
        .iter()
        .filter(|decision| decision.kept)
        .collect();
    if kept.is_empty() {
        let idle = run.command == "tune" && run.decisions.is_empty() && run.headline().is_some();
        return idle.then(|| "No change was tried.".into());
    }
    // Where one change is kept, the final comparison is with it and without it.
    let beside_others = kept.iter().filter(|_| kept.len() > 1);
    let not_left_out = beside_others.filter(|decision| decision.leave_one_out.is_none());
    let not_left_out = super::codes(not_left_out.copied());
    match (run.proof.is_none(), not_left_out.as_slice()) {
        (true, []) => Some(
            "The final comparison of before and after, both freshly started, was not made.".into(),
        ),
        (true, codes) => Some(format!(
            "The final comparison of before and after was not made, and whether {}: kept changes rest on their own A/B.",
            still_needed(codes)
        )),
        (false, []) => None,
        (false, codes) => Some(format!("Whether {}.", still_needed(codes))),
    }
}

/// `OPC-01 is still needed beside the other changes was not checked (no leave-one-out)`.
fn still_needed(codes: &[String]) -> String {
    let are = if codes.len() == 1 { "is" } else { "are each" };
    format!(
        "{} {are} still needed beside the other changes was not checked (no leave-one-out)",
        crate::words::listed(codes)
    )
}

fn restart(run: &Run) -> Option<String> {
    let kept = run.decisions.iter().any(|decision| decision.kept);
    let is_measured = kept && run.limit("best").is_some();
    (is_measured && run.restarted.is_none()).then(|| {
        "Whether a restart alone changes what the stack serves was not checked; R* after the changes was measured on a freshly \
         started stack."
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::Effect;
    use kneepoint_model::run::Decision;

    fn check(kept: &[&str], proof: Option<Effect>, expected: &[&str]) {
        let decisions = kept.iter().map(|code| Decision {
            code: (*code).into(),
            kept: true,
            ..Decision::default()
        });
        let run = Run {
            decisions: decisions.collect(),
            proof,
            ..Run::default()
        };
        let told: Vec<String> = proof_and_restart(&run);
        assert_eq!(told, expected);
    }

    fn proof_and_restart(run: &Run) -> Vec<String> {
        [proof(run), restart(run)].into_iter().flatten().collect()
    }

    #[test]
    fn a_change_that_was_not_left_out_is_told_once() {
        check(
            &["OPC-01", "PG-02", "OPC-01"],
            Some(Effect::default()),
            &[
                "Whether OPC-01 and PG-02 are each still needed beside the other changes was not checked (no leave-one-out).",
            ],
        );
    }

    #[test]
    fn the_final_comparison_leaves_the_only_change_out() {
        check(&["OPC-01"], Some(Effect::default()), &[]);
        check(
            &["OPC-01"],
            None,
            &["The final comparison of before and after, both freshly started, was not made."],
        );
    }
}
