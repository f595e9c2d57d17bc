//! What a double answers, how long it takes for it, and for how many at once.

use crate::Double;
use kneepoint_model::PeerKind;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Places for a number of requests at once.
#[derive(Debug)]
pub(crate) struct Places {
    free: Mutex<u32>,
    freed: Condvar,
}

/// One of the places, until it is dropped.
pub(crate) struct Place<'p>(&'p Places);

impl Places {
    pub(crate) fn new(count: u32) -> Self {
        Self {
            free: Mutex::new(count.max(1)),
            freed: Condvar::new(),
        }
    }

    /// Waits until there is a place, and takes none.
    pub(crate) fn wait(&self) {
        drop(self.take());
    }

    /// Waits for a place.
    pub(crate) fn take(&self) -> Place<'_> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            let woken = self.freed.wait(free);
            free = woken.unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        Place(self)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

/// What answers, and when.
#[derive(Debug)]
pub(crate) struct Answers {
    pub(crate) places: Places,
    latency: Duration,
    pub(crate) kind: PeerKind,
    /// The whole answer of HTTP to a request with a body, and its length without the body.
    pub(crate) response: Vec<u8>,
    pub(crate) head: usize,
}

impl Answers {
    pub(crate) fn of(double: &Double) -> Self {
        // Answers of these have no body (RFC 9110, section 15).
        let body = match double.status {
            204 | 304 => "",
            _ => double.body.as_str(),
        };
        let head = head(double.status, body);
        Self {
            places: Places::new(double.capacity),
            latency: double.latency,
            kind: double.kind,
            head: head.len(),
            response: [head.as_bytes(), body.as_bytes()].concat(),
        }
    }

    /// Takes a place for as long as an answer takes.
    pub(crate) fn think(&self) {
        let _place = self.places.take();
        if !self.latency.is_zero() {
            thread::sleep(self.latency);
        }
    }
}

/// The head of every answer, with the empty line behind it.
fn head(status: u16, body: &str) -> String {
    let kind = match body.trim_start().chars().next() {
        Some('{' | '[') => "application/json",
        Some('<') => "text/html; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    format!(
        "HTTP/1.1 {status} Double\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
}
