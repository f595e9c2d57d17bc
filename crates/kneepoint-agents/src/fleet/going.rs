//! What the agents of a load told while it ran, and what its rules say of it.

use crate::messages::Pulse;
use crate::roll::Roll;
use crate::union::{Union, Whole};
use kneepoint_load::{LoadPlan, Progress};
use kneepoint_model::autostop::Observed;
use kneepoint_model::{OutcomeCounts, Second};
use std::time::{Duration, Instant};

/// A load under way.
pub(crate) struct Going {
    pub(crate) union: Union,
    pub(crate) roll: Roll,
    /// Of each agent, what it said last.
    pub(crate) pulses: Vec<Pulse>,
    /// Of each agent, when it was last asked for what is missing.
    pub(crate) asked: Vec<Instant>,
    /// Seconds that no rule has looked at.
    pub(crate) fresh: Vec<Whole>,
    /// Seconds that nobody was told of.
    untold: Vec<Whole>,
    outcomes: OutcomeCounts,
    /// Of the window: requests that have ended, and those of them that were good.
    window: (u64, u64),
    latest: Second,
    pub(crate) stopped_because: Option<String>,
    pub(crate) aborted: bool,
}

impl Going {
    pub(crate) fn new(union: Union, agents: usize) -> Self {
        Self {
            union,
            roll: Roll::new(agents, Duration::ZERO),
            pulses: vec![Pulse::default(); agents],
            asked: vec![Instant::now(); agents],
            fresh: Vec::new(),
            untold: Vec::new(),
            outcomes: OutcomeCounts::default(),
            window: (0, 0),
            latest: Second::default(),
            stopped_because: None,
            aborted: false,
        }
    }

    /// Has the plan's rules look at the seconds that are new.
    pub(crate) fn judge(&mut self, plan: &LoadPlan) {
        let under_way = self.pulses.iter().map(|pulse| {
            let open = pulse.arrivals.saturating_sub(pulse.ended);
            open.saturating_sub(pulse.backlog)
        });
        let under_way = under_way.fold(0, u64::saturating_add);
        let busy = (under_way, plan.max_connections as u64);
        for second in std::mem::take(&mut self.fresh) {
            let record = &second.record;
            self.outcomes.merge(&record.outcomes);
            if record.at_s >= plan.skip.as_secs_f64() {
                self.window.0 += record.outcomes.total();
                self.window.1 += record.good;
            }
            let observed = Observed {
                second: record,
                response: second.response.as_deref(),
                busy: Some(busy),
            };
            if self.stopped_because.is_none()
                && let Some(rule) = &plan.stop_when
            {
                self.stopped_because = rule.second(&observed);
            }
            self.untold.push(second);
        }
        let (ended, good) = self.window;
        self.aborted |= plan.abort.is_some_and(|rule| {
            let violating = ended.saturating_sub(good) as f64 / ended.max(1) as f64;
            ended >= rule.after.max(1) && violating > rule.violating_share
        });
    }

    /// How the load is doing: sums of what the agents said last, and quantiles of the last second that is whole.
    pub(crate) fn progress(&mut self, plan: &LoadPlan, elapsed: Duration) -> Progress {
        let untold = std::mem::take(&mut self.untold);
        if let Some(second) = untold.last() {
            self.latest = second.record.clone();
        }
        // What they say of themselves may be anything.
        let sum = |of: fn(&Pulse) -> u64| self.pulses.iter().map(of).fold(0, u64::saturating_add);
        let total = |of: fn(&Pulse) -> f64| self.pulses.iter().map(of).sum();
        let seconds = untold
            .into_iter()
            .map(|second| (second.record, second.response));
        let (completed, completed_response) = seconds.unzip();
        Progress {
            elapsed,
            total: plan.mode.duration(),
            rate_hz: total(|pulse| pulse.rate_hz),
            goodput_hz: total(|pulse| pulse.goodput_hz),
            p50_ms: self.latest.p50_ms,
            p95_ms: self.latest.p95_ms,
            p99_ms: self.latest.p99_ms,
            recent: self.latest.outcomes.clone(),
            arrivals: sum(|pulse| pulse.arrivals),
            ended: sum(|pulse| pulse.ended),
            ok_hz: total(|pulse| pulse.ok_hz),
            outcomes: self.outcomes.clone(),
            connections_open: sum(|pulse| pulse.connections),
            backlog: sum(|pulse| pulse.backlog),
            completed,
            completed_response,
        }
    }
}
