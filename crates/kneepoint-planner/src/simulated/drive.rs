//! One step of load at a simulated pool, as the load engine drives one at a real stack.

use super::app::App;
use super::noise::Machine;
use super::pool::{Ended, Pool};
use crate::bench::{Offer, Step};
use crate::random::Random;
use kneepoint_model::{AbortRule, LoadPoint, Outcome, Second, SessionCounts, Slo};
use std::collections::VecDeque;

/// How long a refusal takes to come back, in seconds: an answer without work.
const REFUSAL_S: f64 = 0.0005;

/// What a step is driven at.
pub(super) struct Bed<'a> {
    pub(super) app: &'a App,
    pub(super) slo: &'a Slo,
    pub(super) pool: &'a mut Pool,
    pub(super) machine: &'a mut Machine,
    /// What each request takes.
    pub(super) sizes: &'a mut Random,
    /// The identity of the next request.
    pub(super) next_id: &'a mut u64,
    /// Share of what others leave of the machine's cores that this pool has: the rest is a second pool's.
    pub(super) share: f64,
}

impl Bed<'_> {
    /// Sets the pool to what the machine has for it now; returns until when that stays so.
    pub(super) fn keep_pace(&mut self, now_s: f64) -> f64 {
        let (speed, until_s) = self.machine.speed(now_s);
        let left = self.app.size.cores - self.machine.others();
        self.pool.set_speed(speed);
        self.pool.set_cores((left * self.share).max(LEAST_CORES));
        until_s
    }
}

/// What other programs never take of a pool's cores.
const LEAST_CORES: f64 = 0.05;

/// A request that is to start.
#[derive(Debug, Clone, Copy)]
struct Due {
    at_s: f64,
    /// Requests of its visit before it.
    made: u32,
    /// Whether the visit began in the window.
    counted: bool,
}

struct Request {
    due_s: f64,
    made: u32,
    counted: bool,
    in_window: bool,
    /// How it ended; `None` while it is open.
    outcome: Option<Outcome>,
    /// Its response time; infinite where it failed.
    took_s: f64,
}

/// A step under way.
pub(super) struct Drive<'a, 'b> {
    bed: &'a mut Bed<'b>,
    step: &'a Step,
    first_id: u64,
    /// Core seconds of the pool before the step.
    busy_before_s: f64,
    window_begins_s: f64,
    /// No request starts from here on.
    ends_s: f64,
    arrivals: Random,
    kinds: Random,
    /// When the next requests of an open loop (one) or a closed one (those that are due) start.
    due: VecDeque<Due>,
    requests: Vec<Request>,
    open: usize,
    /// Requests in the order in which their timeouts come.
    deadlines: VecDeque<usize>,
    speed_until_s: f64,
    began_s: f64,
    /// Core seconds of the other programs in each second so far, and until when they are counted.
    others_by_s: Vec<f64>,
    others_until_s: f64,
    sessions: SessionCounts,
    point: LoadPoint,
}

impl<'a, 'b> Drive<'a, 'b> {
    pub(super) fn new(bed: &'a mut Bed<'b>, step: &'a Step) -> Self {
        let began_s = bed.pool.now_s();
        let mut drive = Self {
            first_id: *bed.next_id,
            busy_before_s: bed.pool.busy_s(),
            window_begins_s: began_s + step.skip.as_secs_f64(),
            ends_s: began_s + step.duration.as_secs_f64(),
            arrivals: Random::new(step.seed, 0),
            kinds: Random::new(step.seed, 1),
            due: VecDeque::new(),
            requests: Vec::new(),
            open: 0,
            deadlines: VecDeque::new(),
            speed_until_s: began_s,
            began_s,
            others_by_s: Vec::new(),
            others_until_s: began_s,
            sessions: SessionCounts::default(),
            point: LoadPoint::default(),
            bed,
            step,
        };
        match step.offer {
            Offer::Rate(_) => drive.next_arrival(began_s),
            Offer::Workers(workers) => {
                let first = drive.first_of_a_visit(began_s);
                drive.due.extend((0..workers).map(|_| first));
            }
        }
        drive
    }

    /// Drives the step and returns what was measured.
    pub(super) fn run(mut self) -> LoadPoint {
        self.run_out();
        self.finish()
    }

    /// Drives the step and returns the violating share of each stretch of its window, by intended start.
    pub(super) fn violating_by_window(mut self, length_s: f64) -> Vec<f64> {
        self.run_out();
        let limit_s = self.bed.slo.response_time.as_secs_f64();
        let windows = ((self.ends_s - self.window_begins_s) / length_s).round() as usize;
        let mut counts = vec![(0.0, 0.0); windows];
        for request in self.requests.iter().filter(|request| request.in_window) {
            let index = ((request.due_s - self.window_begins_s) / length_s) as usize;
            if let Some((violating, all)) = counts.get_mut(index) {
                *violating += f64::from(u8::from(request.took_s > limit_s));
                *all += 1.0;
            }
        }
        counts
            .iter()
            .map(|(violating, all)| violating / f64::max(*all, 1.0))
            .collect()
    }

    /// Goes to the step's end, and until what is under way then has ended or timed out.
    fn run_out(&mut self) {
        loop {
            let due_s = self.due.front().map(|due| due.at_s);
            let due_s = due_s.filter(|due_s| *due_s < self.ends_s);
            if due_s.is_none() && self.open == 0 {
                return;
            }
            let until_s = due_s
                .unwrap_or(f64::INFINITY)
                .min(self.next_deadline_s())
                .min(self.speed_until_s);
            match self.bed.pool.advance(until_s) {
                Some(ended) => self.ended(ended),
                None => self.reached(until_s),
            }
        }
    }

    fn next_arrival(&mut self, after_s: f64) {
        if let Offer::Rate(rate_hz) = self.step.offer {
            let gap_s = self.arrivals.exponential(1.0 / rate_hz);
            self.due.push_back(self.first_of_a_visit(after_s + gap_s));
        }
    }

    fn first_of_a_visit(&self, at_s: f64) -> Due {
        Due {
            at_s,
            made: 0,
            counted: at_s >= self.window_begins_s,
        }
    }

    fn next_deadline_s(&mut self) -> f64 {
        while let Some(index) = self.deadlines.front() {
            let request = &self.requests[*index];
            if request.outcome.is_none() {
                return request.due_s + self.bed.slo.timeout.as_secs_f64();
            }
            self.deadlines.pop_front();
        }
        f64::INFINITY
    }

    fn reached(&mut self, now_s: f64) {
        if self.speed_until_s <= now_s {
            self.count_others(now_s);
            self.speed_until_s = self.bed.keep_pace(now_s);
        }
        while self.next_deadline_s() <= now_s {
            // The server does not notice: the worker stays busy, as PHP-FPM's does.
            if let Some(index) = self.deadlines.pop_front() {
                self.close(index, Outcome::Timeout, now_s);
            }
        }
        while let Some(due) = self.due.front().copied()
            && due.at_s <= now_s
            && due.at_s < self.ends_s
        {
            self.due.pop_front();
            if due.made == 0 {
                self.next_arrival(due.at_s);
                self.sessions.started += u64::from(due.counted);
            }
            self.issue(due);
        }
    }

    fn count_others(&mut self, now_s: f64) {
        let passed_s = (now_s - self.others_until_s).max(0.0);
        let second = (self.others_until_s - self.began_s).max(0.0) as usize;
        if self.others_by_s.len() <= second {
            self.others_by_s.resize(second + 1, 0.0);
        }
        self.others_by_s[second] += self.bed.machine.others() * passed_s;
        self.others_until_s = now_s;
    }

    fn issue(&mut self, due: Due) {
        let due_s = due.at_s;
        let pieces = self.bed.app.kind(&mut self.kinds).draw(self.bed.sizes);
        let index = self.requests.len();
        self.requests.push(Request {
            due_s,
            made: due.made,
            counted: due.counted,
            in_window: due_s >= self.window_begins_s,
            outcome: None,
            took_s: f64::INFINITY,
        });
        self.open += 1;
        let id = *self.bed.next_id;
        *self.bed.next_id += 1;
        if self.bed.pool.offer(id, pieces) {
            self.deadlines.push_back(index);
        } else {
            self.close(index, Outcome::HttpError, due_s + REFUSAL_S);
        }
    }

    fn ended(&mut self, ended: Ended) {
        // What an earlier step left behind, or what timed out, ends for nobody.
        let Some(index) = ended.id.checked_sub(self.first_id) else {
            return;
        };
        let index = index as usize;
        if self.requests[index].outcome.is_none() {
            self.close(index, Outcome::Ok, ended.at_s);
        }
    }

    /// A request has ended for whoever sent it; in a closed loop the next one is due.
    fn close(&mut self, index: usize, outcome: Outcome, at_s: f64) {
        let request = &mut self.requests[index];
        request.outcome = Some(outcome);
        self.open -= 1;
        let (time_s, in_window) = (at_s - request.due_s, request.in_window);
        if outcome == Outcome::Ok {
            request.took_s = time_s;
        }
        let next = Due {
            at_s,
            made: request.made + 1,
            counted: request.counted,
        };
        self.follow(next, outcome == Outcome::Ok);
        if !in_window {
            return;
        }
        let point = &mut self.point;
        point.arrivals += 1;
        *point.outcomes.by_outcome.entry(outcome).or_default() += 1;
        let time_us = (time_s * 1e6) as u64;
        if outcome == Outcome::Ok {
            point.response.record_us(time_us);
            point.good += u64::from(time_s <= self.bed.slo.response_time.as_secs_f64());
        } else {
            point.failed_response.record_us(time_us);
        }
        let rule = AbortRule::default();
        let hopeless =
            point.arrivals >= rule.after && point.violating_share() > rule.violating_share;
        if self.step.may_abort && hopeless && at_s < self.ends_s {
            self.ends_s = at_s;
            self.point.aborted = true;
        }
    }

    /// The next request of whose request has ended: of the same visit, or of a closed loop's next one.
    fn follow(&mut self, next: Due, ok: bool) {
        let length = self.bed.app.requests_a_visit.unwrap_or(1);
        let goes_on = ok && next.made < length;
        if !goes_on {
            self.sessions.completed += u64::from(ok && next.counted);
            self.sessions.broken_off += u64::from(!ok && next.counted);
        }
        match self.step.offer {
            // Before the arrival that is awaited, which lies ahead.
            Offer::Rate(_) if goes_on => self.due.push_front(next),
            Offer::Workers(_) if goes_on => self.due.push_back(next),
            Offer::Workers(_) => self.due.push_back(self.first_of_a_visit(next.at_s)),
            Offer::Rate(_) => {}
        }
    }

    /// The whole seconds of the window, by intended start.
    fn seconds(&self) -> Vec<Second> {
        let whole = (self.ends_s - self.window_begins_s).max(0.0) as usize;
        let mut all: Vec<Vec<&Request>> = vec![Vec::new(); whole];
        for request in self.requests.iter().filter(|request| request.in_window) {
            if let Some(one) = all.get_mut((request.due_s - self.window_begins_s) as usize) {
                one.push(request);
            }
        }
        let skip_s = self.step.skip.as_secs_f64();
        let limit_s = self.bed.slo.response_time.as_secs_f64();
        let seconds = all.iter().enumerate();
        seconds
            .map(|(nth, requests)| second(skip_s + nth as f64, requests, limit_s))
            .collect()
    }

    /// CPU time for each request that ended well, as on the testbed.
    fn cpu_ms(&self) -> Option<f64> {
        let ended_well = |request: &&Request| request.outcome == Some(Outcome::Ok);
        let served = self.requests.iter().filter(ended_well).count();
        let busy_s = self.bed.pool.busy_s() - self.busy_before_s;
        (served > 0).then(|| busy_s * 1e3 / served as f64)
    }

    fn finish(mut self) -> LoadPoint {
        let now_s = self.bed.pool.now_s();
        self.count_others(now_s);
        let cores = self.bed.app.size.cores;
        let core_s = ((now_s - self.began_s) * cores).max(1e-9);
        let busy_s = self.bed.pool.busy_s() - self.busy_before_s;
        // A second pool is at work for its share as this one is.
        let others_s: f64 = self.others_by_s.iter().sum();
        let used_s = others_s + busy_s / self.bed.share;
        let peak_s = self.others_by_s.iter().copied().fold(0.0, f64::max);
        self.point.health.foreign_share = Some(others_s / core_s);
        self.point.health.foreign_peak_share = Some(peak_s / cores);
        self.point.health.idle_share = Some((1.0 - used_s / core_s).max(0.0));
        self.point.seconds = self.seconds();
        self.point.cpu_ms = self.cpu_ms();
        let mut point = self.point;
        point.window_s = (self.ends_s - self.window_begins_s).max(0.0);
        point.service = point.response.clone();
        let visits = self.bed.app.requests_a_visit.map(|_| self.sessions);
        point.sessions = visits;
        point.offered_hz = point.arrivals as f64 / point.window_s.max(1e-9);
        match self.step.offer {
            Offer::Rate(rate_hz) if visits.is_some() => point.visits_offered_hz = Some(rate_hz),
            Offer::Rate(rate_hz) => point.offered_hz = rate_hz,
            Offer::Workers(workers) => point.closed_workers = Some(workers),
        }
        point.health.achieved_share = 1.0;
        point
    }
}

/// What became of the requests of a second that began at `at_s`.
fn second(at_s: f64, requests: &[&Request], limit_s: f64) -> Second {
    let mut took_s: Vec<f64> = requests.iter().map(|request| request.took_s).collect();
    took_s.sort_by(f64::total_cmp);
    let good = took_s.partition_point(|took_s| *took_s <= limit_s) as u64;
    took_s.truncate(took_s.partition_point(|took_s| took_s.is_finite()));
    let quantile_ms = |quantile: f64| {
        let at = (quantile * took_s.len() as f64).ceil() as usize;
        took_s.get(at.saturating_sub(1)).map(|took_s| took_s * 1e3)
    };
    let mut second = Second {
        at_s,
        offered: requests.len() as u64,
        good,
        p50_ms: quantile_ms(0.5),
        p90_ms: quantile_ms(0.9),
        p95_ms: quantile_ms(0.95),
        p99_ms: quantile_ms(0.99),
        max_ms: quantile_ms(1.0),
        ..Second::default()
    };
    for outcome in requests.iter().filter_map(|request| request.outcome) {
        *second.outcomes.by_outcome.entry(outcome).or_default() += 1;
    }
    second
}
