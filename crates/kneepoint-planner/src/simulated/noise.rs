//! A machine that is not always equally fast, nor anybody's own: its speed drifts, at times it stands still, and other
//! programs come and go.

use crate::random::Random;

/// How a machine's speed varies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Standard deviation of ln speed in the long run. The drift is an Ornstein-Uhlenbeck process around speed 1.
    pub drift_sd: f64,
    /// Time in seconds in which the drift forgets where it was.
    pub drift_s: f64,
    /// Mean time in seconds between stalls; infinite for none.
    pub stall_every_s: f64,
    /// Mean length of a stall in seconds, exponentially distributed.
    pub stall_s: f64,
    /// Standard deviation of a canary reading around the machine's true speed, as a share.
    pub canary_error: f64,
    /// What other programs take of it.
    pub others: Others,
}

/// What other programs take of a machine, in bursts of [`BURST_S`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Others {
    /// The most cores that a burst takes; 0 where there are no others.
    pub most_cores: f64,
    /// The power that a uniform draw is raised to for the share of these that a burst takes.
    pub power: f64,
}

impl Others {
    /// Nobody.
    pub const NONE: Self = Self {
        most_cores: 0.0,
        power: 1.0,
    };
    /// Programs that take between nothing and a whole core, 40 % in the mean, as `cargo xtask noise` burns them on a real
    /// machine.
    pub const BURSTS: Self = Self {
        most_cores: 1.0,
        power: 1.5,
    };
    /// A compiler on a machine of two cores: it takes both but for what its neighbours insist on, and pauses seldom.
    pub const COMPILER: Self = Self {
        most_cores: 1.9,
        power: 0.15,
    };
}

/// Shortest and longest burst of the other programs in seconds.
const BURST_S: (f64, f64) = (1.0, 8.0);
/// By how much a core's speed falls while another program has all of the next one: what they share besides time, caches and
/// memory first of all.
const CROWDING: f64 = 0.1;

/// A canary reading's error that method.md's simulations assumed.
const CANARY_ERROR: f64 = 0.005;

impl Noise {
    /// A machine of one's own: always as fast.
    #[must_use]
    pub fn none() -> Self {
        Self {
            drift_sd: 0.0,
            drift_s: 45.0,
            stall_every_s: f64::INFINITY,
            stall_s: 0.0,
            canary_error: CANARY_ERROR,
            others: Others::NONE,
        }
    }

    /// The quiet machine of method.md: 1 % of drift, a short stall every two minutes.
    #[must_use]
    pub fn quiet() -> Self {
        Self {
            drift_sd: 0.01,
            stall_every_s: 120.0,
            stall_s: 0.05,
            ..Self::none()
        }
    }

    /// The medium noise of method.md: 4 % of drift, a stall every minute.
    #[must_use]
    pub fn medium() -> Self {
        Self {
            drift_sd: 0.04,
            stall_every_s: 60.0,
            stall_s: 0.1,
            ..Self::none()
        }
    }

    /// The high noise of method.md: 8 % of drift, a stall every half minute.
    #[must_use]
    pub fn high() -> Self {
        Self {
            drift_sd: 0.08,
            stall_every_s: 30.0,
            stall_s: 0.15,
            ..Self::none()
        }
    }

    /// A machine with other work on it: medium noise, and other programs that come and go.
    #[must_use]
    pub fn busy() -> Self {
        Self {
            others: Others::BURSTS,
            ..Self::medium()
        }
    }

    /// The noise of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::none()),
            "quiet" => Some(Self::quiet()),
            "medium" => Some(Self::medium()),
            "high" => Some(Self::high()),
            "busy" => Some(Self::busy()),
            _ => None,
        }
    }

    /// The same machine at reference speed and alone: it stalls as often, without its drift and the other programs.
    #[must_use]
    pub fn without_drift(self) -> Self {
        Self {
            drift_sd: 0.0,
            others: Others::NONE,
            ..self
        }
    }
}

/// How long the speed is taken for constant, in seconds: short against every drift time.
const SEGMENT_S: f64 = 0.1;

/// The speed over time. It goes forward only.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    noise: Noise,
    random: Random,
    ln_speed: f64,
    segment_ends_s: f64,
    stall_begins_s: f64,
    stall_ends_s: f64,
    bursts: Random,
    burst_ends_s: f64,
    /// Cores that the other programs have now.
    others: f64,
}

impl Machine {
    pub(super) fn new(noise: Noise, seed: u64) -> Self {
        let mut random = Random::new(seed, 2);
        let ln_speed = noise.drift_sd * random.normal();
        let mut machine = Self {
            noise,
            random,
            ln_speed,
            segment_ends_s: SEGMENT_S,
            stall_begins_s: 0.0,
            stall_ends_s: 0.0,
            bursts: Random::new(seed, 6),
            burst_ends_s: 0.0,
            others: 0.0,
        };
        machine.next_stall(0.0);
        machine
    }

    /// Cores that the other programs have, at the moment that [`Self::speed`] was last asked for.
    pub(super) fn others(&self) -> f64 {
        self.others
    }

    fn next_burst(&mut self) {
        let (shortest, longest) = BURST_S;
        self.burst_ends_s += shortest + (longest - shortest) * self.bursts.uniform();
        self.others =
            self.noise.others.most_cores * self.bursts.uniform().powf(self.noise.others.power);
    }

    fn next_stall(&mut self, now_s: f64) {
        self.stall_begins_s = now_s + self.random.exponential(1.0) * self.noise.stall_every_s;
        self.stall_ends_s = self.stall_begins_s + self.random.exponential(self.noise.stall_s);
    }

    /// The speed at a moment, and until when it stays so.
    pub(super) fn speed(&mut self, now_s: f64) -> (f64, f64) {
        while self.stall_ends_s <= now_s {
            self.next_stall(self.stall_ends_s);
        }
        while self.segment_ends_s <= now_s {
            let keep = (-SEGMENT_S / self.noise.drift_s).exp();
            let fresh = self.noise.drift_sd * (1.0 - keep * keep).sqrt();
            self.ln_speed = self.ln_speed * keep + fresh * self.random.normal();
            self.segment_ends_s += SEGMENT_S;
        }
        while self.noise.others.most_cores > 0.0 && self.burst_ends_s <= now_s {
            self.next_burst();
        }
        if now_s >= self.stall_begins_s {
            (0.0, self.stall_ends_s)
        } else {
            let until = self.segment_ends_s.min(self.stall_begins_s);
            (self.running_speed(), until)
        }
    }

    /// How fast a core that runs is.
    fn running_speed(&self) -> f64 {
        self.ln_speed.exp() * (1.0 - CROWDING * self.others)
    }

    /// What a fixed piece of CPU work says of the speed now. It is timed in CPU seconds, so a stall does not show.
    pub(super) fn canary(&mut self, now_s: f64) -> f64 {
        self.speed(now_s);
        self.running_speed() * (self.noise.canary_error * self.random.normal()).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean, standard deviation and correlation over one drift time of ln speed, and the share of time stalled.
    fn seen(noise: Noise, seconds: f64) -> (f64, f64, f64, f64) {
        let mut machine = Machine::new(noise, 5);
        let (mut at, mut stalled, mut speeds) = (0.0, 0.0, Vec::new());
        while at < seconds {
            let (speed, until) = machine.speed(at);
            if speed > 0.0 {
                speeds.push(speed.ln());
            } else {
                stalled += until - at;
            }
            at = until;
        }
        let n = speeds.len() as f64;
        let mean = speeds.iter().sum::<f64>() / n;
        let power = |lag: usize| {
            let pairs = speeds.iter().zip(&speeds[lag..]);
            pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / n
        };
        let lag = (noise.drift_s / SEGMENT_S) as usize;
        (
            mean,
            power(0).sqrt(),
            power(lag) / power(0),
            stalled / seconds,
        )
    }

    #[test]
    fn the_drift_and_the_stalls_are_what_was_asked_for() {
        let noise = Noise::high();
        let (mean, sd, correlation, stalled) = seen(noise, 100_000.0);
        assert!(mean.abs() < 0.01, "{mean}");
        assert!((sd / 0.08 - 1.0).abs() < 0.1, "{sd}");
        assert!((correlation - (-1.0f64).exp()).abs() < 0.1, "{correlation}");
        assert!((stalled / 0.005 - 1.0).abs() < 0.15, "{stalled}");
    }

    #[test]
    fn other_programs_take_two_fifths_of_a_core_in_the_mean_and_slow_the_rest() {
        let mut machine = Machine::new(Noise::busy(), 3);
        let (mut at, mut taken, mut bursts, mut last) = (0.0, 0.0, 0, 0.0);
        while at < 20_000.0 {
            let (_, until) = machine.speed(at);
            assert!((0.0..=1.0).contains(&machine.others()));
            taken += machine.others() * (until - at);
            bursts += u32::from((machine.others() - last).abs() > 0.0);
            last = machine.others();
            at = until;
        }
        assert!((taken / at - 0.4).abs() < 0.03, "{}", taken / at);
        let every_s = at / f64::from(bursts);
        assert!((every_s - 4.5).abs() < 0.3, "{every_s}");
        let alone = Machine::new(Noise::medium(), 3);
        assert!(alone.others().abs() < f64::EPSILON);
    }

    #[test]
    fn a_machine_of_ones_own_is_always_as_fast() {
        let mut machine = Machine::new(Noise::none(), 1);
        for at in [0.0, 3.3, 1e4] {
            let (speed, until) = machine.speed(at);
            assert!((speed - 1.0).abs() < 1e-12 && until > at);
        }
    }
}
