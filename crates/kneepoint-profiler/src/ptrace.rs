//! The system calls of a tracer (ptrace(2)). All of them hold for the thread that makes them only.

use std::io;

/// What a traced process did that it was stopped for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// It has ended.
    Ended,
    /// It is about to make a system call, or has made one.
    Syscall,
    /// It was interrupted because we asked for it.
    Interrupted,
    /// It was stopped by a signal that stops (SIGSTOP and the like), and must stay so.
    Stopped,
    /// It has started a process or a thread, which is traced from its beginning on.
    Started,
    /// It is about to be given this signal.
    Signal(i32),
}

/// A system call of a traced process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syscall {
    /// It is about to be made: number and arguments.
    Entry(i64, [u64; 6]),
    /// It has returned this; below 0, it failed with that error.
    Exit(i64),
}

/// What [`detach`] and [`go_on`] give a process: no signal.
pub(crate) const NO_SIGNAL: i32 = 0;

/// The architecture of 64-bit calls (linux/audit.h). Those of 32-bit programs have other numbers.
#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;

/// Length of `struct ptrace_syscall_info` (linux/ptrace.h) of the kernels that have it, 5.3 and later.
const INFO_BYTES: usize = 88;

/// Begins to trace a process, without stopping it. It goes on by itself when this thread ends, however it does.
pub(crate) fn seize(pid: u32) -> io::Result<()> {
    seize_with(pid, libc::PTRACE_O_TRACESYSGOOD)
}

/// The same with every process and thread that it starts from now on, each from its first call on.
pub(crate) fn seize_with_children(pid: u32) -> io::Result<()> {
    let children = libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK | libc::PTRACE_O_TRACECLONE;
    seize_with(pid, libc::PTRACE_O_TRACESYSGOOD | children)
}

fn seize_with(pid: u32, options: libc::c_int) -> io::Result<()> {
    let options = usize::try_from(options).unwrap_or_default();
    request(libc::PTRACE_SEIZE, pid, options)
}

/// Asks a process to stop; it tells by [`Event::Interrupted`], unless it stops for another reason before.
pub(crate) fn interrupt(pid: u32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, pid, 0)
}

/// Lets a stopped process go on to its next system call, with a signal.
pub(crate) fn go_on(pid: u32, signal: i32) -> io::Result<()> {
    request(
        libc::PTRACE_SYSCALL,
        pid,
        usize::try_from(signal).unwrap_or_default(),
    )
}

/// Where the thread-local storage of a stopped thread begins.
#[cfg(target_arch = "x86_64")]
pub(crate) fn thread_pointer(pid: u32) -> io::Result<u64> {
    // What can be peeked at is `struct user` (sys/user.h), which begins with the registers.
    let register = std::mem::offset_of!(libc::user_regs_struct, fs_base);
    trace(libc::PTRACE_PEEKUSER, pid, register, 0).map(i64::cast_unsigned)
}

/// The register is read in another way elsewhere, and how PHP tells what lies behind it is not known there.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn thread_pointer(_pid: u32) -> io::Result<u64> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Lets a process that a signal has stopped stay so until another lets it go on.
pub(crate) fn stay(pid: u32) -> io::Result<()> {
    request(libc::PTRACE_LISTEN, pid, 0)
}

/// Ends the tracing of a stopped process, with a signal.
pub(crate) fn detach(pid: u32, signal: i32) -> io::Result<()> {
    request(
        libc::PTRACE_DETACH,
        pid,
        usize::try_from(signal).unwrap_or_default(),
    )
}

/// The call a process is stopped at; nothing when it is a call of a 32-bit program.
pub(crate) fn syscall(pid: u32) -> io::Result<Option<Syscall>> {
    let mut info = [0; INFO_BYTES];
    let at = info.as_mut_ptr().expose_provenance();
    trace(libc::PTRACE_GET_SYSCALL_INFO, pid, INFO_BYTES, at)?;
    Ok(parse(&info))
}

fn parse(info: &[u8; INFO_BYTES]) -> Option<Syscall> {
    let word = |at: usize| Some(u64::from_ne_bytes(info.get(at..at + 8)?.try_into().ok()?));
    let arch = u32::from_ne_bytes(info.get(4..8)?.try_into().ok()?);
    match info[0] {
        _ if arch != NATIVE => None,
        1 => {
            let mut args = [0; 6];
            for (index, arg) in args.iter_mut().enumerate() {
                *arg = word(32 + 8 * index)?;
            }
            Some(Syscall::Entry(word(24)?.cast_signed(), args))
        }
        2 => Some(Syscall::Exit(word(24)?.cast_signed())),
        _ => None,
    }
}

/// The next event of a process that this thread traces; nothing when there is none yet.
pub(crate) fn next() -> io::Result<Option<(u32, Event)>> {
    Ok(wait(-1)?.map(|(pid, status)| (pid, event(status))))
}

/// The next event of this one.
pub(crate) fn next_of(pid: u32) -> io::Result<Option<Event>> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    Ok(wait(pid)?.map(|(_, status)| event(status)))
}

fn event(status: i32) -> Event {
    /// `PTRACE_EVENT_STOP` (linux/ptrace.h): an interruption, or the stop by a signal.
    const EVENT_STOP: i32 = 128;
    if !libc::WIFSTOPPED(status) {
        return Event::Ended;
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        EVENT_STOP if signal == libc::SIGTRAP => Event::Interrupted,
        EVENT_STOP => Event::Stopped,
        _ if signal == libc::SIGTRAP | 0x80 => Event::Syscall,
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
            Event::Started
        }
        _ => Event::Signal(signal),
    }
}

fn request(request: libc::c_uint, pid: u32, data: usize) -> io::Result<()> {
    trace(request, pid, 0, data).map(drop)
}

#[expect(unsafe_code, reason = "rustix has no ptrace")]
fn trace(request: libc::c_uint, pid: u32, address: usize, data: usize) -> io::Result<i64> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    // SAFETY: of the requests of this module, only PTRACE_GET_SYSCALL_INFO writes to our memory: at most `address`
    // bytes at `data`, where its caller has a buffer of that size. The others take numbers.
    let result = unsafe {
        libc::ptrace(
            request,
            pid,
            std::ptr::without_provenance_mut::<libc::c_void>(address),
            std::ptr::with_exposed_provenance_mut::<libc::c_void>(data),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

#[expect(unsafe_code, reason = "rustix has no __WNOTHREAD")]
fn wait(pid: libc::pid_t) -> io::Result<Option<(u32, i32)>> {
    // Processes of other threads of this program are not ours to wait for.
    let flags = libc::WNOHANG | libc::__WALL | libc::__WNOTHREAD;
    let mut status = 0;
    // SAFETY: the kernel writes an int to `status`.
    let pid = unsafe { libc::waitpid(pid, &raw mut status, flags) };
    match u32::try_from(pid) {
        Ok(0) => Ok(None),
        Ok(pid) => Ok(Some((pid, status))),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_told_apart() {
        for (status, expected) in [
            (0x100, Event::Ended),
            (9, Event::Ended),
            (0x857f, Event::Syscall),
            (0x80_057f, Event::Interrupted),
            (0x80_137f, Event::Stopped),
            (0x01_057f, Event::Started),
            (0x03_057f, Event::Started),
            (0x0f7f, Event::Signal(15)),
        ] {
            assert_eq!(event(status), expected, "{status:#x}");
        }
    }

    #[test]
    fn a_call_is_read_as_the_kernel_wrote_it() {
        let mut info = [0; INFO_BYTES];
        info[4..8].copy_from_slice(&NATIVE.to_ne_bytes());
        info[24..32].copy_from_slice(&257_u64.to_ne_bytes());
        info[72..80].copy_from_slice(&6_u64.to_ne_bytes());
        info[0] = 1;
        assert_eq!(parse(&info), Some(Syscall::Entry(257, [0, 0, 0, 0, 0, 6])));
        info[24..32].copy_from_slice(&(-2_i64).to_ne_bytes());
        info[0] = 2;
        assert_eq!(parse(&info), Some(Syscall::Exit(-2)));
        info[4] = 3;
        assert_eq!(parse(&info), None, "a 32-bit program");
    }
}
