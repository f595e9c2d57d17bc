//! The evidence pass: what workers do for each request, system call by system call, with the line of PHP that does it.
//!
//! A worker is stopped (ptrace(2)) at every system call and at the end of it, and read while it stands still: nothing
//! is torn, every call is counted. It becomes several times slower meanwhile, so this is for a few requests at low
//! load, and says nothing of time. When the tracer ends, however it does, the kernel lets the workers go on.
//!
//! While it looks at one worker the others may wait for it, so it waits for nobody: it tells how far it is by numbers
//! that others may read, and whoever traces workers that serve people watches these, and ends it when they stand still.

mod calls;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod tally;
pub(crate) mod tripwire;
mod wire;

use crate::error::ProfilerError;
use crate::memory::{Memory, ProcessMemory, ReadError};
use crate::process::{Pools, workers};
use crate::ptrace::{self, Event, NO_SIGNAL, Syscall};
use crate::sampler::Sampler;
use calls::Call;
use kneepoint_linux::process;
use kneepoint_model::{Address, CallKind, CallTrace};
use rustix::net::{SocketAddrAny, SocketAddrUnix, getpeername};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tally::{Act, Doing, Tally};
use wire::Said;

/// Time between two looks for workers that came.
const LOOK: Duration = Duration::from_millis(250);
/// Looks for an event without a pause in between: the next call is rarely far.
const EAGER: u32 = 500;
/// Pause between two looks behind those.
const NAP: Duration = Duration::from_micros(500);
/// Longest time to let go of all workers; the end of the thread does so for those that are left.
const LET_GO: Duration = Duration::from_millis(500);
/// What stands for a query that was prepared before it was traced.
const PREPARED_BEFORE: &str = "(a statement prepared before the trace)";

/// What to trace.
#[derive(Debug, Clone)]
pub struct TraceOptions {
    /// A worker of PHP-FPM, or its master: then all its workers.
    pub pid: u32,
    /// Of a master, the workers of these pools only.
    pub pools: Pools,
    /// After how many whole requests to end.
    pub requests: u64,
    /// After which time to end, however many there were.
    pub duration: Duration,
}

/// How far a trace is, for other threads to read. Telling it never makes the tracer wait.
#[derive(Debug, Default)]
pub struct TraceProgress {
    /// Requests so far.
    requests: AtomicU64,
    /// Goes up several times a second while the tracer is well.
    beats: AtomicU64,
}

impl TraceProgress {
    /// Requests that were traced so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// A number that changes at least four times a second as long as no worker waits for a tracer that is stuck.
    #[must_use]
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }
}

/// Traces workers until there were enough requests, the time is over, `stop` is raised, or none is left. A request
/// counts when it was traced from its beginning to its end.
///
/// # Errors
/// As [`Sampler::attach`]; and the process is no PHP-FPM, or cannot be traced: another tracer has it, or the kernel is
/// older than 5.3.
pub fn trace(
    options: &TraceOptions,
    progress: &TraceProgress,
    stop: &AtomicBool,
) -> Result<CallTrace, ProfilerError> {
    // A tracer is a thread; its end ends the tracing, whatever happens in it.
    let untraceable = |why: String| ProfilerError::Untraceable {
        pid: options.pid,
        why,
    };
    thread::scope(|scope| {
        thread::Builder::new()
            .name("tracer".to_owned())
            .spawn_scoped(scope, || Tracer::start(options, progress)?.run(stop))
            .map_err(|why| untraceable(format!("a thread cannot be started: {why}")))?
            .join()
            .unwrap_or_else(|_| Err(untraceable("the tracer failed".to_owned())))
    })
}

/// What was said on a connection.
#[derive(Debug)]
struct Asked {
    act: Act,
    /// When; nothing once the answer has begun.
    at: Option<Instant>,
}

/// A worker that is traced.
#[derive(Debug, Default)]
struct Tracee {
    /// The request it is at; nothing while that began before the trace.
    doing: Option<Doing>,
    /// The connection whose response has ended: what follows still belongs to the request, until the next is read.
    ended: Option<i32>,
    /// A call it is in whose result is to be seen.
    entered: Option<Act>,
    /// Queries that were prepared, by connection and name.
    prepared: HashMap<(i32, String), String>,
    /// What was said last on a connection: what is read there is the answer to it.
    said: HashMap<i32, Asked>,
    /// The connection it reads from.
    reading: Option<i32>,
}

struct Tracer<'p> {
    options: TraceOptions,
    progress: &'p TraceProgress,
    php: String,
    sampler: Sampler,
    master: bool,
    tracees: BTreeMap<u32, Tracee>,
    refused: BTreeSet<u32>,
    tally: Tally,
    notes: Vec<String>,
}

impl<'p> Tracer<'p> {
    fn start(options: &TraceOptions, progress: &'p TraceProgress) -> Result<Self, ProfilerError> {
        let mut sampler = Sampler::new();
        let pid = options.pid;
        let named = sampler.attach(pid)?;
        if named.sapi != "fpm-fcgi" {
            let sapi = named.sapi;
            return Err(ProfilerError::NotFpm { pid, sapi });
        }
        let mut tracer = Self {
            options: options.clone(),
            progress,
            php: format!("PHP {} ({})", named.version, named.sapi),
            sampler,
            master: false,
            tracees: BTreeMap::new(),
            refused: BTreeSet::new(),
            tally: Tally::default(),
            notes: Vec::new(),
        };
        let children = workers(pid, &options.pools)?;
        // Workers of a pool come with its requests.
        tracer.master = !children.is_empty() || options.pools != Pools::All;
        if !tracer.master {
            tracer.seize(pid)?;
            return Ok(tracer);
        }
        tracer.sampler.detach(pid);
        let mut refusal = None;
        for child in children {
            if let Err(error) = tracer.seize(child) {
                refusal.get_or_insert(error);
            }
            tracer.catch_up()?;
        }
        match refusal {
            Some(error) if tracer.tracees.is_empty() => Err(error),
            _ => Ok(tracer),
        }
    }

    /// Begins to trace a worker.
    fn seize(&mut self, pid: u32) -> Result<(), ProfilerError> {
        if let Err(error) = self.sampler.attach(pid) {
            self.refused.insert(pid);
            return Err(error);
        }
        let idle = self.sampler.accepts(pid);
        self.progress.beat();
        let seized = ptrace::seize(pid).and_then(|()| ptrace::interrupt(pid));
        if let Err(why) = seized {
            self.refused.insert(pid);
            return Err(untraceable(pid, &why));
        }
        let tracee = Tracee {
            doing: idle.then(Doing::default),
            ..Tracee::default()
        };
        self.tracees.insert(pid, tracee);
        Ok(())
    }

    /// Lets go on who has stopped meanwhile: looking into the next worker takes its time.
    fn catch_up(&mut self) -> Result<(), ProfilerError> {
        self.progress.beat();
        // One event of each; busy ones never run out of them.
        for _ in 0..self.tracees.len() {
            let Ok(Some((pid, event))) = ptrace::next() else {
                break;
            };
            self.handle(pid, event)?;
        }
        Ok(())
    }

    fn look_for_workers(&mut self) -> Result<(), ProfilerError> {
        let Ok(children) = workers(self.options.pid, &self.options.pools) else {
            self.master = false;
            return Ok(());
        };
        for pid in children {
            let known = self.tracees.contains_key(&pid) || self.refused.contains(&pid);
            if known {
                continue;
            }
            match self.seize(pid) {
                Ok(()) | Err(ProfilerError::Gone { .. }) => {}
                Err(error) => self.notes.push(error.to_string()),
            }
            self.catch_up()?;
        }
        Ok(())
    }

    fn run(mut self, stop: &AtomicBool) -> Result<CallTrace, ProfilerError> {
        let began = Instant::now();
        let mut looked = began;
        let mut idle = 0;
        while !stop.load(Ordering::Relaxed)
            && began.elapsed() < self.options.duration
            && self.tally.requests() < self.options.requests
        {
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                if self.master {
                    self.look_for_workers()?;
                }
                self.progress.beat();
                let requests = self.tally.requests();
                self.progress.requests.store(requests, Ordering::Relaxed);
            }
            if self.tracees.is_empty() && !self.master {
                let pid = self.options.pid;
                self.notes.push(format!("process {pid} has ended"));
                break;
            }
            match ptrace::next() {
                Ok(Some((pid, event))) => {
                    idle = 0;
                    self.handle(pid, event)?;
                }
                Ok(None) => rest(&mut idle),
                // Nothing is traced at the moment.
                Err(why) if why.raw_os_error() == Some(libc::ECHILD) => rest(&mut idle),
                Err(why) => return Err(untraceable(self.options.pid, &why)),
            }
        }
        let_go(&mut self.tracees, LET_GO);
        Ok(self.tally.finish(self.php, self.notes))
    }

    /// Looks at what a worker was stopped for, and lets it go on. One that is gone tells so by its next event.
    fn handle(&mut self, pid: u32, event: Event) -> Result<(), ProfilerError> {
        let went_on = match event {
            Event::Ended => {
                self.tracees.remove(&pid);
                self.sampler.detach(pid);
                Ok(())
            }
            Event::Syscall => {
                match ptrace::syscall(pid) {
                    Ok(Some(Syscall::Entry(number, args))) => {
                        if let Some(call) = calls::call(number, &args) {
                            self.enters(pid, call);
                        }
                    }
                    Ok(Some(Syscall::Exit(result))) => self.leaves(pid, result),
                    Ok(None) => {}
                    Err(why) if gone(&why) => {}
                    Err(why) => return Err(untraceable(pid, &why)),
                }
                ptrace::go_on(pid, NO_SIGNAL)
            }
            Event::Interrupted | Event::Started => ptrace::go_on(pid, NO_SIGNAL),
            Event::Stopped => ptrace::stay(pid),
            Event::Signal(signal) => ptrace::go_on(pid, signal),
        };
        match went_on {
            Err(why) if !gone(&why) => Err(untraceable(pid, &why)),
            _ => Ok(()),
        }
    }

    /// A worker is about to make a call.
    fn enters(&mut self, pid: u32, call: Call) {
        let Some(memory) = ProcessMemory::of(pid) else {
            return;
        };
        let Some(tracee) = self.tracees.get_mut(&pid) else {
            return;
        };
        match call {
            Call::Accept => return self.next_request(pid),
            Call::Read(fd) => {
                tracee.reading = Some(fd);
                if tracee.ended == Some(fd) {
                    self.next_request(pid);
                }
                return;
            }
            _ if tracee.doing.is_none() => {
                // Its request began before the trace; the end of it counts.
                if let Call::Send(fd, at, length) = call {
                    self.may_end(pid, &memory, fd, at, length);
                }
                return;
            }
            _ => {}
        }
        // What cannot be read belongs to a process that is about to end.
        let _ = self.look(pid, &memory, call);
    }

    /// What a worker does from now on belongs to its next request.
    fn next_request(&mut self, pid: u32) {
        let Some(tracee) = self.tracees.get_mut(&pid) else {
            return;
        };
        tracee.ended = None;
        tracee.said.clear();
        if let Some(doing) = tracee.doing.replace(Doing::default()) {
            self.tally.add(doing);
        }
    }

    /// Whether what is sent ends the response. Says whether it was sent to the web server at all.
    fn may_end(&mut self, pid: u32, memory: &impl Memory, fd: i32, at: u64, length: u64) -> bool {
        let Some((connection, request)) = self.sampler.request(pid) else {
            return false;
        };
        if connection != fd {
            return false;
        }
        let last = length.min(16);
        let from = at.wrapping_add(length - last);
        let bytes = memory.bytes(from, usize::try_from(last).unwrap_or(0));
        if bytes.is_ok_and(|bytes| wire::ends_response(&bytes))
            && let Some(tracee) = self.tracees.get_mut(&pid)
        {
            tracee.ended = Some(fd);
            if let Some(doing) = &mut tracee.doing {
                doing.route.get_or_insert_with(|| request.route());
            }
        }
        true
    }

    /// Looks at a call of a worker that is at a request of which the beginning was seen.
    fn look(&mut self, pid: u32, memory: &impl Memory, call: Call) -> Result<(), ReadError> {
        let none = String::new();
        match call {
            Call::Open(at) => self.begin(pid, CallKind::Open, calls::path(memory, at)?, none),
            Call::Look(at) => self.begin(pid, CallKind::Look, calls::path(memory, at)?, none),
            Call::Connect(fd, at, length) => {
                let length = usize::try_from(length.min(128)).unwrap_or(0);
                let Some(to) = Address::of_sockaddr(&memory.bytes(at, length)?) else {
                    return Ok(());
                };
                if let Some(tracee) = self.tracees.get_mut(&pid) {
                    tracee.prepared.retain(|(of, _), _| *of != fd);
                }
                self.begin(pid, CallKind::Connect, to.to_string(), to.to_string());
            }
            Call::Send(fd, at, length) if self.may_end(pid, memory, fd, at, length) => {}
            Call::Send(fd, ..) | Call::SendParts(fd, ..) | Call::SendMessage(fd, ..) => {
                if let Some(peer) = peer(pid, fd) {
                    let said = wire::said(&calls::sent(memory, call)?);
                    self.says(pid, fd, &peer, said);
                }
            }
            Call::Lock(fd) => {
                let link = std::fs::read_link(format!("/proc/{pid}/fd/{fd}"));
                let path = link.map_or_else(|_| String::new(), |path| path.display().to_string());
                self.begin(pid, CallKind::Lock, path, none);
            }
            Call::Sleep(at) => self.begin(pid, CallKind::Sleep, calls::sleep(memory, at)?, none),
            Call::Accept | Call::Read(_) => {}
        }
        Ok(())
    }

    /// A worker says something on a connection.
    fn says(&mut self, pid: u32, fd: i32, peer: &Address, said: Vec<Said>) {
        for one in said {
            let Some(tracee) = self.tracees.get_mut(&pid) else {
                return;
            };
            let (kind, what) = match one {
                Said::Query(query) => (CallKind::Query, query),
                Said::Prepared(name, query) => {
                    tracee.prepared.insert((fd, name), query);
                    continue;
                }
                Said::Execute(name) => {
                    let query = tracee.prepared.get(&(fd, name)).cloned();
                    let query = query.unwrap_or_else(|| PREPARED_BEFORE.to_owned());
                    (CallKind::Query, query)
                }
                Said::Command(name) => (CallKind::Command, name),
                Said::Http(request) => (CallKind::Http, request),
                Said::Tls(Some(host)) => (CallKind::Http, format!("TLS to {host}")),
                Said::Tls(None) => (CallKind::Http, "TLS".to_owned()),
                Said::Other => (CallKind::Send, String::new()),
            };
            let act = self.act(pid, kind, what, peer.to_string());
            if let Some(tracee) = self.tracees.get_mut(&pid) {
                let asked = Asked {
                    act: act.clone(),
                    at: Some(Instant::now()),
                };
                tracee.said.insert(fd, asked);
            }
            self.count(pid, act, false);
        }
    }

    /// A call whose result is to be seen.
    fn begin(&mut self, pid: u32, kind: CallKind, what: String, peer: String) {
        let act = self.act(pid, kind, what, peer);
        if let Some(tracee) = self.tracees.get_mut(&pid) {
            tracee.entered = Some(act);
        }
    }

    fn act(&mut self, pid: u32, kind: CallKind, what: String, peer: String) -> Act {
        Act::new(kind, what, peer, &self.sampler.still(pid))
    }

    fn leaves(&mut self, pid: u32, result: i64) {
        let Some(tracee) = self.tracees.get_mut(&pid) else {
            return;
        };
        if let (Some(fd), Ok(bytes @ 1..)) = (tracee.reading.take(), u64::try_from(result)) {
            let doing = tracee.doing.as_mut();
            if let Some((doing, asked)) = doing.zip(tracee.said.get_mut(&fd)) {
                let waited = asked.at.take().map_or(Duration::ZERO, |at| at.elapsed());
                doing.answered(&asked.act, bytes, waited);
            }
        }
        if let Some(act) = tracee.entered.take() {
            // A connection that is being made is none that failed.
            let begun = act.kind == CallKind::Connect && result == -i64::from(libc::EINPROGRESS);
            self.count(pid, act, result < 0 && !begun);
        }
    }

    fn count(&mut self, pid: u32, act: Act, failed: bool) {
        let Some(doing) = self.tracees.get_mut(&pid).and_then(|t| t.doing.as_mut()) else {
            return;
        };
        if doing.route.is_none() {
            doing.route = self
                .sampler
                .request(pid)
                .map(|(_, request)| request.route());
        }
        doing.add(act, failed);
    }
}

/// Lets go of all that is traced, within a time. Those that cannot be stopped by then are let go with the end of this thread.
fn let_go<T>(held: &mut BTreeMap<u32, T>, within: Duration) {
    for pid in held.keys() {
        // One that is gone, or stopped already, tells so below.
        let _ = ptrace::interrupt(*pid);
    }
    let end = Instant::now() + within;
    let mut idle = 0;
    while !held.is_empty() && Instant::now() < end {
        let Ok(Some((pid, event))) = ptrace::next() else {
            rest(&mut idle);
            continue;
        };
        let signal = match event {
            Event::Signal(signal) => signal,
            _ => NO_SIGNAL,
        };
        if event != Event::Ended {
            // It may have been killed meanwhile.
            let _ = ptrace::detach(pid, signal);
        }
        held.remove(&pid);
    }
}

/// Waits for the next event: not at all at first.
fn rest(idle: &mut u32) {
    *idle = idle.saturating_add(1);
    if *idle < EAGER {
        thread::yield_now();
    } else {
        thread::sleep(NAP);
    }
}

fn gone(why: &io::Error) -> bool {
    why.raw_os_error() == Some(libc::ESRCH)
}

/// Why a process cannot be traced, with what to do.
fn untraceable(pid: u32, why: &io::Error) -> ProfilerError {
    let tracer = process::tracer_of(pid);
    match (why.raw_os_error(), tracer) {
        (Some(libc::ESRCH), _) => ProfilerError::Gone { pid },
        (Some(libc::EPERM), Some(tracer)) => ProfilerError::Untraceable {
            pid,
            why: format!("process {tracer} traces it already; end that first"),
        },
        (Some(libc::EPERM), None) => ProfilerError::denied(pid),
        (Some(libc::EIO | libc::EINVAL), _) => ProfilerError::Untraceable {
            pid,
            why: "the kernel is older than 5.3, or traces no system calls".to_owned(),
        },
        _ => ProfilerError::Untraceable {
            pid,
            why: why.to_string(),
        },
    }
}

/// A duplicate of a descriptor of a process (pidfd_getfd(2)), to ask the kernel about: network namespaces do not matter.
fn duplicate(pid: u32, fd: i32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    pidfd_getfd(process, fd, PidfdGetfdFlags::empty()).ok()
}

/// The other end of a connection of a process; nothing when the descriptor is none, or its peer has no name.
fn peer(pid: u32, fd: i32) -> Option<Address> {
    address(getpeername(duplicate(pid, fd)?).ok()??)
}

fn address(any: SocketAddrAny) -> Option<Address> {
    if let Ok(tcp) = SocketAddr::try_from(any.clone()) {
        return Some(Address::Tcp(SocketAddr::new(
            tcp.ip().to_canonical(),
            tcp.port(),
        )));
    }
    let unix = SocketAddrUnix::try_from(any).ok()?;
    let path = unix.path_bytes()?;
    let path = String::from_utf8_lossy(path.strip_suffix(&[0]).unwrap_or(path)).into_owned();
    (!path.is_empty()).then(|| Address::Unix(path.into()))
}
