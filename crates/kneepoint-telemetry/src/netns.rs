//! Work inside the network namespace of a tier.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;

/// Moves the calling thread into a namespace for good; without a path it stays where it is.
///
/// # Errors
/// The namespace is gone, or the right to enter it (root) is missing.
pub(crate) fn enter(path: Option<&Path>) -> io::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let namespace = File::open(path).map_err(|why| {
        io::Error::new(
            why.kind(),
            format!("network namespace `{}`: {why}", path.display()),
        )
    })?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|why| {
        io::Error::other(format!(
            "entering the network namespace `{}`: {why}",
            path.display()
        ))
    })
}

/// Runs a closure in a namespace. What it opens there (a socket, a file of `/proc/sys/net`) belongs to that
/// namespace and can be used from anywhere afterwards.
///
/// # Errors
/// The namespace cannot be entered, or the closure failed.
pub(crate) fn within<T: Send>(
    path: Option<&Path>,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    if path.is_none() {
        return work();
    }
    // setns changes the calling thread only, so a thread that ends right away does it.
    thread::scope(|scope| {
        thread::Builder::new()
            .name("kneepoint-netns".into())
            .spawn_scoped(scope, || {
                enter(path)?;
                work()
            })?
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace died")))
    })
}
