//! The wordings of the servers' logs, and what each means (catalogue section 2).

use kneepoint_model::{LogFormat, LogKind};

/// A wording: every part must occur, in any order.
type Wording = (&'static [&'static str], LogKind);

/// What a log line means; `None` when it means nothing to the diagnosis.
///
/// Only what the server itself wrote is looked at: nginx quotes the client's request at the end of a line, and
/// that part is not searched.
#[must_use]
pub fn classify(format: LogFormat, line: &str) -> Option<LogKind> {
    let line = match format {
        LogFormat::NginxError => line.split(", client: ").next().unwrap_or(line),
        _ => line,
    };
    let lists: &[&[Wording]] = match format {
        LogFormat::NginxError if line.contains("FastCGI sent in stderr") => &[PHP],
        LogFormat::NginxError => &[NGINX, SYSTEM],
        LogFormat::FpmError if is_script_message(line) => &[PHP],
        LogFormat::FpmError if is_meant(line) => &[],
        LogFormat::FpmError => &[FPM, SYSTEM],
        LogFormat::PhpError => &[PHP],
        LogFormat::Postgresql => &[POSTGRESQL, SYSTEM],
        LogFormat::Pgbouncer => &[PGBOUNCER, SYSTEM],
        LogFormat::Redis => &[REDIS, SYSTEM],
        LogFormat::Mariadb => &[MARIADB, SYSTEM],
        LogFormat::Apache if is_of_php(line) || is_last_word(line) => &[PHP],
        LogFormat::Apache => &[APACHE, SYSTEM],
    };
    lists
        .iter()
        .copied()
        .flatten()
        .find(|(parts, _)| parts.iter().all(|part| line.contains(part)))
        .map(|(_, kind)| *kind)
}

/// FPM writes what its workers print on standard error into its own log.
fn is_script_message(line: &str) -> bool {
    line.contains("said into std") || line.contains("PHP message: ")
}

/// PHP in Apache writes into its log under a name of its own, or none (PHP 5); that of PHP-FPM is quoted by mod_proxy_fcgi.
fn is_of_php(line: &str) -> bool {
    let module = line.split_once("] [").map_or("", |(_, rest)| rest);
    let quotes = module.starts_with("proxy_fcgi:") && line.contains("PHP message: ");
    module.starts_with("php") || module.starts_with(":error]") || quotes
}

/// PHP prints it as it ends, with nothing before it: modules of Apache quote paths that visitors make up.
fn is_last_word(line: &str) -> bool {
    line.trim_start().starts_with("zend_mm_heap corrupted")
}

/// FPM says at this level that a child ended which it ended itself, as all do when it is told to end: fpm_children.c.
fn is_meant(line: &str) -> bool {
    line.contains("] DEBUG: ") && line.contains(" exited on signal ")
}

// In each list the more telling wording comes first.

const SYSTEM: &[Wording] = &[
    (&["Out of memory: Killed process"], LogKind::OutOfMemory),
    (&["Too many open files"], LogKind::NoFileDescriptors),
];

const FPM: &[Wording] = &[
    (&["max_children setting ("], LogKind::PoolExhausted),
    (
        &["the maximum number of processes has been reached"],
        LogKind::PoolExhausted,
    ),
    (&["seems busy", "spawning"], LogKind::PoolBusySpawning),
    (&["executing too slow ("], LogKind::RequestSlow),
    (
        &["execution timed out (", "terminating"],
        LogKind::RequestTerminated,
    ),
    (
        &["child ", " exited with code 0 after "],
        LogKind::WorkerRecycled,
    ),
    // SIGTERM and SIGQUIT are not here: with them FPM itself ends a child, and another line says why.
    (
        &["child ", " exited on signal ", "(SIGKILL"],
        LogKind::WorkerCrashed,
    ),
    (
        &["child ", " exited on signal ", "(SIGSEGV"],
        LogKind::WorkerCrashed,
    ),
    (
        &["child ", " exited on signal ", "(SIGABRT"],
        LogKind::WorkerCrashed,
    ),
    (
        &["child ", " exited on signal ", "(SIGBUS"],
        LogKind::WorkerCrashed,
    ),
    (
        &["child ", " exited on signal ", "(SIGILL"],
        LogKind::WorkerCrashed,
    ),
    (
        &["child ", " exited on signal ", "(SIGFPE"],
        LogKind::WorkerCrashed,
    ),
    (
        &["child ", " exited on signal ", "(SIGSYS"],
        LogKind::WorkerCrashed,
    ),
    (&["child ", " started"], LogKind::WorkerStarted),
    (&["reloading: execvp"], LogKind::Reloaded),
];

const NGINX: &[Wording] = &[
    (&["limiting requests, excess"], LogKind::RateLimited),
    (&["limiting connections by zone"], LogKind::RateLimited),
    (
        &["upstream response is buffered to a temporary file"],
        LogKind::BufferedToFile,
    ),
    (
        &["worker_connections are not enough"],
        LogKind::NoConnectionSlots,
    ),
    (&["no live upstreams"], LogKind::NoLiveUpstreams),
    (&["upstream sent too big header"], LogKind::HeaderTooBig),
    (&["(24: "], LogKind::NoFileDescriptors),
    (&["(99: "], LogKind::NoLocalPort),
    (&["(11: ", "connect() to "], LogKind::UpstreamQueueFull),
    (
        &["(110: ", "while connecting to upstream"],
        LogKind::UpstreamConnectTimeout,
    ),
    (&["upstream timed out (110: "], LogKind::UpstreamReadTimeout),
    (
        &["(111: ", "while connecting to upstream"],
        LogKind::UpstreamRefused,
    ),
    (
        &["(2: ", "while connecting to upstream"],
        LogKind::UpstreamRefused,
    ),
    (&["upstream prematurely closed"], LogKind::UpstreamReset),
    (&["(104: ", "upstream"], LogKind::UpstreamReset),
    (
        &["(32: ", "while sending request to upstream"],
        LogKind::UpstreamReset,
    ),
    (
        &["worker process ", " exited on signal "],
        LogKind::WorkerCrashed,
    ),
    (
        &["signal 1 (SIGHUP) received", "reconfiguring"],
        LogKind::Reloaded,
    ),
];

const PHP: &[Wording] = &[
    (&["zend_mm_heap corrupted"], LogKind::HeapCorrupted),
    // The cause that an exception names says more than that there was one.
    (&["too many clients already"], LogKind::TooManyDbClients),
    (
        &["remaining connection slots are reserved"],
        LogKind::TooManyDbClients,
    ),
    (&["too many connections for "], LogKind::TooManyDbClients),
    (&["Too many connections"], LogKind::TooManyDbClients),
    (
        &["max number of clients reached"],
        LogKind::TooManyCacheClients,
    ),
    (&["server has gone away"], LogKind::KeptConnectionLost),
    (
        &["SSL connection has been closed unexpectedly"],
        LogKind::KeptConnectionLost,
    ),
    (
        &["server closed the connection unexpectedly"],
        LogKind::KeptConnectionLost,
    ),
    // Older versions of PhpRedis do not say which server.
    (&["Redis server ", "went away"], LogKind::KeptConnectionLost),
    (&["Cannot assign requested address"], LogKind::NoLocalPort),
    (&["Too many open files"], LogKind::NoFileDescriptors),
    (&["PHP Fatal error: "], LogKind::PhpFatal),
    (&["PHP Parse error: "], LogKind::PhpFatal),
    (&["PHP Recoverable fatal error: "], LogKind::PhpFatal),
    (&["PHP Core error: "], LogKind::PhpFatal),
    (&["PHP Compile error: "], LogKind::PhpFatal),
    (&["PHP Warning: "], LogKind::PhpWarning),
    (&["PHP Notice: "], LogKind::PhpWarning),
    (&["PHP Deprecated: "], LogKind::PhpWarning),
    (&["PHP Strict Standards: "], LogKind::PhpWarning),
    (&["PHP Core Warning: "], LogKind::PhpWarning),
    (&["PHP Compile Warning: "], LogKind::PhpWarning),
];

const POSTGRESQL: &[Wording] = &[
    (
        &["FATAL: ", "too many clients already"],
        LogKind::TooManyDbClients,
    ),
    (
        &["FATAL: ", "remaining connection slots are reserved"],
        LogKind::TooManyDbClients,
    ),
    (
        &["FATAL: ", "too many connections for "],
        LogKind::TooManyDbClients,
    ),
    (
        &["server process (PID ", "was terminated by signal "],
        LogKind::WorkerCrashed,
    ),
    (
        &["canceling statement due to statement timeout"],
        LogKind::RequestTerminated,
    ),
    (&["LOG: ", "duration: "], LogKind::RequestSlow),
    (&["received SIGHUP, reloading"], LogKind::Reloaded),
];

// Older versions write `Pooler Error: `. That the connection is closed for it is a line of its own, which does not count.
const PGBOUNCER: &[Wording] = &[
    (&["rror: no more connections"], LogKind::TooManyDbClients),
    (&["rror: query_wait_timeout"], LogKind::PoolerTimeout),
];

const REDIS: &[Wording] = &[
    (
        &["max number of clients reached"],
        LogKind::TooManyCacheClients,
    ),
    (&["crashed by signal"], LogKind::WorkerCrashed),
];

const MARIADB: &[Wording] = &[
    (&["Too many connections"], LogKind::TooManyDbClients),
    (&["mysqld got signal "], LogKind::WorkerCrashed),
    (&["mariadbd got signal "], LogKind::WorkerCrashed),
];

const APACHE: &[Wording] = &[
    (
        &["server reached MaxRequestWorkers setting"],
        LogKind::PoolExhausted,
    ),
    (
        &["server seems busy", "spawning"],
        LogKind::PoolBusySpawning,
    ),
    (&["child pid ", " exit signal "], LogKind::WorkerCrashed),
];

#[cfg(test)]
mod tests;
