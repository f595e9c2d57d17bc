//! The connections of one thread, and how many requests are on each.

use bytes::Bytes;
use futures_util::FutureExt;
use h2::client::SendRequest;
use std::future::poll_fn;

/// One connection, which events name by its slot and generation.
#[derive(Debug)]
struct Connection {
    generation: u32,
    state: State,
    /// When it began to open, and how long that took, its handshakes included.
    began: u64,
    distance: u64,
    /// Requests on it.
    streams: u32,
    /// Requests that have ended on it.
    served: u32,
    /// Whether it is gone, and only the ends of its requests are still to be told.
    over: bool,
}

#[derive(Debug)]
enum State {
    /// There is none in this slot.
    Vacant,
    Opening,
    Open(SendRequest<Bytes>),
    /// It takes no more requests, and ends when those on it have.
    Closing,
}

/// A reference to a connection that knows when that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionRef {
    slot: u32,
    generation: u32,
}

/// What an arrival finds.
pub(crate) enum Place {
    /// This connection, on which there is nothing else.
    Idle(ConnectionRef),
    /// All are busy, and one more may be opened.
    New,
    /// This one, beside the requests on it.
    Shared(ConnectionRef),
    /// Nothing yet.
    Full,
}

/// The slots of one thread.
#[derive(Debug)]
pub(crate) struct Connections {
    all: Vec<Connection>,
    vacant: Vec<u32>,
    limit: usize,
    /// Whether a connection may carry more than one request after the other.
    keep: bool,
}

impl Connections {
    pub(crate) fn new(limit: usize, keep: bool) -> Self {
        Self {
            all: Vec::new(),
            vacant: Vec::new(),
            limit,
            keep,
        }
    }

    /// Takes a slot for a connection that is being opened.
    pub(crate) fn begin(&mut self, now: u64) -> ConnectionRef {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.all.push(Connection {
                generation: 0,
                state: State::Vacant,
                began: 0,
                distance: 0,
                streams: 0,
                served: 0,
                over: false,
            });
            self.all.len() as u32 - 1
        });
        let connection = &mut self.all[slot as usize];
        connection.generation = connection.generation.wrapping_add(1);
        connection.state = State::Opening;
        (connection.began, connection.distance) = (now, 0);
        (connection.streams, connection.served, connection.over) = (0, 0, false);
        ConnectionRef {
            slot,
            generation: connection.generation,
        }
    }

    fn get(&mut self, connection: ConnectionRef) -> Option<&mut Connection> {
        self.all
            .get_mut(connection.slot as usize)
            .filter(|l| l.generation == connection.generation && !matches!(l.state, State::Vacant))
    }

    /// The connection stands.
    pub(crate) fn opened(
        &mut self,
        connection: ConnectionRef,
        sender: SendRequest<Bytes>,
        now: u64,
    ) {
        if let Some(connection) = self.get(connection) {
            connection.distance = now.saturating_sub(connection.began);
            connection.state = State::Open(sender);
        }
    }

    /// The connection is gone. Its slot stays until the requests on it have told how they ended.
    pub(crate) fn gone(&mut self, connection: ConnectionRef) {
        if let Some(found) = self.get(connection) {
            found.over = true;
            found.state = State::Closing;
            self.vacate(connection);
        }
    }

    fn vacate(&mut self, connection: ConnectionRef) {
        if let Some(found) = self.get(connection)
            && found.over
            && found.streams == 0
        {
            found.state = State::Vacant;
            self.vacant.push(connection.slot);
        }
    }

    /// Puts a request on a connection that stands. Without keep-alive it is the only one.
    pub(crate) fn put(&mut self, connection: ConnectionRef) -> Option<SendRequest<Bytes>> {
        let keep = self.keep;
        let connection = self.get(connection)?;
        let State::Open(sender) = &connection.state else {
            return None;
        };
        let sender = sender.clone();
        connection.streams += 1;
        if !keep {
            connection.state = State::Closing;
        }
        Some(sender)
    }

    /// A request has ended on a connection. Where others had before, so that it may have been closed while idle, tells
    /// how long it took to open.
    pub(crate) fn ended(&mut self, connection: ConnectionRef) -> Option<u64> {
        let found = self.get(connection)?;
        let reused = (found.served > 0).then_some(found.distance);
        found.streams -= 1;
        found.served = found.served.saturating_add(1);
        self.vacate(connection);
        reused
    }

    /// Lets a connection take no more requests.
    pub(crate) fn retire(&mut self, connection: ConnectionRef) {
        if let Some(connection) = self.get(connection)
            && matches!(connection.state, State::Open(_))
        {
            connection.state = State::Closing;
        }
    }

    /// How many are open, being opened, or closing.
    pub(crate) fn open(&self) -> usize {
        let vacant =
            |connection: &&Connection| matches!(connection.state, State::Vacant) || connection.over;
        self.all.len() - self.all.iter().filter(vacant).count()
    }

    /// Where the next request goes.
    pub(crate) fn place(&mut self, may_open: bool) -> Place {
        loop {
            let mut open = 0;
            let mut best: Option<(u32, u32)> = None;
            for (slot, connection) in self.all.iter().enumerate() {
                match &connection.state {
                    State::Vacant => {}
                    // With nothing on it, it ends at once.
                    State::Closing => {
                        open += usize::from(connection.streams > 0 && !connection.over)
                    }
                    State::Opening => open += 1,
                    State::Open(sender) => {
                        open += 1;
                        let room =
                            (connection.streams as usize) < sender.current_max_send_streams();
                        if room && best.is_none_or(|(_, least)| connection.streams < least) {
                            best = Some((slot as u32, connection.streams));
                        }
                    }
                }
            }
            let new = may_open && open < self.limit;
            match best {
                Some((slot, streams)) if streams == 0 || !new => {
                    let generation = self.all[slot as usize].generation;
                    let connection = ConnectionRef { slot, generation };
                    // The server may have said goodbye since.
                    if !self.is_usable(connection) {
                        self.retire(connection);
                        continue;
                    }
                    return if streams == 0 {
                        Place::Idle(connection)
                    } else {
                        Place::Shared(connection)
                    };
                }
                _ if new => return Place::New,
                _ => return Place::Full,
            }
        }
    }

    fn is_usable(&mut self, connection: ConnectionRef) -> bool {
        match self.get(connection).map(|connection| &mut connection.state) {
            Some(State::Open(sender)) => {
                let ready = poll_fn(|context| sender.poll_ready(context)).now_or_never();
                !matches!(ready, Some(Err(_)))
            }
            _ => false,
        }
    }
}
