//! What the check did, by its system calls: it may read, and nothing else.

use std::collections::BTreeSet;

/// Calls that change nothing outside of the program, whatever their arguments.
const HARMLESS: [&str; 90] = [
    "access",
    "arch_prctl",
    "brk",
    "chdir",
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "close",
    "close_range",
    "dup",
    "dup2",
    "dup3",
    "epoll_create1",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_wait",
    "eventfd2",
    "exit",
    "exit_group",
    "faccessat",
    "faccessat2",
    "fchdir",
    "fcntl",
    "fstat",
    "fstatfs",
    "futex",
    "getcwd",
    "getdents64",
    "getegid",
    "geteuid",
    "getgid",
    "getpid",
    "getppid",
    "getpriority",
    "getrandom",
    "getresgid",
    "getresuid",
    "getrlimit",
    "getrusage",
    "getsockname",
    "getsockopt",
    "gettid",
    "gettimeofday",
    "getuid",
    "ioctl",
    "lseek",
    "lstat",
    "madvise",
    "membarrier",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "nanosleep",
    "newfstatat",
    "pipe2",
    "poll",
    "ppoll",
    "prctl",
    "pread64",
    "preadv",
    "prlimit64",
    "process_vm_readv",
    "read",
    "readlink",
    "readlinkat",
    "readv",
    "recvfrom",
    "recvmsg",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_getaffinity",
    "sched_getparam",
    "sched_getscheduler",
    "sched_yield",
    "set_robust_list",
    "set_tid_address",
    "setns",
    "setsockopt",
    "sigaltstack",
    "stat",
    "statfs",
    "statx",
    "sysinfo",
    "times",
    "umask",
    "uname",
];

/// Everything in a trace of strace(1) that is more than reading, each once, as the trace says it. The first `execve` is
/// the program's own start.
pub(super) fn more_than_reading(trace: &str) -> Vec<String> {
    let mut started = false;
    let mut netlink: BTreeSet<String> = BTreeSet::new();
    let mut found = BTreeSet::new();
    for line in trace.lines() {
        let line = line
            .split_once(' ')
            .map_or("", |(_, rest)| rest.trim_start());
        // The rest of a call that was told already, a signal, an end.
        if line.starts_with("<...") {
            // A socket's number may come with the rest.
            if line.starts_with("<... socket resumed>") {
                netlink.extend(result(line));
            }
            continue;
        }
        if line.starts_with("---") || line.starts_with("+++") {
            continue;
        }
        let Some((call, args)) = line.split_once('(') else {
            continue;
        };
        let reads = match call {
            "execve" => !std::mem::replace(&mut started, true),
            "open" | "openat" | "openat2" => opens_to_read(args),
            // A thread, and no process.
            "clone" | "clone3" => args.contains("CLONE_THREAD"),
            "socket" => {
                let is = args.starts_with("AF_NETLINK");
                netlink.extend(result(line).filter(|_| is));
                is
            }
            // A question to the kernel.
            "bind" | "connect" | "sendto" | "sendmsg" => {
                let socket = args.split(',').next().unwrap_or_default();
                netlink.contains(socket) || args.contains("_family=AF_NETLINK")
            }
            // A thread's own view of the file system, before it enters a namespace.
            "unshare" => args.starts_with("CLONE_FS)"),
            "write" | "writev" => args.starts_with("1,") || args.starts_with("2,"),
            call => HARMLESS.contains(&call),
        };
        if !reads {
            found.insert(line.chars().take(160).collect());
        }
    }
    found.into_iter().collect()
}

/// The number that a call gave back.
fn result(line: &str) -> Option<String> {
    let number = line.rsplit_once("= ")?.1;
    number.parse::<u32>().ok().map(|number| number.to_string())
}

fn opens_to_read(args: &str) -> bool {
    let writes = [
        "O_WRONLY",
        "O_RDWR",
        "O_CREAT",
        "O_TRUNC",
        "O_APPEND",
        "O_TMPFILE",
    ];
    // Behind the path, which may hold any word.
    let flags = args.rsplit_once("\", ").map_or(args, |(_, flags)| flags);
    !writes.iter().any(|write| flags.contains(write))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, reads: bool) {
        let trace = format!(
            "7 execve(\"/k\", [\"k\"], 0x1 /* 2 vars */) = 0\n7 {line}\n8 +++ exited with 0 +++\n"
        );
        let found = more_than_reading(&trace);
        assert_eq!(found.is_empty(), reads, "{found:?}");
    }

    #[test]
    fn reading_is_told_from_all_else() {
        check(
            "openat(AT_FDCWD, \"/proc/1/stat\", O_RDONLY|O_CLOEXEC) = 3",
            true,
        );
        check("openat(3, \"O_CREAT\", O_RDONLY|O_CLOEXEC) = 3", true);
        check(
            "openat2(3, \"etc\", {flags=O_RDONLY|O_PATH, resolve=RESOLVE_IN_ROOT}, 24) = 3",
            true,
        );
        check(
            "openat(AT_FDCWD, \"/tmp/x\", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3",
            false,
        );
        check(
            "openat2(3, \"x\", {flags=O_RDWR}, 24 <unfinished ...>",
            false,
        );
        check(
            "socket(AF_NETLINK, SOCK_RAW|SOCK_CLOEXEC, NETLINK_SOCK_DIAG) = 4",
            true,
        );
        check("socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 4", false);
        check(
            "connect(4, {sa_family=AF_UNIX, sun_path=\"/run/php.sock\"}, 16) = 0",
            false,
        );
        check(
            "sendto(4, [{nlmsg_len=72}], 72, 0, {sa_family=AF_NETLINK, nl_pid=0}, 12) = 72",
            true,
        );
        check("sendto(4, \"x\", 1, 0, NULL, 0) = 1", false);
        check(
            "socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG) = 4\n7 sendto(4, [{nlmsg_len=40}], 40, 0, NULL, 0) = 40",
            true,
        );
        check("kill(12, 0) = 0", false);
        check("ptrace(PTRACE_SEIZE, 9) = 0", false);
        check(
            "process_vm_readv(9, [{iov_base=1}], 1, [{}], 1, 0) = 8",
            true,
        );
        check("process_vm_writev(9) = 8", false);
        check("execve(\"/bin/sh\", [\"sh\"], 0x1) = 0", false);
        check(
            "clone3({flags=CLONE_VM|CLONE_THREAD}, 88 <unfinished ...>",
            true,
        );
        check(
            "clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD) = 9",
            false,
        );
        check("write(1, \"{\", 1) = 1", true);
        check("write(5, \"x\", 1) = 1", false);
        check("mkdir(\"/x\", 0777) = 0", false);
        check("<... read resumed>\"\", 8) = 0", true);
        check("--- SIGCHLD {si_signo=SIGCHLD} ---", true);
    }
}
