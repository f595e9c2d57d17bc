//! One thread of the lane: starts what is due, ends what is overdue, sleeps until something happens.

use crate::arrivals::Shared;
use crate::connection::{Secure, Sources, socket};
use crate::http2::ask::{Ask, scheme};
use crate::http2::exchange::{Exchange, exchange};
use crate::http2::links::{LinkRef, Links, Place};
use crate::http2::opening::{NotOpened, Opened, open};
use crate::http2::timer::Timer;
use crate::in_flight::{Clock, Flight, FlightRef, NONE};
use crate::ledger::{Prepared, Traffic, share};
use crate::measure::{Finished, Outbox};
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
    /// An attempt to connect for a flight.
    Opened(LinkRef, FlightRef, Result<Opened, NotOpened>),
    /// The life of a connection.
    Gone(LinkRef),
    /// A request on a connection.
    Ended(LinkRef, FlightRef, Box<Exchange<'p>>),
    /// What was cut short by a timeout.
    Cancelled,
}

/// What a flight is waiting for.
#[derive(Debug)]
struct UnderWay {
    link: LinkRef,
    opening: bool,
    abort: AbortHandle,
}

/// One thread's state.
#[derive(Debug)]
pub(crate) struct Worker<'p> {
    prepared: &'p Prepared,
    pub(crate) traffic: Traffic<'p>,
    runtime: Option<Runtime>,
    /// By request; `None` where variables make each one anew.
    asks: Vec<Option<Ask>>,
    /// The addresses that new connections come from.
    sources: Sources<'p>,
    /// Where a request with variables is put together.
    wire: Vec<u8>,
    /// With sessions to resume of its own; `None` when connections are plain.
    secure: Option<Arc<Secure>>,
    links: Links,
    /// What each flight waits for, by its number.
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
fn asks(prepared: &Prepared) -> Result<Vec<Option<Ask>>, LoadError> {
    let fixed = prepared.templates.iter().map(|template| {
        let ask = template
            .is_fixed()
            .then(|| Ask::new(&template.whole, scheme(&prepared.target)));
        ask.transpose().map_err(|why| LoadError::Plan {
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
            traffic: Traffic::new(plan, prepared, shared, clock, thread),
            runtime: Some(runtime()?),
            asks: asks(prepared)?,
            sources: Sources::new(&plan.source_addresses, thread),
            wire: Vec::new(),
            secure: secure.map(|secure| Arc::new(secure.for_one_thread())),
            links: Links::new(
                share(plan.max_connections, thread, plan.threads),
                prepared.target.keeps_connections(),
            ),
            under_way: Vec::new(),
            events: FuturesUnordered::new(),
        })
    }

    /// Sends until every arrival has ended.
    pub(crate) fn run(mut self, outbox: &Outbox) -> Result<Finished, LoadError> {
        self.traffic.clock.wait_for_start();
        if let Some(runtime) = self.runtime.take() {
            runtime.block_on(self.drive(outbox))?;
            // What is left are connections, which need the runtime to the last.
            let _inside = runtime.enter();
            self.events.clear();
        }
        Ok(self.traffic.finish())
    }

    async fn drive(&mut self, outbox: &Outbox) -> Result<(), LoadError> {
        let mut timer = Timer::new().map_err(system("timerfd"))?;
        loop {
            let more_is_due = self.start_due();
            let now = self.traffic.clock.now();
            self.end_overdue(now);
            self.serve_queue(now);
            let turn = self.traffic.turn(now);
            self.traffic.publish(outbox, turn, self.links.open());
            if turn.over {
                return Ok(());
            }
            let wake = if more_is_due {
                now
            } else {
                self.traffic.wake_at(turn, 0)
            };
            if wake <= self.traffic.clock.now() {
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
        let clock = self.traffic.clock;
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
            let Some(now) = self.traffic.admit() else {
                return false;
            };
            self.serve_queue(now);
            self.traffic.note_backlog();
        }
        true
    }

    /// Gives waiting arrivals their places, in order, while there are any.
    fn serve_queue(&mut self, now: u64) {
        while let Some(front) = self.traffic.first_waiting(now) {
            let place = self.links.place(!self.traffic.backoff.holds(now));
            if matches!(place, Place::Full) {
                return;
            }
            self.traffic.leave_queue();
            match place {
                Place::Idle(link) | Place::Shared(link) => self.send(link, front, now),
                Place::New => self.connect(front),
                Place::Full => {}
            }
        }
    }

    /// Opens a connection for a flight.
    fn connect(&mut self, flight: FlightRef) {
        let link = self.links.begin();
        let (endpoint, secure) = (&self.prepared.endpoint, self.secure.clone());
        let source = self.sources.next();
        let attempt = async move {
            let opened = open(endpoint, source, secure.as_deref()).await;
            Event::Opened(link, flight, opened)
        };
        self.go(link, flight, true, attempt);
    }

    /// Puts a flight's request on a connection.
    fn send(&mut self, link: LinkRef, reference: FlightRef, now: u64) {
        let flight = self.traffic.flights.get_mut(reference.id);
        flight.sent = now;
        let flight = *flight;
        let Flight { request, user, .. } = flight;
        let template = &self.prepared.templates[request as usize];
        let (ask, body) = match self.ask(&flight) {
            Ok(made) => made,
            Err(why) => return self.keep_back(reference, request, &why, now),
        };
        let Some(sender) = self.links.put(link) else {
            return self.traffic.wait_again(reference);
        };
        let mut reply = Reply::default();
        reply.begin(template.watch.as_ref(), template.session || user != NONE);
        let request = ask;
        let clock = self.traffic.clock;
        let exchange = async move {
            let done = exchange(sender, request, body, reply, clock).await;
            Event::Ended(link, reference, Box::new(done))
        };
        self.go(link, reference, false, exchange);
    }

    /// The request of a user, or of nobody.
    fn ask(&mut self, flight: &Flight) -> Result<(http::Request<()>, Option<Bytes>), String> {
        let Flight {
            request,
            user,
            number,
            ..
        } = *flight;
        let template = &self.prepared.templates[request as usize];
        if let Some(ask) = &self.asks[request as usize] {
            let cookies = match user {
                NONE => "",
                user => self.traffic.users.jar(user).line(),
            };
            return Ok((ask.with_cookies(cookies), ask.body.clone()));
        }
        let (told, scratch) = self.traffic.users.tell(user, number);
        template
            .write_with_values(&told, "", scratch, &mut self.wire)
            .map_err(|problem| problem.describe())?;
        let ask = Ask::new(&self.wire, scheme(&self.prepared.target))?;
        let cookies = match user {
            NONE => "",
            _ => told.cookies(),
        };
        Ok((ask.with_cookies(cookies), ask.body))
    }

    /// Ends a flight whose request cannot be made; the place it would have taken stays free.
    fn keep_back(&mut self, reference: FlightRef, request: u32, why: &str, now: u64) {
        let prepared = self.prepared;
        self.traffic.examples.add(Outcome::NoValue, 0, request, || {
            let name = &prepared.templates[request as usize].name;
            format!("{name}: not sent: {why}")
        });
        self.end(reference.id, Outcome::NoValue, 0, now);
    }

    /// Lets a future run that a timeout can cut short.
    fn go(
        &mut self,
        link: LinkRef,
        flight: FlightRef,
        opening: bool,
        future: impl Future<Output = Event<'p>> + 'p,
    ) {
        let (abort, registration) = AbortHandle::new_pair();
        let id = flight.id as usize;
        if self.under_way.len() <= id {
            self.under_way.resize_with(id + 1, || None);
        }
        self.under_way[id] = Some(UnderWay {
            link,
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
        let now = self.traffic.clock.now();
        match event {
            Event::Opened(link, flight, opened) => {
                self.under_way[flight.id as usize] = None;
                match opened {
                    Ok(opened) => self.on_opened(link, flight, opened, now),
                    Err(why) => self.on_not_opened(link, flight, &why, now),
                }
            }
            Event::Ended(link, flight, exchange) => {
                self.under_way[flight.id as usize] = None;
                self.on_ended(link, flight, *exchange, now);
            }
            Event::Gone(link) => self.links.gone(link),
            Event::Cancelled => {}
        }
        self.serve_queue(now);
    }

    fn on_opened(&mut self, link: LinkRef, flight: FlightRef, opened: Opened, now: u64) {
        self.traffic.backoff.connected();
        self.traffic.recorder.opened(now);
        self.links.opened(link, opened.sender);
        self.events.push(Box::pin(async move {
            // How it ended, its requests say.
            let _ = opened.life.await;
            Event::Gone(link)
        }));
        self.send(link, flight, now);
    }

    /// Ends a flight that could not connect, and those that waited for the same attempt.
    fn on_not_opened(&mut self, link: LinkRef, flight: FlightRef, why: &NotOpened, now: u64) {
        self.links.gone(link);
        let request = self.traffic.flights.get(flight.id).request;
        let name = &self.prepared.templates[request as usize].name;
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
        self.traffic.examples.add(outcome, 0, 0, || text);
        self.end(flight.id, outcome, 0, now);
        if outcome == Outcome::Reset {
            self.traffic.dropped_unanswered(now);
            return;
        }
        self.traffic.backoff.refused(now);
        self.traffic.end_waiting(outcome, now);
    }

    fn on_ended(&mut self, link: LinkRef, reference: FlightRef, mut done: Exchange<'p>, now: u64) {
        let reused = self.links.ended(link);
        let flight = self.traffic.flights.get_mut(reference.id);
        flight.first_byte = done.first_byte;
        let flight = *flight;
        let request = flight.request;
        self.traffic
            .recorder
            .received(flight.intended, done.received);
        let Some(error) = &done.failure else {
            let status = done.reply.status;
            let outcome = self.traffic.judge(&flight, &mut done.reply);
            return self.end(reference.id, outcome, status, now);
        };
        if error.is_io() || error.is_go_away() {
            self.links.retire(link);
        }
        if !flight.retried && done.is_stale(error, reused) {
            self.traffic.flights.get_mut(reference.id).retried = true;
            return self.traffic.wait_again(reference);
        }
        if !reused && done.first_byte == 0 {
            self.traffic.dropped_unanswered(now);
        }
        let outcome = done.outcome(error);
        let template = &self.prepared.templates[request as usize];
        self.traffic.examples.add(outcome, 0, request, || {
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
        while let Some(id) = self.traffic.flights.expired(now) {
            let slot = self.under_way.get_mut(id as usize);
            let Some(under_way) = slot.and_then(Option::take) else {
                self.end(id, Outcome::Unsent, 0, now);
                continue;
            };
            under_way.abort.abort();
            if under_way.opening {
                self.links.gone(under_way.link);
            } else {
                self.links.ended(under_way.link);
            }
            self.end(id, Outcome::Timeout, 0, now);
        }
    }

    /// Ends a flight. Who thinks keeps no connection here: others' requests share it anyway.
    fn end(&mut self, id: u32, outcome: Outcome, status: u16, now: u64) {
        self.traffic.end(id, outcome, status, now);
    }
}
