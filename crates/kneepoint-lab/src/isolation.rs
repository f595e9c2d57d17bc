//! What keeps a host apart from the machine: its network, its processes, its limits and its settings of the kernel.

pub(crate) mod cgroup;
mod disk;
pub(crate) mod netns;
pub(crate) mod numbers;
pub(crate) mod sysctl;
