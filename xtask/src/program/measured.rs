//! A program run to its end, and what it took: CPU time and memory.

use anyhow::{Context as _, bail};
use kneepoint_linux::process;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often a program that runs is looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a program may clean up once it was asked to end; then it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// What a program did and took.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// User and system time of the process and of those it waited for.
    pub(crate) cpu: Duration,
    /// Largest resident size. Taken from the process while it runs (`VmHWM`): the figure of wait4 is at least what
    /// this program had when it started the other, since exec keeps it.
    pub(crate) peak_memory_bytes: u64,
}

/// Runs a program to its end. `look` sees its process id and the time since its start about ten times a second.
///
/// # Errors
/// It cannot be started, it takes longer than `patience`, or `stop` was set; it is ended then.
pub(crate) fn run(
    command: &mut Command,
    patience: Duration,
    stop: &AtomicBool,
    look: &mut dyn FnMut(Pid, Duration),
) -> anyhow::Result<Measured> {
    let name = command.get_program().to_string_lossy().into_owned();
    let (out, errors) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let child = command
        // A Ctrl-C of the terminal reaches this program alone, which ends the other.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(errors.try_clone()?)
        .spawn()
        .with_context(|| format!("`{name}` cannot be started"))?;
    let began = Instant::now();
    let pid = Pid::from_child(&child);
    let mut peak = 0;
    loop {
        if let Some((status, cpu)) = reap(pid)? {
            return Ok(Measured {
                status,
                stdout: text_of(out)?,
                stderr: text_of(errors)?,
                cpu,
                peak_memory_bytes: peak,
            });
        }
        let elapsed = began.elapsed();
        let stopped = stop.load(Ordering::Relaxed);
        if stopped || elapsed > patience {
            end(pid)?;
            if stopped {
                bail!("interrupted while `{name}` was running");
            }
            bail!(
                "`{name}` did not end within {} s: {}",
                patience.as_secs(),
                text_of(errors)?.trim()
            );
        }
        peak = peak.max(memory_bytes(pid, "VmHWM").unwrap_or(0));
        look(pid, elapsed);
        thread::sleep(LOOK_EVERY);
    }
}

/// Asks a process to end, kills it when it does not, and takes it away.
fn end(pid: Pid) -> io::Result<()> {
    // It may have ended in this very moment: then there is nobody to tell, and the wait below sees it.
    let _ = kill_process(pid, Signal::INT);
    let asked = Instant::now();
    while reap(pid)?.is_none() {
        if asked.elapsed() > GRACE {
            let _ = kill_process(pid, Signal::KILL);
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Takes a process away that has ended: its status and its CPU time. `None` while it runs.
#[expect(
    unsafe_code,
    reason = "neither the standard library nor rustix tells what a child took"
)]
fn reap(pid: Pid) -> io::Result<Option<(ExitStatus, Duration)>> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let pid = pid.as_raw_nonzero().get();
    // SAFETY: both pointers are to live memory of the type the call writes.
    let reaped = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) };
    // SAFETY: a `rusage` is numbers only, for which the zeroes it began with are valid.
    let usage = unsafe { usage.assume_init() };
    match reaped {
        0 => Ok(None),
        -1 => Err(io::Error::last_os_error()),
        _ => {
            let cpu = duration(usage.ru_utime) + duration(usage.ru_stime);
            Ok(Some((ExitStatus::from_raw(status), cpu)))
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec.unsigned_abs())
        + Duration::from_micros(time.tv_usec.unsigned_abs())
}

fn text_of(mut file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A figure of a process's memory in bytes, such as `VmHWM`; `None` when the process is gone.
pub(crate) fn memory_bytes(pid: Pid, field: &str) -> Option<u64> {
    process::memory_bytes(number(pid), field)
}

/// The proportional set size of a process in bytes; `None` when it is gone or the kernel does not tell.
pub(crate) fn pss_bytes(pid: Pid) -> Option<u64> {
    process::pss_bytes(number(pid)).ok()?
}

/// The number of a process, as its directory in `/proc` is named.
pub(crate) fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

/// How many files a process has open; `None` when it is gone.
pub(crate) fn open_files(pid: Pid) -> Option<usize> {
    let files = std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).ok()?;
    Some(files.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str, patience: Duration, stop: bool) -> anyhow::Result<Measured> {
        let stop = AtomicBool::new(stop);
        let mut command = Command::new("/bin/sh");
        run(
            command.args(["-c", script]),
            patience,
            &stop,
            &mut |_, _| {},
        )
    }

    #[test]
    fn a_program_is_run_to_its_end_and_what_it_says_is_kept() {
        let run = shell("echo out; echo err >&2; exit 3", LONG, false).expect("runs");
        assert_eq!(run.status.code(), Some(3));
        assert_eq!(
            (run.stdout.as_str(), run.stderr.as_str()),
            ("out\n", "err\n")
        );
    }

    #[test]
    fn the_cpu_time_is_that_of_the_whole_family() {
        // The shell waits for one that counts: it takes thousands of times what starting it takes.
        let count = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let idle = shell("(:); exit 0", LONG, false).expect("runs").cpu;
        let busy = shell(&format!("({count}); exit 0"), LONG, false).expect("runs");
        assert!(
            busy.cpu > idle * 2,
            "{:?} of a busy child, {idle:?} of an idle one",
            busy.cpu
        );
        assert!(busy.peak_memory_bytes > 0);
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let script = "trap 'exit 0' INT; while :; do sleep 0.05; done";
        let late = shell(script, Duration::from_millis(300), false).expect_err("too late");
        assert!(late.to_string().contains("did not end within"), "{late}");
        let stopped = shell(script, LONG, true).expect_err("interrupted");
        assert!(stopped.to_string().contains("interrupted"), "{stopped}");
    }

    #[test]
    fn figures_of_the_kernel_are_in_bytes() {
        let own = rustix::process::getpid();
        assert!(memory_bytes(own, "VmRSS") > Some(0) && open_files(own) > Some(2));
    }
}
