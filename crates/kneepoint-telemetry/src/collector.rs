//! The collector: threads that sample the sources at their cadence into one recording.

use crate::recorder::{Recorder, Recording};
use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use crate::sources::SOURCES;
use kneepoint_linux::clock::thread_cpu;
use kneepoint_linux::namespace;
use kneepoint_model::metric::{SOURCE_COST_S, UP};
use kneepoint_model::{Layer, RunningTier};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How the collector samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CollectorOptions {
    /// Multiplies every cadence: 2.0 samples half as often, at half the cost.
    pub slow_down: f64,
    /// Longest time [`Collector::mark`], [`Collector::snapshot`] and [`Collector::finish`] wait for sources that
    /// do not answer.
    pub patience: Duration,
}

impl Default for CollectorOptions {
    /// The cadences the sources state, and two seconds of patience.
    fn default() -> Self {
        Self {
            slow_down: 1.0,
            patience: Duration::from_secs(2),
        }
    }
}

/// Why there is no collector. What a single source cannot read is a note in the recording instead.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The system gave no thread.
    #[error(
        "starting the telemetry thread `{name}`: {why}; raise the limit of processes (ulimit -u)"
    )]
    Thread {
        /// Which thread.
        name: String,
        /// What the system said.
        why: std::io::Error,
    },
}

/// Samples every layer of a running stack in the background until it is finished or dropped.
#[derive(Debug)]
pub struct Collector {
    shared: Arc<Shared>,
    patience: Duration,
}

impl Collector {
    /// Starts sampling. Returns when every source has been asked once, so the recording begins with a sample of
    /// everything that answers.
    ///
    /// # Errors
    /// [`TelemetryError::Thread`] only. A tier that is dead or a door that is closed is noted in the recording.
    pub fn start(
        tiers: Vec<RunningTier>,
        options: CollectorOptions,
    ) -> Result<Self, TelemetryError> {
        Self::start_lanes(lanes_of(&tiers, options.slow_down), options)
    }

    fn start_lanes(
        lanes: Vec<LaneOfProbes>,
        options: CollectorOptions,
    ) -> Result<Self, TelemetryError> {
        let shared = Arc::new(Shared::new(&lanes));
        let collector = Self {
            shared: Arc::clone(&shared),
            patience: options.patience,
        };
        for (index, lane) in lanes.into_iter().enumerate() {
            let shared = Arc::clone(&shared);
            let name = lane.name.clone();
            thread::Builder::new()
                .name(name.clone())
                .spawn(move || lane.run(index, &shared))
                .map_err(|why| TelemetryError::Thread { name, why })?;
        }
        collector.mark();
        Ok(collector)
    }

    /// Begins a phase: forgets what was recorded, samples everything, and makes this moment t = 0. The log lines
    /// written so far are not counted.
    pub fn mark(&self) {
        self.shared.recorder().forget_notes();
        let since = Instant::now();
        self.round();
        self.shared.recorder().restart(since, Instant::now());
        let cost_ns = self.shared.cost_ns.load(Ordering::Relaxed);
        self.shared
            .cost_at_mark_ns
            .store(cost_ns, Ordering::Relaxed);
    }

    /// Samples everything once more and returns the phase so far. The phase goes on.
    #[must_use]
    pub fn snapshot(&self) -> Recording {
        self.round();
        self.shared.recording()
    }

    /// Samples everything once more, stops, and returns the phase.
    #[must_use]
    pub fn finish(self) -> Recording {
        self.snapshot()
    }

    /// Has every lane sample all its probes now, and waits until they have or patience is over.
    fn round(&self) {
        let mut control = self.shared.control();
        control.round += 1;
        let round = control.round;
        self.shared.wake.notify_all();
        let control = self.shared.wait(control, self.patience, |control| {
            control.lanes.iter().all(|lane| lane.finished >= round)
        });
        let patience = self.patience;
        let silent = control.lanes.iter().filter_map(|lane| {
            let why = match lane.finished {
                ENDED => "its thread died; please report this as a bug".to_owned(),
                finished if finished < round => format!("no answer within {patience:?}"),
                _ => return None,
            };
            Some((lane.asks.clone(), why))
        });
        let silent: Vec<_> = silent.collect();
        drop(control);
        for (asks, why) in silent {
            for (layer, source) in asks {
                self.shared.silent(layer, source, &why);
            }
        }
    }
}

impl Drop for Collector {
    /// Stops the threads. One that hangs in a request to a frozen server ends when the server does.
    fn drop(&mut self) {
        let mut control = self.shared.control();
        control.stop = true;
        self.shared.wake.notify_all();
        drop(self.shared.wait(control, self.patience, |control| {
            control.lanes.iter().all(|lane| lane.finished == ENDED)
        }));
    }
}

/// Looks at a running stack once: one sample of everything, log lines not included.
///
/// # Errors
/// As [`Collector::start`].
pub fn sample_once(tiers: Vec<RunningTier>) -> Result<Recording, TelemetryError> {
    let collector = Collector::start(tiers, CollectorOptions::default())?;
    Ok(collector.shared.recording())
}

/// What the lanes and the collector share.
#[derive(Debug)]
struct Shared {
    recorder: Mutex<Recorder>,
    control: Mutex<Control>,
    wake: Condvar,
    done: Condvar,
    cost_ns: AtomicU64,
    cost_at_mark_ns: AtomicU64,
}

#[derive(Debug)]
struct Control {
    round: u64,
    stop: bool,
    lanes: Vec<LaneState>,
}

/// How far a lane is.
#[derive(Debug)]
struct LaneState {
    /// The last round it finished.
    finished: u64,
    /// What it samples.
    asks: Vec<(Layer, &'static str)>,
}

/// The round of a lane whose thread is over: no round waits for it.
const ENDED: u64 = u64::MAX;

impl Shared {
    fn new(lanes: &[LaneOfProbes]) -> Self {
        let state = |lane: &LaneOfProbes| LaneState {
            finished: 0,
            asks: lane
                .probes
                .iter()
                .map(|probe| (probe.layer, probe.source.name))
                .collect(),
        };
        Self {
            recorder: Mutex::new(Recorder::new(Instant::now())),
            control: Mutex::new(Control {
                round: 0,
                stop: false,
                lanes: lanes.iter().map(state).collect(),
            }),
            wake: Condvar::new(),
            done: Condvar::new(),
            cost_ns: AtomicU64::new(0),
            cost_at_mark_ns: AtomicU64::new(0),
        }
    }

    // A lane that panicked leaves whole readings behind, so its lock is still good.
    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &self,
        control: MutexGuard<'a, Control>,
        patience: Duration,
        over: impl Fn(&Control) -> bool,
    ) -> MutexGuard<'a, Control> {
        let waited = self
            .done
            .wait_timeout_while(control, patience, |control| !over(control));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// A source that neither answers nor fails.
    fn silent(&self, layer: Layer, source: &'static str, why: &str) {
        let mut sink = Sink::default();
        sink.labelled(UP, source, 0.0);
        let mut recorder = self.recorder();
        recorder.failed(layer, source, why);
        recorder.commit(layer, source, Instant::now(), sink);
    }

    fn lane_finished(&self, index: usize, round: u64) {
        if let Some(lane) = self.control().lanes.get_mut(index) {
            lane.finished = round;
        }
        self.done.notify_all();
    }

    fn recording(&self) -> Recording {
        let cost_ns = self.cost_ns.load(Ordering::Relaxed);
        let before_ns = self.cost_at_mark_ns.load(Ordering::Relaxed);
        self.recorder()
            .recording(cost_ns.saturating_sub(before_ns) as f64 / 1e9)
    }
}

/// The probes of one thread.
struct LaneOfProbes {
    name: String,
    netns: Option<PathBuf>,
    entered: bool,
    jitter: u64,
    probes: Vec<Scheduled>,
}

/// Tells the end of a lane's thread, however it ends.
struct End<'a> {
    index: usize,
    shared: &'a Shared,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.shared.lane_finished(self.index, ENDED);
    }
}

/// One probe with its timetable.
struct Scheduled {
    source: &'static Source,
    layer: Layer,
    probe: Box<dyn Probe>,
    cadence: Duration,
    next: Instant,
    up: Option<(bool, Instant)>,
}

fn lanes_of(tiers: &[RunningTier], slow_down: f64) -> Vec<LaneOfProbes> {
    let lane = |name: String, netns: Option<PathBuf>| LaneOfProbes {
        entered: netns.is_none(),
        name,
        netns,
        jitter: 0x9e37_79b9_7f4a_7c15,
        probes: Vec::new(),
    };
    let mut fast = lane("kneepoint-fast".into(), None);
    let mut trend = lane("kneepoint-trend".into(), None);
    let mut own = Vec::new();
    for &source in SOURCES {
        let scheduled = |layer, probe| Scheduled {
            source,
            layer,
            probe,
            cadence: source.cadence.mul_f64(slow_down.clamp(0.1, 100.0)),
            next: Instant::now(),
            up: None,
        };
        let opened: Vec<_> = match source.open {
            Open::Machine(open) => vec![(None, scheduled(Layer::Generator, open()))],
            Open::Tier(open) => tiers
                .iter()
                .filter_map(|tier| Some((tier.netns.clone(), scheduled(tier.layer, open(tier)?))))
                .collect(),
        };
        for (netns, probe) in opened {
            match source.lane {
                Lane::Fast => fast.probes.push(probe),
                Lane::Trend => trend.probes.push(probe),
                Lane::Own => {
                    let mut alone = lane(format!("kp-{}", source.name), netns);
                    alone.probes.push(probe);
                    own.push(alone);
                }
            }
        }
    }
    own.extend([fast, trend]);
    own
}

impl LaneOfProbes {
    fn run(mut self, index: usize, shared: &Shared) {
        let _end = End { index, shared };
        let mut finished = 0;
        let mut spent = Duration::ZERO;
        loop {
            let (round, stop) = self.wait(shared, finished);
            if stop {
                break;
            }
            for at in 0..self.probes.len() {
                if round > finished {
                    self.probes[at].up = None;
                }
                if round > finished || self.probes[at].next <= Instant::now() {
                    self.sample(at, shared);
                }
            }
            let now = thread_cpu();
            let cost_ns = now.saturating_sub(spent).as_nanos() as u64;
            shared.cost_ns.fetch_add(cost_ns, Ordering::Relaxed);
            spent = now;
            if round > finished {
                finished = round;
                shared.lane_finished(index, round);
            }
        }
    }

    /// Sleeps until a probe is due, a round is asked for or the end has come.
    fn wait(&self, shared: &Shared, finished: u64) -> (u64, bool) {
        let due = self.probes.iter().map(|probe| probe.next).min();
        let sleep = due.map_or(Duration::from_secs(3600), |due| {
            due.saturating_duration_since(Instant::now())
        });
        let (control, _) = shared
            .wake
            .wait_timeout_while(shared.control(), sleep, |control| {
                !control.stop && control.round <= finished
            })
            .unwrap_or_else(PoisonError::into_inner);
        (control.round, control.stop)
    }

    fn sample(&mut self, at: usize, shared: &Shared) {
        if !self.entered {
            // The namespace may come late or be gone; the probe then fails by its own words.
            self.entered = namespace::enter_path(self.netns.as_deref()).is_ok();
        }
        // Twenty samples a second at even steps would beat with a load at even steps.
        self.jitter ^= self.jitter << 13;
        self.jitter ^= self.jitter >> 7;
        self.jitter ^= self.jitter << 17;
        let stretch = 0.9 + 0.2 * (self.jitter >> 11) as f64 / (1u64 << 53) as f64;
        let entered = self.entered;
        let scheduled = &mut self.probes[at];
        let start = Instant::now();
        scheduled.next = start + scheduled.cadence.mul_f64(stretch);
        let mut sink = Sink::default();
        let result = if entered {
            scheduled.probe.sample(&mut sink)
        } else {
            Err(Failure(format!(
                "cannot enter the network namespace {:?} of the tier; run as root",
                self.netns
            )))
        };
        scheduled.commit(start, sink, result, shared);
    }
}

impl Scheduled {
    fn commit(
        &mut self,
        at: Instant,
        mut sink: Sink,
        result: Result<(), Failure>,
        shared: &Shared,
    ) {
        let up = result.is_ok();
        let said = self.up.is_some_and(|(was, when)| {
            was == up && at.saturating_duration_since(when) < Duration::from_millis(900)
        });
        if !said {
            sink.labelled(UP, self.source.name, f64::from(u8::from(up)));
            self.up = Some((up, at));
        }
        if self.layer == Layer::Generator {
            sink.push(
                SOURCE_COST_S,
                shared.cost_ns.load(Ordering::Relaxed) as f64 / 1e9,
            );
        }
        let mut recorder = shared.recorder();
        if let Err(why) = result {
            recorder.failed(self.layer, self.source.name, &why.to_string());
        }
        recorder.commit(self.layer, self.source.name, at, sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::metric::QUEUE;

    /// A probe that does as it is told, for what no real server does on demand.
    struct Told(fn() -> Result<f64, Failure>);

    impl Probe for Told {
        fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
            sink.push(QUEUE, (self.0)()?);
            Ok(())
        }
    }

    fn lane(layer: Layer, told: fn() -> Result<f64, Failure>) -> LaneOfProbes {
        let source = SOURCES[0];
        LaneOfProbes {
            name: "kneepoint-test".into(),
            netns: None,
            entered: true,
            jitter: 1,
            probes: vec![Scheduled {
                source,
                layer,
                probe: Box::new(Told(told)),
                cadence: Duration::from_millis(10),
                next: Instant::now(),
                up: None,
            }],
        }
    }

    fn start(lanes: Vec<LaneOfProbes>, patience: Duration) -> Collector {
        let options = CollectorOptions {
            patience,
            ..CollectorOptions::default()
        };
        Collector::start_lanes(lanes, options).expect("threads")
    }

    #[test]
    fn one_that_hangs_or_panics_does_not_hold_the_others() {
        let hangs = || {
            thread::sleep(Duration::from_millis(400));
            Ok(1.0)
        };
        let lanes = vec![
            lane(Layer::Db, hangs),
            lane(Layer::Cache, || panic!("a bug in a source")),
            lane(Layer::Php, || Err(Failure("on purpose".into()))),
            lane(Layer::Web, || Ok(3.0)),
        ];
        let recording = start(lanes, Duration::from_millis(50)).finish();
        assert_eq!(recording.series.last(Layer::Web, QUEUE), Some(3.0));
        let up = |layer| {
            recording
                .series
                .get(layer, UP)
                .and_then(|series| series.last())
        };
        assert_eq!((up(Layer::Db), up(Layer::Php)), (Some(0.0), Some(0.0)));
        let noted = |start: &str| recording.notes.iter().any(|note| note.starts_with(start));
        assert!(noted("php: machine: on purpose"), "{:?}", recording.notes);
        assert!(noted("db: machine: no answer within 50ms"));
        assert!(noted("cache: machine: "));
    }

    #[test]
    fn dropping_it_ends_the_threads() {
        let lanes = vec![lane(Layer::Web, || Ok(3.0)), lane(Layer::Php, || Ok(1.0))];
        let collector = start(lanes, Duration::from_secs(10));
        let shared = Arc::downgrade(&collector.shared);
        drop(collector);
        // Each thread holds a share of it, and lets go just after it said that it ends.
        let ended = (0..500).any(|_| {
            thread::sleep(Duration::from_millis(2));
            shared.strong_count() == 0
        });
        assert!(ended);
    }

    #[test]
    fn each_mark_begins_with_a_fresh_sample() {
        let collector = start(vec![lane(Layer::Web, || Ok(3.0))], Duration::from_secs(10));
        for _ in 0..3 {
            collector.mark();
            let recording = collector.snapshot();
            let series = recording.series.get(Layer::Web, QUEUE).expect("sampled");
            assert_eq!(series.points[0], (0.0, 3.0));
            assert!(series.points.len() >= 2, "the snapshot samples too");
        }
    }
}
