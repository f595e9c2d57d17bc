//! One program on its way to run: which network, which group, which user, and that it dies with its parent.

pub(crate) mod output;

use crate::LabError;
use crate::error::Context as _;
use crate::identity::users::Account;
use crate::isolation::numbers::Numbers;
use crate::room::{Room, private};
use kneepoint_linux::namespace;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where the output of a program goes.
#[derive(Debug)]
pub(crate) enum Output {
    /// Both streams to this file.
    File(File),
    /// Each stream to a pipe, read by the caller.
    Pipes,
}

/// A program with everything that has to be settled before it runs.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// Added to `PATH`, which is the only variable inherited.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) dir: PathBuf,
    pub(crate) account: Option<Account>,
    pub(crate) netns: Option<Arc<OwnedFd>>,
    /// The view of the file system it runs in; `None` is the machine's.
    pub(crate) room: Option<Arc<Room>>,
    /// Its number, and the processes that it sees.
    pub(crate) numbers: Numbers,
    /// `cgroup.procs` files to join by.
    pub(crate) groups: Vec<File>,
    /// Whether standard input is a pipe; otherwise it is empty.
    pub(crate) input: bool,
    pub(crate) output: Output,
}

impl Launch {
    /// The command line, for messages.
    pub(crate) fn words(program: &Path, args: &[String]) -> String {
        let mut words = program.display().to_string();
        for arg in args {
            words.push(' ');
            words.push_str(arg);
        }
        words
    }

    /// Starts the program. The child is killed when the calling *thread* ends, so that must be one that lives
    /// as long as the child may.
    ///
    /// # Errors
    /// The program or its working directory is missing, or the system refused.
    pub(crate) fn spawn(self) -> Result<Child, LabError> {
        check_program(&self.program)?;
        if !self.dir.is_dir() {
            return Err(LabError::bad_plan(format!(
                "the working directory \"{}\" of \"{}\" does not exist",
                self.dir.display(),
                self.program.display()
            )));
        }
        let (stdout, stderr) = match self.output {
            Output::File(file) => {
                let second = file
                    .try_clone()
                    .context(|| "sharing an output file".into())?;
                (Stdio::from(file), Stdio::from(second))
            }
            Output::Pipes => (Stdio::piped(), Stdio::piped()),
        };
        let what = format!("starting \"{}\"", self.program.display());
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .env(
                "PATH",
                std::env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into()),
            )
            .envs(self.env)
            .current_dir(&self.dir)
            .stdin(if self.input {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0);
        let dir = CString::new(self.dir.as_os_str().as_bytes())
            .map_err(io::Error::from)
            .context(|| what.clone())?;
        let hidden = self
            .room
            .is_some()
            .then(|| private(&self.program))
            .flatten();
        let room = self.room.map(|room| (room, dir));
        settle_before_exec(&mut command, self.account, self.netns, room, self.groups);
        let started = self.numbers.given(|| command.spawn());
        match (started, hidden) {
            (Err(error), Some(hidden)) if error.kind() == io::ErrorKind::NotFound => {
                Err(LabError::NoProgram {
                    why: format!(
                        "lies in {hidden}, which each host of the lab has for itself, empty at first (below /opt it is seen)"
                    ),
                    program: self.program,
                })
            }
            (started, _) => started.context(|| what),
        }
    }
}

/// Adds the steps between fork and exec. Their order matters: joining a namespace or a group needs root, and
/// a change of user resets the parent-death signal.
#[expect(
    unsafe_code,
    reason = "what runs between fork and exec cannot be checked by the compiler"
)]
fn settle_before_exec(
    command: &mut Command,
    account: Option<Account>,
    netns: Option<Arc<OwnedFd>>,
    room: Option<(Arc<Room>, CString)>,
    groups: Vec<File>,
) {
    let parent = rustix::process::getpid();
    let settle = move || -> io::Result<()> {
        for door in &groups {
            rustix::io::write(door, b"0")?;
        }
        if let Some(netns) = &netns {
            namespace::enter(netns.as_ref())?;
        }
        if let Some((room, dir)) = &room {
            room.enter()?;
            rustix::process::chdir(dir.as_c_str())?;
        }
        if let Some(account) = &account {
            set_thread_groups(&account.groups)?;
            set_thread_gid(account.gid)?;
            set_thread_uid(account.uid)?;
        }
        set_parent_process_death_signal(Some(Signal::KILL))?;
        match rustix::process::getppid() {
            // The parent died before the line above took effect.
            Some(other) if other != parent => Err(rustix::io::Errno::SRCH.into()),
            // With numbers of its host it has no parent that it could name; those end with their first process, and that
            // with the keeper.
            _ => Ok(()),
        }
    };
    // SAFETY: the closure makes plain system calls on descriptors and values it owns; it takes no lock and
    // allocates nothing, so it is async-signal-safe.
    unsafe { command.pre_exec(settle) };
}

fn check_program(program: &Path) -> Result<(), LabError> {
    let missing = |why: &str| LabError::NoProgram {
        program: program.to_owned(),
        why: why.to_owned(),
    };
    let metadata = fs::metadata(program).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => missing("cannot be reached by this user"),
        _ => missing("does not exist"),
    })?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return Err(missing("is not executable"));
    }
    Ok(())
}
