//! The saturation model of a worker pool, and how large a pool may and should be.

use crate::Evidence;
use crate::advice::Advice;
use crate::evidence::{Phase, PhaseKind};
use kneepoint_model::{Layer, Setting, SettingKey, metric};

/// Share of the memory left after OPcache that workers may take (method.md section 3).
const MEMORY_SHARE: f64 = 0.85;
/// Head room over Little's law when a pool is sized (method.md section 3).
const LITTLE_HEADROOM: f64 = 1.25;
/// Connections a database keeps for its superuser and for those who look after it; PostgreSQL reserves 3,
/// the rest is for monitoring and migrations.
pub(crate) const SPARE_CONNECTIONS: f64 = 10.0;
/// Most a pool is grown in one step for the sake of the cores alone \[ours\]: on a machine of 64 they ask for 256.
const LARGE_STEP: f64 = 8.0;
/// Most a pool is grown in one step: beyond it the estimate extrapolates too far.
const LARGEST_STEP: f64 = 16.0;
/// Workers for each core that a pool of CPU-bound requests should have: one to two run, the rest bridges waits
/// (catalogue FPM-01).
pub(crate) const WORKERS_PER_CORE: f64 = 4.0;
/// Workers for each core from which on a pool is ample, and workers that are on any machine \[ours\].
const AMPLE: f64 = 4.0;
const AMPLE_ANYWHERE: f64 = 64.0;
/// Share of the pool from which on it counts as fully busy: the status is sampled while workers change hands.
const FULLY_BUSY: f64 = 0.9;
/// Mean length from which on a queue counts as standing.
const STANDING_QUEUE: f64 = 1.0;

/// The PHP pool during a phase.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PoolState {
    /// Busy ones on average, those pinned by an idle connection included.
    pub(crate) busy: f64,
    /// Busy ones that hold an idle kept-alive connection.
    pub(crate) pinned: f64,
    /// Most there can be.
    pub(crate) max: f64,
    /// Busy ones and waiting requests once the pool had time to fill: where a load far above the limit begins at rest, pages of a
    /// second or more fill it for seconds. Requests wait in the accept queue, and in the runtime where it keeps a queue of its own.
    filled: (f64, f64),
    /// Requests accepted per second.
    pub(crate) hz: f64,
    /// Share of busy workers that sleep; `None` when wait states were not sampled.
    pub(crate) blocked: Option<f64>,
}

impl PoolState {
    /// Share of the workers there can be that an idle connection holds.
    pub(crate) fn pinned_share(&self) -> f64 {
        self.pinned / self.max.max(1.0)
    }

    /// Reads it; `None` when the chain has no pool or its workers were not counted.
    ///
    /// Busy workers are counted twice, once a second by the runtime itself and twenty times a second by their wait
    /// states; the larger count is taken, since a worker between two requests is busy to neither.
    pub(crate) fn read(evidence: &Evidence, phase: &Phase) -> Option<Self> {
        let pool = evidence.stack.tier(Layer::Php)?.pool.as_ref()?;
        let max = pool.max_workers as f64;
        let busy = busy(phase)?;
        let queue = queued(phase);
        let late = (phase.kind == PhaseKind::Over).then(|| {
            let window_s = phase.load.window_s;
            phase.during(window_s / 2.0, window_s)
        });
        let late = late.and_then(|late| Some((self::busy(&late)?, queued(&late))));
        let filled = late.map_or((busy, queue), |late| (late.0.max(busy), late.1.max(queue)));
        Some(Self {
            busy: busy.min(max),
            pinned: phase.pinned().unwrap_or(0.0),
            max,
            filled: (filled.0.min(max), filled.1),
            hz: phase.pool_hz(),
            blocked: blocked_share(phase, busy),
        })
    }

    /// Every worker that can exist is busy and requests wait.
    pub(crate) fn exhausted(&self) -> bool {
        let (busy, queue) = self.filled;
        busy >= FULLY_BUSY * self.max && queue >= STANDING_QUEUE
    }

    /// Whether there are workers enough that a peer of ordinary speed would not hold all of them. In a small pool its size is the
    /// first suspect (catalogue FPM-01: one to two per core when CPU-bound).
    pub(crate) fn is_ample(&self, evidence: &Evidence) -> bool {
        self.max >= (AMPLE * evidence.cpus(Layer::Php)).min(AMPLE_ANYWHERE)
    }

    /// `8 of 8 workers busy, 12 requests queue before them`.
    pub(crate) fn describe(&self) -> String {
        let (busy, queue) = self.filled;
        format!(
            "{busy:.1} of at most {:.0} workers busy, {queue:.1} requests queue before them",
            self.max
        )
    }

    /// Seconds a worker holds one request, by Little's law.
    pub(crate) fn hold_s(&self) -> Option<f64> {
        (self.hz > 0.0).then_some((self.busy - self.pinned).max(0.0) / self.hz)
    }
}

/// Workers that are busy, pinned ones included; `None` where nobody counted them.
fn busy(phase: &Phase) -> Option<f64> {
    let counted = phase.series.mean(Layer::Php, metric::WORKERS_BUSY);
    let seen = phase
        .series
        .mean(Layer::Php, metric::WORKERS_RUNNING)
        .map(|running| running + waiting(phase) + phase.pinned().unwrap_or(0.0));
    counted.into_iter().chain(seen).reduce(f64::max)
}

/// Requests that wait for a worker: before the listener, and in the runtime where it keeps them.
pub(crate) fn queued(phase: &Phase) -> f64 {
    let accept = phase.largest_mean(Layer::Php, metric::QUEUE);
    let own = phase.series.mean(Layer::Php, metric::WORKERS_QUEUED);
    accept.unwrap_or(0.0) + own.unwrap_or(0.0)
}

fn waiting(phase: &Phase) -> f64 {
    phase.waits().iter().map(|wait| wait.workers).sum()
}

fn blocked_share(phase: &Phase, busy: f64) -> Option<f64> {
    let waiting = waiting(phase);
    match phase.series.mean(Layer::Php, metric::WORKERS_RUNNING) {
        Some(running) if running + waiting > 0.0 => Some(waiting / (running + waiting)),
        _ if waiting > 0.0 && busy > 0.0 => Some((waiting / busy).min(1.0)),
        _ => phase.series.mean(Layer::Php, metric::WORKERS_BLOCKED),
    }
}

/// Memory the PHP tier may use, in bytes: the limit of its host, and no more than the other tiers leave of what all of
/// them share, which is the machine's or what the scenario grants them together.
pub(crate) fn memory_limit(evidence: &Evidence) -> Option<f64> {
    let is_known = |bytes: &u64| *bytes > 0;
    let host = evidence.stack.tier(Layer::Php);
    let host = host.map(|tier| tier.memory_bytes).filter(is_known);
    let shared = [
        Some(evidence.machine.memory_bytes),
        evidence.memory_budget_bytes,
    ];
    let shared = shared.into_iter().flatten().filter(is_known).min();
    let others: f64 = Layer::TIERS
        .into_iter()
        .filter(|layer| *layer != Layer::Php)
        .filter_map(|layer| evidence.largest(layer, metric::PSS_BYTES))
        .sum();
    let left = shared.map(|bytes| (bytes as f64 - others).max(0.0));
    let host = host.map(|bytes| bytes as f64);
    host.into_iter().chain(left).reduce(f64::min)
}

/// OPcache's shared memory in bytes, as configured (the setting counts in MB).
pub(crate) fn opcache_bytes(evidence: &Evidence) -> f64 {
    let megabytes = evidence
        .stack
        .number(Layer::Php, "opcache.memory_consumption");
    megabytes.unwrap_or(0.0) * f64::from(1 << 20)
}

/// Memory of the largest worker in bytes; `None` where that was not measured, or workers are threads of one process, as those of
/// FrankenPHP are: then nobody knows what one takes.
///
/// It is read where most workers were there: what they share, OPcache above all, counts the more for each the fewer they are.
pub(crate) fn worker_bytes(evidence: &Evidence) -> Option<f64> {
    let tier = evidence.stack.tier(Layer::Php)?;
    let are_processes = tier.server.as_str() != "frankenphp";
    let stressed = evidence.stressed();
    let largest = stressed.and_then(|phase| phase.largest(Layer::Php, metric::PSS_WORKER_BYTES));
    let largest = largest.or_else(|| evidence.largest(Layer::Php, metric::PSS_WORKER_BYTES));
    largest.filter(|_| are_processes)
}

/// Most workers that fit the memory, by the largest worker seen; `None` when that was not measured.
pub(crate) fn memory_cap(evidence: &Evidence) -> Option<f64> {
    let worker = worker_bytes(evidence)?;
    let room = memory_limit(evidence)? - opcache_bytes(evidence);
    (worker > 0.0).then_some((MEMORY_SHARE * room / worker).floor().max(1.0))
}

/// The size at which the pool stops being the limit: enough workers to use the CPU that was left, at least twice as
/// many as now and a few for each core, within the memory. `cpu_share` is what was used while the pool was exhausted.
pub(crate) fn sufficient_size(evidence: &Evidence, pool: &PoolState, cpu_share: f64) -> f64 {
    let by_little = LITTLE_HEADROOM * pool.filled.0 / cpu_share.clamp(1.0 / LARGEST_STEP, 1.0);
    let wanted = by_little
        .ceil()
        .max(2.0 * pool.max)
        .min(LARGEST_STEP * pool.max)
        .max(
            (WORKERS_PER_CORE * evidence.cpus(Layer::Php))
                .ceil()
                .min(LARGE_STEP * pool.max),
        );
    memory_cap(evidence).map_or(wanted, |cap| wanted.min(cap))
}

/// How many workers a pool has and how many it needs.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolNeed {
    /// The setting that sizes it.
    pub key: SettingKey,
    /// Most workers there can be.
    pub workers: u64,
    /// Workers that R* needs at least, by Little's law with a quarter of head room (method.md section 3): R* times the
    /// time a worker holds a request when it is nearly alone. Near the limit workers wait for one another's CPU, and
    /// as many of them do as there are. One for each core at least.
    pub needed: u64,
    /// Workers that are likely to do: a few for each core.
    pub likely: u64,
    /// Proportional set size (PSS) of the largest worker in bytes; `None` where it was not measured.
    pub worker_bytes: Option<u64>,
}

/// What the pool needs, by what was seen at low load; `None` without a pool, or where it was not seen.
#[must_use]
pub fn pool_need(evidence: &Evidence) -> Option<PoolNeed> {
    let pool = PoolState::read(evidence, evidence.phase(PhaseKind::Low)?)?;
    let cpus = evidence.cpus(Layer::Php);
    let held = evidence.limit_hz?.estimate * pool.hold_s()?;
    let needed = (LITTLE_HEADROOM * held).max(cpus);
    let worker_bytes = worker_bytes(evidence);
    Some(PoolNeed {
        key: size_key(evidence),
        workers: pool.max as u64,
        needed: needed.ceil() as u64,
        likely: (WORKERS_PER_CORE * cpus).max(needed).ceil() as u64,
        worker_bytes: worker_bytes.map(|bytes| bytes as u64),
    })
}

/// Advises a pool of this size, with what the tiers behind must accept then.
pub(crate) fn resize<'a>(evidence: &'a Evidence, size: f64, text: String) -> Advice<'a> {
    let key = size_key(evidence);
    let mut text = text;
    let mut behind = Vec::new();
    for (layer, name) in [(Layer::Db, "max_connections"), (Layer::Cache, "maxclients")] {
        let Some(slots) = evidence.stack.number(layer, name) else {
            continue;
        };
        if size + SPARE_CONNECTIONS > slots {
            let wanted = ((size + SPARE_CONNECTIONS) / 10.0).ceil() * 10.0;
            text.push_str(&format!(
                " Each worker may hold a connection, and {layer}.{name} is {slots:.0}: raise it along."
            ));
            behind.push(Setting::new(layer, name, wanted));
        }
    }
    let advice = Advice::new(evidence, text).set(key.layer, &key.name, size);
    behind.into_iter().fold(advice, |advice, setting| {
        advice.also(setting.key.layer, &setting.key.name, setting.value)
    })
}

/// The setting that sizes the pool.
pub(crate) fn size_key(evidence: &Evidence) -> SettingKey {
    evidence
        .stack
        .tier(Layer::Php)
        .and_then(|tier| tier.pool.as_ref())
        .map_or_else(
            || SettingKey::new(Layer::Php, "pm.max_children"),
            |pool| pool.size_key.clone(),
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::Case;
    use kneepoint_model::ServerKind;

    #[test]
    fn nobody_knows_what_a_thread_takes() {
        let cap = |server: &str| {
            let case =
                Case::healthy().tier(Layer::Php, |tier| tier.server = ServerKind::new(server));
            memory_cap(&case.evidence())
        };
        assert!(cap("fpm").is_some());
        assert_eq!(cap("frankenphp"), None);
    }

    #[test]
    fn other_tiers_hold_memory_of_the_machine_too() {
        const GIB: f64 = 1_073_741_824.0;
        let limit = |alter: fn(&mut Evidence)| {
            let case = Case::healthy()
                .everywhere(Layer::Db, metric::PSS_BYTES, "", 1.5 * GIB)
                .everywhere(Layer::Cache, metric::PSS_BYTES, "", 0.5 * GIB)
                .everywhere(Layer::Php, metric::PSS_BYTES, "", 0.25 * GIB)
                .with(alter);
            memory_limit(&case.evidence()).expect("a limit") / GIB
        };
        // Nobody has a limit: PHP has what is left of the machine's 4 GiB.
        assert!((limit(|_| {}) - 2.0).abs() < 1e-9);
        let of_host = limit(|evidence| {
            let mut tiers = evidence.stack.tiers.iter_mut();
            let php = tiers.find(|tier| tier.layer == Layer::Php);
            php.expect("PHP").memory_bytes = 1 << 30;
        });
        assert!((of_host - 1.0).abs() < 1e-9);
        // Less than the others hold already.
        let together = limit(|evidence| evidence.memory_budget_bytes = Some(1 << 30));
        assert!(together.abs() < 1e-9);
    }

    #[test]
    fn a_pool_needs_what_r_star_holds_of_it_at_low_load() {
        let case = Case::healthy()
            .pool_of(60)
            .with(|evidence| {
                evidence.limit_hz = Some(kneepoint_model::Interval {
                    low: 190.0,
                    estimate: 200.0,
                    high: 210.0,
                })
            })
            .gauge(PhaseKind::Low, Layer::Php, metric::WORKERS_BUSY, "", 1.2)
            .gauge(PhaseKind::Low, Layer::Php, metric::WORKERS_RUNNING, "", 1.0)
            .counter(PhaseKind::Low, Layer::Php, metric::WORKER_REQUESTS, 60.0);
        let need = pool_need(&case.evidence()).expect("a pool was seen");
        // 1.2 workers at 60/s hold a request for 20 ms each: four at 200/s, and a quarter more.
        assert_eq!((need.workers, need.needed, need.likely), (60, 5, 8));
    }
}
