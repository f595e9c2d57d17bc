//! What is driven before a prediction: a look at what a request takes, then steps at low load.

use super::cost::{USUAL_SAVING, idle_of};
use super::fit::{Ground, Seen, fit};
use super::ports::Closed;
use super::{REQUESTS, SHARES};
use crate::bench::Step;
use crate::diagnose::say_when_invalid;
use crate::error::ExperimentError;
use crate::recorder::Recorder;
use crate::testbed::Testbed;
use kneepoint_model::{CpuTime, Layer, LoadPoint, Second, Series, SeriesSet, metric};
use std::time::Duration;

/// Steps at each rate, in turns, so that a machine that drifts does so at all of them.
const ROUNDS: usize = 4;
/// Seed of the first of them.
const SEED: u64 = 300;
/// Rate of the first look, per second.
const FIRST_HZ: f64 = 2.0;
/// Length of a look, and of the first one: it hardly asks anything, and shows what the machine does without.
const LOOK: Duration = Duration::from_secs(3);
const FIRST_LOOK: Duration = Duration::from_secs(8);
/// Share of cores or workers in use from which on a look says enough: what samples the machine takes a tenth by itself.
const LOOKED: f64 = 0.3;
/// Most that the rate grows between two looks.
const STRIDE: f64 = 6.0;
/// Looks at most.
const LOOKS: u32 = 7;

/// What was seen at first.
pub(super) struct Looked {
    /// Roughly R*, per second.
    pub(super) limit_hz: f64,
    /// Cores that are busy without a request; `None` where already the first look used much of the machine.
    pub(super) idle_cores: Option<f64>,
}

/// Raises the rate until cores or workers are in use well enough to say roughly what R* will be.
pub(super) fn look(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    arm: &str,
    ground: Ground,
) -> Result<Looked, ExperimentError> {
    let mut rate_hz = FIRST_HZ;
    let mut seen: Vec<Seen> = Vec::new();
    for nth in 0..LOOKS {
        let length = if nth == 0 { FIRST_LOOK } else { LOOK };
        let step = Step::at_rate("plan: look", rate_hz, length, 5 + u64::from(nth)).to_the_end();
        let observed = observe(testbed, recorder, arm, &step)?;
        let looked = Seen::of(0, &observed.load, &observed.cpu);
        let busiest = in_use(&looked, ground);
        if looked.response.count() > 0 {
            seen.push(looked);
        }
        if busiest >= LOOKED {
            break;
        }
        rate_hz *= (1.5 * LOOKED / busiest.max(1e-3)).clamp(1.5, STRIDE);
    }
    // The first hardly asks anything: the line through it and the last comes from what the machine does without a request.
    let idle_cores = match &seen[..] {
        [first, .., last] => Some(idle_of(&[first, last].map(Seen::busy))),
        _ => None,
    };
    // Of requests so rare that each finds the machine asleep nothing is to be learned of those at R*.
    let ground = Ground {
        idle_cores,
        saving: Some(USUAL_SAVING),
        ..ground
    };
    let last = seen.last().map(std::slice::from_ref);
    let twin = last.map(|last| fit(last, ground, testbed.slo()).twin);
    let saturation_hz = twin.as_ref().map_or(0.0, |twin| twin.saturation().0);
    let usable = twin.filter(|_| saturation_hz.is_finite() && saturation_hz > 0.0);
    let twin = usable.ok_or_else(|| {
        ExperimentError::Unfit(
            "no request was answered at low load, so there is nothing to plan from; see what `kneepoint load` says of the \
             application"
                .into(),
        )
    })?;
    // Where the SLO does not hold even nearly alone, what saturates is all that there is to go by.
    let limit_hz = twin.long_run_hz(testbed.slo(), REQUESTS, 1);
    Ok(Looked {
        limit_hz: if limit_hz > 0.05 * saturation_hz {
            limit_hz
        } else {
            saturation_hz
        },
        idle_cores,
    })
}

/// Share of the cores or of the workers in use, whichever is more.
fn in_use(seen: &Seen, ground: Ground) -> f64 {
    let held_s = seen.response.mean_ms().unwrap_or(0.0) / 1e3;
    let workers = seen.rate_hz * held_s / f64::from(ground.workers.max(1));
    (seen.busy_cores / ground.cores).max(workers)
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
    let cpu = cpu_time(&recording.series).ok_or_else(|| {
        ExperimentError::Unfit("the machine's CPU time cannot be read from /proc/stat".into())
    })?;
    recorder.result(format!("{}: {}", step.purpose, load.describe()));
    say_when_invalid(recorder, &load);
    recorder.trial_with_cpu(&step.purpose, arm, load.clone(), Some(cpu.clone()));
    Ok(Observed {
        load,
        cpu,
        series: recording.series,
    })
}

/// The CPU time of a recording; `None` where the machine's cannot be read.
fn cpu_time(series: &SeriesSet) -> Option<CpuTime> {
    let busy = series.get(Layer::Generator, metric::MACHINE_BUSY_S)?;
    let stolen = series.get(Layer::Generator, metric::MACHINE_STEAL_S);
    let of_tier = |layer| Some((layer, series.get(layer, metric::CPU_S)?.delta()?));
    Some(CpuTime {
        span_s: busy.points.last()?.0 - busy.points.first()?.0,
        busy_s: busy.delta()?,
        stolen_s: stolen.and_then(Series::delta).unwrap_or(0.0),
        tiers_s: Layer::TIERS.into_iter().filter_map(of_tier).collect(),
    })
}

impl Seen {
    /// A step at a rate of low load, as the fit sees it.
    pub(super) fn of(level: usize, load: &LoadPoint, cpu: &CpuTime) -> Self {
        Self {
            level,
            rate_hz: load.throughput_hz(),
            counted_hz: cpu.cores(load.served_in_all() as f64),
            response: load.response.clone(),
            seconds_ln_ms: seconds_ln_ms(load),
            busy_cores: cpu.cores(cpu.busy_s),
            stolen_cores: cpu.cores(cpu.stolen_s),
            tiers: cpu
                .tiers_s
                .iter()
                .map(|(layer, core_s)| (*layer, cpu.cores(*core_s)))
                .collect(),
        }
    }
}

/// How long the requests of each second of the window took, on a scale on which a slower machine adds the same to all.
pub(super) fn seconds_ln_ms(load: &LoadPoint) -> Vec<f64> {
    let ln_ms = |second: &Second| {
        let (p50_ms, p90_ms) = second.p50_ms.zip(second.p90_ms)?;
        (p50_ms > 0.0).then(|| f64::midpoint(p50_ms.ln(), p90_ms.ln()))
    };
    // What was skipped at the start comes first.
    let skipped = load.seconds.len().saturating_sub(load.window_s as usize);
    load.seconds[skipped..].iter().filter_map(ln_ms).collect()
}

/// Drives steps at shares of what a first look said is R*.
pub(super) struct LowLoad<'a> {
    pub(super) arm: &'a str,
    rough_hz: f64,
    length: Duration,
    next_seed: u64,
    /// Largest memory of a worker so far; `None` where it was not measured.
    memory_bytes: Option<f64>,
    closed: Closed,
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
            closed: Closed::default(),
        }
    }

    /// One step at one of [`SHARES`]; `None` where the generator does not vouch for it, or nothing was answered.
    pub(super) fn step(
        &mut self,
        testbed: &mut Testbed,
        recorder: &mut Recorder<'_>,
        level: usize,
    ) -> Result<Option<Seen>, ExperimentError> {
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
        Ok(counts.then(|| Seen::of(level, &it.load, &it.cpu)))
    }
}

/// What steps at each of the shares show.
pub(super) struct Measured {
    pub(super) seen: Vec<Seen>,
    /// Largest memory of a worker; `None` where it was not measured.
    pub(super) worker_memory_bytes: Option<f64>,
    pub(super) closed: Closed,
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
