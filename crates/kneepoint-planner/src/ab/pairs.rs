//! Which steps a comparison of two arms takes, and what they say of the change's effect on capacity.
//!
//! Two measures of one effect. *Alone*: each arm by itself, one after the other, by what it serves. *Both at once*: the two in
//! the same seconds, by the CPU time that a request took of each one's own control groups; what the machine does then, it
//! does to both, so that this scatters far less (docs/noise.md). Capacity follows from cost only where the CPU binds, which
//! the steps alone tell: as long as it does, three steps of both at once follow each pair alone.
//!
//! What other programs used is a covariate. Where the CPU binds, a step alone counts for the share of the machine that there
//! was for it; and a pair whose steps had unlike shares counts for less.

use super::failed::Failed;
use super::{Side, order_bit, slope};
use kneepoint_model::statistics::autocorrelation::lag_one;
use kneepoint_model::statistics::sequential::{Combined, MIN_PAIRS_UNKNOWN, Paired, Scatter};
use kneepoint_model::{Interval, LoadPoint, Outcome, PairedMeasure};

/// What is known of the scatter of pairs before the first, as ln ratios (docs/noise.md): of cost with both at once, and of
/// throughput alone.
const COST: Scatter = Scatter {
    sd: 0.03,
    pairs: 10.0,
};
const ALONE: Scatter = Scatter {
    sd: 0.12,
    pairs: 10.0,
};
/// The same of how much of the CPU one arm used over the other when each was alone, where the CPU binds \[ours\].
const USED: Scatter = Scatter {
    sd: 0.01,
    pairs: 2.0,
};
/// Least share of the machine that a step alone is taken to have used, so that one which did nothing has a logarithm.
const LEAST_USED: f64 = 0.01;
/// Share of what there was of the machine that may be idle where the CPU binds.
const IDLE: f64 = 0.2;
/// By how much ln of what there was of the machine must differ between two steps for their pair to scatter as much again as
/// others do: what a step loses to others is known to about a third of it.
const UNLIKE: f64 = 0.15;
/// Failed share up to which the CPU time of a request is known: what the stack does for one that fails is counted, and the
/// request is not.
const MOST_FAILED: f64 = 0.02;
/// Fewest served requests of a step of which the CPU time means something, or how many they are.
const FEWEST_SERVED: u64 = 10;
/// Autocorrelation of the pairs beyond which neighbours are merged (docs/noise.md).
const RESEMBLANCE: f64 = 0.15;
/// Factor between the arms beyond which cost is not asked: a slow arm's work drives the fast one's out of the caches, so that
/// the two look less unlike than they are (docs/noise.md); and steps alone tell such a factor in seconds.
const UNEQUAL: f64 = 2.0;
/// Of so many pairs the first is alone and the others are both at once, where the CPU binds.
const ROUND: usize = 4;
/// Steps of both at once in a row that told no cost, after which there are no more of them \[ours\]: what keeps the CPU time of a
/// request from being known, such as requests that fail, seldom passes, and each such step takes time from the others.
const MOST_VOID: usize = 3;

/// What a step alone says, as the measure that was taken has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Said {
    /// ln of the capacity it speaks for, times the slope where there is one.
    pub(crate) value: f64,
    /// Its variance as a multiple of that of a usual step.
    pub(crate) variance: f64,
    /// At which end of what can be said it is, if at one.
    pub(crate) end: Option<End>,
}

/// An end of what the violating share can say. The capacity may be any farther.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Next to nothing violated.
    Calm,
    /// Nearly everything did.
    Drowned,
}

/// One step alone.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// ln of the capacity it speaks for, times the slope where there is one.
    value: f64,
    /// Its variance as a multiple of that of a step that says exactly where the limit is.
    variance: f64,
    /// ln of the share of the machine that there was.
    ln_available: f64,
    /// Share of that which was idle; `None` where nobody looked.
    idle: Option<f64>,
    /// At which end of what can be said it is, if at one.
    end: Option<End>,
}

/// Which step is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turns {
    /// One arm by itself.
    Alone(Side),
    /// Both at once, this one named first.
    Both(Side),
}

/// The pairs of a comparison so far.
#[derive(Debug, Clone)]
pub(crate) struct Pairs {
    seed: u64,
    /// Whether both arms can be loaded at once.
    at_once: bool,
    /// By how much what a step alone says changes for each unit of ln capacity, as the fit of the limit has it; `None` where
    /// it says ln capacity itself.
    slope: Option<f64>,
    pending: (Option<Turn>, Option<Turn>),
    alone: Vec<(Turn, Turn)>,
    /// ln(CPU a request of A / the same of B) of each step of both at once.
    cost: Vec<f64>,
    failed: Failed,
    void: usize,
    /// The last steps of both at once in a row that told no cost.
    void_cost: usize,
}

impl Pairs {
    pub(crate) fn new(seed: u64, at_once: bool) -> Self {
        Self {
            seed,
            at_once,
            slope: None,
            pending: (None, None),
            alone: Vec::new(),
            cost: Vec::new(),
            failed: Failed::default(),
            void: 0,
            void_cost: 0,
        }
    }

    /// Pairs of steps alone that say how many requests violate at one rate: `slope` logits for each unit of ln capacity.
    pub(crate) fn by_share(seed: u64, slope: f64) -> Self {
        Self {
            slope: Some(slope.max(1.0)),
            ..Self::new(seed, false)
        }
    }

    /// Which step is next. Who comes first in a pair is chance, and the other way round in the next pair of its kind: what
    /// the first step of a pair has over the second is no effect then.
    pub(crate) fn next(&self) -> Turns {
        let pair = self.begun();
        let asked = self.at_once && !self.gave_cost_up() && self.cost_tells();
        let both = asked && !pair.is_multiple_of(ROUND);
        let nth = if both {
            self.cost.len()
        } else {
            self.alone.len()
        } as u64;
        let first = if order_bit(self.seed, nth / 2) != (nth % 2 == 1) {
            Side::A
        } else {
            Side::B
        };
        match self.pending {
            (None, None) if both => Turns::Both(first),
            (None, None) => Turns::Alone(first),
            (Some(_), _) => Turns::Alone(Side::B),
            (None, Some(_)) => Turns::Alone(Side::A),
        }
    }

    /// Takes in a step alone, and what it says. One that is invalid voids its pair, whichever side it was, and so do two in which
    /// next to nothing was served.
    pub(crate) fn record_alone(&mut self, side: Side, said: Said, point: &LoadPoint) {
        if !point.validity.is_valid() {
            self.pending = (None, None);
            self.void += 1;
            return;
        }
        let there_was = point.health.available_share();
        let turn = Turn {
            value: said.value,
            variance: said.variance,
            ln_available: there_was.ln(),
            idle: point.health.idle_share.map(|idle| idle / there_was),
            end: said.end,
        };
        self.failed.take(side, point);
        match side {
            Side::A => self.pending.0 = Some(turn),
            Side::B => self.pending.1 = Some(turn),
        }
        if let (Some(a), Some(b)) = self.pending {
            let nothing = |turn: Turn| self.slope.is_none() && turn.end.is_some();
            match nothing(a) && nothing(b) {
                true => self.void += 1,
                false => self.alone.push((a, b)),
            }
            self.pending = (None, None);
        }
    }

    /// What failed of each arm alone.
    pub(crate) fn failed(&self) -> &Failed {
        &self.failed
    }

    /// Takes in a step of both at once.
    pub(crate) fn record_both(&mut self, a: &LoadPoint, b: &LoadPoint) {
        match cost_ms(a).zip(cost_ms(b)) {
            Some((a, b)) => {
                self.cost.push((a / b).ln());
                self.void_cost = 0;
            }
            None => {
                self.void += 1;
                // A step that the generator could not drive says nothing of the arms.
                let driven = a.validity.is_valid() && b.validity.is_valid();
                self.void_cost += usize::from(driven);
            }
        }
    }

    /// Whether there are no more steps of both at once, since the last ones told no cost.
    fn gave_cost_up(&self) -> bool {
        self.void_cost >= MOST_VOID
    }

    /// The same in words, to follow the pairs that were thrown away; empty where it is not so.
    pub(crate) fn cost_given_up(&self) -> String {
        match self.gave_cost_up() {
            true => format!(
                ", no more steps of both at once after {MOST_VOID} in a row that told no CPU time a request"
            ),
            false => String::new(),
        }
    }

    /// Whether cost says something of capacity: the CPU binds both arms, and they are not too unlike.
    fn cost_tells(&self) -> bool {
        let apart: f64 = self.alone().iter().map(|(difference, _)| difference).sum();
        let apart = apart.abs() / self.alone.len().max(1) as f64;
        self.cpu_binds() == Some(true) && apart < UNEQUAL.ln()
    }

    /// Whether the CPU binds, by the steps alone; `None` before the first pair of them or where nobody looked.
    pub(crate) fn cpu_binds(&self) -> Option<bool> {
        let (a, b) = self.idle()?;
        Some(a.max(b) <= IDLE)
    }

    /// Share of what there was of the machine that each arm left idle when it was alone.
    fn idle(&self) -> Option<(f64, f64)> {
        let mean = |turn: fn(&(Turn, Turn)) -> Turn| {
            let idle: Option<Vec<f64>> = self.alone.iter().map(|pair| turn(pair).idle).collect();
            let idle = idle.filter(|idle| !idle.is_empty())?;
            Some(idle.iter().sum::<f64>() / idle.len() as f64)
        };
        Some((mean(|pair| pair.0)?, mean(|pair| pair.1)?))
    }

    /// Pairs that count.
    pub(crate) fn count(&self) -> usize {
        self.alone.len() + self.counted_cost().len()
    }

    /// Whether one step of a pair is taken and the other is not.
    pub(crate) fn is_amid(&self) -> bool {
        self.pending.0.is_some() != self.pending.1.is_some()
    }

    /// Pairs that were begun.
    pub(crate) fn begun(&self) -> usize {
        self.alone.len() + self.cost.len() + self.void
    }

    /// Pairs that do not, since the generator was not sound or requests failed.
    pub(crate) fn void(&self) -> usize {
        self.void
    }

    /// ln(capacity B / capacity A) of each pair of both at once, where cost says something of it: an arm serves what it uses
    /// of the CPU over what a request takes.
    fn counted_cost(&self) -> Vec<f64> {
        match self.used().filter(|_| self.cost_tells()) {
            Some((used, _)) => self.cost.iter().map(|cost| cost + used).collect(),
            None => Vec::new(),
        }
    }

    /// ln of what B used of the CPU over what A did when each was alone, and its standard error: one estimate that is added to
    /// every pair of cost.
    fn used(&self) -> Option<(f64, f64)> {
        let (idle_a, idle_b) = self.idle()?;
        let ln_used = |turn: &Turn| turn.idle.map(|idle| (1.0 - idle).max(LEAST_USED).ln());
        let each = self.alone.iter();
        let each = each.filter_map(|(a, b)| Some((ln_used(b)? - ln_used(a)?, 1.0)));
        let known = paired(USED, &each.collect::<Vec<_>>());
        let used = ((1.0 - idle_b) / (1.0 - idle_a)).ln();
        Some((used, known.standard_error()))
    }

    /// ln(capacity B / capacity A) of each pair alone, and its variance as a multiple of a quiet pair's.
    fn alone(&self) -> Vec<(f64, f64)> {
        let follows = if self.cpu_binds() == Some(true) {
            1.0
        } else {
            0.0
        };
        let slope = self.slope();
        let pair = |(a, b): &(Turn, Turn)| {
            let unlike = b.ln_available - a.ln_available;
            let difference = (b.value - a.value) / slope - follows * unlike;
            let variance = f64::midpoint(a.variance, b.variance) + (unlike / UNLIKE).powi(2);
            (difference, variance)
        };
        self.alone.iter().map(pair).collect()
    }

    /// By how much what a step alone says changes for each unit of ln capacity. Where the CPU binds, capacity is as much as
    /// there was of the machine, and the steps say how they followed that.
    fn slope(&self) -> f64 {
        let Some(before) = self.slope else {
            return 1.0;
        };
        if self.cpu_binds() != Some(true) {
            return before;
        }
        let steps = |turn: fn(&(Turn, Turn)) -> Turn| {
            let turns = self.alone.iter().map(turn);
            turns.map(|turn| (turn.ln_available, turn.value)).collect()
        };
        slope::learned(before, [steps(|pair| pair.0), steps(|pair| pair.1)])
    }

    /// The mean of what the two steps of the last pair alone said.
    pub(crate) fn last_said(&self) -> Option<f64> {
        let (a, b) = self.alone.last()?;
        Some(f64::midpoint(a.value, b.value))
    }

    /// Whether most pairs alone had a step that was at an end of what can be said, so that the effect is larger than they tell.
    pub(crate) fn tell_the_least(&self) -> bool {
        let ends = self.alone.iter().filter(|(a, b)| a.end != b.end);
        2 * ends.count() > self.alone.len()
    }

    /// How many pairs alone there are.
    pub(crate) fn alone_count(&self) -> usize {
        self.alone.len()
    }

    /// What all pairs say together.
    pub(crate) fn effect(&self) -> Combined {
        let [cost, alone] = self.kinds();
        Combined::of([cost, alone])
    }

    fn kinds(&self) -> [Paired; 2] {
        let cost = self.counted_cost().into_iter().map(|it| (it, 1.0));
        let shared = self.used().map_or(0.0, |(_, error)| error);
        [
            paired(COST, &merged(cost.collect())).with_shared_error(shared),
            paired(ALONE, &merged(self.alone())),
        ]
    }

    /// The differences of the measure that is known best.
    pub(crate) fn leading(&self) -> Vec<f64> {
        let [cost, alone] = self.kinds();
        if cost.count() >= 2 && cost.standard_error() < alone.standard_error() {
            self.counted_cost()
        } else {
            self.alone()
                .iter()
                .map(|(difference, _)| *difference)
                .collect()
        }
    }

    /// What each measure says by itself, the one that was taken alone under this name.
    pub(crate) fn measures(&self, alone_name: &str) -> Vec<PairedMeasure> {
        let names = ["CPU time a request, both at once", alone_name];
        let known = names.into_iter().zip(self.kinds());
        let known = known.filter(|(_, kind)| kind.count() > 0);
        known
            .map(|(name, kind)| PairedMeasure {
                quantity: name.to_owned(),
                ratio: kind.mean().exp(),
                pairs: kind.count() as u32,
                pair_sd: (kind.count() > 1).then(|| kind.sd()),
            })
            .collect()
    }
}

/// What a step at saturation says: ln of what it served a second, one more than counted, so that an arm that serves nothing
/// compares as bad and not as undefined.
pub(crate) fn served(point: &LoadPoint) -> Said {
    let served = point.outcomes.of(Outcome::Ok);
    Said {
        value: ((served as f64 + 1.0) / point.window_s.max(0.1)).ln(),
        variance: 1.0,
        end: (served < FEWEST_SERVED).then_some(End::Drowned),
    }
}

/// CPU time of a request in ms, where a step knows it.
fn cost_ms(point: &LoadPoint) -> Option<f64> {
    let tells = point.validity.is_valid()
        && point.error_share() <= MOST_FAILED
        && point.served_in_all() >= FEWEST_SERVED;
    point.cpu_ms.filter(|ms| tells && *ms > 0.0)
}

fn paired(known: Scatter, pairs: &[(f64, f64)]) -> Paired {
    let mut paired = Paired::new(known);
    for (difference, variance) in pairs {
        paired.push(*difference, *variance);
    }
    paired
}

/// Neighbours that resemble each other count as one.
fn merged(pairs: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let differences: Vec<f64> = pairs.iter().map(|(difference, _)| *difference).collect();
    let enough = pairs.len() / 2 >= MIN_PAIRS_UNKNOWN;
    if !enough || lag_one(&differences).is_none_or(|rho| rho <= RESEMBLANCE) {
        return pairs;
    }
    let middle = |two: &[(f64, f64)]| {
        (
            f64::midpoint(two[0].0, two[1].0),
            f64::midpoint(two[0].1, two[1].1),
        )
    };
    pairs.chunks_exact(2).map(middle).collect()
}

/// The interval of a ratio from that of its logarithm.
pub(crate) fn ratio_of(ln: Interval) -> Interval {
    Interval {
        low: ln.low.exp(),
        estimate: ln.estimate.exp(),
        high: ln.high.exp(),
    }
}

#[cfg(test)]
mod tests;
