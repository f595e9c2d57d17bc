//! What a source is: metadata, and probes that look at one running tier.

use kneepoint_model::{LogKind, Metric, RunningTier};
use std::time::Duration;

/// One kind of telemetry: what it reads, what it needs, what it costs.
#[derive(Debug)]
pub struct Source {
    /// Short name, the label of `source.up`: `accept-queue`.
    pub name: &'static str,
    /// One line on what it reads.
    pub about: &'static str,
    /// What must be there for it to work.
    pub requirements: &'static str,
    /// What one sample costs, and whom.
    pub overhead: &'static str,
    /// Time between two samples.
    pub cadence: Duration,
    /// The metrics it fills.
    pub metrics: &'static [Metric],
    pub(crate) lane: Lane,
    pub(crate) open: Open,
}

/// On which thread a source is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Shared by all fast sources. Never waits.
    Fast,
    /// Shared by all slow sources that never wait.
    Trend,
    /// A thread of its own within the tier's network namespace: it waits for an answer.
    Own,
}

/// How the probes of a source are made. Making one touches nothing: what can fail fails when sampling.
#[derive(Debug)]
pub(crate) enum Open {
    /// One probe for the whole machine.
    Machine(fn() -> Box<dyn Probe>),
    /// One for each tier it applies to.
    Tier(fn(&RunningTier) -> Option<Box<dyn Probe>>),
}

/// Looks at one tier again and again.
pub(crate) trait Probe: Send {
    /// Takes one sample.
    ///
    /// # Errors
    /// The source did not answer. The next sample tries again; what is in the sink so far is kept.
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure>;
}

/// Why a source did not answer: what failed, on what, what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Failure(pub(crate) String);

impl Failure {
    /// A failure of a named operation on a named thing.
    pub(crate) fn on(
        what: &str,
        thing: impl std::fmt::Display,
        why: impl std::fmt::Display,
    ) -> Self {
        Self(format!("{what} `{thing}`: {why}"))
    }
}

/// One reading of a sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reading {
    /// A value of a series.
    One(Metric, String, f64),
    /// The values of all labels of a metric: a label that is missing is zero.
    Family(Metric, Vec<(String, f64)>),
    /// Lines of a log.
    Log(LogKind, u64, String),
    /// Something the reader of the numbers must know though the source works.
    Note(String),
}

/// Where a probe puts what it read.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) readings: Vec<Reading>,
}

impl Sink {
    /// A value of a metric without label.
    pub(crate) fn push(&mut self, metric: Metric, value: f64) {
        self.labelled(metric, "", value);
    }

    /// A value of a metric with a label.
    pub(crate) fn labelled(&mut self, metric: Metric, label: &str, value: f64) {
        self.readings
            .push(Reading::One(metric, label.to_owned(), value));
    }

    /// All labels of a metric that are not zero now.
    pub(crate) fn family(&mut self, metric: Metric, values: Vec<(String, f64)>) {
        self.readings.push(Reading::Family(metric, values));
    }

    /// Lines of one meaning, and the first of them.
    pub(crate) fn log(&mut self, kind: LogKind, count: u64, example: String) {
        self.readings.push(Reading::Log(kind, count, example));
    }

    /// A remark on the quality of what the source reads.
    pub(crate) fn note(&mut self, text: String) {
        self.readings.push(Reading::Note(text));
    }
}

#[cfg(test)]
impl Sink {
    /// The value of a metric with a label, for tests.
    pub(crate) fn value(&self, metric: Metric, label: &str) -> Option<f64> {
        self.readings.iter().find_map(|reading| match reading {
            Reading::One(m, l, value) if *m == metric && l == label => Some(*value),
            _ => None,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use kneepoint_model::{CgroupPaths, Layer, RunningTier, ServerKind};

    /// A tier of PHP of which only the first process is known.
    pub(crate) fn tier_without_doors(pid: u32) -> RunningTier {
        RunningTier {
            layer: Layer::Php,
            server: ServerKind::new("fpm"),
            pid,
            netns: None,
            cgroup: CgroupPaths::default(),
            listen: Vec::new(),
            peers: Vec::new(),
            doubles: Vec::new(),
            jobs: Vec::new(),
            endpoints: Vec::new(),
            logs: Vec::new(),
            workers: None,
        }
    }
}
