//! Finds the server programs of this machine and reads what is in force in each.

mod apps;
pub(crate) mod asks;
mod containers;
mod gather;
mod memory;
mod php;
pub(crate) mod queues;
mod unseen;

use crate::chain::{self, Seen};
use crate::process::{self, ServiceProcess};
use crate::snapshot::{Blind, MachineState, ServiceKind, Snapshot};
use std::collections::HashMap;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

/// Most services that are looked at.
const SERVICES: usize = 500;

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
    let deadline = Instant::now() + options.budget;
    let machine = machine();
    let found = masters(&process::all(), &options.pids);
    let mut blind = nobody(&found, options);
    blind.extend(unseen::hidden());
    let (send, receive) = mpsc::channel();
    let mut waiting: HashMap<u32, ServiceKind> = HashMap::new();
    for master in found.into_iter().take(SERVICES) {
        let send = send.clone();
        waiting.insert(master.process.pid, master.kind);
        // A thread that hangs in a file system of the container's stays behind; the check goes on without it.
        std::thread::spawn(move || {
            let seen = gather::gather(&master, machine.now_s);
            let _ = send.send((master.process.pid, seen));
        });
    }
    drop(send);
    let mut all = Vec::new();
    let mut foreign = Vec::new();
    while !waiting.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        match receive.recv_timeout(left) {
            Ok((pid, seen)) => {
                let kind = waiting.remove(&pid);
                let is_foreign = seen.is_none() && unseen::is_foreign(pid);
                foreign.extend(kind.filter(|_| is_foreign).map(|kind| (kind, pid)));
                all.extend(seen);
            }
            Err(_) => break,
        }
    }
    blind.extend(
        waiting
            .into_iter()
            .map(|(pid, kind)| unseen::too_late(kind, pid, options.budget)),
    );
    blind.extend(unseen::of_others(foreign));
    all.sort_by_key(|seen: &Seen| (seen.service.kind, seen.service.pid));
    let mut snapshot = assemble(machine, all, blind);
    let missing = unseen::missing(&snapshot, options);
    snapshot.blind.extend(missing);
    narrow(&mut snapshot, options);
    snapshot
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
        "unitd" => Some(ServiceKind::Unit),
        "frankenphp" => Some(ServiceKind::FrankenPhp),
        name if name.starts_with("php-fpm") => Some(ServiceKind::Fpm),
        _ => None,
    }
}

/// The first processes of every service: those that another of their kind did not start. A master that another started
/// to take its place says so in its title.
fn masters(all: &[ServiceProcess], wanted: &[u32]) -> Vec<Master> {
    let by_pid: HashMap<u32, &ServiceProcess> = all.iter().map(|one| (one.pid, one)).collect();
    let kinds: HashMap<u32, ServiceKind> = all
        .iter()
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
        if let Some(master) = found.iter_mut().find(|master| master.process.pid == at.pid) {
            master.workers.push(process.clone());
        }
    }
    found
}

fn assemble(machine: MachineState, mut all: Vec<Seen>, blind: Vec<Blind>) -> Snapshot {
    let apps = apps::find(&mut all);
    let links = chain::join(&all);
    chain::keep_time_wait(&mut all);
    Snapshot {
        machine,
        services: all.into_iter().map(|seen| seen.service).collect(),
        links,
        apps,
        blind,
    }
}

/// Leaves out what the options do not ask for, but keeps whom the rest belongs to.
fn narrow(snapshot: &mut Snapshot, options: &CheckOptions) {
    let mut keep: Vec<bool> = vec![true; snapshot.services.len()];
    if let Some(name) = &options.pool {
        let has = |at: usize| {
            snapshot.services[at]
                .pools
                .iter()
                .any(|pool| pool.name == *name)
        };
        keep = (0..keep.len())
            .map(|at| has(at) || linked(snapshot, at, &has))
            .collect();
    }
    if let Some(wanted) = &options.container {
        for (at, service) in snapshot.services.iter().enumerate() {
            let fits = service.place.container.as_ref().is_some_and(|container| {
                let names = [&container.name, &container.compose_service];
                container.id.starts_with(wanted.as_str())
                    || names
                        .into_iter()
                        .flatten()
                        .any(|name| name.trim_start_matches('/').starts_with(wanted.as_str()))
            });
            keep[at] &= fits;
        }
    }
    if let Some(dir) = &options.app {
        let dir = dir.trim_end_matches('/');
        snapshot
            .apps
            .retain(|app| app.root.starts_with(dir) || dir.starts_with(&app.root));
        let php: Vec<usize> = snapshot.apps.iter().map(|app| app.service).collect();
        let has = |at: usize| php.contains(&at);
        for (at, kept) in keep.iter_mut().enumerate() {
            *kept &= has(at) || linked(snapshot, at, &has);
        }
    }
    if let Some(name) = &options.pool {
        for service in &mut snapshot.services {
            service.pools.retain(|pool| pool.name == *name);
        }
    }
    chain::retain(snapshot, &keep);
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
            let found = masters(&all, wanted);
            let line =
                |one: &Master| format!("{} {} {}", one.kind, one.process.pid, one.workers.len());
            found.iter().map(line).collect()
        };
        assert_eq!(
            shown(&[]),
            ["nginx 10 1", "nginx 12 1", "redis 20 0", "php-fpm 30 1"]
        );
        assert_eq!(shown(&[30]), ["php-fpm 30 1"]);
    }
}
