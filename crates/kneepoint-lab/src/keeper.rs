//! The keeper: a process that owns everything of one lab and outlives its owner only to remove it.
//!
//! Its main thread does nothing but start children (the parent-death signal follows the thread that forked),
//! each request is handled in a thread of its own, one thread reads requests, one collects dead children.

mod children;
mod first;
mod hosts;
mod network;
mod requests;
mod root;
mod servers;

use crate::LabError;
use crate::identity::Identity;
use crate::launch::Launch;
use crate::protocol::{Answer, Reply, Request, receive, send};
use crate::record::LabId;
use crate::traces;
use children::{Children, Started};
use hosts::Hosts;
use servers::Servers;
use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

/// The first argument that turns a program into a keeper.
pub(crate) const ARGUMENT: &str = "__keeper";

/// Becomes the keeper of a lab, or the first process of a host, when the program was started as one, and then never returns. Call it first in
/// `main`, before threads, signal handlers and argument parsing.
pub fn keeper_entry() {
    let Some(argument) = std::env::args_os().nth(1) else {
        return;
    };
    let ended = match argument.to_str() {
        Some(ARGUMENT) => run(),
        Some(first::ARGUMENT) => first::run(),
        _ => return,
    };
    std::process::exit(i32::from(ended.is_err()));
}

/// What the main thread is asked to do.
enum Job {
    Start(Box<Launch>, Sender<Result<Started, LabError>>),
    /// The owner asked for the end, with the number of its request, or is gone.
    End(Option<u64>),
}

/// The state all threads of the keeper share.
struct Keeper {
    id: LabId,
    dir: OnceLock<PathBuf>,
    hosts: Hosts,
    children: Arc<Children>,
    servers: Servers,
    jobs: Sender<Job>,
    owner: Mutex<UnixStream>,
}

impl Keeper {
    fn answer(&self, number: u64, reply: &Reply) {
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        // An owner that cannot be told is gone, which the reading thread notices.
        let _ = send(&mut *owner, number, reply);
    }

    /// Has the main thread start a program.
    fn start(&self, launch: Launch) -> Result<Started, LabError> {
        let (reply, started) = channel();
        let ending = || LabError::Unsupported {
            what: format!("starting \"{}\"", launch.program.display()),
            why: "the lab is ending".into(),
        };
        let error = ending();
        if self.jobs.send(Job::Start(Box::new(launch), reply)).is_err() {
            return Err(error);
        }
        started.recv().unwrap_or(Err(error))
    }
}

fn run() -> io::Result<()> {
    let stream = settle()?;
    let own = Identity::own().ok_or_else(|| io::Error::other("/proc is not mounted"))?;
    let (jobs, todo) = channel();
    let keeper = Arc::new(Keeper {
        id: LabId::of_keeper(own),
        dir: OnceLock::new(),
        hosts: Hosts::default(),
        children: Children::watched(),
        servers: Servers::default(),
        jobs: jobs.clone(),
        owner: Mutex::new(stream.try_clone()?),
    });
    let listener = Arc::clone(&keeper);
    thread::spawn(move || listen(&listener, stream));
    // Whatever happens to this thread, the end has to come.
    let asked = catch_unwind(AssertUnwindSafe(|| start_children(&keeper.children, todo)));
    let asked = asked.unwrap_or(None);
    let removed = keeper.remove_everything();
    if let Some(number) = asked {
        let failed = removed.iter().find_map(|it| match it {
            traces::Removed::Failed(what) => Some(what.clone()),
            _ => None,
        });
        let reply = failed.map_or(Ok(Answer::Done), |what| {
            Err(LabError::System {
                what: "cleaning the lab up".into(),
                why: what,
                advice: String::new(),
            })
        });
        keeper.answer(number, &reply);
    }
    Ok(())
}

/// Detaches from the owner's terminal, keeps the socket on standard input for itself, and becomes the parent
/// of every orphan below.
fn settle() -> io::Result<UnixStream> {
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    // Fails only for the leader of a process group, which has what it needs already.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // Started from /proc/self/exe it would be called `exe` in process lists.
    rustix::thread::set_name(c"kneepoint-keep")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    std::env::set_current_dir("/")?;
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
        signal_hook::consts::SIGQUIT,
        signal_hook::consts::SIGCHLD,
    ] {
        // A handler and not SIG_IGN: children would inherit that and not react to these signals themselves.
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(UnixStream::from(socket))
}

fn listen(keeper: &Arc<Keeper>, stream: UnixStream) {
    let mut stream = BufReader::new(stream);
    while let Some(message) = receive::<Request>(&mut stream) {
        if matches!(message.body, Request::End) {
            let _ = keeper.jobs.send(Job::End(Some(message.number)));
            return;
        }
        let shared = Arc::clone(keeper);
        let handled = thread::Builder::new().spawn(move || {
            let reply = catch_unwind(AssertUnwindSafe(|| requests::handle(&shared, message.body)));
            let reply = reply.unwrap_or_else(|panic| {
                Err(LabError::Unsupported {
                    what: "this request".into(),
                    why: format!("the keeper has a bug: {}", words_of(&*panic)),
                })
            });
            shared.answer(message.number, &reply);
        });
        if let Err(error) = handled {
            let reply = Err(LabError::system("starting a thread in the keeper", &error));
            keeper.answer(message.number, &reply);
        }
    }
    let _ = keeper.jobs.send(Job::End(None));
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without words")
}

/// The main thread's work until the end is asked for or the owner is gone.
fn start_children(children: &Children, todo: Receiver<Job>) -> Option<u64> {
    for job in &todo {
        match job {
            Job::Start(launch, reply) => {
                let _ = reply.send(children.start(*launch));
            }
            Job::End(asked) => return asked,
        }
    }
    None
}
