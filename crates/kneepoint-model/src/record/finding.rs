//! What the diagnosis says.

use crate::{Interval, Layer, Setting};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Said for completeness: true, but not what limits.
    Noted,
    /// The evidence fits.
    Suspected,
    /// An intervention moved the limit as predicted.
    Confirmed,
    /// Its remedy won an A/B.
    Proved,
}

impl Confidence {
    /// The word in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Noted => "noted",
            Self::Suspected => "suspected",
            Self::Confirmed => "confirmed",
            Self::Proved => "proved",
        }
    }
}

/// How [`Finding::refuted_by`] begins where it says when a setting does no harm, and not what an experiment would show.
pub const UNLESS: &str = "it does not matter when: ";

/// One thing that was seen, with the conditions it was seen under.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidenced {
    /// The number in words: `opcache.enable = 0`, `accept queue 12 of 511 on average`.
    pub what: String,
    /// Under which load: `at 42/s offered for 8 s`; empty for what is read from the configuration.
    pub conditions: String,
}

impl Evidenced {
    /// Whether it was read from the stack itself, so that no load had to show it.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.conditions.is_empty()
    }
}

/// What to do about a finding.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Remedy {
    /// What to do, in words a person can act on.
    pub text: String,
    /// The change as settings; empty when no setting of the stack can help.
    pub settings: Vec<Setting>,
}

/// How a comparison of two arms ended, as far as the second is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is better.
    Better,
    /// It is worse.
    Worse,
    /// The two differ by less than matters.
    Equivalent,
    /// It is shown to gain less than what is worth it, and not shown to be worse.
    #[serde(rename = "no better")]
    NoBetter,
    /// Neither was shown within the pairs there were.
    #[default]
    Inconclusive,
}

impl Verdict {
    /// The word in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Equivalent => "equivalent",
            Self::NoBetter => "no better",
            Self::Inconclusive => "inconclusive",
        }
    }

    /// Whether it says that the arms differ.
    #[must_use]
    pub fn is_difference(self) -> bool {
        matches!(self, Self::Better | Self::Worse)
    }

    /// Whether it says that the arms differ, or that they do not.
    #[must_use]
    pub fn is_decided(self) -> bool {
        self.is_difference() || self == Self::Equivalent
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The measured effect of a change.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Effect {
    /// What was compared, in words: `upstream.keepalive 0 -> 32`.
    pub change: String,
    /// The settings that were changed.
    pub settings: Vec<Setting>,
    /// What the ratio is of: `throughput at saturation`, `R*`.
    pub quantity: String,
    /// With the change over without it; 1 is no effect. 95 % interval. `None` where there are too few pairs to tell.
    pub ratio: Option<Interval>,
    /// Pairs of steps behind it.
    pub pairs: u32,
    /// The e-value against "no effect": at least 20 is evidence at the 5 % level at any time of looking.
    pub e_value: f64,
    /// What follows.
    pub verdict: Verdict,
    /// Smallest relative effect the comparison could have seen with 80 % power; `None` where there are too few pairs.
    pub smallest_visible: Option<f64>,
    /// The rate or concurrency at which both were measured.
    pub conditions: String,
    /// p of a sign-flip permutation test, looked at once at the end; `None` with too few pairs.
    #[serde(default)]
    pub permutation_p: Option<f64>,
    /// 95 % interval of the ratio by a bootstrap over pairs, looked at once at the end; `None` with too few pairs.
    #[serde(default)]
    pub bootstrap: Option<Interval>,
    /// Pairs that were void by the rules set before.
    #[serde(default)]
    pub void_pairs: u32,
    /// What each measure says by itself; empty in runs that were recorded when there was one only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measures: Vec<PairedMeasure>,
    /// Whether the CPU is what bound both arms, so that capacity follows from the CPU time of a request; `None` where that
    /// was not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_binds: Option<bool>,
}

/// Smallest visible effect from which on it is not told: of an effect that large the interval says all \[ours\].
const MOST_VISIBLE: f64 = 9.0;

impl Effect {
    /// Whether anything was measured for it, be it pairs that were void: not for a change that there was no time to try.
    #[must_use]
    pub fn was_measured(&self) -> bool {
        let has_pairs = self.pairs > 0 || self.void_pairs > 0;
        has_pairs || self.ratio.is_some() || !self.conditions.is_empty()
    }

    /// Smallest relative effect the comparison could have seen, where that is a number of some use: of too few pairs it is
    /// larger than any effect.
    #[must_use]
    pub fn visible(&self) -> Option<f64> {
        self.smallest_visible
            .filter(|least| (0.0..MOST_VISIBLE).contains(least))
    }
}

/// One measure of an effect: what was measured, and what its pairs say without the others.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PairedMeasure {
    /// `throughput at saturation`, `CPU time a request, both at once`.
    pub quantity: String,
    /// With the change over without it, as a ratio of capacities.
    pub ratio: f64,
    /// Pairs behind it.
    pub pairs: u32,
    /// Standard deviation of a pair, as ln; `None` with one.
    pub pair_sd: Option<f64>,
}

/// A rule's verdict with evidence and remedy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule's code: `OPC-01`.
    pub code: String,
    /// The configuration it was found at: `base`. Empty in records from before it was kept.
    #[serde(default)]
    pub arm: String,
    /// What is wrong, as a short sentence.
    pub title: String,
    /// Where it sits.
    pub layer: Layer,
    /// What was seen.
    pub seen: Vec<Evidenced>,
    /// What would refute it.
    pub refuted_by: String,
    /// What to do.
    pub remedy: Option<Remedy>,
    /// Expected gain in words, with its basis; empty when not known.
    pub expected_gain: String,
    /// How sure.
    pub confidence: Confidence,
    /// Estimated share of the limit this costs (0 to 1), to order findings of the same stage; 0 when not known.
    pub weight: f64,
    /// Where the rule comes from.
    pub source: String,
    /// The intervention or A/B that confirmed, proved or failed to confirm it.
    pub effects: Vec<Effect>,
}

impl Finding {
    /// Whether both tell of the same cause: one rule at one layer, whatever the configuration they were found at.
    #[must_use]
    pub fn is_same_cause(&self, other: &Self) -> bool {
        self.code == other.code && self.layer == other.layer
    }
}
