//! The access log as a pipe that somebody reads at a pace, where the scenario says so: what the log of a container is.

use super::Standing;
use crate::error::ExperimentError;
use kneepoint_lab::{HostInfo, Lab};
use kneepoint_stack::NGINX_ACCESS_LOG;
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Makes the pipe in place of the log, and starts its reader. nginx opens its logs even to check its configuration, and waits until
/// somebody reads them.
pub(super) fn lay(
    lab: &Lab,
    host: &HostInfo,
    kib_s: f64,
    standing: &mut Standing,
) -> Result<(), ExperimentError> {
    let pipe = host.dir.join(NGINX_ACCESS_LOG);
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o644), 0).map_err(|error| {
        let pipe = pipe.display();
        ExperimentError::Unfit(format!(
            "log_pipe_kib_s: cannot make the pipe {pipe}: {error}; leave the key out, or run on a file system that has pipes"
        ))
    })?;
    let reader = kneepoint_double::log_reader(&pipe, kib_s, &host.dir);
    standing.processes.push(lab.spawn(&host.name, &reader)?);
    Ok(())
}
