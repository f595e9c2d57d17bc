//! What one thread writes down: the window, a record per second, and a running account for those who watch.

use crate::in_flight::InFlightRequest;
use crate::measure::counts::{Counts, Gauges, Live, SecondTally, Window};
use crate::measure::mailbox::Mailbox;
use crate::measure::slowest::Slowest;
use kneepoint_model::Outcome;
use std::collections::VecDeque;

const SECOND_NS: u64 = 1_000_000_000;
/// How often a thread hands over what it has, in nanoseconds.
pub(crate) const PUBLISH_EVERY_NS: u64 = 100_000_000;

/// The limits a recorder judges by, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Intended starts before this are not in the window.
    pub(crate) skip: u64,
    /// Longest response time that is good.
    pub(crate) good: u64,
    /// The timeout.
    pub(crate) timeout: u64,
    /// How many of the slowest requests are named.
    pub(crate) slowest: usize,
}

/// The account of one thread.
#[derive(Debug)]
pub(crate) struct Recorder {
    limits: Limits,
    pub(crate) window: Window,
    /// Seconds that are not complete yet, the first being number `first_second`.
    seconds: VecDeque<SecondTally>,
    first_second: u64,
    live: Live,
    publish_at: u64,
}

impl Recorder {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            window: Window {
                slowest: Slowest::of(limits.slowest),
                ..Window::default()
            },
            seconds: VecDeque::new(),
            first_second: 0,
            live: Live::default(),
            publish_at: PUBLISH_EVERY_NS,
        }
    }

    fn second(&mut self, intended: u64) -> &mut SecondTally {
        // A second is handed over only when no arrival of it can still come, so this never underflows.
        let index = (intended / SECOND_NS - self.first_second) as usize;
        while self.seconds.len() <= index {
            self.seconds.push_back(SecondTally::default());
        }
        &mut self.seconds[index]
    }

    /// The engine has taken up an arrival.
    pub(crate) fn arrived(&mut self, intended: u64, now: u64) {
        self.live.arrivals += 1;
        self.second(intended).offered += 1;
        if intended >= self.limits.skip {
            let lag = now.saturating_sub(intended);
            self.window.arrivals += 1;
            self.window.lag.record_us(lag / 1000);
            self.window.late += u64::from(lag > self.limits.good);
        }
    }

    /// A request has ended, with this status if there was a response.
    pub(crate) fn ended(
        &mut self,
        request: &InFlightRequest,
        outcome: Outcome,
        status: u16,
        now: u64,
    ) {
        // One that left a little before its time is measured from when it left.
        let began = match request.sent {
            0 => request.intended,
            sent => sent.min(request.intended),
        };
        let mut response = now.saturating_sub(began);
        if outcome == Outcome::Timeout {
            response = response.max(self.limits.timeout);
        }
        let ok = outcome == Outcome::Ok;
        let good = ok && response <= self.limits.good;
        let (response_us, service_us) = (response / 1000, now.saturating_sub(request.sent) / 1000);

        let second = self.second(request.intended);
        second.counts.add(outcome, status);
        second.good += u64::from(good);
        if ok {
            let histogram = second.response.get_or_insert_default();
            histogram.record_us(response_us);
            self.live.response.record_us(response_us);
        }
        self.live.counts.add(outcome, status);
        self.live.good += u64::from(good);
        if request.intended < self.limits.skip {
            return;
        }
        self.live.window_ended += 1;
        self.live.window_good += u64::from(good);
        self.window.counts.add(outcome, status);
        self.window.good += u64::from(good);
        self.window.slowest.note(response_us, request.number);
        if ok {
            self.window.response.record_us(response_us);
            self.window.service.record_us(service_us);
        } else {
            self.window.failed_response.record_us(response_us);
        }
    }

    /// Bytes of a response came for an arrival.
    pub(crate) fn received(&mut self, intended: u64, bytes: usize) {
        if intended >= self.limits.skip {
            self.window.bytes_received += bytes as u64;
        }
    }

    /// A connection was opened.
    pub(crate) fn opened(&mut self, now: u64) {
        self.window.connections_opened += u64::from(now >= self.limits.skip);
    }

    /// A request goes out once more, since its connection had been closed.
    pub(crate) fn sent_again(&mut self, intended: u64) {
        self.window.sent_again += u64::from(intended >= self.limits.skip);
    }

    /// When to hand over next.
    pub(crate) fn publish_at(&self) -> u64 {
        self.publish_at
    }

    /// Makes a record of every second that has passed until a time, also of those in which nothing arrived.
    pub(crate) fn pass(&mut self, until: u64) {
        let passed = (until / SECOND_NS).saturating_sub(self.first_second) as usize;
        while self.seconds.len() < passed {
            self.seconds.push_back(SecondTally::default());
        }
    }

    /// Hands over the running account and the seconds that are complete: those before `floor`, the earliest
    /// intended start that may still come. With `ended_at`, this is the last time.
    pub(crate) fn publish(
        &mut self,
        mailbox: &Mailbox,
        now: u64,
        floor: u64,
        gauges: Gauges,
        ended_at: Option<u64>,
    ) {
        self.publish_at = now + PUBLISH_EVERY_NS;
        let mut snapshot = mailbox.open();
        snapshot.gauges = Some(gauges);
        snapshot.ended_at = ended_at;
        snapshot.live.merge(&self.live);
        self.live.arrivals = 0;
        self.live.counts = Counts::default();
        self.live.good = 0;
        self.live.window_ended = 0;
        self.live.window_good = 0;
        self.live.response.clear();
        while self.first_second < floor / SECOND_NS
            && self.seconds.front().is_some_and(SecondTally::is_complete)
        {
            self.first_second += 1;
            snapshot.seconds.extend(self.seconds.pop_front());
        }
    }

    /// The window. The seconds have all been handed over.
    pub(crate) fn finish(self) -> Window {
        self.window
    }
}
