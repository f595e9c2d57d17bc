//! When a stretch of load is hopeless.

/// When to end a hopeless stretch early (method.md, section 1: F > 30 % after 100 requests).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AbortRule {
    /// Largest violating share (late or failed) that is not hopeless.
    pub violating_share: f64,
    /// Requests of the window that must have ended before the rule may speak.
    pub after: u64,
}

impl Default for AbortRule {
    fn default() -> Self {
        Self {
            violating_share: 0.3,
            after: 100,
        }
    }
}
