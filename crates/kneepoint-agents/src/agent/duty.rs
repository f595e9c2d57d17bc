//! One share of one load, from the moment it is asked for until its account is handed over.

use crate::broker::Mouth;
use crate::consent::Permit;
use crate::messages::{Account, Message, Pulse, Report, written};
use crate::moments::{DEAD_MAN, GONE, KEPT, SIGN_OF_LIFE, instant_at, now_ns};
use kneepoint_load::{Engine, LoadError, LoadPlan, Progress, StopWhen};
use kneepoint_model::LoadPoint;
use kneepoint_model::autostop::Observed;
use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Most seconds that are kept to be said again.
const KEPT_SECONDS: usize = 3600;
/// How many times longer than answers to a `ping` the accounts of a load are spread: the coordinator takes one of them in
/// 0.3 ms (docs/scale.md).
const ACCOUNT_SPREAD: u64 = 8;
/// How long before its moment a start may still be called off.
const LAST_CALL: Duration = Duration::from_millis(20);

/// What the thread that drives has to tell.
enum News {
    Refused(String),
    Ready,
    Began(u64),
    Going(Pulse, Vec<Report>),
    Over(Result<Option<Box<LoadPoint>>, LoadError>),
}

/// A share that is being driven.
pub(crate) struct Duty {
    /// Where the coordinator speaks to all.
    pub(crate) hears: String,
    says: String,
    mouth: Mouth,
    news: Receiver<News>,
    start: Sender<u64>,
    stop: Arc<AtomicBool>,
    /// When the coordinator's last sign of life left there, by this clock.
    heard: Instant,
    /// This clock minus the coordinator's, once it is known.
    offset_ns: Option<i64>,
    began_ns: Option<u64>,
    because: Option<String>,
    pulse: Pulse,
    /// Seconds as they were said, the first being number `first_kept`.
    kept: VecDeque<Vec<u8>>,
    first_kept: u64,
    account: Option<Vec<u8>>,
    /// When the account is said, where that is still to come.
    account_at: Option<Instant>,
    /// Over which moment agents are to spread what they all say at once.
    spread_ns: u64,
    is_over: bool,
    alive_at: Instant,
    turned_at: Instant,
}

impl Duty {
    /// Begins: a thread asks the target for its consent, gets ready, and waits for the start.
    pub(crate) fn begin(
        plan: LoadPlan,
        permit: Permit,
        hears: String,
        says: String,
        mouth: Mouth,
    ) -> io::Result<Self> {
        let (tell, news) = mpsc::channel();
        let (start, starts) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        thread::Builder::new()
            .name("share".into())
            .spawn(move || drive(plan, &permit, &starts, &tell, &stopped))?;
        let now = Instant::now();
        Ok(Self {
            hears,
            says,
            mouth,
            news,
            start,
            stop,
            heard: now,
            offset_ns: None,
            began_ns: None,
            because: None,
            pulse: Pulse::default(),
            kept: VecDeque::new(),
            first_kept: 0,
            account: None,
            account_at: None,
            spread_ns: 0,
            is_over: false,
            alive_at: now,
            turned_at: now,
        })
    }

    /// Whether nothing more is wanted of it.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether all that it measured was said at least once.
    pub(crate) fn has_said_all(&self) -> bool {
        self.is_over || (self.account.is_some() && self.account_at.is_none())
    }

    /// Ends the load before its time.
    pub(crate) fn end(&mut self, because: &str) {
        if self.account.is_none() {
            self.because.get_or_insert_with(|| because.to_owned());
        }
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Takes what the coordinator says.
    pub(crate) fn hear(&mut self, message: Message, came_ns: u64) {
        match message {
            Message::Ping {
                round,
                asked_ns,
                spread_ns,
            } => {
                self.heard = Instant::now();
                self.spread_ns = spread_ns;
                self.answer(round, asked_ns, came_ns, spread_ns);
            }
            Message::Start { at_ns, offset_ns } => {
                self.heard = Instant::now();
                self.offset_ns = Some(offset_ns);
                let _ = self.start.send(at_ns);
            }
            Message::Beat { sent_ns } => {
                let left = self
                    .offset_ns
                    .map(|offset| sent_ns.saturating_add_signed(offset));
                // Beats of a broker that was away may be old: what counts is when they left.
                let left = instant_at(left.unwrap_or(came_ns)).min(Instant::now());
                self.heard = self.heard.max(left);
            }
            // That all are stopped is no fault of this one.
            Message::Stop { .. } => self.stop.store(true, Ordering::Relaxed),
            Message::Again { from } => self.again(from),
            Message::Release => {
                self.stop.store(true, Ordering::Relaxed);
                self.is_over = true;
            }
            _ => {}
        }
    }

    /// Answers after a part of the spread, so that many agents do not answer at one moment; the stamps take it out again.
    fn answer(&self, round: u32, asked_ns: u64, heard_ns: u64, spread_ns: u64) {
        let (says, mouth) = (self.says.clone(), self.mouth.clone());
        let say = move || {
            let answered_ns = now_ns();
            let pong = Message::Pong {
                round,
                asked_ns,
                heard_ns,
                answered_ns,
            };
            mouth.say(&says, &pong);
        };
        let hold = self.part_of(spread_ns);
        if hold < 1_000_000 {
            say();
        } else {
            thread::spawn(move || {
                thread::sleep(Duration::from_nanos(hold));
                say();
            });
        }
    }

    /// Some part of a moment of at most a second.
    fn part_of(&self, spread_ns: u64) -> u64 {
        match spread_ns.min(1_000_000_000) {
            0 => 0,
            spread => RandomState::new().hash_one(&self.says) % spread,
        }
    }

    /// What there is to do by itself.
    pub(crate) fn turn(&mut self, tell: &dyn Fn(&str)) {
        let now = Instant::now();
        while let Ok(news) = self.news.try_recv() {
            self.note(news, tell);
        }
        if self.account_at.is_some_and(|at| now >= at) {
            self.say_account();
        }
        let stood_still = now.duration_since(self.turned_at);
        self.turned_at = now;
        let silent = now.saturating_duration_since(self.heard);
        let driving = self.account.is_none() && !self.stop.load(Ordering::Relaxed);
        if driving && stood_still >= DEAD_MAN {
            self.end(&format!(
                "it stood still for {:.1} s itself",
                stood_still.as_secs_f64()
            ));
            tell("stopped: this agent stood still itself");
        } else if driving && silent >= self.patience() {
            self.end(&format!(
                "no sign of the coordinator for {:.1} s",
                silent.as_secs_f64()
            ));
            tell("stopped: no sign of the coordinator");
        }
        if silent >= KEPT {
            self.is_over = true;
        }
        if now >= self.alive_at {
            self.alive_at = now + SIGN_OF_LIFE;
            self.mouth.say(&self.says, &Message::Alive(self.pulse));
        }
    }

    /// How long the coordinator may be silent.
    fn patience(&self) -> Duration {
        if self.began_ns.is_some() {
            DEAD_MAN
        } else {
            GONE
        }
    }

    fn note(&mut self, news: News, tell: &dyn Fn(&str)) {
        match news {
            News::Refused(because) => {
                tell(&format!("refused: {because}"));
                self.mouth.say(&self.says, &Message::Refused { because });
                self.is_over = true;
            }
            News::Ready => self.mouth.say(&self.says, &Message::Ready),
            News::Began(at_ns) => {
                self.began_ns = Some(at_ns);
                let s = at_ns as f64 / 1e9;
                tell(&format!(
                    "the load begins at {s:.6} s of this machine's clock"
                ));
            }
            News::Going(pulse, reports) => {
                for report in reports {
                    self.keep(report);
                }
                let seconds = self.first_kept + self.kept.len() as u64;
                self.pulse = Pulse { seconds, ..pulse };
            }
            News::Over(Ok(Some(point))) => {
                tell("the load is over");
                self.hand_over(*point);
            }
            News::Over(Ok(None)) => self.is_over = true,
            News::Over(Err(error)) => {
                self.because = Some(error.to_string());
                match self.began_ns {
                    Some(_) => self.hand_over(LoadPoint::default()),
                    None => self.note(News::Refused(error.to_string()), tell),
                }
            }
        }
    }

    fn keep(&mut self, report: Report) {
        let Ok(bytes) = written(&Message::Second(Box::new(report))) else {
            return;
        };
        self.mouth.say_bytes(&self.says, bytes.clone());
        self.kept.push_back(bytes);
        if self.kept.len() > KEPT_SECONDS {
            self.kept.pop_front();
            self.first_kept += 1;
        }
    }

    fn hand_over(&mut self, mut point: LoadPoint) {
        point.seconds = Vec::new();
        let account = Account {
            seconds: self.first_kept + self.kept.len() as u64,
            began_ns: self.began_ns.unwrap_or(0),
            because: self.because.clone().or(point.stopped_because.clone()),
            point,
        };
        let mut message = Message::Done(Box::new(account));
        let whole = written(&message).or_else(|_| {
            // Too long for a message: the counts are what nobody can do without.
            if let Message::Done(account) = &mut message {
                account.point.slowest = Vec::new();
                account.point.examples = Vec::new();
            }
            written(&message)
        });
        let Ok(bytes) = whole else {
            self.is_over = true;
            return;
        };
        self.account = Some(bytes);
        let hold = self.part_of(self.spread_ns.saturating_mul(ACCOUNT_SPREAD));
        self.account_at = Some(Instant::now() + Duration::from_nanos(hold));
        if hold == 0 {
            self.say_account();
        }
    }

    fn say_account(&mut self) {
        self.account_at = None;
        if let Some(bytes) = &self.account {
            self.mouth.say_bytes(&self.says, bytes.clone());
        }
    }

    fn again(&self, from: u64) {
        let skipped = from.saturating_sub(self.first_kept) as usize;
        let account = self.account.as_ref().filter(|_| self.account_at.is_none());
        for bytes in self.kept.iter().skip(skipped).chain(account) {
            self.mouth.say_bytes(&self.says, bytes.clone());
        }
    }
}

/// Lets no load go on that nobody watches.
impl Drop for Duty {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The life of the thread that drives. Where nobody hears its news, nobody wants them.
fn drive(
    plan: LoadPlan,
    permit: &Permit,
    starts: &Receiver<u64>,
    tell: &Sender<News>,
    stop: &AtomicBool,
) {
    let mut plan = plan;
    match permit.check(&plan) {
        Err(because) => {
            let _ = tell.send(News::Refused(because));
            return;
        }
        Ok(None) => {}
        Ok(Some(watch)) => {
            plan.stop_when = Some(StopWhen::new(move |_: &Observed<'_>| {
                let withdrawn = watch.withdrawn();
                withdrawn.map(|why| format!("it may load no more: {why}"))
            }));
        }
    }
    let when = || {
        let _ = tell.send(News::Ready);
        let began = await_start(starts, stop)?;
        let _ = tell.send(News::Began(began));
        Some(instant_at(began))
    };
    let going = |progress: &Progress| {
        let _ = tell.send(going(progress));
    };
    let point = Engine::run_from(&plan, &when, &going, stop);
    let _ = tell.send(News::Over(point.map(|point| point.map(Box::new))));
}

/// Waits until a moment before the start; tells when it is, or nothing when it is called off. A start that is late is now: what
/// is due from then on would leave at once.
fn await_start(starts: &Receiver<u64>, stop: &AtomicBool) -> Option<u64> {
    let mut at_ns = None;
    loop {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        match at_ns {
            None => match starts.recv_timeout(LAST_CALL) {
                Ok(told) => at_ns = Some(told),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            },
            Some(at_ns) => {
                let ahead = Duration::from_nanos(at_ns.saturating_sub(now_ns()));
                if ahead <= LAST_CALL {
                    return Some(at_ns.max(now_ns()));
                }
                thread::sleep(LAST_CALL.min(ahead - LAST_CALL));
            }
        }
    }
}

fn going(progress: &Progress) -> News {
    let pulse = Pulse {
        seconds: 0,
        arrivals: progress.arrivals,
        ended: progress.ended,
        rate_hz: progress.rate_hz,
        goodput_hz: progress.goodput_hz,
        ok_hz: progress.ok_hz,
        connections: progress.connections_open,
        backlog: progress.backlog,
    };
    let seconds = progress.completed.iter().zip(&progress.completed_response);
    let reports = seconds.map(|(record, response)| Report {
        number: record.at_s.round() as u64,
        record: record.clone(),
        response: response.clone(),
    });
    News::Going(pulse, reports.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answering::answering;
    use crate::broker::Mouth;
    use kneepoint_load::{Mode, Target};
    use kneepoint_model::{Address, Arrivals, Workload};

    /// An hour of load at a server that answers everything, in the hands of a coordinator on this machine.
    fn duty() -> Duty {
        let mode = Mode::Open {
            schedule: "const(20,3600)".parse().expect("a schedule"),
            arrivals: Arrivals::Even,
        };
        let plan = LoadPlan::new(
            Target::http(Address::Tcp(answering()), "a"),
            Workload::single("/"),
            mode,
        );
        let permit = Permit {
            from_here: true,
            ..Permit::default()
        };
        let mouth = Mouth::to_nobody();
        Duty::begin(plan, permit, "all".into(), "mine".into(), mouth).expect("a thread")
    }

    /// Has a share begin and drive, with a heart that beats so many times.
    fn driven(beats: u32) -> Duty {
        let mut duty = duty();
        duty.hear(
            Message::Start {
                at_ns: now_ns(),
                offset_ns: 0,
            },
            now_ns(),
        );
        for beat in 0.. {
            if duty.has_said_all() || duty.is_over() {
                return duty;
            }
            if beat < beats {
                duty.hear(Message::Beat { sent_ns: now_ns() }, now_ns());
            }
            duty.turn(&|_| {});
            thread::sleep(Duration::from_millis(20));
        }
        duty
    }

    #[test]
    fn a_load_ends_when_its_coordinator_is_silent() {
        let duty = driven(5);
        let because = duty.because.as_deref().expect("a reason");
        assert!(because.contains("no sign of the coordinator"), "{because}");
        assert!(duty.account.is_some() && duty.began_ns.is_some());
    }

    /// What a broker says after it was away may be old: a beat counts by when it left.
    #[test]
    fn old_beats_prove_nothing() {
        let mut duty = duty();
        duty.hear(
            Message::Start {
                at_ns: u64::MAX,
                offset_ns: 1_000,
            },
            now_ns(),
        );
        duty.heard = Instant::now() - Duration::from_secs(9);
        let sent_ns = now_ns() - 5_000_000_000;
        duty.hear(Message::Beat { sent_ns }, now_ns());
        assert!(duty.heard.elapsed() > Duration::from_secs(4));
        duty.hear(Message::Beat { sent_ns: now_ns() }, now_ns());
        assert!(duty.heard.elapsed() < Duration::from_secs(4));
        duty.hear(Message::Release, now_ns());
        assert!(duty.is_over());
    }

    #[test]
    fn what_an_agent_may_not_load_never_begins() {
        let mode = Mode::Open {
            schedule: "const(20,3600)".parse().expect("a schedule"),
            arrivals: Arrivals::Even,
        };
        let plan = LoadPlan::new(
            Target::http(Address::Tcp(answering()), "a"),
            Workload::single("/"),
            mode,
        );
        let permit = Permit {
            max_rate_hz: Some(10.0),
            from_here: true,
            ..Permit::default()
        };
        let mouth = Mouth::to_nobody();
        let mut duty =
            Duty::begin(plan, permit, "all".into(), "mine".into(), mouth).expect("a thread");
        let told = std::cell::RefCell::new(Vec::new());
        while !duty.is_over() {
            duty.turn(&|words| told.borrow_mut().push(words.to_owned()));
            thread::sleep(Duration::from_millis(5));
        }
        assert!(
            told.borrow()[0].contains("--max-rate"),
            "{:?}",
            told.borrow()
        );
        assert!(duty.began_ns.is_none());
    }
}
