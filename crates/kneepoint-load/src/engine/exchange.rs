//! What happens on a connection: it opens, a request goes out, a response comes in, something breaks.

use crate::connection::{Phase, closed_meanwhile, socket};
use crate::engine::slow_line::most_at_once;
use crate::engine::worker::Worker;
use crate::in_flight::NONE;
use crate::request::NoValue;
use crate::response::{Fed, Malformed, Parser};
use kneepoint_model::Outcome;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SendFlags, send, sockopt};
use std::fmt::Display;

/// What every connection is watched for, all its life.
const WATCHED: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);
/// Signs that the peer sends no more.
const HANGUP: EventFlags = EventFlags::RDHUP
    .union(EventFlags::HUP)
    .union(EventFlags::ERR);

impl<'p> Worker<'p> {
    /// Opens a connection for a request.
    pub(crate) fn connect(&mut self, id: u32, now: u64) {
        self.ports.add(self.pool.take_closed_first(), now);
        if self.ports.are_used_up(self.pool.open(), now) {
            let why = format!(
                "{} local ports are held for a minute by connections that this side closed, and past half of the \
                 range the kernel finds a free one only by long searches",
                self.ports.held()
            );
            return self.refuse(id, Outcome::NoLocalPort, &why, now);
        }
        let source = self.sources.next();
        let template = self.ledger.in_flight.get(id).template;
        let line = self.prepared.templates[template as usize].line;
        let opening = match socket::open_from(&self.prepared.endpoint, source, line.as_ref()) {
            Ok(opening) => opening,
            Err(errno) => return self.refuse(id, socket::refusal(errno), &errno, now),
        };
        self.coalescer.opened(&opening.fd);
        let phase = if opening.connected {
            Phase::Busy
        } else {
            Phase::Connecting
        };
        let target = &self.prepared.target;
        let slot = self.pool.insert(opening.fd, phase, || Parser::of(target));
        let connection = self.pool.get(slot);
        connection.request = id;
        connection.began = now;
        connection.line = line;
        self.ledger.in_flight.get_mut(id).connection = slot;
        let wanted = if opening.connected {
            WATCHED
        } else {
            WATCHED | EventFlags::OUT
        };
        if let Err(errno) = self.watch(slot, wanted, true) {
            self.pool.close(slot);
            return self.refuse(id, socket::refusal(errno), &errno, now);
        }
        if opening.connected {
            self.on_connected(slot, now);
        }
    }

    /// The connection stands: its request goes out, after the handshake of TLS where there is one.
    fn on_connected(&mut self, slot: u32, now: u64) {
        let connection = self.pool.get(slot);
        connection.distance = now.saturating_sub(connection.began);
        let id = connection.request;
        if self.tls.is_some() {
            return self.begin_handshake(slot);
        }
        self.connected(now);
        self.send(slot, id, now);
    }

    pub(crate) fn connected(&mut self, now: u64) {
        self.ledger.backoff.connected();
        self.ledger.recorder.opened(now);
    }

    fn watch(&mut self, slot: u32, wanted: EventFlags, new: bool) -> Result<(), Errno> {
        let token = EventData::new_u64(self.pool.token(slot));
        match self.pool.get(slot).fd.as_ref() {
            Some(fd) if new => epoll::add(&self.epoll, fd, token, wanted),
            Some(fd) => epoll::modify(&self.epoll, fd, token, wanted),
            None => Ok(()),
        }
    }

    /// Ends a request that could not connect, and those that waited for the same attempt.
    fn refuse(&mut self, id: u32, outcome: Outcome, why: &dyn Display, now: u64) {
        self.ledger.backoff.refused(now);
        let prepared = self.prepared;
        let template = self.ledger.in_flight.get(id).template;
        self.ledger.examples.add(outcome, 0, 0, || {
            let name = &prepared.templates[template as usize].name;
            format!("{name}: connecting to {}: {why}", prepared.target.address())
        });
        self.end(id, outcome, 0, now);
        self.ledger.end_waiting(outcome, now);
    }

    /// Puts a request on a connection.
    pub(crate) fn send(&mut self, slot: u32, id: u32, now: u64) {
        let prepared = self.prepared;
        let request = self.ledger.in_flight.get(id);
        let (user, number) = (request.user, request.number);
        let template = &prepared.templates[request.template as usize];
        let connection = self.pool.get(slot);
        connection.own_request.clear();
        if !template.is_fixed() {
            let out = &mut connection.own_request;
            let (values, scratch) = self.ledger.users.values_for(user, number);
            let written = template.write_with_values(&values, values.cookies(), scratch, out);
            if let Err(problem) = written {
                return self.keep_back(slot, id, problem, now);
            }
        } else if user != NONE {
            let cookies = self.ledger.users.jar(user).line();
            template.write_with_cookies(cookies, &mut connection.own_request);
        }
        let request = self.ledger.in_flight.get_mut(id);
        request.connection = slot;
        request.sent = now;
        connection.phase = Phase::Busy;
        connection.request = id;
        connection.written = 0;
        connection.parser.begin(template.head);
        let wants_cookies = template.session || user != NONE;
        connection
            .reply
            .begin(template.expectations.as_ref(), wants_cookies);
        self.write(slot);
    }

    /// Ends a request that lacks a value, and frees the connection it would have gone out on.
    fn keep_back(&mut self, slot: u32, id: u32, problem: NoValue<'p>, now: u64) {
        let request = self.ledger.in_flight.get_mut(id);
        request.connection = NONE;
        let template = request.template;
        self.ledger.not_sent(template, || problem.describe());
        let connection = self.pool.get(slot);
        if connection.wants_room() || connection.line.is_some() {
            // A new connection is still watched for room to write, or has a line that no other request has.
            self.pool.close(slot);
        } else {
            self.pool.put_idle(slot);
        }
        self.end(id, Outcome::NoValue, 0, now);
    }

    /// Writes what is left of a request; asks epoll for room only when there is none.
    fn write(&mut self, slot: u32) {
        let prepared = self.prepared;
        if self.pool.get(slot).tls.is_some() {
            return self.write_secure(slot);
        }
        loop {
            let connection = self.pool.get(slot);
            let template = &prepared.templates
                [self.ledger.in_flight.get(connection.request).template as usize];
            let request = match connection.own_request.as_slice() {
                [] => template.whole.as_slice(),
                own => own,
            };
            let rest = &request[connection.written..];
            if rest.is_empty() {
                return self.ask_for_room(slot, false);
            }
            let Some(fd) = connection.fd.as_ref() else {
                return;
            };
            match send(fd, rest, SendFlags::NOSIGNAL) {
                Ok(count) => connection.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return self.ask_for_room(slot, true),
                Err(errno) => return self.cut_off(slot, errno),
            }
        }
    }

    /// A request could not be written to its end. A server may answer before it has read all, and close (413), so what
    /// it said is read first.
    pub(crate) fn cut_off(&mut self, slot: u32, errno: Errno) {
        let token = self.pool.token(slot);
        let connection = self.pool.get(slot);
        connection.cut = Some(errno);
        connection.line = None;
        self.read(slot, true);
        if self.pool.slot_of(token).is_some() {
            self.broken(slot, Some(errno));
        }
    }

    /// Has epoll watch for room to write, or no longer.
    pub(crate) fn ask_for_room(&mut self, slot: u32, wanted: bool) {
        if self.pool.want_room(slot, wanted) {
            self.watch_again(slot);
        }
    }

    /// Has epoll watch for what a connection waits for now. What comes over a slow line is not looked at before it was carried.
    pub(crate) fn watch_again(&mut self, slot: u32) {
        let connection = self.pool.get(slot);
        let mut watched = match connection.line {
            Some(line) if line.is_carrying() => EventFlags::empty(),
            _ => WATCHED,
        };
        if connection.wants_room() {
            watched |= EventFlags::OUT;
        }
        let _ = self.watch(slot, watched, false);
    }

    /// Something happened on a connection.
    pub(crate) fn on_event(&mut self, token: u64, flags: EventFlags) {
        let Some(slot) = self.pool.slot_of(token) else {
            return;
        };
        match self.pool.get(slot).phase {
            Phase::Connecting => self.on_connect(slot),
            Phase::Busy | Phase::Handshaking => {
                if flags.contains(EventFlags::OUT) {
                    self.write(slot);
                }
                let readable = flags.intersects(EventFlags::IN | HANGUP);
                // Writing may have found the connection broken.
                if readable && self.pool.slot_of(token).is_some() && !self.must_carry(slot, flags) {
                    self.read(slot, flags.intersects(HANGUP));
                }
            }
            Phase::Idle if self.tls.is_some() => self.on_idle_secure(slot),
            // Nothing may come on these but their end.
            Phase::Idle | Phase::Lingering => {
                self.pool.close(slot);
            }
            Phase::Closed => {}
        }
    }

    fn on_connect(&mut self, slot: u32) {
        let now = self.ledger.clock.now();
        let connection = self.pool.get(slot);
        let error = match connection.fd.as_ref().map(sockopt::socket_error) {
            Some(Ok(Err(errno)) | Err(errno)) => Some(errno),
            Some(Ok(Ok(()))) | None => None,
        };
        match error {
            None => self.on_connected(slot, now),
            Some(errno) => {
                let id = self.pool.close(slot);
                self.refuse(id, socket::refusal(errno), &errno, now);
            }
        }
    }

    /// Reads what there is. A read that does not fill the buffer has taken all.
    pub(crate) fn read(&mut self, slot: u32, hangup: bool) {
        if self.pool.get(slot).tls.is_some() {
            return self.read_secure(slot, hangup);
        }
        loop {
            let connection = self.pool.get(slot);
            let Some(fd) = connection.fd.as_ref() else {
                return;
            };
            let most = most_at_once(connection, self.ledger.clock, self.buffer.len());
            let (count, came) = match self.coalescer.receive(fd, &mut self.buffer[..most]) {
                Ok((0, _)) => return self.on_end_of_stream(slot),
                Ok(received) => received,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return self.carried(slot, 0, most),
                Err(errno) => return self.broken(slot, Some(errno)),
            };
            // What a slow line carries comes after the kernel has it.
            let came = came.filter(|_| connection.line.is_none());
            let request = self.ledger.in_flight.get_mut(connection.request);
            let now = came
                .unwrap_or(u64::MAX)
                .clamp(request.sent, self.ledger.clock.now());
            if request.first_byte == 0 {
                request.first_byte = now;
            }
            self.ledger.recorder.received(request.intended, count);
            let fed = connection
                .parser
                .feed(&self.buffer[..count], &mut connection.reply);
            match fed {
                Ok(Fed::More) if count < self.buffer.len() || connection.line.is_some() => {
                    return self.carried(slot, count, most);
                }
                Ok(Fed::More) => {}
                Ok(Fed::Done(used)) => {
                    // Bytes nobody asked for make the connection useless for the next request.
                    let reusable = used == count && !hangup;
                    return self.complete(slot, reusable, now);
                }
                Err(malformed) => return self.not_the_protocol(slot, malformed, now),
            }
        }
    }

    pub(crate) fn on_end_of_stream(&mut self, slot: u32) {
        let connection = self.pool.get(slot);
        // What ends where the request was cut off may lack its end.
        match connection.cut {
            None if connection.parser.complete_at_end() => {
                let now = self.ledger.clock.now();
                self.complete(slot, false, now);
            }
            cut => self.broken(slot, cut),
        }
    }

    /// Judges a complete response and frees its connection.
    pub(crate) fn complete(&mut self, slot: u32, reusable: bool, now: u64) {
        let prepared = self.prepared;
        let connection = self.pool.get(slot);
        let id = std::mem::replace(&mut connection.request, NONE);
        let request = *self.ledger.in_flight.get(id);
        let template = &prepared.templates[request.template as usize];
        let reply = &mut connection.reply;
        let status = reply.status;
        let outcome = self.ledger.judge(&request, reply);
        self.ledger
            .examples
            .add_stderr(&template.name, &reply.stderr);
        let keep = reply.keep && prepared.target.keeps_connections();
        connection.served = connection.served.saturating_add(1);
        // A request that was answered before it was read in full leaves its rest on the wire.
        let all_sent = !connection.wants_room();
        if reusable && keep && all_sent && connection.line.is_none() {
            self.pool.put_idle(slot);
        } else if reusable && prepared.endpoint.has_time_wait() {
            self.leave(slot, now);
        } else {
            self.pool.close(slot);
        }
        self.end(id, outcome, status, now);
    }

    pub(crate) fn not_the_protocol(&mut self, slot: u32, malformed: Malformed, now: u64) {
        let prepared = self.prepared;
        let id = self.pool.close(slot);
        let template = self.ledger.in_flight.get(id).template;
        let outcome = malformed.outcome();
        self.ledger.examples.add(outcome, 0, template, || {
            let name = &prepared.templates[template as usize].name;
            format!("{name}: {}: {}", outcome.name(), malformed.0)
        });
        self.end(id, outcome, 0, now);
    }

    /// The connection ended or failed before its response was complete. One that had served before and gave no
    /// byte may have been stale: the server closed it while the request was on its way, which a new connection puts
    /// right (RFC 9110, section 9.2.2; RFC 9112, section 9.3.1). A worker that died of the request looks alike, only
    /// later, and what a repetition could change is never repeated, unless nothing of it had left.
    pub(crate) fn broken(&mut self, slot: u32, errno: Option<Errno>) {
        let now = self.ledger.clock.now();
        let prepared = self.prepared;
        let connection = self.pool.get(slot);
        let reused = connection.served > 0;
        let handshaking = connection.phase == Phase::Handshaking;
        let (unsent, distance) = (connection.written == 0, connection.distance);
        let id = self.pool.close(slot);
        let request = *self.ledger.in_flight.get(id);
        if reused && request.first_byte == 0 && !request.retried {
            let idempotent = prepared.templates[request.template as usize].idempotent;
            if unsent || (idempotent && closed_meanwhile(request.sent, now, distance)) {
                return self.ledger.send_again(id);
            }
        }
        if !reused && request.first_byte == 0 {
            self.ledger.dropped_unanswered(now);
        }
        let outcome = if request.first_byte == 0 {
            Outcome::Reset
        } else {
            Outcome::Truncated
        };
        self.ledger.examples.add(outcome, 0, request.template, || {
            let name = &prepared.templates[request.template as usize].name;
            let how = errno.map_or_else(|| "closed by the server".to_owned(), |e| e.to_string());
            let when = if handshaking {
                " during the TLS handshake"
            } else {
                ""
            };
            format!("{name}: {}: {how}{when}", outcome.name())
        });
        self.end(id, outcome, 0, now);
    }
}
