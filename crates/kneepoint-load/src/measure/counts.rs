//! What is counted of requests: in a second, in the window, since the last hand-over.

use crate::measure::slowest::Slowest;
use kneepoint_model::{LatencyHistogram, Outcome, OutcomeCounts};

/// How requests ended, in a form that is cheap to add to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    by_outcome: [u64; Outcome::ALL.len()],
    /// Few statuses occur, so a list beats a map.
    by_status: Vec<(u16, u64)>,
}

impl Counts {
    pub(crate) fn add(&mut self, outcome: Outcome, status: u16) {
        self.by_outcome[outcome as usize] += 1;
        if status != 0 {
            self.add_status(status, 1);
        }
    }

    fn add_status(&mut self, status: u16, count: u64) {
        match self
            .by_status
            .iter_mut()
            .find(|(known, _)| *known == status)
        {
            Some((_, sum)) => *sum += count,
            None => self.by_status.push((status, count)),
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (sum, count) in self.by_outcome.iter_mut().zip(other.by_outcome) {
            *sum += count;
        }
        for (status, count) in &other.by_status {
            self.add_status(*status, *count);
        }
    }

    pub(crate) fn of(&self, outcome: Outcome) -> u64 {
        self.by_outcome[outcome as usize]
    }

    pub(crate) fn total(&self) -> u64 {
        self.by_outcome.iter().sum()
    }

    pub(crate) fn to_model(&self) -> OutcomeCounts {
        OutcomeCounts {
            by_outcome: Outcome::ALL
                .into_iter()
                .map(|outcome| (outcome, self.of(outcome)))
                .filter(|(_, count)| *count > 0)
                .collect(),
            by_status: self.by_status.iter().copied().collect(),
        }
    }
}

/// Arrivals of one second of intended start.
#[derive(Debug, Default)]
pub(crate) struct SecondTally {
    pub(crate) offered: u64,
    pub(crate) counts: Counts,
    pub(crate) good: u64,
    /// Response times of the `Ok` ones.
    pub(crate) response: Option<Box<LatencyHistogram>>,
}

impl SecondTally {
    /// Whether every request of it has ended.
    pub(crate) fn is_complete(&self) -> bool {
        self.offered == self.counts.total()
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.offered += other.offered;
        self.counts.merge(&other.counts);
        self.good += other.good;
        match (&mut self.response, other.response) {
            (Some(sum), Some(more)) => sum.merge(&more),
            (empty @ None, some) => *empty = some,
            (Some(_), None) => {}
        }
    }
}

/// Arrivals with an intended start in the window.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub(crate) arrivals: u64,
    pub(crate) counts: Counts,
    pub(crate) good: u64,
    pub(crate) response: LatencyHistogram,
    pub(crate) service: LatencyHistogram,
    pub(crate) failed_response: LatencyHistogram,
    /// How late the generator was to handle arrivals.
    pub(crate) lag: LatencyHistogram,
    /// Arrivals handled so late that they could not have been good.
    pub(crate) late: u64,
    pub(crate) connections_opened: u64,
    pub(crate) sent_again: u64,
    pub(crate) bytes_received: u64,
    pub(crate) slowest: Slowest,
}

impl Window {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.arrivals += other.arrivals;
        self.counts.merge(&other.counts);
        self.good += other.good;
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.failed_response.merge(&other.failed_response);
        self.lag.merge(&other.lag);
        self.late += other.late;
        self.connections_opened += other.connections_opened;
        self.sent_again += other.sent_again;
        self.bytes_received += other.bytes_received;
        self.slowest.merge(&other.slowest);
    }
}

/// What happened since the last hand-over, by when it happened.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) arrivals: u64,
    pub(crate) counts: Counts,
    pub(crate) good: u64,
    pub(crate) response: LatencyHistogram,
    /// Of those that ended, how many belong to the window, and how many of these were good.
    pub(crate) window_ended: u64,
    pub(crate) window_good: u64,
}

impl Live {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.arrivals += other.arrivals;
        self.counts.merge(&other.counts);
        self.good += other.good;
        self.response.merge(&other.response);
        self.window_ended += other.window_ended;
        self.window_good += other.window_good;
    }
}

/// How many of something there are at a moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gauges {
    /// Connections that are open, being opened, or closing.
    pub(crate) connections: u64,
    /// Arrivals that wait for a connection.
    pub(crate) backlog: u64,
}
