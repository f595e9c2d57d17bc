//! Sending from another network namespace.

use crate::plan::LoadError;
use kneepoint_linux::namespace;
use rustix::io::Errno;
use std::path::Path;

/// Moves the calling thread, and only it, into a network namespace. Sockets it opens from then on belong there.
pub(crate) fn enter(netns: Option<&Path>) -> Result<(), LoadError> {
    namespace::enter_path(netns).map_err(|error| LoadError::System {
        what: format!(
            "entering the network namespace `{}`",
            netns.unwrap_or(Path::new("")).display()
        ),
        source: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        instead: "run as root and check that the namespace exists with `ip netns`",
    })
}
