//! One sample of one worker: what it does, on which stack, for which request.

use crate::cores::{is_off_core, tells_cores};
use crate::elf::Symbols;
use crate::error::Error;
use crate::identify::{Php, identify, named};
use crate::labels::{self, Known};
use crate::memory::{Memory, ProcessMemory, ReadError};
pub use crate::process::State;
use crate::process::{Finder, Watch, ended};
use crate::request::{self, Busy};
use crate::stack::{Link, Reader, Reading};
use crate::storage;
use kneepoint_model::folding::fold_path;
use kneepoint_model::{Place, StackProfile};
use std::collections::HashMap;
use std::thread;
use std::time::Duration;

/// Attempts to read one stack.
const ATTEMPTS: usize = 8;
/// Attempts that follow one another at once.
const AT_ONCE: usize = 3;
/// Time before each of the others. Whoever samples may have taken the CPU from the worker in the middle of what does
/// not fit together: it must get it back to go on.
const PAUSE: Duration = Duration::from_micros(100);

/// Functions in which a worker that serves one request after the other waits for the next: it has none meanwhile.
const WAITS_FOR_REQUEST: [&str; 1] = ["frankenphp_handle_request"];

/// Inner frames that are left out at most where they have no name: a worker that lost the CPU while it began or ended
/// a call stays like that for long.
const NAMELESS: usize = 3;

/// The request a worker is at, from what the web server told PHP-FPM.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// `REQUEST_METHOD`.
    pub method: Option<String>,
    /// The path of `REQUEST_URI`, or `SCRIPT_NAME` where it is not sent. Without the query, which may hold secrets.
    pub path: Option<String>,
    /// `HTTP_X_REQUEST_ID`.
    pub id: Option<String>,
}

impl Request {
    /// Method and path, with identifiers folded: `GET /orders/{n}`.
    #[must_use]
    pub fn route(&self) -> String {
        let method = self.method.as_deref().unwrap_or("?");
        let path = self.path.as_deref().unwrap_or("?");
        format!("{method} {}", fold_path(path))
    }
}

/// How a sample went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The stack is the one the worker had.
    Ok,
    /// The stack changed while it was read: it is the outer part that did not.
    Salvaged,
    /// No stack could be read that makes sense; what was wrong with the last attempt.
    Error(&'static str),
    /// The worker has no request.
    Idle,
    /// The worker has ended.
    Gone,
}

/// What one look at a worker gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// How it went.
    pub outcome: Outcome,
    /// The stack, outermost frame first. Empty when there is none, or the engine itself was at work (compiling the
    /// first file, beginning or ending a request).
    pub stack: Vec<Place>,
    /// The request it was at, where that is known.
    pub request: Request,
    /// What it was doing, before and after the stack was read. The first is the moment of the sample; blocked in the same
    /// call both times, the stack is exact.
    pub state: (State, State),
}

/// What was found in a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// Version of PHP: `8.2.35`.
    pub version: String,
    /// Name of its server interface: `fpm-fcgi`, `cli`; empty when it is not told.
    pub sapi: String,
    /// Whether it was built for threads, so that each of its threads may be a worker.
    pub threads: bool,
}

/// Samples workers: processes, or threads of a PHP built for them. It reads their memory and `/proc`, and never stops
/// one, except such a thread, once, when it is attached.
#[derive(Debug, Default)]
pub struct Sampler {
    finder: Finder,
    workers: HashMap<u32, Worker<ProcessMemory>>,
    tells_cores: bool,
}

impl Sampler {
    /// Without workers yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells a worker that is ready to run from one that has a core, where this kernel lets it.
    pub(crate) fn telling_cores() -> Self {
        Self {
            tells_cores: tells_cores(),
            ..Self::default()
        }
    }

    /// Which PHP a process runs, whichever of its threads does.
    pub(crate) fn identify(&mut self, pid: u32) -> Result<Attached, Error> {
        let symbols = self.finder.find(pid)?;
        let memory = ProcessMemory::of(pid).ok_or(Error::Gone { pid })?;
        named(pid, &memory, &symbols).map(|named| named.into_attached())
    }

    /// Finds PHP in a process, or in one of its threads, and checks that its memory looks as its version lays it out.
    ///
    /// # Errors
    /// The process is gone, may not be read, is no PHP, or one whose layout is not known or does not fit; or the thread
    /// executes no PHP.
    pub fn attach(&mut self, pid: u32) -> Result<Attached, Error> {
        // A process that ends takes its files and its memory with it first, which looks like much else.
        self.look_into(pid).map_err(|error| match ended(pid) {
            true => Error::Gone { pid },
            false => error,
        })
    }

    fn look_into(&mut self, pid: u32) -> Result<Attached, Error> {
        let watch = Watch::of(pid);
        let symbols = self.finder.find(pid)?;
        let memory = ProcessMemory::of(pid).ok_or(Error::Gone { pid })?;
        let worker = Worker::new(pid, memory, watch, &symbols)?;
        let attached = Attached {
            version: worker.php.version.clone(),
            sapi: worker.php.sapi.clone(),
            threads: symbols.of_threads(),
        };
        self.workers.insert(pid, worker);
        Ok(attached)
    }

    /// Forgets a worker.
    pub fn detach(&mut self, pid: u32) {
        self.workers.remove(&pid);
    }

    /// Whether a worker waits for a connection: it has no request.
    pub(crate) fn accepts(&self, pid: u32) -> bool {
        let worker = self.workers.get(&pid);
        let state = worker.and_then(|worker| worker.watch.look());
        state.is_some_and(State::accepts)
    }

    /// The stack of a worker that stands still, outermost place first; empty where no PHP code runs, or none can be
    /// read.
    pub(crate) fn still(&mut self, pid: u32) -> Vec<Place> {
        let worker = self.workers.get_mut(&pid);
        let stack = worker.and_then(|worker| worker.stack().ok());
        stack.map(|(_, stack)| stack).unwrap_or_default()
    }

    /// The request a worker of PHP-FPM is at, and the descriptor it came by.
    pub(crate) fn request(&self, pid: u32) -> Option<(i32, Request)> {
        let worker = self.workers.get(&pid)?;
        let globals = worker.php.sapi_globals.at;
        let Ok(Busy::With(list)) = request::busy(&worker.memory, globals) else {
            return None;
        };
        let fd = request::connection(&worker.memory, globals)?;
        Some((fd, request::request(&worker.memory, list).ok()?))
    }

    /// Looks at a worker. One that was not attached is gone.
    pub fn sample(&mut self, pid: u32) -> Sample {
        let tells_cores = self.tells_cores;
        let is_off_core = || tells_cores && is_off_core(pid);
        match self.workers.get_mut(&pid) {
            Some(worker) => worker.sample(is_off_core),
            None => Sample::without_stack(Outcome::Gone, State::Unknown),
        }
    }
}

impl Sample {
    /// Whether the worker was blocked in one system call while its stack was read.
    #[must_use]
    pub fn blocked(&self) -> bool {
        matches!(self.state, (State::Blocked(before), State::Blocked(after)) if before == after)
    }

    /// What the worker waited for at the moment of the sample: `blocked_on` tells it of one that is blocked. One that was
    /// ready waited for a core, as did one that was woken while its stack was read, and so does not compute: what waits
    /// longest for a core is what was woken most often, or what computes longest without a pause, not what takes most of
    /// the CPU. `None` when it had a core, or that cannot be told.
    pub(crate) fn wait(&self, blocked_on: impl FnOnce() -> Option<String>) -> Option<String> {
        let for_a_core = || Some(StackProfile::NO_CORE.to_owned());
        match self.state {
            _ if !matches!(self.outcome, Outcome::Ok | Outcome::Salvaged) => None,
            _ if self.blocked() => blocked_on().or_else(for_a_core),
            (State::Blocked(_) | State::Ready, _) => for_a_core(),
            (State::Running | State::Unknown, _) => None,
        }
    }

    fn without_stack(outcome: Outcome, state: State) -> Self {
        Self {
            outcome,
            stack: Vec::new(),
            request: Request::default(),
            state: (state, state),
        }
    }
}

/// A worker, and what is remembered of it.
#[derive(Debug)]
struct Worker<M> {
    memory: M,
    watch: Watch,
    php: Php,
    reader: Reader,
    known: Known,
}

impl<M: Memory> Worker<M> {
    fn new(pid: u32, memory: M, watch: Watch, symbols: &Symbols) -> Result<Self, Error> {
        let places = storage::places(pid, &memory, symbols)?;
        let php = identify(pid, &memory, symbols, places)?;
        let reader = Reader::new(php.executor_globals.at, php.abi);
        Ok(Self {
            memory,
            watch,
            php,
            reader,
            known: Known::default(),
        })
    }

    fn sample(&mut self, is_off_core: impl Fn() -> bool) -> Sample {
        let before = match self.watch.look() {
            None => return Sample::without_stack(Outcome::Gone, State::Unknown),
            Some(State::Running) if is_off_core() => State::Ready,
            Some(state) => state,
        };
        if before.accepts() {
            return Sample::without_stack(Outcome::Idle, before);
        }
        let (outcome, stack, request) = match self.look(before) {
            Ok(looked) => looked,
            Err(ReadError::Gone) => (Outcome::Gone, Vec::new(), Request::default()),
            Err(ReadError::Denied) => (
                Outcome::Error("its memory may not be read"),
                Vec::new(),
                Request::default(),
            ),
            Err(ReadError::Unmapped) => (
                Outcome::Error("nothing is where its globals were"),
                Vec::new(),
                Request::default(),
            ),
        };
        let after = self.watch.look();
        Sample {
            // A worker that ends takes its memory with it first.
            outcome: match (outcome, after) {
                (Outcome::Error(_), None) => Outcome::Gone,
                _ => outcome,
            },
            stack,
            request,
            state: (before, after.unwrap_or(State::Unknown)),
        }
    }

    fn look(&mut self, state: State) -> Result<(Outcome, Vec<Place>, Request), ReadError> {
        let (outcome, stack) = self.stack()?;
        let globals = self.php.sapi_globals.at;
        let busy = match self.php.sapi.as_str() {
            "fpm-fcgi" => request::busy(&self.memory, globals)?,
            _ => Busy::Unknown,
        };
        let request = match busy {
            Busy::With(list) => request::request(&self.memory, list)?,
            Busy::Unknown if !stack.is_empty() => request::plain(&self.memory, globals),
            Busy::Idle | Busy::Unknown => Request::default(),
        };
        let waits = stack.last().is_some_and(|innermost| {
            !state.runs() && WAITS_FOR_REQUEST.contains(&innermost.function.as_str())
        });
        if waits {
            return Ok((Outcome::Idle, Vec::new(), Request::default()));
        }
        let no_code = stack.is_empty() && matches!(outcome, Outcome::Ok);
        let idle = match busy {
            Busy::Idle => true,
            Busy::With(_) => false,
            Busy::Unknown => !state.runs(),
        };
        Ok((
            if no_code && idle {
                Outcome::Idle
            } else {
                outcome
            },
            stack,
            request,
        ))
    }

    /// The stack, outermost frame first; empty when no PHP code runs.
    fn stack(&mut self) -> Result<(Outcome, Vec<Place>), ReadError> {
        let mut outer: Option<Vec<Link>> = None;
        let mut nameless: Option<Vec<Link>> = None;
        let mut wrong = "the stack changed all the time";
        for attempt in 0..ATTEMPTS {
            if attempt >= AT_ONCE {
                thread::sleep(PAUSE);
            }
            match self.reader.read(&self.memory)? {
                Reading::NoCode => return Ok((Outcome::Ok, Vec::new())),
                Reading::Stack { links, salvaged } => match self.name(&links)? {
                    Ok(stack) if salvaged => return Ok((Outcome::Salvaged, stack)),
                    Ok(stack) => return Ok((Outcome::Ok, stack)),
                    Err(why) => {
                        wrong = why;
                        nameless = Some(links);
                    }
                },
                Reading::Outer(links) => outer = Some(links),
                Reading::Failed(why) => wrong = why,
            }
        }
        if let Some(links) = outer {
            match self.name(&links)? {
                Ok(stack) => return Ok((Outcome::Salvaged, stack)),
                Err(why) => wrong = why,
            }
        }
        for inner in 1..=NAMELESS {
            let links = nameless.as_deref().and_then(|links| links.get(inner..));
            let Some(links) = links.filter(|links| !links.is_empty()) else {
                break;
            };
            if let Ok(stack) = self.name(links)? {
                return Ok((Outcome::Salvaged, stack));
            }
        }
        Ok((Outcome::Error(wrong), Vec::new()))
    }

    fn name(&mut self, links: &[Link]) -> Result<Result<Vec<Place>, &'static str>, ReadError> {
        let (abi, globals) = (self.php.abi, self.php.executor_globals);
        labels::name(&self.memory, abi, globals, links, &mut self.known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAP: State = State::Blocked(libc::SYS_nanosleep);

    fn check(state: (State, State), outcome: Outcome, expected: Option<&str>) {
        let sample = Sample {
            state,
            ..Sample::without_stack(outcome, state.0)
        };
        let wait = sample.wait(|| Some("sleep".to_owned()));
        assert_eq!(wait.as_deref(), expected, "{state:?}");
    }

    #[test]
    fn a_worker_does_what_it_did_at_the_first_look() {
        let no_core = Some(StackProfile::NO_CORE);
        for after in [State::Running, NAP, State::Unknown] {
            check((State::Running, after), Outcome::Ok, None);
            check((State::Ready, after), Outcome::Ok, no_core);
            check((State::Unknown, after), Outcome::Ok, None);
        }
        check((NAP, NAP), Outcome::Ok, Some("sleep"));
        check((NAP, NAP), Outcome::Idle, None);
        for after in [State::Running, State::Blocked(libc::SYS_read)] {
            check((NAP, after), Outcome::Salvaged, no_core);
        }
    }

    #[test]
    fn a_worker_that_is_woken_before_its_wait_is_told_computes_nothing() {
        let sample = Sample::without_stack(Outcome::Ok, NAP);
        assert_eq!(sample.wait(|| None).as_deref(), Some(StackProfile::NO_CORE));
    }
}
