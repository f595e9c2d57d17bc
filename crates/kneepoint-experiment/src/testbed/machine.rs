//! What is known of the machine.

pub(super) mod canary;
pub(super) mod others;

use crate::error::ExperimentError;
use kneepoint_linux::machine;
use kneepoint_model::run::Machine;
use std::fs::File;
use std::io::Read as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads the machine's size and kernel; what cannot be read stays empty.
#[must_use]
pub fn machine() -> Machine {
    Machine {
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        memory_bytes: machine::memory_bytes().unwrap_or(0),
        kernel: machine::kernel_release(),
        cpu: machine::cpu_model().unwrap_or_default(),
        shared_with_generator: true,
        generator_ceiling_hz: None,
    }
}

/// A word that nobody can guess: 128 bits of the kernel's in letters and digits.
///
/// # Errors
/// The kernel's random numbers cannot be read.
pub(super) fn secret() -> Result<String, ExperimentError> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|error| {
            ExperimentError::Unfit(format!(
                "cannot read random numbers from /dev/urandom: {error}"
            ))
        })?;
    Ok(format!("k{:032x}", u128::from_ne_bytes(bytes)))
}

/// A number that nobody else's server will answer with.
pub(super) fn nonce() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64);
    now.rotate_left(17) ^ (u64::from(std::process::id()) << 32)
}
