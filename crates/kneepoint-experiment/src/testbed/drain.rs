//! Brings an arm to rest between two steps: a step that starts in what the one before left measures that one.

use super::{CLIENT, Testbed, arm};
use crate::error::ExperimentError;
use crate::record::Event;
use kneepoint_linux::network::closed_connections;
use kneepoint_linux::process::children;
use kneepoint_model::metric::{QUEUE, WORKERS, WORKERS_BUSY, WORKERS_PINNED};
use kneepoint_model::{Endpoint, Layer, RunningTier, SeriesSet, Stack, ports};
use kneepoint_telemetry::sample_once;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longest wait for a stack to come to rest before a step (method.md: "drain <= 8 s").
const DRAIN: Duration = Duration::from_secs(8);
/// The same for an arm that did not come to rest before: it will not now.
const DRAIN_STUCK: Duration = Duration::from_secs(2);
/// How often workers are ended, and how long the others are given to come to rest then: as many as queue behind them are
/// taken up each time.
const ROUNDS: u32 = 6;
const ROUND: Duration = Duration::from_millis(700);
/// Closed connections that are no matter for any step: under a hundredth of the usual 28 232 ports.
const FEW: u64 = 250;
/// Share of a host's ports that may still be taken when a step starts: half of what makes connecting slow.
const TAKEN: f64 = 0.5 * ports::CLIFF;

impl Testbed {
    /// Waits at zero load until the arm's queue is empty, its workers idle and the ports of its hosts free. With
    /// `rested`, also until a pool that shrinks has shrunk.
    pub(super) fn drain(&self, name: &str, rested: bool) -> Result<(), ExperimentError> {
        // Nothing happened since the drain after the step before.
        if rested || !self.arm(name)?.drained.load(Ordering::Relaxed) {
            self.rest_workers(name, rested)?;
            self.arm(name)?.drained.store(true, Ordering::Relaxed);
        }
        self.free_ports(name)
    }

    /// Waits for [`DRAIN`] at most, then ends the workers that are still at work: pages that wait for one another hold all
    /// of them until a timeout of a minute, and a step that begins so measures the one before.
    fn rest_workers(&self, name: &str, rested: bool) -> Result<(), ExperimentError> {
        let arm = self.arm(name)?;
        let Some(php) = arm.running.iter().find(|tier| tier.layer == Layer::Php) else {
            return Ok(());
        };
        let mut watched = php.clone();
        watched.logs.clear();
        watched
            .endpoints
            .retain(|endpoint| matches!(endpoint, Endpoint::FpmStatus { .. }));
        let rest = resting_workers(&arm.stack).filter(|_| rested);
        let patience = if arm.stuck.load(Ordering::Relaxed) {
            DRAIN_STUCK
        } else {
            DRAIN
        };
        let mut wait = patience;
        for round in 0..=ROUNDS {
            let state = wait_for_rest(&watched, rest, wait);
            if state.is_none_or(|state| state == Rest::Reached) {
                return Ok(());
            }
            arm.stuck.store(true, Ordering::Relaxed);
            // A pool that has not shrunk yet is only idle; and FPM starts others in the place of those that end.
            let held = state == Some(Rest::Held) && php.server.as_str() == "fpm";
            if !held || round == ROUNDS {
                return Ok(());
            }
            self.end_workers(name, php.pid)?;
            wait = ROUND;
        }
        Ok(())
    }

    /// Ends the workers of an FPM by their ids; its master starts others. Requests that queue for one are taken up by those,
    /// so that it may need doing again.
    fn end_workers(&self, name: &str, master: u32) -> Result<(), ExperimentError> {
        let workers = children(master).unwrap_or_default();
        if workers.is_empty() {
            return Ok(());
        }
        self.observer.event(&Event::Progress {
            what: &format!(
                "{name}: ending {} PHP workers that are still at work though the load has stopped",
                workers.len()
            ),
            share: 1.0,
            left: None,
        });
        self.signal(name, "-TERM", &workers)
    }

    /// Whoever closes a connection keeps its port for a minute. A host that a saturating step left without ports
    /// would make every step of the next minute slow, at any rate.
    fn free_ports(&self, name: &str) -> Result<(), ExperimentError> {
        let tiers = self.arm(name)?.running.iter();
        // On a network that is not this run's own, other people's connections are none of its business.
        let hosts = tiers
            .filter(|tier| tier.netns.is_some())
            .map(|tier| (arm::host_name(name, tier.layer), tier.pid));
        for (host, pid) in hosts {
            if closed_connections(pid).unwrap_or(0) > FEW {
                self.lab.forget_closed_connections(&host)?;
                self.wait_for_ports(&host, pid)?;
            }
        }
        if self.client.netns.is_some() {
            self.lab.forget_closed_connections(CLIENT)?;
        }
        Ok(())
    }

    fn wait_for_ports(&self, host: &str, pid: u32) -> Result<(), ExperimentError> {
        let began = Instant::now();
        let most = TAKEN * self.ports(host)?;
        loop {
            let closed = closed_connections(pid).unwrap_or(0);
            let waited = began.elapsed();
            if closed as f64 <= most || waited >= ports::TIME_WAIT {
                return Ok(());
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(ExperimentError::Interrupted);
            }
            self.observer.event(&Event::Progress {
                what: &format!(
                    "waiting for {closed} local ports of {host} that closed connections still hold"
                ),
                share: waited.as_secs_f64() / ports::TIME_WAIT.as_secs_f64(),
                left: ports::TIME_WAIT.checked_sub(waited),
            });
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// How many local ports a host hands out by itself.
    fn ports(&self, host: &str) -> Result<f64, ExperimentError> {
        let range = self.lab.sysctl(host, "net.ipv4.ip_local_port_range")?;
        Ok(ports::count_of_range(&range))
    }
}

/// How a pool is without load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// No request is served or queues, and a pool that shrinks has shrunk.
    Reached,
    /// All is idle, and the pool is still large.
    Large,
    /// Requests are served or queue.
    Held,
}

/// Waits for a pool to come to rest; how it was last, or `None` where it cannot be looked at.
fn wait_for_rest(watched: &RunningTier, rest: Option<f64>, longest: Duration) -> Option<Rest> {
    let began = Instant::now();
    loop {
        let seen = sample_once(vec![watched.clone()]).ok()?;
        let state = Rest::of(&seen.series, rest);
        if state == Rest::Reached || began.elapsed() >= longest {
            return Some(state);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

impl Rest {
    /// By the last sample, where a pool that shrinks comes down to so many workers.
    fn of(series: &SeriesSet, rest: Option<f64>) -> Self {
        let level = |metric| series.last(Layer::Php, metric).unwrap_or(0.0);
        let held = level(WORKERS_BUSY) - level(WORKERS_PINNED);
        if level(QUEUE) >= 1.0 || held >= 1.0 {
            Self::Held
        } else if rest.is_some_and(|rest| level(WORKERS) > rest) {
            Self::Large
        } else {
            Self::Reached
        }
    }
}

/// Workers a pool that shrinks when idle comes down to; `None` for one that does not.
fn resting_workers(stack: &Stack) -> Option<f64> {
    stack.tier(Layer::Php)?.pool.as_ref()?.spawn_per_s?;
    let spare = stack
        .number(Layer::Php, "pm.max_spare_servers")
        .unwrap_or(0.0);
    Some(spare.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_at_rest_when_nothing_is_served_or_queues() {
        let level = |busy: f64, queue: f64, workers: f64| {
            let mut series = SeriesSet::default();
            for (metric, value) in [(WORKERS_BUSY, busy), (QUEUE, queue), (WORKERS, workers)] {
                series.push(Layer::Php, metric, "", 0.0, value);
            }
            series
        };
        assert_eq!(Rest::of(&level(0.0, 0.0, 9.0), None), Rest::Reached);
        assert_eq!(Rest::of(&level(0.0, 0.0, 9.0), Some(3.0)), Rest::Large);
        assert_eq!(Rest::of(&level(2.0, 0.0, 9.0), Some(3.0)), Rest::Held);
        assert_eq!(Rest::of(&level(0.0, 4.0, 3.0), Some(3.0)), Rest::Held);
    }
}
