//! A server program that runs, and what belongs to it.

use super::{
    FpmPool, ListenEndpoint, Listener, LogHits, Nginx, PhpService, ServiceProcess, SettingSource,
    Settings,
};
use kneepoint_model::{AppSwitch, LogKind};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What program it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServiceKind {
    /// HAProxy.
    Haproxy,
    /// nginx and its kin.
    Nginx,
    /// Apache httpd.
    Apache,
    /// The master of PHP-FPM.
    Fpm,
    /// NGINX Unit.
    Unit,
    /// FrankenPHP.
    FrankenPhp,
    /// Redis and its kin.
    Redis,
    /// MariaDB and MySQL.
    Mysql,
    /// PostgreSQL.
    Postgresql,
    /// PgBouncer.
    Pgbouncer,
}

impl ServiceKind {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
            Self::Apache => "apache",
            Self::Fpm => "php-fpm",
            Self::Unit => "unit",
            Self::FrankenPhp => "frankenphp",
            Self::Redis => "redis",
            Self::Mysql => "mysql",
            Self::Postgresql => "postgresql",
            Self::Pgbouncer => "pgbouncer",
        }
    }
}

/// The machine.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct MachineState {
    /// Cores.
    pub cores: f64,
    /// Memory in bytes.
    pub memory_bytes: f64,
    /// Memory that could be given out now, in bytes.
    pub available_bytes: f64,
    /// When it was looked at, in seconds since 1970.
    pub now_s: f64,
}

/// What could not be seen.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Blind {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
    /// What would let it be seen.
    pub remedy: String,
    /// Whether it is a service or its settings: where nothing is found, nothing may be wrong or may not have been seen.
    pub weighs: bool,
}

impl Blind {
    /// Something that could not be seen.
    #[must_use]
    pub fn new(what: impl Into<String>, why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            why: why.into(),
            remedy: remedy.into(),
            weighs: false,
        }
    }

    /// The same of a service or its settings.
    #[must_use]
    pub fn weighing(self) -> Self {
        Self {
            weighs: true,
            ..self
        }
    }
}

/// What keeps containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// Docker.
    Docker,
    /// containerd, as Kubernetes has it.
    Containerd,
    /// CRI-O.
    Crio,
    /// podman.
    Podman,
    /// LXC.
    Lxc,
    /// Something that names its groups otherwise.
    Other,
}

/// The container of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Container {
    /// Its id.
    pub id: String,
    /// What keeps it.
    pub runtime: Runtime,
    /// Its name, where it could be told.
    pub name: Option<String>,
    /// The service of a compose file.
    pub compose_service: Option<String>,
    /// Whether it is of a pod.
    pub in_pod: bool,
}

/// Where a service runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct NetworkPlace {
    /// Its container.
    pub container: Option<Container>,
    /// The unit of systemd.
    pub unit: Option<String>,
    /// Inode of its network namespace.
    pub net: u64,
    /// Whether it has another network namespace than we.
    pub other_net: bool,
    /// Whether it has another root directory than we.
    pub other_root: bool,
    /// Whether its configuration is another file than the one of that path that we see, without a container around it.
    pub other_files: bool,
    /// Its number in its own namespace of processes, where there is another than ours.
    pub pid_within: Option<u32>,
}

/// A limit and where it is set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResourceLimit {
    /// How much.
    pub value: f64,
    /// The file that says so.
    pub source: SettingSource,
}

/// What a service may use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Limits {
    /// Open files of a worker.
    pub files: Option<f64>,
    /// Memory in bytes: the tightest of all its control groups.
    pub memory: Option<ResourceLimit>,
    /// Memory that this group uses now, in bytes.
    pub memory_used: Option<f64>,
    /// Processes of the group that the kernel killed for want of memory.
    pub oom_kills: Option<ResourceLimit>,
    /// Whether that group is the check's own as well, as of what was started from the same terminal: then they may have been
    /// anybody's.
    pub kills_of_anybody: bool,
    /// Cores by quota: the tightest of all its control groups.
    pub cpus: Option<ResourceLimit>,
    /// Cores it may run on.
    pub allowed_cores: Option<f64>,
    /// Share of its periods in which it was stopped for want of quota.
    pub throttled: Option<ResourceLimit>,
}

impl Limits {
    /// Leaves out a limit of memory that the machine does not have: the machine itself is the limit then, and whatever else
    /// runs there shares it.
    pub(crate) fn bind(&mut self, machine: &MachineState) {
        let all = machine.memory_bytes;
        let beyond = |limit: &ResourceLimit| all > 0.0 && limit.value > all;
        if self.memory.as_ref().is_some_and(beyond) {
            (self.memory, self.memory_used) = (None, None);
        }
    }
}

/// A file of configuration that was read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadFile {
    /// Its path, as the process sees it.
    pub path: String,
    /// When it was changed, in seconds since 1970.
    pub modified_s: f64,
    /// Whether that was after the process read it.
    pub newer: bool,
}

/// A server program.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// What program.
    pub kind: ServiceKind,
    /// Its first process.
    pub pid: u32,
    /// Its version; empty where it could not be told.
    pub version: String,
    /// The path of its program, as it sees it; empty where that is not known.
    pub program: String,
    /// Where it runs.
    pub place: NetworkPlace,
    /// When its configuration was read at the latest, in seconds since 1970.
    pub loaded_s: f64,
    /// CPU time of all its processes since it was started, in seconds.
    pub cpu_s: f64,
    /// How long it has run, in seconds.
    pub age_s: f64,
    /// Its settings in force.
    pub settings: Settings,
    /// Whether nothing tells what it was started with: what is not in `settings` may be set all the same.
    pub settings_hidden: bool,
    /// nginx only.
    pub nginx: Option<Nginx>,
    /// What executes PHP only.
    pub php: Option<PhpService>,
    /// PHP-FPM only.
    pub pools: Vec<FpmPool>,
    /// Where it listens.
    pub listens: Vec<Listener>,
    /// Ports of TCP at which anybody listens in its network namespace.
    pub ports_taken: BTreeSet<u16>,
    /// Whom its configuration, or a connection, says that it asks.
    pub asks: Vec<(ListenEndpoint, String)>,
    /// Connections in TIME_WAIT, by the peer they went to.
    pub time_wait: BTreeMap<String, u64>,
    /// Its processes.
    pub processes: Vec<ServiceProcess>,
    /// What it may use.
    pub limits: Limits,
    /// Settings of the kernel, in its network namespace.
    pub kernel: Settings,
    /// The files that were read for all this.
    pub files: Vec<ReadFile>,
    /// What its logs say.
    pub logs: Vec<LogHits>,
    /// Bytes of the data it keeps, where that could be told.
    pub data_bytes: Option<f64>,
    /// Proportional memory of its first process in bytes; looked at for Redis, which keeps its data there.
    pub pss: Option<f64>,
    /// What could not be seen of it.
    pub blind: Vec<Blind>,
}

impl Service {
    /// A service of which nothing is known yet.
    #[must_use]
    pub fn new(kind: ServiceKind, pid: u32) -> Self {
        Self {
            kind,
            pid,
            version: String::new(),
            program: String::new(),
            place: NetworkPlace::default(),
            loaded_s: 0.0,
            cpu_s: 0.0,
            age_s: 0.0,
            settings: Settings::default(),
            settings_hidden: false,
            nginx: None,
            php: None,
            pools: Vec::new(),
            listens: Vec::new(),
            ports_taken: BTreeSet::new(),
            asks: Vec::new(),
            time_wait: BTreeMap::new(),
            processes: Vec::new(),
            limits: Limits::default(),
            kernel: Settings::default(),
            files: Vec::new(),
            logs: Vec::new(),
            data_bytes: None,
            pss: None,
            blind: Vec::new(),
        }
    }

    /// What it is called: `nginx (process 7)`.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.place.container {
            Some(container) => format!("{} in {}", self.kind, container.called()),
            None => format!("{} (process {})", self.kind, self.pid),
        }
    }

    /// Whether its version is known, and older than this one.
    #[must_use]
    pub fn is_older_than(&self, version: &[u32]) -> Option<bool> {
        let own: Vec<u32> = numbers(&self.version);
        (!own.is_empty()).then(|| own.as_slice() < version)
    }

    /// Whether it is surely MySQL and not MariaDB, which counts from 10 on, and no older than this version.
    #[must_use]
    pub fn is_mysql_since(&self, version: &[u32]) -> bool {
        self.is_older_than(&[10]) == Some(true) && self.is_older_than(version) == Some(false)
    }

    /// Lines of one meaning in its logs: of several logs the one with most, and one of today before one of the past.
    #[must_use]
    pub fn logged(&self, kind: LogKind) -> Option<&LogHits> {
        let hits = self.logs.iter().filter(|hits| hits.kind == kind);
        let is_now = |hits: &LogHits| !hits.is_over() && !self.is_older_run(hits);
        hits.max_by_key(|hits| (is_now(hits), hits.count))
    }

    /// Whether the last of some lines was written before the program was started.
    pub(crate) fn is_older_run(&self, hits: &LogHits) -> bool {
        // Stamps count whole seconds.
        hits.age_s.is_some_and(|age_s| age_s > self.age_s + 1.0)
    }

    /// Memory that it may use in bytes: its limit, or all of the machine.
    #[must_use]
    pub fn memory_bytes(&self, machine: &MachineState) -> f64 {
        let limit = self.limits.memory.as_ref();
        limit.map_or(machine.memory_bytes, |limit| limit.value)
    }

    /// Where the memory it may use is said.
    #[must_use]
    pub fn memory_source(&self) -> String {
        let limit = self.limits.memory.as_ref();
        limit.map_or("/proc/meminfo".to_owned(), |limit| limit.source.to_string())
    }

    /// Cores it may use: the tightest of quota, affinity and the machine.
    #[must_use]
    pub fn cores(&self, machine: &MachineState) -> f64 {
        let quota = self.limits.cpus.as_ref().map(|limit| limit.value);
        [quota, self.limits.allowed_cores]
            .into_iter()
            .flatten()
            .fold(machine.cores.max(1.0), f64::min)
    }
}

impl Container {
    /// Its compose service, its name, or the beginning of its id.
    #[must_use]
    pub fn called(&self) -> String {
        let name = self.compose_service.as_ref().or(self.name.as_ref());
        format!("container {}", name.map_or(self.short_id(), String::as_str))
    }

    fn short_id(&self) -> &str {
        self.id.get(..12).unwrap_or(&self.id)
    }

    /// What a person may call it.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let given = [&self.name, &self.compose_service].into_iter().flatten();
        given
            .map(|name| name.trim_start_matches('/'))
            .chain([self.short_id()])
    }

    /// Whether a person who writes this means it: one of its names or its id, or how that begins.
    pub(crate) fn is_named(&self, wanted: &str) -> bool {
        self.id.starts_with(wanted) || self.names().any(|name| name.starts_with(wanted))
    }
}

impl ServedApp {
    /// Whether it is in a directory, or that in its own.
    pub(crate) fn is_around(&self, dir: &str) -> bool {
        let (root, dir) = (Path::new(&self.root), Path::new(dir));
        root.starts_with(dir) || dir.starts_with(root)
    }
}

/// The numbers of a version.
fn numbers(version: &str) -> Vec<u32> {
    let words = version.split(['.', '-', '~', '+', ' ']);
    words.map_while(|word| word.parse().ok()).collect()
}

/// One service asks another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Position of who asks.
    pub from: usize,
    /// Position of who is asked.
    pub to: usize,
    /// The pool that is asked, where that could be told.
    pub pool: Option<String>,
    /// The pools of the one who asks that do so; none where it is not known which, or it has none.
    pub from_pools: Vec<String>,
    /// By which address.
    pub by: ListenEndpoint,
    /// How it is known: a line of configuration, or a connection.
    pub how: String,
}

/// An application.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServedApp {
    /// Its directory, as PHP sees it.
    pub root: String,
    /// Position of the service that executes it.
    pub service: usize,
    /// The pools of it that do; none where it is not known which.
    pub pools: Vec<String>,
    /// Settings of its own that cost.
    pub switches: Vec<AppSwitch>,
    /// Files of PHP below its directory, as far as they were counted.
    pub php_files: u64,
    /// Bytes of them.
    pub php_bytes: f64,
    /// Whether the count stopped early.
    pub cut: bool,
    /// Laravel: whether its configuration, then its routes, are cached.
    pub laravel_cached: Option<(bool, bool)>,
    /// Composer: whether its map of classes is complete.
    pub composer_optimized: Option<bool>,
    /// Laravel: whether its `.env` was changed after its cache of settings was written.
    pub env_is_newer: bool,
    /// What it keeps its sessions and its cache in: name of the setting, value, line of the file that Laravel reads.
    pub drivers: Vec<(String, String, usize)>,
    /// Where it answers before it is done, by fastcgi_finish_request(): file below its directory, line. Looked for only where
    /// nginx keeps connections to PHP.
    pub answers_early: Option<(String, usize)>,
}

impl ServedApp {
    /// Where a driver is set.
    pub(crate) fn place_of_driver(&self, line: usize) -> String {
        let file = match self.laravel_cached {
            Some((true, _)) => kneepoint_stack::application::laravel::CACHE,
            _ => ".env",
        };
        format!("{}/{file}:{line}", self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_whose_name_only_begins_alike_is_another() {
        let app = ServedApp {
            root: "/srv/shop/public".to_owned(),
            ..ServedApp::default()
        };
        for (dir, expected) in [
            ("/srv/shop", true),
            ("/srv/shop/", true),
            ("/srv/shop/public/admin", true),
            ("/srv/sho", false),
            ("/srv/shop/public2", false),
        ] {
            assert_eq!(app.is_around(dir), expected, "{dir}");
        }
    }

    #[test]
    fn endpoints_are_read_as_configurations_write_them() {
        let shown = |text: &str| ListenEndpoint::parse(text, 80).map(|one| one.to_string());
        for (text, expected) in [
            ("unix:/run/php.sock", "/run/php.sock"),
            ("/run/php.sock", "/run/php.sock"),
            ("unix:/run/php.sock:", "/run/php.sock"),
            ("unix:///run/php.sock", "/run/php.sock"),
            ("//run//php.sock", "/run/php.sock"),
            ("127.0.0.1:9000", "127.0.0.1:9000"),
            ("9000", "*:9000"),
            ("[::1]:9000", "[::1]:9000"),
            ("php", "php:80"),
            ("php:9000", "php:9000"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(shown(""), None);
    }

    #[test]
    fn what_is_logged_today_comes_before_more_of_the_past() {
        let mut service = Service::new(ServiceKind::Nginx, 1);
        service.age_s = 1e7;
        for (count, age_s) in [(400, 8e6), (50, 60.0)] {
            service.logs.push(LogHits {
                kind: LogKind::UpstreamReadTimeout,
                count,
                first: String::new(),
                last: String::new(),
                age_s: Some(age_s),
                path: String::new(),
                pool: None,
            });
        }
        let hits = service.logged(LogKind::UpstreamReadTimeout);
        assert_eq!(hits.map(|hits| hits.count), Some(50));
    }

    #[test]
    fn a_limit_above_the_memory_of_the_machine_is_none() {
        let machine = MachineState {
            memory_bytes: 2e9,
            ..MachineState::default()
        };
        let of = |value: f64| {
            let mut service = Service::new(ServiceKind::Redis, 1);
            let path = "/x/memory.max".to_owned();
            service.limits.memory = Some(ResourceLimit {
                value,
                source: SettingSource::Kernel { path },
            });
            service.limits.bind(&machine);
            (service.memory_bytes(&machine), service.memory_source())
        };
        assert_eq!(of(1e9), (1e9, "/x/memory.max".to_owned()));
        assert_eq!(of(8e9), (2e9, "/proc/meminfo".to_owned()));
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let mut service = Service::new(ServiceKind::Nginx, 1);
        assert_eq!(service.is_older_than(&[1, 29, 7]), None);
        service.version = "1.22.1".into();
        assert_eq!(service.is_older_than(&[1, 29, 7]), Some(true));
        service.version = "1.29.10".into();
        assert_eq!(service.is_older_than(&[1, 29, 7]), Some(false));
    }
}
