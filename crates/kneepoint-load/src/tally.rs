//! Puts the threads' accounts together: progress while the load runs, and the load point at its end.

use crate::health::{self, MachineTime};
use crate::plan::{LoadPlan, Mode, Progress};
use crate::recorder::{Live, Outbox, SecondTally, Window};
use crate::worker::Finished;
use kneepoint_model::{Health, LoadPoint, Outcome, Second};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What progress looks back on.
const RECENT: Duration = Duration::from_secs(1);

/// The running account over all threads.
#[derive(Debug)]
pub(crate) struct Tally {
    /// What happened between one look and the next, with the time of the look.
    recent: VecDeque<(Duration, Live)>,
    arrivals: u64,
    ended: u64,
    window_ended: u64,
    window_good: u64,
    seconds: Seconds,
}

impl Tally {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            recent: VecDeque::new(),
            arrivals: 0,
            ended: 0,
            window_ended: 0,
            window_good: 0,
            seconds: Seconds::new(threads),
        }
    }

    /// Takes what the threads have put out.
    pub(crate) fn collect(&mut self, outboxes: &[Outbox], now: Duration) {
        let mut step = Live::default();
        for (thread, outbox) in outboxes.iter().enumerate() {
            let parcel = outbox.take();
            self.seconds.take(thread, parcel.seconds);
            step.merge(&parcel.live);
        }
        self.arrivals += step.arrivals;
        self.ended += step.counts.total();
        self.window_ended += step.window_ended;
        self.window_good += step.window_good;
        self.recent.push_back((now, step));
        while let Some((at, _)) = self.recent.front()
            && now.saturating_sub(*at) >= RECENT
            && self.recent.len() > 1
        {
            self.recent.pop_front();
        }
    }

    /// Whether the rule holds that the load is hopeless.
    pub(crate) fn is_hopeless(&self, plan: &LoadPlan) -> bool {
        plan.abort.is_some_and(|rule| {
            let violating = self.window_ended - self.window_good;
            self.window_ended >= rule.after.max(1)
                && violating as f64 / self.window_ended as f64 > rule.violating_share
        })
    }

    /// How the load is doing.
    pub(crate) fn progress(&self, plan: &LoadPlan, now: Duration) -> Progress {
        let mut sum = Live::default();
        self.recent.iter().for_each(|(_, live)| sum.merge(live));
        // The first step began before its look: the span is that of the looks and one interval before.
        let span = now.min(RECENT).as_secs_f64().max(1e-3);
        Progress {
            elapsed: now,
            total: plan.mode.duration(),
            rate_hz: sum.arrivals as f64 / span,
            goodput_hz: sum.good as f64 / span,
            p50_ms: sum.response.quantile_ms(0.5),
            p95_ms: sum.response.quantile_ms(0.95),
            p99_ms: sum.response.quantile_ms(0.99),
            recent: sum.counts.to_model(),
            arrivals: self.arrivals,
            ended: self.ended,
        }
    }

    /// The load point, once all threads have finished.
    pub(crate) fn finish(
        mut self,
        plan: &LoadPlan,
        threads: Vec<Finished>,
        ended_at: Duration,
        steal: Option<(MachineTime, MachineTime)>,
    ) -> LoadPoint {
        let mut window = Window::default();
        let mut examples = crate::examples::Examples::default();
        let (mut backlog_max, mut cpu, mut busiest) = (0, 0.0, 0.0f64);
        for (thread, finished) in threads.into_iter().enumerate() {
            let (own, seconds) = finished.recorder.finish();
            window.merge(&own);
            self.seconds.take(thread, seconds);
            examples.merge(finished.examples);
            backlog_max += finished.backlog_max;
            cpu += finished.cpu_share;
            busiest = busiest.max(finished.cpu_share);
        }
        let window_s = ended_at.saturating_sub(plan.skip).as_secs_f64();
        let health = Health {
            achieved_share: achieved_share(&window),
            send_lag_p50_ms: window.lag.quantile_ms(0.5).unwrap_or(0.0),
            send_lag_p99_ms: window.lag.quantile_ms(0.99).unwrap_or(0.0),
            backlog_max,
            cpu_share: cpu,
            ceiling_hz: plan.ceiling_hz,
            steal_share: steal.and_then(|(before, after)| after.steal_share_since(before)),
        };
        let offered_hz = offered_hz(plan, &window, window_s, ended_at);
        let validity = health::judge(&health::Evidence {
            health: &health,
            busiest_thread: busiest,
            arrivals: window.arrivals,
            no_local_port: window.counts.of(Outcome::NoLocalPort),
            offered_hz,
            slo: &plan.slo,
        });
        LoadPoint {
            offered_hz,
            closed_workers: match plan.mode {
                Mode::Closed { workers, .. } => Some(workers),
                Mode::Open { .. } => None,
            },
            window_s,
            arrivals: window.arrivals,
            outcomes: window.counts.to_model(),
            good: window.good,
            response: window.response,
            service: window.service,
            failed_response: window.failed_response,
            connections_opened: window.connections_opened,
            bytes_received: window.bytes_received,
            seconds: self.seconds.finish(),
            health,
            validity,
            examples: examples.into_texts(),
            aborted: false,
        }
    }
}

/// What the generator failed to do in time is its own fault; what waits for a slow server is not.
fn achieved_share(window: &Window) -> f64 {
    if window.arrivals == 0 {
        return 1.0;
    }
    let missed = window.late + window.counts.of(Outcome::NoLocalPort);
    1.0 - missed.min(window.arrivals) as f64 / window.arrivals as f64
}

/// The mean rate of the schedule over the window; in a closed loop, what it reached.
fn offered_hz(plan: &LoadPlan, window: &Window, window_s: f64, ended_at: Duration) -> f64 {
    if window_s <= 0.0 {
        return 0.0;
    }
    let offered = match &plan.mode {
        Mode::Open { schedule, .. } => {
            schedule.area(ended_at.as_secs_f64()) - schedule.area(plan.skip.as_secs_f64())
        }
        Mode::Closed { .. } => window.arrivals as f64,
    };
    offered / window_s
}

/// Seconds as they come in from the threads. A second is finished, and its histogram let go, when every thread
/// has handed it over.
#[derive(Debug)]
struct Seconds {
    /// How many seconds each thread has handed over.
    handed: Vec<u64>,
    open: BTreeMap<u64, SecondTally>,
    finished: Vec<Second>,
}

impl Seconds {
    fn new(threads: usize) -> Self {
        Self {
            handed: vec![0; threads],
            open: BTreeMap::new(),
            finished: Vec::new(),
        }
    }

    fn take(&mut self, thread: usize, seconds: Vec<SecondTally>) {
        for second in seconds {
            let index = self.handed[thread];
            self.handed[thread] += 1;
            self.open.entry(index).or_default().merge(second);
        }
        let complete = self.handed.iter().copied().min().unwrap_or(0);
        while let Some(entry) = self.open.first_entry()
            && *entry.key() < complete
        {
            let (index, second) = entry.remove_entry();
            self.finished.push(to_model(index, &second));
        }
    }

    fn finish(mut self) -> Vec<Second> {
        self.finished
            .extend(self.open.iter().map(|(index, s)| to_model(*index, s)));
        self.finished
    }
}

fn to_model(index: u64, second: &SecondTally) -> Second {
    let quantile = |q| second.response.as_ref().and_then(|h| h.quantile_ms(q));
    Second {
        at_s: index as f64,
        offered: second.offered,
        outcomes: second.counts.to_model(),
        good: second.good,
        p50_ms: quantile(0.5),
        p90_ms: quantile(0.9),
        p95_ms: quantile(0.95),
        p99_ms: quantile(0.99),
        max_ms: second.response.as_ref().and_then(|h| h.max_ms()),
    }
}
