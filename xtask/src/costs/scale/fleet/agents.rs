//! What agents do.

use super::{Event, Fleet, Parcel, Timer};
use crate::costs::scale::calendar::{Time, ns, seconds};

impl Fleet<'_> {
    /// Plans something of an agent's own, so many seconds from now, or by chance in so many.
    pub(super) fn own(&mut self, agent: usize, in_s: f64, by_chance: bool, timer: Timer) {
        let in_s = if by_chance {
            self.dice.exponential(in_s)
        } else {
            in_s
        };
        self.calendar
            .plan(self.now + ns(in_s), Event::Own(agent, timer));
    }

    /// Whether an agent stands still or is dead; what it would have done, it does when it goes on, if ever.
    fn is_still(&mut self, agent: usize, event: Event) -> bool {
        let it = &self.agents[agent];
        if it.died.is_some() {
            return true;
        }
        // A moment later, so that it reads what came before it judges that nothing did.
        let late = Time::from(matches!(event, Event::Own(..)));
        if self.now >= it.stalled_until + late {
            return false;
        }
        self.calendar.plan(it.stalled_until + late, event);
        true
    }

    pub(super) fn timer(&mut self, agent: usize, timer: Timer) {
        if self.is_still(agent, Event::Own(agent, timer)) {
            return;
        }
        match timer {
            Timer::Pong(sent, came_s) => {
                let left_s = self.agents[agent].host.clock_s(seconds(self.now));
                self.send_up(agent, Parcel::Pong(sent, came_s, left_s));
            }
            Timer::Begin => self.begin(agent),
            Timer::Second(nth) if self.agents[agent].running => {
                self.agents[agent].seconds = nth + 1;
                self.send_up(agent, Parcel::Second(nth));
                if nth + 1 < self.plan.load_s {
                    self.own(agent, 1.0, false, Timer::Second(nth + 1));
                }
            }
            Timer::Second(_) => {}
            Timer::Beat => {
                self.send_up(agent, Parcel::Beat(self.agents[agent].seconds));
                if self.now < self.stop {
                    self.own(agent, self.plan.timings.beat_every_s, false, Timer::Beat);
                }
            }
            Timer::DeadMan(heard) => {
                let it = &mut self.agents[agent];
                if it.running && it.heard == heard && self.now < self.end {
                    it.running = false;
                    self.outcome.stopped += 1;
                }
            }
            Timer::Stall => {
                let length = ns(self.dice.exponential(self.plan.world.stall_s));
                self.agents[agent].stalled_until = self.now + length;
                if self.now < self.end {
                    self.own(agent, self.plan.world.stall_every_s, true, Timer::Stall);
                }
            }
            Timer::Done => {
                self.send_up(agent, Parcel::Done(self.agents[agent].seconds));
            }
            Timer::Die => {
                self.agents[agent].died = Some(self.now);
                self.agents[agent].running = false;
            }
        }
    }

    /// An agent begins to send load.
    fn begin(&mut self, agent: usize) {
        self.agents[agent].running = true;
        self.outcome
            .skew_s
            .push(seconds(self.now.abs_diff(self.begin)));
        self.own(agent, 1.0, false, Timer::Second(0));
        let phase = self.dice.between(0.0, self.plan.timings.beat_every_s);
        self.own(agent, phase, false, Timer::Beat);
        self.heard(agent, self.now);
    }

    /// An agent has heard what the coordinator sent at a time.
    fn heard(&mut self, agent: usize, sent: Time) {
        self.agents[agent].heard = self.agents[agent].heard.max(sent);
        let until = sent + ns(self.plan.timings.dead_man_s);
        self.calendar
            .plan(until.max(self.now), Event::Own(agent, Timer::DeadMan(sent)));
    }

    /// An agent takes a message up.
    pub(super) fn read(&mut self, agent: usize, parcel: Parcel) {
        if self.is_still(agent, Event::Read(agent, parcel)) {
            return;
        }
        match parcel {
            Parcel::Ping(sent) => {
                let came_s = self.agents[agent].host.clock_s(seconds(self.now));
                let spread_s = self.plan.timings.spread_s * self.agents.len() as f64;
                let pause_s = self.dice.between(0.0, spread_s);
                self.own(agent, pause_s, false, Timer::Pong(sent, came_s));
            }
            Parcel::Start(_) => {
                // Without any look at its clock it is not ready, and is left out.
                let Some((_, offset_s)) = self.agents[agent].known.best else {
                    return;
                };
                let target_s = self.agents[agent]
                    .host
                    .true_s(seconds(self.begin) + offset_s);
                let wake_s = self.dice.exponential(self.plan.world.wake_s);
                let at = ns(target_s).max(self.now) + ns(wake_s);
                self.calendar.plan(at, Event::Own(agent, Timer::Begin));
            }
            Parcel::Again(_, from) => {
                for nth in from..self.agents[agent].seconds {
                    self.outcome.again += 1;
                    self.send_up(agent, Parcel::Second(nth));
                }
            }
            Parcel::Pulse(sent) => self.heard(agent, sent),
            Parcel::Stop => {
                if std::mem::take(&mut self.agents[agent].running) {
                    let took = seconds(self.now - self.stop) + self.plan.timings.stop_s;
                    self.outcome.stop_s.push(took);
                }
                let spread_s = self.plan.timings.done_spread_s * self.agents.len() as f64;
                let pause_s = self.dice.between(0.0, spread_s.min(1.0));
                self.own(agent, pause_s, false, Timer::Done);
            }
            _ => {}
        }
    }

    pub(super) fn send_up(&mut self, agent: usize, parcel: Parcel) {
        let event = Event::UpAtBroker(agent, parcel);
        self.write(agent, parcel, event, self.now);
    }
}
