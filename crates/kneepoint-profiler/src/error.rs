//! Why a process cannot be profiled, with what to do about it.

/// Why a process cannot be profiled.
#[derive(Debug, thiserror::Error)]
pub enum ProfilerError {
    /// There is no such process any more.
    #[error("there is no process {pid}")]
    Gone {
        /// The process.
        pid: u32,
    },
    /// The kernel does not let its memory be read.
    #[error("the memory of process {pid} may not be read: {remedy}")]
    Denied {
        /// The process.
        pid: u32,
        /// What to do.
        remedy: String,
    },
    /// It is no PHP.
    #[error(
        "process {pid} is no PHP: neither {program} nor a libphp it has loaded exports PHP's globals (executor_globals). \
         Name a worker or the master of PHP-FPM"
    )]
    NotPhp {
        /// The process.
        pid: u32,
        /// Its program.
        program: String,
    },
    /// It is a thread-safe PHP whose threads do not tell where their globals are.
    #[error(
        "process {pid} runs a thread-safe PHP (ZTS) that does not tell where its threads keep their globals: that is known \
         of PHP 8.0 and later on x86-64 with glibc (a static or Alpine build has musl). PHP without threads (NTS), as \
         PHP-FPM has it, can be profiled"
    )]
    ThreadSafe {
        /// The process.
        pid: u32,
    },
    /// It is a thread of a thread-safe PHP that executes no PHP.
    #[error("none of the threads of process {pid} runs PHP; wait until it serves requests")]
    OtherThread {
        /// The thread, or its process.
        pid: u32,
    },
    /// It is no PHP-FPM, whose requests alone are told apart call by call.
    #[error(
        "process {pid} is no PHP-FPM but `{sapi}`: where one request ends and the next begins is known of FPM only. A \
         profile without --calls works"
    )]
    NotFpm {
        /// The process.
        pid: u32,
        /// Name of its server interface.
        sapi: String,
    },
    /// It cannot be traced.
    #[error("process {pid} cannot be traced: {why}")]
    Untraceable {
        /// The process.
        pid: u32,
        /// Why not, with what to do.
        why: String,
    },
    /// The CPUs cannot be sampled by the kernel.
    #[error("the kernel does not sample the CPUs (perf_event_open: {why}): {remedy}")]
    NoCpuClock {
        /// What it answered.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// It is a debug build, whose structures are larger.
    #[error(
        "process {pid} runs a debug build of PHP {version}, which lays out its memory in another way: use a release build"
    )]
    DebugBuild {
        /// The process.
        pid: u32,
        /// What it calls itself.
        version: String,
    },
    /// Its memory layout is not known.
    #[error(
        "process {pid} runs PHP {version} (zend_api {zend_api}), whose memory layout is not known; known are {known}"
    )]
    UnknownPhp {
        /// The process.
        pid: u32,
        /// What it calls itself.
        version: String,
        /// Number of its module interface.
        zend_api: u32,
        /// The minors there are layouts for.
        known: String,
    },
    /// A field does not hold what it must hold.
    #[error(
        "the memory of process {pid} is not laid out as PHP {version} does it: {field} is {found}, expected {expected}"
    )]
    Layout {
        /// The process.
        pid: u32,
        /// The PHP whose layout was tried.
        version: String,
        /// The field that looks wrong.
        field: &'static str,
        /// What it held.
        found: String,
        /// What it should have held.
        expected: &'static str,
    },
    /// A program or library could not be read.
    #[error("{path} of process {pid} cannot be read: {why}")]
    Program {
        /// The process.
        pid: u32,
        /// The file.
        path: String,
        /// Why not.
        why: String,
    },
}

impl ProfilerError {
    /// That the kernel refused, with what stands in the way on this machine.
    pub(crate) fn denied(pid: u32) -> Self {
        let yama =
            std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
        Self::Denied {
            pid,
            remedy: remedy(yama.trim()),
        }
    }
}

/// What to do, given `kernel.yama.ptrace_scope` (empty where Yama is absent).
fn remedy(ptrace_scope: &str) -> String {
    let mut text = "run kneepoint as root, or give it CAP_SYS_PTRACE (setcap cap_sys_ptrace+ep, or --cap-add SYS_PTRACE for its \
                    container)"
        .to_owned();
    match ptrace_scope {
        "" | "0" => text.push_str(
            "; as the same user, the pool needs `process.dumpable = yes`, because a worker that changed its user is not dumpable",
        ),
        "3" => text.push_str("; kernel.yama.ptrace_scope is 3, which forbids it to everybody until the next boot"),
        scope => text.push_str(&format!(
            "; kernel.yama.ptrace_scope is {scope}, which forbids it without that capability"
        )),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_names_what_stands_in_the_way() {
        for (scope, word) in [
            ("", "process.dumpable"),
            ("0", "process.dumpable"),
            ("1", "ptrace_scope is 1"),
            ("3", "until the next boot"),
        ] {
            let text = remedy(scope);
            assert!(
                text.contains("CAP_SYS_PTRACE") && text.contains(word),
                "{text}"
            );
        }
    }
}
