//! The world that agents run in. What is here is assumed and says so in docs/scale.md; what can be measured is in
//! `constants.rs`.

use super::dice::Dice;

/// What is assumed of networks, clocks and hosts.
#[derive(Debug, Clone, Copy)]
pub(super) struct World {
    /// One-way delay between an agent and the broker in seconds, from and to; every factor is as likely.
    pub(super) delay_s: (f64, f64),
    /// By which share of that the two ways may differ from it, in opposite directions.
    pub(super) asymmetry: f64,
    /// Mean of what a message takes longer than the delay, as a share of it (exponential).
    pub(super) jitter: f64,
    /// Standard deviation of the agents' clocks from the coordinator's in seconds.
    pub(super) offset_s: f64,
    /// Standard deviation of their speed, as a share.
    pub(super) drift: f64,
    /// Mean lateness in seconds of a process that wanted to be woken (exponential).
    pub(super) wake_s: f64,
    /// Share of hosts that are busy: the whole agent stands still at times.
    pub(super) busy_share: f64,
    /// Mean time between two such moments, and their mean length, in seconds (exponential).
    pub(super) stall_every_s: f64,
    pub(super) stall_s: f64,
    /// Probability that a message is lost on its way, without any restart.
    pub(super) loss: f64,
}

impl World {
    /// Nothing is lost, late or wrong: every way takes a millisecond.
    #[cfg(test)]
    pub(super) fn ideal() -> Self {
        Self {
            delay_s: (0.001, 0.001),
            asymmetry: 0.0,
            jitter: 0.0,
            offset_s: 0.0,
            drift: 0.0,
            wake_s: 0.0,
            busy_share: 0.0,
            stall_every_s: 10.0,
            stall_s: 0.0,
            loss: 0.0,
        }
    }

    /// Agents from the next rack to the next continent, synchronised badly, one host in ten overloaded.
    pub(super) fn usual() -> Self {
        Self {
            delay_s: (0.000_1, 0.02),
            asymmetry: 0.2,
            jitter: 0.1,
            offset_s: 0.05,
            drift: 20e-6,
            wake_s: 0.000_1,
            busy_share: 0.1,
            stall_every_s: 10.0,
            stall_s: 0.3,
            loss: 0.000_1,
        }
    }

    /// An agent's host, as chance has it.
    pub(super) fn host(&self, dice: &mut Dice) -> Host {
        let delay_s = dice.by_factor(self.delay_s.0, self.delay_s.1);
        let lean = dice.between(-self.asymmetry, self.asymmetry);
        Host {
            down_s: delay_s * (1.0 + lean),
            up_s: delay_s * (1.0 - lean),
            offset_s: dice.normal(self.offset_s),
            drift: dice.normal(self.drift),
            busy: dice.happens(self.busy_share),
        }
    }
}

/// Where an agent runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Host {
    /// Delay from the broker to the agent, and back, in seconds.
    pub(super) down_s: f64,
    pub(super) up_s: f64,
    offset_s: f64,
    drift: f64,
    /// Whether it stands still at times.
    pub(super) busy: bool,
}

impl Host {
    /// What its clock shows at a true time, both in seconds.
    pub(super) fn clock_s(&self, true_s: f64) -> f64 {
        true_s * (1.0 + self.drift) + self.offset_s
    }

    /// The true time at which its clock shows something.
    pub(super) fn true_s(&self, clock_s: f64) -> f64 {
        (clock_s - self.offset_s) / (1.0 + self.drift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_can_be_read_both_ways() {
        let mut dice = Dice::new(5);
        for _ in 0..100 {
            let host = World::usual().host(&mut dice);
            let back = host.true_s(host.clock_s(1234.5));
            assert!((back - 1234.5).abs() < 1e-9, "{host:?}: {back}");
        }
    }

    #[test]
    fn the_two_ways_lean_around_the_delay_by_no_more_than_is_assumed() {
        let mut dice = Dice::new(6);
        let world = World::usual();
        for _ in 0..1000 {
            let host = world.host(&mut dice);
            let lean = (host.down_s - host.up_s) / (host.down_s + host.up_s);
            assert!(lean.abs() <= world.asymmetry, "{host:?}");
            let delay = f64::midpoint(host.down_s, host.up_s);
            assert!((0.000_099..0.020_001).contains(&delay), "{host:?}");
        }
    }
}
