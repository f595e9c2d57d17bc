//! CPU time of each service, read every few seconds.

use super::moment::ServiceMoment;
use crate::snapshot::{Service, ServiceKind, Snapshot};
use kneepoint_linux::Kept;
use kneepoint_linux::process::parse_stat;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time between two looks: three hundred processes are three hundred files.
const EVERY: Duration = Duration::from_secs(5);
/// Ticks of a second in `/proc` (proc(5): always 100 on Linux).
const TICKS_HZ: f64 = 100.0;

/// What the processes of services used.
#[derive(Debug)]
pub(super) struct Services {
    stats: Kept,
    /// Ticks of each process at the last look.
    ticks: HashMap<u32, u64>,
    /// By first process: ticks since the watch began, and cores since the look before.
    used: HashMap<u32, (u64, Option<f64>)>,
    looked: Option<Instant>,
}

impl Default for Services {
    fn default() -> Self {
        Self {
            stats: Kept::new("stat"),
            ticks: HashMap::new(),
            used: HashMap::new(),
            looked: None,
        }
    }
}

impl Services {
    /// Goes on with the services of a new snapshot.
    pub(super) fn following(mut self, snapshot: &Snapshot) -> Self {
        let alive = |pid: &u32| snapshot.services.iter().any(|one| one.pid == *pid);
        self.used.retain(|pid, _| alive(pid));
        self
    }

    pub(super) fn look(&mut self, snapshot: &Snapshot) -> Vec<ServiceMoment> {
        let passed = self.looked.map(|at| at.elapsed());
        if passed.is_none_or(|passed| passed >= EVERY) {
            self.looked = Some(Instant::now());
            self.read(snapshot, passed);
        }
        snapshot
            .services
            .iter()
            .map(|one| self.moment(one))
            .collect()
    }

    fn moment(&self, service: &Service) -> ServiceMoment {
        let (ticks, cores) = self.used.get(&service.pid).copied().unwrap_or_default();
        let listens = service.listens.iter().filter_map(|one| one.queue);
        let queue = listens.reduce(|(length, limit), one| (length + one.0, limit + one.1));
        ServiceMoment {
            name: service.name(),
            kind: service.kind,
            cpu_s: ticks as f64 / TICKS_HZ,
            cores,
            queue,
        }
    }

    fn read(&mut self, snapshot: &Snapshot, passed: Option<Duration>) {
        let mut buffer = [0; 512];
        let mut now: HashMap<u32, u64> = HashMap::new();
        for service in &snapshot.services {
            let mut gained = 0;
            for pid in pids(service) {
                let stat = self.stats.read(pid, &mut buffer).ok().and_then(parse_stat);
                let Some(ticks) = stat.map(|stat| stat.own()) else {
                    continue;
                };
                // What a process used before it was first seen counts for nobody's last seconds.
                let before = self.ticks.get(&pid).copied().unwrap_or(ticks);
                gained += ticks.saturating_sub(before);
                now.insert(pid, ticks);
            }
            let used = self.used.entry(service.pid).or_default();
            used.0 += gained;
            used.1 = passed.map(|passed| gained as f64 / TICKS_HZ / passed.as_secs_f64().max(1e-3));
        }
        let alive: Vec<u32> = now.keys().copied().collect();
        self.stats.retain(&alive);
        self.ticks = now;
    }
}

/// Its processes: the first, and those that were seen last.
fn pids(service: &Service) -> Vec<u32> {
    let others: Vec<u32> = match service.kind {
        ServiceKind::Fpm => service
            .pools
            .iter()
            .flat_map(|pool| pool.workers.iter().map(|worker| worker.pid))
            .collect(),
        _ => service.processes.iter().map(|one| one.pid).collect(),
    };
    std::iter::once(service.pid).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_used_before_counts_for_nothing() {
        let snapshot = Snapshot {
            services: vec![Service::new(ServiceKind::Nginx, std::process::id())],
            ..Snapshot::default()
        };
        let mut services = Services::default().following(&snapshot);
        let first = services.look(&snapshot);
        assert_eq!((first[0].cpu_s, first[0].cores), (0.0, None));
        let began = kneepoint_linux::clock::thread_cpu();
        while kneepoint_linux::clock::thread_cpu() - began < Duration::from_millis(50) {}
        services.read(&snapshot, Some(Duration::from_millis(100)));
        let used = services.moment(&snapshot.services[0]);
        assert!(used.cpu_s > 0.0 && used.cores > Some(0.0), "{used:?}");
    }
}
