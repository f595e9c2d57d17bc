//! How far off a prediction was: what is held against R* as it was found, and against steps at four fifths of it.

use super::averages::{mean, of_steps_ms};
use super::fit::known_from;
use super::low_load::{LowLoadStep, PlannedHost, SHARES};
use super::model::Model;
use super::steady::{STOLEN, steady, undisturbed};
use kneepoint_model::capacity::{InTurns, P95_OFF, Verified};
use kneepoint_model::statistics::median::{median, median_interval, median_interval_beside};
use kneepoint_model::{Interval, LatencyHistogram};

/// Half the width of the measured p95's interval, as a share, from which on more steps are worth their time: three quarters of
/// what a prediction may be off.
const KNOWN: f64 = 0.75 * P95_OFF;

/// What is put to the test.
#[derive(Debug, Clone, Copy)]
pub struct Claimed<'a> {
    /// The model that said it.
    pub model: &'a Model,
    /// What it was made from.
    pub seen: &'a [LowLoadStep],
    /// Of which host.
    pub host: PlannedHost,
    /// Predicted R* per second: the rates at low load are shares of it.
    pub limit_hz: f64,
}

/// A step at low load, and the one at four fifths of R* that came after it.
#[derive(Debug, Clone)]
pub struct VerificationPair {
    /// The one at low load.
    pub low: LowLoadStep,
    /// Response times of the other.
    pub response: LatencyHistogram,
    /// Share of the machine's CPU time that its host kept, in the step of the two in which it kept more.
    pub stolen_share: f64,
}

impl VerificationPair {
    /// Whether this many pairs are calm, and those that count say the p95 so well that more are not worth their time.
    #[must_use]
    pub fn enough(pairs: &[Self], count: u32, quantile: f64) -> bool {
        let calm = pairs.iter().filter(|it| it.stolen_share <= STOLEN).count();
        calm >= count as usize && {
            known_p95_ms(&kept(pairs), quantile)
                .is_some_and(|p95| p95.relative_half_width() <= KNOWN)
        }
    }
}

/// What was seen at four fifths of R*, and at low load in turns with it.
#[derive(Debug, Clone)]
pub struct BelowLimit {
    /// Response times of each step at four fifths of R* that counts.
    pub responses: Vec<LatencyHistogram>,
    /// The largest share of the machine's CPU time that its host kept during one of them.
    pub stolen_share: f64,
    seen: Vec<LowLoadStep>,
    /// The p95 in ms of the median step, as well as it is known to whoever saw the steps at low load.
    known_p95_ms: Option<Interval>,
}

impl BelowLimit {
    /// What the pairs that count say.
    #[must_use]
    pub fn of(pairs: &[VerificationPair], quantile: f64) -> Self {
        let kept = kept(pairs);
        Self {
            responses: kept.iter().map(|pair| pair.response.clone()).collect(),
            stolen_share: kept
                .iter()
                .map(|pair| pair.stolen_share)
                .fold(0.0, f64::max),
            seen: kept.iter().map(|pair| pair.low.clone()).collect(),
            known_p95_ms: known_p95_ms(&kept, quantile),
        }
    }
}

impl Claimed<'_> {
    /// The claim against R* as it was found, `beside` which these steps at low load were made, and against what the steps at
    /// this rate below it say.
    #[must_use]
    pub fn verified(
        &self,
        limit_hz: Interval,
        beside: &[LowLoadStep],
        rate_hz: f64,
        below: &BelowLimit,
    ) -> Verified {
        let mut overall = LatencyHistogram::default();
        below.responses.iter().for_each(|one| overall.merge(one));
        let quantile = self.model.slo.quantile;
        let p95_ms = of_steps_ms(below.responses.iter(), quantile);
        Verified {
            predicted_limit_hz: self.limit_hz,
            limit_hz,
            offered_hz: rate_hz,
            measured_p95_ms: median(&p95_ms),
            measured_p95_interval_ms: median_interval(&p95_ms),
            measured_overall_p95_ms: overall.quantile_ms(quantile),
            predicted_p95_ms: self.model.p95_ms(rate_hz),
            in_turns: in_turns(*self, beside, below, rate_hz),
        }
    }
}

/// A quantile in ms of the median step at four fifths of R*, with what chance leaves of it on a machine that was as fast as
/// the steps at low load say. It is held against what is predicted from these, so that they need not last for as long as the
/// machine takes to show all of its speeds.
fn known_p95_ms(pairs: &[&VerificationPair], quantile: f64) -> Option<Interval> {
    let (slow, p95_ms): (Vec<f64>, Vec<f64>) = slowness(pairs)
        .into_iter()
        .zip(pairs)
        .filter_map(|(slow, pair)| Some((slow, pair.response.quantile_ms(quantile)?)))
        .unzip();
    median_interval_beside(&p95_ms, &slow)
}

/// How slow the machine was around each step at four fifths of R*: how long requests took in the steps at low load before and
/// after it, as logarithms against the others at their rate.
fn slowness(pairs: &[&VerificationPair]) -> Vec<f64> {
    let took = |pair: &&VerificationPair| mean(pair.low.seconds_ln_ms.iter().copied());
    let usual = SHARES.iter().enumerate().map(|(level, _)| {
        let alike = pairs.iter().filter(|pair| pair.low.level == level);
        mean(alike.map(took))
    });
    let usual: Vec<f64> = usual.collect();
    let before: Vec<f64> = pairs
        .iter()
        .map(|pair| took(pair) - usual[pair.low.level])
        .collect();
    let after = before.iter().skip(1).chain(before.last());
    before
        .iter()
        .zip(after)
        .map(|(before, after)| f64::midpoint(*before, *after))
        .collect()
}

/// The pairs that count. Both of a pair are left out where the host kept much during either, and where something else
/// disturbed the one at low load. How long requests took in the other does not matter to that.
fn kept(pairs: &[VerificationPair]) -> Vec<&VerificationPair> {
    let pairs: Vec<&VerificationPair> = pairs.iter().collect();
    undisturbed(&pairs, |pair| &pair.low, |pair| pair.stolen_share).1
}

/// What the steps in turns with the search say of R*, and those in turns with the steps at four fifths of it of the p95
/// there; `None` where too few of them were sound.
fn in_turns(
    claimed: Claimed<'_>,
    of_limit: &[LowLoadStep],
    of_p95: &BelowLimit,
    rate_hz: f64,
) -> Option<InTurns> {
    let (of_limit, _) = steady(of_limit, claimed.host.cores);
    // How fast the machine is changes from one phase to the next, and how much CPU a request saves at higher rates hardly.
    let all = claimed.seen.iter().chain(&of_limit).chain(&of_p95.seen);
    let host = known_from(claimed.host, all);
    let model = |seen: &[LowLoadStep]| Model::of(seen, host, &claimed.model.slo);
    let limit_hz: Interval = model(&of_limit)?.limit_hz();
    let below = model(&of_p95.seen)?;
    let p95_ms = below.p95_ms(rate_hz);
    let rates = of_limit.iter().chain(&of_p95.seen).map(|seen| seen.rate_hz);
    Some(InTurns {
        measured_up_to_hz: rates.fold(0.0, f64::max),
        speed_sd: Some(below.whole.twin.wander),
        limit_hz,
        p95_ms,
        measured_p95_interval_ms: of_p95.known_p95_ms,
    })
}
