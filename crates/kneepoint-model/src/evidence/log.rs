//! Events that logs report, by meaning and not by wording.

use crate::Layer;
use serde::{Deserialize, Serialize};

/// What a log line means (catalogue.md section 2). The wording belongs to the telemetry crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogKind {
    /// A worker pool reached its configured size.
    PoolExhausted,
    /// A pool is adding workers because it seems busy.
    PoolBusySpawning,
    /// A worker came up.
    WorkerStarted,
    /// A worker ended on purpose after its share of requests.
    WorkerRecycled,
    /// A worker was ended by a signal (crash, OOM); the number is in the example.
    WorkerCrashed,
    /// A request was ended for running too long.
    RequestTerminated,
    /// A request ran longer than the slow limit.
    RequestSlow,
    /// The runtime reloaded.
    Reloaded,
    /// The listener before the next tier was full (EAGAIN on a Unix socket).
    UpstreamQueueFull,
    /// Connecting to the next tier timed out.
    UpstreamConnectTimeout,
    /// The next tier accepted and did not answer in time.
    UpstreamReadTimeout,
    /// Nobody listens at the next tier.
    UpstreamRefused,
    /// The next tier reset or closed the connection.
    UpstreamReset,
    /// No local port left towards the next tier (EADDRNOTAVAIL).
    NoLocalPort,
    /// Out of file descriptors.
    NoFileDescriptors,
    /// The server's own connection slots are used up.
    NoConnectionSlots,
    /// The response headers did not fit the buffer.
    HeaderTooBig,
    /// A response went through a temporary file.
    BufferedToFile,
    /// Every server of the next tier is considered down.
    NoLiveUpstreams,
    /// A configured limit refused requests.
    RateLimited,
    /// A PHP fatal error.
    PhpFatal,
    /// A PHP warning, notice or deprecation.
    PhpWarning,
    /// PHP met what it keeps of its own memory overwritten, and ended the worker.
    HeapCorrupted,
    /// A database or Redis had closed the connection that PHP still used.
    KeptConnectionLost,
    /// The database refused a connection for want of slots.
    TooManyDbClients,
    /// A client of the database's pooler waited in vain for a connection to the database.
    PoolerTimeout,
    /// The cache refused a connection for want of slots.
    TooManyCacheClients,
    /// The kernel killed a process for want of memory.
    OutOfMemory,
}

/// Lines of one meaning in one tier's logs during a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogEvent {
    /// Whose log.
    pub layer: Layer,
    /// What the lines mean.
    pub kind: LogKind,
    /// How many lines.
    pub count: u64,
    /// The first of them, as written (secrets are the application's own to keep out of its logs; at most 400 bytes).
    pub example: String,
}
