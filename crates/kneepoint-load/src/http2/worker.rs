//! One thread of the transport: starts what is due, ends what is overdue, sleeps until something happens.

use crate::arrivals::Shared;
use crate::connection::{Secure, Sources, closed_meanwhile, socket};
use crate::http2::connections::{ConnectionRef, Connections, Place};
use crate::http2::exchange::{Exchange, exchange};
use crate::http2::h2_request::{H2Request, scheme};
use crate::http2::opening::{NotOpened, Opened, open};
use crate::http2::timer::Timer;
use crate::in_flight::{Clock, InFlightRequest, NONE, RequestRef};
use crate::ledger::{Prepared, RequestLedger, share};
use crate::measure::{Finished, Mailbox};
use crate::plan::{LoadError, LoadPlan};
use crate::response::Reply;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::{AbortHandle, Abortable, LocalBoxFuture};
use futures_util::stream::FuturesUnordered;
use kneepoint_model::Outcome;
use rustix::io::Errno;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use tokio::runtime::Runtime;

/// Arrivals handled before looking for events.
const BATCH: usize = 64;

/// What the futures of a thread end with.
enum Event<'p> {
    /// An attempt to connect for a request.
    Opened(ConnectionRef, RequestRef, Result<Opened, NotOpened>),
    /// The life of a connection.
    Gone(ConnectionRef),
    /// A request on a connection.
    Ended(ConnectionRef, RequestRef, Box<Exchange<'p>>),
    /// What was cut short by a timeout.
    Cancelled,
}

/// What a request is waiting for.
#[derive(Debug)]
struct UnderWay {
    connection: ConnectionRef,
    opening: bool,
    abort: AbortHandle,
}

/// One thread's state.
#[derive(Debug)]
pub(crate) struct Worker<'p> {
    prepared: &'p Prepared,
    pub(crate) ledger: RequestLedger<'p>,
    runtime: Option<Runtime>,
    /// By template; `None` where variables make each one anew.
    fixed: Vec<Option<H2Request>>,
    /// The addresses that new connections come from.
    sources: Sources<'p>,
    /// Where a request with variables is put together.
    wire: Vec<u8>,
    /// With sessions to resume of its own; `None` when connections are plain.
    secure: Option<Arc<Secure>>,
    connections: Connections,
    /// What each request waits for, by its number.
    under_way: Vec<Option<UnderWay>>,
    events: FuturesUnordered<LocalBoxFuture<'p, Event<'p>>>,
}

fn system(what: &str) -> impl Fn(Errno) -> LoadError {
    let what = what.to_owned();
    move |source| LoadError::System {
        what: what.clone(),
        source,
        instead: "close programs that hold many open files, or raise `ulimit -n`",
    }
}

/// A runtime for one thread that drives IO and nothing else.
pub(crate) fn runtime() -> Result<Runtime, LoadError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(|e| {
            system("the runtime for HTTP/2")(Errno::from_io_error(&e).unwrap_or(Errno::IO))
        })
}

/// The requests that are always the same but for their cookies.
fn fixed(prepared: &Prepared) -> Result<Vec<Option<H2Request>>, LoadError> {
    let fixed = prepared.templates.iter().map(|template| {
        let request = template
            .is_fixed()
            .then(|| H2Request::new(&template.whole, scheme(&prepared.target)));
        request.transpose().map_err(|why| LoadError::Plan {
            problem: format!("{}: {why}", template.name),
        })
    });
    fixed.collect()
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
        let secure = prepared.secure.as_ref();
        Ok(Self {
            prepared,
            ledger: RequestLedger::new(plan, prepared, shared, clock, thread),
            runtime: Some(runtime()?),
            fixed: fixed(prepared)?,
            sources: Sources::new(&plan.source_addresses, thread),
            wire: Vec::new(),
            secure: secure.map(|secure| Arc::new(secure.for_one_thread())),
            connections: Connections::new(
                share(plan.max_connections, thread, plan.threads),
                prepared.target.keeps_connections(),
            ),
            under_way: Vec::new(),
            events: FuturesUnordered::new(),
        })
    }

    /// Sends until every arrival has ended.
    pub(crate) fn run(mut self, mailbox: &Mailbox) -> Result<Finished, LoadError> {
        self.ledger.clock.wait_for_start();
        if let Some(runtime) = self.runtime.take() {
            runtime.block_on(self.drive(mailbox))?;
            // What is left are connections, which need the runtime to the last.
            let _inside = runtime.enter();
            self.events.clear();
        }
        Ok(self.ledger.finish())
    }

    async fn drive(&mut self, mailbox: &Mailbox) -> Result<(), LoadError> {
        let mut timer = Timer::new().map_err(system("timerfd"))?;
        loop {
            let more_is_due = self.start_due();
            let now = self.ledger.clock.now();
            self.end_overdue(now);
            self.serve_queue(now);
            let turn = self.ledger.turn(now);
            self.ledger.publish(mailbox, turn, self.connections.open());
            if turn.over {
                return Ok(());
            }
            let wake = if more_is_due {
                now
            } else {
                self.ledger.wake_at(turn, 0)
            };
            if wake <= self.ledger.clock.now() {
                // Lets the runtime look at its sockets, which it does only when this task pauses.
                tokio::task::yield_now().await;
            }
            let event = self.next_event(&mut timer, wake).await;
            if let Some(event) = event.map_err(system("timerfd"))? {
                self.on_event(event);
            }
        }
    }

    /// The next event, or none when the time has come.
    async fn next_event(
        &mut self,
        timer: &mut Timer,
        wake: u64,
    ) -> Result<Option<Event<'p>>, Errno> {
        let clock = self.ledger.clock;
        poll_fn(|context| {
            if let Poll::Ready(Some(event)) = self.events.poll_next_unpin(context) {
                return Poll::Ready(Ok(Some(event)));
            }
            let now = clock.now();
            if wake <= now {
                return Poll::Ready(Ok(None));
            }
            if let Err(errno) = timer.set(wake, now) {
                return Poll::Ready(Err(errno));
            }
            timer.poll_expired(context).map_ok(|()| None)
        })
        .await
    }

    /// Starts what is due, up to a batch. Tells whether more is due.
    fn start_due(&mut self) -> bool {
        for _ in 0..BATCH {
            let Some(now) = self.ledger.admit() else {
                return false;
            };
            self.serve_queue(now);
            self.ledger.note_backlog();
        }
        true
    }

    /// Gives waiting arrivals their places, in order, while there are any.
    fn serve_queue(&mut self, now: u64) {
        while let Some(front) = self.ledger.first_waiting(now) {
            let place = self.connections.place(!self.ledger.backoff.holds(now));
            if matches!(place, Place::Full) {
                return;
            }
            self.ledger.leave_queue();
            match place {
                Place::Idle(connection) | Place::Shared(connection) => {
                    self.send(connection, front, now)
                }
                Place::New => self.connect(front, now),
                Place::Full => {}
            }
        }
    }

    /// Opens a connection for a request.
    fn connect(&mut self, request: RequestRef, now: u64) {
        let connection = self.connections.begin(now);
        let (endpoint, secure) = (&self.prepared.endpoint, self.secure.clone());
        let source = self.sources.next();
        let attempt = async move {
            let opened = open(endpoint, source, secure.as_deref()).await;
            Event::Opened(connection, request, opened)
        };
        self.go(connection, request, true, attempt);
    }

    /// Puts a request on a connection.
    fn send(&mut self, connection: ConnectionRef, reference: RequestRef, now: u64) {
        let request = self.ledger.in_flight.get_mut(reference.id);
        request.sent = now;
        let request = *request;
        let template = &self.prepared.templates[request.template as usize];
        let (head, body) = match self.h2_request(&request) {
            Ok(made) => made,
            Err(why) => {
                // The place it would have taken stays free.
                self.ledger.not_sent(request.template, || why);
                return self.end(reference.id, Outcome::NoValue, 0, now);
            }
        };
        let Some(sender) = self.connections.put(connection) else {
            return self.ledger.wait_again(reference);
        };
        let mut reply = Reply::default();
        reply.begin(
            template.expectations.as_ref(),
            template.session || request.user != NONE,
        );
        let clock = self.ledger.clock;
        let exchange = async move {
            let done = exchange(sender, head, body, reply, clock).await;
            Event::Ended(connection, reference, Box::new(done))
        };
        self.go(connection, reference, false, exchange);
    }

    /// The request of a user, or of nobody.
    fn h2_request(
        &mut self,
        request: &InFlightRequest,
    ) -> Result<(http::Request<()>, Option<Bytes>), String> {
        let InFlightRequest {
            template: index,
            user,
            number,
            ..
        } = *request;
        let template = &self.prepared.templates[index as usize];
        if let Some(fixed) = &self.fixed[index as usize] {
            let cookies = match user {
                NONE => "",
                user => self.ledger.users.jar(user).line(),
            };
            return Ok((fixed.with_cookies(cookies), fixed.body.clone()));
        }
        let (values, scratch) = self.ledger.users.values_for(user, number);
        template
            .write_with_values(&values, "", scratch, &mut self.wire)
            .map_err(|problem| problem.describe())?;
        let made = H2Request::new(&self.wire, scheme(&self.prepared.target))?;
        let cookies = match user {
            NONE => "",
            _ => values.cookies(),
        };
        Ok((made.with_cookies(cookies), made.body))
    }

    /// Lets a future run that a timeout can cut short.
    fn go(
        &mut self,
        connection: ConnectionRef,
        request: RequestRef,
        opening: bool,
        future: impl Future<Output = Event<'p>> + 'p,
    ) {
        let (abort, registration) = AbortHandle::new_pair();
        let id = request.id as usize;
        if self.under_way.len() <= id {
            self.under_way.resize_with(id + 1, || None);
        }
        self.under_way[id] = Some(UnderWay {
            connection,
            opening,
            abort,
        });
        self.events.push(Box::pin(async move {
            Abortable::new(future, registration)
                .await
                .unwrap_or(Event::Cancelled)
        }));
    }

    fn on_event(&mut self, event: Event<'p>) {
        let now = self.ledger.clock.now();
        match event {
            Event::Opened(connection, request, opened) => {
                self.under_way[request.id as usize] = None;
                match opened {
                    Ok(opened) => self.on_opened(connection, request, opened, now),
                    Err(why) => self.on_not_opened(connection, request, &why, now),
                }
            }
            Event::Ended(connection, request, exchange) => {
                self.under_way[request.id as usize] = None;
                self.on_ended(connection, request, *exchange, now);
            }
            Event::Gone(connection) => self.connections.gone(connection),
            Event::Cancelled => {}
        }
        self.serve_queue(now);
    }

    fn on_opened(
        &mut self,
        connection: ConnectionRef,
        request: RequestRef,
        opened: Opened,
        now: u64,
    ) {
        self.ledger.backoff.connected();
        self.ledger.recorder.opened(now);
        self.connections.opened(connection, opened.sender, now);
        self.events.push(Box::pin(async move {
            // How it ended, its requests say.
            let _ = opened.life.await;
            Event::Gone(connection)
        }));
        self.send(connection, request, now);
    }

    /// Ends a request that could not connect, and those that waited for the same attempt.
    fn on_not_opened(
        &mut self,
        connection: ConnectionRef,
        request: RequestRef,
        why: &NotOpened,
        now: u64,
    ) {
        self.connections.gone(connection);
        let template = self.ledger.in_flight.get(request.id).template;
        let name = &self.prepared.templates[template as usize].name;
        let address = self.prepared.target.address();
        let (outcome, text) = match why {
            NotOpened::Refused(errno) => (
                socket::refusal(*errno),
                format!("{name}: connecting to {address}: {errno}"),
            ),
            NotOpened::Reset(errno) => (
                Outcome::Reset,
                format!("{name}: reset: {errno} during the handshake"),
            ),
            NotOpened::Tls(why) => (Outcome::Tls, format!("{name}: {why}")),
            NotOpened::Protocol(malformed) => (
                Outcome::Protocol,
                format!("{name}: protocol error: {}", malformed.0),
            ),
        };
        self.ledger.examples.add(outcome, 0, 0, || text);
        self.end(request.id, outcome, 0, now);
        if outcome == Outcome::Reset {
            self.ledger.dropped_unanswered(now);
            return;
        }
        self.ledger.backoff.refused(now);
        self.ledger.end_waiting(outcome, now);
    }

    fn on_ended(
        &mut self,
        connection: ConnectionRef,
        reference: RequestRef,
        mut done: Exchange<'p>,
        now: u64,
    ) {
        let reused = self.connections.ended(connection);
        let request = self.ledger.in_flight.get_mut(reference.id);
        request.first_byte = done.first_byte;
        let request = *request;
        self.ledger
            .recorder
            .received(request.intended, done.received);
        let Some(error) = &done.failure else {
            let status = done.reply.status;
            let outcome = self.ledger.judge(&request, &mut done.reply);
            return self.end(reference.id, outcome, status, now);
        };
        if error.is_io() || error.is_go_away() {
            self.connections.retire(connection);
        }
        let template = &self.prepared.templates[request.template as usize];
        let meanwhile = template.idempotent
            && reused.is_some_and(|distance| closed_meanwhile(request.sent, now, distance));
        if !request.retried && done.is_stale(error, meanwhile) {
            return self.ledger.send_again(reference.id);
        }
        if reused.is_none() && done.first_byte == 0 {
            self.ledger.dropped_unanswered(now);
        }
        let outcome = done.outcome(error);
        self.ledger.examples.add(outcome, 0, request.template, || {
            let (name, what) = (&template.name, outcome.name());
            let hint = match outcome {
                Outcome::Protocol => "; check that the server speaks HTTP/2 on this port",
                _ => "",
            };
            format!("{name}: {what}: {error}{hint}")
        });
        self.end(reference.id, outcome, 0, now);
    }

    /// Ends what has reached its timeout: its stream is reset (CANCEL), the connection lives on.
    fn end_overdue(&mut self, now: u64) {
        while let Some(id) = self.ledger.in_flight.expired(now) {
            let slot = self.under_way.get_mut(id as usize);
            let Some(under_way) = slot.and_then(Option::take) else {
                self.end(id, Outcome::Unsent, 0, now);
                continue;
            };
            under_way.abort.abort();
            if under_way.opening {
                self.connections.gone(under_way.connection);
            } else {
                self.connections.ended(under_way.connection);
            }
            self.end(id, Outcome::Timeout, 0, now);
        }
    }

    /// Ends a request. Who thinks keeps no connection here: others' requests share it anyway.
    fn end(&mut self, id: u32, outcome: Outcome, status: u16, now: u64) {
        self.ledger.end(id, outcome, status, now);
    }
}
