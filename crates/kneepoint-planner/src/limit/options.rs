//! How much effort a search for R* may take.

use super::clock;
use kneepoint_model::VisitShape;
use std::time::Duration;

/// Time over load time of a search: between the steps the queue runs empty and the machine's speed is looked at. A search of
/// 81 s of load took 94 s on the demo's stack.
const WITH_RESTS: f64 = 1.15;

/// How much effort a search may take.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitOptions {
    /// Load time after which the search stops refining (the soak comes on top).
    pub load_time: Duration,
    /// Relative half-width of the interval at which it stops earlier.
    pub target: f64,
    /// Standard deviation of the machine's speed from which on it does not: stopping on the width of the interval
    /// costs coverage on a noisy machine (method.md section 1).
    pub noisy: f64,
    /// Steps it takes at least.
    pub min_steps: usize,
    /// Length of the saturating closed loop.
    pub saturate: Duration,
    /// Closed-loop workers at saturation: twice the pool, so that it is full.
    pub workers: u32,
    /// Shortest step.
    pub step_min: Duration,
    /// Longest step.
    pub step_max: Duration,
    /// Length of the confirming stretch; zero goes without, for a limit that only says where to look.
    pub soak: Duration,
    /// Confirming stretches after the first at most, each at a lower rate.
    pub more_soaks: u32,
    /// Seed of the first step.
    pub seed: u64,
    /// Time that the whole may take, rests between the steps and every confirming stretch included: it ends in time, and
    /// goes on while there is time and R* is not narrow yet. `None` counts the load alone.
    pub wall: Option<Duration>,
    /// What a visit is by the scenario; `None` where every request stands for itself. Steps leave out as much of their start
    /// as a visitor pauses, see [`Self::build_up`].
    pub visit: Option<VisitShape>,
}

/// Load below which every step is short, so that there are some.
const SHORT: Duration = Duration::from_secs(30);
/// The longest that a step waits for visitors who pause, in lengths of the longest step: more would leave too few steps.
const MOST_BUILD_UP: f64 = 1.0;
/// Share of a bounded time that goes into the first confirming stretch. As much is left for a second one; where it is not
/// needed, further steps make R* narrower.
const SOAK_OF_WALL: f64 = 0.2;
/// Confirming stretches after the first that a bounded time is spent on at most.
const MORE_SOAKS: u32 = 4;

impl LimitOptions {
    /// The full search of method.md, five minutes of load in all, with what `cargo xtask method` found to be better:
    /// steps of 7 s (5 s there: the second that each leaves out is less of it, and the bias is gone; from 10 s on the
    /// machine's drift within a step costs more), and a confirming stretch of 45 s (60 s there: it adds nothing to what
    /// is known of R*).
    #[must_use]
    pub fn thorough(workers: u32) -> Self {
        Self {
            load_time: Duration::from_secs(215),
            target: 0.02,
            noisy: 0.02,
            min_steps: 10,
            saturate: Duration::from_secs(6),
            workers,
            step_min: Duration::from_secs(7),
            step_max: Duration::from_secs(15),
            soak: Duration::from_secs(45),
            more_soaks: 3,
            seed: 1,
            wall: None,
            visit: None,
        }
    }

    /// A search that fits the time it is given, for tuning under a budget. The interval is as wide as the
    /// data leave it. Steps of 5 s where there is a minute or more: each begins with an empty queue, so that from
    /// shorter ones R* comes out too high (`cargo xtask method --budget 180`: 0.6 to 0.9 % with 4 s and 0.0 to 0.2 % with 5 s,
    /// at the same spread; on real stacks, whose slowest requests take longer, by more).
    #[must_use]
    pub fn within(load_time: Duration, workers: u32) -> Self {
        let tight = load_time < Duration::from_secs(60);
        Self {
            load_time: load_time.mul_f64(0.75),
            target: if tight { 0.06 } else { 0.04 },
            // Under a budget the time that is saved is worth more than the last percent of coverage.
            noisy: f64::INFINITY,
            min_steps: if tight { 4 } else { 10 },
            saturate: Duration::from_secs(4),
            step_min: Duration::from_secs(if tight { 4 } else { 5 }),
            step_max: Duration::from_secs(if tight { 6 } else { 8 }),
            soak: load_time.mul_f64(0.25).max(Duration::from_secs(5)),
            more_soaks: 2,
            ..Self::thorough(workers)
        }
    }

    /// A search that ends within a time, everything included, and uses it unless R* is narrow before.
    #[must_use]
    pub fn by(wall: Duration, workers: u32) -> Self {
        let load = wall.div_f64(WITH_RESTS);
        let thorough = Self::thorough(workers);
        let options = if load >= thorough.load_time + thorough.soak {
            thorough
        } else {
            Self {
                load_time: wall,
                soak: load.mul_f64(SOAK_OF_WALL).max(clock::SOAK_LEAST),
                ..Self::within(load, workers)
            }
        };
        let options = if load < SHORT {
            options.of_short_steps()
        } else {
            options
        };
        Self {
            more_soaks: MORE_SOAKS,
            wall: Some(wall),
            ..options
        }
    }

    /// A search of this much load that takes no longer than it plans to, whatever passes between its steps.
    #[must_use]
    pub fn taking(load_time: Duration, workers: u32) -> Self {
        Self::by(load_time.mul_f64(WITH_RESTS), workers)
    }

    fn of_short_steps(self) -> Self {
        Self {
            saturate: Duration::from_secs(3),
            step_min: Duration::from_secs(3),
            step_max: Duration::from_secs(5),
            min_steps: 3,
            ..self
        }
    }

    /// The least time in which [`Self::by`] answers: saturation, two steps and a confirming stretch, and what passes beside
    /// them, which is more of short steps.
    #[must_use]
    pub fn least() -> Duration {
        let short = Self::thorough(1).of_short_steps();
        let steps = [
            short.saturate,
            short.step_min,
            short.step_min,
            clock::SOAK_LEAST,
        ];
        steps.iter().map(|step| *step + clock::REST).sum()
    }

    /// How long a visitor pauses in a visit.
    pub(super) fn pauses(&self) -> Duration {
        self.visit.map_or(Duration::ZERO, |visit| visit.pauses)
    }

    /// How much more of a step's start is left out for visitors who pause: only after a visit's length as many are on the
    /// site as its rate brings.
    #[must_use]
    pub fn build_up(&self) -> Duration {
        self.pauses().min(self.step_max.mul_f64(MOST_BUILD_UP))
    }

    /// What the search takes where the first confirming stretch holds: the load, and the rests between the steps.
    #[must_use]
    pub fn takes(&self) -> Duration {
        if let Some(wall) = self.wall {
            return wall;
        }
        (self.load_time + self.soak).mul_f64(WITH_RESTS)
    }

    /// The same without the confirming stretch: for a limit that only says where to measure next.
    #[must_use]
    pub fn unconfirmed(self) -> Self {
        Self {
            soak: Duration::ZERO,
            ..self
        }
    }
}
