//! Which disk holds a directory, as the kernel numbers disks.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The number of a disk, as control groups take it: `254:0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Disk {
    major: u32,
    minor: u32,
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// The whole disk on which a directory is, whatever part of it; `None` where it is in memory, on the network or in layers, or where
/// the file system spans disks of its own choice (btrfs, ZFS).
pub(crate) fn below(directory: &Path) -> Option<Disk> {
    let device = fs::metadata(directory).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let entry = format!("/sys/dev/block/{major}:{minor}");
    let entry = fs::canonicalize(entry).ok()?;
    if !entry.join("partition").exists() {
        return Some(Disk { major, minor });
    }
    // Requests are limited where they are queued: at the disk of which this is a part.
    let number = fs::read_to_string(entry.parent()?.join("dev")).ok()?;
    let (major, minor) = number.trim().split_once(':')?;
    Some(Disk {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_memory_is_on_no_disk() {
        assert_eq!(below(Path::new("/proc")), None);
        assert_eq!(below(Path::new("/nonexistent")), None);
    }
}
