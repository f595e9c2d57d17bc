//! What is driven before a prediction: a look at what a request takes, then steps at low load.

use crate::error::ExperimentError;
use crate::record::Recorder;
use crate::testbed::Testbed;
use kneepoint_model::{CpuTime, Layer, LoadPoint, Series, SeriesSet, metric};
use kneepoint_planner::bench::Step;
use kneepoint_planner::capacity::{
    ClosedConnections, FirstLooks, LowLoadStep, PlannedHost, RoughCapacity, SHARES,
};
use std::time::Duration;

/// Steps at each rate, in turns, so that a machine that drifts does so at all of them.
const ROUNDS: usize = 4;
/// Seed of the first of them.
const SEED: u64 = 300;

/// Raises the rate until cores or workers are in use well enough to say roughly what R* will be.
pub(super) fn look(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    arm: &str,
    host: PlannedHost,
) -> Result<RoughCapacity, ExperimentError> {
    let mut looks = FirstLooks::new(host);
    while let Some(step) = looks.next_step() {
        let observed = observe(testbed, recorder, arm, &step)?;
        looks.record(&observed.load, &observed.cpu);
    }
    looks.rough(testbed.slo()).ok_or_else(|| {
        ExperimentError::Unsound(
            "no request was answered at low load, so there is nothing to plan from; see what `kneepoint load` says of the \
             application"
                .into(),
        )
    })
}

/// What a step showed.
pub(super) struct Observed {
    pub(super) load: LoadPoint,
    pub(super) cpu: CpuTime,
    series: SeriesSet,
}

/// Drives a step, and counts the CPU time that it took.
pub(super) fn observe(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    arm: &str,
    step: &Step,
) -> Result<Observed, ExperimentError> {
    recorder.check_stop()?;
    let (load, recording) = testbed.observe_totals(arm, step)?;
    let others_share = load.health.foreign_share.unwrap_or(0.0);
    let others_cores = others_share * testbed.machine().cpus();
    let cpu = cpu_time(&recording.series, others_cores).ok_or_else(|| {
        ExperimentError::Unfit("the machine's CPU time cannot be read from /proc/stat".into())
    })?;
    recorder.result(format!("{}: {}", step.purpose, load.describe()));
    recorder.say_when_invalid(&load);
    recorder.trial_with_cpu(&step.purpose, arm, load.clone(), Some(cpu.clone()));
    Ok(Observed {
        load,
        cpu,
        series: recording.series,
    })
}

/// The CPU time of a recording during which others used so many cores; `None` where the machine's cannot be read.
fn cpu_time(series: &SeriesSet, others_cores: f64) -> Option<CpuTime> {
    let busy = series.get(Layer::Generator, metric::MACHINE_BUSY_S)?;
    let stolen = series.get(Layer::Generator, metric::MACHINE_STEAL_S);
    let of_tier = |layer| Some((layer, series.get(layer, metric::CPU_S)?.delta()?));
    let span_s = busy.points.last()?.0 - busy.points.first()?.0;
    let busy_s = busy.delta()?;
    Some(CpuTime {
        span_s,
        busy_s,
        others_s: (others_cores * span_s).min(busy_s),
        stolen_s: stolen.and_then(Series::delta).unwrap_or(0.0),
        tiers_s: Layer::TIERS.into_iter().filter_map(of_tier).collect(),
    })
}

/// Drives steps at shares of what a first look said is R*.
pub(super) struct LowLoad<'a> {
    pub(super) arm: &'a str,
    rough_hz: f64,
    length: Duration,
    next_seed: u64,
    /// Largest memory of a worker so far; `None` where it was not measured.
    memory_bytes: Option<f64>,
    closed: ClosedConnections,
}

impl<'a> LowLoad<'a> {
    /// Steps of this length. Their seeds count from `first_seed` on: no two of them see the same arrivals.
    pub(super) fn new(arm: &'a str, rough_hz: f64, length: Duration, first_seed: u64) -> Self {
        Self {
            arm,
            rough_hz,
            length,
            next_seed: first_seed,
            memory_bytes: None,
            closed: ClosedConnections::default(),
        }
    }

    /// One step at one of [`SHARES`]; `None` where the generator does not vouch for it, or nothing was answered.
    pub(super) fn step(
        &mut self,
        testbed: &mut Testbed,
        recorder: &mut Recorder<'_>,
        level: usize,
    ) -> Result<Option<LowLoadStep>, ExperimentError> {
        let rate_hz = SHARES[level] * self.rough_hz;
        let step = Step::at_rate("plan: low load", rate_hz, self.length, self.next_seed);
        let step = step.to_the_end();
        self.next_seed += 1;
        let it = observe(testbed, recorder, self.arm, &step)?;
        let worker_bytes = it.series.max(Layer::Php, metric::PSS_WORKER_BYTES);
        let memory_bytes = self.memory_bytes.into_iter().chain(worker_bytes);
        self.memory_bytes = memory_bytes.reduce(f64::max);
        self.closed.add(it.load.served_in_all() as f64, &it.series);
        let counts = it.load.validity.is_valid() && it.load.response.count() > 0;
        Ok(counts.then(|| LowLoadStep::of(level, &it.load, &it.cpu)))
    }
}

/// What steps at each of the shares show.
pub(super) struct Measured {
    pub(super) seen: Vec<LowLoadStep>,
    /// Largest memory of a worker; `None` where it was not measured.
    pub(super) worker_memory_bytes: Option<f64>,
    pub(super) closed: ClosedConnections,
}

/// Drives steps at each of the shares.
pub(super) fn measure(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    arm: &str,
    rough_hz: f64,
    length: Duration,
) -> Result<Measured, ExperimentError> {
    let mut seen = Vec::new();
    let mut low = LowLoad::new(arm, rough_hz, length, SEED);
    for round in 0..ROUNDS {
        for level in 0..SHARES.len() {
            // Each rate comes first once: a machine that is slow after a pause is so at all of them.
            let level = (level + round) % SHARES.len();
            let done = (round * SHARES.len() + level) as f64 / (ROUNDS * SHARES.len()) as f64;
            recorder.progress("plan: low load", done, None);
            seen.extend(low.step(testbed, recorder, level)?);
        }
    }
    Ok(Measured {
        seen,
        worker_memory_bytes: low.memory_bytes,
        closed: low.closed,
    })
}
