//! What agents and their coordinator say to one another (docs/agents.md, section 3).

use kneepoint_load::{LoadPlan, Mode, Share, Target};
use kneepoint_model::{FirstArrival, LatencyHistogram, LoadPoint, Second, Slo, Workload};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The version of these messages. Both sides refuse another.
pub(crate) const VERSION: u32 = 1;
/// Longest message that is sent or read: NATS takes 1 MiB.
pub(crate) const LARGEST: usize = 900 << 10;
/// Longest name of an agent, and of a run.
const LONGEST_NAME: usize = 64;

/// Where everybody is asked who is there.
pub(crate) const WHO: &str = "kneepoint.who";

/// Where one agent is spoken to.
pub(crate) fn to_agent(name: &str) -> String {
    format!("kneepoint.agent.{name}")
}

/// Where all agents of a run are spoken to.
pub(crate) fn to_all(run: &str) -> String {
    format!("kneepoint.run.{run}.all")
}

/// Where an agent speaks to the coordinator of a run.
pub(crate) fn from_agent(run: &str, name: &str) -> String {
    format!("kneepoint.run.{run}.from.{name}")
}

/// Whether a text can be a name: it becomes part of a subject.
pub(crate) fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=LONGEST_NAME).contains(&text.len()) && text.bytes().all(fits)
}

/// How an agent introduces itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Introduction {
    /// Its name, which no other has.
    pub name: String,
    /// What its operator says of it: a place, a network.
    pub tag: Option<String>,
    /// The program's version.
    pub version: String,
    /// Cores it may use.
    pub cores: usize,
    /// Requests a second that it reached against a null server, on one thread.
    pub ceiling_hz: f64,
    /// What its operator lets it send, per second.
    pub max_rate_hz: Option<f64>,
    /// Whether it drives a load already.
    pub busy: bool,
}

impl Introduction {
    /// What it can be asked for with so many threads and still be believed: a third of its ceiling, and no more than it
    /// may.
    pub(crate) fn weight(&self, threads: usize) -> f64 {
        let threads = threads.min(self.cores.max(1)) as f64;
        let sound = self.ceiling_hz * threads / 3.0;
        self.max_rate_hz.map_or(sound, |most| sound.min(most))
    }
}

/// An agent's part of a plan. What is the agent's own (its network, its addresses, its ceiling) is not in it, nor is what
/// the coordinator judges from the whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    target: Target,
    workload: Workload,
    mode: Mode,
    exact_starts: bool,
    first: FirstArrival,
    slo: Slo,
    threads: usize,
    max_connections: usize,
    skip: Duration,
    slowest: usize,
    seed: u64,
    share: Share,
}

impl Part {
    /// This share of a plan, with so many threads and connections of its own.
    pub(crate) fn of(plan: &LoadPlan, share: Share, threads: usize, connections: usize) -> Self {
        let LoadPlan {
            target,
            workload,
            mode,
            exact_starts,
            first,
            slo,
            threads: _,
            max_connections: _,
            skip,
            netns: _,
            abort: _,
            stop_when: _,
            source_addresses: _,
            slowest,
            seed,
            ceiling_hz: _,
            share: _,
        } = plan.clone();
        Self {
            target,
            workload,
            mode,
            exact_starts,
            first,
            slo,
            threads,
            max_connections: connections,
            skip,
            slowest,
            seed,
            share,
        }
    }

    /// The plan that an agent with this ceiling (of one thread) drives.
    pub(crate) fn plan(self, ceiling_hz: f64) -> LoadPlan {
        let threads = self.threads;
        LoadPlan {
            exact_starts: self.exact_starts,
            first: self.first,
            slo: self.slo,
            threads,
            max_connections: self.max_connections,
            skip: self.skip,
            slowest: self.slowest,
            seed: self.seed,
            ceiling_hz: (ceiling_hz > 0.0).then_some(ceiling_hz * threads as f64),
            share: Some(self.share),
            ..LoadPlan::new(self.target, self.workload, self.mode)
        }
    }
}

/// An agent's account of its share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Account {
    /// Its load point, without the seconds: those came by themselves.
    pub(crate) point: LoadPoint,
    /// How many seconds there are.
    pub(crate) seconds: u64,
    /// When its load began, in its own clock.
    pub(crate) began_ns: u64,
    /// Why it ended before its time, if it did.
    pub(crate) because: Option<String>,
}

/// What is going on at an agent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Pulse {
    /// Seconds it has handed over.
    pub(crate) seconds: u64,
    pub(crate) arrivals: u64,
    pub(crate) ended: u64,
    pub(crate) rate_hz: f64,
    pub(crate) goodput_hz: f64,
    pub(crate) ok_hz: f64,
    pub(crate) connections: u64,
    pub(crate) backlog: u64,
}

/// One second of a share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) number: u64,
    pub(crate) record: Second,
    pub(crate) response: Option<Box<LatencyHistogram>>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Message {
    Who,
    Here(Introduction),
    Prepare {
        run: String,
        part: Box<Part>,
    },
    Ping {
        round: u32,
        asked_ns: u64,
        spread_ns: u64,
    },
    Pong {
        round: u32,
        asked_ns: u64,
        heard_ns: u64,
        answered_ns: u64,
    },
    /// At a moment of the agent's clock, which is so far ahead of the coordinator's.
    Start {
        at_ns: u64,
        offset_ns: i64,
    },
    /// The coordinator lives, by its own clock.
    Beat {
        sent_ns: u64,
    },
    Stop {
        because: String,
    },
    /// Seconds from this number on are asked for again, and the account if there is one.
    Again {
        from: u64,
    },
    /// Nothing more is wanted.
    Release,
    Ready,
    Refused {
        because: String,
    },
    Alive(Pulse),
    Second(Box<Report>),
    Done(Box<Account>),
}

/// Why a message cannot be read or sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It is of another version.
    Version(u32),
    /// It is the broker's word that nobody listens there.
    Nobody,
    /// It is something else.
    Other(String),
}

impl Unreadable {
    /// In words for whoever sent it.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Version(other) => format!(
                "the message is of version {other} and this is version {VERSION} (kneepoint {}); use the same release of \
                 kneepoint on all machines",
                env!("CARGO_PKG_VERSION")
            ),
            Self::Nobody => "nobody listens there".to_owned(),
            Self::Other(problem) => problem.clone(),
        }
    }
}

#[derive(Deserialize)]
struct Versioned {
    v: u32,
}

#[derive(Serialize, Deserialize)]
struct Envelope<M> {
    v: u32,
    message: M,
}

/// The message as bytes.
pub(crate) fn written(message: &Message) -> Result<Vec<u8>, Unreadable> {
    let envelope = Envelope {
        v: VERSION,
        message,
    };
    let bytes = serde_json::to_vec(&envelope).map_err(|e| Unreadable::Other(e.to_string()))?;
    match bytes.len() {
        length if length > LARGEST => Err(Unreadable::Other(format!(
            "the message has {} kB, and {} kB are the most; use fewer rows in feeders, or shorter bodies",
            length >> 10,
            LARGEST >> 10
        ))),
        _ => Ok(bytes),
    }
}

/// Reads a message. Of one of another version, nothing but that is read.
pub(crate) fn read(bytes: &[u8]) -> Result<Message, Unreadable> {
    let other = |error: serde_json::Error| Unreadable::Other(error.to_string());
    if bytes.len() > LARGEST {
        return Err(Unreadable::Other("it is too long".into()));
    }
    // The broker answers so in the place of whoever is not there; nothing else is empty.
    if bytes.is_empty() {
        return Err(Unreadable::Nobody);
    }
    let Versioned { v } = serde_json::from_slice(bytes).map_err(other)?;
    if v != VERSION {
        return Err(Unreadable::Version(v));
    }
    let envelope: Envelope<Message> = serde_json::from_slice(bytes).map_err(other)?;
    Ok(envelope.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::{Outcome, OutcomeCounts};

    fn counts() -> OutcomeCounts {
        let mut counts = OutcomeCounts::default();
        counts.by_outcome.insert(Outcome::Ok, 3);
        counts.by_status.insert(200, 3);
        counts
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut response = LatencyHistogram::default();
        response.record_us(1234);
        let record = Second {
            at_s: 4.0,
            offered: 3,
            outcomes: counts(),
            ..Second::default()
        };
        let plan = LoadPlan::new(
            Target::http("127.0.0.1:80".parse().expect("an address"), "shop.test"),
            Workload::single("/"),
            Mode::Open {
                schedule: "const(10,5)".parse().expect("a schedule"),
                arrivals: kneepoint_model::Arrivals::Poisson { seed: 3 },
            },
        );
        let share = Share::new(vec![0, 2], 4).expect("a share");
        let messages = [
            Message::Who,
            Message::Prepare {
                run: "r1".into(),
                part: Box::new(Part::of(&plan, share, 1, 10)),
            },
            Message::Start {
                at_ns: u64::MAX,
                offset_ns: -5,
            },
            Message::Second(Box::new(Report {
                number: 4,
                record,
                response: Some(Box::new(response)),
            })),
            Message::Done(Box::new(Account {
                point: LoadPoint {
                    outcomes: counts(),
                    ..LoadPoint::default()
                },
                seconds: 5,
                began_ns: 7,
                because: None,
            })),
        ];
        for message in messages {
            let bytes = written(&message).expect("is written");
            assert_eq!(read(&bytes), Ok(message));
        }
    }

    #[test]
    fn another_version_is_refused_whatever_else_it_says() {
        let read = read(br#"{"v": 2, "message": {"unheard-of": 1}}"#);
        assert_eq!(read, Err(Unreadable::Version(2)));
        let told = Unreadable::Version(2).told();
        assert!(
            told.contains("version 2") && told.contains("same release"),
            "{told}"
        );
    }

    #[test]
    fn a_message_that_is_too_long_is_not_sent_and_not_read() {
        let long = Message::Stop {
            because: "x".repeat(LARGEST),
        };
        assert!(matches!(written(&long), Err(Unreadable::Other(_))));
        assert!(matches!(
            read(&vec![b' '; LARGEST + 1]),
            Err(Unreadable::Other(_))
        ));
    }

    #[test]
    fn names_are_parts_of_subjects() {
        assert!(is_name("web-1_b"));
        for wrong in ["", "a.b", "*", "a b", &"x".repeat(65)] {
            assert!(!is_name(wrong), "{wrong}");
        }
    }
}
