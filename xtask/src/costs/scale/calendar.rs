//! What is going to happen, in the order in which it will.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nanoseconds of true time since the simulation began.
pub(super) type Time = u64;

/// Nanoseconds of a span in seconds; 0 of a negative one.
pub(super) fn ns(seconds: f64) -> Time {
    (seconds * 1e9).round().max(0.0) as Time
}

/// Seconds of a span.
pub(super) fn seconds(time: Time) -> f64 {
    time as f64 / 1e9
}

/// Events by time. Those of one moment happen in the order in which they were planned, so that a seed means one
/// simulation.
pub(super) struct Calendar<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    planned: u64,
}

struct Entry<E> {
    at: Time,
    number: u64,
    event: E,
}

impl<E> Calendar<E> {
    pub(super) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            planned: 0,
        }
    }

    /// Plans an event.
    pub(super) fn plan(&mut self, at: Time, event: E) {
        let number = self.planned;
        self.planned += 1;
        self.heap.push(Reverse(Entry { at, number, event }));
    }

    /// The next event and its time.
    pub(super) fn next(&mut self) -> Option<(Time, E)> {
        self.heap
            .pop()
            .map(|Reverse(entry)| (entry.at, entry.event))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_happen_by_time_and_then_as_they_were_planned() {
        let mut calendar = Calendar::new();
        for (at, event) in [(3, "d"), (1, "a"), (2, "b"), (2, "c")] {
            calendar.plan(at, event);
        }
        let order: Vec<&str> =
            std::iter::from_fn(|| calendar.next().map(|(_, event)| event)).collect();
        assert_eq!(order, ["a", "b", "c", "d"]);
    }
}
