//! What ends a load early, judged from the seconds it has completed.

use kneepoint_model::autostop::Observed;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A condition under which a load does not go on.
pub trait StopRule: Send {
    /// Takes the next second of the load, one after the other from the first, each once its every request has ended.
    /// That is up to a timeout after the second itself, and the busy connections are those of then. A sentence ends
    /// the load and says why.
    ///
    /// Called from the thread that called [`crate::Engine::run`], which does not send.
    fn second(&mut self, observed: &Observed<'_>) -> Option<String>;
}

impl<F: FnMut(&Observed<'_>) -> Option<String> + Send> StopRule for F {
    fn second(&mut self, observed: &Observed<'_>) -> Option<String> {
        self(observed)
    }
}

/// A stop rule as a plan carries it. Copies of a plan share one rule with what it has seen: give each run its own.
#[derive(Clone)]
pub struct StopWhen(Arc<Mutex<dyn StopRule>>);

impl StopWhen {
    /// Ends a load when this rule speaks.
    #[must_use]
    pub fn new(rule: impl StopRule + 'static) -> Self {
        Self(Arc::new(Mutex::new(rule)))
    }

    /// The same, and this rule beside it.
    #[must_use]
    pub fn or(self, mut other: impl StopRule + 'static) -> Self {
        Self::new(move |observed: &Observed<'_>| {
            // Both see every second.
            let (first, second) = (self.second(observed), other.second(observed));
            first.or(second)
        })
    }

    /// Has the rule look at the next second. The engine asks by itself; who puts several generators together asks here.
    #[must_use]
    pub fn second(&self, observed: &Observed<'_>) -> Option<String> {
        let mut rule = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rule.second(observed)
    }
}

impl fmt::Debug for StopWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StopWhen(..)")
    }
}

/// The same rule, not an equal one: what a rule will say cannot be compared.
impl PartialEq for StopWhen {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
