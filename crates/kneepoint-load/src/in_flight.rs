//! Requests between their intended start and their end, and the one timeout that bounds them.

mod clock;

pub(crate) use clock::{Clock, nanos};

use std::collections::VecDeque;

/// No connection, or no user.
pub(crate) const NONE: u32 = u32::MAX;

/// One arrival that has not ended. Times are nanoseconds since the load began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlightRequest {
    pub(crate) intended: u64,
    /// When it was written to a connection; 0 before.
    pub(crate) sent: u64,
    /// When the first byte of its response came; 0 before.
    pub(crate) first_byte: u64,
    /// No other request of the load has it.
    pub(crate) number: u64,
    /// Index of its template.
    pub(crate) template: u32,
    /// Whose cookies it carries, or [`NONE`]. All requests of a session have the same.
    pub(crate) user: u32,
    /// The virtual user whose it is, or [`NONE`] where all are alike.
    pub(crate) vu: u32,
    /// Its connection, or [`NONE`] while it waits for one.
    pub(crate) connection: u32,
    /// Whether it is in the queue for a connection.
    pub(crate) queued: bool,
    /// Whether its first connection turned out stale, so that it needs a new one.
    pub(crate) retried: bool,
    generation: u32,
    live: bool,
}

/// A reference to a request that knows when that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestRef {
    pub(crate) id: u32,
    generation: u32,
}

/// All requests of a thread that are in flight, in memory that is used again.
///
/// Deadlines are a queue: the timeout is the same for all and intended starts do not go back, so the next to
/// expire is always in front. A request that ends leaves its deadline behind, to be dropped when it comes up.
#[derive(Debug)]
pub(crate) struct InFlight {
    all: Vec<InFlightRequest>,
    free: Vec<u32>,
    deadlines: VecDeque<RequestRef>,
    timeout: u64,
    next_number: u64,
    numbers_apart: u64,
}

impl InFlight {
    pub(crate) fn new(timeout_ns: u64) -> Self {
        Self {
            all: Vec::new(),
            free: Vec::new(),
            deadlines: VecDeque::new(),
            timeout: timeout_ns,
            next_number: 0,
            numbers_apart: 1,
        }
    }

    /// The same with numbers that no other of these threads gives.
    pub(crate) fn numbered(self, first: u64, apart: u64) -> Self {
        Self {
            next_number: first,
            numbers_apart: apart,
            ..self
        }
    }

    pub(crate) fn start(&mut self, intended: u64, template: u32, user: u32, vu: u32) -> RequestRef {
        let id = self.free.pop().unwrap_or(self.all.len() as u32);
        let generation = match self.all.get(id as usize) {
            Some(before) => before.generation.wrapping_add(1),
            None => 0,
        };
        let number = self.next_number;
        self.next_number += self.numbers_apart;
        let request = InFlightRequest {
            number,
            intended,
            sent: 0,
            first_byte: 0,
            template,
            user,
            vu,
            connection: NONE,
            queued: false,
            retried: false,
            generation,
            live: true,
        };
        match self.all.get_mut(id as usize) {
            Some(place) => *place = request,
            None => self.all.push(request),
        }
        let reference = RequestRef { id, generation };
        self.deadlines.push_back(reference);
        reference
    }

    /// Ends a request and tells what it was.
    pub(crate) fn end(&mut self, id: u32) -> InFlightRequest {
        let request = &mut self.all[id as usize];
        debug_assert!(request.live, "every arrival ends once");
        request.live = false;
        self.free.push(id);
        *request
    }

    pub(crate) fn get(&self, id: u32) -> &InFlightRequest {
        &self.all[id as usize]
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> &mut InFlightRequest {
        &mut self.all[id as usize]
    }

    pub(crate) fn reference(&self, id: u32) -> RequestRef {
        RequestRef {
            id,
            generation: self.all[id as usize].generation,
        }
    }

    pub(crate) fn is_live(&self, reference: RequestRef) -> bool {
        let request = &self.all[reference.id as usize];
        request.live && request.generation == reference.generation
    }

    /// Whether a request's time is over.
    pub(crate) fn is_overdue(&self, id: u32, now: u64) -> bool {
        self.get(id).intended.saturating_add(self.timeout) <= now
    }

    /// How many are under way.
    pub(crate) fn live(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// When the next live request expires.
    pub(crate) fn next_deadline(&mut self) -> Option<u64> {
        while let Some(&front) = self.deadlines.front() {
            if self.is_live(front) {
                return Some(self.get(front.id).intended.saturating_add(self.timeout));
            }
            self.deadlines.pop_front();
        }
        None
    }

    /// A live request whose time is over.
    pub(crate) fn expired(&mut self, now: u64) -> Option<u32> {
        let deadline = self.next_deadline()?;
        (deadline <= now)
            .then(|| self.deadlines.front().map(|front| front.id))
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_flights_of_a_load_have_one_number() {
        let numbers = |thread| {
            let mut in_flight = InFlight::new(100).numbered(thread, 2);
            let started = [(), ()].map(|()| in_flight.start(0, 0, NONE, NONE));
            started.map(|request| in_flight.get(request.id).number)
        };
        assert_eq!([numbers(0), numbers(1)], [[0, 2], [1, 3]]);
    }

    #[test]
    fn flights_expire_in_order_and_ended_ones_never() {
        let mut in_flight = InFlight::new(100);
        let [a, b, c] = [0, 10, 20].map(|at| in_flight.start(at, 0, NONE, NONE));
        in_flight.end(b.id);
        assert_eq!(in_flight.live(), 2);
        assert_eq!(in_flight.next_deadline(), Some(100));
        assert_eq!(in_flight.expired(99), None);
        assert_eq!(in_flight.expired(100), Some(a.id));
        in_flight.end(a.id);
        assert_eq!(in_flight.next_deadline(), Some(120));
        // The place of b is taken again: its old deadline must not end the new request.
        let d = in_flight.start(500, 0, NONE, NONE);
        in_flight.end(c.id);
        assert_eq!(in_flight.next_deadline(), Some(600));
        assert!(in_flight.is_live(d) && !in_flight.is_live(b));
    }
}
