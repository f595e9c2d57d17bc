//! What the machine is.

use crate::file;
use procfs::{CpuInfo, Current, Meminfo};

/// Memory of the machine in bytes; `None` where it cannot be read.
#[must_use]
pub fn memory_bytes() -> Option<u64> {
    Some(Meminfo::current().ok()?.mem_total)
}

/// What the first CPU calls itself; `None` where it does not, as on ARM.
#[must_use]
pub fn cpu_model() -> Option<String> {
    CpuInfo::current().ok()?.model_name(0).map(str::to_owned)
}

/// The release of the kernel; empty where it cannot be read.
#[must_use]
pub fn kernel_release() -> String {
    setting("kernel/osrelease")
}

/// What names the time since the last start of the machine; empty where it cannot be read.
#[must_use]
pub fn boot_id() -> String {
    setting("kernel/random/boot_id")
}

/// A setting below `/proc/sys`, in the network namespace of the calling thread; empty where there is none.
#[must_use]
pub fn setting(path: &str) -> String {
    let bytes = file::read(&format!("/proc/sys/{path}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known() {
        assert!(memory_bytes().is_some_and(|bytes| bytes > 64 << 20));
        assert!(cpu_model().is_none_or(|model| !model.is_empty()));
        assert_eq!(kernel_release(), setting("kernel/osrelease"));
        assert_eq!(
            boot_id().len(),
            "01234567-89ab-cdef-0123-456789abcdef".len()
        );
        assert_eq!(setting("kernel/no_such_setting"), "");
    }
}
