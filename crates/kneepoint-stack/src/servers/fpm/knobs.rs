//! What can be set of FPM. Defaults are those of the manual.

use crate::knob::{Kind::*, Knob};
pub(super) use crate::php::SPELLING;
use kneepoint_model::Apply::{Reload, Restart};

const WORKERS: crate::knob::Kind = Integer(1, 10_000, "workers");
const DAY_S: u64 = 86_400;

/// The master's settings, `[global]`.
#[rustfmt::skip]
pub(super) const GLOBAL: &[Knob] = &[
    Knob::new("process_control_timeout", Duration(0, DAY_S), "0", Reload, "how long a reload waits for running requests (FPM-15)"),
    Knob::new("process.max", Integer(0, 100_000, "workers"), "0", Reload, "most children of all pools together; 0 is no limit (FPM-22)"),
    Knob::new("emergency_restart_threshold", Integer(0, 10_000, "crashes"), "0", Reload, "crashes within the interval that restart the master; 0 is never (FPM-21)"),
    Knob::new("emergency_restart_interval", Duration(0, DAY_S), "0", Reload, "interval in which crashes are counted (FPM-21)"),
];

/// The pool's settings.
#[rustfmt::skip]
pub(super) const POOL: &[Knob] = &[
    Knob::new("pm", Choice(&["static", "dynamic", "ondemand"]), "", Reload, "when children are forked (FPM-03, FPM-05)"),
    Knob::new("pm.max_children", WORKERS, "", Reload, "most children: requests served at once (FPM-01, FPM-02)"),
    Knob::new("pm.start_servers", WORKERS, "", Reload, "children at the start, when dynamic (FPM-03)"),
    Knob::new("pm.min_spare_servers", WORKERS, "", Reload, "fewest idle children, when dynamic; also the most forked in a second (FPM-03)"),
    Knob::new("pm.max_spare_servers", WORKERS, "", Reload, "most idle children, when dynamic"),
    Knob::new("pm.max_spawn_rate", WORKERS, "32", Reload, "most children forked in a second, when dynamic (FPM-03)"),
    Knob::new("pm.process_idle_timeout", Duration(1, DAY_S), "10s", Reload, "idle children end after this, when ondemand (FPM-05)"),
    Knob::new("pm.max_requests", Integer(0, 1_000_000_000, "requests"), "0", Reload, "a child ends after this many requests; 0 is never (FPM-06)"),
    Knob::new("listen.backlog", Integer(-1, 65_535, "connections"), "511", Restart, "connections that may wait for a child, cut by net.core.somaxconn (FPM-07 to FPM-09)"),
    Knob::new("request_terminate_timeout", Duration(0, DAY_S), "0", Reload, "a request that runs longer is ended; 0 is never (FPM-13, FPM-14)"),
    Knob::new("request_slowlog_timeout", Duration(0, DAY_S), "0", Reload, "a request that runs longer is logged with its stack; 0 is never (FPM-16)"),
    Knob::new("rlimit_files", Integer(64, 1_048_576, "files"), "", Reload, "open files a child may have (FPM-19)"),
    Knob::new("catch_workers_output", Switch("no", "yes"), "no", Reload, "copy what children print into the log (FPM-17)"),
    Knob::new("clear_env", Switch("no", "yes"), "yes", Reload, "start children with an empty environment"),
];

/// Every tunable with the defaults of a PHP version; an empty version is the newest.
pub(super) fn all(php: &str) -> Vec<Knob> {
    [GLOBAL.to_vec(), POOL.to_vec(), crate::php::knobs::all(php)].concat()
}
