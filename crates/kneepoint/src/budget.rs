//! `--budget`: what a command says of a time that is too short for it, before it starts.

use kneepoint_experiment::Recorder;
use kneepoint_model::units::format_span;
use std::time::Duration;

/// What starting the stack takes before anything is measured: programs, data, and the first requests. What a small
/// application takes on two cores.
const START: Duration = Duration::from_secs(7);
/// What stopping the stack and writing the report takes.
const END: Duration = Duration::from_secs(2);

/// What a command needs once the stack stands.
pub(crate) struct Need {
    /// What it makes: `a limit`.
    pub(crate) what: &'static str,
    /// The least time that says anything.
    pub(crate) least: Duration,
    /// What comes of it in less.
    pub(crate) otherwise: &'static str,
}

impl Need {
    /// Of something that takes its least time whatever the budget.
    pub(crate) fn all_the_same(what: &'static str, least: Duration) -> Self {
        Self {
            what,
            least,
            otherwise: "it takes that long all the same, and says the least it can",
        }
    }
}

/// Keeps the run to a budget, where one was given, and says so before anything starts if it is too small for what is asked.
pub(crate) fn keep(recorder: &mut Recorder<'_>, budget: Option<Duration>, need: &Need) {
    let Some(budget) = budget else { return };
    recorder.set_budget(budget);
    if let Some(warning) = too_small(budget, need) {
        recorder.warn(warning);
    }
}

fn too_small(budget: Duration, need: &Need) -> Option<String> {
    let whole = START + need.least + END;
    (budget < whole).then(|| {
        format!(
            "a budget of {} is too small: {} needs about {} here, {} of it to start and stop the stack; {}",
            format_span(budget),
            need.what,
            format_span(whole),
            format_span(START + END),
            need.otherwise
        )
    })
}

/// What is left for measuring once the stack stands: all but what stopping it takes, and at least as much as an answer needs.
pub(crate) fn left(recorder: &Recorder<'_>, least: Duration) -> Duration {
    recorder.left().saturating_sub(END).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_is_too_small_is_said_to_be_so_before_anything_starts() {
        let need = Need::all_the_same("a limit", Duration::from_secs(15));
        let said = |seconds| too_small(Duration::from_secs(seconds), &need);
        assert_eq!(
            said(10).expect("too small"),
            "a budget of 10s is too small: a limit needs about 24s here, 9s of it to start and stop the stack; it takes that \
             long all the same, and says the least it can"
        );
        assert_eq!(said(24), None);
    }
}
