//! The simulation: a coordinator, a broker and agents, from the first look at their clocks to the end of the load.
//!
//! They talk as docs/agents.md says. Broker and coordinator do one thing after the other. A message on a connection never
//! overtakes another. What is written while a client knows that it is not connected is kept and sent later; what is
//! under way when the broker ends, or comes before the one it is for has connected again, is lost.

use super::calendar::{Calendar, Time, ns};
use super::constants::{Costs, Timings};
use super::dice::Dice;
use super::world::{Host, World};

mod agents;
mod coordinator;
#[cfg(test)]
mod tests;

/// When the broker goes away, as a share of the load.
const OUTAGE_AT: f64 = 0.4;
/// When the order to stop is given, in seconds after the end of the schedule: the last second has been sent.
const STOP_AFTER_S: f64 = 0.5;

/// What is simulated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) world: World,
    pub(super) timings: Timings,
    pub(super) costs: Costs,
    pub(super) agents: usize,
    /// Length of the load in whole seconds.
    pub(super) load_s: u32,
    /// Share of the agents that are killed under load.
    pub(super) killed: f64,
    /// For how long the broker is away, in seconds.
    pub(super) outage_s: Option<f64>,
}

impl Plan {
    /// From the order to start until the common moment, in seconds.
    fn lead_s(&self) -> f64 {
        let trip_s = 2.0 * self.world.delay_s.1;
        self.timings.lead_s
            + self.timings.lead_each_s * self.agents as f64
            + self.timings.lead_trips * trip_s
    }
}

/// What came out.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// How far from the common moment each agent began, in seconds.
    pub(super) skew_s: Vec<f64>,
    /// The bound of the skew that is told: the sum of the two largest bounds of an offset.
    pub(super) bound_s: f64,
    /// From the end of each agent that was killed until it was called late, and until it was called gone.
    pub(super) late_s: Vec<f64>,
    pub(super) gone_s: Vec<f64>,
    /// How often an agent that lived was called late, and gone.
    pub(super) false_late: usize,
    pub(super) false_gone: usize,
    /// Agents that stopped by themselves, for they heard nothing of a coordinator that lived.
    pub(super) stopped: usize,
    /// Seconds of results of agents that lived, how many of them were merged, and how many had to be asked for again.
    pub(super) sent: usize,
    pub(super) merged: usize,
    pub(super) again: usize,
    /// From the end of a second until an agent's part of it was merged.
    pub(super) merged_s: Vec<f64>,
    /// From the order to stop until each agent had stopped, and until its last word was merged.
    pub(super) stop_s: Vec<f64>,
    pub(super) done_s: Vec<f64>,
    /// Busy time of the coordinator and of the broker under load, as shares of a core.
    pub(super) cpu_share: f64,
    pub(super) broker_share: f64,
    /// Bytes a second that came to the coordinator under load.
    pub(super) bytes_hz: f64,
    /// Most bytes that waited for the coordinator at any moment.
    pub(super) waiting_bytes: f64,
}

/// What travels.
#[derive(Debug, Clone, Copy)]
enum Parcel {
    /// To all: what does your clock show? With the time at which it was sent.
    Ping(Time),
    /// The answer, with the times of the agent's clock at which the question came and this left.
    Pong(Time, f64, f64),
    /// To one agent: begin at the common moment; send the seconds from this one on again.
    Start(usize),
    Again(usize, u32),
    /// To all: I live, and sent this then; stop.
    Pulse(Time),
    Stop,
    /// To the coordinator: I live, and have sent so many seconds; one of them; the last word.
    Beat(u32),
    Second(u32),
    Done(u32),
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Own(usize, Timer),
    Duty(Duty),
    /// A message of an agent reaches the broker, the coordinator's socket, and its eye.
    UpAtBroker(usize, Parcel),
    AtCoordinator(usize, Parcel, Passage),
    Handled(usize, Parcel),
    /// A message of the coordinator reaches the broker, an agent's socket, and its eye.
    DownAtBroker(Parcel),
    AtAgent(usize, Parcel, Passage),
    Read(usize, Parcel),
    BrokerDown,
    BrokerUp,
    Disconnected(usize),
    Attempt(usize),
    Knock(usize),
    Connected(usize),
}

/// What an agent does by itself.
#[derive(Debug, Clone, Copy)]
enum Timer {
    Pong(Time, f64),
    Begin,
    Second(u32),
    Beat,
    /// Nothing may have been heard since this moment.
    DeadMan(Time),
    Stall,
    Die,
    Done,
}

/// What the coordinator does by itself.
#[derive(Debug, Clone, Copy)]
enum Duty {
    Ping,
    Start,
    Pulse,
    Look,
    Stop,
}

/// When a message left the broker, and in which of its lives.
#[derive(Debug, Clone, Copy)]
struct Passage {
    left: Time,
    life: u32,
}

/// A client's connection.
#[derive(Debug)]
struct Link {
    up_s: f64,
    down_s: f64,
    connected: bool,
    attempts: u32,
    held: Vec<Parcel>,
    /// When the last message arrived at either end: the next one cannot be earlier.
    up_last: Time,
    down_last: Time,
}

impl Link {
    fn new(up_s: f64, down_s: f64) -> Self {
        Self {
            up_s,
            down_s,
            connected: true,
            attempts: 0,
            held: Vec::new(),
            up_last: 0,
            down_last: 0,
        }
    }
}

#[derive(Debug)]
struct Agent {
    host: Host,
    stalled_until: Time,
    died: Option<Time>,
    running: bool,
    /// When the coordinator sent what it last heard.
    heard: Time,
    /// How many seconds it has sent.
    seconds: u32,
    known: Known,
}

/// What the coordinator knows of an agent.
#[derive(Debug, Default)]
struct Known {
    /// The shortest way there and back, and the offset by it, in seconds.
    best: Option<(f64, f64)>,
    last_heard: Time,
    late: bool,
    gone: bool,
    /// Which seconds are merged, and when those that are missing were last asked for.
    merged: Vec<bool>,
    asked: Time,
    done: bool,
}

#[derive(Debug)]
struct Broker {
    up: bool,
    free: Time,
    went: Time,
    life: u32,
}

struct Fleet<'p> {
    plan: &'p Plan,
    dice: Dice,
    calendar: Calendar<Event>,
    now: Time,
    agents: Vec<Agent>,
    /// Of each agent, and the last of the coordinator.
    links: Vec<Link>,
    broker: Broker,
    /// When the coordinator is done with what it has, and how many bytes that is.
    free: Time,
    waiting_bytes: f64,
    /// The common moment, the end of the schedule, and the order to stop.
    begin: Time,
    end: Time,
    stop: Time,
    outcome: Outcome,
}

/// Simulates one load.
pub(super) fn simulate(plan: &Plan, seed: u64) -> Outcome {
    let mut fleet = Fleet::new(plan, seed);
    fleet.prepare();
    while let Some((now, event)) = fleet.calendar.next() {
        fleet.now = now;
        fleet.happen(event);
    }
    fleet.count_seconds();
    let load_s = f64::from(plan.load_s);
    fleet.outcome.cpu_share /= load_s;
    fleet.outcome.broker_share /= load_s;
    fleet.outcome.bytes_hz /= load_s;
    fleet.outcome
}

impl<'p> Fleet<'p> {
    fn new(plan: &'p Plan, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let hosts: Vec<Host> = (0..plan.agents)
            .map(|_| plan.world.host(&mut dice))
            .collect();
        // The coordinator is near the broker.
        let near_s = plan.world.delay_s.0;
        let links = hosts.iter().map(|host| Link::new(host.up_s, host.down_s));
        let timings = &plan.timings;
        let spread_s = timings.spread_s * plan.agents as f64;
        let pings_s = timings.ping_every_s(plan.agents) * f64::from(timings.pings) + spread_s + 0.5;
        let lead_s = plan.lead_s();
        let begin = ns(pings_s + lead_s);
        let end = begin + ns(f64::from(plan.load_s));
        Self {
            plan,
            dice,
            calendar: Calendar::new(),
            now: 0,
            links: links.chain([Link::new(near_s, near_s)]).collect(),
            agents: hosts.into_iter().map(Agent::new).collect(),
            broker: Broker {
                up: true,
                free: 0,
                went: 0,
                life: 0,
            },
            free: 0,
            waiting_bytes: 0.0,
            begin,
            end,
            stop: end + ns(STOP_AFTER_S),
            outcome: Outcome::default(),
        }
    }

    /// Plans what does not follow from anything else.
    fn prepare(&mut self) {
        let timings = self.plan.timings;
        for nth in 0..timings.pings {
            let at = ns(timings.ping_every_s(self.plan.agents) * f64::from(nth));
            self.calendar.plan(at, Event::Duty(Duty::Ping));
        }
        self.calendar.plan(
            self.begin - ns(self.plan.lead_s()),
            Event::Duty(Duty::Start),
        );
        self.calendar.plan(self.stop, Event::Duty(Duty::Stop));
        let killed = (self.plan.killed * self.plan.agents as f64).round() as usize;
        for agent in 0..self.agents.len() {
            if self.agents[agent].host.busy {
                self.own(agent, self.plan.world.stall_every_s, true, Timer::Stall);
            }
            if agent < killed {
                // Early enough to be called gone before the end.
                let last_s = f64::from(self.plan.load_s) - timings.gone_s - 1.0;
                let at = self.begin + ns(self.dice.between(1.0, last_s));
                self.calendar.plan(at, Event::Own(agent, Timer::Die));
            }
        }
        if self.plan.outage_s.is_some() {
            // Anywhere within a second: results are sent at its end.
            let at_s = OUTAGE_AT * f64::from(self.plan.load_s) + self.dice.uniform();
            self.calendar.plan(self.begin + ns(at_s), Event::BrokerDown);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Own(agent, timer) => self.timer(agent, timer),
            Event::Duty(duty) => self.duty(duty),
            Event::UpAtBroker(agent, parcel) => self.up_at_broker(agent, parcel),
            Event::AtCoordinator(agent, parcel, passage) => {
                self.at_coordinator(agent, parcel, passage)
            }
            Event::Handled(agent, parcel) => self.handled(agent, parcel),
            Event::DownAtBroker(parcel) => self.down_at_broker(parcel),
            Event::AtAgent(agent, parcel, passage) => {
                if !self.is_lost(passage) {
                    self.calendar.plan(self.now, Event::Read(agent, parcel));
                }
            }
            Event::Read(agent, parcel) => self.read(agent, parcel),
            Event::BrokerDown => self.broker_down(),
            Event::BrokerUp => self.broker.up = true,
            Event::Disconnected(client) => {
                self.links[client].connected = false;
                self.links[client].attempts = 0;
                self.calendar.plan(self.now, Event::Attempt(client));
            }
            Event::Attempt(client) => {
                let at = self.now + ns(self.links[client].up_s);
                self.calendar.plan(at, Event::Knock(client));
            }
            Event::Knock(client) => self.knock(client),
            Event::Connected(client) => self.connected(client),
        }
    }

    /// Counts what came of those that lived.
    fn count_seconds(&mut self) {
        for agent in self.agents.iter().filter(|agent| agent.died.is_none()) {
            self.outcome.sent += agent.seconds as usize;
            self.outcome.merged += agent.known.merged.iter().filter(|merged| **merged).count();
        }
    }

    // --- Between them -----------------------------------------------------------------------------------------

    /// How long a message takes over one link, in seconds.
    fn way(&mut self, delay_s: f64) -> Time {
        ns(delay_s + self.dice.exponential(self.plan.world.jitter * delay_s))
    }

    /// A client writes a message to its connection, or keeps it while it has none.
    fn write(&mut self, client: usize, parcel: Parcel, event: Event, at: Time) {
        if !self.links[client].connected {
            self.links[client].held.push(parcel);
            return;
        }
        let arrives = at + self.way(self.links[client].up_s);
        let link = &mut self.links[client];
        link.up_last = link.up_last.max(arrives);
        self.calendar.plan(link.up_last, event);
    }

    /// The broker passes a message on to a client, when it is done with those before. When it arrives, if at all.
    fn pass_on(&mut self, client: usize) -> Option<(Time, Passage)> {
        let lost = self.dice.happens(self.plan.world.loss);
        if lost || !self.broker.up || !self.links[client].connected {
            return None;
        }
        let cost_s = match client == self.coordinator() {
            true => self.plan.costs.broker_s,
            false => self.plan.costs.fan_out_s,
        };
        self.broker.free = self.broker.free.max(self.now) + ns(cost_s);
        if self.is_load() {
            self.outcome.broker_share += cost_s;
        }
        let left = self.broker.free;
        let arrives = left + self.way(self.links[client].down_s);
        let link = &mut self.links[client];
        link.down_last = link.down_last.max(arrives);
        let life = self.broker.life;
        Some((link.down_last, Passage { left, life }))
    }

    fn up_at_broker(&mut self, agent: usize, parcel: Parcel) {
        if let Some((arrives, passage)) = self.pass_on(self.coordinator()) {
            self.calendar
                .plan(arrives, Event::AtCoordinator(agent, parcel, passage));
        }
    }

    fn down_at_broker(&mut self, parcel: Parcel) {
        let all = self.agents.len();
        let (first, count) = match parcel {
            Parcel::Start(to) | Parcel::Again(to, _) => (to, 1),
            // The broker's order is another each time.
            _ => ((self.dice.uniform() * all as f64) as usize, all),
        };
        for agent in (first..first + count).map(|nth| nth % all) {
            if let Some((arrives, passage)) = self.pass_on(agent) {
                self.calendar
                    .plan(arrives, Event::AtAgent(agent, parcel, passage));
            }
        }
    }

    /// Whether the broker ended before a message had left it.
    fn is_lost(&self, passage: Passage) -> bool {
        passage.life != self.broker.life && passage.left > self.broker.went
    }

    fn broker_down(&mut self) {
        self.broker.up = false;
        self.broker.went = self.now;
        self.broker.free = self.now;
        self.broker.life += 1;
        let outage = ns(self.plan.outage_s.unwrap_or_default());
        self.calendar.plan(self.now + outage, Event::BrokerUp);
        for client in 0..self.links.len() {
            let at = self.now + ns(self.links[client].down_s);
            self.calendar.plan(at, Event::Disconnected(client));
        }
    }

    /// A client asks the broker for a connection.
    fn knock(&mut self, client: usize) {
        let link = &mut self.links[client];
        let back_s = link.down_s;
        if !self.broker.up {
            link.attempts += 1;
            let pause_s = self.plan.timings.pause_s(link.attempts);
            self.calendar
                .plan(self.now + ns(back_s + pause_s), Event::Attempt(client));
            return;
        }
        // There and back three times: TCP, greeting, login.
        let handshake_s = back_s + 2.0 * (link.up_s + back_s);
        self.broker.free = self.broker.free.max(self.now) + ns(self.plan.costs.connect_s);
        self.calendar
            .plan(self.broker.free + ns(handshake_s), Event::Connected(client));
    }

    fn connected(&mut self, client: usize) {
        self.links[client].connected = true;
        for parcel in std::mem::take(&mut self.links[client].held) {
            if client == self.coordinator() {
                self.send_down(parcel, self.now);
            } else {
                self.send_up(client, parcel);
            }
        }
    }
}

impl Agent {
    fn new(host: Host) -> Self {
        Self {
            host,
            stalled_until: 0,
            died: None,
            running: false,
            heard: 0,
            seconds: 0,
            known: Known::default(),
        }
    }
}
