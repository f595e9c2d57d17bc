use super::*;
use proptest::prelude::*;

fn check(format: LogFormat, cases: &[(&str, Option<LogKind>)]) {
    for (line, kind) in cases {
        assert_eq!(classify(format, line), *kind, "{line}");
    }
}

#[test]
fn fpm() {
    use LogKind::*;
    check(
        LogFormat::FpmError,
        &[
            (
                "[20-Nov-2026 22:00:00] WARNING: [pool www] server reached pm.max_children setting (2), consider raising it",
                Some(PoolExhausted),
            ),
            (
                "[20-Nov-2026 22:00:00] WARNING: [pool www] server reached max_children setting (5), consider raising it",
                Some(PoolExhausted),
            ),
            (
                "[20-Nov-2026 22:00:00] WARNING: [pool www] seems busy (you may need to increase pm.start_servers, or pm.min/max_spare_servers), spawning 8 children, there are 0 idle, and 12 total children",
                Some(PoolBusySpawning),
            ),
            (
                "[20-Nov-2026 22:00:00] NOTICE: [pool www] child 4243 started",
                Some(WorkerStarted),
            ),
            (
                "[20-Nov-2026 22:00:00] NOTICE: [pool www] child 4242 exited with code 0 after 12.301204 seconds from start",
                Some(WorkerRecycled),
            ),
            (
                "[20-Nov-2026 22:00:00] WARNING: [pool www] child 7 exited on signal 9 (SIGKILL) after 3.0 seconds from start",
                Some(WorkerCrashed),
            ),
            (
                "[20-Nov-2026 22:00:00] WARNING: [pool www] child 7 exited on signal 11 (SIGSEGV - core dumped) after 3.0 seconds from start",
                Some(WorkerCrashed),
            ),
            (
                "[20-Nov-2026 22:00:00.1] DEBUG: pid 1, fpm_children_bury(), line 261: [pool www] child 7 exited on signal 9 (SIGKILL) after 3.0 seconds from start",
                None,
            ),
            (
                "[20-Nov-2026 22:00:00] WARNING: [pool www] child 7 exited on signal 15 (SIGTERM) after 3.0 seconds from start",
                None,
            ),
            (
                "[20-Nov-2026 22:00:00] WARNING: [pool www] child 7, script '/a.php' (request: \"GET /a.php\") executing too slow (1.104 sec), logging",
                Some(RequestSlow),
            ),
            (
                "[20-Nov-2026 22:00:00] WARNING: [pool www] child 7, script '' (request: \" \") execution timed out (4.1 sec), terminating",
                Some(RequestTerminated),
            ),
            (
                "[20-Nov-2026 22:00:00] NOTICE: reloading: execvp(\"/usr/sbin/php-fpm8.2\", {\"/usr/sbin/php-fpm8.2\"})",
                Some(Reloaded),
            ),
            (
                "[20-Nov-2026 22:00:00] WARNING: [pool www] child 7 said into stderr: \"NOTICE: PHP message: PHP Warning:  Undefined variable $x in /a.php on line 2\"",
                Some(PhpWarning),
            ),
            (
                "[20-Nov-2026 22:00:00] NOTICE: fpm is running, pid 4100",
                None,
            ),
            (
                "[20-Nov-2026 22:00:00] NOTICE: ready to handle connections",
                None,
            ),
        ],
    );
}

/// How nginx ends a line: with what the client sent, which may say anything.
const TAIL: &str = ", client: 10.0.0.1, server: , request: \"GET /(111:%20worker_connections are not enough HTTP/1.1\", upstream: \"fastcgi://unix:/run/php.sock:\", host: \"h\"";

/// What stands between the start of a line of nginx and its tail.
const NGINX_LINES: &[(&str, LogKind)] = &[
    (
        "connect() to unix:/run/php.sock failed (11: Resource temporarily unavailable) while connecting to upstream",
        LogKind::UpstreamQueueFull,
    ),
    (
        "upstream timed out (110: Connection timed out) while connecting to upstream",
        LogKind::UpstreamConnectTimeout,
    ),
    (
        "connect() failed (110: Connection timed out) while connecting to upstream",
        LogKind::UpstreamConnectTimeout,
    ),
    (
        "upstream timed out (110: Connection timed out) while reading response header from upstream",
        LogKind::UpstreamReadTimeout,
    ),
    (
        "upstream timed out (110: Connection timed out) while reading upstream",
        LogKind::UpstreamReadTimeout,
    ),
    (
        "connect() failed (111: Connection refused) while connecting to upstream",
        LogKind::UpstreamRefused,
    ),
    (
        "connect() to unix:/run/php.sock failed (2: No such file or directory) while connecting to upstream",
        LogKind::UpstreamRefused,
    ),
    (
        "recv() failed (104: Connection reset by peer) while reading response header from upstream",
        LogKind::UpstreamReset,
    ),
    (
        "upstream prematurely closed connection while reading response header from upstream",
        LogKind::UpstreamReset,
    ),
    (
        "connect() to 10.0.0.2:80 failed (99: Cannot assign requested address) while connecting to upstream",
        LogKind::NoLocalPort,
    ),
    (
        "upstream sent too big header while reading response header from upstream",
        LogKind::HeaderTooBig,
    ),
    (
        "an upstream response is buffered to a temporary file /var/lib/nginx/fastcgi/1/00/0000000001 while reading upstream",
        LogKind::BufferedToFile,
    ),
    (
        "1024 worker_connections are not enough while connecting to upstream",
        LogKind::NoConnectionSlots,
    ),
    (
        "no live upstreams while connecting to upstream",
        LogKind::NoLiveUpstreams,
    ),
    (
        "limiting requests, excess: 5.600 by zone \"one\"",
        LogKind::RateLimited,
    ),
    (
        "FastCGI sent in stderr: \"PHP message: PHP Fatal error:  Uncaught Exception: x in /a.php:2\" while reading response header from upstream",
        LogKind::PhpFatal,
    ),
    (
        "FastCGI sent in stderr: \"PHP message: PHP Warning:  connect(): (111: x)\" while reading response header from upstream",
        LogKind::PhpWarning,
    ),
];

#[test]
fn nginx() {
    for (text, kind) in NGINX_LINES {
        let line = format!("2026/11/20 22:00:00 [error] 51#51: *7 {text}{TAIL}");
        assert_eq!(
            classify(LogFormat::NginxError, &line),
            Some(*kind),
            "{line}"
        );
    }
}

#[test]
fn nginx_on_itself() {
    use LogKind::*;
    check(
        LogFormat::NginxError,
        &[
            (
                "2026/11/20 22:00:00 [alert] 51#51: 1024 worker_connections are not enough",
                Some(NoConnectionSlots),
            ),
            (
                "2026/11/20 22:00:00 [crit] 51#51: accept4() failed (24: Too many open files)",
                Some(NoFileDescriptors),
            ),
            (
                "2026/11/20 22:00:00 [alert] 50#50: worker process 51 exited on signal 9",
                Some(WorkerCrashed),
            ),
            (
                "2026/11/20 22:00:00 [notice] 50#50: start worker process 51",
                None,
            ),
            (
                "2026/11/20 22:00:00 [warn] 51#51: *3 a client request body is buffered to a temporary file /x",
                None,
            ),
            (
                &format!(
                    "2026/11/20 22:00:00 [error] 51#51: *7 open() \"/x\" failed (2: No such file or directory){TAIL}"
                ),
                None,
            ),
        ],
    );
}

#[test]
fn php() {
    use LogKind::*;
    check(
        LogFormat::PhpError,
        &[
            (
                "[20-Nov-2026 22:00:00 UTC] PHP Fatal error:  Uncaught Exception: boom in /a.php:3",
                Some(PhpFatal),
            ),
            (
                "[20-Nov-2026 22:00:00 UTC] PHP Parse error:  syntax error in /a.php on line 3",
                Some(PhpFatal),
            ),
            (
                "[20-Nov-2026 22:00:00 UTC] PHP Warning:  Undefined variable $x in /a.php on line 2",
                Some(PhpWarning),
            ),
            (
                "[20-Nov-2026 22:00:00 UTC] PHP Fatal error:  Uncaught PDOException: SQLSTATE[08006] [7] connection to server on socket \"/run/pg/.s.PGSQL.5432\" failed: FATAL:  sorry, too many clients already in /a.php:4",
                Some(TooManyDbClients),
            ),
            (
                "[20-Nov-2026 22:00:00 UTC] PHP Fatal error:  Uncaught RedisException: ERR max number of clients reached in /a.php:4",
                Some(TooManyCacheClients),
            ),
            (
                "[20-Nov-2026 22:00:00 UTC] PHP Fatal error:  Uncaught RedisException: Cannot assign requested address in /a.php:4",
                Some(NoLocalPort),
            ),
            (
                "[20-Nov-2026 22:00:00 UTC] PHP Warning:  PDO::query(): MySQL server has gone away in /a.php on line 4",
                Some(KeptConnectionLost),
            ),
            (
                "[20-Nov-2026 22:00:00 UTC] PHP Fatal error:  Uncaught PDOException: SQLSTATE[HY000]: General error: 7 SSL connection has been closed unexpectedly in /a.php:4",
                Some(KeptConnectionLost),
            ),
            (
                "[20-Nov-2026 22:00:00 UTC] PHP Fatal error:  Uncaught RedisException: Redis server cache:6379 went away in /a.php:4",
                Some(KeptConnectionLost),
            ),
            (
                "[20-Nov-2026 22:00:00 UTC] PHP Warning:  Redis server went away in /a.php on line 4",
                Some(KeptConnectionLost),
            ),
            ("Stack trace:", None),
        ],
    );
}

#[test]
fn postgresql_and_redis() {
    use LogKind::*;
    check(
        LogFormat::Postgresql,
        &[
            (
                "2026-11-20 22:00:00.123 UTC [77] FATAL:  sorry, too many clients already",
                Some(TooManyDbClients),
            ),
            (
                "2026-11-20 22:00:00.123 UTC [77] FATAL:  remaining connection slots are reserved for non-replication superuser connections",
                Some(TooManyDbClients),
            ),
            (
                "2026-11-20 22:00:00.123 UTC [70] LOG:  server process (PID 77) was terminated by signal 9: Killed",
                Some(WorkerCrashed),
            ),
            (
                "2026-11-20 22:00:00.123 UTC [70] LOG:  received SIGHUP, reloading configuration files",
                Some(Reloaded),
            ),
            (
                "2026-11-20 22:00:00.123 UTC [77] LOG:  duration: 1204.113 ms  statement: SELECT 1",
                Some(RequestSlow),
            ),
            (
                "2026-11-20 22:00:00.123 UTC [70] LOG:  database system is ready to accept connections",
                None,
            ),
        ],
    );
    check(
        LogFormat::Redis,
        &[
            (
                "91:M 20 Nov 2026 22:00:00.000 # Accepting client connection: accept: Too many open files",
                Some(NoFileDescriptors),
            ),
            (
                "91:M 20 Nov 2026 22:00:00.000 # Redis 7.0.15 crashed by signal: 11, si_code: 0",
                Some(WorkerCrashed),
            ),
            (
                "91:M 20 Nov 2026 22:00:00.000 * Ready to accept connections",
                None,
            ),
        ],
    );
}

#[test]
fn pgbouncer() {
    use LogKind::*;
    const CLIENT: &str = "2026-11-20 22:00:00.123 UTC [77] WARNING C-0x55: shop/app@127.0.0.1:5";
    check(
        LogFormat::Pgbouncer,
        &[
            (
                &format!("{CLIENT} pooler error: query_wait_timeout"),
                Some(PoolerTimeout),
            ),
            (
                &format!("{CLIENT} Pooler Error: no more connections allowed (max_client_conn)"),
                Some(TooManyDbClients),
            ),
            (
                &format!("{CLIENT} closing because: query_wait_timeout (age=120s)"),
                None,
            ),
            (
                &format!("{CLIENT} login attempt: db=shop user=app tls=no"),
                None,
            ),
        ],
    );
}

#[test]
fn mariadb() {
    use LogKind::*;
    check(
        LogFormat::Mariadb,
        &[
            (
                "2026-11-20 22:00:00 12 [Warning] Too many connections",
                Some(TooManyDbClients),
            ),
            (
                "261120 22:00:00 [ERROR] mysqld got signal 11 ;",
                Some(WorkerCrashed),
            ),
            (
                "2026-11-20 22:00:00 0 [ERROR] Error in accept: Too many open files",
                Some(NoFileDescriptors),
            ),
            (
                "2026-11-20 22:00:00 0 [Note] /usr/sbin/mariadbd: ready for connections.",
                None,
            ),
        ],
    );
}

#[test]
fn apache() {
    use LogKind::*;
    check(
        LogFormat::Apache,
        &[
            (
                "[Fri Nov 20 22:00:00.000000 2026] [mpm_prefork:error] [pid 7] AH00161: server reached MaxRequestWorkers setting, consider raising the MaxRequestWorkers setting",
                Some(PoolExhausted),
            ),
            (
                "[Fri Nov 20 22:00:00.000000 2026] [mpm_prefork:info] [pid 7] AH00162: server seems busy, (you may need to increase StartServers, or Min/MaxSpareServers), spawning 8 children, there are 0 idle, and 9 total children",
                Some(PoolBusySpawning),
            ),
            (
                "[Fri Nov 20 22:00:00.000000 2026] [core:notice] [pid 7] AH00052: child pid 9 exit signal Segmentation fault (11)",
                Some(WorkerCrashed),
            ),
            (
                "[Fri Nov 20 22:00:00.000000 2026] [mpm_prefork:notice] [pid 7] AH00163: Apache/2.4.62 (Debian) configured -- resuming normal operations",
                None,
            ),
            (
                "[Fri Nov 20 22:00:00.000000 2026] [php:error] [pid 7] [client 10.0.0.1:5] PHP Fatal error:  Uncaught Error: x in /a.php:3",
                Some(PhpFatal),
            ),
            (
                "[Fri Nov 20 22:00:00.000000 2026] [proxy_fcgi:error] [pid 7] [client 10.0.0.1:5] AH01071: Got error 'PHP message: PHP Fatal error:  x'",
                Some(PhpFatal),
            ),
            (
                "[Fri Nov 20 22:00:00.000000 2026] [core:info] [pid 7] [client 10.0.0.1:5] AH00128: File does not exist: /srv/PHP Fatal error: x",
                None,
            ),
        ],
    );
}

#[test]
fn a_corrupted_heap_is_told_wherever_php_prints_it() {
    let caught = "[20-Nov-2026 22:00:00] WARNING: [pool www] child 7 said into stderr: \"zend_mm_heap corrupted\"";
    let corrupted = Some(LogKind::HeapCorrupted);
    check(LogFormat::FpmError, &[(caught, corrupted)]);
    for format in [LogFormat::PhpError, LogFormat::Apache] {
        check(format, &[("zend_mm_heap corrupted", corrupted)]);
    }
    let asked = "[Fri Nov 20 22:00:00.000000 2026] [core:error] [pid 7] (13)Permission denied: [client 10.0.0.1:5] AH00035: access to /zend_mm_heap corrupted denied (filesystem path '/srv/a')";
    check(LogFormat::Apache, &[(asked, None)]);
}

proptest! {
    #[test]
    fn no_line_panics(line in any::<String>()) {
        for format in [LogFormat::NginxError, LogFormat::FpmError, LogFormat::PhpError, LogFormat::Postgresql, LogFormat::Pgbouncer, LogFormat::Redis, LogFormat::Mariadb, LogFormat::Apache] {
            let _ = classify(format, &line);
        }
    }
}
