//! What happens on an encrypted connection: the handshake, and records in place of plain bytes.
//!
//! Connecting includes the handshake: a connection counts as opened, and its request as sent, when the handshake is
//! over. The time it took is part of the response time, which counts from the intended start, and not of the service
//! time.

use crate::connection::Phase;
use crate::engine::slow_line::most_at_once;
use crate::engine::worker::Worker;
use crate::response::{Fed, Malformed};
use kneepoint_model::Outcome;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// What the plaintext of one read amounted to.
#[derive(Debug, Clone, Copy)]
enum Got {
    Nothing,
    More,
    /// The response is complete; whether nothing followed it.
    Done {
        clean: bool,
    },
    Malformed(Malformed),
    /// Bytes before any request.
    Unasked,
}

impl Worker<'_> {
    /// Begins the handshake on a connection that has just been made.
    pub(crate) fn begin_handshake(&mut self, slot: u32) {
        let Some(tls) = &self.tls else { return };
        let opened = tls.secure.open();
        let connection = self.pool.get(slot);
        connection.phase = Phase::Handshaking;
        connection.written = 0;
        match opened {
            Ok(session) => {
                connection.tls = Some(session);
                self.write_secure(slot);
            }
            Err(error) => self.tls_failed(slot, &error),
        }
    }

    /// Writes what the session has to say and what is left of the request.
    pub(crate) fn write_secure(&mut self, slot: u32) {
        let prepared = self.prepared;
        let connection = self.pool.get(slot);
        let (Some(fd), Some(session)) = (connection.fd.as_ref(), connection.tls.as_mut()) else {
            return;
        };
        let request = match (connection.phase, connection.own_request.as_slice()) {
            (Phase::Busy, []) => {
                let template = self.ledger.in_flight.get(connection.request).template;
                prepared.templates[template as usize].whole.as_slice()
            }
            (Phase::Busy, own) => own,
            _ => &[],
        };
        match session.write(fd, request, &mut connection.written) {
            Ok(all) => self.ask_for_room(slot, !all),
            Err(errno) => self.cut_off(slot, errno),
        }
    }

    /// Reads what there is, as the handshake or a response goes on.
    pub(crate) fn read_secure(&mut self, slot: u32, hangup: bool) {
        loop {
            let connection = self.pool.get(slot);
            let busy = connection.phase == Phase::Busy;
            let Some(fd) = connection.fd.as_ref() else {
                return;
            };
            let most = most_at_once(connection, self.ledger.clock, self.buffer.len());
            let count = match recv(fd, &mut self.buffer[..most], RecvFlags::empty()) {
                Ok((0, _)) if busy => return self.on_end_of_stream(slot),
                Ok((0, _)) => return self.broken(slot, None),
                Ok((count, _)) => count,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return self.carried(slot, 0, most),
                Err(errno) => return self.broken(slot, Some(errno)),
            };
            let now = self.ledger.clock.now();
            let Some((got, taken)) = self.decrypt(slot, count, now) else {
                return;
            };
            let open = matches!(taken, Ok(false));
            match (got, taken) {
                (Got::Done { clean }, _) => {
                    return self.complete(slot, clean && open && !hangup, now);
                }
                (Got::Malformed(malformed), _) => {
                    return self.not_the_protocol(slot, malformed, now);
                }
                (Got::Unasked, _) => {
                    let malformed = Malformed("bytes before any request");
                    return self.not_the_protocol(slot, malformed, now);
                }
                (Got::Nothing | Got::More, Err(error)) => return self.tls_failed(slot, &error),
                (Got::Nothing | Got::More, Ok(true)) if busy => {
                    return self.on_end_of_stream(slot);
                }
                (Got::Nothing | Got::More, Ok(true)) => return self.broken(slot, None),
                (Got::Nothing | Got::More, Ok(false)) => self.answer(slot, now),
            }
            if count < self.buffer.len() || self.pool.get(slot).line.is_some() {
                return self.carried(slot, count, most);
            }
        }
    }

    /// Takes what was read through the session and into the parser.
    fn decrypt(
        &mut self,
        slot: u32,
        count: usize,
        now: u64,
    ) -> Option<(Got, Result<bool, rustls::Error>)> {
        let (tls, connection) = (self.tls.as_mut()?, self.pool.get(slot));
        let session = connection.tls.as_mut()?;
        let busy = connection.phase == Phase::Busy;
        let mut got = Got::Nothing;
        let (parser, reply) = (&mut connection.parser, &mut connection.reply);
        let taken = session.take(&self.buffer[..count], &mut tls.plain, |plain| {
            got = match got {
                _ if !busy => Got::Unasked,
                Got::Nothing | Got::More => match parser.feed(plain, reply) {
                    Ok(Fed::More) => Got::More,
                    Ok(Fed::Done(used)) => Got::Done {
                        clean: used == plain.len(),
                    },
                    Err(malformed) => Got::Malformed(malformed),
                },
                Got::Done { .. } => Got::Done { clean: false },
                other => other,
            };
        });
        if busy {
            let request = self.ledger.in_flight.get_mut(connection.request);
            // A session ticket is no byte of a response.
            if request.first_byte == 0 && !matches!(got, Got::Nothing) {
                request.first_byte = now;
            }
            self.ledger.recorder.received(request.intended, count);
        }
        Some((got, taken))
    }

    /// Sends the request once the handshake is over, and before and after what the session has to say.
    fn answer(&mut self, slot: u32, now: u64) {
        let connection = self.pool.get(slot);
        let Some(session) = connection.tls.as_ref() else {
            return;
        };
        if connection.phase == Phase::Handshaking && !session.is_handshaking() {
            // What ends the handshake goes out with the request.
            let id = connection.request;
            self.connected(now);
            self.send(slot, id, now);
        } else if session.wants_write() {
            self.write_secure(slot);
        }
    }

    /// Something came on a connection that carries no request: a session ticket may, anything else ends it.
    pub(crate) fn on_idle_secure(&mut self, slot: u32) {
        let (Some(tls), connection) = (self.tls.as_mut(), self.pool.get(slot)) else {
            return;
        };
        let keep = match (connection.fd.as_ref(), connection.tls.as_mut()) {
            (Some(fd), Some(session)) => {
                match recv(fd, self.buffer.as_mut_slice(), RecvFlags::empty()) {
                    Ok((count, _)) if count > 0 => {
                        let mut unasked = false;
                        let taken = session.take(&self.buffer[..count], &mut tls.plain, |_| {
                            unasked = true;
                        });
                        matches!(taken, Ok(false)) && !unasked
                    }
                    Err(Errno::AGAIN | Errno::INTR) => true,
                    Ok(_) | Err(_) => false,
                }
            }
            _ => false,
        };
        if !keep {
            self.pool.close(slot);
        }
    }

    /// Ends a request whose session failed. When that was the handshake, those that waited for the same attempt end
    /// likewise, as after a refused connection: the next would fail no differently.
    fn tls_failed(&mut self, slot: u32, error: &rustls::Error) {
        let now = self.ledger.clock.now();
        let prepared = self.prepared;
        let connection = self.pool.get(slot);
        let handshaking = connection.phase == Phase::Handshaking;
        if let (Some(fd), Some(session)) = (connection.fd.as_ref(), connection.tls.as_mut()) {
            // The alert that tells the server why; if the socket has no room for it, it goes without.
            let _ = session.write(fd, &[], &mut 0);
        }
        let id = self.pool.close(slot);
        let template = self.ledger.in_flight.get(id).template;
        if let Some(tls) = &self.tls {
            self.ledger.examples.add(Outcome::Tls, 0, 0, || {
                let name = &prepared.templates[template as usize].name;
                format!("{name}: {}", tls.secure.explain(error))
            });
        }
        self.end(id, Outcome::Tls, 0, now);
        if handshaking {
            self.ledger.backoff.refused(now);
            self.ledger.end_waiting(Outcome::Tls, now);
        }
    }
}
