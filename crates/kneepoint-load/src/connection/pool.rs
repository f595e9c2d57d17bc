//! The connections of one thread: which are idle, how many may be open, and who closes first.

use crate::connection::line::Line;
use crate::connection::tls::TlsSession;
use crate::in_flight::NONE;
use crate::response::{Parser, Reply};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::VecDeque;

/// How long a server that announced it would close may take before the generator closes instead.
const LINGER_NS: u64 = 1_000_000_000;
/// How soon after a request the end of a kept connection comes where the server closed it before it saw the request,
/// besides the way to the server \[ours\]: a busy machine takes a tenth of a second to close. What is sent again is counted, since
/// a worker that dies at once looks alike.
const MEANWHILE_NS: u64 = 200_000_000;

/// Whether a kept connection ended so soon after a request went out that the server closed it meanwhile, and did not
/// die of the request. It took `distance` to open the connection.
pub(crate) fn closed_meanwhile(sent: u64, now: u64, distance: u64) -> bool {
    now.saturating_sub(sent) <= distance.saturating_add(MEANWHILE_NS)
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is none in this slot.
    Closed,
    /// The handshake of TCP is under way.
    Connecting,
    /// The handshake of TLS is under way.
    Handshaking,
    /// A request is on it.
    Busy,
    /// Free for the next request.
    Idle,
    /// Its response was the last; the server closes first, so that TIME_WAIT stays there and not here.
    Lingering,
}

/// A slot for one connection after the other, with buffers that are used again.
#[derive(Debug)]
pub(crate) struct Connection<'p> {
    pub(crate) fd: Option<OwnedFd>,
    pub(crate) phase: Phase,
    generation: u32,
    /// The request in flight on it, or [`NONE`].
    pub(crate) request: u32,
    /// When it began to open.
    pub(crate) began: u64,
    /// How long it took to open, without a handshake of TLS: the way to the server and back.
    pub(crate) distance: u64,
    /// Responses completed on it.
    pub(crate) served: u32,
    /// Bytes of the request that are written.
    pub(crate) written: usize,
    /// Why no more of it could be.
    pub(crate) cut: Option<Errno>,
    /// The request when it is not the template's own bytes; empty otherwise.
    pub(crate) own_request: Vec<u8>,
    /// Which turn it has among those kept for somebody; 0 when it is not.
    kept: u64,
    /// Whether epoll also watches for room to write; changed by [`Pool::want_room`] alone.
    wants_room: bool,
    /// Its encryption; `None` when it is plain.
    pub(crate) tls: Option<Box<TlsSession>>,
    /// The slow line of the client whose request it was opened for; `None` where responses are taken as they come, and once it
    /// is over.
    pub(crate) line: Option<Line>,
    pub(crate) parser: Parser,
    pub(crate) reply: Reply<'p>,
}

/// An idle connection that is kept for somebody who thinks: good until it closes or is given to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    slot: u32,
    turn: u64,
}

/// The slots of one thread.
#[derive(Debug)]
pub(crate) struct Pool<'p> {
    slots: Vec<Connection<'p>>,
    vacant: Vec<u32>,
    /// Slot and generation, the last used on top; entries whose connection has closed are passed over.
    idle: Vec<(u32, u32)>,
    lingering: VecDeque<(u64, u32, u32)>,
    /// Those kept for somebody, the longest kept in front; entries that hold no more are passed over.
    kept: VecDeque<Kept>,
    turns: u64,
    open: usize,
    closed_first: u32,
    /// Connections that wait for room to write, those being opened among them.
    unsettled: usize,
    limit: usize,
}

impl Connection<'_> {
    /// Whether it waits for room to write.
    pub(crate) fn wants_room(&self) -> bool {
        self.wants_room
    }
}

impl<'p> Pool<'p> {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            slots: Vec::new(),
            vacant: Vec::new(),
            idle: Vec::new(),
            lingering: VecDeque::new(),
            kept: VecDeque::new(),
            turns: 0,
            open: 0,
            closed_first: 0,
            unsettled: 0,
            limit,
        }
    }

    pub(crate) fn get(&mut self, slot: u32) -> &mut Connection<'p> {
        &mut self.slots[slot as usize]
    }

    /// What epoll hands back for a connection: its slot, and its generation to recognise late events.
    pub(crate) fn token(&self, slot: u32) -> u64 {
        u64::from(self.slots[slot as usize].generation) << 32 | u64::from(slot)
    }

    /// The slot of a token, unless the connection has closed since.
    pub(crate) fn slot_of(&self, token: u64) -> Option<u32> {
        let slot = token as u32;
        self.is_current(slot, (token >> 32) as u32).then_some(slot)
    }

    fn is_current(&self, slot: u32, generation: u32) -> bool {
        self.slots
            .get(slot as usize)
            .is_some_and(|c| c.generation == generation && c.phase != Phase::Closed)
    }

    /// Puts a connection into a slot. The caller has made room.
    pub(crate) fn insert(
        &mut self,
        fd: OwnedFd,
        phase: Phase,
        parser: impl FnOnce() -> Parser,
    ) -> u32 {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Connection {
                fd: None,
                phase: Phase::Closed,
                generation: 0,
                request: NONE,
                began: 0,
                distance: 0,
                served: 0,
                written: 0,
                cut: None,
                own_request: Vec::new(),
                kept: 0,
                wants_room: false,
                tls: None,
                line: None,
                parser: parser(),
                reply: Reply::default(),
            });
            self.slots.len() as u32 - 1
        });
        self.open += 1;
        let connection = self.get(slot);
        connection.fd = Some(fd);
        connection.cut = None;
        connection.phase = phase;
        connection.generation = connection.generation.wrapping_add(1);
        connection.request = NONE;
        connection.served = 0;
        self.want_room(slot, phase == Phase::Connecting);
        slot
    }

    /// Notes whether a connection waits for room to write. Tells whether that is a change.
    pub(crate) fn want_room(&mut self, slot: u32, wanted: bool) -> bool {
        let had = std::mem::replace(&mut self.get(slot).wants_room, wanted);
        self.unsettled = self.unsettled + usize::from(wanted) - usize::from(had);
        had != wanted
    }

    /// Whether every connection waits for nothing but its server's answer, or the next request.
    pub(crate) fn is_settled(&self) -> bool {
        self.unsettled == 0
    }

    /// Closes a connection (which takes it out of epoll) and tells which request was on it, or [`NONE`].
    pub(crate) fn close(&mut self, slot: u32) -> u32 {
        self.open -= 1;
        self.want_room(slot, false);
        self.vacant.push(slot);
        let connection = self.get(slot);
        connection.fd = None;
        connection.tls = None;
        connection.line = None;
        connection.phase = Phase::Closed;
        connection.kept = 0;
        std::mem::replace(&mut connection.request, NONE)
    }

    /// Closes a connection before the server does, which keeps its local port in TIME_WAIT.
    pub(crate) fn close_first(&mut self, slot: u32) -> u32 {
        self.closed_first += u32::from(self.get(slot).phase != Phase::Connecting);
        self.close(slot)
    }

    /// How many were closed before the server did since this was last asked.
    pub(crate) fn take_closed_first(&mut self) -> u32 {
        std::mem::take(&mut self.closed_first)
    }

    /// Frees a connection for the next request.
    pub(crate) fn put_idle(&mut self, slot: u32) {
        let connection = self.get(slot);
        connection.phase = Phase::Idle;
        connection.request = NONE;
        let generation = connection.generation;
        self.idle.push((slot, generation));
        // Connections that closed while idle leave entries behind; they must not pile up.
        if self.idle.len() > 2 * self.slots.len() + 16 {
            let slots = &self.slots;
            self.idle.retain(|(slot, generation)| {
                let c = &slots[*slot as usize];
                c.phase == Phase::Idle && c.generation == *generation
            });
        }
    }

    /// The idle connection that was used last.
    pub(crate) fn take_idle(&mut self) -> Option<u32> {
        while let Some((slot, generation)) = self.idle.pop() {
            if self.is_current(slot, generation) && self.get(slot).phase == Phase::Idle {
                return Some(slot);
            }
        }
        None
    }

    /// Keeps a connection that has just been put idle for one who will come back; `None` when it was not.
    pub(crate) fn keep(&mut self, slot: u32) -> Option<Kept> {
        let connection = self.slots.get_mut(slot as usize)?;
        let listed = Some(&(slot, connection.generation));
        if connection.phase != Phase::Idle || self.idle.last() != listed {
            return None;
        }
        self.idle.pop();
        self.turns += 1;
        let kept = Kept {
            slot,
            turn: self.turns,
        };
        connection.kept = kept.turn;
        self.kept.push_back(kept);
        // Entries of those that were taken again must not pile up.
        if self.kept.len() > 2 * self.slots.len() + 16 {
            let slots = &self.slots;
            self.kept
                .retain(|kept| slots[kept.slot as usize].kept == kept.turn);
        }
        Some(kept)
    }

    /// Takes a connection for the one it was kept for, unless it has closed or was given to another.
    pub(crate) fn take_kept(&mut self, kept: Kept) -> Option<u32> {
        let connection = self.get(kept.slot);
        if connection.kept != kept.turn {
            return None;
        }
        connection.kept = 0;
        Some(kept.slot)
    }

    /// Takes the connection that was kept longest, whoever it was kept for: an arrival that is due comes before
    /// one that may come.
    pub(crate) fn take_longest_kept(&mut self) -> Option<u32> {
        while let Some(kept) = self.kept.pop_front() {
            let taken = self.take_kept(kept);
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    /// How many are open, being opened, or closing.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Leaves a connection for the server to close.
    pub(crate) fn linger(&mut self, slot: u32, now: u64) {
        let connection = self.get(slot);
        connection.phase = Phase::Lingering;
        connection.request = NONE;
        let generation = connection.generation;
        self.lingering
            .push_back((now + LINGER_NS, slot, generation));
    }

    /// Closes what has lingered long enough; tells when to look again.
    pub(crate) fn end_lingering(&mut self, now: u64) -> Option<u64> {
        while let Some(&(until, slot, generation)) = self.lingering.front() {
            let current = self.is_current(slot, generation);
            if current && until > now {
                return Some(until);
            }
            self.lingering.pop_front();
            if current {
                self.close_first(slot);
            }
        }
        None
    }

    /// Whether one more may be opened. A lingering connection makes room; for a request that must have a new
    /// one, so does an idle one.
    pub(crate) fn make_room(&mut self, at_any_price: bool) -> bool {
        if self.open < self.limit {
            return true;
        }
        while let Some((_, slot, generation)) = self.lingering.pop_front() {
            if self.is_current(slot, generation) {
                self.close_first(slot);
                return true;
            }
        }
        if !at_any_price {
            return false;
        }
        let idle = self.take_idle().or_else(|| self.take_longest_kept());
        idle.map(|slot| self.close_first(slot)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::HttpParser;
    use std::fs::File;

    fn pool(limit: usize, connections: usize) -> (Pool<'static>, Vec<u32>) {
        let mut pool = Pool::new(limit);
        let slots = (0..connections).map(|_| {
            let fd = File::open("/dev/null").expect("always there");
            pool.insert(fd.into(), Phase::Busy, || {
                Parser::Http(HttpParser::default())
            })
        });
        let slots = slots.collect();
        (pool, slots)
    }

    /// A connection whose response has come and which is kept for somebody.
    fn kept(pool: &mut Pool<'_>, slot: u32) -> Kept {
        pool.put_idle(slot);
        pool.keep(slot).expect("it is idle")
    }

    #[test]
    fn a_server_that_is_far_away_closes_later() {
        const MS: u64 = 1_000_000;
        assert!(closed_meanwhile(10 * MS, 13 * MS, 0));
        assert!(!closed_meanwhile(10 * MS, 290 * MS, MS));
        assert!(closed_meanwhile(10 * MS, 290 * MS, 90 * MS));
    }

    #[test]
    fn a_kept_connection_is_for_the_one_it_is_kept_for() {
        let (mut pool, slots) = pool(2, 2);
        let mine = kept(&mut pool, slots[0]);
        pool.put_idle(slots[1]);
        assert_eq!(pool.take_idle(), Some(slots[1]));
        assert_eq!(pool.take_idle(), None, "the other one is kept");
        assert_eq!(pool.take_kept(mine), Some(slots[0]));
        assert_eq!(pool.take_kept(mine), None, "once");
        assert_eq!(pool.keep(slots[0]), None, "it is not idle");
    }

    #[test]
    fn a_kept_connection_goes_to_another_before_anybody_waits() {
        let (mut pool, slots) = pool(2, 2);
        let first = kept(&mut pool, slots[1]);
        let second = kept(&mut pool, slots[0]);
        assert!(!pool.make_room(false));
        assert_eq!(pool.take_longest_kept(), Some(slots[1]));
        assert_eq!(pool.take_kept(first), None);
        // Kept again for somebody else, it is not the first one's again.
        let third = kept(&mut pool, slots[1]);
        assert_eq!(pool.take_kept(first), None);
        assert!(pool.make_room(true), "one is closed for a new one");
        assert_eq!(pool.take_kept(second), None, "the longest kept");
        assert_eq!(pool.take_kept(third), Some(slots[1]));
    }

    #[test]
    fn what_closed_is_kept_for_nobody_and_leaves_nothing_behind() {
        let (mut pool, slots) = pool(1, 1);
        let gone = kept(&mut pool, slots[0]);
        pool.close(slots[0]);
        assert_eq!(pool.take_kept(gone), None);
        assert_eq!(pool.take_longest_kept(), None);
        assert_eq!(pool.open(), 0);

        let fd = File::open("/dev/null").expect("always there");
        let slot = pool.insert(fd.into(), Phase::Busy, || unreachable!("the slot is known"));
        for _ in 0..1000 {
            let mine = kept(&mut pool, slot);
            assert_eq!(pool.take_kept(mine), Some(slot));
        }
        assert!(pool.kept.len() <= 20, "{}", pool.kept.len());
    }
}
