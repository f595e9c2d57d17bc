//! What a diagnosis is given, and the readings that several rules take from it.

pub(crate) mod bursts;
pub(crate) mod calls;
pub(crate) mod chains;
mod cpu;
pub(crate) mod hot;
pub(crate) mod worker_insight;

pub(crate) use cpu::{CPU_HEADROOM, CpuUse};

use kneepoint_model::account::NativeAccount;
use kneepoint_model::metric;
use kneepoint_model::run::{Bound, Machine};
use kneepoint_model::units::format_rate;
use kneepoint_model::{
    Address, AppSwitch, CallTrace, Interval, Layer, LoadPoint, LockChains, LogEvent, LogKind,
    Metric, RunningTier, Series, SeriesSet, SettingKey, Slo, Stack, StackProfile, SwitchKind,
    Unprepared,
};
use serde::{Deserialize, Serialize};

/// Waits for locks that an application takes, as telemetry names them.
pub(crate) const LOCKS: [&str; 3] = ["flock", "fcntl", "semaphore"];

/// Who looks names up for the programs of its own machine, as telemetry names it: systemd-resolved, nscd.
const NAME_SOCKETS: [&str; 3] = [
    "unix:/run/systemd/resolve/io.systemd.Resolve",
    "unix:/run/nscd/socket",
    "unix:/var/run/nscd/socket",
];

/// Everything the rules may look at. It can be written down, so that rules judge anew what was measured once.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// The chain as configured.
    pub stack: Stack,
    /// When the stack counts as coping.
    pub slo: Slo,
    /// The machine it all ran on.
    pub machine: Machine,
    /// What was measured, in the order it was driven.
    pub phases: Vec<Phase>,
    /// R* in requests per second with its interval, when it was measured.
    pub limit_hz: Option<Interval>,
    /// The goal that a higher rate would miss; `None` where nobody knows.
    pub bound_by: Option<Bound>,
    /// Settings nobody may touch: no remedy proposes them.
    pub keep: Vec<SettingKey>,
    /// Memory all tiers together may use, in bytes; `None` is what the machine has.
    pub memory_budget_bytes: Option<u64>,
    /// What requests do, call by call; `None` where nobody looked.
    pub calls: Option<CallTrace>,
    /// The PHP stacks that workers were met on; `None` where nobody looked.
    pub stacks: Option<StackProfile>,
    /// Those they were met on just below the limit.
    pub knee_stacks: Option<StackProfile>,
    /// What the CPU of each tier went into just below the limit, by mapped file; empty where nobody looked.
    pub native: Vec<NativeAccount>,
    /// What the application's own settings switch on or off at a cost.
    pub switches: Vec<AppSwitch>,
    /// What no deployment prepared for the application.
    pub unprepared: Vec<Unprepared>,
    /// Who kept others waiting for a lock; empty where nobody looked.
    pub chains: LockChains,
}

/// A stretch of load with what telemetry and the logs said meanwhile.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Phase {
    /// What the phase is for.
    pub kind: PhaseKind,
    /// What the generator measured.
    pub load: LoadPoint,
    /// What telemetry sampled while the load ran; times are seconds since it began.
    pub series: SeriesSet,
    /// What it sampled from there until the last response had come: where requests run into the timeout, seconds in which nothing
    /// is asked for.
    #[serde(default)]
    pub afterwards: SeriesSet,
    /// What the logs of all tiers said.
    pub log: Vec<LogEvent>,
}

/// Where a phase stands relative to the limit R*.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseKind {
    /// Well below, about 0.3 R*.
    Low,
    /// Just below, about 0.95 R*.
    Knee,
    /// Above: 1.3 times R* or more, so that what breaks is seen.
    Over,
    /// The plateau of [`PhaseKind::Knee`] once more, to see drift (catalogue GEN-05).
    Repeat,
}

impl PhaseKind {
    /// The name in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Knee => "knee",
            Self::Over => "over",
            Self::Repeat => "repeat",
        }
    }
}

/// FPM counts connections, not requests: with kept connections its count is far below the requests. Mixes with
/// fewer dynamic pages than this are not expected \[ours\].
const CONNECTIONS_ONLY: f64 = 0.1;

/// Share of the time in which every task waits for memory, from which on it is short \[ours\].
pub(crate) const MEMORY_SHORT: f64 = 0.01;

/// Workers asleep in one call on one peer, on average over a phase.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wait {
    /// The call: `recv`, `connect`, `flock`.
    pub(crate) call: String,
    /// The peer as telemetry names it: a layer, an address; empty when the call has none.
    pub(crate) peer: String,
    /// How many workers, on average.
    pub(crate) workers: f64,
}

impl Wait {
    /// Calls in which a worker waits for its next connection.
    const IDLE_CALLS: [&'static str; 3] = ["accept", "accept4", "idle"];
    /// Calls in which a worker waits for a lock on a file, as sessions take one.
    const LOCK_CALLS: [&'static str; 2] = ["flock", "fcntl"];

    fn from_series(series: &Series) -> Option<Self> {
        let (call, peer) = series.label.split_once(' ').unwrap_or((&series.label, ""));
        Some(Self {
            call: call.to_owned(),
            peer: peer.to_owned(),
            workers: series.mean()?,
        })
    }

    /// The layer the peer is, when telemetry knew it.
    pub(crate) fn layer(&self) -> Option<Layer> {
        self.peer.parse().ok()
    }

    /// Whether it is for what a tier answers, over a connection that is made.
    pub(crate) fn is_for_answer_of(&self, layer: Layer) -> bool {
        self.layer() == Some(layer) && !self.is_connect()
    }

    /// A worker that waits for work, on its listener or on a connection the tier before keeps open.
    pub(crate) fn is_idle(&self) -> bool {
        Self::IDLE_CALLS.contains(&self.call.as_str()) || self.is_pinned()
    }

    /// A worker that waits for a request on a connection the tier before keeps open.
    pub(crate) fn is_pinned(&self) -> bool {
        self.call == "recv" && matches!(self.layer(), Some(Layer::Web | Layer::Proxy))
    }

    pub(crate) fn is_lock(&self) -> bool {
        Self::LOCK_CALLS.contains(&self.call.as_str())
    }

    /// A worker that waits for a peer over a connection which leads to no tier of the stack. Who says addresses is no such
    /// peer.
    pub(crate) fn is_for_outsider(&self) -> bool {
        // Telemetry names a peer by its layer where it is a tier, and by its address otherwise.
        self.peer.contains([':', '/']) && self.layer().is_none() && !self.is_for_name()
    }

    /// A worker that waits for the address of a name.
    pub(crate) fn is_for_name(&self) -> bool {
        let is_nameserver = |peer: Address| peer.is_nameserver();
        let is_socket = NAME_SOCKETS.contains(&self.peer.as_str());
        is_socket || self.peer.parse().is_ok_and(is_nameserver)
    }

    /// A worker that waits for a lock the application took.
    pub(crate) fn is_own_lock(&self) -> bool {
        LOCKS.contains(&self.call.as_str())
    }

    /// A worker that waits until what it prints on one of its standard streams is read.
    pub(crate) fn is_for_reader(&self, stream: &str) -> bool {
        self.call == "send" && self.peer == stream
    }

    /// A worker that waits until the tier before it takes more of its response.
    pub(crate) fn is_for_client(&self) -> bool {
        self.call == "send" && matches!(self.layer(), Some(Layer::Web | Layer::Proxy))
    }

    /// A worker that does nothing on purpose.
    pub(crate) fn is_pause(&self) -> bool {
        self.call == "sleep"
    }

    /// A worker that asked its own site for a page and waits for the answer.
    pub(crate) fn is_own_site(&self) -> bool {
        self.peer == RunningTier::OWN_SITE
    }

    pub(crate) fn is_connect(&self) -> bool {
        self.call == "connect"
    }

    /// `recv db`, as telemetry labels it.
    pub(crate) fn label(&self) -> String {
        format!("{} {}", self.call, self.peer).trim_end().to_owned()
    }
}

impl Phase {
    /// A phase in which telemetry looked from the beginning of the load until its last response had come. Nothing of the load may
    /// have been skipped: its window is then the time in which requests were sent.
    #[must_use]
    pub fn new(kind: PhaseKind, load: LoadPoint, sampled: SeriesSet, log: Vec<LogEvent>) -> Self {
        let (series, afterwards) = sampled.divided_at(load.window_s);
        Self {
            kind,
            load,
            series,
            afterwards,
            log,
        }
    }

    /// The same with all that was sampled: what follows each request to its end looks at that. Rules look at the time of the load:
    /// on average over both, a CPU that was used up looks idle.
    pub(crate) fn whole(&self) -> Self {
        let mut whole = self.clone();
        let afterwards = std::mem::take(&mut whole.afterwards);
        whole.series.append(&afterwards);
        whole
    }

    /// `at 42.0/s offered for 8 s`, `in a closed loop of 32 for 8 s`.
    pub(crate) fn conditions(&self) -> String {
        let window = self.load.window_s;
        match self.load.closed_workers {
            Some(workers) => format!("in a closed loop of {workers} for {window:.0} s"),
            None => format!(
                "at {} offered for {window:.0} s",
                format_rate(self.load.offered_hz)
            ),
        }
    }

    /// Requests the PHP pool accepted per second; what the generator completed where the pool does not count them.
    pub(crate) fn pool_hz(&self) -> f64 {
        let done_hz = self.load.throughput_hz();
        self.series
            .rate(Layer::Php, metric::WORKER_REQUESTS)
            .filter(|hz| *hz > CONNECTIONS_ONLY * done_hz)
            .unwrap_or(done_hz)
    }

    /// Scripts one request includes, on average over the mix: OPcache's lookups a request, or else what the
    /// application's probe counted.
    pub(crate) fn files_per_request(&self) -> Option<f64> {
        let rate = |of| self.series.rate(Layer::Php, of);
        let lookups = rate(metric::OPCACHE_HITS)
            .zip(rate(metric::OPCACHE_MISSES))
            .map(|(hits, misses)| (hits + misses) / self.pool_hz())
            .filter(|files| files.is_finite() && *files > 0.0);
        lookups.or_else(|| self.series.last(Layer::Php, metric::PHP_FILES))
    }

    /// The same phase between two moments, in seconds since its load began.
    pub(crate) fn during(&self, start_s: f64, end_s: f64) -> Self {
        let mut part = self.clone();
        for series in &mut part.series.series {
            series
                .points
                .retain(|point| (start_s..=end_s).contains(&point.0));
        }
        part
    }

    /// CPU time of a tier for each request the PHP pool accepted, in ms.
    pub(crate) fn cpu_ms(&self, layer: Layer) -> Option<f64> {
        Some(self.cores_used(layer)? / self.pool_hz() * 1e3)
    }

    /// Share of the time in which every task waits for memory; `None` where the kernel does not count it.
    pub(crate) fn memory_stall(&self) -> Option<f64> {
        self.series
            .rate(Layer::Generator, metric::PSI_MEMORY_FULL_S)
    }

    /// Cores a tier used on average.
    pub(crate) fn cores_used(&self, layer: Layer) -> Option<f64> {
        self.series.rate(layer, metric::CPU_S)
    }

    /// Mean of a gauge over the labels of a layer: the largest, since a tier's busiest listener is the one in question.
    pub(crate) fn largest_mean(&self, layer: Layer, of: Metric) -> Option<f64> {
        self.series
            .all(layer, of)
            .filter_map(Series::mean)
            .reduce(f64::max)
    }

    /// Largest sample of a gauge over all labels of a layer.
    pub(crate) fn largest(&self, layer: Layer, of: Metric) -> Option<f64> {
        self.series
            .all(layer, of)
            .filter_map(Series::max)
            .reduce(f64::max)
    }

    /// What busy workers of the PHP pool wait for, most workers first; idle waits are left out.
    pub(crate) fn waits(&self) -> Vec<Wait> {
        let mut waits: Vec<Wait> = self
            .all_waits()
            .filter(|wait| !wait.is_idle() && wait.workers > 0.0)
            .collect();
        waits.sort_by(|a, b| b.workers.total_cmp(&a.workers));
        waits
    }

    /// Busy workers by their wait states, running and waiting together; `None` when nobody looked, or none was busy.
    pub(crate) fn busy_workers(&self) -> Option<f64> {
        let running = self.series.mean(Layer::Php, metric::WORKERS_RUNNING);
        let waiting: f64 = self.waits().iter().map(|wait| wait.workers).sum();
        Some(running.unwrap_or(0.0) + waiting).filter(|busy| *busy > 0.0 && busy.is_finite())
    }

    /// Share of the time of busy workers that they wait for a connection to a tier to be made.
    pub(crate) fn connecting(&self, layer: Layer) -> f64 {
        let to_it = |wait: &Wait| wait.is_connect() && wait.layer() == Some(layer);
        self.share_of_waits(to_it).unwrap_or(0.0)
    }

    /// Share of the time of busy workers that they wait for what a tier answers; `None` when nobody looked, or none was busy.
    pub(crate) fn awaiting(&self, layer: Layer) -> Option<f64> {
        self.share_of_waits(|wait| wait.is_for_answer_of(layer))
    }

    fn share_of_waits(&self, is_it: impl Fn(&Wait) -> bool) -> Option<f64> {
        let waits = self.waits().into_iter().filter(is_it);
        let workers: f64 = waits.map(|wait| wait.workers).sum();
        Some(workers / self.busy_workers()?)
    }

    /// Whether it is new workers that open so many connections a second, not new requests: then churn of workers is the cause
    /// (FPM-06).
    pub(crate) fn is_recycling(&self, connections_hz: f64) -> bool {
        let starts = self.starts_hz();
        starts.is_some_and(|starts| starts >= connections_hz / 4.0)
    }

    /// Until when telemetry looked, in seconds since the load began: logs are read as long.
    fn observed_s(&self) -> f64 {
        let all = self.series.series.iter().chain(&self.afterwards.series);
        let ends = all.filter_map(|series| series.points.last());
        ends.map(|point| point.0).fold(self.load.window_s, f64::max)
    }

    /// Workers of PHP that were started per second, as they were counted or by the pool's log, whichever knows of more: who
    /// counts looks now and then, and misses those who live shorter. `None` when neither was there.
    pub(crate) fn starts_hz(&self) -> Option<f64> {
        let counted = self.series.rate(Layer::Php, metric::WORKER_STARTS);
        let logged = self.logged(Layer::Php, LogKind::WorkerRecycled);
        let logged = logged.map(|event| event.count as f64 / self.observed_s().max(1.0));
        counted.into_iter().chain(logged).reduce(f64::max)
    }

    /// Workers that wait for a request on a kept connection, on average; `None` when nobody looked.
    pub(crate) fn pinned(&self) -> Option<f64> {
        let counted = self.series.mean(Layer::Php, metric::WORKERS_PINNED);
        let seen = self
            .all_waits()
            .filter(Wait::is_pinned)
            .map(|wait| wait.workers)
            .reduce(|a, b| a + b);
        counted.into_iter().chain(seen).reduce(f64::max)
    }

    fn all_waits(&self) -> impl Iterator<Item = Wait> {
        self.series
            .all(Layer::Php, metric::WORKERS_WAITING)
            .filter_map(Wait::from_series)
    }

    /// Events of one meaning in one layer's logs.
    pub(crate) fn logged(&self, layer: Layer, kind: LogKind) -> Option<&LogEvent> {
        self.log
            .iter()
            .find(|event| event.layer == layer && event.kind == kind && event.count > 0)
    }
}

/// Lines of one meaning over all phases.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Logged {
    pub(crate) layer: Layer,
    pub(crate) count: u64,
    pub(crate) example: String,
    /// Conditions of the first phase that had some.
    pub(crate) conditions: String,
    /// Whether there were more than the SLO tolerates failures, in a phase in which the stack was not offered more than it can do.
    pub(crate) below_the_limit: bool,
}

impl Evidence {
    /// The switches of a kind.
    pub(crate) fn switched(&self, kind: SwitchKind) -> Vec<&AppSwitch> {
        let switches = self.switches.iter();
        switches.filter(|switch| switch.kind == kind).collect()
    }

    /// The first phase of a kind.
    pub(crate) fn phase(&self, kind: PhaseKind) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.kind == kind)
    }

    /// The phase at the limit: just below it, or else above.
    pub(crate) fn knee(&self) -> Option<&Phase> {
        self.phase(PhaseKind::Knee)
            .or_else(|| self.phase(PhaseKind::Over))
    }

    /// The phase in which what binds is most visible: above the limit, or else just below.
    pub(crate) fn stressed(&self) -> Option<&Phase> {
        self.phase(PhaseKind::Over)
            .or_else(|| self.phase(PhaseKind::Knee))
    }

    /// Whether refusals keep R* down: some came below the limit, or failures are what a higher rate would show first. Beyond
    /// the limit every queue and every table of connections is full at last.
    pub(crate) fn refusals_bind(&self, below_the_limit: bool) -> bool {
        let by_failures = |goal| matches!(goal, Bound::Errors | Bound::Timeout);
        below_the_limit || self.bound_by.is_none_or(by_failures)
    }

    /// Lines of one meaning in the logs of these layers, over all phases; the layer with the most of them.
    pub(crate) fn logged(&self, layers: &[Layer], kind: LogKind) -> Option<Logged> {
        layers
            .iter()
            .filter_map(|layer| self.logged_by(*layer, kind))
            .max_by_key(|logged| logged.count)
    }

    fn logged_by(&self, layer: Layer, kind: LogKind) -> Option<Logged> {
        let hits: Vec<(&Phase, &LogEvent)> = self
            .phases
            .iter()
            .filter_map(|phase| Some((phase, phase.logged(layer, kind)?)))
            .collect();
        let (first, event) = hits.first()?;
        Some(Logged {
            layer,
            count: hits.iter().map(|(_, event)| event.count).sum(),
            example: event.example.clone(),
            conditions: first.conditions(),
            below_the_limit: hits.iter().any(|(phase, event)| {
                let tolerated = self.slo.errors * phase.load.arrivals as f64;
                phase.kind != PhaseKind::Over && event.count as f64 >= tolerated
            }),
        })
    }

    /// Whether any phase has a sample of a metric, at any layer.
    pub(crate) fn has(&self, wanted: Metric) -> bool {
        self.phases
            .iter()
            .flat_map(|phase| &phase.series.series)
            .any(|series| series.metric == wanted.name && !series.points.is_empty())
    }

    /// Largest sample of a gauge at a layer over all phases.
    pub(crate) fn largest(&self, layer: Layer, of: Metric) -> Option<f64> {
        self.phases
            .iter()
            .filter_map(|phase| phase.largest(layer, of))
            .reduce(f64::max)
    }

    /// Last sample of a gauge at a layer, in the last phase that has one.
    pub(crate) fn latest(&self, layer: Layer, of: Metric) -> Option<f64> {
        self.phases
            .iter()
            .rev()
            .find_map(|phase| phase.series.last(layer, of))
    }

    /// A setting and its value as evidence: `pm.max_children = 4`.
    pub(crate) fn quote(&self, layer: Layer, name: &str) -> String {
        format!(
            "{layer}.{name} = {}",
            self.stack.setting(layer, name).unwrap_or("(not set)")
        )
    }
}
