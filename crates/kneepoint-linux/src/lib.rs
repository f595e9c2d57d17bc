//! What several instruments need of the Linux kernel, read in one place.
//!
//! This crate alone parses `/proc`, finds the hierarchies of control groups, enters namespaces, asks semaphores who has
//! them and speaks sock_diag. What is read often has a parser of its own that allocates little ([`Stat`], [`Kept`],
//! [`SockDiag`]); what is read now and then comes from the crate `procfs` ([`ProcessEntry`], [`Hierarchies`],
//! [`machine`]).
//!
//! It must never know what a program is or what a number means for the stack, keep anything between two runs, start a
//! process, write a file, or print.

pub mod cgroup;
mod cpu;
mod entry;
pub mod file;
pub mod machine;
pub mod namespace;
pub mod network;
pub mod privilege;
pub mod process;
pub mod semaphore;
pub mod sock_diag;
mod tree;

pub use cgroup::{Hierarchies, Hierarchy};
pub use cpu::clock;
pub use cpu::{Allowed, CpuTicks, CpuUse};
pub use entry::{Environment, ProcessEntry};
pub use file::Kept;
pub use process::Stat;
pub use sock_diag::SockDiag;
pub use tree::Tree;
