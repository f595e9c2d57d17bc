//! The memory of another process, copied without stopping it.

use std::io;

/// Most ranges of one call (IOV_MAX of Linux).
const RANGES: usize = 1024;

/// A part of the memory of another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    /// Its first address.
    pub(crate) at: u64,
    /// Its length in bytes.
    pub(crate) len: usize,
}

/// Why memory could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// The process is gone.
    Gone,
    /// It may not be read.
    Denied,
    /// There is nothing at an address.
    Unmapped,
}

/// Memory that can be read in parts.
pub(crate) trait Memory {
    /// Copies ranges one behind the other, in one go and in their order, until one cannot be read. Tells how many
    /// bytes were copied, at least one. At most 1024 ranges; `into` has room for all of them.
    fn copy(&self, ranges: &[Range], into: &mut [u8]) -> Result<usize, ReadError>;

    /// Reads ranges, each by itself where one of them cannot be read.
    fn gather(&self, ranges: &[Range]) -> Result<Gathered, ReadError> {
        let mut gathered = Gathered {
            bytes: vec![0; ranges.iter().map(|range| range.len).sum()],
            parts: Vec::with_capacity(ranges.len()),
        };
        let mut start = 0;
        while gathered.parts.len() < ranges.len() {
            let first = gathered.parts.len();
            let chunk = &ranges[first..ranges.len().min(first + RANGES)];
            let mut copied = match self.copy(chunk, &mut gathered.bytes[start..]) {
                Ok(copied) => copied,
                Err(ReadError::Unmapped) => 0,
                Err(error) => return Err(error),
            };
            for range in chunk {
                let found = copied.min(range.len);
                gathered.parts.push((start, found));
                start += range.len;
                copied -= found;
                if found < range.len {
                    break;
                }
            }
        }
        Ok(gathered)
    }

    /// The bytes of one range, all of them.
    fn bytes(&self, at: u64, len: usize) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; len];
        match self.copy(&[Range { at, len }], &mut bytes)? {
            copied if copied == len => Ok(bytes),
            _ => Err(ReadError::Unmapped),
        }
    }

    /// A text that ends in a zero byte, or its first bytes.
    fn text(&self, at: u64, longest: usize) -> Result<Vec<u8>, ReadError> {
        let mut text = Vec::new();
        // By pieces: it may stand at the very end of a mapping.
        while text.len() < longest {
            let piece = self.bytes(at.wrapping_add(text.len() as u64), 8)?;
            let end = piece.iter().position(|byte| *byte == 0);
            text.extend(&piece[..end.unwrap_or(8)]);
            if end.is_some() {
                break;
            }
        }
        Ok(text)
    }

    /// A pointer or 64-bit number.
    fn word(&self, at: u64) -> Result<u64, ReadError> {
        Ok(word(&self.bytes(at, 8)?, 0).unwrap_or(0))
    }
}

/// What several ranges held.
#[derive(Debug)]
pub(crate) struct Gathered {
    bytes: Vec<u8>,
    /// Start within `bytes`, and how much could be read.
    parts: Vec<(usize, usize)>,
}

impl Gathered {
    /// What a range held, as far as it could be read.
    pub(crate) fn part(&self, index: usize) -> &[u8] {
        self.parts
            .get(index)
            .and_then(|(start, len)| self.bytes.get(*start..start + len))
            .unwrap_or_default()
    }
}

/// The 64-bit number at an offset.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.get(..8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

/// The 32-bit number at an offset.
pub(crate) fn half(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.get(..4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// The memory of a live process. Reading needs the same user and a dumpable process, or CAP_SYS_PTRACE.
#[derive(Debug, Clone, Copy)]
pub struct ProcessMemory {
    pid: libc::pid_t,
}

impl ProcessMemory {
    /// Of a process. Nothing is asked of it before the first read; `None` when no process can have this number.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let pid = libc::pid_t::try_from(pid).ok()?;
        (pid > 0).then_some(Self { pid })
    }
}

impl Memory for ProcessMemory {
    fn copy(&self, ranges: &[Range], into: &mut [u8]) -> Result<usize, ReadError> {
        let remote: Vec<libc::iovec> = ranges
            .iter()
            .map(|range| libc::iovec {
                iov_base: range.at as *mut libc::c_void,
                iov_len: range.len,
            })
            .collect();
        match readv(self.pid, &remote, into) {
            // Nothing copied and nothing wrong: there were no bytes to copy.
            Ok(0) => Err(ReadError::Unmapped),
            Ok(copied) => Ok(copied),
            Err(error) => Err(match error.raw_os_error() {
                Some(libc::ESRCH) => ReadError::Gone,
                Some(libc::EPERM) => ReadError::Denied,
                _ => ReadError::Unmapped,
            }),
        }
    }
}

#[expect(unsafe_code, reason = "rustix has no process_vm_readv")]
fn readv(pid: libc::pid_t, remote: &[libc::iovec], into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    // SAFETY: the kernel writes at most `into.len()` bytes into `into`, which is borrowed mutably for the call, and
    // reads `remote` within its length. Addresses of the other process are checked by the kernel (EFAULT).
    let copied = unsafe {
        libc::process_vm_readv(
            pid,
            &raw const local,
            1,
            remote.as_ptr(),
            remote.len() as libc::c_ulong,
            0,
        )
    };
    usize::try_from(copied).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_memory_reads_as_it_is() {
        let memory = ProcessMemory::of(std::process::id()).expect("a pid");
        let (a, b) = ([7_u8; 300], *b"kneepoint");
        let range = |at: *const u8, len| Range { at: at as u64, len };
        let ranges = [
            range(a.as_ptr(), 300),
            range(std::ptr::without_provenance(8), 4),
            range(b.as_ptr(), 9),
        ];
        let gathered = memory.gather(&ranges).expect("our own memory");
        assert_eq!(gathered.part(0), a);
        assert_eq!(gathered.part(1), b"", "nothing is mapped there");
        assert_eq!(gathered.part(2), b"kneepoint");
        assert_eq!(memory.bytes(8, 4), Err(ReadError::Unmapped));
    }

    #[test]
    fn a_process_that_is_gone_is_gone() {
        assert!(ProcessMemory::of(0).is_none());
        let memory = ProcessMemory::of(i32::MAX as u32).expect("a number");
        assert_eq!(memory.word(4096), Err(ReadError::Gone));
    }
}
