//! Finds the server programs of this machine and reads what is in force in each.

mod apps;
pub(crate) mod asks;
mod containers;
mod gather;
mod memory;
mod php;
pub(crate) mod queues;
mod releases;
mod requests;
#[cfg(test)]
mod scale;
mod unseen;

use crate::chain::{self, Seen};
use crate::files::abreast::{Abreast, Time};
use crate::process::{self, ServiceProcess};
use crate::snapshot::{
    Blind, Link, ListenEndpoint, MachineState, Pass, Service, ServiceKind, Snapshot,
};
use gather::{Gathered, gather};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

/// Most services that are looked at.
const SERVICES: usize = 500;
/// The part of the budget that services may take, if need be: the rest is for what they serve.
const OF_SERVICES: f64 = 0.7;

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckOptions {
    /// First processes of services; all services when empty.
    pub pids: Vec<u32>,
    /// The pool of PHP-FPM, with whom it belongs to.
    pub pool: Option<String>,
    /// Services in a container whose name, compose service or id begins so.
    pub container: Option<String>,
    /// Services of the application in this directory.
    pub app: Option<String>,
    /// How long it may take.
    pub budget: Duration,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            pids: Vec::new(),
            pool: None,
            container: None,
            app: None,
            budget: Duration::from_secs(5),
        }
    }
}

/// Looks at the stack that runs: reads only, and within the time it may take. A program that takes longer is named among
/// what could not be seen.
#[must_use]
pub fn look(options: &CheckOptions) -> Snapshot {
    let time = Time::from_now(options.budget);
    let machine = machine();
    let processes = process::all();
    let mut strangers: HashSet<u32> = HashSet::new();
    let mut found = masters(&processes, &options.pids, &strangers);
    let mut blind = nobody(&found, options);
    blind.extend(unseen::hidden());
    if let Some(wanted) = options
        .container
        .as_ref()
        .filter(|_| found.len() > SERVICES)
    {
        found.sort_by_cached_key(|master| !containers::is_of(master.process.pid, wanted));
    }
    let beyond = found.split_off(found.len().min(SERVICES));
    blind.extend(unseen::beyond(&beyond, SERVICES));
    let now_s = machine.now_s;
    let work = move |master: Master| gather(&master, now_s);
    let mut crew = Crew {
        all: Vec::new(),
        work: Abreast::new(time.part(OF_SERVICES), work),
    };
    let mut known: HashSet<u32> = found.iter().chain(&beyond).map(Master::pid).collect();
    found.into_iter().for_each(|master| crew.look_at(master));
    let mut all = Vec::new();
    let mut foreign = Vec::new();
    while let Some((kind, pid, gathered)) = crew.next() {
        match gathered {
            Gathered::Seen(seen) => all.push(*seen),
            Gathered::Gone => foreign.extend(unseen::is_foreign(pid).then_some((kind, pid))),
            Gathered::Other => {
                strangers.insert(pid);
                blind.push(unseen::stranger(kind, pid));
                // What it started may be what it is called.
                let more = masters(&processes, &options.pids, &strangers).into_iter();
                let more = more.filter(|master| known.insert(master.pid()));
                more.for_each(|master| crew.look_at(master));
            }
        }
    }
    blind.extend(unseen::too_late(
        &crew.unfinished(),
        options.budget.mul_f64(OF_SERVICES),
    ));
    blind.extend(unseen::of_others(foreign));
    all.sort_by_key(|seen: &Seen| (seen.service.kind, seen.service.pid));
    let mut snapshot = assemble(machine, all, blind, time);
    let missing = unseen::missing(&snapshot, options);
    snapshot.blind.extend(missing);
    narrow(&mut snapshot, options);
    snapshot
}

/// Looks at services, side by side.
struct Crew {
    /// Each one, by its number, until something is known of it.
    all: Vec<Option<(ServiceKind, u32)>>,
    work: Abreast<Master, Gathered>,
}

impl Crew {
    fn look_at(&mut self, master: Master) {
        let (kind, pid) = (master.kind, master.pid());
        self.all.push(Some((kind, pid)));
        self.work.add(format!("process {pid}"), master);
    }

    /// The next of which something is known; `None` when there is none, or no time.
    fn next(&mut self) -> Option<(ServiceKind, u32, Gathered)> {
        let (at, gathered) = self.work.next()?;
        let (kind, pid) = self.all[at].take()?;
        Some((kind, pid, gathered))
    }

    /// Those of which nothing is known.
    fn unfinished(self) -> Vec<(ServiceKind, u32)> {
        let mut all: Vec<(ServiceKind, u32)> = self.all.into_iter().flatten().collect();
        all.sort_unstable();
        all
    }
}

fn nobody(found: &[Master], options: &CheckOptions) -> Vec<Blind> {
    let missing = |pid: &&u32| !found.iter().any(|master| master.process.pid == **pid);
    let gone = options.pids.iter().filter(missing);
    gone.map(|pid| {
        let why = "there is no such process, or it is the first process of no server program";
        Blind::new(
            format!("process {pid}"),
            why,
            "name the master: `ps -ef` shows it",
        )
    })
    .collect()
}

fn machine() -> MachineState {
    let (memory_bytes, available_bytes) = process::memory_bytes();
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    MachineState {
        cores: std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64),
        memory_bytes,
        available_bytes,
        now_s: since.map_or(0.0, |since| since.as_secs_f64()),
    }
}

/// The first process of a service, and those it started.
#[derive(Debug, Clone)]
struct Master {
    kind: ServiceKind,
    process: ServiceProcess,
    /// The processes of the same program below it.
    workers: Vec<ServiceProcess>,
    /// The process that started it.
    parent: Option<ServiceProcess>,
}

impl Master {
    fn pid(&self) -> u32 {
        self.process.pid
    }
}

/// What program a process runs, by the name of its file or else its own.
fn kind_of(process: &ServiceProcess) -> Option<ServiceKind> {
    kind_named(process.program()).or_else(|| kind_named(&process.comm))
}

/// What program has a name.
pub(crate) fn kind_named(name: &str) -> Option<ServiceKind> {
    match name {
        "nginx" | "openresty" | "angie" | "tengine" => Some(ServiceKind::Nginx),
        "apache2" | "httpd" => Some(ServiceKind::Apache),
        "haproxy" => Some(ServiceKind::Haproxy),
        "redis-server" | "valkey-server" | "keydb-server" => Some(ServiceKind::Redis),
        "mariadbd" | "mysqld" => Some(ServiceKind::Mysql),
        "postgres" => Some(ServiceKind::Postgresql),
        "pgbouncer" => Some(ServiceKind::Pgbouncer),
        "unitd" => Some(ServiceKind::Unit),
        "frankenphp" => Some(ServiceKind::FrankenPhp),
        name if name.starts_with("php-fpm") => Some(ServiceKind::Fpm),
        _ => None,
    }
}

/// The first processes of every service: those that another of their kind did not start. A master that another started
/// to take its place says so in its title. Strangers are only called like one.
fn masters(all: &[ServiceProcess], wanted: &[u32], strangers: &HashSet<u32>) -> Vec<Master> {
    let by_pid: HashMap<u32, &ServiceProcess> = all.iter().map(|one| (one.pid, one)).collect();
    let kinds: HashMap<u32, ServiceKind> = all
        .iter()
        .filter(|one| !strangers.contains(&one.pid))
        .filter_map(|one| Some((one.pid, kind_of(one)?)))
        .collect();
    let is_first = |process: &ServiceProcess, kind: ServiceKind| {
        let of_parent = kinds.get(&process.parent);
        of_parent != Some(&kind) || process.title().contains("master process")
    };
    let mut found: Vec<Master> = all
        .iter()
        .filter_map(|process| {
            let kind = *kinds.get(&process.pid)?;
            is_first(process, kind).then(|| Master {
                kind,
                process: process.clone(),
                workers: Vec::new(),
                parent: by_pid.get(&process.parent).map(|one| (*one).clone()),
            })
        })
        .filter(|master| wanted.is_empty() || wanted.contains(&master.process.pid))
        .collect();
    let places: HashMap<u32, usize> = found.iter().map(Master::pid).zip(0..).collect();
    for process in all {
        let Some(kind) = kinds
            .get(&process.pid)
            .filter(|kind| !is_first(process, **kind))
        else {
            continue;
        };
        // Up to the first of its kind.
        let mut at = process;
        while let Some(parent) = by_pid.get(&at.parent).filter(|_| !is_first(at, *kind)) {
            at = parent;
        }
        if let Some(master) = places.get(&at.pid) {
            found[*master].workers.push(process.clone());
        }
    }
    found
}

fn assemble(
    machine: MachineState,
    mut all: Vec<Seen>,
    mut blind: Vec<Blind>,
    time: Time,
) -> Snapshot {
    let mut sockets = chain::look_up(&mut all, time.part(0.25));
    // Who serves an application is told by who asks a pool for it; whom it asks, by its own files.
    let is_web = |kind| matches!(kind, ServiceKind::Nginx | ServiceKind::Apache);
    let mut links = chain::join(&all, is_web);
    let (apps, silent) = apps::find(&mut all, &links, time);
    releases::judge(&mut all, time);
    // An Apache executes applications itself, and asks whom they ask.
    links.retain(|link| all[link.from].service.kind == ServiceKind::Nginx);
    // Applications ask more sockets.
    sockets.extend(chain::look_up(&mut all, time.part(0.9)));
    blind.extend(unseen::silent("application", silent, time.budget));
    blind.extend(unseen::silent("directory of sockets", sockets, time.budget));
    links.extend(chain::join(&all, |kind| kind != ServiceKind::Nginx));
    links.sort_by_key(|link| link.from);
    chain::keep_time_wait(&mut all);
    let mut services: Vec<Service> = all.into_iter().map(|seen| seen.service).collect();
    requests::lay_over(&mut services, &links);
    for service in &mut services {
        service.limits.bind(&machine);
    }
    Snapshot {
        machine,
        services,
        links,
        apps,
        blind,
    }
}

/// Leaves out what the options do not ask for, but keeps whom the rest belongs to.
fn narrow(snapshot: &mut Snapshot, options: &CheckOptions) {
    let mut keep: Vec<bool> = vec![true; snapshot.services.len()];
    if let Some(name) = &options.pool {
        only_pool(snapshot, name);
        let has = |at: usize| !snapshot.services[at].pools.is_empty();
        keep = (0..keep.len())
            .map(|at| has(at) || linked(snapshot, at, &has))
            .collect();
    }
    if let Some(wanted) = &options.container {
        for (at, service) in snapshot.services.iter().enumerate() {
            let container = service.place.container.as_ref();
            keep[at] &= container.is_some_and(|container| container.is_named(wanted));
        }
    }
    if let Some(dir) = &options.app {
        snapshot.apps.retain(|app| app.is_around(dir));
        let php: Vec<usize> = snapshot.apps.iter().map(|app| app.service).collect();
        let has = |at: usize| php.contains(&at);
        for (at, kept) in keep.iter_mut().enumerate() {
            *kept &= has(at) || linked(snapshot, at, &has);
        }
    }
    chain::retain(snapshot, &keep);
}

/// Leaves out what belongs to other pools only. What may belong to any of them stays.
fn only_pool(snapshot: &mut Snapshot, name: &str) {
    let is = |pool: &String| pool == name;
    for service in &mut snapshot.services {
        service.pools.retain(|pool| is(&pool.name));
        service
            .logs
            .retain(|hits| hits.pool.as_ref().is_none_or(is));
    }
    let own = |pools: &[String]| pools.is_empty() || pools.iter().any(is);
    let (kept, others): (Vec<Link>, Vec<Link>) = std::mem::take(&mut snapshot.links)
        .into_iter()
        .partition(|link| link.pool.as_ref().is_none_or(is) && own(&link.from_pools));
    let leads = |links: &[Link], at: usize, to: &ListenEndpoint| {
        let mut links = links.iter();
        links.any(|link| link.from == at && link.by == *to)
    };
    for (at, service) in snapshot.services.iter_mut().enumerate() {
        let Some(nginx) = &mut service.nginx else {
            continue;
        };
        let passes = std::mem::take(&mut nginx.passes);
        let is_others = |pass: &Pass| {
            let ends = asks::endpoints_of(nginx, pass);
            let led = |links: &[Link]| ends.iter().any(|(to, _)| leads(links, at, to));
            led(&others) && !led(&kept)
        };
        let passes: Vec<Pass> = passes.into_iter().filter(|pass| !is_others(pass)).collect();
        nginx.passes = passes;
    }
    snapshot.links = kept;
    snapshot.apps.retain(|app| own(&app.pools));
}

/// Whether a service asks, or is asked by, one that a test holds for.
fn linked(snapshot: &Snapshot, at: usize, has: &dyn Fn(usize) -> bool) -> bool {
    snapshot
        .links
        .iter()
        .any(|link| (link.from == at && has(link.to)) || (link.to == at && has(link.from)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, exe: &str, title: &str) -> ServiceProcess {
        ServiceProcess {
            pid,
            parent,
            comm: exe.rsplit('/').next().unwrap_or_default().to_owned(),
            exe: exe.to_owned(),
            args: vec![title.to_owned()],
            ..ServiceProcess::default()
        }
    }

    #[test]
    fn first_processes_are_told_from_workers() {
        let all = [
            process(1, 0, "/sbin/init", "init"),
            process(10, 1, "/usr/sbin/nginx", "nginx: master process nginx"),
            process(11, 10, "/usr/sbin/nginx", "nginx: worker process"),
            process(
                12,
                10,
                "/usr/sbin/nginx (deleted)",
                "nginx: master process nginx",
            ),
            process(13, 12, "/usr/sbin/nginx", "nginx: worker process"),
            process(20, 1, "/usr/bin/redis-check-rdb", "redis-server *:6379"),
            process(
                30,
                1,
                "/usr/sbin/php-fpm8.2",
                "php-fpm: master process (/a)",
            ),
            process(31, 30, "/usr/sbin/php-fpm8.2", "php-fpm: pool www"),
            process(40, 1, "/bin/bash", "bash"),
        ];
        let mut all = all.to_vec();
        all[5].comm = "redis-server".into();
        let shown = |wanted: &[u32]| -> Vec<String> {
            let found = masters(&all, wanted, &HashSet::new());
            let line =
                |one: &Master| format!("{} {} {}", one.kind, one.process.pid, one.workers.len());
            found.iter().map(line).collect()
        };
        assert_eq!(
            shown(&[]),
            ["nginx 10 1", "nginx 12 1", "redis 20 0", "php-fpm 30 1"]
        );
        assert_eq!(shown(&[30]), ["php-fpm 30 1"]);
        assert_eq!(kind_named("pgbouncer"), Some(ServiceKind::Pgbouncer));
    }

    #[test]
    fn a_limit_that_the_machine_does_not_have_is_left_out() {
        let mut service = Service::new(ServiceKind::Redis, 1);
        service.limits.memory = Some(crate::snapshot::ResourceLimit {
            value: 8e9,
            source: crate::snapshot::SettingSource::Default,
        });
        let machine = MachineState {
            memory_bytes: 2e9,
            ..MachineState::default()
        };
        let time = Time::from_now(Duration::from_secs(5));
        let snapshot = assemble(machine, vec![Seen::new(service)], Vec::new(), time);
        assert_eq!(snapshot.services[0].limits.memory, None);
    }

    #[test]
    fn what_a_stranger_started_is_looked_at_by_itself() {
        let mut script = process(10, 1, "/bin/dash", "sh /usr/bin/redis-server");
        script.comm = "redis-server".into();
        let all = [
            script,
            process(11, 10, "/usr/bin/redis-server", "redis-server *:6379"),
        ];
        let pids = |strangers: &[u32]| -> Vec<u32> {
            let strangers = strangers.iter().copied().collect();
            let found = masters(&all, &[], &strangers);
            found.iter().map(Master::pid).collect()
        };
        assert_eq!(pids(&[]), [10]);
        assert_eq!(pids(&[10]), [11]);
    }

    #[test]
    fn a_pool_is_shown_with_what_is_its_own_and_what_is_shared() {
        let pools = "[shop]\nlisten = /run/shop.sock\npm.max_children = 7";
        let case = crate::rule::case::Case::healthy().pool_with(pools, "");
        let mut snapshot = case
            .nginx_with(
                "location ~ php",
                "location /shop {\n   fastcgi_pass unix:/run/shop.sock;\n  }\n  location ~ php",
            )
            .0;
        let mut link = snapshot.links[0].clone();
        link.pool = Some("shop".into());
        link.by = ListenEndpoint::Unix("/run/shop.sock".into());
        snapshot.links.push(link);
        // Redis is asked by www only, MariaDB by shop only, and PostgreSQL by nobody knows whom.
        snapshot.links[2].from_pools = vec!["shop".into()];
        snapshot.links[3].from_pools.clear();
        let mut app = snapshot.apps[0].clone();
        (app.root, app.pools) = ("/srv/shop".into(), vec!["shop".into()]);
        snapshot.apps.push(app);
        let mut app = snapshot.apps[0].clone();
        (app.root, app.pools) = ("/srv/any".into(), Vec::new());
        snapshot.apps.push(app);
        let options = CheckOptions {
            pool: Some("shop".into()),
            ..CheckOptions::default()
        };
        narrow(&mut snapshot, &options);
        let kinds: Vec<&str> = snapshot
            .services
            .iter()
            .map(|one| one.kind.name())
            .collect();
        assert_eq!(kinds, ["nginx", "php-fpm", "mysql", "postgresql"]);
        let roots: Vec<&str> = snapshot.apps.iter().map(|app| app.root.as_str()).collect();
        assert_eq!(roots, ["/srv/shop", "/srv/any"]);
        let nginx = snapshot.services[0].nginx.as_ref().expect("nginx");
        let passes: Vec<&str> = nginx
            .passes
            .iter()
            .map(|one| one.target.text.as_str())
            .collect();
        assert_eq!(passes, ["http://app", "unix:/run/shop.sock"]);
    }
}
