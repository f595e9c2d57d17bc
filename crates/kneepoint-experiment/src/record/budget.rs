//! The time that a run may take: what passed of it, what is left, and what is said before it starts where it is too short.

use kneepoint_model::units::format_span;
use std::time::{Duration, Instant};

/// What starting the stack takes before anything is measured: programs, data, and the first requests. What a small
/// application takes on two cores.
const START: Duration = Duration::from_secs(7);
/// What stopping the stack and writing the report takes.
pub const ENDING: Duration = Duration::from_secs(2);
/// What is left where nobody set a budget: longer than any run.
const NO_END: Duration = Duration::from_secs(86_400);

/// The time of a run, counted from its first moment.
#[derive(Debug)]
pub(super) struct RunBudget {
    began: Instant,
    whole: Option<Duration>,
}

impl RunBudget {
    /// The run begins now, and may take as long as it needs.
    pub(super) fn begin() -> Self {
        Self {
            began: Instant::now(),
            whole: None,
        }
    }

    pub(super) fn began(&self) -> Instant {
        self.began
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn set(&mut self, whole: Duration) {
        self.whole = Some(whole);
    }

    /// What is left; nothing where no budget was set.
    pub(super) fn left_of_it(&self) -> Option<Duration> {
        Some(self.whole?.saturating_sub(self.elapsed()))
    }

    pub(super) fn left(&self) -> Duration {
        self.left_of_it().unwrap_or(NO_END)
    }
}

/// What a sequence needs once the stack stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeNeed {
    /// What it makes: `a limit`.
    pub what: &'static str,
    /// The least time that says anything.
    pub least: Duration,
    /// What comes of it in less.
    pub otherwise: &'static str,
}

impl TimeNeed {
    /// Of something that takes its least time whatever the budget.
    #[must_use]
    pub fn all_the_same(what: &'static str, least: Duration) -> Self {
        Self {
            what,
            least,
            otherwise: "it takes that long all the same, and says the least it can",
        }
    }

    /// What is said of a budget that is too small for it.
    pub(super) fn warning(&self, budget: Duration) -> Option<String> {
        let whole = START + self.least + ENDING;
        (budget < whole).then(|| {
            format!(
                "a budget of {} is too small: {} needs about {} here, {} of it to start and stop the stack; {}",
                format_span(budget),
                self.what,
                format_span(whole),
                format_span(START + ENDING),
                self.otherwise
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_is_too_small_is_said_to_be_so_before_anything_starts() {
        let need = TimeNeed::all_the_same("a limit", Duration::from_secs(15));
        let said = |seconds| need.warning(Duration::from_secs(seconds));
        assert_eq!(
            said(10).expect("too small"),
            "a budget of 10s is too small: a limit needs about 24s here, 9s of it to start and stop the stack; it takes that \
             long all the same, and says the least it can"
        );
        assert_eq!(said(24), None);
    }
}
