//! How much of the CPU was used, whose it is, and what part of it something takes.

use super::Phase;
use crate::Evidence;
use kneepoint_model::units::format_share;
use kneepoint_model::{Layer, metric};

/// CPU use below which more work could be done (catalogue FPM-01).
pub(crate) const CPU_HEADROOM: f64 = 0.7;
/// Part of the SLO's response time that PHP's CPU time of a request is at least where that is too much \[ours\]: the slowest
/// twentieth takes half as long again as the mean on nearly every page.
const TOO_LONG: f64 = 0.7;
/// CPU use just below the limit from which on it is used up \[ours\]: the limit lies a twentieth above, and bursts need some.
const FULL: f64 = 0.8;
/// Workers ready to run, for each core, from which on they keep the cores busy \[ours\].
const CROWDED: f64 = 2.0;

/// How much of the most loaded CPU share was used, and whose it is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CpuUse {
    /// Used over available, 0 to 1 (measurement noise may exceed 1 slightly).
    pub(crate) share: f64,
    /// `the machine's 2 cores`, `the 1 core of the php host`.
    pub(crate) of: String,
    /// The host whose cores they are; `None` for all of the machine's.
    pub(crate) host: Option<Layer>,
}

impl CpuUse {
    /// `96 % of the machine's 2 cores used`.
    pub(crate) fn describe(&self) -> String {
        format!("{} of {} used", format_share(self.share), self.of)
    }
}

impl Evidence {
    /// Cores of the machine, or of the part of it that is to be had.
    pub(crate) fn cores(&self) -> f64 {
        self.machine.cpus()
    }

    /// Cores the host of a tier may use.
    pub(crate) fn cpus(&self, layer: Layer) -> f64 {
        match self.stack.tier(layer) {
            Some(tier) if tier.cpus > 0.0 => tier.cpus.min(self.cores()),
            _ => self.cores(),
        }
    }

    /// The most used of: the machine, and every host with fewer cores than it. `None` when CPU was not measured.
    pub(crate) fn cpu_use(&self, phase: &Phase) -> Option<CpuUse> {
        let tiers = self.stack.tiers.iter().filter_map(|tier| {
            let cpus = self.cpus(tier.layer);
            (cpus < self.cores()).then_some(())?;
            Some(CpuUse {
                share: phase.cores_used(tier.layer)? / cpus,
                of: format!("the {cpus:.2} cores of the {} host", tier.layer),
                host: Some(tier.layer),
            })
        });
        tiers
            .chain(self.machine_use(phase))
            .max_by(|a, b| a.share.total_cmp(&b.share))
    }

    fn machine_use(&self, phase: &Phase) -> Option<CpuUse> {
        let series = &phase.series;
        let stolen = series
            .rate(Layer::Generator, metric::MACHINE_STEAL_S)
            .unwrap_or(0.0);
        let busy = series.rate(Layer::Generator, metric::MACHINE_BUSY_S)?;
        Some(CpuUse {
            share: busy / (self.cores() - stolen).max(0.1),
            of: format!("the machine's {}", self.machine.cores_in_words()),
            host: None,
        })
    }

    /// The hosts with fewer cores than the machine that have used their own up while the machine has some left: no work that is
    /// saved on another host makes room there.
    fn full_hosts(&self, phase: &Phase) -> Vec<Layer> {
        let machine = self.machine_use(phase);
        if machine.is_some_and(|cpu| cpu.share >= FULL) {
            return Vec::new();
        }
        let is_full = |layer: &Layer| {
            let (cpus, used) = (self.cpus(*layer), phase.cores_used(*layer));
            cpus < self.cores() && used.is_some_and(|used| used >= FULL * cpus)
        };
        Layer::TIERS.into_iter().filter(is_full).collect()
    }

    /// Whether what PHP computes for a request takes most of the time that the SLO allows for it. Then R* is low however much of
    /// the CPU is idle, and what it computes is what binds.
    pub(crate) fn computes_too_long(&self) -> bool {
        let allowed_ms = self.slo.response_time.as_secs_f64() * 1e3;
        let php_ms = self.knee().and_then(|knee| knee.cpu_ms(Layer::Php));
        php_ms.is_some_and(|ms| ms >= TOO_LONG * allowed_ms)
    }

    /// Whether more workers of PHP are ready to run than there are cores for them. Then no core is idle for want of a worker: what
    /// looks idle is withheld, by a quota that nobody told us of or by another machine on the same hardware.
    pub(crate) fn wants_cpu(&self, phase: &Phase) -> bool {
        let running = phase.series.mean(Layer::Php, metric::WORKERS_RUNNING);
        running.is_some_and(|running| running >= CROWDED * self.cpus(Layer::Php))
    }

    /// Which part of all CPU time that was used so many cores of each of these tiers are: what R* would gain without them
    /// where the CPU binds. Where the CPU of single hosts binds, it is the largest part of one of those. Of all cores where use
    /// was not measured.
    pub(crate) fn part_of_cpu(&self, phase: &Phase, parts: &[(Layer, f64)]) -> f64 {
        let part = |cores: f64, used: Option<f64>, all| {
            cores / used.filter(|used| *used > cores).unwrap_or(all)
        };
        let full = self.full_hosts(phase);
        if full.is_empty() {
            let cores = parts.iter().map(|(_, cores)| cores).sum();
            let used = phase.series.rate(Layer::Generator, metric::MACHINE_BUSY_S);
            return part(cores, used, self.cores());
        }
        let of_full = parts.iter().filter(|(layer, _)| full.contains(layer));
        let of_full =
            of_full.map(|(layer, cores)| part(*cores, phase.cores_used(*layer), self.cpus(*layer)));
        of_full.fold(0.0, f64::max)
    }

    /// A tier's share of the CPU that all tiers use just below the limit: what costs only its CPU costs no more. Where one
    /// host's CPU binds, all of that or nothing. 1 where it was not measured.
    pub(crate) fn part_of_tiers(&self, layer: Layer) -> f64 {
        let share = || {
            let phase = self.knee()?;
            let full = self.full_hosts(phase);
            if !full.is_empty() {
                return Some(if full.contains(&layer) { 1.0 } else { 0.0 });
            }
            let used = |layer: Layer| phase.cores_used(layer);
            let all: f64 = Layer::TIERS.into_iter().filter_map(used).sum();
            (all > 0.0).then_some(used(layer)? / all)
        };
        share().unwrap_or(1.0)
    }
}
