//! One load by several agents: who is ready, when it starts, who is away, what came.

use super::going::Going;
use super::heart::Heart;
use crate::broker::{Broker, Incoming, Letter};
use crate::division::{Seats, connections, divide_seats};
use crate::error::AgentsError;
use crate::messages::{
    Introduction, Message, Part, Unreadable, from_agent, read, to_agent, to_all,
};
use crate::moments::{
    AHEAD, AHEAD_PER_AGENT, BETWEEN_ROUNDS, BETWEEN_ROUNDS_PER_AGENT, GETTING_READY, HANDING_OVER,
    LOOK, ROUNDS, SPREAD_PER_AGENT, now_ns,
};
use crate::offset::{Offset, Round, estimate, longest_way};
use crate::roll::{Change, Presence};
use crate::union::Union;
use kneepoint_load::{LoadPlan, Mode, Progress, Share};
use kneepoint_model::units::format_share;
use kneepoint_model::{Arrivals, LoadPoint};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often an agent is asked for what is missing.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How long an agent may take from hearing of a load until it listens for its words.
const LISTENING: Duration = Duration::from_millis(200);
/// How many arrivals at random an agent has on average, at least.
const AT_RANDOM: u64 = 10;
/// How often progress is told.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// Loads of this process so far: each has a name of its own.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// One load.
pub(crate) struct Conduct<'f> {
    broker: &'f Broker,
    members: Vec<&'f Introduction>,
    /// Those for whom there is nothing in this load.
    idle: Vec<&'f str>,
    plan: &'f LoadPlan,
    tell: &'f dyn Fn(&str),
    run: String,
    all: String,
    shares: Vec<Share>,
    by_name: HashMap<&'f str, usize>,
    heart: Heart,
    /// Whether it is told how far apart the agents may start.
    tells_start: bool,
}

impl<'f> Conduct<'f> {
    pub(crate) fn new(
        broker: &'f Broker,
        members: &'f [Introduction],
        plan: &'f LoadPlan,
        tell: &'f dyn Fn(&str),
    ) -> Self {
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let run = format!("{:x}-{:x}-{number:x}", std::process::id(), now_ns());
        let weights: Vec<f64> = members
            .iter()
            .map(|here| here.weight(plan.threads))
            .collect();
        let all = to_all(&run);
        let (chosen, shares) = divide_seats(&weights, &seats(plan));
        let nobody = |agent: &usize| !chosen.contains(agent);
        let idle = (0..members.len()).filter(nobody);
        let idle = idle.map(|agent| members[agent].name.as_str()).collect();
        let members: Vec<&Introduction> = chosen.iter().map(|agent| &members[*agent]).collect();
        Self {
            heart: Heart::begin(broker.mouth(), all.clone()),
            broker,
            idle,
            plan,
            tell,
            run,
            all,
            shares,
            tells_start: true,
            by_name: members
                .iter()
                .enumerate()
                .map(|(agent, here)| (here.name.as_str(), agent))
                .collect(),
            members,
        }
    }

    /// The same, which says nothing of its start: of the hundredth load nobody asks.
    pub(crate) fn one_of_many(self) -> Self {
        Self {
            tells_start: false,
            ..self
        }
    }

    pub(crate) fn run(
        self,
        progress: &dyn Fn(&Progress),
        stop: &AtomicBool,
    ) -> Result<LoadPoint, AgentsError> {
        let here = from_agent(&self.run, "*");
        self.broker.listen(&here);
        let point = self.conduct(progress, stop);
        if point.is_err() {
            let because = "the coordinator gave up".into();
            self.broker.say(&self.all, &Message::Stop { because });
            self.broker.say(&self.all, &Message::Release);
            // Who was told of this load a moment ago may not listen for its words yet.
            thread::sleep(LISTENING);
        }
        self.broker.say(&self.all, &Message::Release);
        self.broker.leave(&here);
        point
    }

    fn conduct(
        &self,
        progress: &dyn Fn(&Progress),
        stop: &AtomicBool,
    ) -> Result<LoadPoint, AgentsError> {
        self.prepare(stop)?;
        let offsets = self.measure_offsets()?;
        let began = self.start(&offsets);
        let bounds = offsets
            .iter()
            .map(|(offset, _)| bound_ms(*offset, &offsets));
        let named = self.members.iter().zip(&self.shares).zip(bounds);
        let named = named.map(|((here, share), within)| (here.name.clone(), share.clone(), within));
        let going = Going::new(Union::new(self.plan, named.collect()), self.members.len());
        Ok(self.watch(going, began, progress, stop))
    }

    /// Gives each agent its share and waits until all are ready.
    fn prepare(&self, stop: &AtomicBool) -> Result<(), AgentsError> {
        if self.tells_start && !self.idle.is_empty() {
            (self.tell)(&format!(
                "there is too little to divide among {} agents (connections, requests or arrivals): nothing in this load is for {}",
                self.idle.len() + self.members.len(),
                self.idle.join(", ")
            ));
        }
        for (here, share) in self.members.iter().zip(&self.shares) {
            let connections = connections(self.plan.max_connections, share);
            let threads = threads(self.plan, share).min(connections);
            let prepare = Message::Prepare {
                run: self.run.clone(),
                part: Box::new(Part::of(self.plan, share.clone(), threads, connections)),
            };
            let there = to_agent(&here.name, &here.instance);
            let answer = from_agent(&self.run, &here.name);
            self.broker
                .ask(&there, &answer, &prepare)
                .map_err(|unreadable| AgentsError::Agents {
                    problem: format!("the plan cannot be sent: {}", unreadable.told()),
                })?;
        }
        let mut ready = vec![false; self.members.len()];
        let until = Instant::now() + GETTING_READY;
        while ready.contains(&false) {
            if stop.load(Ordering::Relaxed) {
                return Err(self.problem("stopped before it began".into()));
            }
            if Instant::now() >= until {
                return Err(self.not_ready(&ready));
            }
            let Some((agent, message, _)) = self.next() else {
                continue;
            };
            match message {
                Ok(Message::Ready) => ready[agent] = true,
                Ok(Message::Refused { because }) => {
                    let name = self.members[agent].name.clone();
                    return Err(AgentsError::Refused { name, because });
                }
                Ok(_) => {}
                Err(Unreadable::Nobody) => {
                    let because = "nobody at the broker hears what it is told".into();
                    return Err(self.gone(&[agent], because));
                }
                Err(unreadable) => {
                    let name = self.members[agent].name.clone();
                    let because = unreadable.told();
                    return Err(AgentsError::Refused { name, because });
                }
            }
        }
        Ok(())
    }

    fn problem(&self, problem: String) -> AgentsError {
        AgentsError::Agents { problem }
    }

    fn gone(&self, agents: &[usize], because: String) -> AgentsError {
        let names = agents
            .iter()
            .map(|agent| self.members[*agent].name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        AgentsError::Gone { names, because }
    }

    fn not_ready(&self, ready: &[bool]) -> AgentsError {
        let missing = ready.iter().enumerate().filter(|(_, ready)| !**ready);
        let missing: Vec<usize> = missing.map(|(agent, _)| agent).collect();
        let seconds = GETTING_READY.as_secs();
        let because = format!("not ready within {seconds} s (look at what it says where it runs)");
        self.gone(&missing, because)
    }

    /// Measures each agent's clock against this one; each has answered at least once.
    fn measure_offsets(&self) -> Result<Vec<(Offset, u64)>, AgentsError> {
        let agents = self.members.len();
        let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); agents];
        let spread_ns = if agents > 32 {
            SPREAD_PER_AGENT.as_nanos() as u64 * agents as u64
        } else {
            0
        };
        let apart = BETWEEN_ROUNDS_PER_AGENT.saturating_mul(agents as u32);
        let pause = BETWEEN_ROUNDS.max(apart) + Duration::from_nanos(spread_ns);
        for round in 0..ROUNDS {
            let ping = Message::Ping {
                round,
                asked_ns: now_ns(),
                spread_ns,
            };
            self.broker.say(&self.all, &ping);
            self.hear_rounds(&mut rounds, Instant::now() + pause, round as usize + 1);
        }
        // A slow way: the last answers may be under way.
        self.hear_rounds(&mut rounds, Instant::now() + Duration::from_secs(1), 1);
        let told = rounds.iter().enumerate().map(|(agent, rounds)| {
            let offset = estimate(rounds)
                .ok_or_else(|| self.gone(&[agent], "ready, and answering no more".into()))?;
            if offset.within_ns > GETTING_READY.as_nanos() as u64 {
                return Err(self.gone(&[agent], "what it says of its clock cannot be".into()));
            }
            Ok((offset, longest_way(rounds)))
        });
        told.collect()
    }

    /// Takes answers until then, or until there are so many of each.
    fn hear_rounds(&self, rounds: &mut [Vec<Round>], until: Instant, enough: usize) {
        while Instant::now() < until && rounds.iter().any(|rounds| rounds.len() < enough) {
            let Some((agent, Ok(message), back)) = self.next() else {
                continue;
            };
            if let Message::Pong {
                round: _,
                asked_ns,
                heard_ns,
                answered_ns,
            } = message
            {
                rounds[agent].push(Round {
                    asked: asked_ns,
                    heard: heard_ns,
                    answered: answered_ns,
                    back,
                });
            }
        }
        // A round each: what is left of its time is waited for, so that rounds are apart.
        thread::sleep(
            until
                .saturating_duration_since(Instant::now())
                .min(BETWEEN_ROUNDS),
        );
    }

    /// Tells each agent when to start, in its own clock. Returns when that is.
    fn start(&self, offsets: &[(Offset, u64)]) -> Instant {
        let longest = offsets.iter().map(|(_, way)| *way).max().unwrap_or(0);
        let ahead = AHEAD
            + AHEAD_PER_AGENT * self.members.len() as u32
            + Duration::from_nanos(longest.saturating_mul(4)).min(GETTING_READY);
        let at = now_ns() + ahead.as_nanos() as u64;
        for (here, (offset, _)) in self.members.iter().zip(offsets) {
            let start = Message::Start {
                at_ns: at.saturating_add_signed(offset.ns),
                offset_ns: offset.ns,
            };
            self.broker
                .say(&to_agent(&here.name, &here.instance), &start);
        }
        let within = offsets.iter().map(|(offset, _)| bound_ms(*offset, offsets));
        if self.tells_start {
            (self.tell)(&format!(
                "{} agents start together, no more than {:.2} ms apart by their clocks",
                self.members.len(),
                within.fold(0.0, f64::max)
            ));
        }
        Instant::now() + ahead
    }

    /// The next message from an agent of this run: whose, what, and when it came.
    fn next(&self) -> Option<(usize, Result<Message, Unreadable>, u64)> {
        self.heart.seen();
        let letter = match self.broker.next(LOOK)? {
            Incoming::Message(letter) => letter,
            Incoming::Told(words) => {
                (self.tell)(&format!("broker: {words}"));
                return None;
            }
            Incoming::Denied(words) => {
                (self.tell)(&words);
                return None;
            }
        };
        let agent = self.agent_of(&letter)?;
        Some((agent, read(&letter.bytes), letter.came_ns))
    }

    fn agent_of(&self, letter: &Letter) -> Option<usize> {
        let name = letter.subject.strip_prefix(&from_agent(&self.run, ""))?;
        self.by_name.get(name).copied()
    }

    /// Watches until nobody is waited for any more.
    fn watch(
        &self,
        mut going: Going,
        began: Instant,
        progress: &dyn Fn(&Progress),
        stop: &AtomicBool,
    ) -> LoadPoint {
        let last = self.plan.mode.duration() + self.plan.slo.timeout + HANDING_OVER;
        let (mut tell_at, mut until) = (Duration::ZERO, last);
        let mut told_to_stop = false;
        // Silence counts from now on.
        let watching = Instant::now();
        while going.roll.is_waiting() && began.elapsed() < until {
            if let Some((agent, Ok(message), _)) = self.next() {
                self.take(&mut going, agent, message, watching.elapsed());
            }
            self.settle(&mut going, watching.elapsed());
            going.judge(self.plan);
            let wanted = going
                .stopped_because
                .as_deref()
                .or(going.aborted.then_some("hopeless"));
            let by_hand = stop
                .load(Ordering::Relaxed)
                .then_some("stopped by its operator");
            if let Some(because) = wanted.or(by_hand)
                && !told_to_stop
            {
                told_to_stop = true;
                until = until.min(began.elapsed() + self.plan.slo.timeout + HANDING_OVER);
                let because = because.to_owned();
                self.broker.say(&self.all, &Message::Stop { because });
            }
            let now = began.elapsed();
            // Before the common moment there is nothing to tell.
            if now >= tell_at && Instant::now() >= began {
                tell_at = now + PROGRESS_EVERY;
                progress(&going.progress(self.plan, now));
            }
        }
        for (agent, here) in self.members.iter().enumerate() {
            if !going.union.is_whole(agent) {
                let share = format_share(self.shares[agent].fraction());
                (self.tell)(&format!(
                    "agent {} is lost, with {share} of the load",
                    here.name
                ));
            }
        }
        let rest = going.union.complete(|_| false);
        going.fresh.extend(rest);
        going.judge(self.plan);
        progress(&going.progress(self.plan, began.elapsed()));
        let mut point = going.union.finish(self.plan, told_to_stop);
        point.aborted = going.aborted;
        point.stopped_because = going.stopped_because;
        point
    }

    fn take(&self, going: &mut Going, agent: usize, message: Message, now: Duration) {
        if let Some(change) = going.roll.heard(agent, now) {
            self.tell_change(change);
        }
        match message {
            Message::Alive(pulse) => going.pulses[agent] = pulse,
            Message::Second(report) => {
                let told = report.number.saturating_add(1);
                going.union.second(agent, *report);
                going.pulses[agent].seconds = going.pulses[agent].seconds.max(told);
            }
            Message::Done(account) => {
                going.pulses[agent] = going.pulses[agent].at_its_end(account.seconds);
                if let Some(because) = &account.because {
                    (self.tell)(&format!(
                        "agent {} ended early: {because}",
                        self.members[agent].name
                    ));
                }
                going.union.account(agent, *account);
            }
            Message::Refused { because } => {
                (self.tell)(&format!(
                    "agent {} refuses: {because}",
                    self.members[agent].name
                ));
            }
            _ => {}
        }
        if let Some(why) = going.union.newly_doubted(agent) {
            (self.tell)(&format!(
                "agent {} is not believed: {why}",
                self.members[agent].name
            ));
        }
        if going.union.is_whole(agent) {
            going.roll.done(agent);
        }
        let missing = going.union.missing(agent, going.pulses[agent].seconds);
        if let Some(from) = missing
            && going.asked[agent].elapsed() >= ASK_AGAIN
        {
            going.asked[agent] = Instant::now();
            let here = self.members[agent];
            self.broker.say(
                &to_agent(&here.name, &here.instance),
                &Message::Again { from },
            );
        }
    }

    /// Looks at who is away, and at the seconds that have become whole.
    fn settle(&self, going: &mut Going, now: Duration) {
        for change in going.roll.look(now) {
            self.tell_change(change);
            if change.now == Presence::Gone {
                let pulse = &mut going.pulses[change.agent];
                *pulse = pulse.at_its_end(pulse.seconds);
            }
        }
        let roll = &going.roll;
        let whole = going
            .union
            .complete(|agent| roll.presence(agent) != Presence::Gone);
        going.fresh.extend(whole);
    }

    fn tell_change(&self, change: Change) {
        let name = &self.members[change.agent].name;
        let share = format_share(self.shares[change.agent].fraction());
        let silent = change.silent.as_secs_f64();
        let words = match change.now {
            Presence::Late => {
                format!("agent {name} ({share} of the load) has been silent for {silent:.1} s")
            }
            Presence::Gone => format!(
                "agent {name} is gone: silent for {silent:.1} s, and {share} of the load with it"
            ),
            Presence::Here => format!("agent {name} is back after {silent:.1} s"),
            Presence::Done => return,
        };
        (self.tell)(&words);
    }
}

/// How far the start of an agent can lie from that of another.
fn bound_ms(own: Offset, all: &[(Offset, u64)]) -> f64 {
    let worst = all
        .iter()
        .map(|(offset, _)| offset.within_ns)
        .max()
        .unwrap_or(0);
    own.within_ns.saturating_add(worst) as f64 / 1e6
}

/// What every agent of a load must have something of, so that none waits for what never comes: connections, users,
/// workers and requests of a loop, arrivals of a schedule.
fn seats(plan: &LoadPlan) -> Vec<Seats> {
    let connections = 0..plan.max_connections as u64;
    let users = plan.users().map(|all| 0..u64::from(all));
    let mut seats: Vec<Seats> = users.into_iter().chain([connections]).collect();
    match &plan.mode {
        Mode::Closed(closed) => {
            seats.push(0..u64::from(closed.workers));
            seats.extend(closed.requests.map(|all| 0..all));
        }
        Mode::Open { schedule, arrivals } => {
            let all = schedule.total_arrivals();
            let skipped = schedule.area(plan.skip.as_secs_f64()).ceil() as u64;
            let skipped = skipped.min(all);
            seats.push(match arrivals {
                Arrivals::Even => skipped..all,
                // By chance one may have none; of ten on average, next to never.
                Arrivals::Poisson { .. } => 0..(all - skipped).div_ceil(AT_RANDOM),
            });
        }
    }
    seats
}

/// How many threads an agent has with a share: in a loop, each has a worker, and a user where requests are users'.
fn threads(plan: &LoadPlan, share: &Share) -> usize {
    let most = match &plan.mode {
        Mode::Closed(closed) => share.count_below(closed.workers.into()) as usize,
        Mode::Open { .. } => usize::MAX,
    };
    let users = plan
        .users()
        .map_or(usize::MAX, |all| share.count_below(all.into()) as usize);
    let most = most.min(users).max(1);
    plan.threads.min(share.slots().len()).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_load::Target;
    use kneepoint_model::{ClosedLoop, Workload};

    fn plan(mode: Mode) -> LoadPlan {
        let target = Target::http("127.0.0.1:80".parse().expect("an address"), "a");
        LoadPlan::new(target, Workload::single("/"), mode)
    }

    #[test]
    fn what_cannot_be_divided_among_all_is_divided_among_some() {
        let seated = |plan: &LoadPlan| divide_seats(&[1.0; 4], &seats(plan)).0.len();
        let closed = |workers, requests| {
            plan(Mode::Closed(ClosedLoop {
                requests,
                ..ClosedLoop::new(workers, Duration::from_secs(1))
            }))
        };
        assert_eq!(seated(&closed(3, Some(5))), 3);
        assert_eq!(seated(&closed(8, Some(2))), 2);
        assert_eq!(seated(&closed(2, None)), 2);
        assert_eq!(seated(&closed(8, None)), 4);
        let open = |schedule: &str, arrivals| {
            plan(Mode::Open {
                schedule: schedule.parse().expect("a schedule"),
                arrivals,
            })
        };
        assert_eq!(seated(&open("const(1,1)", Arrivals::Even)), 1);
        assert_eq!(seated(&open("const(100,1)", Arrivals::Even)), 4);
        assert_eq!(
            seated(&open("const(10,1)", Arrivals::Poisson { seed: 1 })),
            1
        );
        assert_eq!(
            seated(&open("const(100,1)", Arrivals::Poisson { seed: 1 })),
            4
        );
        let mut few = open("const(100,1)", Arrivals::Even);
        few.max_connections = 2;
        assert_eq!(seated(&few), 2);
        few.workload.requests[0].session = true;
        few.workload.users = 1;
        assert_eq!(seated(&few), 1);
    }

    #[test]
    fn no_thread_of_a_loop_is_without_a_worker() {
        let mut plan = plan(Mode::Closed(ClosedLoop::new(8, Duration::from_secs(1))));
        plan.threads = 4;
        let (_, shares) = divide_seats(&[1.0; 4], &seats(&plan));
        assert!(shares.iter().all(|share| threads(&plan, share) == 2));
    }
}
