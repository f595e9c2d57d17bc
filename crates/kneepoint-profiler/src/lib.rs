//! Looks into running PHP workers from outside: no extension, no restart.
//!
//! This crate alone knows how PHP lays out its memory, and it alone reads the memory of another process to tell
//! what it executes. What leaves it are stacks of functions, files and lines, each with how it was obtained, and
//! the request it belongs to.
//!
//! Below PHP's code, the kernel's own clock tells which mapped file and system call took the CPU ([`sample_cpu`]).
//!
//! The timing pass ([`record`]) never stops a process, except a thread of a PHP that was built for threads, once, when
//! it is found: only its registers tell where its globals are. The evidence pass ([`trace`]) does, at each system call: what it
//! counts is exact, and never timed. So does the [`Tripwire`], which looks for nothing but attempts to reach somebody.
//!
//! It must never signal or write to a process, decide what a profile means, write a file, or print.
//! What it cannot read for certain it does not guess: an unknown PHP, a field that looks wrong or a chain that does
//! not end at its root is refused or counted, by name.
//!
//! # How a stack is read
//!
//! A worker runs on while it is read, so the parts of a stack that are copied one after the other need not belong
//! together. One `process_vm_readv` therefore copies PHP's executor globals, the page its frames lie on, the
//! globals, the same page, and the globals once more. A frame counts only when both copies agree on its function
//! and its caller, and a chain only when it ends at the first frame of its page. When the innermost frame changed
//! meanwhile, the stack of the outermost of the frames seen is taken (*salvaged*): throwing the sample away would
//! make code that calls a lot look cheap. See [`SampleOutcome`].
//!
//! A new PHP minor is one file in `src/abi/` and one line in [`PHP_ABIS`].

mod abi;
mod error;
mod memory;
mod perf;
mod process;
mod ptrace;
mod record;
mod sample;
mod sampler;
mod stack;
#[cfg(test)]
mod testing;
mod trace;

pub use abi::{GeneratorAbi, PHP_ABIS, PhpAbi};
pub use error::ProfilerError;
pub use memory::ProcessMemory;
pub use perf::{CPU_RATE_HZ, CpuProfile, sample_cpu};
pub use process::Pools;
pub use process::ini::ini;
pub use process::ini_files::{IniFiles, ini_files};
pub use process::opcache::{OpcacheState, opcache};
pub use process::scripts::opcache_scripts;
pub use record::profile::{Cost, Counts, PhpProfile};
pub use record::{RecordOptions, RecordProgress, WaitsFor, record};
pub use sample::{Attached, Sample, SampleOutcome, State, WorkerRequest};
pub use sampler::Sampler;
#[cfg(any(test, feature = "fuzzing"))]
pub use trace::fuzzing;
pub use trace::tripwire::{Attempt, Sought, Tripwire};
pub use trace::{TraceOptions, TraceProgress, trace};
