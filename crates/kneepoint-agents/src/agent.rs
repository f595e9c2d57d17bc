//! The agent: waits for a coordinator, drives a share, hands over what it measured.

mod duty;

use crate::broker::{Access, Broker, Incoming, Letter};
use crate::consent::Permit;
use crate::error::AgentsError;
use crate::messages::{
    Introduction, Message, Part, Unreadable, WHO, from_agent, is_name, read, to_agent, to_all,
};
use crate::moments::{ENDING, LOOK};
use duty::Duty;
use kneepoint_load::Owned;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the generator's ceiling is measured.
const CEILING: Duration = Duration::from_secs(1);

/// What an agent is started with.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentOptions {
    /// The broker.
    pub access: Access,
    /// Its name: 1 to 64 letters, digits, `-` and `_`, and no other agent's.
    pub name: String,
    /// What its operator says of it.
    pub tag: Option<String>,
    /// Most requests a second that it sends.
    pub max_rate_hz: Option<f64>,
    /// Hosts, addresses and networks (`10.0.0.0/24`) that the operator says are theirs: loaded without a consent of their own.
    pub i_own: Vec<Owned>,
}

/// Serves coordinators, one at a time, until `stop`. `tell` hears what goes on, a line each.
///
/// # Errors
/// It cannot begin: its name, the broker, or this machine's generator is not fit.
pub fn serve(
    options: &AgentOptions,
    tell: &dyn Fn(&str),
    stop: &AtomicBool,
) -> Result<(), AgentsError> {
    if !is_name(&options.name) {
        return Err(AgentsError::Agents {
            problem: format!(
                "the name {:?} does not fit; use 1 to 64 letters, digits, - and _",
                options.name
            ),
        });
    }
    let broker = Broker::connect(&options.access, &options.name)?;
    // Those who are there answer while the ceiling is measured.
    broker.listen(&broker.inbox);
    let _ = broker.ask(WHO, &broker.inbox, &Message::Who);
    let ceiling_hz = kneepoint_load::ceiling(1, None, CEILING)?;
    if let Some(other) = namesake(&broker, &options.name) {
        return Err(AgentsError::Agents {
            problem: format!(
                "another agent at this broker is called {} already ({other}); start this one with a name of its own (--name)",
                options.name
            ),
        });
    }
    broker.leave(&broker.inbox);
    let agent = Agent {
        permit: Permit {
            max_rate_hz: options.max_rate_hz,
            i_own: options.i_own.clone(),
            from_here: broker.is_local,
        },
        introduction: Introduction {
            name: options.name.clone(),
            instance: format!("{:x}", RandomState::new().hash_one(&options.name)),
            tag: options.tag.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cores: std::thread::available_parallelism().map_or(1, Into::into),
            ceiling_hz,
            max_rate_hz: options.max_rate_hz,
            busy: false,
        },
        broker,
        tell,
        duty: None,
    };
    agent.run(stop);
    Ok(())
}

/// Another agent of this name, if one has answered: what it says of itself.
fn namesake(broker: &Broker, name: &str) -> Option<String> {
    // What has come by now lies ready.
    while let Some(incoming) = broker.next(Duration::ZERO) {
        if let Incoming::Message(letter) = incoming
            && let Ok(Message::Here(here)) = read(&letter.bytes)
            && let Ok(here) = here.checked()
            && here.name == name
        {
            let tag = here.tag.map_or_else(String::new, |tag| format!(", {tag}"));
            return Some(format!("{} cores{tag}", here.cores));
        }
    }
    None
}

/// A connected agent.
struct Agent<'t> {
    broker: Broker,
    introduction: Introduction,
    permit: Permit,
    tell: &'t dyn Fn(&str),
    duty: Option<Duty>,
}

impl Agent<'_> {
    fn run(mut self, stop: &AtomicBool) {
        self.broker.listen(WHO);
        self.broker.listen(&self.hears());
        (self.tell)(&format!(
            "agent {} waits for a load (ceiling {:.0}/s a thread)",
            self.introduction.name, self.introduction.ceiling_hz
        ));
        while !stop.load(Ordering::Relaxed) {
            self.turn();
        }
        (self.tell)("told to stop by a signal");
        if let Some(duty) = &mut self.duty {
            duty.end("stopped by its operator");
        }
        // What is under way ends within a timeout, and its account is still handed over.
        let until = Instant::now() + ENDING;
        while self.duty.as_ref().is_some_and(|duty| !duty.has_said_all()) {
            if Instant::now() >= until {
                (self.tell)(
                    "requests under way have not ended in time; what they came to is not handed over",
                );
                break;
            }
            self.turn();
        }
    }

    /// Where this process is spoken to.
    fn hears(&self) -> String {
        to_agent(&self.introduction.name, &self.introduction.instance)
    }

    fn turn(&mut self) {
        match self.broker.next(LOOK) {
            Some(Incoming::Message(letter)) => self.take(&letter),
            Some(Incoming::Told(words) | Incoming::Denied(words)) => (self.tell)(&words),
            None => {}
        }
        let Some(duty) = &mut self.duty else {
            return;
        };
        duty.turn(self.tell);
        if duty.is_over() {
            self.broker.leave(&duty.hears);
            self.duty = None;
        }
    }

    fn take(&mut self, letter: &Letter) {
        let message = match read(&letter.bytes) {
            Ok(message) => message,
            Err(unreadable) => return self.refuse_unreadable(letter, &unreadable),
        };
        match message {
            Message::Who => self.introduce(letter),
            Message::Prepare { run, part } => self.prepare(letter, run, *part),
            message => {
                let own = self.hears();
                if let Some(duty) = &mut self.duty
                    && (letter.subject == duty.hears || letter.subject == own)
                {
                    duty.hear(message, letter.came_ns);
                }
            }
        }
    }

    fn introduce(&self, letter: &Letter) {
        if let Some(there) = &letter.answer_to {
            let here = Introduction {
                busy: self.is_busy(),
                ..self.introduction.clone()
            };
            self.broker.say(there, &Message::Here(here));
        }
    }

    /// Whoever has handed over its account only waits to be let go, which may come a moment after the next question.
    fn is_busy(&self) -> bool {
        self.duty.as_ref().is_some_and(|duty| !duty.has_said_all())
    }

    /// Whoever speaks another version hears so, where he waits for an answer.
    fn refuse_unreadable(&self, letter: &Letter, unreadable: &Unreadable) {
        let because = unreadable.told();
        (self.tell)(&format!("refused: {because}"));
        if let Some(there) = &letter.answer_to {
            self.broker.say(there, &Message::Refused { because });
        }
    }

    fn prepare(&mut self, letter: &Letter, run: String, part: Part) {
        let refuse = |because: String| {
            (self.tell)(&format!("refused: {because}"));
            if let Some(there) = &letter.answer_to {
                self.broker.say(there, &Message::Refused { because });
            }
        };
        if !is_name(&run) {
            return refuse("the run has no fit name".into());
        }
        if self.is_busy() {
            return refuse(
                "it drives another load; wait for its end, or ask for other agents".into(),
            );
        }
        let plan = match part.plan(self.introduction.ceiling_hz) {
            Ok(plan) => plan,
            Err(because) => return refuse(because),
        };
        if let Some(over) = self.duty.take() {
            self.broker.leave(&over.hears);
        }
        let hears = to_all(&run);
        self.broker.listen(&hears);
        let says = from_agent(&run, &self.introduction.name);
        let duty = Duty::begin(plan, self.permit.clone(), hears, says, self.broker.mouth());
        match duty {
            Ok(duty) => self.duty = Some(duty),
            Err(error) => refuse(format!("it cannot start a thread: {error}")),
        }
    }
}
