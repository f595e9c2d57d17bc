//! What is known of the machine.

use kneepoint_model::run::Machine;
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads the machine's size and kernel; what cannot be read stays empty.
#[must_use]
pub fn machine() -> Machine {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    Machine {
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        memory_bytes: field(&memory, "MemTotal")
            .and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok())
            .unwrap_or(0)
            * 1024,
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
            .unwrap_or_default()
            .trim()
            .to_owned(),
        cpu: field(&cpu, "model name").unwrap_or_default().to_owned(),
        shared_with_generator: true,
        generator_ceiling_hz: None,
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// A number that nobody else's server will answer with.
pub(super) fn nonce() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64);
    now.rotate_left(17) ^ (u64::from(std::process::id()) << 32)
}
