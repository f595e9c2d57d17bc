//! How a thread sends: one transport for one request at a time on a connection, one for many.

use crate::arrivals::Shared;
use crate::engine::worker::Worker;
use crate::http2;
use crate::in_flight::Clock;
use crate::ledger::Prepared;
use crate::measure::{Finished, Mailbox};
use crate::plan::{HttpVersion, LoadError, LoadPlan};

/// One thread's way of sending. Both account for every arrival alike.
#[derive(Debug)]
pub(crate) enum Transport<'p> {
    /// HTTP/1.1 and FastCGI: an epoll loop of our own, as cheap as can be.
    Serial(Box<Worker<'p>>),
    /// HTTP/2: the `h2` crate on tokio, which costs more per request.
    Multiplexed(Box<http2::Worker<'p>>),
}

impl<'p> Transport<'p> {
    /// Thread number `thread`, with its share of arrivals, users, connections and workers.
    pub(crate) fn new(
        plan: &'p LoadPlan,
        prepared: &'p Prepared,
        shared: &'p Shared,
        clock: Clock,
        thread: usize,
    ) -> Result<Self, LoadError> {
        match plan.target.version() {
            HttpVersion::Http1 => Worker::new(plan, prepared, shared, clock, thread)
                .map(|worker| Self::Serial(Box::new(worker))),
            HttpVersion::Http2 => http2::Worker::new(plan, prepared, shared, clock, thread)
                .map(|worker| Self::Multiplexed(Box::new(worker))),
        }
    }

    /// Sends from the common start until every arrival has ended.
    pub(crate) fn run(self, clock: Clock, mailbox: &Mailbox) -> Result<Finished, LoadError> {
        match self {
            Self::Serial(mut worker) => {
                worker.ledger.clock = clock;
                worker.run(mailbox)
            }
            Self::Multiplexed(mut worker) => {
                worker.ledger.clock = clock;
                worker.run(mailbox)
            }
        }
    }
}
