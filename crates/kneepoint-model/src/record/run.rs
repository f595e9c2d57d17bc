//! The run record: everything a run did and measured, in the order it happened.

mod alone;
mod basis;
mod bound;
mod family;
mod found;
mod gain;
mod speed;
mod standing;
mod version;
mod visits;

pub use alone::MissedAlone;
pub use basis::LimitBasis;
pub use bound::Bound;
pub use standing::Standing;

use crate::record::mending::Mending;
use crate::record::replay::Replay;
use crate::{
    Account, CallTrace, CapacityPlan, Contest, Effect, Finding, GateResult, Interval, Layer,
    LoadPoint, Scenario, SeriesSet, Setting, Stack, StackProfile,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of the record; older ones stay readable.
///
/// - 1: a limit did not say which trials it rests on.
/// - 2: it names them.
pub const RUN_VERSION: u32 = 3;

/// The machine a run ran on; in a container, the part of it that was to be had there.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Cores that could be busy, on average and rounded up.
    pub cores: u32,
    /// How many could be busy on average, where a quota of CPU time allowed less than whole cores: 1.5 of 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_cores: Option<f64>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// True when the generator shares the machine with the stack.
    pub shared_with_generator: bool,
    /// Requests per second the generator reached against a null server on this machine; `None` when not measured.
    pub generator_ceiling_hz: Option<f64>,
}

impl Machine {
    /// Cores that could be busy, on average; at least a hundredth.
    #[must_use]
    pub fn cpus(&self) -> f64 {
        let whole = || f64::from(self.cores.max(1));
        self.quota_cores.unwrap_or_else(whole).max(0.01)
    }

    /// `2 cores`, `1.50 cores (a quota)`.
    #[must_use]
    pub fn cores_in_words(&self) -> String {
        match (self.quota_cores, self.cores) {
            (Some(quota), _) => format!("{quota:.2} cores (a quota)"),
            (None, 1) => "1 core".to_owned(),
            (None, cores) => format!("{cores} cores"),
        }
    }
}

/// Which trial of a run: its position, from 0.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct TrialId(pub u64);

impl fmt::Display for TrialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One measured step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Which one it is.
    pub id: TrialId,
    /// What it was for: `limit: step`, `ab: candidate`, `diagnose: knee`.
    pub purpose: String,
    /// Which configuration: `base`, or the name of the variant.
    pub arm: String,
    /// Seconds since the run began, at its start.
    pub at_s: f64,
    /// What was measured.
    pub load: LoadPoint,
    /// CPU time that was used meanwhile; `None` where nobody asked how much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuTime>,
}

/// CPU time over a trial. What is left out of its window at the start is in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuTime {
    /// Seconds over which it was counted.
    pub span_s: f64,
    /// Core seconds that the whole machine was busy.
    pub busy_s: f64,
    /// Core seconds that the hypervisor kept from the machine.
    pub stolen_s: f64,
    /// Core seconds that programs used which belong neither to the stack nor to Kneepoint.
    #[serde(default)]
    pub others_s: f64,
    /// Core seconds of each tier's own processes.
    pub tiers_s: Vec<(Layer, f64)>,
}

impl CpuTime {
    /// Cores that so many core seconds of it are, on average.
    #[must_use]
    pub fn cores(&self, core_s: f64) -> f64 {
        core_s / self.span_s.max(f64::MIN_POSITIVE)
    }
}

/// Why a journal entry was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A part of the main job begins.
    Stage,
    /// Something was measured or found.
    Result,
    /// A change was tried, kept or dropped.
    Change,
    /// Something is doubtful.
    Warning,
}

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Seconds since the run began.
    pub at_s: f64,
    /// Why it was written.
    pub kind: EntryKind,
    /// What happened, in words with numbers.
    pub text: String,
}

/// R* with everything it depends on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LimitResult {
    /// Which configuration: `base`, `best`.
    pub arm: String,
    /// R* per second with its 95 % interval, at the machine's mean speed while it was measured. It counts visits where
    /// [`Self::requests_a_visit`] is known, else requests; so do all rates here.
    pub rate_hz: Interval,
    /// Requests that a visit made on average, as measured over the steps; `None` where every request stands for itself, and
    /// in runs of versions that mixed visits and requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_a_visit: Option<f64>,
    /// How long a visit takes at R* in seconds, with its pauses; `None` where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visit_s: Option<f64>,
    /// R* at the speed the machine had when the run began; `None` where the speed was not measured. To compare with
    /// another run, see [`Self::at_canary_ms`].
    #[serde(default)]
    pub reference_hz: Option<Interval>,
    /// R90: the rate at which nine of ten steps met the goal, at reference speed; `None` without steps.
    #[serde(default)]
    pub r90_hz: Option<f64>,
    /// How noisy the machine was; `None` in runs of versions that did not say.
    #[serde(default)]
    pub noise: Option<LimitNoise>,
    /// Which goal of the SLO bound.
    pub bound_by: Bound,
    /// Closed-loop throughput at saturation, per second.
    pub saturation_hz: f64,
    /// The trials of its search: saturation, steps and confirming stretches, invalid ones included. Empty in a record of
    /// version 1 until [`Run::upgrade`] found them.
    #[serde(default)]
    pub trials: Vec<TrialId>,
    /// (offered rate, violating share, requests that came) of every step the fit used.
    pub steps: Vec<(f64, f64, u64)>,
    /// The machine's speed during each of them relative to the reference; empty where it was not measured.
    #[serde(default)]
    pub speeds: Vec<f64>,
    /// Seconds under load, the confirming stretch included; 0 where it was not written down.
    #[serde(default)]
    pub load_s: f64,
    /// Error share of the confirming stretch of load at the lower end of the interval.
    pub soak_error_share: f64,
    /// p95 of the confirming stretch in ms; `None` without responses.
    pub soak_p95_ms: Option<f64>,
    /// Rate of the confirming stretch.
    pub soak_hz: f64,
    /// Requests of the confirming stretch that failed.
    pub soak_failed: u64,
    /// Requests of the confirming stretch.
    pub soak_arrivals: u64,
    /// Whether the SLO held in it, and the generator was sound; true in runs of versions that did not say.
    #[serde(default = "held")]
    pub soak_held: bool,
    /// What one request at a time took, where that alone misses the SLO: then no rate meets it, and [`Self::rate_hz`] is only
    /// where load was driven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_alone: Option<MissedAlone>,
    /// Doubts about the number, a sentence each.
    pub warnings: Vec<String>,
}

fn held() -> bool {
    true
}

impl LimitResult {
    /// Whether no rate was found at which the SLO holds, since no request succeeded, not even one at a time.
    #[must_use]
    pub fn serves_nothing(&self) -> bool {
        self.rate_hz.estimate <= 0.0
    }

    /// R* with its interval; `None` where no rate meets the SLO.
    #[must_use]
    pub fn met_hz(&self) -> Option<Interval> {
        let is_met = self.missed_alone.is_none() && !self.serves_nothing();
        is_met.then_some(self.rate_hz)
    }
}

/// How noisy the machine was while a limit was searched.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LimitNoise {
    /// Standard deviation of the machine's speed from step to step, as a share: by the CPU time that a request took where
    /// that was counted, else by the canary. `None` where neither was measured.
    pub speed_sd: Option<f64>,
    /// R* followed the machine's speed to this power: 1 is in proportion, 0 not at all.
    pub speed_exponent: f64,
    /// Standard deviation of what a single step says of R*, as a share.
    pub step_sd: f64,
    /// Lag-one autocorrelation of the steps around the fit; the interval is widened for it.
    pub autocorrelation: f64,
    /// True when the time ran out and the interval of R* as the machine was is too wide to say much.
    pub too_noisy: bool,
    /// CPU time in ms that the canary's fixed piece of work takes at the run's reference speed; `None` where it was not
    /// measured or not written down.
    #[serde(default)]
    pub reference_ms: Option<f64>,
    /// CPU time in ms that a request took of the stack, the (geometric) mean of the steps: what R* is at goes with it. `None`
    /// where it was not counted.
    #[serde(default)]
    pub cpu_ms: Option<f64>,
}

/// Where a request's time goes at one offered rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waterfall {
    /// The offered rate per second.
    pub offered_hz: f64,
    /// Mean response time in ms that the parts add up to.
    pub response_ms: f64,
    /// The parts in the order a request meets them.
    pub parts: Vec<WaterfallPart>,
    /// The Little's-law check in words: concurrency measured against rate times time.
    pub little: String,
    /// |N - X R| / N, or `None` where a side could not be measured (method.md section 4: at most 5 %).
    pub little_error: Option<f64>,
}

/// One part of a waterfall.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaterfallPart {
    /// Where.
    pub layer: Layer,
    /// What: `accept queue`, `CPU`, `waiting on cache`.
    pub what: String,
    /// Mean per request in ms.
    pub ms: f64,
}

/// A phase of the diagnosis with its telemetry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// `low`, `knee` or `over`.
    pub phase: String,
    /// Which configuration.
    pub arm: String,
    /// The trial that drove it.
    pub trial: TrialId,
    /// What telemetry saw.
    pub series: SeriesSet,
    /// Where the time went.
    pub waterfall: Option<Waterfall>,
}

/// A change that was decided on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Decision {
    /// The finding it answers: its code. `pool-size` where tuning itself looked for a smaller pool, `deep` where it
    /// tried settings together.
    pub code: String,
    /// The layer of the finding it answers. `None` where it answers none, and in records from before it was kept.
    #[serde(default)]
    pub layer: Option<Layer>,
    /// The settings.
    pub settings: Vec<Setting>,
    /// The A/B that decided.
    pub effect: Effect,
    /// Whether it was kept.
    pub kept: bool,
    /// Whether the stack failed with it, so that there is no comparison, and more time would not make one: it did not start,
    /// or could not be measured. [`Self::reason`] says how.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// What the leave-one-out at the end measured: best with it over best without it.
    pub leave_one_out: Option<Effect>,
    /// Why it is open, or what tuning itself found, in words; empty where the effect says it all.
    pub reason: String,
}

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiff {
    /// Which tier, and the file's name as its user knows it.
    pub file: String,
    /// Unified diff from base to best.
    pub diff: String,
}

/// Everything a run did and measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Run {
    /// Version of the record.
    pub version: u32,
    /// Identity: `2026-11-20-0312-laravel-ab12`.
    pub id: String,
    /// The command: `tune`, `limit`, `diagnose`.
    pub command: String,
    /// Kneepoint's own version.
    pub tool_version: String,
    /// Start as RFC 3339 in UTC.
    pub started_at: String,
    /// Wall-clock duration so far in seconds.
    pub elapsed_s: f64,
    /// How it ended: `finished`, `interrupted`, `failed: ...`, or empty while it runs.
    pub ended: String,
    /// The machine.
    pub machine: Machine,
    /// What was asked for.
    pub scenario: Option<Scenario>,
    /// The stack at the start, as configured.
    pub base: Option<Stack>,
    /// The stack at the end.
    pub best: Option<Stack>,
    /// What happened, in order.
    pub journal: Vec<JournalEntry>,
    /// Every measured step.
    pub trials: Vec<Trial>,
    /// Limits found, in order.
    pub limits: Vec<LimitResult>,
    /// Telemetry of the diagnoses.
    pub observations: Vec<Observation>,
    /// What requests do, call by call, in the order it was traced.
    #[serde(default)]
    pub calls: Vec<CallTrace>,
    /// The PHP stacks that workers were met on, in the order they were sampled.
    #[serde(default)]
    pub stacks: Vec<StackProfile>,
    /// Where the CPU and a request's time went, a diagnosis each.
    #[serde(default)]
    pub accounts: Vec<Account>,
    /// Findings in the order they were made; the first of a diagnosis is what binds.
    pub findings: Vec<Finding>,
    /// In which order suspected causes are best mended, a diagnosis with several each.
    #[serde(default)]
    pub mendings: Vec<Mending>,
    /// Changes decided on.
    pub decisions: Vec<Decision>,
    /// Fresh base against fresh best at the end.
    pub proof: Option<Effect>,
    /// The best freshly started over the same as tuning left it standing: what a restart takes. `None` where there was
    /// no time to ask.
    #[serde(default)]
    pub restarted: Option<Effect>,
    /// The configuration diff, base to best.
    pub diff: Vec<FileDiff>,
    /// What the gate of a pipeline decided; `None` where none was asked.
    #[serde(default)]
    pub gate: Option<GateResult>,
    /// What was predicted; `None` where nobody asked.
    #[serde(default)]
    pub capacity: Option<CapacityPlan>,
    /// Several configurations compared; `None` where nobody asked.
    #[serde(default)]
    pub contest: Option<Contest>,
    /// A field report replayed; `None` where none was.
    #[serde(default)]
    pub replay: Option<Replay>,
}

impl Run {
    /// R* of a configuration, the last one measured.
    #[must_use]
    pub fn limit(&self, arm: &str) -> Option<&LimitResult> {
        self.limits.iter().rev().find(|limit| limit.arm == arm)
    }
}
