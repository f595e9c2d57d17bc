//! What the CPU of each tier goes into below its code: mapped files, symbols, system calls.
//!
//! The kernel's own sampler (perf_event_open(2)) with its software clock, which needs no counter of the CPU and so works on
//! virtual machines: each core notes, so many times a second of work, which process runs, where, and how it came into the
//! kernel. REQUIREMENTS: root, CAP_PERFMON, or kernel.perf_event_paranoid of 0 or less. OVERHEAD: about 2 us a sample.

mod clock;
mod kernel;
mod mapped;
mod tally;

use crate::error::ProfilerError;
use clock::Clock;
use kernel::Kernel;
use kneepoint_model::Layer;
use kneepoint_model::account::NativeAccount;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tally::Tally;

/// Samples a second of each core at work. It shares no factor with the ticks of a kernel (100, 250, 1000 Hz).
pub const CPU_RATE_HZ: u64 = 199;
/// Time between two looks at what the kernel noted: a process that ends sooner is not asked for its mapped files.
const LOOK: Duration = Duration::from_millis(50);

/// What the CPU was used for while it was sampled.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CpuProfile {
    /// Each tier's by mapped file and symbol; all that is none by program. Those with most samples first.
    pub accounts: Vec<NativeAccount>,
    /// What should be known besides.
    pub notes: Vec<String>,
}

/// Samples the CPUs of this machine until `stop` is raised. `tiers` are the tiers with the first process of each; its
/// descendants are the tier.
///
/// # Errors
/// [`Error::NoCpuClock`]: the kernel does not let this process sample the whole machine, or has no such clock.
pub fn sample_cpu(tiers: &[(Layer, u32)], stop: &AtomicBool) -> Result<CpuProfile, ProfilerError> {
    let mut clock = Clock::start(CPU_RATE_HZ).map_err(|why| ProfilerError::NoCpuClock {
        why: why.to_string(),
        remedy: remedy(),
    })?;
    let mut tally = Tally::new(tiers);
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
        clock.take(&mut |hit| tally.add(&hit));
    }
    let lost = clock.lost();
    let (kernel, mut notes) = match Kernel::read() {
        Some(kernel) => (kernel, Vec::new()),
        None => (
            Kernel::default(),
            vec![
                "/proc/kallsyms tells no addresses, so the kernel's work is not divided".to_owned(),
            ],
        ),
    };
    if lost > 0 {
        notes.push(format!("{lost} samples of the CPU were lost"));
    }
    Ok(CpuProfile {
        accounts: tally.accounts(&kernel),
        notes,
    })
}

/// What lets this process sample the whole machine.
fn remedy() -> String {
    let file = "/proc/sys/kernel/perf_event_paranoid";
    match std::fs::read_to_string(file) {
        Ok(level) => format!(
            "run as root, or set kernel.perf_event_paranoid (now {}) to 0",
            level.trim()
        ),
        Err(_) => "this kernel was built without perf events".to_owned(),
    }
}

/// The kernel's clock noted that a process was at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hit<'a> {
    pid: u32,
    /// Where, in the program or in the kernel.
    at: u64,
    /// Whether it was in the kernel.
    in_kernel: bool,
    /// Through which functions the kernel came there, the innermost first.
    through: &'a [u64],
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Computes in a function that keeps its name, without asking for the time: on some machines that is a system call.
    #[inline(never)]
    fn burn(rounds: u64) -> u64 {
        (0..rounds).fold(0, |sum: u64, n| {
            std::hint::black_box(sum.wrapping_mul(31).wrapping_add(n))
        })
    }

    #[test]
    fn a_process_at_work_is_met_in_its_own_program() {
        let stop = AtomicBool::new(false);
        let own = std::process::id();
        let profile = thread::scope(|scope| {
            let sampler = scope.spawn(|| sample_cpu(&[(Layer::Php, own)], &stop));
            let until = Instant::now() + Duration::from_millis(700);
            while Instant::now() < until {
                std::hint::black_box(burn(10_000_000));
            }
            stop.store(true, Ordering::Relaxed);
            sampler.join().expect("no panic")
        });
        let profile = match profile {
            Ok(profile) => profile,
            // Where it is not allowed, that is said with what to do.
            Err(error) => return assert!(error.to_string().contains("perf_event"), "{error}"),
        };
        let tier = profile
            .accounts
            .iter()
            .find(|one| one.layer == Some(Layer::Php));
        let tier = tier.expect("samples of this process");
        let program = std::env::current_exe().expect("a program");
        let program = program.file_name().and_then(|name| name.to_str());
        let share = |object: &str| {
            let of = tier.objects.iter().filter(|one| one.object == object);
            of.map(|one| one.samples).sum::<u64>() as f64 / tier.samples as f64
        };
        assert!(share(program.expect("a name")) > 0.4, "{tier:?}");
        let named = tier.symbols.iter().filter_map(|one| one.symbol.as_deref());
        assert!(
            named.into_iter().any(|name| name.contains("burn")),
            "{tier:?}"
        );
        let sum: u64 = tier.objects.iter().map(|one| one.samples).sum();
        assert_eq!(sum, tier.samples);
    }
}
