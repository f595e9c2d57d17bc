//! Brings an arm to rest between two steps: a step that starts in what the one before left measures that one.

use super::{CLIENT, Testbed, arm};
use crate::error::ExperimentError;
use crate::recorder::Event;
use kneepoint_model::metric::{QUEUE, WORKERS, WORKERS_BUSY, WORKERS_PINNED};
use kneepoint_model::{Endpoint, Layer, Stack, ports};
use kneepoint_telemetry::sample_once;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longest wait for a stack to come to rest before a step (method.md: "drain <= 8 s").
const DRAIN: Duration = Duration::from_secs(8);
/// The same for an arm that did not come to rest before: it will not now.
const DRAIN_STUCK: Duration = Duration::from_secs(2);
/// Closed connections that are no matter for any step: under a hundredth of the usual 28 232 ports.
const FEW: usize = 250;
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

    /// Gives up after [`DRAIN`]: workers that stay busy without load are for the diagnosis to name.
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
        let began = Instant::now();
        while began.elapsed() < patience {
            let Ok(seen) = sample_once(vec![watched.clone()]) else {
                return Ok(());
            };
            let level = |metric| seen.series.last(Layer::Php, metric).unwrap_or(0.0);
            let held = level(WORKERS_BUSY) - level(WORKERS_PINNED);
            let shrunk = rest.is_none_or(|rest| level(WORKERS) <= rest);
            if level(QUEUE) < 1.0 && held < 1.0 && shrunk {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        arm.stuck.store(true, Ordering::Relaxed);
        Ok(())
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
            if closed_connections(pid) > FEW {
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
            let closed = closed_connections(pid);
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

/// Connections in TIME_WAIT in the network of a process, as its `/proc/PID/net/sockstat` counts them.
fn closed_connections(pid: u32) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{pid}/net/sockstat")).unwrap_or_default();
    time_wait_of(&text).unwrap_or(0)
}

fn time_wait_of(sockstat: &str) -> Option<usize> {
    let tcp = sockstat
        .lines()
        .find_map(|line| line.strip_prefix("TCP:"))?;
    let mut words = tcp.split_whitespace();
    words.find(|word| *word == "tw")?;
    words.next()?.parse().ok()
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
    use super::time_wait_of;

    #[test]
    fn closed_connections_are_counted_as_the_kernel_prints_them() {
        let text =
            "sockets: used 9\nTCP: inuse 4 orphan 0 tw 186 alloc 5 mem 0\nUDP: inuse 0 mem 0\n";
        assert_eq!(time_wait_of(text), Some(186));
        assert_eq!(time_wait_of("sockets: used 9\n"), None);
    }
}
