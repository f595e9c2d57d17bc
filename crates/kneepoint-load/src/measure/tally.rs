//! Puts the threads' accounts together: progress while the load runs, and the load point at its end.

use crate::measure::counts::{Counts, Gauges, Live, SecondTally, Window};
use crate::measure::examples::Examples;
use crate::measure::health;
use crate::measure::mailbox::Mailbox;
use crate::measure::recorder::Recorder;
use crate::plan::{LoadPlan, Mode, Progress};
use kneepoint_linux::CpuTicks;
use kneepoint_model::{
    Health, LatencyHistogram, LoadPoint, Outcome, Schedule, Second, SessionCounts,
};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What progress looks back on.
const RECENT: Duration = Duration::from_secs(1);

/// What a thread leaves behind.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) recorder: Recorder,
    pub(crate) examples: Examples,
    pub(crate) backlog_max: u64,
    pub(crate) cpu_share: f64,
    pub(crate) sessions: Option<SessionCounts>,
}

/// The running account over all threads.
#[derive(Debug)]
pub(crate) struct Tally {
    /// What happened between one look and the next, with the time of the look.
    recent: VecDeque<(Duration, Live)>,
    arrivals: u64,
    /// How all requests ended.
    counts: Counts,
    window_ended: u64,
    window_good: u64,
    /// Of each thread, at its last hand-over.
    gauges: Vec<Gauges>,
    seconds: Seconds,
}

/// A second whose every request has ended.
#[derive(Debug)]
pub(crate) struct Completed {
    pub(crate) record: Second,
    /// The response times of its `Ok` requests.
    pub(crate) response: Option<Box<LatencyHistogram>>,
}

impl Tally {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            recent: VecDeque::new(),
            arrivals: 0,
            counts: Counts::default(),
            window_ended: 0,
            window_good: 0,
            gauges: vec![Gauges::default(); threads],
            seconds: Seconds::new(threads),
        }
    }

    /// Takes what the threads have put out.
    pub(crate) fn collect(&mut self, mailboxes: &[Mailbox], now: Duration) {
        let mut step = Live::default();
        for (thread, mailbox) in mailboxes.iter().enumerate() {
            let snapshot = mailbox.take();
            self.seconds
                .take(thread, snapshot.seconds, snapshot.ended_at);
            step.merge(&snapshot.live);
            self.gauges[thread] = snapshot.gauges.unwrap_or(self.gauges[thread]);
        }
        self.arrivals += step.arrivals;
        self.counts.merge(&step.counts);
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

    /// The seconds that were completed since this was last asked, in order.
    pub(crate) fn newly_completed(&mut self) -> Vec<Completed> {
        std::mem::take(&mut self.seconds.fresh)
    }

    /// How many requests are on a connection, as far as the threads have told.
    pub(crate) fn busy(&self) -> u64 {
        let backlog: u64 = self.gauges.iter().map(|gauges| gauges.backlog).sum();
        let under_way = self.arrivals.saturating_sub(self.counts.total());
        under_way.saturating_sub(backlog)
    }

    /// When the last thread had no request under way any more; `None` while one has.
    pub(crate) fn ended_at(&self) -> Option<Duration> {
        let latest = self.seconds.ended_at.iter().copied().max().flatten();
        let all = self.seconds.ended_at.iter().all(Option::is_some);
        latest.filter(|_| all).map(Duration::from_nanos)
    }

    /// Makes a record of every second until the load's end, also of those in which nothing arrived any more. All
    /// threads have ended.
    pub(crate) fn pass(&mut self, ended_at: Duration) {
        for index in self.seconds.finished.len() as u64..ended_at.as_secs() {
            self.seconds.finish(index, SecondTally::default());
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

    /// How the load is doing, and which seconds it has completed since it was last told.
    pub(crate) fn progress(
        &self,
        plan: &LoadPlan,
        now: Duration,
        completed: Vec<Completed>,
    ) -> Progress {
        let mut sum = Live::default();
        self.recent.iter().for_each(|(_, live)| sum.merge(live));
        // The first step began before its look: the span is that of the looks and one interval before.
        let span = now.min(RECENT).as_secs_f64().max(1e-3);
        let completed = completed
            .into_iter()
            .map(|second| (second.record, second.response));
        let (completed, completed_response) = completed.unzip();
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
            ended: self.counts.total(),
            ok_hz: sum.counts.of(Outcome::Ok) as f64 / span,
            outcomes: self.counts.to_model(),
            connections_open: self.gauges.iter().map(|g| g.connections).sum(),
            backlog: self.gauges.iter().map(|g| g.backlog).sum(),
            completed,
            completed_response,
        }
    }

    /// The load point, once all threads have finished.
    pub(crate) fn finish(
        self,
        plan: &LoadPlan,
        threads: Vec<Finished>,
        ended_at: Duration,
        steal: Option<(CpuTicks, CpuTicks)>,
    ) -> LoadPoint {
        let mut window = Window::default();
        let mut examples = Examples::default();
        let (mut backlog_max, mut cpu, mut busiest) = (0, 0.0, 0.0f64);
        let mut sessions: Option<SessionCounts> = None;
        for finished in threads {
            window.merge(&finished.recorder.finish());
            if let Some(own) = finished.sessions {
                sessions.get_or_insert_default().merge(&own);
            }
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
            // What others used is for whoever knows the stack's processes to say.
            ..Health::default()
        };
        let offered_hz = offered_hz(plan, &window, window_s, ended_at);
        let validity = health::judge(&health::Evidence {
            health: &health,
            busiest_thread: busiest,
            arrivals: window.arrivals,
            no_local_port: window.counts.of(Outcome::NoLocalPort),
            offered_hz,
            late: window.lag.count_above_us(health::latest_us(&plan.slo)),
            slo: &plan.slo,
        });
        LoadPoint {
            offered_hz,
            closed_workers: closed_workers(plan),
            window_s,
            arrivals: window.arrivals,
            outcomes: window.counts.to_model(),
            good: window.good,
            response: window.response,
            service: window.service,
            failed_response: window.failed_response,
            connections_opened: window.connections_opened,
            sent_again: window.sent_again,
            bytes_received: window.bytes_received,
            seconds: self.seconds.finished,
            cpu_ms: None,
            slowest: window.slowest.to_model(),
            health,
            generators: Vec::new(),
            validity,
            examples: examples.into_texts(),
            doubts: doubts(plan, backlog_max),
            aborted: false,
            sessions,
            visits_offered_hz: visits_offered_hz(plan, window_s, ended_at),
            stopped_because: None,
        }
    }
}

/// What else should be known of the load point, a sentence each.
fn doubts(plan: &LoadPlan, waited: u64) -> Vec<String> {
    let mut doubts = plan.target.doubts();
    doubts.extend(held_by_slow_clients(plan, waited));
    doubts
}

/// A client with a slow line holds its connection for as long as the line takes. Where all are held, the next client waits
/// for this generator, which no client of the site does.
fn held_by_slow_clients(plan: &LoadPlan, waited: u64) -> Option<String> {
    let requests = &plan.workload.requests;
    let are_slow = requests.iter().any(|request| request.client_mbit.is_some());
    (are_slow && waited > 0).then(|| {
        format!(
            "clients with slow lines held every connection of the generator (at most {}), and up to {waited} requests at \
             once waited for one: the stack is faster than the response times say. Allow more connections",
            plan.max_connections
        )
    })
}

fn closed_workers(plan: &LoadPlan) -> Option<u32> {
    match &plan.mode {
        Mode::Closed(closed) => Some(plan.own(u64::from(closed.workers)) as u32),
        Mode::Open { .. } => None,
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

/// The mean rate of the schedule over the window; where responses decide when requests start, what it came to.
fn offered_hz(plan: &LoadPlan, window: &Window, window_s: f64, ended_at: Duration) -> f64 {
    if window_s <= 0.0 {
        return 0.0;
    }
    let offered = match &plan.mode {
        Mode::Open { schedule, .. } if plan.workload.sessions.is_none() => {
            scheduled(plan, schedule, ended_at)
        }
        Mode::Open { .. } | Mode::Closed(_) => window.arrivals as f64,
    };
    offered / window_s
}

/// The mean rate at which the schedule lets visitors come over the window; `None` where none do, or workers take turns.
fn visits_offered_hz(plan: &LoadPlan, window_s: f64, ended_at: Duration) -> Option<f64> {
    match &plan.mode {
        Mode::Open { schedule, .. } if plan.workload.sessions.is_some() && window_s > 0.0 => {
            Some(scheduled(plan, schedule, ended_at) / window_s)
        }
        Mode::Open { .. } | Mode::Closed(_) => None,
    }
}

/// Arrivals of a schedule in the window.
fn scheduled(plan: &LoadPlan, schedule: &Schedule, ended_at: Duration) -> f64 {
    let all = schedule.area(ended_at.as_secs_f64()) - schedule.area(plan.skip.as_secs_f64());
    all * plan.fraction()
}

/// Seconds as they come in from the threads. A second is finished when every thread has handed it over or has
/// ended before it; its histogram is let go once somebody has asked for it.
#[derive(Debug)]
struct Seconds {
    /// How many seconds each thread has handed over.
    handed: Vec<u64>,
    /// When each thread ended, in nanoseconds; `None` while it has not.
    ended_at: Vec<Option<u64>>,
    open: BTreeMap<u64, SecondTally>,
    finished: Vec<Second>,
    /// Those of them that nobody has asked for yet.
    fresh: Vec<Completed>,
}

impl Seconds {
    fn new(threads: usize) -> Self {
        Self {
            handed: vec![0; threads],
            ended_at: vec![None; threads],
            open: BTreeMap::new(),
            finished: Vec::new(),
            fresh: Vec::new(),
        }
    }

    fn take(&mut self, thread: usize, seconds: Vec<SecondTally>, ended_at: Option<u64>) {
        for second in seconds {
            let index = self.handed[thread];
            self.handed[thread] += 1;
            self.open.entry(index).or_default().merge(second);
        }
        self.ended_at[thread] = self.ended_at[thread].or(ended_at);
        let threads = self.handed.iter().zip(&self.ended_at);
        let complete = threads
            .filter(|(_, ended_at)| ended_at.is_none())
            .map(|(handed, _)| *handed)
            .min()
            .unwrap_or(u64::MAX);
        while let Some(entry) = self.open.first_entry()
            && *entry.key() < complete
        {
            let (index, second) = entry.remove_entry();
            self.finish(index, second);
        }
    }

    fn finish(&mut self, index: u64, second: SecondTally) {
        let record = to_model(index, &second);
        self.finished.push(record.clone());
        self.fresh.push(Completed {
            record,
            response: second.response,
        });
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
