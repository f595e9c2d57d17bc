//! What logs tell: lines of one meaning, and the stacks of a slow log.

use kneepoint_model::LogKind;
use serde::Serialize;

/// Lines of one meaning in the end of a log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogHits {
    /// What they mean.
    pub kind: LogKind,
    /// How many.
    pub count: u64,
    /// The time that the first of them carries, as it is written.
    pub first: String,
    /// The time of the last.
    pub last: String,
    /// How long the last is ago, in seconds; `None` where lines carry no time.
    pub age_s: Option<f64>,
    /// The log.
    pub path: String,
    /// The pool that the first of them names.
    pub pool: Option<String>,
}

/// What is longer ago, in seconds, is of some past and not of today: a week \[ours\].
pub(crate) const RECENT_S: f64 = 7.0 * 86_400.0;

impl LogHits {
    /// Whether the last of them is longer ago than a day \[ours\].
    pub(crate) fn is_over(&self) -> bool {
        /// In seconds.
        const DAY_S: f64 = 86_400.0;
        self.age_s.is_some_and(|age_s| age_s > DAY_S)
    }
}

/// The end of a slow log, as far as it is of one pool.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowLog {
    /// How many requests, and since when.
    pub hits: LogHits,
    /// The innermost calls, with how many requests were met there, the most frequent first:
    /// `curl_exec() at /srv/a.php:7`. Only the first few are kept, as of all below.
    pub calls: Vec<(String, u64)>,
    /// The innermost lines of code that nobody installed: `/srv/a.php:7`.
    pub own: Vec<(String, u64)>,
    /// The scripts that were asked for.
    pub scripts: Vec<(String, u64)>,
    /// Whom they waited for, where the innermost call tells it.
    pub peers: Vec<(SlowPeer, u64)>,
}

/// Whom a slow request waited for, by the function that it was in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlowPeer {
    /// Redis and its kin.
    Redis,
    /// Memcached.
    Memcached,
    /// A database of any kind.
    Database,
    /// Somebody who is asked over the network.
    Server,
    /// The DNS.
    Names,
    /// A lock of a session, a file or a semaphore.
    Lock,
    /// Nobody: the code sleeps.
    Pause,
    /// A program that it started.
    Program,
    /// The disk.
    Disk,
}

impl SlowPeer {
    /// In words, as they stand behind `waited for`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis => "Redis",
            Self::Memcached => "Memcached",
            Self::Database => "a database",
            Self::Server => "another server",
            Self::Names => "the DNS",
            Self::Lock => "a lock",
            Self::Pause => "a pause in the code",
            Self::Program => "another program",
            Self::Disk => "the disk",
        }
    }
}

impl SlowLog {
    /// Whom most of the requests waited for, and how many did.
    #[must_use]
    pub fn peer_of_most(&self) -> Option<(SlowPeer, u64)> {
        let first = self.peers.first().copied();
        first.filter(|(_, count)| 2 * count > self.hits.count)
    }
}
