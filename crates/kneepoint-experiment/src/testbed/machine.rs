//! What is known of the machine.

pub(super) mod canary;
pub(super) mod others;

use kneepoint_linux::{Allowed, machine};
use kneepoint_model::run::Machine;
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads the machine's size and kernel; what cannot be read stays empty.
#[must_use]
pub fn machine() -> Machine {
    let cpus = Allowed::now().cores();
    Machine {
        cores: cpus.ceil() as u32,
        quota_cores: (cpus < cpus.ceil()).then_some(cpus),
        memory_bytes: machine::memory_bytes().unwrap_or(0),
        kernel: machine::kernel_release(),
        cpu: machine::cpu_model().unwrap_or_default(),
        shared_with_generator: true,
        generator_ceiling_hz: None,
    }
}

/// A number that nobody else's server will answer with.
pub(super) fn nonce() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64);
    now.rotate_left(17) ^ (u64::from(std::process::id()) << 32)
}
