//! What the coordinator does.

use super::{Duty, Event, Fleet, Parcel, Passage};
use crate::costs::scale::calendar::{Time, ns, seconds};

impl Fleet<'_> {
    pub(super) fn coordinator(&self) -> usize {
        self.agents.len()
    }

    pub(super) fn duty(&mut self, duty: Duty) {
        let timings = self.plan.timings;
        match duty {
            Duty::Ping => {
                let sent = self.work(self.plan.costs.message_s);
                self.send_down(Parcel::Ping(sent), sent);
            }
            Duty::Start => {
                self.tell_bound();
                for agent in 0..self.agents.len() {
                    self.agents[agent].known.last_heard = self.begin;
                    let sent = self.work(self.plan.costs.message_s);
                    self.send_down(Parcel::Start(agent), sent);
                }
                self.duty(Duty::Pulse);
                self.calendar.plan(self.begin, Event::Duty(Duty::Look));
            }
            Duty::Pulse if self.now < self.stop => {
                let sent = self.work(self.plan.costs.message_s);
                self.send_down(Parcel::Pulse(sent), sent);
                let at = self.now + ns(timings.pulse_every_s);
                self.calendar.plan(at, Event::Duty(Duty::Pulse));
            }
            Duty::Look if self.now < self.end => {
                self.look();
                let at = self.now + ns(timings.look_every_s);
                self.calendar.plan(at, Event::Duty(Duty::Look));
            }
            Duty::Pulse | Duty::Look => {}
            Duty::Stop => self.send_down(Parcel::Stop, self.now),
        }
    }

    /// Half of the way there and back is the most by which an offset can be wrong; two agents can be so to either side.
    fn tell_bound(&mut self) {
        let trips = self.agents.iter().filter_map(|agent| agent.known.best);
        let mut halves: Vec<f64> = trips.map(|(trip_s, _)| trip_s / 2.0).collect();
        halves.sort_by(|a, b| b.total_cmp(a));
        self.outcome.bound_s = halves.iter().take(2).sum();
    }

    /// Calls agents late and gone that were silent for too long.
    fn look(&mut self) {
        let (late, gone) = (ns(self.plan.timings.late_s), ns(self.plan.timings.gone_s));
        for agent in &mut self.agents {
            let silence = self.now.saturating_sub(agent.known.last_heard);
            let since = agent.died.map(|died| seconds(self.now - died));
            if silence > late && !std::mem::replace(&mut agent.known.late, true) {
                self.outcome.false_late += usize::from(since.is_none());
                self.outcome.late_s.extend(since);
            }
            if silence > gone && !std::mem::replace(&mut agent.known.gone, true) {
                self.outcome.false_gone += usize::from(since.is_none());
                self.outcome.gone_s.extend(since);
            }
        }
    }

    /// Whether load is sent.
    pub(super) fn is_load(&self) -> bool {
        (self.begin..self.end).contains(&self.now)
    }

    /// The coordinator's CPU does something as soon as it is free. When that is done.
    fn work(&mut self, cost_s: f64) -> Time {
        self.free = self.free.max(self.now) + ns(cost_s);
        if self.is_load() {
            self.outcome.cpu_share += cost_s;
        }
        self.free
    }

    /// What a message to the coordinator costs it in seconds, and its bytes.
    fn weight(&self, parcel: Parcel) -> (f64, f64) {
        let costs = &self.plan.costs;
        match parcel {
            Parcel::Second(_) => (costs.message_s + costs.merge_s, costs.second_bytes),
            Parcel::Done(_) => (costs.message_s + costs.done_s, costs.done_bytes),
            _ => (costs.message_s, costs.beat_bytes),
        }
    }

    pub(super) fn at_coordinator(&mut self, agent: usize, parcel: Parcel, passage: Passage) {
        if self.is_lost(passage) {
            return;
        }
        let (cost_s, bytes) = self.weight(parcel);
        if self.is_load() {
            self.outcome.bytes_hz += bytes;
        }
        self.waiting_bytes += bytes;
        self.outcome.waiting_bytes = self.outcome.waiting_bytes.max(self.waiting_bytes);
        let done = self.work(cost_s);
        self.calendar.plan(done, Event::Handled(agent, parcel));
    }

    pub(super) fn handled(&mut self, agent: usize, parcel: Parcel) {
        self.waiting_bytes -= self.weight(parcel).1;
        let known = &mut self.agents[agent].known;
        known.last_heard = known.last_heard.max(self.now);
        known.late = false;
        known.gone = false;
        match parcel {
            Parcel::Pong(sent, came_s, left_s) => {
                let (sent_s, back_s) = (seconds(sent), seconds(self.now));
                let trip_s = (back_s - sent_s) - (left_s - came_s);
                let offset_s = ((came_s - sent_s) + (left_s - back_s)) / 2.0;
                if known.best.is_none_or(|(least_s, _)| trip_s < least_s) {
                    known.best = Some((trip_s, offset_s));
                }
            }
            Parcel::Second(nth) => {
                known
                    .merged
                    .resize(known.merged.len().max(nth as usize + 1), false);
                if !std::mem::replace(&mut known.merged[nth as usize], true) {
                    let ended = self.begin + ns(f64::from(nth + 1));
                    self.outcome
                        .merged_s
                        .push(seconds(self.now.saturating_sub(ended)));
                }
                self.ask_again(agent, nth + 1);
            }
            Parcel::Beat(sent) => self.ask_again(agent, sent),
            Parcel::Done(sent) => {
                if !std::mem::replace(&mut known.done, true) {
                    self.outcome.done_s.push(seconds(self.now - self.stop));
                }
                self.ask_again(agent, sent);
            }
            _ => {}
        }
    }

    /// Asks an agent that has sent so many seconds for those that did not come, now and then.
    fn ask_again(&mut self, agent: usize, sent: u32) {
        let again = ns(self.plan.timings.again_every_s);
        let known = &mut self.agents[agent].known;
        let missing = (0..sent).find(|nth| known.merged.get(*nth as usize) != Some(&true));
        if let Some(from) = missing
            && (known.asked == 0 || self.now >= known.asked + again)
        {
            known.asked = self.now;
            self.send_down(Parcel::Again(agent, from), self.now);
        }
    }

    pub(super) fn send_down(&mut self, parcel: Parcel, at: Time) {
        let event = Event::DownAtBroker(parcel);
        self.write(self.coordinator(), parcel, event, at);
    }
}
