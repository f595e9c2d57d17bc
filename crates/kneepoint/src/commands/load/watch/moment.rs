//! How a load is doing right now, as its watchers show it.

use kneepoint_load::{LoadPlan, Mode, Progress};
use kneepoint_model::{Outcome, OutcomeCounts};
use std::time::Duration;

/// Rates and times over the last second, and where the load stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Moment {
    /// Time since the load began.
    pub(super) elapsed: Duration,
    /// How long new requests start in all.
    pub(super) total: Duration,
    /// What the schedule asks for right now, per second; in a closed loop, what the loop reaches.
    pub(super) wanted_hz: f64,
    /// Requests that came due in the last second.
    pub(super) offered_hz: f64,
    /// Of those that ended in the last second, the ones that ended ok, per second.
    pub(super) ok_hz: f64,
    /// And the good ones.
    pub(super) good_hz: f64,
    /// Median response time of the last second's ok requests in ms.
    pub(super) p50_ms: Option<f64>,
    /// 95th percentile of the same.
    pub(super) p95_ms: Option<f64>,
    /// 99th percentile of the same.
    pub(super) p99_ms: Option<f64>,
    /// How the requests that ended in the last second ended.
    pub(super) recent: OutcomeCounts,
    /// Requests since the load began.
    pub(super) requests: u64,
    /// Of them, those that have not ended yet.
    pub(super) under_way: u64,
    /// Of these, those that wait for a connection.
    pub(super) waiting: u64,
    /// Of all, those that failed.
    pub(super) failed: u64,
    /// Connections that are open.
    pub(super) connections: u64,
}

impl Moment {
    /// What the engine tells, beside what the plan wants.
    pub(super) fn of(progress: &Progress, plan: &LoadPlan) -> Self {
        let wanted_hz = match &plan.mode {
            Mode::Open { schedule, .. } => schedule.rate_at(progress.elapsed.as_secs_f64()),
            Mode::Closed { .. } => progress.rate_hz,
        };
        Self {
            elapsed: progress.elapsed,
            total: progress.total,
            wanted_hz,
            offered_hz: progress.rate_hz,
            ok_hz: progress.ok_hz,
            good_hz: progress.goodput_hz,
            p50_ms: progress.p50_ms,
            p95_ms: progress.p95_ms,
            p99_ms: progress.p99_ms,
            recent: progress.recent.clone(),
            requests: progress.arrivals,
            under_way: progress.arrivals.saturating_sub(progress.ended),
            waiting: progress.backlog,
            failed: progress.outcomes.failed(),
            connections: progress.connections_open,
        }
    }

    /// Whole seconds since the load began.
    pub(super) fn second(&self) -> u64 {
        self.elapsed.as_secs()
    }

    /// What went wrong in the last second by class, such as `timeout 3, refused 1`; `none` when nothing did.
    pub(super) fn errors(&self) -> String {
        let classes: Vec<String> = Outcome::ALL
            .into_iter()
            .filter(|outcome| *outcome != Outcome::Ok && self.recent.of(*outcome) > 0)
            .map(|outcome| format!("{} {}", outcome.name(), self.recent.of(outcome)))
            .collect();
        if classes.is_empty() {
            "none".to_owned()
        } else {
            classes.join(", ")
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use kneepoint_load::Target;
    use kneepoint_model::{Address, Arrivals, ClosedLoop, Workload};

    fn plan(mode: Mode) -> LoadPlan {
        let target = Target::http(Address::Unix("/x.sock".into()), "x");
        LoadPlan::new(target, Workload::single("/"), mode)
    }

    /// Five seconds into ten, with errors.
    pub(in super::super) fn moment() -> Moment {
        let mut progress = Progress {
            elapsed: Duration::from_millis(5_250),
            total: Duration::from_secs(10),
            rate_hz: 499.0,
            ok_hz: 490.0,
            connections_open: 7,
            backlog: 2,
            goodput_hz: 480.0,
            p50_ms: Some(1.25),
            p95_ms: Some(12.5),
            p99_ms: None,
            arrivals: 2_600,
            ended: 2_588,
            ..Progress::default()
        };
        progress.recent.by_outcome = [
            (Outcome::Ok, 490),
            (Outcome::Timeout, 3),
            (Outcome::Refused, 1),
        ]
        .into();
        progress.outcomes.by_outcome = [(Outcome::Ok, 2_580), (Outcome::Timeout, 8)].into();
        let schedule = "const(500,10s)".parse().expect("a schedule");
        let arrivals = Arrivals::Even;
        Moment::of(&progress, &plan(Mode::Open { schedule, arrivals }))
    }

    #[test]
    fn a_moment_is_the_last_second_beside_what_was_wanted() {
        let moment = moment();
        assert_eq!((moment.wanted_hz, moment.offered_hz), (500.0, 499.0));
        assert_eq!((moment.ok_hz, moment.good_hz), (490.0, 480.0));
        assert_eq!((moment.second(), moment.under_way), (5, 12));
        assert_eq!(moment.errors(), "timeout 3, refused 1");
    }

    #[test]
    fn a_closed_loop_wants_what_it_reaches() {
        let progress = Progress {
            rate_hz: 42.0,
            ..Progress::default()
        };
        let mode = Mode::Closed(ClosedLoop::new(3, Duration::from_secs(1)));
        let moment = Moment::of(&progress, &plan(mode));
        assert_eq!(moment.wanted_hz, 42.0);
        assert_eq!(moment.errors(), "none");
    }
}
