//! Where the globals of a worker are: variables of its program, or in the storage of its thread.
//!
//! In a PHP built for threads (ZTS) each thread has its own globals behind one pointer in its thread-local storage. PHP
//! exports how far into them each group lies (`executor_globals_offset`), and a function that returns where in the
//! storage the pointer is (`tsrm_get_ls_cache_tcb_offset`, TSRM/TSRM.c). Where the storage is, only the registers of
//! the thread tell: it is stopped once for that, for some 100 us. A thread of ours that lives no longer than that does
//! it: with its end the kernel takes back what it asked of theirs, also when theirs could not stop yet.

use crate::error::ProfilerError;
use crate::memory::{Memory, ReadError};
use crate::process::elf::{Globals, Symbol, Symbols};
use crate::ptrace::{self, Event, NO_SIGNAL};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for a thread to stop.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is read of the function: a mark for indirect branches, where the compiler sets one, one instruction, a return.
const CODE_BYTES: usize = 12;
/// `endbr64`.
const BRANCH_MARK: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];

/// Bytes that count as the executor's globals of a thread: their length is told nowhere, and no version has more.
const EXECUTOR_BYTES: u64 = 2048;
/// Bytes that count as the server interface's.
const SAPI_BYTES: u64 = 512;

/// Where the globals of one worker are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Places {
    /// Those of the executor.
    pub(crate) executor: Symbol,
    /// Those of the server interface.
    pub(crate) sapi: Symbol,
}

/// Where the globals of a process are, or of one of its threads. A thread is stopped for it.
pub(crate) fn places(
    pid: u32,
    memory: &impl Memory,
    symbols: &Symbols,
) -> Result<Places, ProfilerError> {
    match symbols.globals {
        Globals::Variables { executor, sapi } => Ok(Places { executor, sapi }),
        Globals::OfThreads {
            executor,
            sapi,
            pointer,
        } => {
            let offset = pointer_offset(memory, pointer.at)
                .ok()
                .flatten()
                .ok_or(ProfilerError::ThreadSafe { pid })?;
            let storage = storage(pid).map_err(|why| refused(pid, &why))?;
            let at = storage.wrapping_add(offset);
            in_storage(memory, at, executor.at, sapi.at)
                .ok()
                .flatten()
                .ok_or(ProfilerError::OtherThread { pid })
        }
    }
}

/// The globals behind the pointer at this address; none where the thread has none.
fn in_storage(
    memory: &impl Memory,
    pointer: u64,
    executor_offset: u64,
    sapi_offset: u64,
) -> Result<Option<Places>, ReadError> {
    let globals = memory.word(pointer)?;
    if globals == 0 {
        return Ok(None);
    }
    let group = |offset, size| {
        let at = globals.wrapping_add(memory.word(offset)?);
        Ok(Symbol { at, size })
    };
    Ok(Some(Places {
        executor: group(executor_offset, EXECUTOR_BYTES)?,
        sapi: group(sapi_offset, SAPI_BYTES)?,
    }))
}

/// How far from the base of its storage the pointer of each thread is, by the code of the function that returns it
/// (`at` is its address): a number in the code, or one that the dynamic linker wrote into a slot. With musl it is 0,
/// which means that it is not known.
fn pointer_offset(memory: &impl Memory, at: u64) -> Result<Option<u64>, ReadError> {
    let code = memory.bytes(at, CODE_BYTES)?;
    let mark = if code.starts_with(BRANCH_MARK) { 4 } else { 0 };
    let Some([opcode @ .., n0, n1, n2, n3, last]) = code.get(mark..mark + 8) else {
        return Ok(None);
    };
    let number = i64::from(i32::from_le_bytes([*n0, *n1, *n2, *n3])).cast_unsigned();
    match (opcode, last) {
        // mov $number, %rax; ret
        ([0x48, 0xc7, 0xc0], 0xc3) => Ok((number != 0).then_some(number)),
        // mov number(%rip), %rax; ret
        ([0x48, 0x8b, 0x05], 0xc3) => {
            let next = at.wrapping_add(mark as u64 + 7);
            let offset = memory.word(next.wrapping_add(number))?;
            Ok((offset != 0).then_some(offset))
        }
        _ => Ok(None),
    }
}

/// The base of a thread's storage, from its registers.
fn storage(thread: u32) -> io::Result<u64> {
    thread::scope(|scope| {
        let asker = thread::Builder::new()
            .name("registers".to_owned())
            .spawn_scoped(scope, || asked(thread))?;
        asker
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that asked for it failed")))
    })
}

/// The same, on a thread that ends with it.
fn asked(thread: u32) -> io::Result<u64> {
    ptrace::seize(thread)?;
    let stopped = ptrace::interrupt(thread).and_then(|()| wait_until_stopped(thread));
    let base = ptrace::thread_pointer(thread);
    // One that has not stopped cannot be let go of like this; the end of this thread does it.
    let _ = ptrace::detach(thread, *stopped.as_ref().unwrap_or(&NO_SIGNAL));
    stopped.and(base)
}

/// Waits until a thread stands still; the signal it must be given when it goes on.
fn wait_until_stopped(thread: u32) -> io::Result<i32> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        match ptrace::next_of(thread)? {
            Some(Event::Interrupted | Event::Stopped | Event::Syscall | Event::Started) => {
                return Ok(NO_SIGNAL);
            }
            Some(Event::Signal(signal)) => return Ok(signal),
            Some(Event::Ended) => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
            None => thread::yield_now(),
        }
    }
    Err(io::Error::from(io::ErrorKind::TimedOut))
}

fn refused(pid: u32, why: &io::Error) -> ProfilerError {
    match why.raw_os_error() {
        Some(libc::ESRCH | libc::ECHILD) => ProfilerError::Gone { pid },
        _ => ProfilerError::Untraceable {
            pid,
            why: format!(
                "{why}. It is a thread of a PHP built for threads, which is stopped once for its registers: another \
                 tracer (a debugger, strace) must not hold it, and CAP_SYS_PTRACE is needed"
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fake, Words};
    use proptest::prelude::*;

    const CODE: u64 = 0x1000;

    #[track_caller]
    fn check(code: &[u8], expected: Option<u64>) {
        let mut code = code.to_vec();
        code.resize(64, 0x90);
        // What a slot at 0x1020 holds: 0x48 below the base, as a number of 64 bits.
        code[0x20..0x28].copy_from_slice(&(-0x48_i64).to_le_bytes());
        let memory = Fake::of([(CODE, code)]);
        assert_eq!(pointer_offset(&memory, CODE), Ok(expected));
    }

    #[test]
    fn the_offset_is_a_number_in_the_code_or_in_a_slot_of_the_linker() {
        let below = Some((-0x48_i64).cast_unsigned());
        check(&[0x48, 0xc7, 0xc0, 0xb8, 0xff, 0xff, 0xff, 0xc3], below);
        check(&[0x48, 0x8b, 0x05, 0x19, 0, 0, 0, 0xc3], below);
        let marked = [
            0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0x05, 0x15, 0, 0, 0, 0xc3,
        ];
        check(&marked, below);
    }

    #[test]
    fn other_code_is_not_guessed_at() {
        // musl: xor %eax, %eax; ret
        check(&[0x31, 0xc0, 0xc3], None);
        check(&[0x48, 0xc7, 0xc0, 0, 0, 0, 0, 0xc3], None);
        check(&[0x48, 0xc7, 0xc0, 0xb8, 0xff, 0xff, 0xff, 0x90], None);
    }

    #[test]
    fn a_thread_has_its_groups_behind_its_pointer_or_none() {
        let mut words = Words::default();
        words.put(0x100, 0x9000);
        words.put(0x108, 0);
        words.put(0x200, 0x40);
        words.put(0x208, 0xa40);
        let memory = words.memory();
        let places = in_storage(&memory, 0x100, 0x200, 0x208)
            .expect("it can be read")
            .expect("a thread of PHP");
        assert_eq!((places.executor.at, places.sapi.at), (0x9040, 0x9a40));
        assert_eq!(in_storage(&memory, 0x108, 0x200, 0x208), Ok(None));
    }

    #[test]
    fn a_thread_of_the_same_process_is_refused_with_what_is_needed() {
        let (told, asked) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = thread::spawn(move || {
            told.send(rustix::thread::gettid()).expect("it listens");
            let _ = ended.recv();
        });
        let thread = asked.recv().expect("a number");
        let thread = u32::try_from(thread.as_raw_nonzero().get()).expect("positive");
        let why = storage(thread).expect_err("the kernel refuses a thread of the same process");
        assert_eq!(why.raw_os_error(), Some(libc::EPERM));
        assert!(refused(thread, &why).to_string().contains("CAP_SYS_PTRACE"));
        drop(end);
        other.join().expect("it ends");
    }

    /// A process that waits for a child it shares its memory with (vfork) does not stop for a tracer, which gives up. When
    /// it could stop, nobody asks it to any more.
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a process is needed that cannot stop"
    )]
    fn one_that_could_not_stop_in_time_is_left_alone() {
        // clone(CLONE_VFORK | SIGCHLD): the child has a memory of its own, and the parent waits all the same.
        let number = if cfg!(target_arch = "x86_64") {
            56
        } else {
            220
        };
        let script = format!(
            "$| = 1; print 1; if (syscall({number}, 0x4011, 0, 0, 0, 0) == 0) {{ sleep 3; exit }} sleep 60"
        );
        let mut child = std::process::Command::new("perl")
            .args(["-e", &script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("perl, of which every Debian has the base");
        let mut byte = [0];
        let said = child.stdout.as_mut().expect("a pipe");
        io::Read::read_exact(said, &mut byte).expect("it has begun");
        let state = || kneepoint_linux::Stat::of(child.id()).map(|stat| stat.state);
        while state() != Some(b'D') {
            thread::yield_now();
        }
        let asked = storage(child.id());
        let refused = asked.is_err();
        while state() == Some(b'D') {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(100));
        let (state, tracer) = (state(), kneepoint_linux::process::tracer_of(child.id()));
        child.kill().expect("our own child");
        child.wait().expect("our own child");
        assert!(refused, "{asked:?}");
        assert_eq!((state, tracer), (Some(b'S'), None));
    }

    proptest! {
        #[test]
        fn no_code_panics(code in proptest::collection::vec(any::<u8>(), 0..64)) {
            let memory = Fake::of([(CODE, code)]);
            let _ = pointer_offset(&memory, CODE);
        }
    }
}
