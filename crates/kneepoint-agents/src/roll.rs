//! Who of the agents is heard, late or gone. Silence is told and decides nothing: an agent that is busy is not dead, and what
//! counts at the end is the data that came.

use crate::moments::{GONE, LATE};
use std::time::Duration;

/// What is known of an agent's presence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It was heard a moment ago.
    Here,
    /// It has been silent for a while.
    Late,
    /// It has been silent for so long that nobody waits for it.
    Gone,
    /// Its account has come.
    Done,
}

/// A change of presence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) agent: usize,
    pub(crate) now: Presence,
    /// How long it was silent.
    pub(crate) silent: Duration,
}

/// The agents of a run, by number.
#[derive(Debug)]
pub(crate) struct Roll {
    heard: Vec<Duration>,
    presence: Vec<Presence>,
}

impl Roll {
    /// So many agents, all of whom were heard now.
    pub(crate) fn new(agents: usize, now: Duration) -> Self {
        Self {
            heard: vec![now; agents],
            presence: vec![Presence::Here; agents],
        }
    }

    pub(crate) fn presence(&self, agent: usize) -> Presence {
        self.presence[agent]
    }

    /// An agent was heard. Tells when it had been away.
    pub(crate) fn heard(&mut self, agent: usize, now: Duration) -> Option<Change> {
        let silent = now.saturating_sub(self.heard[agent]);
        self.heard[agent] = now;
        let away = matches!(self.presence[agent], Presence::Late | Presence::Gone);
        away.then(|| self.becomes(agent, Presence::Here, silent))
    }

    /// An agent has handed over its account.
    pub(crate) fn done(&mut self, agent: usize) {
        self.presence[agent] = Presence::Done;
    }

    /// Looks at who has not been heard.
    pub(crate) fn look(&mut self, now: Duration) -> Vec<Change> {
        let mut changes = Vec::new();
        for agent in 0..self.heard.len() {
            let silent = now.saturating_sub(self.heard[agent]);
            let next = match self.presence[agent] {
                Presence::Here | Presence::Late if silent >= GONE => Presence::Gone,
                Presence::Here if silent >= LATE => Presence::Late,
                _ => continue,
            };
            changes.push(self.becomes(agent, next, silent));
        }
        changes
    }

    fn becomes(&mut self, agent: usize, now: Presence, silent: Duration) -> Change {
        self.presence[agent] = now;
        Change { agent, now, silent }
    }

    /// Whether anybody is still waited for.
    pub(crate) fn is_waiting(&self) -> bool {
        let awaited = |presence: &Presence| matches!(presence, Presence::Here | Presence::Late);
        self.presence.iter().any(awaited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(f64) -> Duration = Duration::from_secs_f64;

    fn told(changes: &[Change]) -> Vec<(usize, Presence)> {
        changes.iter().map(|c| (c.agent, c.now)).collect()
    }

    #[test]
    fn an_agent_is_late_then_gone_and_back_when_it_speaks() {
        let mut roll = Roll::new(2, S(10.0));
        assert_eq!(roll.look(S(11.4)), []);
        assert_eq!(roll.heard(1, S(11.4)), None);
        assert_eq!(told(&roll.look(S(11.6))), [(0, Presence::Late)]);
        assert_eq!(roll.look(S(12.0)), [], "it is told once");
        roll.done(1);
        assert_eq!(told(&roll.look(S(15.0))), [(0, Presence::Gone)]);
        assert!(!roll.is_waiting(), "nobody waits for who is gone, or done");
        let back = roll.heard(0, S(17.0)).expect("it is back");
        assert_eq!((back.now, back.silent), (Presence::Here, S(7.0)));
        assert!(roll.is_waiting());
        assert_eq!(roll.look(S(60.0)).len(), 1, "who is done is not missed");
    }
}
