//! The first process of a host: the others have their numbers from it, see each other in its `/proc`, come to it when their
//! parents end, and end with it. It is this program once more, and ends with the keeper.

use super::Keeper;
use super::children::Started;
use super::root::Root;
use crate::LabError;
use crate::error::Context as _;
use crate::identity::Identity;
use crate::isolation::numbers::Numbers;
use crate::launch::{Launch, Output};
use crate::record::VARIABLE;
use crate::room::Room;
use rustix::mount::{MountFlags, mount};
use rustix::process::{WaitOptions, wait};
use signal_hook::consts::SIGCHLD;
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::ChildStdin;
use std::sync::Arc;
use std::thread;

/// The first argument that turns a program into the first process of a host.
pub(super) const ARGUMENT: &str = "__first";
/// What it says when programs can be started beside it.
const READY: &str = "ready";

/// What a host holds of it. Whatever has its numbers ends soon after this is dropped.
pub(super) struct First {
    /// Where it is found, with the orphans that came to it.
    pub(super) root: Root,
    /// For programs that are to run beside it.
    pub(super) numbers: Numbers,
    /// It ends when this is closed, as it is when the keeper ends in any way.
    _held: ChildStdin,
}

impl Keeper {
    /// Starts the first process of a host in its view of the file system.
    pub(super) fn start_first(&self, room: &Arc<Room>) -> Result<First, LabError> {
        let what = || "closing a host off from the machine's processes".to_owned();
        let refused = |why: String| LabError::System {
            what: what(),
            why,
            advice: String::new(),
        };
        let Started {
            key,
            pid,
            mut child,
        } = self.start(Launch {
            program: "/proc/self/exe".into(),
            args: vec![ARGUMENT.to_owned()],
            env: vec![(VARIABLE.to_owned(), self.id.to_string())],
            dir: "/".into(),
            account: None,
            netns: None,
            room: Some(Arc::clone(room)),
            numbers: Numbers::New,
            groups: Vec::new(),
            input: true,
            output: Output::Pipes,
        })?;
        // How it ends is nobody's question.
        self.children.forget(key);
        let (Some(held), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(refused("its first process has no pipes".into()));
        };
        let mut said = String::new();
        BufReader::new(stdout).read_line(&mut said).context(what)?;
        if said.trim_end() != READY {
            return Err(refused(match said.trim_end() {
                "" => "its first process ended at once".into(),
                words => words.to_owned(),
            }));
        }
        let identity =
            Identity::of(pid).ok_or_else(|| refused("its first process ended".into()))?;
        let numbers: OwnedFd = File::open(format!("/proc/{pid}/ns/pid"))
            .context(what)?
            .into();
        Ok(First {
            root: Root(identity),
            numbers: Numbers::Host(Arc::new(numbers)),
            _held: held,
        })
    }
}

/// What the process does that was started with [`ARGUMENT`], until the keeper lets go of it.
pub(super) fn run() -> io::Result<()> {
    let made = settle();
    let mut out = io::stdout();
    match &made {
        Ok(()) => writeln!(out, "{READY}")?,
        Err(error) => writeln!(out, "{error}")?,
    }
    out.flush()?;
    made?;
    // Until its end.
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Covers the machine's `/proc` with one of the processes that have numbers in here, and collects orphans from now on.
fn settle() -> io::Result<()> {
    // Started from /proc/self/exe it would be called `exe` in process lists.
    rustix::thread::set_name(c"kneepoint-first")?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None)
        .map_err(|error| io::Error::other(format!("a /proc of its own: {error}")))?;
    let mut deaths = Signals::new([SIGCHLD])?;
    thread::Builder::new()
        .name("orphans".into())
        .spawn(move || {
            for _ in deaths.forever() {
                while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
            }
        })?;
    Ok(())
}
