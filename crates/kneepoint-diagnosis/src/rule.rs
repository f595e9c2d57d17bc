//! What a rule is: metadata, documentation and a pure check.

mod finding_builder;
pub(crate) mod prelude;

pub(crate) use finding_builder::FindingBuilder;

use crate::Evidence;
use kneepoint_model::{Finding, Layer, Metric, Stack};

/// Part of the limit from which on a finding is more than a note \[ours\]: what costs less cannot be told from noise by
/// an A/B of ordinary length, and binds nothing.
pub(crate) const LEAST_PART: f64 = 0.05;

/// The discriminating order of the catalogue (section 3): a root cause beats its symptoms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleStage {
    /// The generator, or what it asks for, spoils the measurement.
    Generator = 1,
    /// An error or a log line with exactly one meaning.
    Errors = 2,
    /// The kernel drops, runs out, throttles.
    Kernel = 3,
    /// Workers wait for a tier, a lock, a connection.
    Waits = 4,
    /// Workers run, on code that need not run.
    Code = 5,
    /// The number of workers.
    Pool = 6,
    /// Nothing is wrong: the machine is used up.
    Capacity = 7,
}

impl RuleStage {
    /// Position in the order of findings. Waits and code share one: neither is a symptom of the other, so
    /// their weights decide.
    #[must_use]
    pub fn rank(self) -> u8 {
        match self {
            Self::Code => Self::Waits as u8,
            other => other as u8,
        }
    }

    /// The name in documentation.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Generator => "generator",
            Self::Errors => "errors",
            Self::Kernel => "kernel",
            Self::Waits => "waits",
            Self::Code => "code",
            Self::Pool => "pool size",
            Self::Capacity => "capacity",
        }
    }
}

/// What kind of trouble a rule looks for (Gregg's USE method).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UseSignal {
    /// A resource is busy.
    Utilisation,
    /// Work queues for a resource.
    Saturation,
    /// Something fails or is plainly misconfigured.
    Error,
}

impl UseSignal {
    /// The name in documentation.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Utilisation => "utilisation",
            Self::Saturation => "saturation",
            Self::Error => "error",
        }
    }
}

/// Which stacks a rule holds for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppliesTo {
    /// Every stack.
    Any,
    /// Stacks in which one of the rule's layers is served by this program.
    Server(&'static str),
}

/// What `explain` prints: written for a person who has never heard of the matter.
#[derive(Debug, Clone, Copy)]
pub struct RuleDoc {
    /// What it is and why it costs.
    pub what_it_is: &'static str,
    /// How it shows from outside and in the numbers.
    pub how_it_shows: &'static str,
    /// Which experiment tells it from its look-alikes.
    pub how_it_is_confirmed: &'static str,
    /// The configuration to write, with an example.
    pub what_to_write: &'static str,
    /// Field reports, documentation and source code it rests on.
    pub references: &'static [&'static str],
}

/// One rule of the catalogue.
///
/// The weight of its finding is an honest share: the part of R* that the cause costs, from 0 to 1. Where the CPU binds it
/// is the part of the CPU time of a request at R* that the cause takes; where it does not, the part of the time that
/// busy workers spend on it, or of the rate that is lost. 0 says that the part is not known. What costs less than a
/// twentieth is merely noted, and so is what nobody knows the part of, unless it is an error or a limit that is seen
/// directly: `headline.rs` decides that for all rules.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The id in the catalogue: `OPC-01`.
    pub code: &'static str,
    /// The pattern's name, in kebab case; also the name of its file.
    pub name: &'static str,
    /// The version that brought it.
    pub since: &'static str,
    /// Where the cause can sit.
    pub layers: &'static [Layer],
    /// Its place in the discriminating order.
    pub stage: RuleStage,
    /// What kind of trouble it looks for.
    pub signal: UseSignal,
    /// Which stacks it holds for.
    pub applies_to: AppliesTo,
    /// Metrics without which it cannot judge. Those that only sharpen its verdict are not listed.
    pub requires: &'static [Metric],
    /// Codes of rules that explain this one's symptom: when one of them is at least suspected, this one is silent.
    pub yields_to: &'static [&'static str],
    /// What is wrong, as a short sentence.
    pub title: &'static str,
    /// The documentation.
    pub doc: RuleDoc,
    /// The check: a pure function of the evidence.
    pub check: fn(&Evidence) -> Option<Finding>,
}

impl Rule {
    /// Whether it holds for this kind of stack.
    #[must_use]
    pub fn applies(&self, stack: &Stack) -> bool {
        match self.applies_to {
            AppliesTo::Any => true,
            AppliesTo::Server(name) => self.layers.iter().any(|layer| {
                stack
                    .tier(*layer)
                    .is_some_and(|tier| tier.server.as_str() == name)
            }),
        }
    }

    /// Whether the stack has a tier where the rule's cause can sit. The generator is always there, and the application
    /// where PHP is.
    #[must_use]
    pub fn has_layer(&self, stack: &Stack) -> bool {
        self.layers.iter().any(|layer| match layer {
            Layer::Generator => true,
            Layer::App => stack.tier(Layer::Php).is_some(),
            tier => stack.tier(*tier).is_some(),
        })
    }

    /// The required metrics that no phase has a sample of.
    #[must_use]
    pub fn missing(&self, evidence: &Evidence) -> Vec<&'static str> {
        self.requires
            .iter()
            .filter(|metric| !evidence.has(**metric))
            .map(|metric| metric.name)
            .collect()
    }

    /// Whether it holds for the stack and has what it needs.
    #[must_use]
    pub fn can_judge(&self, evidence: &Evidence) -> bool {
        self.applies(&evidence.stack) && self.missing(evidence).is_empty()
    }

    /// Begins a finding of this rule at a layer, suspected unless said otherwise.
    pub(crate) fn finds(&self, layer: Layer, title: impl Into<String>) -> FindingBuilder {
        FindingBuilder::new(self, layer, title.into())
    }
}
