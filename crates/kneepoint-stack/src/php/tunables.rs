//! What can be set of PHP itself, whichever program runs it. Defaults are those of the manual.

use crate::tunable_spec::{Kind::*, TunableSpec, version};
use kneepoint_model::Apply::Reload;

const SWITCH: crate::tunable_spec::Kind = Switch("0", "1");

/// php.ini.
#[rustfmt::skip]
const INI: &[TunableSpec] = &[
    TunableSpec::new("opcache.enable", SWITCH, "1", Reload, "keep compiled scripts in shared memory (OPC-01)"),
    TunableSpec::new("opcache.memory_consumption", Integer(8, 65_536, "MiB"), "128", Reload, "shared memory for compiled scripts, in MiB (OPC-03)"),
    TunableSpec::new("opcache.interned_strings_buffer", Integer(0, 4_095, "MiB"), "8", Reload, "of it, for strings, in MiB (OPC-05)"),
    TunableSpec::new("opcache.max_accelerated_files", Integer(200, 1_000_000, "scripts"), "10000", Reload, "most cached scripts, rounded up to a prime (OPC-04)"),
    TunableSpec::new("opcache.max_wasted_percentage", Integer(1, 50, "percent"), "5", Reload, "waste at which a full cache restarts (OPC-12)"),
    TunableSpec::new("opcache.validate_timestamps", SWITCH, "1", Reload, "look whether a script has changed (OPC-06)"),
    TunableSpec::new("opcache.revalidate_freq", Integer(0, 86_400, "seconds"), "2", Reload, "how often to look; 0 is at every request (OPC-06)"),
    TunableSpec::new("opcache.enable_file_override", SWITCH, "0", Reload, "answer file_exists from the cache (APP-04)"),
    TunableSpec::new("opcache.file_cache", Text, "", Reload, "second-level cache on disk; the lab keeps it in its own directory (OPC-08)"),
    TunableSpec::new("opcache.file_cache_only", SWITCH, "0", Reload, "no shared memory at all (OPC-12)"),
    TunableSpec::new("opcache.consistency_checks", Integer(0, 1_000_000, "requests"), "0", Reload, "check cached scripts once in this many requests (OPC-12)"),
    TunableSpec::new("opcache.preload", Text, "", Reload, "script run once at the start to load classes (OPC-11)"),
    TunableSpec::new("opcache.preload_user", Text, "", Reload, "user that runs it (OPC-11)"),
    TunableSpec::new("opcache.jit", Text, "disable", Reload, "just-in-time compiler: disable, off, tracing, function (OPC-10)").or(&["disable", "off", "tracing", "function"]),
    TunableSpec::new("opcache.jit_buffer_size", Bytes(0, 1 << 34), "64M", Reload, "memory for machine code; 0 is no JIT (OPC-10)"),
    TunableSpec::new("realpath_cache_size", Bytes(0, 1 << 30), "4096K", Reload, "memory for resolved paths (OPC-09)"),
    TunableSpec::new("realpath_cache_ttl", Integer(0, 86_400, "seconds"), "120", Reload, "how long resolved paths stay (OPC-09)"),
    TunableSpec::new("open_basedir", Text, "", Reload, "directories PHP may open; set, it turns the realpath cache off (OPC-09)"),
    TunableSpec::new("memory_limit", Bytes(2 << 20, 1 << 40), "128M", Reload, "most memory of one request (FPM-20)").or(&["-1"]),
    TunableSpec::new("max_execution_time", Integer(0, 86_400, "seconds"), "30", Reload, "CPU time of one request; waiting does not count (FPM-13)"),
    TunableSpec::new("default_socket_timeout", Integer(-1, 86_400, "seconds"), "60", Reload, "how long to wait for other servers (APP-05)"),
    TunableSpec::new("display_errors", Text, "1", Reload, "print errors into responses (GEN-04)"),
    TunableSpec::new("log_errors", SWITCH, "1", Reload, "write errors to the log (FPM-18)"),
    TunableSpec::new("error_reporting", Text, "E_ALL", Reload, "which errors"),
    TunableSpec::new("output_buffering", Text, "0", Reload, "bytes of output to hold back"),
    TunableSpec::new("zend.assertions", Integer(-1, 1, ""), "1", Reload, "whether assert() runs"),
    TunableSpec::new("session.save_handler", Text, "files", Reload, "where sessions are kept (SES-01 to SES-03, APP-08)"),
    TunableSpec::new("session.save_path", Text, "", Reload, "where exactly; files stay in the lab's own directory"),
    TunableSpec::new("session.lazy_write", SWITCH, "1", Reload, "write a session only when it changed (SES-01)"),
    TunableSpec::new("session.gc_probability", Integer(0, 1_000_000, ""), "1", Reload, "chance of clearing old sessions within a request (SES-03)"),
    TunableSpec::new("session.gc_divisor", Integer(1, 1_000_000_000, ""), "100", Reload, "once in this many requests (SES-03)"),
    TunableSpec::new("xdebug.mode", Text, "develop", Reload, "what the debugger does, where it is loaded; off is next to nothing (APP-03)"),
    TunableSpec::new("pcov.enabled", SWITCH, "1", Reload, "whether the coverage driver does anything, where it is loaded (APP-03)"),
    TunableSpec::new("redis.session.locking_enabled", SWITCH, "0", Reload, "phpredis locks sessions (SES-02)"),
    TunableSpec::new("redis.session.lock_wait_time", Integer(0, 10_000_000, "microseconds"), "20000", Reload, "between attempts at the lock (SES-02)"),
    TunableSpec::new("redis.session.lock_retries", Integer(-1, 1_000_000_000, "attempts"), "100", Reload, "most attempts at the lock; -1 is without end (SES-02)"),
    TunableSpec::new("redis.pconnect.pooling_enabled", SWITCH, "1", Reload, "phpredis pools persistent connections (RDS-02)"),
    TunableSpec::new("redis.pconnect.echo_check_liveness", SWITCH, "1", Reload, "phpredis asks before it reuses a connection (RDS-03)"),
];

/// Extensions that can be loaded or not: they are `extension.NAME`.
#[rustfmt::skip]
const EXTENSIONS: &[TunableSpec] = &[
    TunableSpec::new("extension.opcache", Switch("off", "on"), "on", Reload, "whether the opcode cache is loaded at all (OPC-01, OPC-02)"),
    TunableSpec::new("extension.redis", Switch("off", "on"), "off", Reload, "whether phpredis is loaded (MYS-04)"),
    TunableSpec::new("extension.xdebug", Switch("off", "on"), "off", Reload, "whether the debugger is loaded (APP-03)"),
    TunableSpec::new("extension.pcov", Switch("off", "on"), "off", Reload, "whether the coverage driver is loaded (APP-03)"),
    TunableSpec::new("extension.xhprof", Switch("off", "on"), "off", Reload, "whether this profiler is loaded (APP-03)"),
    TunableSpec::new("extension.spx", Switch("off", "on"), "off", Reload, "whether this profiler is loaded (APP-03)"),
    TunableSpec::new("extension.blackfire", Switch("off", "on"), "off", Reload, "whether this profiler is loaded (APP-03)"),
    TunableSpec::new("extension.tideways", Switch("off", "on"), "off", Reload, "whether this profiler is loaded (APP-03)"),
    TunableSpec::new("extension.newrelic", Switch("off", "on"), "off", Reload, "whether this monitoring agent is loaded (APP-03)"),
    TunableSpec::new("extension.ddtrace", Switch("off", "on"), "off", Reload, "whether this monitoring agent is loaded (APP-03)"),
];

/// Every tunable of php.ini with the defaults of a PHP version; an empty version is the newest.
pub(crate) fn all(php: &str) -> Vec<TunableSpec> {
    let mut specs = [INI, EXTENSIONS].concat();
    if !php.is_empty() && version(php) < [8, 4, 0] {
        for spec in &mut specs {
            match spec.name {
                "opcache.jit" => spec.default = Some("tracing"),
                "opcache.jit_buffer_size" => spec.default = Some("0"),
                _ => {}
            }
        }
    }
    specs
}
