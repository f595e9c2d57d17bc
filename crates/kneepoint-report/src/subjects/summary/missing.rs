//! What a complete run would have and this one has not.

use kneepoint_model::Run;

/// A sentence for each thing that is missing; empty for a complete run of its command.
pub(crate) fn missing(run: &Run) -> Vec<String> {
    if super::load::is_load(run) {
        return ending(run).into_iter().collect();
    }
    [ending(run), limits(run), diagnosis(run), proof(run)]
        .into_iter()
        .flatten()
        .collect()
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
    let not_left_out: Vec<_> = kept
        .iter()
        .filter(|decision| decision.leave_one_out.is_none())
        .map(|decision| decision.code.clone())
        .collect();
    match (run.proof.is_none(), not_left_out.is_empty()) {
        (true, true) => Some("The final comparison of base and best from a fresh start was not made.".into()),
        (true, false) => Some(
            "Neither the final comparison of base and best nor every leave-one-out was made: kept changes \
             rest on their own A/B."
                .into(),
        ),
        (false, false) => Some(format!(
            "No leave-one-out was made for {}: whether still needed at the end is not known.",
            crate::words::listed(&not_left_out)
        )),
        (false, true) => None,
    }
}
