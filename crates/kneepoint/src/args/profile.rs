//! Arguments of `kneepoint profile`.

use clap::Args as ClapArgs;
use std::path::PathBuf;

/// What stands below the help.
pub(super) const AFTER_HELP: &str = "\
Examples:
  where the workers of a pool spend the next 10 seconds, or those of a whole PHP-FPM:
    kneepoint profile --pool www
    kneepoint profile --pid \"$(cat /run/php/php-fpm.pid)\"
  a flame graph, and the same for https://www.speedscope.app:
    kneepoint profile --pid 4711 --svg flame.svg --speedscope profile.json
  stacks and counts for any other tool, each below its request:
    kneepoint profile --pid 4711 --folded --by-request > stacks.txt
  what each request does: files opened, queries, requests to others, with the lines of code:
    kneepoint profile --pid 4711 --calls

A sample is wall time: a function that waits is seen as often as one that computes, and what it waits for stands below \
it in brackets: [recv 10.0.0.7:6379]. Samples that changed while they were read (salvaged) and those that failed are \
always told.

--calls counts every system call of whole requests, exactly, and says nothing of time: the workers stand still at each \
and become several times slower meanwhile. Use it at low load. Values in queries and paths are left out. The tracing is \
done by a second process, which waits for no terminal: if this one or the tracer is stopped or killed (Ctrl-Z, Ctrl-S, a \
lost connection, kill -9), no worker stands still for longer than 2 seconds. Ctrl-Z ends the trace.

It needs root, or CAP_SYS_PTRACE. PHP 7.4 to 8.5; with threads (ZTS: FrankenPHP, mod_php), 8.0 and later on x86-64 with \
glibc, whose threads are stopped once, for 0.1 ms, when they are found.

Exit codes:
  0    a profile was taken, or requests were traced
  1    no worker had a request meanwhile: there is nothing to show
  2    an error: a process that is no PHP, or may not be read
  130  ended by Ctrl-C; what was sampled until then is printed all the same";

/// Arguments of `profile`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ProfileArgs {
    /// A worker, the master of PHP-FPM (then all its workers), or a server that runs PHP in its threads
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// The workers of this pool of PHP-FPM
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
    /// The PHP-FPM in the container with this id, or the beginning of it
    #[arg(long, value_name = "ID", conflicts_with = "pid")]
    pub container: Option<String>,
    /// How long
    #[arg(long, short = 'z', value_name = "TIME", default_value = "10s")]
    pub duration: String,
    /// Samples a second of each worker
    #[arg(long, value_name = "HZ", default_value_t = 99, value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub rate: u32,
    /// Begin each stack with the method and path of its request
    #[arg(long)]
    pub by_request: bool,
    /// Functions in the table
    #[arg(long, value_name = "N", default_value_t = 25)]
    pub top: usize,
    /// Print stacks and counts instead of the table, as flame graph tools read them
    #[arg(long)]
    pub folded: bool,
    /// Write a flame graph to this file (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write a profile for speedscope to this file (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub speedscope: Option<PathBuf>,
    /// Count what each request does instead, call by call: stops the workers at each, for low load only
    #[arg(long, conflicts_with_all = ["rate", "by_request", "top", "folded", "svg", "speedscope"])]
    pub calls: bool,
    /// With --calls, end after this many requests
    #[arg(long, value_name = "N", default_value_t = 30, requires = "calls", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub requests: u64,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
}
