//! This program once more, for work that must go on, or end, whatever becomes of the terminal it was started from.

use crate::LabError;
use crate::error::Context as _;
use crate::launch::Launch;
use rustix::process::setsid;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A process of this program that its starter talks to over a socket, and that is killed when this is dropped.
#[derive(Debug)]
pub struct Helper {
    child: Child,
}

impl Helper {
    /// Starts the program again with one argument, which is to make it call [`Helper::settle`]. Gives the socket to it.
    ///
    /// # Errors
    /// The system refused.
    pub fn start(argument: &str) -> Result<(Self, UnixStream), LabError> {
        let own = Path::new("/proc/self/exe");
        let what = || {
            let words = Launch::words(own, &[argument.to_owned()]);
            format!("starting \"{words}\"")
        };
        let (ours, theirs) = UnixStream::pair().context(what)?;
        let child = Command::new(own)
            .arg(argument)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context(what)?;
        Ok((Self { child }, ours))
    }

    /// In the process that was started: leaves the terminal, so that what is typed there stops or ends only the one
    /// that started it. Gives the socket to that one.
    ///
    /// # Errors
    /// The system refused.
    pub fn settle() -> io::Result<UnixStream> {
        let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        // Fails only for the leader of a process group, which has left already.
        let _ = setsid();
        Ok(UnixStream::from(socket))
    }

    /// Kills it, also when it was stopped.
    pub fn kill(&mut self) {
        // It can only have ended by itself, which is as good.
        let _ = self.child.kill();
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.kill();
        // Nothing is left to be told when it cannot be waited for.
        let _ = self.child.wait();
    }
}
