//! One thread of the transport for one request at a time on a connection: starts what is due, ends what is overdue,
//! sleeps until something happens.

use crate::arrivals::{Shared, has_due_times};
use crate::connection::{HeldPorts, Lines, Pool, Sources, ThreadTls};
use crate::engine::coalescing::Coalescer;
use crate::engine::priority::Alertness;
use crate::in_flight::{Clock, NONE, RequestRef};
use crate::ledger::{Prepared, RequestLedger, share};
use crate::measure::{Finished, Mailbox};
use crate::plan::{LoadError, LoadPlan, Mode, Target};
use kneepoint_model::Outcome;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::thread;
use std::time::Duration;

/// Events taken at once, and arrivals handled before looking for events.
const BATCH: usize = 256;
/// Bytes read at once. One buffer serves all connections of a thread, since parsers keep what they need.
const READ_BYTES: usize = 64 << 10;

/// One thread's state.
#[derive(Debug)]
pub(crate) struct Worker<'p> {
    pub(crate) prepared: &'p Prepared,
    pub(crate) ledger: RequestLedger<'p>,
    pub(crate) epoll: OwnedFd,
    /// The addresses that new connections come from.
    pub(crate) sources: Sources<'p>,
    /// The local ports that are taken by what was closed.
    pub(crate) ports: HeldPorts,
    pub(crate) pool: Pool<'p>,
    /// The connections whose slow lines carry something.
    pub(crate) lines: Lines,
    /// Arrivals that must have a new connection while none may be opened; empty but for a moment.
    held_back: Vec<RequestRef>,
    /// Whether one who thinks keeps the connection: a browser does, what is behind a web server does not.
    keeps_own: bool,
    pub(crate) coalescer: Coalescer,
    /// Whether requests are due at some time, and not whenever a response has come.
    pub(crate) has_due_times: bool,
    /// Woken first for each response, a plain closed loop would take the server off the CPU in the middle of its batch:
    /// four times the context switches, and half again the CPU time a request.
    alertness: Alertness,
    pub(crate) buffer: Vec<u8>,
    /// What encrypted connections need; `None` when they are plain.
    pub(crate) tls: Option<ThreadTls>,
}

impl<'p> Worker<'p> {
    /// Thread number `thread`, with its share of arrivals, users, connections and workers.
    pub(crate) fn new(
        plan: &'p LoadPlan,
        prepared: &'p Prepared,
        shared: &'p Shared,
        clock: Clock,
        thread: usize,
    ) -> Result<Self, LoadError> {
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|source| LoadError::System {
                what: "epoll".into(),
                source,
                instead: "close programs that hold many open files, or raise `ulimit -n`",
            })?;
        let workers = match &plan.mode {
            Mode::Open { .. } => 0,
            Mode::Closed(closed) => {
                plan.numbers(thread).count_below(u64::from(closed.workers)) as usize
            }
        };
        let connections = share(plan.max_connections, thread, plan.threads);
        let has_due_times = has_due_times(plan);
        Ok(Self {
            prepared,
            ledger: RequestLedger::new(plan, prepared, shared, clock, thread),
            epoll,
            sources: Sources::new(&plan.source_addresses, thread),
            ports: HeldPorts::new(
                &prepared.endpoint,
                plan.source_addresses.len(),
                plan.threads,
            ),
            pool: Pool::new(connections.max(workers)),
            lines: Lines::default(),
            held_back: Vec::new(),
            keeps_own: !matches!(plan.target, Target::FastCgi { .. }),
            coalescer: Coalescer::new(plan, prepared),
            has_due_times,
            alertness: Alertness::new(has_due_times),
            buffer: vec![0; READ_BYTES],
            tls: prepared.secure.as_ref().map(ThreadTls::new),
        })
    }

    /// Sends until every arrival has ended.
    pub(crate) fn run(mut self, mailbox: &Mailbox) -> Result<Finished, LoadError> {
        self.ledger.clock.wait_for_start();
        let mut events: Vec<epoll::Event> = Vec::with_capacity(BATCH);
        loop {
            let more_is_due = self.start_due();
            let now = self.ledger.clock.now();
            self.end_overdue(now);
            self.serve_lines(now);
            self.serve_queue(now);
            let turn = self.ledger.turn(now);
            self.ledger.publish(mailbox, turn, self.pool.open());
            if turn.over {
                return Ok(self.ledger.finish());
            }
            let wake = if more_is_due {
                now
            } else {
                let lingering = self.pool.end_lingering(now).unwrap_or(u64::MAX);
                self.ledger
                    .wake_at(turn, self.coalescer.span)
                    .min(lingering)
                    .min(self.lines.next_within(self.coalescer.span))
            };
            self.wait(&mut events, wake)?;
            for event in events.drain(..) {
                self.on_event(event.data.u64(), event.flags);
                // A batch of events takes longer than an arrival may be late. Where nothing is due, requests leave
                // together once all responses are read: a server is woken once for them, and not for each.
                if self.has_due_times {
                    self.start_due();
                }
            }
        }
    }

    /// Sleeps until a time, or until something happens before it that cannot wait.
    fn wait(&mut self, events: &mut Vec<epoll::Event>, wake: u64) -> Result<(), LoadError> {
        let began = self.ledger.clock.now();
        let mut nanos = wake.saturating_sub(began);
        let quiet = !self.ledger.has_waiting() && self.pool.is_settled();
        if quiet && self.coalescer.may_sleep_through(nanos) {
            thread::sleep(Duration::from_nanos(nanos));
            nanos = 0;
        }
        let happened = self.happened(events, nanos);
        let now = self.ledger.clock.now();
        self.coalescer.awake(now);
        // Woken earlier by something that happened, it learns nothing.
        if wake > began && now >= wake {
            self.alertness.woken(now - wake);
        }
        happened
    }

    fn happened(&self, events: &mut Vec<epoll::Event>, nanos: u64) -> Result<(), LoadError> {
        let timeout = Timespec {
            tv_sec: (nanos / 1_000_000_000) as i64,
            tv_nsec: (nanos % 1_000_000_000) as _,
        };
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(source) => Err(LoadError::System {
                what: "epoll_pwait2".into(),
                source,
                instead: "use Linux 5.11 or later, and a container profile that allows the call",
            }),
        }
    }

    /// Starts what is due, up to a batch. Tells whether more is due.
    pub(crate) fn start_due(&mut self) -> bool {
        for _ in 0..BATCH {
            let Some(now) = self.ledger.admit() else {
                return false;
            };
            self.serve_queue(now);
            self.ledger.note_backlog();
        }
        true
    }

    /// Gives waiting arrivals connections, in order, while there are any. While none may be opened, those that must have a new
    /// one hold up nobody who can do with one that is there.
    fn serve_queue(&mut self, now: u64) {
        let held_back = self.ledger.backoff.holds(now);
        while let Some(front) = self.ledger.first_waiting(now) {
            let id = front.id;
            let needs_new = self.needs_new(id);
            if needs_new && held_back {
                self.ledger.leave_queue();
                self.held_back.push(front);
                continue;
            }
            let mut idle = self.idle_for(id);
            if idle.is_none() && (held_back || !self.pool.make_room(needs_new)) {
                if !needs_new {
                    idle = self.pool.take_longest_kept();
                }
                if idle.is_none() {
                    break;
                }
            }
            self.ledger.leave_queue();
            match idle {
                Some(slot) => self.send(slot, id, now),
                None => self.connect(id, now),
            }
        }
        while let Some(request) = self.held_back.pop() {
            self.ledger.wait_again(request);
        }
    }

    /// Whether a request goes out on a connection that is opened for it. Its first one was stale, and others that are as old
    /// may be, too; or the client has a slow line, and no other has that.
    fn needs_new(&self, id: u32) -> bool {
        let request = self.ledger.in_flight.get(id);
        request.retried || self.has_line(request.template)
    }

    fn has_line(&self, template: u32) -> bool {
        let template = &self.prepared.templates[template as usize];
        template.line.is_some()
    }

    /// An idle connection for a request: the one that was kept for its worker or visitor, else the one used last.
    fn idle_for(&mut self, id: u32) -> Option<u32> {
        if self.needs_new(id) {
            return None;
        }
        let request = self.ledger.in_flight.get(id);
        let kept = self.ledger.dispatcher.take_kept(request.vu);
        kept.and_then(|kept| self.pool.take_kept(kept))
            .or_else(|| self.pool.take_idle())
    }

    /// Ends what has reached its timeout: what is on a connection with the connection, since the response could
    /// only be thrown away.
    fn end_overdue(&mut self, now: u64) {
        while let Some(id) = self.ledger.in_flight.expired(now) {
            let slot = self.ledger.in_flight.get(id).connection;
            if slot == NONE {
                self.end(id, Outcome::Unsent, 0, now);
            } else {
                self.pool.close_first(slot);
                self.end(id, Outcome::Timeout, 0, now);
            }
        }
    }

    /// Ends a request. A virtual user who goes on keeps the connection.
    pub(crate) fn end(&mut self, id: u32, outcome: Outcome, status: u16, now: u64) {
        let (request, goes_on) = self.ledger.end(id, outcome, status, now);
        // One who asks over a slow line in between still has the connection that was kept before.
        if goes_on && self.keeps_own && !self.has_line(request.template) {
            let kept = self.pool.keep(request.connection);
            self.ledger.dispatcher.keep(request.vu, kept);
        }
    }
}
