//! One sample of one worker: what it does, on which stack, for which request.

mod identify;
pub(crate) mod request;
mod storage;

use crate::error::ProfilerError;
use crate::memory::{Memory, ProcessMemory, ReadError};
use crate::process::cores::{is_off_core, tells_cores};
use crate::process::elf::Symbols;
use crate::process::{Finder, Watch, ended};
use crate::sample::{Attached, Sample, SampleOutcome, State, WorkerRequest};
use crate::sampler::identify::{Php, identify, named};
use crate::stack::labels::{self, Known};
use crate::stack::{Link, Reader, Reading};
use kneepoint_model::Place;
use request::Busy;
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
    pub(crate) fn identify(&mut self, pid: u32) -> Result<Attached, ProfilerError> {
        let symbols = self.finder.find(pid)?;
        let memory = ProcessMemory::of(pid).ok_or(ProfilerError::Gone { pid })?;
        named(pid, &memory, &symbols).map(|named| named.into_attached())
    }

    /// Finds PHP in a process, or in one of its threads, and checks that its memory looks as its version lays it out.
    ///
    /// # Errors
    /// The process is gone, may not be read, is no PHP, or one whose layout is not known or does not fit; or the thread
    /// executes no PHP.
    pub fn attach(&mut self, pid: u32) -> Result<Attached, ProfilerError> {
        // A process that ends takes its files and its memory with it first, which looks like much else.
        self.look_into(pid).map_err(|error| match ended(pid) {
            true => ProfilerError::Gone { pid },
            false => error,
        })
    }

    fn look_into(&mut self, pid: u32) -> Result<Attached, ProfilerError> {
        let watch = Watch::of(pid);
        let symbols = self.finder.find(pid)?;
        let memory = ProcessMemory::of(pid).ok_or(ProfilerError::Gone { pid })?;
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

    /// Whether a worker is attached.
    pub(crate) fn knows(&self, pid: u32) -> bool {
        self.workers.contains_key(&pid)
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
    pub(crate) fn request(&self, pid: u32) -> Option<(i32, WorkerRequest)> {
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
            None => Sample::without_stack(SampleOutcome::Gone, State::Unknown),
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
    fn new(pid: u32, memory: M, watch: Watch, symbols: &Symbols) -> Result<Self, ProfilerError> {
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
            None => return Sample::without_stack(SampleOutcome::Gone, State::Unknown),
            Some(State::Running) if is_off_core() => State::Ready,
            Some(state) => state,
        };
        if before.accepts() {
            return Sample::without_stack(SampleOutcome::Idle, before);
        }
        let (outcome, stack, request) = match self.look(before) {
            Ok(looked) => looked,
            Err(ReadError::Gone) => (SampleOutcome::Gone, Vec::new(), WorkerRequest::default()),
            Err(ReadError::Denied) => (
                SampleOutcome::Error("its memory may not be read"),
                Vec::new(),
                WorkerRequest::default(),
            ),
            Err(ReadError::Unmapped) => (
                SampleOutcome::Error("nothing is where its globals were"),
                Vec::new(),
                WorkerRequest::default(),
            ),
        };
        let after = self.watch.look();
        Sample {
            // A worker that ends takes its memory with it first.
            outcome: match (outcome, after) {
                (SampleOutcome::Error(_), None) => SampleOutcome::Gone,
                _ => outcome,
            },
            stack,
            request,
            state: (before, after.unwrap_or(State::Unknown)),
        }
    }

    fn look(
        &mut self,
        state: State,
    ) -> Result<(SampleOutcome, Vec<Place>, WorkerRequest), ReadError> {
        let (outcome, stack) = self.stack()?;
        let globals = self.php.sapi_globals.at;
        let busy = match self.php.sapi.as_str() {
            "fpm-fcgi" => request::busy(&self.memory, globals)?,
            _ => Busy::Unknown,
        };
        let request = match busy {
            Busy::With(list) => request::request(&self.memory, list)?,
            Busy::Unknown if !stack.is_empty() => request::plain(&self.memory, globals),
            Busy::Idle | Busy::Unknown => WorkerRequest::default(),
        };
        let waits = stack.last().is_some_and(|innermost| {
            !state.runs() && WAITS_FOR_REQUEST.contains(&innermost.function.as_str())
        });
        if waits {
            return Ok((SampleOutcome::Idle, Vec::new(), WorkerRequest::default()));
        }
        let no_code = stack.is_empty() && matches!(outcome, SampleOutcome::Ok);
        let idle = match busy {
            Busy::Idle => true,
            Busy::With(_) => false,
            Busy::Unknown => !state.runs(),
        };
        Ok((
            if no_code && idle {
                SampleOutcome::Idle
            } else {
                outcome
            },
            stack,
            request,
        ))
    }

    /// The stack, outermost frame first; empty when no PHP code runs.
    fn stack(&mut self) -> Result<(SampleOutcome, Vec<Place>), ReadError> {
        let mut outer: Option<Vec<Link>> = None;
        let mut nameless: Option<Vec<Link>> = None;
        let mut wrong = "the stack changed all the time";
        for attempt in 0..ATTEMPTS {
            if attempt >= AT_ONCE {
                thread::sleep(PAUSE);
            }
            match self.reader.read(&self.memory)? {
                Reading::NoCode => return Ok((SampleOutcome::Ok, Vec::new())),
                Reading::Stack { links, salvaged } => match self.name(&links)? {
                    Ok(stack) if salvaged => return Ok((SampleOutcome::Salvaged, stack)),
                    Ok(stack) => return Ok((SampleOutcome::Ok, stack)),
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
                Ok(stack) => return Ok((SampleOutcome::Salvaged, stack)),
                Err(why) => wrong = why,
            }
        }
        for inner in 1..=NAMELESS {
            let links = nameless.as_deref().and_then(|links| links.get(inner..));
            let Some(links) = links.filter(|links| !links.is_empty()) else {
                break;
            };
            if let Ok(stack) = self.name(links)? {
                return Ok((SampleOutcome::Salvaged, stack));
            }
        }
        Ok((SampleOutcome::Error(wrong), Vec::new()))
    }

    fn name(&mut self, links: &[Link]) -> Result<Result<Vec<Place>, &'static str>, ReadError> {
        let (abi, globals) = (self.php.abi, self.php.executor_globals);
        labels::name(&self.memory, abi, globals, links, &mut self.known)
    }
}
