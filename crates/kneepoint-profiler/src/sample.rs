//! What one look at a worker gave: how it went, the stack, the request and what the worker was doing.

pub use crate::process::State;
use kneepoint_model::folding::fold_path;
use kneepoint_model::{Place, StackProfile};

/// The request a worker is at, from what the web server told PHP-FPM.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerRequest {
    /// `REQUEST_METHOD`.
    pub method: Option<String>,
    /// The path of `REQUEST_URI`, or `SCRIPT_NAME` where it is not sent. Without the query, which may hold secrets.
    pub path: Option<String>,
    /// `HTTP_X_REQUEST_ID`.
    pub id: Option<String>,
}

impl WorkerRequest {
    /// Method and path, with identifiers folded: `GET /orders/{n}`.
    #[must_use]
    pub fn route(&self) -> String {
        let method = self.method.as_deref().unwrap_or("?");
        let path = self.path.as_deref().unwrap_or("?");
        format!("{method} {}", fold_path(path))
    }
}

/// How a sample went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleOutcome {
    /// The stack is the one the worker had.
    Ok,
    /// The stack changed while it was read: it is the outer part that did not.
    Salvaged,
    /// No stack could be read that makes sense; what was wrong with the last attempt.
    Error(&'static str),
    /// The worker has no request.
    Idle,
    /// The worker has ended.
    Gone,
}

/// What one look at a worker gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// How it went.
    pub outcome: SampleOutcome,
    /// The stack, outermost frame first. Empty when there is none, or the engine itself was at work (compiling the
    /// first file, beginning or ending a request).
    pub stack: Vec<Place>,
    /// The request it was at, where that is known.
    pub request: WorkerRequest,
    /// What it was doing, before and after the stack was read. The first is the moment of the sample; blocked in the same
    /// call both times, the stack is exact.
    pub state: (State, State),
}

/// What was found in a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// Version of PHP: `8.2.35`.
    pub version: String,
    /// Name of its server interface: `fpm-fcgi`, `cli`; empty when it is not told.
    pub sapi: String,
    /// Whether it was built for threads, so that each of its threads may be a worker.
    pub threads: bool,
}

impl Sample {
    /// Whether the worker was blocked in one system call while its stack was read.
    #[must_use]
    pub fn blocked(&self) -> bool {
        matches!(self.state, (State::Blocked(before), State::Blocked(after)) if before == after)
    }

    /// What the worker waited for at the moment of the sample: `blocked_on` tells it of one that is blocked. One that was
    /// ready waited for a core, as did one that was woken while its stack was read, and so does not compute: what waits
    /// longest for a core is what was woken most often, or what computes longest without a pause, not what takes most of
    /// the CPU. `None` when it had a core, or that cannot be told.
    pub(crate) fn wait(&self, blocked_on: impl FnOnce() -> Option<String>) -> Option<String> {
        let for_a_core = || Some(StackProfile::NO_CORE.to_owned());
        match self.state {
            _ if !matches!(self.outcome, SampleOutcome::Ok | SampleOutcome::Salvaged) => None,
            _ if self.blocked() => blocked_on().or_else(for_a_core),
            (State::Blocked(_) | State::Ready, _) => for_a_core(),
            (State::Running | State::Unknown, _) => None,
        }
    }

    pub(crate) fn without_stack(outcome: SampleOutcome, state: State) -> Self {
        Self {
            outcome,
            stack: Vec::new(),
            request: WorkerRequest::default(),
            state: (state, state),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAP: State = State::Blocked(libc::SYS_nanosleep);

    fn check(state: (State, State), outcome: SampleOutcome, expected: Option<&str>) {
        let sample = Sample {
            state,
            ..Sample::without_stack(outcome, state.0)
        };
        let wait = sample.wait(|| Some("sleep".to_owned()));
        assert_eq!(wait.as_deref(), expected, "{state:?}");
    }

    #[test]
    fn a_worker_does_what_it_did_at_the_first_look() {
        let no_core = Some(StackProfile::NO_CORE);
        for after in [State::Running, NAP, State::Unknown] {
            check((State::Running, after), SampleOutcome::Ok, None);
            check((State::Ready, after), SampleOutcome::Ok, no_core);
            check((State::Unknown, after), SampleOutcome::Ok, None);
        }
        check((NAP, NAP), SampleOutcome::Ok, Some("sleep"));
        check((NAP, NAP), SampleOutcome::Idle, None);
        for after in [State::Running, State::Blocked(libc::SYS_read)] {
            check((NAP, after), SampleOutcome::Salvaged, no_core);
        }
    }

    #[test]
    fn a_worker_that_is_woken_before_its_wait_is_told_computes_nothing() {
        let sample = Sample::without_stack(SampleOutcome::Ok, NAP);
        assert_eq!(sample.wait(|| None).as_deref(), Some(StackProfile::NO_CORE));
    }
}
