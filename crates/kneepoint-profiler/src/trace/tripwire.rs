//! The tripwire: whom the workers of a PHP-FPM try to reach, each attempt with its line of PHP.
//!
//! Their master is watched, too, so that a worker is from its first call on, and with each worker the threads and programs
//! it starts: curl asks for names in a thread. A worker stands still at every system call meanwhile and is several times
//! slower, so nothing is to be timed. When the watch ends, however it does, the kernel lets all of them go on.

mod reach;

use crate::error::ProfilerError;
use crate::memory::ProcessMemory;
use crate::process::{Pools, workers};
use crate::ptrace::{self, Event, NO_SIGNAL, Syscall};
use crate::sampler::Sampler;
use crate::trace::{calls, duplicate, gone, let_go, rest, untraceable};
use kneepoint_linux::process;
use kneepoint_model::{Address, Place, own_place};
use reach::Reach;
use rustix::net::SocketType;
use rustix::net::sockopt::socket_type;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Longest wait, at the end, for workers that still do something behind their answers.
const LINGER: Duration = Duration::from_millis(400);
/// Longest time to let go of all that is watched.
const LET_GO: Duration = Duration::from_secs(2);
/// Most different attempts that are kept: an application that makes more has told enough.
const MOST: usize = 500;
/// The port of nameservers.
const NAMES: u16 = 53;

/// Whom somebody tried to reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sought {
    /// An address, by connecting or by sending a packet there.
    Address(Address),
    /// A host, by asking a nameserver for it.
    Name(String),
    /// A program that was started: its path.
    Program(String),
}

/// An attempt to reach somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Whom.
    pub sought: Sought,
    /// Whether a connection was made at once. One that is being made is none yet, and a packet makes none.
    pub reached: bool,
    /// The innermost line of PHP at that moment; `None` where no PHP ran.
    pub place: Option<Place>,
    /// The innermost line of the application's own code, where that is another.
    pub own: Option<Place>,
    /// The function of PHP that did it: `curl_exec`.
    pub through: String,
    /// The request, without values: `GET /cart`; `None` where none was at hand.
    pub request: Option<String>,
}

/// A watch that is kept until it is [taken down](Tripwire::take_down), or dropped.
#[derive(Debug)]
pub struct Tripwire {
    stop: Arc<AtomicBool>,
    watcher: Option<JoinHandle<Result<Vec<Attempt>, ProfilerError>>>,
}

impl Tripwire {
    /// Begins to watch the workers of the PHP-FPM with this master; they are watched when it returns.
    ///
    /// # Errors
    /// The process is gone, or may not be traced: another tracer has it, or the kernel does not allow it.
    pub fn set(master: u32) -> Result<Self, ProfilerError> {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let (ready, is_ready) = channel();
        // A tracer is a thread; its end ends the tracing, whatever happens in it.
        let watcher = thread::Builder::new()
            .name("tripwire".to_owned())
            .spawn(move || Watcher::start(master)?.run(&ready, &flag))
            .map_err(|why| untraceable(master, &why))?;
        let mut tripwire = Self {
            stop,
            watcher: Some(watcher),
        };
        match is_ready.recv() {
            Ok(()) => Ok(tripwire),
            // It has ended already, and says why.
            Err(_) => tripwire.end().map(|_| tripwire),
        }
    }

    /// Ends the watch, once the workers are at rest, and tells what was seen, in its order.
    ///
    /// # Errors
    /// The watch ended by itself before; the error says why.
    pub fn take_down(mut self) -> Result<Vec<Attempt>, ProfilerError> {
        self.end()
    }

    fn end(&mut self) -> Result<Vec<Attempt>, ProfilerError> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(watcher) = self.watcher.take() else {
            return Ok(Vec::new());
        };
        watcher
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Tripwire {
    fn drop(&mut self) {
        // Whoever drops it does not ask what was seen.
        let _ = self.end();
    }
}

/// Something that is watched: a process, or a thread of one.
#[derive(Debug)]
struct Watched {
    /// The process it belongs to.
    process: u32,
    /// The worker on whose behalf it runs; the master has none.
    worker: Option<u32>,
    /// The attempt it is in, whose end is to be seen, and whether only its failure tells something.
    entered: Option<(Attempt, bool)>,
}

struct Watcher {
    master: u32,
    sampler: Sampler,
    watched: BTreeMap<u32, Watched>,
    /// Where the packets of a socket go, by process and descriptor.
    packets: HashMap<(u32, i32), Address>,
    /// Workers that have something to do.
    busy: BTreeSet<u32>,
    attempts: Vec<Attempt>,
}

impl Watcher {
    fn start(master: u32) -> Result<Self, ProfilerError> {
        let mut watcher = Self {
            master,
            sampler: Sampler::new(),
            watched: BTreeMap::new(),
            packets: HashMap::new(),
            busy: BTreeSet::new(),
            attempts: Vec::new(),
        };
        watcher.seize(master)?;
        for worker in workers(master, &Pools::All)? {
            match watcher.seize(worker) {
                Ok(()) | Err(ProfilerError::Gone { .. }) => {}
                // It was started under the watch.
                Err(_) if process::tracer_of(worker) == Some(own_thread()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(watcher)
    }

    fn seize(&mut self, pid: u32) -> Result<(), ProfilerError> {
        ptrace::seize_with_children(pid)
            .and_then(|()| ptrace::interrupt(pid))
            .map_err(|why| untraceable(pid, &why))?;
        self.meet(pid);
        Ok(())
    }

    /// Learns what a process or thread is that is seen for the first time.
    fn meet(&mut self, pid: u32) -> &mut Watched {
        let process = process::process_of(pid).unwrap_or(pid);
        let parent = match process == pid {
            true => process::parent_of(pid),
            false => Some(process),
        };
        let worker = match parent {
            _ if pid == self.master => None,
            Some(parent) if parent == self.master => Some(pid),
            Some(parent) => self.watched.get(&parent).and_then(|it| it.worker),
            None => None,
        };
        self.watched.entry(pid).or_insert(Watched {
            process,
            worker,
            entered: None,
        })
    }

    fn run(mut self, ready: &Sender<()>, stop: &AtomicBool) -> Result<Vec<Attempt>, ProfilerError> {
        // Nobody waits any more where whoever set it is gone.
        let _ = ready.send(());
        let mut idle = 0;
        let mut ending: Option<Instant> = None;
        loop {
            if stop.load(Ordering::Relaxed) {
                let since = *ending.get_or_insert_with(Instant::now);
                if self.busy.is_empty() || since.elapsed() > LINGER {
                    break;
                }
            }
            match ptrace::next() {
                Ok(Some((pid, event))) => {
                    idle = 0;
                    self.handle(pid, event)?;
                }
                Ok(None) => rest(&mut idle),
                // The master is gone, with all its workers.
                Err(why) if why.raw_os_error() == Some(libc::ECHILD) => break,
                Err(why) => return Err(untraceable(self.master, &why)),
            }
        }
        let_go(&mut self.watched, LET_GO);
        Ok(self.attempts)
    }

    /// Looks at what something was stopped for, and lets it go on.
    fn handle(&mut self, pid: u32, event: Event) -> Result<(), ProfilerError> {
        if !self.watched.contains_key(&pid) {
            self.meet(pid);
        }
        let went_on = match event {
            Event::Ended => {
                self.watched.remove(&pid);
                self.busy.remove(&pid);
                self.sampler.detach(pid);
                Ok(())
            }
            Event::Syscall => {
                match ptrace::syscall(pid) {
                    Ok(Some(Syscall::Entry(number, args))) => {
                        self.enters(pid, reach::reach(number, &args));
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

    fn enters(&mut self, pid: u32, call: Option<Reach>) {
        let Some(watched) = self.watched.get(&pid) else {
            return;
        };
        let process = watched.process;
        if watched.worker == Some(pid) {
            match call {
                Some(Reach::Accept) => self.busy.remove(&pid),
                _ => self.busy.insert(pid),
            };
        }
        let Some(call) = call else { return };
        match call {
            Reach::Connect(fd, at, length) => self.connects(pid, (process, fd), (at, length)),
            Reach::Send(fd, ..) | Reach::Messages(fd, ..) => self.sends(pid, (process, fd), call),
            Reach::Execute(at) => {
                let path = ProcessMemory::of(pid).and_then(|it| calls::path(&it, at).ok());
                if let Some(path) = path.filter(|path| !path.is_empty()) {
                    self.begins(pid, Sought::Program(path), false);
                }
            }
            Reach::Close(fd) => {
                self.packets.remove(&(process, fd));
            }
            Reach::Accept => {}
        }
    }

    fn connects(&mut self, pid: u32, socket: (u32, i32), (at, length): (u64, u64)) {
        self.packets.remove(&socket);
        let to = ProcessMemory::of(pid).and_then(|it| reach::address(&it, at, length));
        let Some(to) = to else { return };
        if !is_of_packets(socket) {
            return self.begins(pid, Sought::Address(to), false);
        }
        let (port, near) = match &to {
            Address::Tcp(to) => (Some(to.port()), to.ip().is_loopback()),
            Address::Unix(_) => (None, false),
        };
        // The C library connects to port 0, and sends nothing, to learn by which of its addresses it would.
        if port == Some(0) {
            return;
        }
        self.packets.insert(socket, to.clone());
        if !near {
            self.begins(pid, Sought::Address(to), port.is_some());
        }
    }

    fn sends(&mut self, pid: u32, socket: (u32, i32), call: Reach) {
        let connected = self.packets.get(&socket).cloned();
        let is_plain = matches!(call, Reach::Send(_, _, (0, _)));
        if connected.is_none() && is_plain {
            return;
        }
        let Some(memory) = ProcessMemory::of(pid) else {
            return;
        };
        for (packet, to) in reach::sent(&memory, call) {
            let Some(to) = to.or_else(|| connected.clone()) else {
                continue;
            };
            let asks = matches!(&to, Address::Tcp(to) if to.port() == NAMES);
            let name = reach::question(&packet).filter(|_| asks);
            let sought = name.map_or(Sought::Address(to), Sought::Name);
            let attempt = self.attempt(pid, sought);
            self.keep(attempt);
        }
    }

    /// Begins an attempt whose end is to be seen.
    fn begins(&mut self, pid: u32, sought: Sought, only_failed: bool) {
        let attempt = self.attempt(pid, sought);
        if let Some(watched) = self.watched.get_mut(&pid) {
            watched.entered = Some((attempt, only_failed));
        }
    }

    fn leaves(&mut self, pid: u32, result: i64) {
        let entered = self.watched.get_mut(&pid).and_then(|it| it.entered.take());
        if let Some((mut attempt, only_failed)) = entered
            && (result < 0 || !only_failed)
        {
            attempt.reached = result == 0;
            self.keep(attempt);
        }
    }

    /// An attempt with what PHP does at this moment.
    fn attempt(&mut self, pid: u32, sought: Sought) -> Attempt {
        let worker = self.watched.get(&pid).and_then(|it| it.worker);
        let stack = worker.map_or_else(Vec::new, |worker| self.stack(worker));
        let through = stack.last().filter(|place| place.file.is_none());
        let mut inner = stack.iter().rev();
        let request = worker.and_then(|worker| self.sampler.request(worker));
        Attempt {
            sought,
            reached: false,
            place: inner.find(|place| place.file.is_some()).cloned(),
            own: own_place(&stack).cloned(),
            through: through.map_or_else(String::new, |place| place.function.clone()),
            request: request.map(|(_, request)| request.route()),
        }
    }

    /// The stack of a worker, which is looked into when it is first asked for.
    fn stack(&mut self, worker: u32) -> Vec<Place> {
        if !self.sampler.knows(worker) {
            // One that cannot be looked into has attempts without lines.
            let _ = self.sampler.attach(worker);
        }
        self.sampler.still(worker)
    }

    fn keep(&mut self, attempt: Attempt) {
        if self.attempts.len() < MOST && !self.attempts.contains(&attempt) {
            self.attempts.push(attempt);
        }
    }
}

/// Whether a socket sends packets, rather than to keep a connection.
fn is_of_packets((process, fd): (u32, i32)) -> bool {
    let kind = duplicate(process, fd).and_then(|socket| socket_type(&socket).ok());
    kind == Some(SocketType::DGRAM)
}

/// The number of this thread, which is what a tracer is known by.
fn own_thread() -> u32 {
    rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .unsigned_abs()
}
