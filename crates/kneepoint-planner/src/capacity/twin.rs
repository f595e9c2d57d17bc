//! The twin of a measured stack: its pool, its cores, and requests that take what requests were seen to take.

use super::averages::{mean, median};
use super::cost::{rate_using, times};
use crate::random::Random;
use crate::simulated::WINDOW_S;
use crate::simulated::pool::{Piece, Pool, PoolSize, Scheduling};
use kneepoint_model::statistics::special::normal_quantile;
use kneepoint_model::{LatencyHistogram, Slo};
use std::ops::Range;

/// Requests of a twin's run.
pub(crate) const REQUESTS: u64 = 12_000;
/// Response times that stand for all that were measured.
const TRACED: usize = 400;
/// Stretches of CPU that a request comes in, with a wait between: for a database, a cache. Chosen on the recorded runs of
/// four real plans, where four of them made the p95 at four fifths of R* up to 7 % longer and it was rather too long.
const PIECES: usize = 2;
/// Most of a response time that may be CPU: of what is beyond, some ran beside it.
pub(crate) const MOST_CPU: f64 = 0.97;
/// Runs that bring the twin's mean response time to what was measured; each comes closer.
const ANCHORINGS: usize = 3;
/// Least share of a core that is left for the pool, so that a twin that is overloaded by all else still ends.
const LEAST_CORES: f64 = 0.02;
/// Requests that a run begins with and does not count: the pool fills.
const WARM_UP: u64 = 500;
/// Seconds after which the machine's speed changes: in which method.md's simulated machines forget theirs. On a shared one
/// the CPU that a request took in steps at low load 9 s apart was correlated by 0.65 and 0.34 in two plans, and by 0.47 and
/// 0.27 still where they were 35 s apart. So most windows have one speed, and half of them no slow one: with spells of 4 s R*
/// came out 4 % lower, and the p95 a sixth longer in one of these plans.
const SPELL_S: f64 = 45.0;
/// The least share of the rate that it bears at an even speed at which a wandering machine's R* is looked for.
const LEAST_SHARE: f64 = 0.7;
/// Fewest and most spells of a run: few would not be spread over the distribution.
const LEAST_SPELLS: f64 = 6.0;
const MOST_SPELLS: f64 = 1000.0;
/// Halvings of the range that R* lies in: to half a thousandth of a factor of two.
const HALVINGS: u32 = 11;
/// The same where its neighbourhood is known.
const NEARER_HALVINGS: u32 = 7;
/// Requests of all windows at a rate, as far as enough windows come of them.
const WINDOWED: usize = 500_000;
/// Fewest and most of these windows.
const LEAST_WINDOWS: usize = 9;
const MOST_WINDOWS: usize = 61;
/// Most stretches of a run.
const MOST_STRETCHES: f64 = 400.0;

/// How much a response time is simulated for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretches {
    /// Length of each stretch in seconds.
    pub(crate) each_s: f64,
    /// Requests of a run, as far as that makes enough stretches and not too many.
    pub(crate) requests: u64,
    pub(crate) runs: u64,
}

/// A stack as a queue.
#[derive(Debug, Clone)]
pub(crate) struct Twin {
    pub(crate) size: PoolSize,
    pub(crate) scheduling: Scheduling,
    /// Response times in seconds of requests that are alone.
    pub(crate) trace: Vec<f64>,
    /// What of them is CPU that the response waits for.
    pub(crate) cpu_share: f64,
    /// CPU in seconds that a request costs besides: of the network, the logs, the generator.
    pub(crate) aside_s: f64,
    /// The rate per second at which requests take this CPU, and by what power of the rate they take less (see
    /// [`super::cost::Cost`]).
    pub(crate) at_hz: f64,
    pub(crate) saving: f64,
    /// When whoever asked gives up, in seconds.
    pub(crate) timeout_s: f64,
    /// Standard deviation of the logarithm of how long the machine takes for the same work, from one spell to the next.
    pub(crate) wander: f64,
}

/// What came of a run: response times in seconds, infinite where the request failed.
pub(crate) struct Responses(Vec<f64>);

impl Responses {
    /// A quantile of each stretch of this many requests.
    fn quantiles_s(&self, quantile: f64, requests: usize) -> Vec<f64> {
        let stretches = self.0.chunks_exact(requests.max(1));
        stretches.map(|one| quantile_of(one, quantile)).collect()
    }

    pub(crate) fn mean_s(&self) -> f64 {
        mean(self.0.iter().copied().filter(|time| time.is_finite()))
    }
}

fn quantile_of(took_s: &[f64], quantile: f64) -> f64 {
    let mut sorted = took_s.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (quantile * sorted.len() as f64).ceil() as usize;
    sorted
        .get(at.saturating_sub(1))
        .copied()
        .unwrap_or(f64::INFINITY)
}

/// Whether response times, infinite where the request failed, meet an SLO.
fn holds(took_s: &[f64], slo: &Slo) -> bool {
    let count = (took_s.len() as f64).max(1.0);
    let share_beyond =
        |limit_s: f64| took_s.iter().filter(|time| **time > limit_s).count() as f64 / count;
    share_beyond(slo.response_time.as_secs_f64()) <= slo.violating_share()
        && share_beyond(f64::MAX) <= slo.errors.max(1.0 / count)
}

/// The highest rate of a range at which something holds, to as many halvings of it.
fn highest(range: Range<f64>, halvings: u32, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (range.start, range.end);
    for _ in 0..halvings {
        let middle = f64::midpoint(low, high);
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Response times as they were measured, in seconds, shortest first.
pub(crate) fn trace(measured: &LatencyHistogram) -> Vec<f64> {
    let quantile = |nth| (nth as f64 + 0.5) / TRACED as f64;
    (0..TRACED)
        .filter_map(|nth| measured.quantile_ms(quantile(nth)))
        .map(|ms| ms / 1e3)
        .collect()
}

impl Twin {
    /// Offers this many requests at a rate, by chance as users do.
    pub(crate) fn run(&self, rate_hz: f64, requests: u64, seed: u64) -> Responses {
        let times = times(self.saving, self.at_hz, rate_hz);
        let cores = (self.size.cores - times * self.aside_s * rate_hz).max(LEAST_CORES);
        let mut pool = Pool::new(PoolSize { cores, ..self.size }).scheduled(self.scheduling);
        let (mut arrivals, mut sizes) = (Random::new(seed, 0), Random::new(seed, 1));
        let all = requests + WARM_UP;
        let mut began_s = Vec::with_capacity(all as usize);
        let mut took_s = vec![f64::INFINITY; all as usize];
        let mut now_s = 0.0;
        let slowness = self.slowness(requests as f64 / rate_hz, seed);
        for id in 0..all {
            now_s += arrivals.exponential(1.0 / rate_hz);
            while let Some(ended) = pool.advance(now_s) {
                self.note(ended.id, ended.at_s, &began_s, &mut took_s);
            }
            let spell =
                id.saturating_sub(WARM_UP) as usize * slowness.len() / requests.max(1) as usize;
            pool.set_speed(1.0 / slowness[spell]);
            began_s.push(now_s);
            // A refusal fails, as it was noted already.
            pool.offer(id, self.pieces(times, &mut sizes));
        }
        let last_s = now_s + self.timeout_s;
        while let Some(ended) = pool.advance(last_s) {
            self.note(ended.id, ended.at_s, &began_s, &mut took_s);
        }
        took_s.drain(..WARM_UP as usize);
        Responses(took_s)
    }

    /// A quantile of the response time in ms at a rate that half of all stretches of this length stay below. It is what
    /// is met in most of them; over all requests together it is longer, since the slow ones come in bursts. The timeout
    /// where more failed, since whoever asked has waited that long: it is always a number, as what is infinite cannot be
    /// written down.
    pub(crate) fn quantile_ms(&self, rate_hz: f64, quantile: f64, asked: Stretches) -> f64 {
        let each = (asked.each_s * rate_hz).ceil().max(1.0);
        let requests = each
            * (asked.requests as f64 / each)
                .clamp(LEAST_WINDOWS as f64, MOST_STRETCHES)
                .ceil();
        let runs = (1..=asked.runs).flat_map(|seed| {
            let responses = self.run(rate_hz, requests as u64, seed);
            responses.quantiles_s(quantile, each as usize)
        });
        median(runs.map(|time| time.min(self.timeout_s))) * 1e3
    }

    fn note(&self, id: u64, at_s: f64, began_s: &[f64], took_s: &mut [f64]) {
        let time_s = at_s - began_s[id as usize];
        if time_s <= self.timeout_s {
            took_s[id as usize] = time_s;
        }
    }

    /// How long the machine takes for the same work in each spell of a run this long, 1 on average: what was measured is a
    /// mean. The spells of a run are spread over the whole distribution and come in random order, so that two runs differ by
    /// little.
    fn slowness(&self, run_s: f64, seed: u64) -> Vec<f64> {
        let count = (run_s / SPELL_S).ceil().clamp(LEAST_SPELLS, MOST_SPELLS) as usize;
        let middle = |nth| (nth as f64 + 0.5) / count as f64;
        let mut spells: Vec<f64> = (0..count)
            .map(|nth| (self.wander * normal_quantile(middle(nth))).exp())
            .collect();
        let mean = mean(spells.iter().copied());
        spells.iter_mut().for_each(|spell| *spell /= mean);
        let mut order = Random::new(seed, 2);
        for last in (1..count).rev() {
            spells.swap(last, order.below(last + 1));
        }
        spells
    }

    /// What one request takes: one of those measured, with this many times its CPU.
    fn pieces(&self, times: f64, random: &mut Random) -> Vec<Piece> {
        let whole_s = self.trace[random.below(self.trace.len())];
        let cpu_s = times * self.cpu_share * whole_s / PIECES as f64;
        let wait_s = (1.0 - self.cpu_share) * whole_s / (PIECES - 1) as f64;
        (1..=PIECES)
            .map(|nth| Piece {
                cpu_s,
                wait_s: if nth < PIECES { wait_s } else { 0.0 },
            })
            .collect()
    }

    /// The rate at which cores or workers are used up, and whether it is the cores.
    pub(crate) fn saturation(&self) -> (f64, bool) {
        let mean_s = mean(self.trace.iter().copied());
        let steady_hz = self.size.cores / (self.cpu_share * mean_s + self.aside_s);
        let by_cores = rate_using(steady_hz, self.saving, self.at_hz);
        let by_workers = f64::from(self.size.workers) / mean_s;
        (by_cores.min(by_workers), by_cores <= by_workers)
    }

    /// Makes the requests shorter, or longer, until their mean response time at [`Self::at_hz`] is what was measured there:
    /// what they waited for each other is taken out, and a request takes as long as it does at that rate. Its CPU stays what
    /// was counted, as far as it can lie on the way of a request that takes this long, and is aside beyond that.
    pub(crate) fn anchored(mut self, mean_s: f64, requests: u64) -> Self {
        let own_s = |twin: &Self| mean(twin.trace.iter().copied());
        let counted_s = self.cpu_share * own_s(&self);
        let cpu_s = counted_s + self.aside_s;
        for _ in 0..ANCHORINGS {
            let simulated_s = self.run(self.at_hz, requests, 17).mean_s();
            let factor = (mean_s / simulated_s).clamp(0.5, 1.5);
            self.trace.iter_mut().for_each(|time| *time *= factor);
            let on_the_way_s = counted_s.min(MOST_CPU * own_s(&self));
            self.cpu_share = on_the_way_s / own_s(&self).max(f64::MIN_POSITIVE);
            self.aside_s = cpu_s - on_the_way_s;
        }
        self
    }

    /// The highest rate per second at which the SLO holds over all requests while the machine has its mean speed.
    pub(crate) fn long_run_hz(&self, slo: &Slo, requests: u64, seed: u64) -> f64 {
        let steady = self.steady();
        let bears = |rate_hz| holds(&steady.run(rate_hz, requests, seed).0, slo);
        highest(0.0..1.1 * self.saturation().0, HALVINGS, bears)
    }

    /// R* per second: the highest rate at which it holds in half of the windows of steady operation, which is what a
    /// search finds. It is above [`Self::long_run_hz`], since what violates comes in bursts.
    pub(crate) fn limit_hz(&self, slo: &Slo, long_run_hz: f64, seed: u64) -> f64 {
        let bears = |rate_hz: f64| {
            let window = (WINDOW_S * rate_hz).ceil().max(1.0) as usize;
            let windows = (WINDOWED / window).clamp(LEAST_WINDOWS, MOST_WINDOWS);
            let got = self.run(rate_hz, (window * windows) as u64, seed);
            let held = got.0.chunks(window).filter(|one| holds(one, slo));
            2 * held.count() >= windows
        };
        let most_hz = (1.1 * self.saturation().0).max(long_run_hz);
        let least_hz = if self.wander > 0.0 {
            LEAST_SHARE * long_run_hz
        } else {
            long_run_hz
        };
        highest(least_hz..most_hz, NEARER_HALVINGS, bears)
    }

    /// The twin on a machine that does not wander.
    pub(crate) fn steady(&self) -> Self {
        Self {
            wander: 0.0,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::cost::BEYOND;
    use std::time::Duration;

    fn twin(workers: u32, cores: f64, mean_s: f64, cpu_share: f64) -> Twin {
        // Exponentially distributed, by its quantiles.
        let trace = (0..TRACED)
            .map(|nth| -mean_s * (1.0 - (nth as f64 + 0.5) / TRACED as f64).ln())
            .collect();
        Twin {
            size: PoolSize {
                workers,
                cores,
                backlog: 100_000,
            },
            scheduling: Scheduling::default(),
            trace,
            cpu_share,
            aside_s: 0.0,
            at_hz: 0.0,
            saving: 0.0,
            timeout_s: 60.0,
            wander: 0.0,
        }
    }

    /// M/M/1: response times are exponential with rate mu - lambda, so p95 is ln 20 / (mu - lambda).
    #[test]
    fn one_worker_is_the_known_queue() {
        let one = twin(1, 1.0, 0.01, 1.0);
        let p95 = quantile_of(&one.run(60.0, 200_000, 1).0, 0.95);
        let known = 20f64.ln() / (100.0 - 60.0);
        assert!((p95 / known - 1.0).abs() < 0.06, "{p95} {known}");
        let slo = Slo {
            response_time: Duration::from_millis(150),
            timeout: Duration::from_secs(60),
            ..Slo::default()
        };
        let limit = one.long_run_hz(&slo, 100_000, 2);
        let known = 100.0 - 20f64.ln() / 0.15;
        assert!((limit / known - 1.0).abs() < 0.03, "{limit} {known}");
    }

    #[test]
    fn cores_or_workers_are_used_up_first() {
        let (rate, cores) = twin(100, 2.0, 0.01, 0.5).saturation();
        assert!(cores && (rate / 400.0 - 1.0).abs() < 0.01, "{rate}");
        let (rate, cores) = twin(2, 2.0, 0.01, 0.5).saturation();
        assert!(!cores && (rate / 200.0 - 1.0).abs() < 0.01, "{rate}");
    }

    #[test]
    fn what_requests_cost_aside_is_taken_from_the_cores() {
        let without = twin(100, 2.0, 0.01, 1.0);
        let with = Twin {
            aside_s: 0.005,
            ..without.clone()
        };
        assert!((with.saturation().0 / without.saturation().0 - 1.0 / 1.5).abs() < 0.01);
        let p95 = |twin: &Twin| quantile_of(&twin.run(120.0, 50_000, 3).0, 0.95);
        assert!(p95(&with) > 1.3 * p95(&without));
    }

    #[test]
    fn a_request_that_takes_less_cpu_at_higher_rates_leaves_more_of_the_cores() {
        let constant = twin(100, 2.0, 0.01, 1.0);
        let saving = Twin {
            at_hz: 100.0,
            saving: 0.1 / BEYOND,
            ..constant.clone()
        };
        // All cores are used where `rate 0.01 (rate / 100)^-0.1` is 2.
        let known = 100.0 * 2f64.powf(1.0 / 0.9);
        assert!((saving.saturation().0 / known - 1.0).abs() < 0.01);
        let mean = |twin: &Twin, rate_hz| twin.run(rate_hz, 50_000, 3).mean_s();
        assert!(mean(&saving, 170.0) < 0.8 * mean(&constant, 170.0));
        assert!(mean(&saving, 30.0) > 1.05 * mean(&constant, 30.0));
    }

    #[test]
    fn slow_spells_make_the_tail_longer_and_leave_half_of_the_windows_as_they_are() {
        let steady = twin(100, 2.0, 0.01, 1.0);
        let wandering = Twin {
            wander: 0.1,
            ..steady.clone()
        };
        let p95 = |twin: &Twin| quantile_of(&twin.run(170.0, 60_000, 3).0, 0.95);
        assert!(p95(&wandering) > 1.2 * p95(&steady));
        let light = |twin: &Twin| twin.run(20.0, 60_000, 3).mean_s();
        assert!((light(&wandering) / light(&steady) - 1.0).abs() < 0.03);
        let slo = Slo::default();
        let limit = |twin: &Twin| twin.limit_hz(&slo, twin.long_run_hz(&slo, 20_000, 2), 2);
        let lower = limit(&wandering) / limit(&steady);
        assert!((0.95..1.01).contains(&lower), "{lower}");
        // Over all of them together it is lower.
        let long_run = |twin: &Twin| {
            let bears = |rate_hz| holds(&twin.run(rate_hz, 200_000, 2).0, &slo);
            highest(0.0..220.0, HALVINGS, bears)
        };
        let lower = long_run(&wandering) / long_run(&steady);
        assert!((0.8..0.95).contains(&lower), "{lower}");
    }

    /// What is slow comes in bursts: half of the stretches are better off than all requests together.
    #[test]
    fn half_of_the_stretches_are_below_a_quantile() {
        let one = twin(1, 1.0, 0.01, 1.0);
        let of = |each_s| {
            let asked = Stretches {
                each_s,
                requests: 200_000,
                runs: 2,
            };
            one.quantile_ms(80.0, 0.95, asked)
        };
        let known_ms = 20f64.ln() / (100.0 - 80.0) * 1e3;
        assert!((of(300.0) / known_ms - 1.0).abs() < 0.1, "{}", of(300.0));
        assert!(of(4.0) < 0.9 * known_ms, "{}", of(4.0));
    }

    /// Measured nearly alone and at a higher rate, where requests wait for each other.
    fn check_anchored(slower_at_first: f64) {
        let alone = twin(100, 1.0, 0.01, 1.0);
        let (low_hz, rate_hz) = (10.0, 50.0);
        let met = alone.run(rate_hz, 50_000, 4);
        let mut measured = LatencyHistogram::default();
        let at_low = alone.run(low_hz, 50_000, 5).0;
        at_low
            .iter()
            .for_each(|time| measured.record_us((time * slower_at_first * 1e6) as u64));
        let mean = |trace: &[f64]| trace.iter().sum::<f64>() / TRACED as f64;
        let (trace, counted_s) = (trace(&measured), mean(&alone.trace));
        let found = Twin {
            cpu_share: (counted_s / mean(&trace)).min(1.0),
            trace,
            at_hz: rate_hz,
            ..alone.clone()
        }
        .anchored(met.mean_s(), 50_000);
        let off = mean(&found.trace) / mean(&alone.trace) - 1.0;
        assert!(met.mean_s() > 1.5 * counted_s && off.abs() < 0.1, "{off}");
        let cpu_s = found.cpu_share * mean(&found.trace) + found.aside_s;
        assert!(cpu_s < 1.001 * counted_s, "{cpu_s}");
        assert!(found.aside_s >= 0.0 && found.cpu_share <= 1.0);
    }

    #[test]
    fn waits_for_each_other_are_taken_out_of_what_was_measured() {
        check_anchored(1.0);
    }

    #[test]
    fn a_request_takes_what_it_takes_at_the_highest_rate() {
        check_anchored(1.1);
        check_anchored(0.95);
    }
}
