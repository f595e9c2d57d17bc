//! What agents and their coordinator say to one another (docs/agents.md, section 3).

mod introduction;
mod part;

pub use introduction::Introduction;
use kneepoint_model::redact::shown::visible;
use kneepoint_model::{LatencyHistogram, LoadPoint, Second, Validity};
pub(crate) use part::Part;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The version of these messages. Both sides refuse another.
pub(crate) const VERSION: u32 = 2;
/// Longest message that is sent or read: NATS takes 1 MiB.
pub(crate) const LARGEST: usize = 900 << 10;
/// Longest name of an agent, and of a run.
const LONGEST_NAME: usize = 64;
/// Largest rate, time in ms and share that is told.
const LARGEST_NUMBER: f64 = 1e8;
/// Longest sentence of somebody else that is told.
const LONGEST_SENTENCE: usize = 2000;

/// Where everybody is asked who is there.
pub(crate) const WHO: &str = "kneepoint.who";

/// Where one agent is spoken to, and no other that was given the same name.
pub(crate) fn to_agent(name: &str, instance: &str) -> String {
    format!("kneepoint.agent.{name}.{instance}")
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

impl Pulse {
    /// The same once nothing goes on any more: what was so much a second is nothing.
    pub(crate) fn at_its_end(self, seconds: u64) -> Self {
        Self {
            seconds,
            arrivals: self.arrivals,
            ended: self.ended,
            ..Self::default()
        }
    }
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
    let mut message = envelope.message;
    message.clean();
    Ok(message)
}

/// A text of somebody else as a terminal may show it: each unseen character as what it is, and not for ever.
pub(crate) fn clean(text: &mut String, most: usize) {
    if let Cow::Owned(shown) = visible(text) {
        *text = shown;
    }
    if let Some((end, _)) = text.char_indices().nth(most) {
        text.truncate(end);
        text.push_str("...");
    }
}

/// A number of somebody else as a line can hold it.
fn bound(number: &mut f64) {
    *number = number.clamp(0.0, LARGEST_NUMBER);
}

impl Message {
    /// Makes what somebody else says in words fit to be shown. A person's own texts may be elsewhere: a plan's are data.
    fn clean(&mut self) {
        match self {
            Self::Refused { because } | Self::Stop { because } => clean(because, LONGEST_SENTENCE),
            Self::Alive(pulse) => {
                for hz in [&mut pulse.rate_hz, &mut pulse.goodput_hz, &mut pulse.ok_hz] {
                    bound(hz);
                }
            }
            Self::Done(account) => {
                let point = &mut account.point;
                let health = &mut point.health;
                let measured = [
                    &mut health.send_lag_p50_ms,
                    &mut health.send_lag_p99_ms,
                    &mut health.cpu_share,
                ];
                let known = health.ceiling_hz.iter_mut().chain(&mut health.steal_share);
                let visits = known.chain(&mut point.visits_offered_hz);
                visits.chain(measured).for_each(bound);
                for slow in &mut point.slowest {
                    clean(&mut slow.id, LONGEST_NAME);
                    bound(&mut slow.response_ms);
                }
                let own = account.because.iter_mut().chain(&mut point.stopped_because);
                let lists = own.chain(&mut point.doubts).chain(&mut point.examples);
                lists.for_each(|text| clean(text, LONGEST_SENTENCE));
                if let Validity::Invalid { because } = &mut point.validity {
                    because
                        .iter_mut()
                        .for_each(|text| clean(text, LONGEST_SENTENCE));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_load::{LoadPlan, Mode, Share, Target};
    use kneepoint_model::{Outcome, OutcomeCounts, Workload};

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
        let read = read(br#"{"v": 9, "message": {"unheard-of": 1}}"#);
        assert_eq!(read, Err(Unreadable::Version(9)));
        let told = Unreadable::Version(9).told();
        assert!(
            told.contains("version 9") && told.contains("same release"),
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
    fn what_somebody_says_reaches_no_terminal_as_more_than_words() {
        let wild = "\u{1b}[2Jx\r\n".to_owned() + &"y".repeat(5000);
        let bytes = written(&Message::Refused { because: wild }).expect("is written");
        let Ok(Message::Refused { because }) = read(&bytes) else {
            panic!("it is not read");
        };
        assert!(!because.contains(char::is_control) && because.chars().count() < 2100);
        assert!(because.ends_with("..."), "{because}");
    }

    #[test]
    fn numbers_of_somebody_else_fit_a_line() {
        let mut account = Account {
            point: LoadPoint::default(),
            seconds: 0,
            began_ns: 0,
            because: None,
        };
        account.point.health.cpu_share = -1.0;
        account.point.health.ceiling_hz = Some(1e300);
        let pulse = Pulse {
            rate_hz: 1e300,
            ..Pulse::default()
        };
        let heard = |message| read(&written(&message).expect("is written"));
        let Ok(Message::Alive(pulse)) = heard(Message::Alive(pulse)) else {
            panic!("it is not read");
        };
        assert!(pulse.rate_hz <= 1e8);
        let Ok(Message::Done(account)) = heard(Message::Done(Box::new(account))) else {
            panic!("it is not read");
        };
        let health = &account.point.health;
        assert_eq!((health.cpu_share, health.ceiling_hz), (0.0, Some(1e8)));
    }

    #[test]
    fn names_are_parts_of_subjects() {
        assert!(is_name("web-1_b"));
        for wrong in ["", "a.b", "*", "a b", &"x".repeat(65)] {
            assert!(!is_name(wrong), "{wrong}");
        }
    }
}
