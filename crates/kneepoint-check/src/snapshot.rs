//! What was seen of a running stack: values with where each comes from.

use kneepoint_model::{Layer, LogKind};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

mod hits;
mod listen;
mod nginx;
mod php;
mod service;
mod settings;

pub(crate) use hits::RECENT_S;
pub use hits::{LogHits, SlowLog, SlowPeer};
pub use listen::{ListenEndpoint, Listener};
pub use nginx::{Nginx, Pass, Upstream, WebService};
pub use php::{CachedRelease, FpmPool, PhpService, ServiceProcess};
pub use service::{
    Blind, Container, Limits, Link, MachineState, NetworkPlace, ReadFile, ResourceLimit, Runtime,
    ServedApp, Service, ServiceKind,
};
pub use settings::{SettingSource, SettingValue, Settings};

/// Everything the rules may look at.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The machine it runs on.
    pub machine: MachineState,
    /// The server programs that were found.
    pub services: Vec<Service>,
    /// Who asks whom.
    pub links: Vec<Link>,
    /// The applications that PHP serves.
    pub apps: Vec<ServedApp>,
    /// What could not be seen, of the machine as a whole.
    pub blind: Vec<Blind>,
}

impl Snapshot {
    /// The services of a kind, with their positions.
    pub fn of(&self, kind: ServiceKind) -> impl Iterator<Item = (usize, &Service)> {
        let services = self.services.iter().enumerate();
        services.filter(move |(_, service)| service.kind == kind)
    }

    /// The pools of PHP-FPM, with the position of their service.
    pub fn pools(&self) -> impl Iterator<Item = (usize, &Service, &FpmPool)> {
        let services = self.services.iter().enumerate();
        services.flat_map(|(at, service)| service.pools.iter().map(move |pool| (at, service, pool)))
    }

    /// How many pools share the memory of a service: those under the same limit, or without one.
    pub(crate) fn pools_sharing(&self, service: &Service) -> usize {
        fn source(one: &Service) -> Option<&SettingSource> {
            one.limits.memory.as_ref().map(|limit| &limit.source)
        }
        let own = source(service);
        let services = self.services.iter().filter(|one| source(one) == own);
        services.map(|one| one.pools.len()).sum::<usize>().max(1)
    }

    /// Every PHP-FPM of which some pool may use OPcache: what is set of a cache that is off costs nothing.
    pub(crate) fn with_opcache(&self) -> impl Iterator<Item = (usize, &Service)> {
        self.of(ServiceKind::Fpm).filter(|(_, service)| {
            let php = service.php.as_ref();
            let is_off = php.is_some_and(|php| php.ini.switches_opcache_off());
            let mut pools = service.pools.iter();
            let all_off =
                !service.pools.is_empty() && pools.all(|pool| pool.php.switches_opcache_off());
            !is_off && !all_off
        })
    }

    /// Every link to a pool of PHP-FPM: who asks, who is asked, and which of its pools.
    pub fn links_to_pools(&self) -> impl Iterator<Item = (&Link, &Service, &Service, &FpmPool)> {
        let named = self
            .pools()
            .map(|(at, _, pool)| ((at, pool.name.as_str()), pool));
        let named: HashMap<(usize, &str), &FpmPool> = named.collect();
        self.links.iter().filter_map(move |link| {
            let (from, to) = (self.services.get(link.from)?, self.services.get(link.to)?);
            let pool = named.get(&(link.to, link.pool.as_deref()?))?;
            Some((link, from, to, *pool))
        })
    }

    /// Most workers of all PHP that may ask a service at once: of the pools that do, where it is known which. `None` where
    /// nobody asks it.
    #[must_use]
    pub fn workers_behind(&self, to: usize) -> Option<u64> {
        let mut askers: BTreeMap<usize, Option<BTreeSet<&str>>> = BTreeMap::new();
        for link in self.links.iter().filter(|link| link.to == to) {
            let known = askers
                .entry(link.from)
                .or_insert_with(|| Some(BTreeSet::new()));
            match (link.from_pools.is_empty(), known.as_mut()) {
                (false, Some(pools)) => pools.extend(link.from_pools.iter().map(String::as_str)),
                _ => *known = None,
            }
        }
        let counts = askers.into_iter().filter_map(|(at, pools)| {
            let service = self.services.get(at)?;
            let Some(names) = pools else {
                return service.php_workers();
            };
            let own = service.pools.iter();
            let own = own.filter(|pool| names.contains(pool.name.as_str()));
            let counts: Vec<u64> = own.filter_map(FpmPool::max_children).collect();
            (!counts.is_empty()).then(|| counts.iter().sum())
        });
        let counts: Vec<u64> = counts.collect();
        (!counts.is_empty()).then(|| counts.iter().sum())
    }
}

impl Service {
    /// Most requests that it executes PHP for at once: workers of all pools, or processes of an Apache with mod_php.
    /// `None` where it executes none.
    #[must_use]
    pub fn php_workers(&self) -> Option<u64> {
        if self.has_mod_php() {
            return Some(self.apache_workers()? as u64);
        }
        let pools = self.pools.iter().filter_map(FpmPool::max_children);
        let counts: Vec<u64> = pools.collect();
        (!counts.is_empty()).then(|| counts.iter().sum())
    }

    /// Most requests that an Apache serves at once: as many as it is asked for, and no more than its processes can be.
    pub(crate) fn apache_workers(&self) -> Option<f64> {
        let most = self.apache_limit()?;
        let asked = self.settings.get("maxrequestworkers");
        match asked {
            Some(asked) => Some(asked.number()?.min(most)),
            None => Some(most),
        }
    }

    /// Most requests that an Apache can be asked to serve at once: ServerLimit processes, which with another module than
    /// prefork have several threads each (<https://httpd.apache.org/docs/2.4/mod/mpm_common.html>).
    pub(crate) fn apache_limit(&self) -> Option<f64> {
        let number = |name, usual| self.settings.or(name, usual).number();
        if self.is_prefork() {
            return number("serverlimit", "256");
        }
        Some(number("serverlimit", "16")? * number("threadsperchild", "25")?)
    }

    /// Whether an Apache has a process for each request: PHP runs in nothing else.
    pub(crate) fn is_prefork(&self) -> bool {
        let mut modules = self.settings.every("loadmodule");
        self.has_mod_php() || modules.any(|(text, _)| text.starts_with("mpm_prefork_module"))
    }

    /// Whether it is an Apache that executes PHP in its own processes.
    #[must_use]
    pub fn has_mod_php(&self) -> bool {
        let php = self.php.as_ref();
        self.kind == ServiceKind::Apache
            && php.is_some_and(|php| php.loaded.keys().any(|name| name.starts_with("libphp")))
    }

    /// How many connections each process of nginx keeps to an upstream: 32 since 1.29.7 where nothing is written. `None`
    /// where it keeps none (<https://nginx.org/en/docs/http/ngx_http_upstream_module.html#keepalive>).
    pub(crate) fn keepalive_of(&self, upstream: &Upstream) -> Option<SettingValue> {
        let is_usual = self.is_older_than(&[1, 29, 7]) == Some(false);
        let usual = is_usual.then(|| SettingValue::new("32", SettingSource::Default));
        let written = upstream.settings.get("keepalive").cloned();
        let kept = written.or(usual);
        kept.filter(|value| value.text.split(' ').next() != Some("0"))
    }

    /// After how many requests nginx closes a connection to an upstream: 1000, and 100 before 1.19.10. `None` where nothing
    /// limits it, before 1.15.3.
    pub(crate) fn keepalive_requests_of(&self, upstream: &Upstream) -> Option<SettingValue> {
        let usual = match self.is_older_than(&[1, 19, 10]) {
            Some(true) => "100",
            _ => "1000",
        };
        let is_limited = self.is_older_than(&[1, 15, 3]) != Some(true);
        is_limited.then(|| upstream.settings.or("keepalive_requests", usual))
    }
}

impl ServiceKind {
    /// Where in a chain it stands.
    #[must_use]
    pub fn layer(self) -> Layer {
        match self {
            Self::Haproxy => Layer::Proxy,
            Self::Nginx | Self::Apache => Layer::Web,
            Self::Fpm | Self::Unit | Self::FrankenPhp => Layer::Php,
            Self::Redis => Layer::Cache,
            Self::Mysql | Self::Postgresql | Self::Pgbouncer => Layer::Db,
        }
    }
}

impl fmt::Display for ServiceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The words for a meaning of log lines.
#[must_use]
pub fn said(kind: LogKind) -> &'static str {
    let found = SAID.iter().find(|(one, _)| *one == kind);
    found.map_or("something else", |(_, words)| words)
}

const SAID: &[(LogKind, &str)] = &[
    (LogKind::PoolExhausted, "the pool reached its size"),
    (
        LogKind::PoolBusySpawning,
        "the pool was busy and added workers",
    ),
    (LogKind::WorkerCrashed, "a worker was ended by a signal"),
    (
        LogKind::RequestTerminated,
        "a request was ended for running too long",
    ),
    (
        LogKind::RequestSlow,
        "a request ran longer than the slow limit",
    ),
    (
        LogKind::UpstreamQueueFull,
        "the listener of the next tier was full",
    ),
    (
        LogKind::UpstreamConnectTimeout,
        "connecting to the next tier timed out",
    ),
    (
        LogKind::UpstreamReadTimeout,
        "the next tier did not answer in time",
    ),
    (LogKind::UpstreamRefused, "nobody listened at the next tier"),
    (
        LogKind::UpstreamReset,
        "the next tier closed the connection",
    ),
    (LogKind::NoLocalPort, "no local port was left"),
    (LogKind::NoFileDescriptors, "no file descriptor was left"),
    (
        LogKind::NoConnectionSlots,
        "worker_connections were not enough",
    ),
    (
        LogKind::HeaderTooBig,
        "the response header did not fit its buffer",
    ),
    (
        LogKind::BufferedToFile,
        "a response went through a temporary file",
    ),
    (
        LogKind::NoLiveUpstreams,
        "every server of the next tier counted as down",
    ),
    (LogKind::RateLimited, "a configured limit refused requests"),
    (LogKind::PhpFatal, "PHP ended with a fatal error"),
    (LogKind::HeapCorrupted, "PHP found its memory corrupted"),
    (
        LogKind::KeptConnectionLost,
        "PHP lost a connection to a database or to Redis",
    ),
    (
        LogKind::TooManyDbClients,
        "a database or its pooler refused a connection for want of slots",
    ),
    (LogKind::PoolerTimeout, "the pooler had no connection free"),
    (
        LogKind::TooManyCacheClients,
        "the cache refused a connection for want of slots",
    ),
    (
        LogKind::OutOfMemory,
        "the kernel killed a process for want of memory",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processes_of_an_apache_with_php_count_as_workers() {
        let mut apache = Service::new(ServiceKind::Apache, 7);
        assert_eq!(apache.php_workers(), None);
        let php = PhpService {
            loaded: [("libphp8.2".to_owned(), "/m/libphp8.2.so".to_owned())].into(),
            ..PhpService::default()
        };
        apache.php = Some(php);
        assert_eq!(apache.php_workers(), Some(256));
        let source = SettingSource::file("/c", 1);
        apache.settings.set("maxrequestworkers", "50", source);
        let link = Link {
            from: 0,
            to: 1,
            pool: None,
            from_pools: Vec::new(),
            by: ListenEndpoint::Tcp("db".into(), 3306),
            how: "/wp-config.php:5".into(),
        };
        let snapshot = Snapshot {
            services: vec![apache, Service::new(ServiceKind::Mysql, 8)],
            links: vec![link],
            ..Snapshot::default()
        };
        assert_eq!(snapshot.workers_behind(1), Some(50));
        assert_eq!(snapshot.workers_behind(0), None);
    }

    #[test]
    fn only_the_pools_that_ask_count_where_they_are_known() {
        let case = crate::rule::case::Case::healthy()
            .pool_with("[jobs]\nlisten = /run/jobs.sock\npm.max_children = 7", "");
        let mut snapshot = case.0;
        assert_eq!(snapshot.workers_behind(3), Some(20));
        snapshot.links[2].from_pools.push("jobs".into());
        assert_eq!(snapshot.workers_behind(3), Some(27));
        snapshot.links[2].from_pools = vec!["jobs".into()];
        assert_eq!(snapshot.workers_behind(3), Some(7));
        snapshot.links[2].from_pools.clear();
        assert_eq!(snapshot.workers_behind(3), Some(27));
    }

    #[test]
    fn what_is_kept_where_nothing_is_written_is_known_by_the_version() {
        let of = |version: &str, written: Option<&str>| {
            let mut nginx = Service::new(ServiceKind::Nginx, 1);
            nginx.version = version.into();
            let mut upstream = Upstream::default();
            if let Some(text) = written {
                let source = SettingSource::file("/a", 1);
                upstream.settings.set("keepalive", text, source);
            }
            let text = |value: SettingValue| value.text;
            let kept = nginx.keepalive_of(&upstream).map(text);
            (kept, nginx.keepalive_requests_of(&upstream).map(text))
        };
        let found = |kept: Option<&str>, requests: Option<&str>| {
            (kept.map(str::to_owned), requests.map(str::to_owned))
        };
        assert_eq!(of("", None), found(None, Some("1000")));
        assert_eq!(of("1.14.2", None), found(None, None));
        assert_eq!(of("1.18.0", Some("8")), found(Some("8"), Some("100")));
        assert_eq!(of("1.29.7", None), found(Some("32"), Some("1000")));
        assert_eq!(of("1.29.7", Some("0")), found(None, Some("1000")));
    }
}
