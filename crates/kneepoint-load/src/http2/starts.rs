//! Who starts the next request of a thread, and when.

use crate::arrivals::ArrivalStream;
use crate::plan::{LoadPlan, Mode};
use crate::worker::Backoff;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
enum Source<'p> {
    Schedule {
        stream: ArrivalStream<'p>,
        next: Option<u64>,
    },
    /// How many workers of a closed loop are free.
    Free(u32),
}

/// What decides about the new requests of one thread.
#[derive(Debug)]
pub(crate) struct Starts<'p> {
    source: Source<'p>,
    until: u64,
    cut: &'p AtomicU64,
}

impl<'p> Starts<'p> {
    pub(crate) fn new(plan: &'p LoadPlan, cut: &'p AtomicU64, thread: usize, workers: u32) -> Self {
        let source = match &plan.mode {
            Mode::Open { schedule, arrivals } => {
                let mut stream = ArrivalStream::new(schedule, *arrivals, thread, plan.threads);
                let next = stream.next();
                Source::Schedule { stream, next }
            }
            Mode::Closed { .. } => Source::Free(workers),
        };
        Self {
            source,
            until: plan.mode.duration().as_nanos() as u64,
            cut,
        }
    }

    fn cut(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }

    /// Whether responses and not the schedule decide when requests start.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.source, Source::Free(_))
    }

    /// When the next request starts: `None` when no more will. While it is not known, or there is none left, the end
    /// of the load.
    pub(crate) fn next(&self, now: u64) -> Option<u64> {
        let cut = self.cut();
        let end = self.until.min(cut);
        let waits = (now < end).then_some(end);
        match &self.source {
            Source::Schedule { next, .. } => next.filter(|at| *at <= cut).or(waits),
            Source::Free(free) => waits.map(|end| if *free > 0 { now } else { end }),
        }
    }

    /// Takes a request that is due: its intended start.
    pub(crate) fn take(&mut self, now: u64, backoff: &Backoff) -> Option<u64> {
        let cut = self.cut();
        match &mut self.source {
            Source::Schedule { stream, next } => {
                let intended = next.filter(|at| *at <= now && *at <= cut)?;
                *next = stream.next();
                Some(intended)
            }
            Source::Free(free) => {
                let may = *free > 0 && now < self.until.min(cut) && !backoff.holds(now);
                may.then(|| {
                    *free -= 1;
                    now
                })
            }
        }
    }

    /// A request has ended.
    pub(crate) fn ended(&mut self) {
        if let Source::Free(free) = &mut self.source {
            *free += 1;
        }
    }
}
