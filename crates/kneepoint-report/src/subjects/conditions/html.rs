//! Conditions: the machine, the generator, the noise, what was not used, and the raw numbers.

use crate::html::Section;
use crate::html::percent_encoded;
use crate::subjects::conditions::steps;
use crate::subjects::summary::{self, HealthRange};
use crate::subjects::{arm_name, tuning_note};
use crate::tables;
use crate::words;
use kneepoint_model::{Effect, Run, Trial, Validity};
use maud::{Markup, html};

/// The conditions; `None` when not even the machine is known.
pub(crate) fn section(run: &Run) -> Option<Section> {
    if run.trials.is_empty() && run.machine.cores == 0 {
        return None;
    }
    Some(Section {
        id: "conditions",
        title: "Conditions and raw numbers",
        body: html! {
            dl class="facts" {
                @if run.machine.cores > 0 { dt { "Machine" } dd { (summary::html::machine(run)) } }
                @if let Some(scenario) = &run.scenario {
                    dt { "Requests" }
                    dd { @for (i, request) in scenario.workload.requests.iter().enumerate() {
                        @if i > 0 { ", " }
                        code { (request.method.0) " " (request.path) } " ×" (request.weight)
                        @if let Some(mbit) = request.client_mbit { " over " (mbit) " Mbit/s" }
                    } }
                }
                @if let Some(health) = summary::health(run) { (generator(&health)) }
                @if let Some(noise) = noise(run) { dt { "Noise" } dd { (noise) } }
            }
            (generators(run))
            (invalid(run))
            (raw(run))
        },
    })
}

/// A send lag in ms that no step is left out for (method.md section 6).
const NO_LAG_MS: f64 = 1.0;

/// Why a step counts whose send lag looks as long as that of one which does not.
const FEW_LATE: &str = "A p99 of few requests says little: a step is left out where clearly more than 1 in 100 left too late.";

fn generator(health: &HealthRange) -> Markup {
    html! {
        dt { "Generator" }
        dd {
            "Worst of " (words::counted(health.trials as u64, "valid step", "valid steps")) ": CPU "
            (words::share(health.cpu_share)) " of one core, send lag p99 " (words::ms(Some(health.send_lag_p99_ms)))
            ", " (words::share(health.achieved_share)) " of arrivals sent in time, "
            (words::count(health.backlog_max)) " waiting for a connection"
            @if let Some(steal) = health.steal_share { ", steal " (words::share(steal)) }
            "."
            @if health.send_lag_p99_ms > NO_LAG_MS { " " (FEW_LATE) }
        }
        dt { "Ceiling" }
        dd { @match health.ceiling_hz {
            Some(ceiling) if health.offered_hz > 0.0 => {
                (words::rate(ceiling)) " against a null server, " (words::ratio(ceiling / health.offered_hz))
                " times the highest rate offered (" (words::rate(health.offered_hz)) ")."
            },
            Some(ceiling) => { (words::rate(ceiling)) " against a null server." },
            None => "The generator's own ceiling was not measured.",
        } }
    }
}

fn generators(run: &Run) -> Markup {
    let Some((table, said)) = tables::generators::of_run(run) else {
        return html! {};
    };
    html! {
        (tables::html::draw(&table))
        @if !said.is_empty() { ul { @for said in &said { li { (said) } } } }
    }
}

/// The range of what comparisons could have seen.
fn noise(run: &Run) -> Option<String> {
    let comparisons = run.comparisons().into_iter();
    let visible: Vec<f64> = comparisons
        .filter_map(Effect::visible)
        .filter(|share| *share > 0.0)
        .collect();
    if let [only] = visible.as_slice() {
        let only = words::share(*only);
        return Some(format!(
            "Changes below {only} would hardly show in the only comparison."
        ));
    }
    let least = visible.iter().copied().reduce(f64::min)?;
    let most = visible.iter().copied().reduce(f64::max)?;
    Some(format!(
        "Changes below {} would hardly show in the quietest comparison, and changes below {} in the noisiest.",
        words::share(least),
        words::share(most)
    ))
}

fn invalid(run: &Run) -> Markup {
    let reasons = |trial: &Trial| match &trial.load.validity {
        Validity::Valid => None,
        Validity::Invalid { because } => Some(because.join(" ")),
    };
    let invalid: Vec<_> = run
        .trials
        .iter()
        .filter_map(|trial| Some((trial, reasons(trial)?)))
        .collect();
    let arms: Vec<&str> = invalid.iter().map(|(it, _)| it.arm.as_str()).collect();
    html! {
        h3 { "Invalid steps" }
        @if invalid.is_empty() {
            p { "None of " (words::counted(run.trials.len() as u64, "step", "steps")) " was invalid." }
        } @else {
            p class="caption" {
                "The numbers of these steps are not sound, for the reasons given. "
                @if summary::reads_until_it_broke(run) {
                    "They were used only to find where the rising load failed."
                } @else {
                    "They were not used."
                }
                @if let Some(note) = tuning_note(run, &arms) { " " (note) }
            }
            ul { @for (trial, because) in &invalid {
                li { "Step " (trial.id) ", " (trial.purpose) " at " (words::offered(&trial.load)) ", "
                    (arm_name(run, &trial.arm)) ": " (because) }
            } }
        }
    }
}

fn raw(run: &Run) -> Markup {
    if run.trials.is_empty() {
        return html! {};
    }
    let csv = steps::csv(run);
    let name = if run.id.is_empty() {
        "trials.csv".into()
    } else {
        format!("{}-trials.csv", run.id)
    };
    html! {
        h3 { "Raw numbers" }
        p {
            a download=(name) href={ "data:text/csv;charset=utf-8," (percent_encoded(&csv)) } { "Download every step as CSV" }
            " (" (words::counted(run.trials.len() as u64, "line", "lines")) "). It is inside this page."
        }
        details {
            summary { "Show it" }
            pre class="scroll raw" tabindex="0" { (csv) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::run::Decision;

    #[test]
    fn the_noise_is_told_of_all_comparisons_that_were_made() {
        let effect = |smallest_visible: f64| Effect {
            pairs: 6,
            smallest_visible: Some(smallest_visible),
            ..Effect::default()
        };
        let tried = |left_out: f64| Decision {
            effect: effect(0.05),
            leave_one_out: Some(effect(left_out)),
            ..Decision::default()
        };
        let told = |decision: Decision| {
            let run = Run {
                decisions: vec![decision],
                ..Run::default()
            };
            noise(&run).unwrap_or_default()
        };
        let all = told(tried(0.3));
        let most = format!("{} in the noisiest", words::share(0.3));
        assert!(all.contains(&most), "{all}");
        // What was compared with everything else in place was left out by the same comparison.
        let only = told(tried(0.05));
        assert!(only.contains("the only comparison"), "{only}");
    }

    #[test]
    fn a_long_send_lag_of_a_step_that_counts_is_explained() {
        let told = |send_lag_p99_ms: f64| {
            let health = HealthRange {
                trials: 115,
                cpu_share: 0.1,
                send_lag_p99_ms,
                achieved_share: 1.0,
                backlog_max: 0,
                steal_share: None,
                offered_hz: 291.0,
                ceiling_hz: None,
            };
            generator(&health).into_string()
        };
        assert!(told(10.8).contains(FEW_LATE));
        assert!(!told(0.8).contains(FEW_LATE));
    }
}
