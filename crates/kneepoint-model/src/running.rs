//! A tier that runs: what telemetry needs to look at it.

use crate::{Address, Layer, ServerKind};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where the control group of a host is accounted. Absent without root or without cgroups.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CgroupPaths {
    /// Directory with `cpu.stat` (v1 `cpu` hierarchy, or the v2 group).
    pub cpu: Option<PathBuf>,
    /// Directory with `cpuacct.usage` (v1 only; in v2 it is in `cpu.stat`).
    pub cpuacct: Option<PathBuf>,
    /// Directory with the memory counters.
    pub memory: Option<PathBuf>,
}

/// Something that answers questions about a running tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Endpoint {
    /// nginx `stub_status` over HTTP.
    NginxStub {
        /// Listener to connect to.
        address: Address,
        /// Request path.
        path: String,
    },
    /// FPM's status page over FastCGI, on its own listener so that it answers at saturation.
    FpmStatus {
        /// The listener (`pm.status_listen`).
        address: Address,
        /// The status path (`pm.status_path`).
        path: String,
    },
    /// A PHP script that runs inside the runtime and prints JSON about it (OPcache, ini values, extensions).
    PhpProbe {
        /// FastCGI listener of the pool that runs it.
        address: Address,
        /// Absolute path of the script.
        script: PathBuf,
    },
    /// The same script as a page that the runtime itself serves by HTTP.
    PhpPage {
        /// Listener to connect to.
        address: Address,
        /// Its path.
        path: String,
    },
    /// Redis protocol.
    Redis {
        /// Listener to connect to.
        address: Address,
    },
    /// PostgreSQL protocol.
    Postgresql {
        /// Listener to connect to: the directory of the Unix socket, or TCP.
        address: Address,
        /// TCP port number (it names the Unix socket too).
        port: u16,
        /// User to log in as.
        user: String,
        /// Database to log in to.
        database: String,
    },
    /// Protocol of MariaDB and MySQL.
    Mysql {
        /// Listener to connect to.
        address: Address,
        /// User to log in as, without a password.
        user: String,
    },
}

/// The grammar of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// nginx error log.
    NginxError,
    /// FPM's `error_log` (master process notices and warnings).
    FpmError,
    /// PHP's own `error_log` (messages of scripts).
    PhpError,
    /// PostgreSQL's server log on standard error.
    Postgresql,
    /// Redis' log.
    Redis,
    /// The error log of MariaDB.
    Mariadb,
    /// Apache's error log.
    Apache,
}

/// Which processes of a runtime serve requests, one at a time each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workers {
    /// Children of the first process whose title names the application's pool of PHP-FPM.
    FpmPool,
    /// All children of the first process.
    Children,
}

/// A log file of a running tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSource {
    /// Path of the file.
    pub path: PathBuf,
    /// Its grammar.
    pub format: LogFormat,
}

/// A tier that runs, with every door telemetry may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningTier {
    /// Where in the chain.
    pub layer: Layer,
    /// What program.
    pub server: ServerKind,
    /// The first process of the tier (nginx or FPM master, postmaster); its descendants are the tier.
    pub pid: u32,
    /// The network namespace as a path to open (`/proc/PID/fd/N`); `None` when it shares ours.
    pub netns: Option<PathBuf>,
    /// Control group of its host.
    pub cgroup: CgroupPaths,
    /// Where it listens for requests (the accept queue to watch).
    pub listen: Vec<Address>,
    /// Addresses of the tiers it connects to, by layer (the peers whose ports and TIME_WAIT to count).
    pub peers: Vec<(Layer, Address)>,
    /// What answers questions about it.
    pub endpoints: Vec<Endpoint>,
    /// What it writes.
    pub logs: Vec<LogSource>,
    /// Its workers; `None` when it is no PHP runtime.
    pub workers: Option<Workers>,
}
