//! The coordinator: finds agents, divides a load among them, and puts together what they measured.

mod conduct;
mod generator;
mod going;
mod heart;

use crate::broker::{Access, Broker, Incoming};
use crate::error::AgentsError;
use crate::messages::{Introduction, Message, Unreadable, WHO, read};
use crate::moments::{GATHERING, LOOK, SETTLING};
use conduct::Conduct;
pub use generator::FleetGenerator;
use kneepoint_load::{LoadPlan, Progress};
use kneepoint_model::LoadPoint;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What a coordinator is called at the broker.
const COORDINATOR: &str = "coordinator";

/// Which agents are to drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// All that answer.
    All,
    /// So many of those who answer first and have nothing to do.
    Some(usize),
}

/// Agents that drive loads together.
#[derive(Debug)]
pub struct Fleet {
    access: Access,
    broker: Broker,
    members: Vec<Introduction>,
}

impl Fleet {
    /// Connects to the broker and asks who is there.
    ///
    /// # Errors
    /// The broker cannot be used, or too few agents answer that have nothing to do.
    pub fn gather(access: &Access, wanted: Wanted) -> Result<Self, AgentsError> {
        let broker = Broker::connect(access, COORDINATOR)?;
        broker.listen(&broker.inbox);
        let (there, refused) = who(&broker, SETTLING, |there| is_enough(there, wanted))?;
        let members =
            chosen(there, wanted, refused).map_err(|problem| AgentsError::Agents { problem })?;
        Ok(Self {
            access: access.clone(),
            broker,
            members,
        })
    }

    /// The agents, by name.
    #[must_use]
    pub fn members(&self) -> &[Introduction] {
        &self.members
    }

    /// Has the agents drive a plan, as [`kneepoint_load::Engine::run`] would alone. Threads are each agent's own, connections are
    /// divided. `tell` hears what happens to agents, a line each.
    ///
    /// # Errors
    /// An agent refuses or is not ready in time: nothing is sent then. What happens to agents later is in the load point.
    pub fn run(
        &self,
        plan: &LoadPlan,
        tell: &dyn Fn(&str),
        progress: &dyn Fn(&Progress),
        stop: &AtomicBool,
    ) -> Result<LoadPoint, AgentsError> {
        Conduct::new(&self.broker, &self.members, plan, tell).run(progress, stop)
    }

    /// Those of the agents who are there now and have nothing to do. One that was started anew takes the place of the one
    /// before it, and no second of its name that of one that is still there.
    fn present(&self) -> Result<Vec<Introduction>, AgentsError> {
        let same = |there: &[Introduction], member: &Introduction| {
            let mut same = there.iter();
            let same = same.find(|it| it.name == member.name && it.instance == member.instance);
            same.cloned()
        };
        let all = |there: &[Introduction]| {
            let mut members = self.members.iter();
            members.all(|it| same(there, it).is_some_and(|it| !it.busy))
        };
        let (there, _) = who(&self.broker, Duration::ZERO, all)?;
        let named = |name: &str| {
            let mut others = there.iter().filter(|it| it.name == name);
            let only = others.next();
            only.filter(|_| others.next().is_none()).cloned()
        };
        let present = self.members.iter();
        let present = present.filter_map(|it| same(&there, it).or_else(|| named(&it.name)));
        Ok(present.filter(|it| !it.busy).collect())
    }
}

/// Asks who is there, until that is enough and a moment more, or the time for it is over; and why somebody's answer could not
/// be read, or the broker let nobody ask.
fn who(
    broker: &Broker,
    settling: Duration,
    enough: impl Fn(&[Introduction]) -> bool,
) -> Result<(Vec<Introduction>, Option<String>), AgentsError> {
    broker
        .ask(WHO, &broker.inbox, &Message::Who)
        .map_err(|unreadable| AgentsError::Agents {
            problem: unreadable.told(),
        })?;
    let (mut there, mut refused) = (Vec::<Introduction>::new(), None);
    let mut until = Instant::now() + GATHERING;
    let mut is_enough = false;
    while Instant::now() < until {
        if !is_enough && enough(&there) {
            is_enough = true;
            until = until.min(Instant::now() + settling);
            continue;
        }
        let letter = match broker.next(LOOK) {
            Some(Incoming::Message(letter)) if letter.subject == broker.inbox => letter,
            Some(Incoming::Denied(words)) => {
                refused = Some(words);
                continue;
            }
            _ => continue,
        };
        match read(&letter.bytes) {
            Ok(Message::Here(here)) => match here.checked() {
                Ok(here) => there.push(here),
                Err(because) => refused = Some(because),
            },
            Ok(Message::Refused { because }) => refused = Some(because),
            Ok(_) => {}
            Err(Unreadable::Nobody) => break,
            Err(unreadable) => refused = Some(unreadable.told()),
        }
    }
    Ok((there, refused))
}

fn is_enough(there: &[Introduction], wanted: Wanted) -> bool {
    match wanted {
        Wanted::All => false,
        Wanted::Some(wanted) => there.iter().filter(|here| !here.busy).count() >= wanted,
    }
}

/// Those of the agents that are there who are to drive.
fn chosen(
    mut there: Vec<Introduction>,
    wanted: Wanted,
    refused: Option<String>,
) -> Result<Vec<Introduction>, String> {
    there.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = there.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(format!(
            "two of them are called {}; start each with a name of its own (--name)",
            pair[0].name
        ));
    }
    let all = there.len();
    there.retain(|here| !here.busy);
    let free = there.len();
    let least = match wanted {
        Wanted::All => 1,
        Wanted::Some(wanted) => wanted,
    };
    if free < least {
        let why = refused.map_or_else(String::new, |because| format!(" ({because})"));
        let instead = if all >= least {
            "wait for the end of the run that others drive, or end it"
        } else {
            "start more with `kneepoint agent --nats URL`"
        };
        return Err(match all - free {
            0 => format!("{all} answered{why}, and {least} are wanted; {instead}"),
            busy if free == 0 => format!(
                "{all} answered{why}, and {} another run; {least} are wanted; {}",
                if busy == 1 {
                    "it drives"
                } else {
                    "all of them drive"
                },
                instead.replace("others drive", "they drive")
            ),
            busy => format!(
                "{all} answered{why}, {busy} of them in another run, and {least} are wanted; {instead}"
            ),
        });
    }
    if let Wanted::Some(wanted) = wanted {
        // Those who may and can do most.
        there.sort_by(|a, b| b.weight(1).total_cmp(&a.weight(1)));
        there.truncate(wanted);
        there.sort_by(|a, b| a.name.cmp(&b.name));
    }
    Ok(there)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str, busy: bool) -> Introduction {
        Introduction {
            name: name.into(),
            instance: "1".into(),
            tag: None,
            version: "1".into(),
            cores: 2,
            ceiling_hz: 1000.0,
            max_rate_hz: None,
            busy,
        }
    }

    fn names(there: &[Introduction]) -> Vec<&str> {
        there.iter().map(|here| here.name.as_str()).collect()
    }

    #[test]
    fn those_who_have_nothing_to_do_are_chosen_by_name() {
        let there = || vec![agent("c", false), agent("a", true), agent("b", false)];
        let all = chosen(there(), Wanted::All, None).expect("two");
        assert_eq!(names(&all), ["b", "c"]);
        let one = chosen(there(), Wanted::Some(1), None).expect("one");
        assert_eq!(names(&one), ["b"]);
        let said = chosen(there(), Wanted::Some(3), None).expect_err("too few");
        assert!(
            said.contains("3 answered, 1 of them in another run, and 3 are wanted; wait"),
            "{said}"
        );
        let busy = vec![agent("a", true), agent("b", true)];
        let said = chosen(busy, Wanted::All, None).expect_err("all are busy");
        assert!(
            said.contains("2 answered, and all of them drive another run"),
            "{said}"
        );
        assert!(
            said.contains("wait for the end") && !said.contains("start more"),
            "{said}"
        );
        let said = chosen(Vec::new(), Wanted::All, Some("version 2".into())).expect_err("nobody");
        assert!(said.contains("(version 2)"), "{said}");
    }

    #[test]
    fn those_who_may_do_most_are_chosen() {
        let capped = |name: &str, cap: f64| Introduction {
            max_rate_hz: Some(cap),
            ..agent(name, false)
        };
        let there = vec![capped("a", 50.0), capped("b", 100.0), capped("c", 70.0)];
        let two = chosen(there, Wanted::Some(2), None).expect("two");
        assert_eq!(names(&two), ["b", "c"]);
    }

    #[test]
    fn two_of_one_name_would_drive_a_share_twice() {
        let there = vec![agent("a", false), agent("a", false)];
        let said = chosen(there, Wanted::All, None).expect_err("twice");
        assert!(said.contains("--name"), "{said}");
    }
}
