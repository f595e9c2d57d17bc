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
    /// A page of a runtime with numbers about itself, by HTTP.
    Numbers {
        /// Listener to connect to.
        address: Address,
        /// Request path.
        path: String,
        /// What is taken from it.
        sums: Vec<Sum>,
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
        /// User to log in as.
        user: String,
        /// The user's password; it is the lab's own and gone with it.
        password: String,
    },
}

/// A metric of ours as a sum of numbers that a runtime tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Name of the metric ([`crate::evidence::metric::STANDARD`]).
    pub metric: String,
    /// What is added up: a factor, and where the number stands: a JSON pointer (`/requests/active`) where the page is
    /// JSON, the name of a sample where it is Prometheus' text (all its labels together; one that is not there is 0, where
    /// another of the sum is).
    pub terms: Vec<(i8, String)>,
}

impl Sum {
    /// A metric as a sum.
    #[must_use]
    pub fn new(metric: crate::Metric, terms: &[(i8, &str)]) -> Self {
        let owned = |(factor, name): &(i8, &str)| (*factor, (*name).to_owned());
        Self {
            metric: metric.name.to_owned(),
            terms: terms.iter().map(owned).collect(),
        }
    }
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
    /// PgBouncer's log.
    Pgbouncer,
    /// Redis' log.
    Redis,
    /// The error log of MariaDB.
    Mariadb,
    /// Apache's error log.
    Apache,
}

/// Which processes or threads of a runtime serve requests, one at a time each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workers {
    /// Children of the first process whose title names the application's pool of PHP-FPM.
    FpmPool,
    /// Children of the first process, and theirs.
    Processes {
        /// How their titles begin; empty is any.
        title: String,
        /// In which calls they wait for the next request, in the words of `workers.waiting`.
        idle: Vec<String>,
    },
    /// Threads of the first process.
    Threads {
        /// How their names begin, before a number.
        name: String,
        /// In which calls they wait for the next request.
        idle: Vec<String>,
    },
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
    /// Doubles it may connect to, each with its name: `api.example.org:80`.
    #[serde(default)]
    pub doubles: Vec<(String, Address)>,
    /// Jobs that run on its host beside the requests, each with its name and its first process.
    #[serde(default)]
    pub jobs: Vec<(String, u32)>,
    /// What answers questions about it.
    pub endpoints: Vec<Endpoint>,
    /// What it writes.
    pub logs: Vec<LogSource>,
    /// Its workers; `None` when it is no PHP runtime.
    pub workers: Option<Workers>,
}

impl RunningTier {
    /// What the tier before PHP is called as the peer of a worker that asks it for a page, as any visitor would.
    pub const OWN_SITE: &str = "the-site-itself";
}
