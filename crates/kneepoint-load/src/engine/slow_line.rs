//! What happens on the connection of a client with a slow line: its response is taken as the line carries it.
//!
//! Such a client comes with a connection of its own and leaves with it: the small buffer of its socket would hold up others.

use crate::connection::{Connection, Phase};
use crate::engine::worker::Worker;
use crate::in_flight::Clock;
use rustix::event::epoll::EventFlags;

/// Signs that a connection is over, whatever is still on its way.
const OVER: EventFlags = EventFlags::HUP.union(EventFlags::ERR);

/// How much of a connection may be taken at once, into a buffer of such a size.
pub(crate) fn most_at_once(
    connection: &Connection<'_>,
    clock: Clock,
    buffer_bytes: usize,
) -> usize {
    match &connection.line {
        Some(line) => line.carried(clock.now()).min(buffer_bytes),
        None => buffer_bytes,
    }
}

impl Worker<'_> {
    /// Whether what the server sent has to be carried first. It is taken then ([`serve_lines`](Self::serve_lines)).
    pub(crate) fn must_carry(&mut self, slot: u32, flags: EventFlags) -> bool {
        let token = self.pool.token(slot);
        let connection = self.pool.get(slot);
        if flags.intersects(OVER) {
            connection.line = None;
        }
        let Some(line) = connection
            .line
            .as_mut()
            .filter(|_| connection.phase == Phase::Busy)
        else {
            return false;
        };
        if line.is_carrying() {
            return true;
        }
        let now = self.ledger.clock.now();
        let at = line.begin(now);
        self.lines.look_at(at, token);
        self.watch_again(slot);
        true
    }

    /// Takes what slow lines have carried by now. Requests leave at their time meanwhile.
    pub(crate) fn serve_lines(&mut self, now: u64) {
        while let Some(token) = self.lines.due(now) {
            if let Some(slot) = self.pool.slot_of(token) {
                self.read(slot, false);
                if self.has_due_times {
                    self.start_due();
                }
            }
        }
    }

    /// Leaves a connection, whose response is complete, for the server to close. That of a slow client is watched for it again.
    pub(crate) fn leave(&mut self, slot: u32, now: u64) {
        if self.pool.get(slot).line.take().is_some() {
            self.watch_again(slot);
        }
        self.pool.linger(slot, now);
    }

    /// So many bytes were taken of the most that could be, and the response is not complete. Does nothing where no slow line
    /// carries.
    pub(crate) fn carried(&mut self, slot: u32, count: usize, most: usize) {
        let token = self.pool.token(slot);
        let connection = self.pool.get(slot);
        let Some(line) = connection.line.as_mut().filter(|line| line.is_carrying()) else {
            return;
        };
        if count < most {
            line.rest();
            self.watch_again(slot);
        } else {
            let at = line.took(count);
            self.lines.look_at(at, token);
        }
    }
}
