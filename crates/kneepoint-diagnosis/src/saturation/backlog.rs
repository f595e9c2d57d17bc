//! When a full listen queue is a cause and when it is a symptom, for Unix and TCP listeners alike.

use crate::Evidence;
use crate::advice::Advice;
use crate::evidence::Phase;
use kneepoint_model::{Layer, Remedy, metric};

/// FPM's own default, the least worth writing (catalogue FPM-07).
const SANE: f64 = 511.0;
/// `net.core.somaxconn` of kernels since 5.4.
const DEFAULT_SOMAXCONN: f64 = 4096.0;
/// A queue this short cannot take an ordinary burst \[ours\]: half of what kernels before 5.4 allowed at most.
const TINY: f64 = 64.0;

/// The queue before PHP that overflowed.
pub(crate) struct Overflow {
    /// Its effective limit.
    pub(crate) limit: f64,
    /// Requests the pool takes out of it per second.
    pub(crate) hz: f64,
    /// How long the last of a full queue waits, in seconds.
    pub(crate) full_wait_s: f64,
    /// Whether the queue itself is too short, rather than filled by workers that are too slow.
    pub(crate) too_short: bool,
}

impl Overflow {
    /// Judges an overflow seen in `phase`. A queue that holds more than the SLO lets a request wait is long enough:
    /// a longer one would turn errors into responses that are too late. And above the limit every queue fills.
    pub(crate) fn judge(evidence: &Evidence, phase: &Phase, below_the_limit: bool) -> Self {
        let limit = queue_limit(evidence, phase);
        let hz = phase.pool_hz().max(f64::MIN_POSITIVE);
        let full_wait_s = limit / hz;
        let within_slo = full_wait_s < evidence.slo.response_time.as_secs_f64();
        Self {
            limit,
            hz,
            full_wait_s,
            too_short: within_slo && (below_the_limit || limit < TINY),
        }
    }

    /// A queue of twice what the SLO lets a request wait, in the listener and in the kernel.
    pub(crate) fn remedy(&self, evidence: &Evidence) -> Remedy {
        if !self.too_short {
            let text = "Leave the backlog: it already holds more requests than can be answered in time. Find out why \
                        workers take them so slowly.";
            return Advice::new(evidence, text).build();
        }
        let wanted = 2.0 * self.hz * evidence.slo.response_time.as_secs_f64();
        let power = wanted.max(1.0).log2().ceil().exp2();
        let backlog = if wanted > SANE { power } else { SANE };
        let text = format!(
            "Raise listen.backlog of PHP to {backlog:.0}; net.core.somaxconn of its host must be at least as high, \
             since the smaller of the two counts. PHP must be restarted for it."
        );
        let mut advice = Advice::new(evidence, text).set(Layer::Php, "listen.backlog", backlog);
        let most = evidence.stack.number(Layer::Php, "net.core.somaxconn");
        let cut = self.limit < configured(evidence);
        if cut || most.is_some_and(|most| most < backlog) {
            advice = advice.set(
                Layer::Php,
                "net.core.somaxconn",
                backlog.max(DEFAULT_SOMAXCONN),
            );
        }
        advice.build()
    }
}

fn configured(evidence: &Evidence) -> f64 {
    evidence
        .stack
        .number(Layer::Php, "listen.backlog")
        .filter(|backlog| *backlog > 0.0)
        .unwrap_or(SANE)
}

fn queue_limit(evidence: &Evidence, phase: &Phase) -> f64 {
    let most = evidence
        .stack
        .number(Layer::Php, "net.core.somaxconn")
        .unwrap_or(f64::INFINITY);
    phase
        .largest(Layer::Php, metric::QUEUE_LIMIT)
        .filter(|limit| *limit > 0.0)
        .unwrap_or(configured(evidence).min(most))
}
