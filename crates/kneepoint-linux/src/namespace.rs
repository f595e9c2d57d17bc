//! Entering a network namespace, for good or for one piece of work; and one of semaphores, for a piece of work.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;

/// Moves the calling thread, and only it, into a namespace for good. Sockets it opens from then on belong there. One
/// system call and nothing else: it may stand between fork and exec.
///
/// # Errors
/// The right to enter it (root) is missing.
pub fn enter(namespace: impl AsFd) -> io::Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    Ok(())
}

/// The same for the namespace at a path; without one the thread stays where it is.
///
/// # Errors
/// The namespace is gone, or the right to enter it is missing; the error has the kernel's code.
pub fn enter_path(path: Option<&Path>) -> io::Result<()> {
    match path {
        Some(path) => enter(File::open(path)?),
        None => Ok(()),
    }
}

/// Runs a closure in a namespace, or here without one. What it opens there (a socket, a file of `/proc/sys/net`)
/// belongs to that namespace and can be used from anywhere afterwards.
///
/// # Errors
/// The namespace could not be entered.
pub fn inside<T: Send>(
    namespace: Option<impl AsFd + Sync>,
    work: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    let Some(namespace) = namespace else {
        return Ok(work());
    };
    on_a_thread_of_its_own(|| {
        enter(&namespace)?;
        Ok(work())
    })?
}

/// The same for the namespace at a path.
///
/// # Errors
/// The namespace could not be entered, with its path in the message, or the closure failed.
pub fn inside_path<T: Send>(
    path: Option<&Path>,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    let Some(path) = path else {
        return work();
    };
    File::open(path)
        .and_then(|namespace| inside(Some(namespace), work))
        .map_err(|why| {
            let text = format!("entering the network namespace `{}`: {why}", path.display());
            io::Error::new(why.kind(), text)
        })?
}

/// Runs a closure in the IPC namespace of a process: the numbers of semaphores, and what `/proc/sysvipc` lists, are those
/// that the process knows.
///
/// # Errors
/// The process is gone, or the right to enter its namespace (root) is missing.
pub fn inside_ipc_of<T: Send>(pid: u32, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let namespace = File::open(format!("/proc/{pid}/ns/ipc"))?;
    on_a_thread_of_its_own(|| {
        let kind = LinkNameSpaceType::InterProcessCommunication;
        move_into_link_name_space(namespace.as_fd(), Some(kind))?;
        Ok(work())
    })?
}

/// Runs a closure on a thread that ends right after it: a namespace is a thread's, and one that changed it must not
/// serve anything else.
///
/// # Errors
/// The thread could not be started, or panicked.
pub fn on_a_thread_of_its_own<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        thread::Builder::new()
            .name("netns".into())
            .spawn_scoped(scope, work)?
            .join()
            .map_err(|_| io::Error::other("the thread that entered a namespace panicked"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_namespace_the_work_is_done_here() {
        let here = thread::current().id();
        let there = inside(None::<File>, || thread::current().id());
        assert_eq!(there.expect("nothing to enter"), here);
        assert!(enter_path(None).is_ok());
    }

    #[test]
    fn a_namespace_that_is_gone_is_named() {
        let path = Path::new("/proc/self/ns/none");
        let error = inside_path(Some(path), || Ok(())).expect_err("no such file");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(
            error.to_string().contains("`/proc/self/ns/none`"),
            "{error}"
        );
        let error = enter_path(Some(path)).expect_err("no such file");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        assert!(inside_ipc_of(u32::MAX, || ()).is_err());
    }
}
