//! Whether a pipeline may go on: has the stack lost more than a stated share of its capacity?
//!
//! The decision rests on intervals. It *fails* only when the whole 95 % interval of the loss lies beyond the share, and
//! *passes* only when none of it does; all else is *inconclusive*, which is an answer of its own. So for each quantity
//! that is compared, a change that costs exactly the share fails, and passes, at most 2.5 % of the time each, and one
//! that costs nothing hardly ever fails.

use crate::Interval;
use serde::{Deserialize, Serialize};

/// What a gate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GateVerdict {
    /// A loss of more than the share is excluded.
    Pass,
    /// A loss of more than the share is shown.
    Fail,
    /// Neither.
    Inconclusive,
}

impl GateVerdict {
    /// The word in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// Something that differs between the runs that are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doubt {
    /// It moves capacity by an unknown share: nothing can be concluded.
    Obstacle(String),
    /// It may move capacity a little.
    Note(String),
}

impl Doubt {
    /// The sentence.
    #[must_use]
    pub fn into_sentence(self) -> String {
        match self {
            Self::Obstacle(sentence) | Self::Note(sentence) => sentence,
        }
    }
}

/// The loss of one quantity, and what the gate says of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateClaim {
    /// What may have been lost: `R*`, `throughput at saturation`.
    pub quantity: String,
    /// What the baseline reached per second; `None` where only the ratio was measured.
    pub before_hz: Option<Interval>,
    /// What was reached now per second; `None` where only the ratio was measured.
    pub now_hz: Option<Interval>,
    /// Share of the quantity that is lost, with its 95 % interval: 1 is all of it, below 0 is a gain.
    pub loss: Interval,
    /// What follows for this quantity alone.
    pub verdict: GateVerdict,
    /// How many trials, over how long, at what noise.
    pub conditions: String,
}

impl GateClaim {
    /// The loss as a relative change: below 0 is a loss, above a gain.
    #[must_use]
    pub fn change(&self) -> Interval {
        Interval {
            low: -self.loss.high,
            estimate: -self.loss.estimate,
            high: -self.loss.low,
        }
    }

    /// Whether it shows a loss, and not whether that is more than may be lost. Where it shows none, it is only vague.
    #[must_use]
    pub fn leaves_a_loss_open(&self) -> bool {
        self.verdict == GateVerdict::Inconclusive && self.loss.low > 0.0
    }
}

/// What a gate decided and on what grounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateResult {
    /// What it was compared with, in words: the baseline run, or the application beside the present one.
    pub baseline: String,
    /// Largest share that may be lost, 0.05.
    pub max_loss: f64,
    /// What was compared. The first decides; the others can make the gate fail, or keep it from passing.
    pub claims: Vec<GateClaim>,
    /// What follows.
    pub verdict: GateVerdict,
    /// What an inconclusive gate counts as for whoever asked; `Inconclusive` keeps it apart.
    pub inconclusive_as: GateVerdict,
    /// Why the two cannot be compared, a sentence each; where there is one, the verdict is inconclusive.
    pub obstacles: Vec<String>,
    /// What else differed between the two, a sentence each.
    pub notes: Vec<String>,
}

impl GateResult {
    /// The result of these claims, the first of which decides.
    #[must_use]
    pub fn new(
        baseline: String,
        max_loss: f64,
        inconclusive_as: GateVerdict,
        claims: Vec<GateClaim>,
        doubts: Vec<Doubt>,
    ) -> Self {
        let (obstacles, notes): (Vec<Doubt>, Vec<Doubt>) = doubts
            .into_iter()
            .partition(|doubt| matches!(doubt, Doubt::Obstacle(_)));
        let verdict = if obstacles.is_empty() {
            together(&claims)
        } else {
            GateVerdict::Inconclusive
        };
        let sentences = |doubts: Vec<Doubt>| doubts.into_iter().map(Doubt::into_sentence).collect();
        Self {
            baseline,
            max_loss,
            claims,
            verdict,
            inconclusive_as,
            obstacles: sentences(obstacles),
            notes: sentences(notes),
        }
    }

    /// The claim that the verdict rests on: one that fails, or one that keeps the gate from passing, or else the first.
    #[must_use]
    pub fn deciding(&self) -> Option<&GateClaim> {
        let fails = |claim: &&GateClaim| claim.verdict == GateVerdict::Fail;
        let fails = self.claims.iter().find(fails);
        // A gate of an earlier version passed beside such a claim.
        let obstructs = obstructing(&self.claims);
        let obstructs = obstructs.filter(|_| self.verdict == GateVerdict::Inconclusive);
        fails.or(obstructs).or(self.claims.first())
    }

    /// The verdict as it counts for whoever asked.
    #[must_use]
    pub fn counts_as(&self) -> GateVerdict {
        match self.verdict {
            GateVerdict::Inconclusive => self.inconclusive_as,
            clear => clear,
        }
    }
}

/// The share that was lost between two rates that were measured apart, each with a 95 % interval. `None` where the
/// first is no rate above zero; 1 where the second is none.
///
/// The interval of ln(now/before) is recovered from those of the two (MOVER: Zou and Donner, Stat. Med. 2008, 27:1693):
/// it is exact for normal estimates of ln rate and keeps intervals that are longer on one side so.
#[must_use]
pub fn loss(before: &Interval, now: &Interval) -> Option<Interval> {
    if !is_rate(before) {
        return None;
    }
    if !is_rate(now) {
        return Some(loss_of_ratio(0.0, 0.0, 0.0));
    }
    let ln = |rate: &Interval| {
        let middle = rate.estimate.ln();
        (
            middle,
            (middle - rate.low.ln()).max(0.0),
            (rate.high.ln() - middle).max(0.0),
        )
    };
    let (before, before_down, before_up) = ln(before);
    let (now, now_down, now_up) = ln(now);
    let middle = now - before;
    Some(loss_of_ratio(
        (middle - now_down.hypot(before_up)).exp(),
        middle.exp(),
        (middle + now_up.hypot(before_down)).exp(),
    ))
}

fn is_rate(rate: &Interval) -> bool {
    rate.estimate.is_finite() && rate.estimate > 0.0
}

/// The loss that an interval of ln(now/before) speaks of.
#[must_use]
pub fn loss_of_ln(ln_ratio: &Interval) -> Interval {
    loss_of_ratio(
        ln_ratio.low.exp(),
        ln_ratio.estimate.exp(),
        ln_ratio.high.exp(),
    )
}

/// A ratio beyond which a gain is no longer told in figures, so that one without bound stays a number in the run file.
const MOST_RATIO: f64 = 20.0;

fn loss_of_ratio(low: f64, estimate: f64, high: f64) -> Interval {
    let lost = |ratio: f64| 1.0 - ratio.min(MOST_RATIO);
    Interval {
        low: lost(high),
        estimate: lost(estimate),
        high: lost(low),
    }
}

/// What follows from a loss: fail when all of the interval is beyond the share, pass when none of it is.
#[must_use]
pub fn judge(loss: &Interval, max_loss: f64) -> GateVerdict {
    if loss.low > max_loss {
        GateVerdict::Fail
    } else if loss.high <= max_loss {
        GateVerdict::Pass
    } else {
        GateVerdict::Inconclusive
    }
}

/// The claim that keeps a gate from passing whose first one passes: it shows a loss that may be more than may be lost.
fn obstructing(claims: &[GateClaim]) -> Option<&GateClaim> {
    let (first, others) = claims.split_first()?;
    let mut others = others.iter();
    let open = others.find(|claim| claim.leaves_a_loss_open());
    open.filter(|_| first.verdict == GateVerdict::Pass)
}

/// What several claims say together: any can fail the gate, and only the first can let it pass.
fn together(claims: &[GateClaim]) -> GateVerdict {
    if claims
        .iter()
        .any(|claim| claim.verdict == GateVerdict::Fail)
    {
        return GateVerdict::Fail;
    }
    obstructing(claims)
        .or(claims.first())
        .map_or(GateVerdict::Inconclusive, |claim| claim.verdict)
}

#[cfg(test)]
mod tests;
