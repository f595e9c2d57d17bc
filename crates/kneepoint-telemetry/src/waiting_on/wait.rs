//! What a process is doing, from `/proc/PID/syscall`: running, or asleep in which call and on what.
//! Pure functions of bytes; `waiting_on` turns descriptors into peers.

/// What `/proc/PID/syscall` says (proc(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syscall {
    /// On a CPU or ready to run.
    Running,
    /// Asleep, but not in a system call (a page fault).
    Outside,
    /// Asleep in a call with these arguments.
    In(i64, [u64; 6]),
}

/// Parses `/proc/PID/syscall`.
pub(crate) fn parse_syscall(bytes: &[u8]) -> Option<Syscall> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    if text == "running" {
        return Some(Syscall::Running);
    }
    let mut words = text.split_ascii_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    if number < 0 {
        return Some(Syscall::Outside);
    }
    let mut args = [0; 6];
    for arg in &mut args {
        *arg = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    Some(Syscall::In(number, args))
}

/// What a blocked call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Nothing but the call itself matters.
    Named(&'static str),
    /// Data or room on a descriptor.
    On(Verb, i32),
    /// A connection: descriptor, and where the address is in the memory of the process.
    Connect(i32, u64, u64),
    /// Any of the descriptors of an array of `struct pollfd`: address, count.
    Poll(u64, u64),
    /// Any of two bit sets of descriptors: how many, address of those to read, of those to write.
    Select(u64, u64, u64),
    /// A call without a meaning of its own here.
    Other,
}

/// What is asked of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Wait for data.
    Recv,
    /// Wait for room.
    Send,
}

/// The meaning of a blocked call.
pub(crate) fn wait_of(number: i64, args: &[u64; 6]) -> Wait {
    // The argument is an int: the upper half of the register is not part of it.
    let fd = args[0] as u32 as i32;
    match number {
        libc::SYS_accept | libc::SYS_accept4 => Wait::Named("accept"),
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => Wait::Named("sleep"),
        libc::SYS_flock | libc::SYS_fcntl => Wait::Named("flock"),
        libc::SYS_futex => Wait::Named("futex"),
        libc::SYS_semop | libc::SYS_semtimedop => Wait::Named("semaphore"),
        libc::SYS_wait4 | libc::SYS_waitid => Wait::Named("child"),
        libc::SYS_fsync | libc::SYS_fdatasync => Wait::Named("fsync"),
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_pread64 => Wait::On(Verb::Recv, fd),
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_pwrite64 => Wait::On(Verb::Send, fd),
        libc::SYS_connect => Wait::Connect(fd, args[1], args[2]),
        libc::SYS_ppoll => polled(args[0], args[1]),
        libc::SYS_pselect6 => selected(args),
        libc::SYS_epoll_pwait => Wait::Named("epoll"),
        _ => older_call(number, args),
    }
}

fn polled(address: u64, count: u64) -> Wait {
    if count == 0 {
        Wait::Named("sleep")
    } else {
        Wait::Poll(address, count)
    }
}

fn selected(args: &[u64; 6]) -> Wait {
    if args[0] == 0 {
        Wait::Named("sleep")
    } else {
        Wait::Select(args[0], args[1], args[2])
    }
}

/// The calls that only older architectures have.
#[cfg(target_arch = "x86_64")]
fn older_call(number: i64, args: &[u64; 6]) -> Wait {
    match number {
        libc::SYS_poll => polled(args[0], args[1]),
        libc::SYS_select => selected(args),
        libc::SYS_epoll_wait => Wait::Named("epoll"),
        libc::SYS_pause => Wait::Named("sleep"),
        _ => Wait::Other,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn older_call(_: i64, _: &[u64; 6]) -> Wait {
    Wait::Other
}

const POLLIN: u16 = 1;
const POLLOUT: u16 = 4;

/// The descriptors of an array of `struct pollfd` and what is asked of each. One that may be written (a
/// connection that is being made is polled for both) counts as waiting for room.
pub(crate) fn parse_pollfds(bytes: &[u8]) -> impl Iterator<Item = (Verb, i32)> {
    bytes.chunks_exact(8).filter_map(|entry| {
        let fd = i32::from_ne_bytes(entry[..4].try_into().ok()?);
        let events = u16::from_ne_bytes(entry[4..6].try_into().ok()?);
        let verb = match (events & POLLOUT != 0, events & POLLIN != 0) {
            (true, _) => Verb::Send,
            (false, true) => Verb::Recv,
            (false, false) => return None,
        };
        (fd >= 0).then_some((verb, fd))
    })
}

/// The first descriptor of an `fd_set`.
pub(crate) fn parse_fd_set(bytes: &[u8]) -> Option<i32> {
    let at = bytes.iter().position(|byte| *byte != 0)?;
    i32::try_from(at * 8 + bytes[at].trailing_zeros() as usize).ok()
}

/// The meaning of a wait channel, for when the call cannot be read; `None` when it is none of the known ones.
pub(crate) fn wait_channel(name: &str) -> Option<&'static str> {
    const KNOWN: &[(&str, &str)] = &[
        ("inet_csk_accept", "accept"),
        ("unix_accept", "accept"),
        ("nanosleep", "sleep"),
        ("locks_lock_inode_wait", "flock"),
        ("flock_lock", "flock"),
        ("futex", "futex"),
    ];
    let found = KNOWN.iter().find(|(part, _)| name.contains(part));
    found.map(|(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(line: &str, expected: Wait) {
        match parse_syscall(line.as_bytes()) {
            Some(Syscall::In(number, args)) => {
                assert_eq!(wait_of(number, &args), expected, "{line}")
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn running_and_blocked_are_told_apart() {
        assert_eq!(parse_syscall(b"running\n"), Some(Syscall::Running));
        assert_eq!(parse_syscall(b"-1 0x7ffc 0x7f1a\n"), Some(Syscall::Outside));
        assert_eq!(parse_syscall(b"7 0x1\n"), None);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_have_a_meaning() {
        let tail = "0x0 0x0 0x0 0x7ffc00 0x7f1a00";
        check(
            &format!("43 0x9 0x7ffc10 0x7ffc20 {tail}"),
            Wait::Named("accept"),
        );
        check(&format!("230 0x0 0x0 0x7ffd {tail}"), Wait::Named("sleep"));
        check(&format!("73 0x5 0x2 0x0 {tail}"), Wait::Named("flock"));
        check(
            &format!("0 0xb 0x5500 0x2000 {tail}"),
            Wait::On(Verb::Recv, 11),
        );
        check(
            &format!("44 0xffffffff0000000c 0x5500 0x20 {tail}"),
            Wait::On(Verb::Send, 12),
        );
        check(
            &format!("42 0x4 0x7ffc30 0x10 {tail}"),
            Wait::Connect(4, 0x7ffc30, 16),
        );
        check(
            &format!("7 0x7ffc40 0x1 0xea60 {tail}"),
            Wait::Poll(0x7ffc40, 1),
        );
        check(&format!("7 0x0 0x0 0xea60 {tail}"), Wait::Named("sleep"));
        check(&format!("319 0x0 0x0 0x0 {tail}"), Wait::Other);
    }

    #[test]
    fn memory_is_read_as_the_kernel_wrote_it() {
        let poll = [
            [4, 0, 0, 0, 1, 0, 0, 0],
            [5, 0, 0, 0, 5, 0, 0, 0],
            [255, 255, 255, 255, 1, 0, 0, 0],
        ]
        .concat();
        let polled: Vec<_> = parse_pollfds(&poll).collect();
        assert_eq!(polled, [(Verb::Recv, 4), (Verb::Send, 5)]);
        assert_eq!(parse_fd_set(&[0, 0b1000]), Some(11));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120), text in "[-0-9a-fx ]{0,80}") {
            for bytes in [&bytes[..], text.as_bytes()] {
                if let Some(Syscall::In(number, args)) = parse_syscall(bytes) {
                    wait_of(number, &args);
                }
                parse_pollfds(bytes).for_each(drop);
                parse_fd_set(bytes);
            }
        }
    }
}
