//! How long no connection is tried after one failed.

/// Pause before the next connection after one was refused, or dropped unanswered: without it, a closed loop against a
/// dead server would do nothing but connect.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    pub(crate) until: u64,
    delay: u64,
}

impl Backoff {
    const SHORTEST_NS: u64 = 1_000_000;
    const LONGEST_NS: u64 = 50_000_000;

    pub(crate) fn refused(&mut self, now: u64) {
        self.delay = (self.delay * 2).clamp(Self::SHORTEST_NS, Self::LONGEST_NS);
        self.until = now + self.delay;
    }

    pub(crate) fn connected(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn holds(&self, now: u64) -> bool {
        now < self.until
    }
}
