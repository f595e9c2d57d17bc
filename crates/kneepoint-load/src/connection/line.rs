//! The slow line of a client: what of a response it has carried so far, and when it has carried more.
//!
//! Bytes are taken from the socket only once the line would have carried them, and the socket's own buffer is small: what is
//! not taken stays with the server, as it does where a client is slow.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// What one packet carries: the least that is taken at once.
pub(crate) const PACKET_BYTES: usize = 1448;
/// How long a line carries before what it carried is taken, at most: each look costs a wake-up.
const LOOK_NS: f64 = 50e6;
/// The most that is taken at once, on the fastest of slow lines.
const MOST_BYTES: usize = 64 << 10;

/// The line of the client whose request is on a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    ns_per_byte: f64,
    /// What is taken at once when it carries without a break.
    at_once: usize,
    /// What it carries until the next look.
    step: usize,
    /// Since when it carries what has not been taken; `None` while there is nothing to carry.
    since: Option<u64>,
}

impl Line {
    /// A line that carries so many Mbit a second.
    pub(crate) fn of_mbit(mbit: f64) -> Self {
        let ns_per_byte = 8e3 / mbit;
        Self {
            ns_per_byte,
            at_once: ((LOOK_NS / ns_per_byte) as usize).clamp(PACKET_BYTES, MOST_BYTES),
            step: PACKET_BYTES,
            since: None,
        }
    }

    /// How much the socket may hold: what is taken at the next look, and as much on its way.
    pub(crate) fn buffer_bytes(&self) -> usize {
        2 * self.at_once
    }

    /// Whether it has yet to carry what the server sent.
    pub(crate) fn is_carrying(&self) -> bool {
        self.since.is_some()
    }

    /// The server has sent something: it begins to carry. Tells when to look.
    pub(crate) fn begin(&mut self, now: u64) -> u64 {
        self.step = PACKET_BYTES;
        self.since = Some(now);
        self.look_at(now)
    }

    /// How many bytes may be taken now.
    pub(crate) fn carried(&self, now: u64) -> usize {
        self.since.map_or(usize::MAX, |since| {
            let bytes = now.saturating_sub(since) as f64 / self.ns_per_byte;
            (bytes as usize).clamp(1, MOST_BYTES)
        })
    }

    /// So many bytes of a line that carries were taken, and there may be more. Tells when to look again.
    pub(crate) fn took(&mut self, bytes: usize) -> u64 {
        debug_assert!(self.is_carrying(), "nothing is taken that was not carried");
        let taken_ns = (bytes as f64 * self.ns_per_byte) as u64;
        let since = self.since.unwrap_or_default().saturating_add(taken_ns);
        self.since = Some(since);
        self.step = (2 * self.step).min(self.at_once);
        self.look_at(since)
    }

    /// All that the server sent was taken: the line has nothing to carry, and the time it rests is lost.
    pub(crate) fn rest(&mut self) {
        self.since = None;
    }

    fn look_at(&self, since: u64) -> u64 {
        since.saturating_add((self.step as f64 * self.ns_per_byte) as u64)
    }
}

/// The connections of a thread whose lines carry, by when to look at each.
#[derive(Debug, Default)]
pub(crate) struct Lines(BinaryHeap<Reverse<(u64, u64)>>);

impl Lines {
    /// A connection, by its token, is to be looked at then.
    pub(crate) fn look_at(&mut self, at: u64, token: u64) {
        self.0.push(Reverse((at, token)));
    }

    /// When to look again, where a look may be so late: those that are due within that time share a wake-up.
    pub(crate) fn next_within(&self, late_ns: u64) -> u64 {
        let next = self.0.peek();
        next.map_or(u64::MAX, |Reverse((at, _))| at.saturating_add(late_ns))
    }

    /// A connection that is to be looked at by now. It may have closed since.
    pub(crate) fn due(&mut self, now: u64) -> Option<u64> {
        let next = self.0.peek_mut()?;
        let Reverse((at, token)) = *next;
        (at <= now).then(|| {
            PeekMut::pop(next);
            token
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Has a line carry a response that the server has sent in full, looking whenever it says; each look comes so much later.
    /// The time at which the last byte was taken.
    fn carry(mbit: f64, bytes: usize, late_ns: u64) -> u64 {
        let mut line = Line::of_mbit(mbit);
        let (mut left, mut look, mut now) = (bytes, line.begin(1000), 1000);
        loop {
            now = look.max(now) + late_ns;
            let taken = line.carried(now).min(left);
            left -= taken;
            if left == 0 {
                return now - 1000;
            }
            look = line.took(taken);
        }
    }

    #[test]
    fn a_line_carries_at_its_rate() {
        // 400 kB at 1.6 Mbit/s: 2 s, and at most a look later.
        let took_ms = carry(1.6, 400_000, 0) as f64 / 1e6;
        assert!((2000.0..2060.0).contains(&took_ms), "{took_ms}");
        // A small page is there after its packets, and not after a whole look.
        let took_ms = carry(1.6, 1000, 0) as f64 / 1e6;
        assert!((5.0..8.0).contains(&took_ms), "{took_ms}");
    }

    #[test]
    fn a_line_that_rested_carries_no_faster_afterwards() {
        let mut line = Line::of_mbit(8.0);
        assert_eq!(line.carried(0), usize::MAX, "nobody carries anything");
        line.begin(0);
        assert_eq!(line.carried(2_000_000), 2000);
        line.rest();
        line.begin(900_000_000);
        assert_eq!(line.carried(902_000_000), 2000);
    }

    #[test]
    fn lines_are_looked_at_in_order() {
        let mut lines = Lines::default();
        for (at, token) in [(30, 1), (10, 2), (20, 3)] {
            lines.look_at(at, token);
        }
        assert_eq!((lines.next_within(5), lines.due(9)), (15, None));
        assert_eq!(
            [lines.due(20), lines.due(20), lines.due(20)],
            [Some(2), Some(3), None]
        );
    }

    proptest! {
        #[test]
        fn late_looks_make_no_line_faster_and_hardly_slower(
            mbit in 0.01..1000.0f64, bytes in 1..2_000_000usize, late_ns in 0..20_000_000u64,
        ) {
            // What a whole second carries is not worth a thousand looks more here.
            let bytes = bytes.min((mbit * 125e3 * 5.0) as usize).max(1);
            let exact_ns = bytes as f64 * 8e3 / mbit;
            let took_ns = carry(mbit, bytes, late_ns) as f64;
            prop_assert!(took_ns + 8e3 / mbit >= exact_ns, "{took_ns} {exact_ns}");
            let look_ns = LOOK_NS.max(PACKET_BYTES as f64 * 8e3 / mbit);
            // Beyond 64 KiB a look, a line is as fast as the looks are.
            let looks = (bytes / MOST_BYTES) as f64 * late_ns as f64;
            prop_assert!(took_ns <= exact_ns + 2.0 * look_ns + late_ns as f64 + looks, "{took_ns} {exact_ns}");
        }
    }
}
