//! The owner's end of the line to the keeper: any thread may ask, each gets its own answer.

use crate::LabError;
use crate::protocol::{Answer, Reply, Request, receive, send};
use crate::record::LabId;
use kneepoint_linux::Stat;
use std::collections::HashMap;
use std::io::BufReader;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

#[derive(Default)]
struct Waiting {
    last_number: u64,
    /// `None` once the keeper is gone.
    answers: Option<HashMap<u64, Sender<Reply>>>,
}

/// A connection to a keeper.
pub(crate) struct Client {
    writer: Mutex<UnixStream>,
    waiting: Arc<Mutex<Waiting>>,
    reader: Option<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// Takes over a connection. When the keeper hangs up, `hung_up` runs before anyone who still waits is told.
    pub(crate) fn new(
        stream: UnixStream,
        hung_up: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let mut from_keeper = BufReader::new(stream.try_clone()?);
        let waiting = Arc::new(Mutex::new(Waiting {
            last_number: 0,
            answers: Some(HashMap::new()),
        }));
        let shared = Arc::clone(&waiting);
        let reader = thread::Builder::new()
            .name("lab answers".into())
            .spawn(move || {
                while let Some(message) = receive::<Reply>(&mut from_keeper) {
                    let answers = &mut lock(&shared).answers;
                    let asker = answers.as_mut().and_then(|it| it.remove(&message.number));
                    if let Some(asker) = asker {
                        // An asker that gave up does not want to know.
                        let _ = asker.send(message.body);
                    }
                }
                hung_up();
                lock(&shared).answers = None;
            })?;
        Ok(Self {
            writer: Mutex::new(stream),
            waiting,
            reader: Some(reader),
        })
    }

    /// Asks and waits for the answer; for a limited time if there is a limit.
    ///
    /// # Errors
    /// The keeper's own, or [`LabError::KeeperLost`] when it is gone or silent.
    pub(crate) fn ask(&self, lab: &str, request: Request, limit: Option<Duration>) -> Reply {
        let lost = || LabError::KeeperLost {
            lab: lab.to_owned(),
        };
        let (asker, answer) = channel();
        let number = {
            let mut waiting = lock(&self.waiting);
            waiting.last_number += 1;
            let number = waiting.last_number;
            let answers = waiting.answers.as_mut().ok_or_else(lost)?;
            answers.insert(number, asker);
            number
        };
        // When this fails the reader notices the same, and drops what waits.
        let _ = send(&mut *lock(&self.writer), number, request);
        let reply = match limit {
            Some(limit) => answer.recv_timeout(limit),
            None => wait(&answer, lab)?,
        };
        reply.unwrap_or_else(|_| Err(lost()))
    }

    /// Asks for something that is answered with `Done`.
    pub(crate) fn order(&self, lab: &str, request: Request) -> Result<(), LabError> {
        match self.ask(lab, request, None)? {
            Answer::Done => Ok(()),
            other => Err(misunderstood(&other)),
        }
    }

    /// Hangs up; the keeper ends if it has not already.
    pub(crate) fn hang_up(&mut self) {
        // Fails when the keeper has hung up already.
        let _ = lock(&self.writer).shutdown(Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            // A reader that panicked has nothing left to do.
            let _ = reader.join();
        }
    }
}

/// How often it is looked whether the keeper can answer at all.
const LOOK: Duration = Duration::from_secs(1);
/// So many looks in a row find a keeper that somebody stopped before it is given up.
const STOPPED_LOOKS: u32 = 10;

/// Waits for an answer for as long as the keeper can give one: it has limits of its own for what it is asked.
///
/// # Errors
/// Somebody stopped the keeper and it does not go on.
fn wait(answer: &Receiver<Reply>, lab: &str) -> Result<Result<Reply, RecvTimeoutError>, LabError> {
    let keeper = lab.parse::<LabId>().map(LabId::keeper).ok();
    let mut stopped = 0;
    loop {
        match answer.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) => {
                let state = keeper.and_then(|keeper| Stat::of(keeper.pid));
                let is_stopped = state.is_some_and(|it| matches!(it.state, b'T' | b't'));
                stopped = if is_stopped { stopped + 1 } else { 0 };
                if stopped >= STOPPED_LOOKS {
                    return Err(LabError::KeeperStopped {
                        lab: lab.to_owned(),
                    });
                }
            }
            ended => return Ok(ended),
        }
    }
}

/// An answer that does not belong to the question.
pub(crate) fn misunderstood(answer: &Answer) -> LabError {
    LabError::NoKeeper {
        why: format!("it answered another question: {answer:?}"),
    }
}
