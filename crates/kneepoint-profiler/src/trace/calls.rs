//! Which system calls are looked at, and what their arguments are.

use crate::memory::{Memory, ReadError, word};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Longest path (linux/limits.h: PATH_MAX), in bytes.
const PATH: usize = 4096;
/// Longest part of what is sent that is looked at, in bytes.
const SENT: usize = 64 << 10;
/// Most parts of one message.
const PARTS: u64 = 64;
/// `AT_EMPTY_PATH` (linux/fcntl.h): the call is about its descriptor.
const EMPTY_PATH: u64 = 0x1000;

/// A call that is looked at, with the places of its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// A path is opened: where it stands.
    Open(u64),
    /// A path is looked up.
    Look(u64),
    /// A descriptor is connected: where the address stands, and its length.
    Connect(i32, u64, u64),
    /// Bytes are written to a descriptor: where they stand, and how many.
    Send(i32, u64, u64),
    /// The same from several places: an array of `struct iovec`, and how many.
    SendParts(i32, u64, u64),
    /// The same, with the array in a `struct msghdr`.
    SendMessage(i32, u64),
    /// A file is locked.
    Lock(i32),
    /// The process sleeps: where the time stands.
    Sleep(u64),
    /// It waits for its next connection.
    Accept,
    /// It reads from a descriptor.
    Read(i32),
}

/// What a call is, by its number; nothing when it is not looked at.
pub(super) fn call(number: i64, args: &[u64; 6]) -> Option<Call> {
    // An int: the upper half of the register is not part of it.
    let fd = (args[0] as u32).cast_signed();
    Some(match number {
        libc::SYS_openat => Call::Open(args[1]),
        libc::SYS_newfstatat if args[3] & EMPTY_PATH == 0 => Call::Look(args[1]),
        libc::SYS_statx if args[2] & EMPTY_PATH == 0 => Call::Look(args[1]),
        libc::SYS_faccessat | libc::SYS_faccessat2 | libc::SYS_readlinkat => Call::Look(args[1]),
        libc::SYS_connect => Call::Connect(fd, args[1], args[2]),
        libc::SYS_write | libc::SYS_sendto => Call::Send(fd, args[1], args[2]),
        libc::SYS_writev => Call::SendParts(fd, args[1], args[2]),
        libc::SYS_sendmsg => Call::SendMessage(fd, args[1]),
        libc::SYS_flock => Call::Lock(fd),
        libc::SYS_nanosleep => Call::Sleep(args[0]),
        libc::SYS_clock_nanosleep => Call::Sleep(args[2]),
        libc::SYS_accept | libc::SYS_accept4 => Call::Accept,
        libc::SYS_read | libc::SYS_recvfrom => Call::Read(fd),
        _ => return older(number, args),
    })
}

/// The calls that only older architectures have.
#[cfg(target_arch = "x86_64")]
fn older(number: i64, args: &[u64; 6]) -> Option<Call> {
    match number {
        libc::SYS_open | libc::SYS_creat => Some(Call::Open(args[0])),
        libc::SYS_stat | libc::SYS_lstat | libc::SYS_access | libc::SYS_readlink => {
            Some(Call::Look(args[0]))
        }
        _ => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn older(_: i64, _: &[u64; 6]) -> Option<Call> {
    None
}

/// A path, which ends in a zero byte; empty when it cannot be read.
pub(super) fn path(memory: &impl Memory, at: u64) -> Result<String, ReadError> {
    let mut path = Vec::new();
    while path.len() < PATH {
        let from = at.wrapping_add(path.len() as u64);
        // It may end with the last page there is.
        let page = PATH - usize::try_from(from % PATH as u64).unwrap_or(0);
        let piece = match memory.bytes(from, page.min(256)) {
            Ok(piece) => piece,
            Err(ReadError::Unmapped) => break,
            Err(error) => return Err(error),
        };
        let end = piece.iter().position(|byte| *byte == 0);
        path.extend(&piece[..end.unwrap_or(piece.len())]);
        if end.is_some() {
            break;
        }
    }
    Ok(OsStr::from_bytes(&path).to_string_lossy().into_owned())
}

/// What a call sends, as far as it is looked at.
pub(super) fn sent(memory: &impl Memory, call: Call) -> Result<Vec<u8>, ReadError> {
    let mut sent = Vec::new();
    let ranges = match call {
        Call::Send(_, at, length) => vec![(at, length)],
        Call::SendParts(_, at, count) => parts(memory, at, count)?,
        Call::SendMessage(_, at) => {
            // struct msghdr: name, its length, then the array and how many it has.
            let header = memory.bytes(at, 32)?;
            let (array, count) = (word(&header, 16), word(&header, 24));
            parts(memory, array.unwrap_or(0), count.unwrap_or(0))?
        }
        _ => Vec::new(),
    };
    for (at, length) in ranges {
        let room = SENT - sent.len().min(SENT);
        let length = usize::try_from(length).unwrap_or(SENT).min(room);
        if length > 0 {
            sent.extend(memory.bytes(at, length)?);
        }
    }
    Ok(sent)
}

fn parts(memory: &impl Memory, at: u64, count: u64) -> Result<Vec<(u64, u64)>, ReadError> {
    let count = usize::try_from(count.min(PARTS)).unwrap_or(0);
    if count == 0 {
        return Ok(Vec::new());
    }
    let array = memory.bytes(at, 16 * count)?;
    Ok(array
        .chunks_exact(16)
        .filter_map(|part| Some((word(part, 0)?, word(part, 8)?)))
        .collect())
}

/// How long a sleep is, in words of milliseconds.
pub(super) fn sleep(memory: &impl Memory, at: u64) -> Result<String, ReadError> {
    let time = memory.bytes(at, 16)?;
    let (seconds, nanos) = (word(&time, 0).unwrap_or(0), word(&time, 8).unwrap_or(0));
    let ms = seconds as f64 * 1e3 + nanos as f64 / 1e6;
    Ok(format!("{ms:.0} ms"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Words;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_are_known_by_their_numbers() {
        let args = [0xffff_ffff_0000_0007, 11, 12, 0, 0, 0];
        for (number, expected) in [
            (2, Some(Call::Open(args[0]))),
            (257, Some(Call::Open(11))),
            (262, Some(Call::Look(11))),
            (42, Some(Call::Connect(7, 11, 12))),
            (44, Some(Call::Send(7, 11, 12))),
            (20, Some(Call::SendParts(7, 11, 12))),
            (46, Some(Call::SendMessage(7, 11))),
            (73, Some(Call::Lock(7))),
            (230, Some(Call::Sleep(12))),
            (288, Some(Call::Accept)),
            (45, Some(Call::Read(7))),
            (9, None),
        ] {
            assert_eq!(call(number, &args), expected, "{number}");
        }
        let empty_path = [3, 11, 12, EMPTY_PATH, 0, 0];
        assert_eq!(call(262, &empty_path), None, "it is about a descriptor");
    }

    #[test]
    fn arguments_are_read_from_memory() {
        let mut words = Words::default();
        words.text(0x1000, "/srv/app/a.php");
        words.text(0x2000, "GET / HTTP/1.1");
        for (at, value) in [(0x3000, 0x2000), (0x3008, 4), (0x3010, 0x2004), (0x3018, 2)] {
            words.put(at, value);
        }
        words.put(0x4010, 0x3000);
        words.put(0x4018, 2);
        words.put(0x5000, 1);
        words.put(0x5008, 500_000_000);
        let memory = words.memory();
        assert_eq!(path(&memory, 0x1000).as_deref(), Ok("/srv/app/a.php"));
        let both =
            |call| sent(&memory, call).map(|sent| String::from_utf8(sent).unwrap_or_default());
        assert_eq!(
            both(Call::Send(3, 0x2000, 14)).as_deref(),
            Ok("GET / HTTP/1.1")
        );
        assert_eq!(both(Call::SendParts(3, 0x3000, 2)).as_deref(), Ok("GET / "));
        assert_eq!(both(Call::SendMessage(3, 0x4000)).as_deref(), Ok("GET / "));
        assert_eq!(sleep(&memory, 0x5000).as_deref(), Ok("1500 ms"));
    }
}
