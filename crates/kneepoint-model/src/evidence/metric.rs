//! Names, units and kinds of what telemetry samples, and the series that hold the samples.
//!
//! The metrics below are the ones several sources fill or several rules read. A source may declare more in
//! its own file: a metric is a constant, not an enum variant, so that a new source needs no change here.

use crate::Layer;
use serde::{Deserialize, Serialize};

/// Whether a metric is a level or a count that only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A level, meaningful at each sample.
    Gauge,
    /// A count since some start, meaningful as a difference.
    Counter,
}

/// One thing that is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Dotted name, unit last where it has one: `proc.cpu_s`.
    pub name: &'static str,
    /// Level or count.
    pub kind: Kind,
    /// One line on what it is, with its unit.
    pub about: &'static str,
}

macro_rules! metrics {
    ($($id:ident $kind:ident $name:literal $about:literal;)*) => {
        $(#[doc = $about] pub const $id: Metric = Metric { name: $name, kind: Kind::$kind, about: $about };)*
        /// Every metric declared here, in order.
        pub const STANDARD: &[Metric] = &[$($id),*];
    };
}

metrics! {
    CPU_S Counter "proc.cpu_s" "CPU time of all processes of the tier, user and system, in seconds.";
    CPU_SYSTEM_S Counter "proc.cpu_system_s" "CPU time of all processes of the tier in the kernel, in seconds.";
    CPU_HOTTEST Gauge "proc.cpu_hottest_share" "Largest share of one core that a process used since the sample before; of a cache, its first thread.";
    PROCESSES Gauge "proc.count" "Processes of the tier.";
    PSS_BYTES Gauge "proc.pss_bytes" "Proportional set size of all processes of the tier, in bytes.";
    PSS_WORKER_BYTES Gauge "proc.pss_worker_bytes" "Largest proportional set size of one process of the tier, in bytes.";
    CONTEXT_SWITCHES Counter "proc.context_switches" "Voluntary and involuntary context switches of the tier.";
    CONTEXT_SWITCHES_FORCED Counter "proc.context_switches_forced" "Involuntary context switches of the tier.";
    JOB_CPU_S Counter "job.cpu_s" "CPU time of a job that runs beside the requests, by its name, in seconds.";

    MACHINE_BUSY_S Counter "machine.busy_s" "CPU time used on the machine, or on a container's part of it, in core seconds.";
    MACHINE_STEAL_S Counter "machine.steal_s" "Time the hypervisor kept from the machine, in core seconds.";
    PSI_CPU_SOME_S Counter "psi.cpu_some_s" "Time in which at least one task waited for a CPU, in seconds.";
    PSI_MEMORY_FULL_S Counter "psi.memory_full_s" "Time in which every task waited for memory, in seconds.";
    PSI_IO_SOME_S Counter "psi.io_some_s" "Time in which at least one task waited for IO, in seconds.";

    CGROUP_PERIODS Counter "cgroup.periods" "Quota periods of the host's control group in which tasks ran.";
    CGROUP_THROTTLED Counter "cgroup.throttled" "Quota periods in which the host was throttled.";
    CGROUP_THROTTLED_S Counter "cgroup.throttled_s" "Time the host was throttled, in seconds.";

    QUEUE Gauge "queue.length" "Connections in the accept queue of the tier's listener, from sock_diag.";
    QUEUE_LIMIT Gauge "queue.limit" "Effective limit of that accept queue (backlog, cut by somaxconn), from sock_diag.";
    ACTIVE_OPENS Counter "tcp.active_opens" "TCP connections opened from the tier's network namespace.";
    LISTEN_OVERFLOWS Counter "tcp.listen_overflows" "Connections dropped because an accept queue of the namespace was full.";
    LISTEN_DROPS Counter "tcp.listen_drops" "Connections dropped by a listener of the namespace for any reason.";
    RETRANS Counter "tcp.retrans_segs" "TCP segments sent again from the namespace.";
    NET_SENT_BYTES Counter "net.sent_bytes" "Bytes sent by the interfaces of the tier's network namespace, loopback left out.";
    NET_RECEIVED_BYTES Counter "net.received_bytes" "Bytes received by them.";
    TIME_WAIT Gauge "tcp.time_wait" "Sockets in TIME_WAIT towards the peer named by the label, held by this tier.";
    ESTABLISHED Gauge "tcp.established" "Established connections to the peer named by the label, held by this tier.";
    PORT_RANGE Gauge "tcp.port_range" "Local ports the namespace may use for connections it opens.";

    NGINX_ACCEPTS Counter "nginx.accepts" "Connections nginx accepted.";
    NGINX_HANDLED Counter "nginx.handled" "Connections nginx handled; fewer than accepted when its connection slots ran out.";
    NGINX_REQUESTS Counter "nginx.requests" "Requests nginx served.";
    NGINX_ACTIVE Gauge "nginx.active" "Connections open at nginx, waiting ones included.";
    NGINX_WRITING Gauge "nginx.writing" "Connections nginx is answering or whose upstream it waits for.";

    WORKERS Gauge "workers.total" "Workers there are.";
    WORKERS_BUSY Gauge "workers.busy" "Workers that hold a request or a connection.";
    WORKERS_IDLE Gauge "workers.idle" "Workers that wait for a connection.";
    WORKERS_PINNED Gauge "workers.pinned" "Busy workers that hold a kept-alive connection without a request on it (FPM: Reading headers).";
    WORKERS_QUEUED Gauge "workers.queued" "Requests that the runtime has taken and no worker serves yet, where it keeps a queue of its own.";
    WORKERS_BLOCKED Gauge "workers.blocked_share" "Share of busy workers that sleep in a system call instead of running.";
    WORKERS_RUNNING Gauge "workers.running" "Workers on a CPU or ready to run.";
    WORKERS_WAITING Gauge "workers.waiting" "Workers asleep in the call and on the peer the label names.";
    EVENT_LOOPS Gauge "event_loops.share" "Share of nginx's worker processes asleep in the call and on what the label names. `epoll` is the wait for events; in any other call all that the process serves waits with it.";
    WORKER_REQUESTS Counter "workers.requests" "Requests the pool accepted.";
    WORKER_STARTS Counter "workers.starts" "Workers forked since the start.";
    POOL_EXHAUSTED Counter "workers.exhausted" "Times the pool reached its configured size (not counted by static pools).";

    OPCACHE_ENABLED Gauge "opcache.enabled" "1 when the opcode cache is loaded and on in the runtime that serves, else 0.";
    OPCACHE_USED_BYTES Gauge "opcache.used_bytes" "Shared memory used by cached scripts, in bytes.";
    OPCACHE_FREE_BYTES Gauge "opcache.free_bytes" "Shared memory free, in bytes.";
    OPCACHE_WASTED_SHARE Gauge "opcache.wasted_share" "Share of shared memory held by scripts that are no longer valid.";
    OPCACHE_FULL Gauge "opcache.full" "1 when the cache is full and takes no new scripts.";
    OPCACHE_SCRIPTS Gauge "opcache.scripts" "Scripts in the cache.";
    OPCACHE_KEYS Gauge "opcache.keys" "Hash keys used.";
    OPCACHE_MAX_KEYS Gauge "opcache.max_keys" "Hash keys there are.";
    OPCACHE_HITS Counter "opcache.hits" "Lookups that found a script.";
    OPCACHE_MISSES Counter "opcache.misses" "Lookups that did not.";
    OPCACHE_BLACKLISTED Counter "opcache.blacklisted" "Lookups of scripts that the blacklist keeps out.";
    OPCACHE_RESTARTS Counter "opcache.restarts" "Restarts of the cache for memory, keys or by hand.";
    OPCACHE_INTERNED_FREE_SHARE Gauge "opcache.interned_free_share" "Free share of the interned-strings buffer.";
    PHP_FILES Gauge "php.included_files" "Files one request of the application includes.";

    REDIS_CONNECTIONS Counter "redis.connections_received" "Connections Redis accepted.";
    REDIS_REJECTED Counter "redis.connections_rejected" "Connections Redis refused for want of slots.";
    REDIS_COMMANDS Counter "redis.commands" "Commands Redis processed.";
    REDIS_CLIENTS Gauge "redis.clients" "Clients connected to Redis.";
    REDIS_MAX_CLIENTS Gauge "redis.max_clients" "Clients Redis accepts at most.";

    DB_SESSIONS Counter "db.sessions" "Sessions established with the application's database.";
    DB_CONNECTIONS Gauge "db.connections" "Client connections there are.";
    DB_MAX_CONNECTIONS Gauge "db.max_connections" "Client connections the database accepts at most.";
    DB_ACTIVE Gauge "db.active" "Client connections that run a statement.";
    DB_TRANSACTIONS Counter "db.transactions" "Transactions committed or rolled back.";
    DB_IDLE_IN_TRANSACTION Gauge "db.idle_in_transaction" "Client connections idle inside a transaction.";
    DB_ROW_LOCK_WAITS Counter "db.row_lock_waits" "Times a statement waited for a lock on a row.";
    DB_ROW_LOCK_S Counter "db.row_lock_s" "Time statements waited for locks on rows, in seconds, added when a wait ends.";
    DB_ROWS_SCANNED Counter "db.rows_scanned" "Rows read one after the other, by table or by index.";
    DB_TABLE_ROWS_SCANNED Counter "db.table_rows_scanned" "The same of one table, by its name.";
    DB_SCANS Counter "db.scans" "SELECTs that read the whole of their first table, or of one that is joined to it.";
    DB_ROWS_OF_TABLES Counter "db.rows_of_tables" "Rows read in the order of their table, as no index led to them.";
    DB_DISK_WAIT Gauge "db.disk_wait" "1 while a thread of the database waits for the disk in the call the label names, else 0; `write` is in any that writes.";
    DB_BYTES_SENT Counter "db.bytes_sent" "Bytes sent to all clients.";

    UP Gauge "source.up" "1 when the source named by the label answered, else 0.";
    SOURCE_COST_S Counter "source.cost_s" "CPU time all sources together have used, in seconds.";
}

/// Samples of one metric at one tier. Times are seconds since the phase's load began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The metric's name.
    pub metric: String,
    /// Level or count.
    pub kind: Kind,
    /// The tier (`Generator` for the whole machine).
    pub layer: Layer,
    /// What tells series of one metric apart: a peer, a source; empty when there is one only.
    pub label: String,
    /// (seconds, value), in order of time.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// Mean of the samples of a gauge; `None` when empty.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (!self.points.is_empty())
            .then(|| self.points.iter().map(|p| p.1).sum::<f64>() / self.points.len() as f64)
    }

    /// Largest sample; `None` when empty.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        self.points.iter().map(|p| p.1).reduce(f64::max)
    }

    /// Last sample; `None` when empty.
    #[must_use]
    pub fn last(&self) -> Option<f64> {
        self.points.last().map(|p| p.1)
    }

    /// Growth of a counter over the samples; a drop is a restart of the counter and counts from zero.
    /// `None` with fewer than two samples.
    #[must_use]
    pub fn delta(&self) -> Option<f64> {
        (self.points.len() >= 2).then(|| {
            self.points
                .windows(2)
                .map(|pair| {
                    if pair[1].1 >= pair[0].1 {
                        pair[1].1 - pair[0].1
                    } else {
                        pair[1].1
                    }
                })
                .sum()
        })
    }

    /// Growth of a counter per second; `None` with fewer than two samples.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let span = self.points.last()?.0 - self.points.first()?.0;
        (span > 0.0).then_some(self.delta()? / span)
    }
}

/// All series of a phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SeriesSet {
    /// The series, in no particular order.
    pub series: Vec<Series>,
}

impl SeriesSet {
    /// The series of a metric at a layer with an empty label, or the only one whatever its label.
    #[must_use]
    pub fn get(&self, layer: Layer, metric: Metric) -> Option<&Series> {
        let mut found = self.all(layer, metric);
        let first = found.next()?;
        if first.label.is_empty() {
            return Some(first);
        }
        self.labelled(layer, metric, "").or(Some(first))
    }

    /// The series of a metric at a layer with this label.
    #[must_use]
    pub fn labelled(&self, layer: Layer, metric: Metric, label: &str) -> Option<&Series> {
        self.all(layer, metric).find(|series| series.label == label)
    }

    /// Every series of a metric at a layer.
    pub fn all(&self, layer: Layer, metric: Metric) -> impl Iterator<Item = &Series> {
        self.series
            .iter()
            .filter(move |series| series.layer == layer && series.metric == metric.name)
    }

    /// What was sampled up to a moment, in seconds since the load began, and what came after it. A series with fewer than two
    /// samples before it is not divided: what is read once at the end says something all the same.
    #[must_use]
    pub fn divided_at(mut self, moment_s: f64) -> (Self, Self) {
        let mut after = Self::default();
        for series in &mut self.series {
            let (early, late): (Vec<_>, Vec<_>) = std::mem::take(&mut series.points)
                .into_iter()
                .partition(|point| point.0 <= moment_s);
            if early.len() < 2 || late.is_empty() {
                series.points = [early, late].concat();
                continue;
            }
            series.points = early;
            after.series.push(Series {
                points: late,
                ..series.clone()
            });
        }
        (self, after)
    }

    /// The same with times that count from a moment, without what was sampled before it. A counter keeps its last sample before as
    /// that of the moment: until then it had nothing to count.
    #[must_use]
    pub fn since(mut self, moment_s: f64) -> Self {
        for series in &mut self.series {
            let before = series.points.iter().rfind(|point| point.0 < moment_s);
            let before = before.filter(|_| series.kind == Kind::Counter).copied();
            series.points.retain(|point| point.0 >= moment_s);
            for point in &mut series.points {
                point.0 -= moment_s;
            }
            if let Some((_, value)) = before {
                series.points.insert(0, (0.0, value));
            }
        }
        self.series.retain(|series| !series.points.is_empty());
        self
    }

    /// Appends samples that came later.
    pub fn append(&mut self, later: &Self) {
        for series in &later.series {
            let is_it = |own: &&mut Series| {
                own.layer == series.layer
                    && own.metric == series.metric
                    && own.label == series.label
            };
            match self.series.iter_mut().find(is_it) {
                Some(own) => own.points.extend_from_slice(&series.points),
                None => self.series.push(series.clone()),
            }
        }
    }

    /// Mean of a gauge.
    #[must_use]
    pub fn mean(&self, layer: Layer, metric: Metric) -> Option<f64> {
        self.get(layer, metric)?.mean()
    }

    /// Largest value of a gauge.
    #[must_use]
    pub fn max(&self, layer: Layer, metric: Metric) -> Option<f64> {
        self.get(layer, metric)?.max()
    }

    /// Last value.
    #[must_use]
    pub fn last(&self, layer: Layer, metric: Metric) -> Option<f64> {
        self.get(layer, metric)?.last()
    }

    /// Growth of a counter.
    #[must_use]
    pub fn delta(&self, layer: Layer, metric: Metric) -> Option<f64> {
        self.get(layer, metric)?.delta()
    }

    /// Growth of a counter per second.
    #[must_use]
    pub fn rate(&self, layer: Layer, metric: Metric) -> Option<f64> {
        self.get(layer, metric)?.rate()
    }

    /// Appends a sample, making its series when it is the first.
    pub fn push(&mut self, layer: Layer, metric: Metric, label: &str, at_s: f64, value: f64) {
        let found = self.series.iter_mut().find(|series| {
            series.layer == layer && series.metric == metric.name && series.label == label
        });
        match found {
            Some(series) => series.points.push((at_s, value)),
            None => self.series.push(Series {
                metric: metric.name.to_owned(),
                kind: metric.kind,
                layer,
                label: label.to_owned(),
                points: vec![(at_s, value)],
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_survive_a_restart() {
        let mut set = SeriesSet::default();
        for (at, value) in [(0.0, 10.0), (1.0, 15.0), (2.0, 3.0)] {
            set.push(Layer::Cache, REDIS_COMMANDS, "", at, value);
        }
        assert_eq!(set.delta(Layer::Cache, REDIS_COMMANDS), Some(8.0));
        assert_eq!(set.rate(Layer::Cache, REDIS_COMMANDS), Some(4.0));
        assert_eq!(set.get(Layer::Db, REDIS_COMMANDS), None);
    }

    #[test]
    fn what_came_after_a_moment_is_apart_and_what_was_read_once_stays() {
        let mut set = SeriesSet::default();
        // Two cores for six seconds, and then nothing to do.
        for at in 0..=9 {
            let busy_s = 2.0 * f64::from(at.min(6));
            set.push(Layer::Generator, MACHINE_BUSY_S, "", f64::from(at), busy_s);
        }
        set.push(Layer::Php, OPCACHE_ENABLED, "", 8.0, 1.0);
        let whole = set.clone();
        let (mut until, after) = set.divided_at(6.0);
        assert_eq!(until.rate(Layer::Generator, MACHINE_BUSY_S), Some(2.0));
        assert_eq!(until.last(Layer::Php, OPCACHE_ENABLED), Some(1.0));
        assert_eq!(after.rate(Layer::Generator, MACHINE_BUSY_S), Some(0.0));
        until.append(&after);
        assert_eq!(until, whole);
        // Generators that agree on a moment begin later than those who look.
        let late = whole.since(1.5);
        let busy = late.get(Layer::Generator, MACHINE_BUSY_S);
        let busy = busy.expect("a counter");
        assert_eq!(busy.points[..2], [(0.0, 2.0), (0.5, 4.0)]);
        // Where only the beginning and the end were sampled, the beginning counts.
        let mut ends = SeriesSet::default();
        ends.push(Layer::Generator, MACHINE_BUSY_S, "", 0.0, 3.0);
        ends.push(Layer::Generator, MACHINE_BUSY_S, "", 10.0, 9.0);
        let grown = ends.since(1.5).delta(Layer::Generator, MACHINE_BUSY_S);
        assert_eq!(grown, Some(6.0));
    }

    #[test]
    fn names_are_unique_and_have_a_unit_or_are_counts() {
        let mut names: Vec<_> = STANDARD.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STANDARD.len());
    }
}
