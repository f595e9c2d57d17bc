//! What the workers of an exhausted pool wait for, for the rules that name it.

use crate::Evidence;
use crate::PhaseKind;
use crate::evidence::{CPU_HEADROOM, CpuUse, Phase, Wait};
use crate::saturation::pool::PoolState;
use kneepoint_model::Layer;
use kneepoint_model::units::format_share;

/// Share of busy workers asleep for one reason from which on it is the reason.
const DOMINANT: f64 = 0.5;
/// Wait per request under load over that at low load, from which on the peer itself is congested \[ours\]: a peer
/// with a fixed latency answers as fast under load.
const CONGESTED: f64 = 2.0;

/// The one thing most workers of an exhausted pool wait for.
pub(crate) struct Blocked<'a> {
    /// The phase it was seen in.
    pub(crate) phase: &'a Phase,
    /// The pool then.
    pub(crate) pool: PoolState,
    /// The CPU then; below [`CPU_HEADROOM`].
    pub(crate) cpu: CpuUse,
    /// The waits for the same peer (or in the same call, without a peer), most workers first.
    pub(crate) waits: Vec<Wait>,
    /// Workers in these waits.
    pub(crate) workers: f64,
    /// Time a request spends so, in ms.
    pub(crate) ms: f64,
    /// The same at low load, when that was measured.
    pub(crate) low_ms: Option<f64>,
}

impl<'a> Blocked<'a> {
    /// Finds it: every worker busy, requests queueing, CPU to spare, and half the workers waiting for one thing.
    pub(crate) fn find(evidence: &'a Evidence) -> Option<Self> {
        [PhaseKind::Over, PhaseKind::Knee]
            .into_iter()
            .filter_map(|kind| evidence.phase(kind))
            .find_map(|phase| Self::find_in(evidence, phase))
    }

    fn find_in(evidence: &'a Evidence, phase: &'a Phase) -> Option<Self> {
        let pool = PoolState::read(evidence, phase)?;
        let cpu = evidence.cpu_use(phase)?;
        if !pool.exhausted() || cpu.share >= CPU_HEADROOM {
            return None;
        }
        let waits = largest_group(phase.waits());
        let key = group(waits.first()?);
        let workers: f64 = waits.iter().map(|wait| wait.workers).sum();
        if workers < DOMINANT * pool.busy {
            return None;
        }
        let low_ms = evidence
            .phase(PhaseKind::Low)
            .and_then(|low| ms_per_request(low, &key));
        Some(Self {
            phase,
            ms: ms_per_request(phase, &key)?,
            pool,
            cpu,
            waits,
            workers,
            low_ms,
        })
    }

    /// The layer they wait for; `None` when it is nobody telemetry knows.
    pub(crate) fn layer(&self) -> Option<Layer> {
        self.waits.first()?.layer()
    }

    /// Whether the peer answers more slowly under load, so that more workers would only queue there.
    pub(crate) fn congested(&self) -> bool {
        self.low_ms
            .is_some_and(|low_ms| is_congested(self.ms, low_ms))
    }

    /// Whether a wait, as a label, is one of these.
    pub(crate) fn is_it(&self, label: &str) -> bool {
        self.waits.iter().any(|wait| wait.label() == label)
    }

    /// Whether this is the peer they wait for; a wait without a peer is for any.
    pub(crate) fn has_peer(&self, peer: &str) -> bool {
        let mut waits = self.waits.iter();
        waits.any(|wait| wait.peer.is_empty() || wait.peer == peer)
    }

    /// `6.8 of 8 workers wait: recv db`.
    pub(crate) fn describe(&self) -> String {
        let labels: Vec<String> = self.waits.iter().map(Wait::label).collect();
        format!(
            "{:.1} of {:.1} busy workers wait: {}",
            self.workers,
            self.pool.busy,
            labels.join(", ")
        )
    }
}

/// What is waited for most of its kind: another host, a pause, a program. Unlike [`Blocked`] it asks for no idle CPU and no
/// exhausted pool: the wait is part of every request, however much there is to compute beside.
pub(crate) struct Part<'a> {
    /// The phase it was seen in: below the limit, where no queue for workers or the CPU hides it, if there.
    pub(crate) phase: &'a Phase,
    /// The waits for the same peer (or in the same call, without a peer), most workers first.
    waits: Vec<Wait>,
    /// Share of the time of busy workers, which is that of a request's time in PHP.
    pub(crate) share: f64,
    /// Time a request spends so, in ms.
    pub(crate) ms: f64,
}

impl<'a> Part<'a> {
    /// Finds it among waits of a kind, where it takes at least a share of the time of busy workers.
    pub(crate) fn find(
        evidence: &'a Evidence,
        least: f64,
        of_kind: impl Fn(&Wait) -> bool,
    ) -> Option<Self> {
        let phases = [PhaseKind::Knee, PhaseKind::Low, PhaseKind::Over].into_iter();
        let found = phases.filter_map(|kind| Self::find_in(evidence.phase(kind)?, &of_kind));
        found
            .filter(|part| part.share >= least)
            .max_by(|a, b| a.share.total_cmp(&b.share))
    }

    fn find_in(phase: &'a Phase, of_kind: impl Fn(&Wait) -> bool) -> Option<Self> {
        let busy = phase.busy_workers()?;
        let mut waits = phase.waits();
        waits.retain(of_kind);
        let waits = largest_group(waits);
        let key = group(waits.first()?);
        let workers: f64 = waits.iter().map(|wait| wait.workers).sum();
        Some(Self {
            phase,
            share: workers / busy,
            ms: ms_per_request(phase, &key)?,
            waits,
        })
    }

    /// Whether the peer answers more slowly under load; not where nobody measured it at low load.
    pub(crate) fn congested(&self, evidence: &Evidence) -> bool {
        let waits_ms = |phase| ms_per_request(phase?, self.peer());
        waits_ms(evidence.stressed())
            .zip(waits_ms(evidence.phase(PhaseKind::Low)))
            .is_some_and(|(full_ms, low_ms)| is_congested(full_ms, low_ms))
    }

    /// Whether a wait, as a label, is one of these.
    pub(crate) fn is_it(&self, label: &str) -> bool {
        self.waits.iter().any(|wait| wait.label() == label)
    }

    /// The peer as telemetry names it: `127.0.0.1:9977`.
    pub(crate) fn peer(&self) -> &str {
        self.waits.first().map_or("", |wait| wait.peer.as_str())
    }

    /// `recv 127.0.0.1:9977 takes 66 % of the time of busy workers`.
    pub(crate) fn describe(&self) -> String {
        let labels: Vec<String> = self.waits.iter().map(Wait::label).collect();
        format!(
            "{} takes {} of the time of busy workers",
            labels.join(", "),
            format_share(self.share)
        )
    }
}

/// Whether a request waits so much longer under load than at low load, in ms each, that the peer itself is congested.
fn is_congested(full_ms: f64, low_ms: f64) -> bool {
    full_ms >= CONGESTED * low_ms
}

/// The first phase in which at least this share of the busy workers, and one of them, sit in waits of a kind while the
/// CPU is idle; with the pool and how many they are.
pub(crate) fn stuck(
    evidence: &Evidence,
    share: f64,
    of_kind: impl Fn(&Wait) -> bool,
) -> Option<(&Phase, PoolState, f64)> {
    [PhaseKind::Knee, PhaseKind::Over]
        .into_iter()
        .filter_map(|kind| evidence.phase(kind))
        .filter_map(|phase| Some((phase, PoolState::read(evidence, phase)?)))
        .map(|(phase, pool)| {
            let waits = phase.waits().into_iter().filter(&of_kind);
            let workers = waits.map(|wait| wait.workers).sum();
            (phase, pool, workers)
        })
        .find(|(phase, pool, workers): &(_, _, f64)| {
            *workers >= share * pool.busy && *workers >= 1.0 && has_headroom(evidence, phase)
        })
}

/// Whether more work could be done with the CPU, as far as anybody knows.
pub(crate) fn has_headroom(evidence: &Evidence, phase: &Phase) -> bool {
    let cpu = evidence.cpu_use(phase);
    cpu.is_none_or(|cpu| cpu.share < CPU_HEADROOM)
}

/// What makes waits one thing: the peer, or the call where there is none.
fn group(wait: &Wait) -> String {
    if wait.peer.is_empty() {
        wait.call.clone()
    } else {
        wait.peer.clone()
    }
}

fn largest_group(waits: Vec<Wait>) -> Vec<Wait> {
    let total = |key: &str| -> f64 {
        let of_key = waits.iter().filter(|wait| group(wait) == key);
        of_key.map(|wait| wait.workers).sum()
    };
    let Some(largest) = waits
        .iter()
        .map(group)
        .max_by(|a, b| total(a).total_cmp(&total(b)))
    else {
        return Vec::new();
    };
    waits
        .into_iter()
        .filter(|wait| group(wait) == largest)
        .collect()
}

fn ms_per_request(phase: &Phase, key: &str) -> Option<f64> {
    let hz = phase.pool_hz();
    let workers: f64 = phase
        .waits()
        .iter()
        .filter(|wait| group(wait) == key)
        .map(|wait| wait.workers)
        .sum();
    (hz > 0.0).then_some(workers / hz * 1e3)
}
