//! Sending from another network namespace.

use crate::plan::LoadError;
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::path::Path;

/// Moves the calling thread, and only it, into a network namespace. Sockets it opens from then on belong there.
pub(crate) fn enter(netns: Option<&Path>) -> Result<(), LoadError> {
    let Some(path) = netns else {
        return Ok(());
    };
    let error = |source: Errno| LoadError::System {
        what: format!("entering the network namespace `{}`", path.display()),
        source,
        instead: "run as root and check that the namespace exists with `ip netns`",
    };
    let file =
        File::open(path).map_err(|e| error(Errno::from_io_error(&e).unwrap_or(Errno::IO)))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).map_err(error)
}
