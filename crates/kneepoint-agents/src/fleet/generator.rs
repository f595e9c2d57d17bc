//! A fleet as whoever sends the loads of a run, one after the other.

use super::{COORDINATOR, Conduct, Fleet};
use crate::broker::Broker;
use crate::error::AgentsError;
use crate::messages::Introduction;
use kneepoint_load::{Generator, LoadError, LoadPlan, Progress};
use kneepoint_model::LoadPoint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How often a load is tried that some of its agents leave before it begins.
const TRIES: usize = 3;
/// How long agents have to let a load go that did not begin.
const LET_GO: Duration = Duration::from_millis(200);

/// A fleet as one generator. Who of it is there is asked before each load: one that was lost in a load is missing from the
/// next, and takes part again once it answers.
pub struct FleetGenerator {
    tell: Box<dyn Fn(&str) + Send + Sync>,
    ceiling_hz: f64,
    /// Whether a load was sent already.
    sent: AtomicBool,
    state: Mutex<State>,
}

struct State {
    fleet: Fleet,
    /// A second connection, for a load beside another.
    beside: Option<Broker>,
    /// Those who did not answer last time, by name.
    away: Vec<String>,
    /// Whether the halves of the fleet are to change sides in the next pair of loads.
    swap: bool,
}

impl FleetGenerator {
    /// `tell` hears what happens to agents, a line each.
    #[must_use]
    pub fn new(fleet: Fleet, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            tell: Box::new(tell),
            sent: AtomicBool::new(false),
            ceiling_hz: fleet.members.iter().map(|here| here.ceiling_hz).sum(),
            state: Mutex::new(State {
                fleet,
                beside: None,
                away: Vec::new(),
                swap: false,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An agent may leave after it was asked who is there. Nothing was sent then, and the others have let the load go.
    fn go_on_without(&self, error: AgentsError, tries: &mut usize) -> Result<(), AgentsError> {
        *tries += 1;
        if !matches!(error, AgentsError::Gone { .. }) || *tries == TRIES {
            return Err(error);
        }
        (self.tell)(&format!("{error}; the load begins anew"));
        thread::sleep(LET_GO);
        Ok(())
    }

    /// A load by each half of the fleet, in the same seconds.
    fn both(
        &self,
        state: &mut State,
        [one, other]: [Vec<Introduction>; 2],
        plans: &[LoadPlan; 2],
        progress: &(dyn Fn(&Progress) + Sync),
        stop: &AtomicBool,
    ) -> Result<[LoadPoint; 2], AgentsError> {
        state.swap = !state.swap;
        let (one, other) = if state.swap {
            (one, other)
        } else {
            (other, one)
        };
        let State { fleet, beside, .. } = state;
        let beside = match beside {
            Some(beside) => beside,
            None => beside.insert(Broker::connect(&fleet.access, COORDINATOR)?),
        };
        thread::scope(|scope| {
            let second = scope.spawn(|| {
                let beside: &mut Broker = beside;
                let conduct = Conduct::new(beside, &other, &plans[1], &self.tell);
                conduct.one_of_many().run(&|_| {}, stop)
            });
            let first = Conduct::new(&fleet.broker, &one, &plans[0], &self.tell)
                .one_of_many()
                .run(&|now| progress(now), stop);
            let second = second
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok([first?, second?])
        })
    }
}

impl Generator for FleetGenerator {
    fn run(
        &self,
        plan: &LoadPlan,
        progress: &(dyn Fn(&Progress) + Sync),
        stop: &AtomicBool,
    ) -> Result<LoadPoint, LoadError> {
        let mut state = self.state();
        let mut tries = 0;
        loop {
            let there = state.present(&self.tell)?;
            let conduct = Conduct::new(&state.fleet.broker, &there, plan, &self.tell);
            let conduct = if self.sent.load(Ordering::Relaxed) {
                conduct.one_of_many()
            } else {
                conduct
            };
            match conduct.run(&|now| progress(now), stop) {
                Err(error) if there.len() > 1 => self.go_on_without(error, &mut tries)?,
                other => {
                    self.sent.store(true, Ordering::Relaxed);
                    return Ok(other?);
                }
            }
        }
    }

    /// Each half of the fleet sends one of them; in the next pair they change sides, so that no configuration is always
    /// loaded by the same.
    fn run_both(
        &self,
        plans: &[LoadPlan; 2],
        progress: &(dyn Fn(&Progress) + Sync),
        stop: &AtomicBool,
    ) -> Result<[LoadPoint; 2], LoadError> {
        let mut state = self.state();
        let mut tries = 0;
        loop {
            let there = state.present(&self.tell)?;
            let others = there.len() > 2;
            let halves = halves(there, plans[0].threads)?;
            match self.both(&mut state, halves, plans, progress, stop) {
                Err(error) if others => self.go_on_without(error, &mut tries)?,
                other => return Ok(other?),
            }
        }
    }

    fn ceiling_hz(&self) -> Option<f64> {
        Some(self.ceiling_hz)
    }
}

impl State {
    /// Who sends the next load; whoever went away or came back since the last is told.
    fn present(&mut self, tell: &dyn Fn(&str)) -> Result<Vec<Introduction>, AgentsError> {
        let there = self.fleet.present()?;
        let names = self.fleet.members.iter().map(|member| &member.name);
        let away: Vec<String> = names
            .filter(|name| there.iter().all(|here| here.name != **name))
            .cloned()
            .collect();
        for name in away.iter().filter(|name| !self.away.contains(name)) {
            tell(&format!(
                "agent {name} does not answer or has something else to do; the next load goes without it"
            ));
        }
        for name in self.away.iter().filter(|name| !away.contains(name)) {
            tell(&format!("agent {name} takes part again"));
        }
        self.away = away;
        if there.is_empty() {
            return Err(AgentsError::Agents {
                problem: "none of them answers any more, or all drive another run; wait for its end, or look at what they say where they \
                          run"
                    .into(),
            });
        }
        Ok(there)
    }
}

/// Two groups of about the same weight.
fn halves(
    mut there: Vec<Introduction>,
    threads: usize,
) -> Result<[Vec<Introduction>; 2], AgentsError> {
    if there.len() < 2 {
        return Err(AgentsError::Agents {
            problem: "two configurations are to be loaded in the same seconds, which takes two agents, and one is there; start \
                      another with `kneepoint agent --nats URL`"
                .into(),
        });
    }
    there.sort_by(|a, b| b.weight(threads).total_cmp(&a.weight(threads)));
    let mut halves = [Vec::new(), Vec::new()];
    for (nth, here) in there.into_iter().enumerate() {
        // The heaviest, then two to the other side, then two here, and so on.
        halves[nth.div_ceil(2) % 2].push(here);
    }
    Ok(halves)
}

/// What generators cannot do together, for whoever asked for a load.
impl From<AgentsError> for LoadError {
    fn from(error: AgentsError) -> Self {
        match error {
            AgentsError::Load(error) => error,
            other => Self::Generators {
                problem: other.to_string(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str, ceiling_hz: f64) -> Introduction {
        Introduction {
            name: name.into(),
            instance: "1".into(),
            tag: None,
            version: "1".into(),
            cores: 1,
            ceiling_hz,
            max_rate_hz: None,
            busy: false,
        }
    }

    #[test]
    fn halves_weigh_about_the_same() {
        let ceilings = [("a", 100.0), ("b", 900.0), ("c", 500.0), ("d", 400.0)];
        let there = ceilings
            .map(|(name, ceiling)| agent(name, ceiling))
            .to_vec();
        let names = halves(there, 1).expect("two halves").map(|half| {
            let names = half.iter().map(|here| here.name.as_str());
            names.collect::<Vec<_>>().join(" ")
        });
        assert_eq!(names, ["b a", "c d"]);
        let said = halves(vec![agent("a", 1.0)], 1).expect_err("one is no pair");
        assert!(said.to_string().contains("takes two agents"), "{said}");
    }
}
