//! What a step at low load showed, and of which host.

use crate::simulated::pool::Scheduling;
use kneepoint_model::{CpuTime, LatencyHistogram, Layer, LoadPoint, Second};

/// Shares of the rate that a first, rough model says is R*, at which is measured (method.md section 5). The highest leaves room
/// for a shared machine that gets slower: it stays below 60 % of an R* that is a quarter less by then.
pub const SHARES: [f64; 3] = [0.2, 0.33, 0.45];

/// One measured step, as the fit sees it.
#[derive(Debug, Clone)]
pub struct LowLoadStep {
    /// Which of the rates it is, from the lowest on.
    pub(crate) level: usize,
    /// Requests per second that ended.
    pub(crate) rate_hz: f64,
    /// The same over all the time in which CPU was counted, the second that is left out of the window with it.
    pub(crate) counted_hz: f64,
    pub(crate) response: LatencyHistogram,
    /// Of each second, the mean logarithm of its median and its 90th percentile in ms.
    pub(crate) seconds_ln_ms: Vec<f64>,
    /// Cores that were busy on the whole machine.
    pub(crate) busy_cores: f64,
    /// Cores of them that programs used which have nothing to do with the stack.
    pub(crate) others_cores: f64,
    /// Cores whose time the host of this machine kept.
    pub stolen_cores: f64,
    /// Cores that each tier's own processes used.
    pub(crate) tiers: Vec<(Layer, f64)>,
}

/// The pool and the machine, as configured.
#[derive(Debug, Clone, Copy)]
pub struct PlannedHost {
    /// Workers of the pool.
    pub workers: u32,
    /// Requests that may wait for one.
    pub backlog: u32,
    /// Cores of the machine.
    pub cores: f64,
    /// How the kernel gives the cores out.
    pub scheduling: Scheduling,
    /// Cores that are busy without a request, where more steps than those of a fit told it; the fit finds it where not.
    pub idle_cores: Option<f64>,
    /// By what power of the rate a request takes less CPU at higher rates, by the same.
    pub saving: Option<f64>,
}

impl LowLoadStep {
    /// A step at a rate of low load, as the fit sees it.
    #[must_use]
    pub fn of(level: usize, load: &LoadPoint, cpu: &CpuTime) -> Self {
        Self {
            level,
            rate_hz: load.throughput_hz(),
            counted_hz: cpu.cores(load.served_in_all() as f64),
            response: load.response.clone(),
            seconds_ln_ms: seconds_ln_ms(load),
            busy_cores: cpu.cores(cpu.busy_s),
            others_cores: cpu.cores(cpu.others_s),
            stolen_cores: cpu.cores(cpu.stolen_s),
            tiers: cpu
                .tiers_s
                .iter()
                .map(|(layer, core_s)| (*layer, cpu.cores(*core_s)))
                .collect(),
        }
    }

    /// Rate, and cores that were busy without those that others used: what these do from one step to the next would
    /// otherwise be taken for what requests at the one rate take more than at the other.
    pub(crate) fn busy(&self) -> (f64, f64) {
        (self.counted_hz, self.own_cores())
    }

    /// Cores that were busy for the stack, for who loads it, and for what the machine does by itself.
    pub(crate) fn own_cores(&self) -> f64 {
        (self.busy_cores - self.others_cores).max(0.0)
    }
}

/// How long the requests of each second of the window took, on a scale on which a slower machine adds the same to all.
pub(crate) fn seconds_ln_ms(load: &LoadPoint) -> Vec<f64> {
    let ln_ms = |second: &Second| {
        let (p50_ms, p90_ms) = second.p50_ms.zip(second.p90_ms)?;
        (p50_ms > 0.0).then(|| f64::midpoint(p50_ms.ln(), p90_ms.ln()))
    };
    // What was skipped at the start comes first.
    let skipped = load.seconds.len().saturating_sub(load.window_s as usize);
    load.seconds[skipped..].iter().filter_map(ln_ms).collect()
}

/// How Linux gives out this many cores where its clock ticks this often.
///
/// The slice is what a task may run before another that woke up comes first: 0.7 ms by `1 + log2` of the cores, of eight at
/// most (`sysctl_sched_base_slice` and `get_update_sysctl_factor` of kernel/sched/fair.c, Linux 6.14; 0.75 ms before). Among
/// tasks that are all beyond it the kernel looks whether one has had its slice at each tick only (`entity_tick`), so that
/// each keeps its core for as many whole ticks as a slice takes.
#[must_use]
pub fn scheduling(cores: u32, tick_s: f64) -> Scheduling {
    let slice_s = 0.7e-3 * f64::from(1 + cores.clamp(1, 8).ilog2());
    Scheduling {
        slice_s,
        quantum_s: Some(tick_s * (slice_s / tick_s).ceil()),
    }
}
