//! Everything about one service.

mod logs;
mod others;

use super::{Master, asks, containers, memory, php, queues};
use crate::chain::Seen;
use crate::config::{self, IniPlaces, Reader, Subject};
use crate::files::{self, Files, Root};
use crate::process::{self, Marks, Program, program};
use crate::snapshot::{
    Blind, ListenEndpoint, Listener, NetworkPlace, Service, ServiceKind, ServiceProcess, Settings,
};
use crate::sockets::{self, Net};
use kneepoint_linux::process::number_inside;
use kneepoint_model::{Address, LogFormat};
use kneepoint_telemetry::Waits;
use others::{log_of, read_others};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// What is searched in the file of a program: first its version. The readers of configuration know the others by their
/// order. Names of directives are in every program that reads them, whoever built it.
fn marks(kind: ServiceKind) -> Marks {
    let (words, own): (&[&str], &[&str]) = match kind {
        ServiceKind::Nginx => (
            &[
                "nginx/",
                "--conf-path=",
                "--prefix=",
                "--error-log-path=",
                "--http-log-path=",
            ],
            &["worker_connections"],
        ),
        ServiceKind::Fpm => (
            &[
                "X-Powered-By: PHP/",
                "--with-config-file-path=",
                "--with-config-file-scan-dir=",
            ],
            &["pm.max_children", "fpm-fcgi"],
        ),
        ServiceKind::Apache => (&["Apache/"], &["AllowOverride", "ServerRoot"]),
        // Messages in it name older versions: "before upgrading to PostgreSQL 9.1".
        ServiceKind::Postgresql => (&["postgres (PostgreSQL) "], &["shared_buffers"]),
        ServiceKind::Pgbouncer => (&["PgBouncer "], &["default_pool_size"]),
        ServiceKind::Haproxy => (&[], &["maxconn"]),
        ServiceKind::Redis => (&[], &["maxmemory-policy"]),
        // Names of groups of options that it reads: those of its version, and of its product.
        ServiceKind::Mysql => (
            &["mysqld-", "mariadb-"],
            &["table_open_cache", "innodb_buffer_pool"],
        ),
        ServiceKind::Unit => (&["Unit/"], &[]),
        ServiceKind::FrankenPhp => (&[], &[]),
    };
    Marks { words, own }
}

/// Programs that run others: what they hold says nothing of what they run.
fn runs_others(program: &str) -> bool {
    ["qemu-", "rosetta", "ld-", "ld."]
        .iter()
        .any(|name| program.starts_with(name))
}

/// What came of looking at a service.
pub(super) enum Gathered {
    /// Everything about it.
    Seen(Box<Seen>),
    /// It ended meanwhile.
    Gone,
    /// It is only called so: its program is another.
    Other,
}

/// Reads everything about a service.
pub(super) fn gather(master: &Master, now_s: f64) -> Gathered {
    let program = program(master.process.pid, marks(master.kind));
    if program.is_other() && !runs_others(master.process.program()) {
        return Gathered::Other;
    }
    let seen = whole(master, program, now_s);
    seen.map_or(Gathered::Gone, |seen| Gathered::Seen(Box::new(seen)))
}

/// Everything about a service. `None` when it ended meanwhile.
fn whole(master: &Master, program: Program, now_s: f64) -> Option<Seen> {
    let pid = master.process.pid;
    let mut gather = Gather::new(master, program, now_s)?;
    gather.place();
    gather.sockets();
    gather.processes();
    gather.configuration();
    queues::sample(gather.service());
    gather.read_logs();
    gather.read_slow_logs();
    gather.kernel();
    // What ended while it was read is half of something: nobody is served by a judgement of that.
    process::namespace(pid, "net")?;
    std::path::Path::new(&format!("/proc/{pid}/root"))
        .exists()
        .then_some(())?;
    Some(gather.seen)
}

struct Gather<'a> {
    master: &'a Master,
    now_s: f64,
    program: Program,
    seen: Seen,
    /// What a container was started with.
    record: containers::Record,
    /// Logs to look at.
    logs: Vec<(String, LogFormat)>,
    /// The slow logs of pools, by the positions of those.
    slow_logs: Vec<(usize, String)>,
    /// When the settings that run were read, in seconds since 1970: no later than that, where it is not known.
    read_s: f64,
}

impl<'a> Gather<'a> {
    fn new(master: &'a Master, program: Program, now_s: f64) -> Option<Self> {
        let pid = master.process.pid;
        let mut service = Service::new(master.kind, pid);
        service.program.clone_from(&master.process.exe);
        service.version = program.word(0).unwrap_or_default().to_owned();
        service.age_s = now_s - master.process.started_s;
        let workers = master.workers.iter();
        service.cpu_s = master.process.cpu_s + workers.map(|one| one.cpu_s).sum::<f64>();
        service.loaded_s = begun_s(master).max(master.process.started_s);
        let root = match Root::of(pid) {
            Ok(root) => Some(root),
            Err(why) => {
                process::namespace(pid, "net")?;
                let what = format!("the files of {} (process {pid})", master.kind);
                let blind = Blind::new(what, why.to_string(), "run the check as root");
                service.blind.push(blind.weighing());
                None
            }
        };
        Some(Self {
            master,
            now_s,
            program,
            seen: Seen {
                root,
                ..Seen::new(service)
            },
            record: containers::Record::default(),
            logs: Vec::new(),
            slow_logs: Vec::new(),
            read_s: master.process.started_s,
        })
    }

    fn service(&mut self) -> &mut Service {
        &mut self.seen.service
    }

    fn pid(&self) -> u32 {
        self.master.process.pid
    }

    fn place(&mut self) {
        let pid = self.pid();
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let mut container = process::container(&groups);
        if let Some(container) = &mut container {
            self.record = containers::describe(container);
        }
        let net = process::namespace(pid, "net").unwrap_or(0);
        self.service().place = NetworkPlace {
            unit: if container.is_some() {
                None
            } else {
                process::unit(&groups)
            },
            container,
            net,
            other_net: process::namespace(std::process::id(), "net") != Some(net),
            other_root: !process::shares_root(pid),
            other_files: false,
            pid_within: number_inside(pid).filter(|own| *own != pid),
        };
        self.service().limits = process::limits(
            self.master.workers.first().map_or(pid, |one| one.pid),
            &groups,
        );
    }

    fn sockets(&mut self) {
        let pid = self.pid();
        self.seen.net = Net::of(pid);
        let hosts = self
            .seen
            .root
            .as_ref()
            .and_then(|root| root.read("/etc/hosts").ok());
        self.seen.hosts = hosts.map_or_else(Vec::new, |content| asks::hosts(&content.text()));
        let mut denied = true;
        let mut asked = Vec::new();
        let mut listens: BTreeSet<ListenEndpoint> = BTreeSet::new();
        let processes = std::iter::once(&self.master.process).chain(&self.master.workers);
        for process in processes {
            let Some(inodes) = sockets::inodes(process.pid) else {
                continue;
            };
            denied = false;
            for inode in inodes {
                listens.extend(self.seen.net.listeners.get(&inode).cloned());
                asked.extend(self.seen.net.connected.get(&inode).cloned());
            }
        }
        let port = |one: &ListenEndpoint| match one {
            ListenEndpoint::Tcp(_, port) => Some(*port),
            ListenEndpoint::Unix(_) => None,
        };
        let all = self.seen.net.listeners.values();
        self.seen.service.ports_taken = all.filter_map(port).collect();
        let own_ports: HashSet<u16> = listens.iter().filter_map(port).collect();
        let mut peers: Vec<ListenEndpoint> = asked
            .into_iter()
            .filter(|(port, _)| !own_ports.contains(port))
            .map(|(_, peer)| peer)
            .collect();
        peers.sort();
        peers.dedup();
        let asks = peers
            .into_iter()
            .map(|peer| (peer, sockets::CONNECTED.to_owned()));
        self.seen.service.asks.extend(asks);
        let listens = listens.into_iter().map(|endpoint| Listener {
            endpoint,
            queue: None,
        });
        self.seen.service.listens = listens.collect();
        if denied {
            let what = format!("the sockets of {} (process {pid})", self.master.kind);
            self.service().blind.push(Blind::new(
                what,
                "they may not be read",
                "run the check as root",
            ));
        }
    }

    fn processes(&mut self) {
        let service = &self.seen.service;
        let mut waits = (self.master.kind == ServiceKind::Fpm).then(|| {
            let listens = service.listens.iter();
            let listen: Vec<Address> = listens
                .filter_map(|one| queues::address(&one.endpoint))
                .collect();
            Waits::of(&queues::tier(service, &listen))
        });
        let seen = self.master.workers.iter().map(|one| {
            let memory = process::memory_size(one.pid);
            ServiceProcess {
                pid: one.pid,
                title: one.title().chars().take(60).collect(),
                pss: memory.map(|memory| memory.pss as f64),
                private: memory.map(|memory| memory.private as f64),
                busy: waits.as_mut().and_then(|waits| is_busy(waits, one.pid)),
            }
        });
        let seen = seen.collect();
        self.service().processes = seen;
        if self.master.kind == ServiceKind::Redis {
            let memory = process::memory_size(self.pid());
            self.service().pss = memory.map(|memory| memory.pss as f64);
        }
    }

    fn configuration(&mut self) {
        let Some(root) = self.seen.root.take() else {
            return;
        };
        let pid = self.pid();
        let environment = self.environment();
        let env = |name: &str| {
            let mut all = environment.iter();
            all.find(|(key, _)| key == name)
                .map(|(_, value)| value.clone())
        };
        let args = self.arguments();
        let cwd = process::working_dir(pid);
        let subject = Subject {
            files: &root,
            args: &args,
            cwd: &cwd,
            env: &env,
            loaded_s: self.seen.service.loaded_s,
        };
        match self.master.kind {
            ServiceKind::Nginx => self.nginx(&subject),
            ServiceKind::Fpm => self.fpm(&subject),
            kind => self.others(kind, &subject),
        }
        let main = self.seen.service.files.first();
        let differs = main.is_some_and(|main| {
            let ours = Root::at("/")
                .ok()
                .and_then(|ours| ours.identity(&main.path));
            ours != root.identity(&main.path)
        });
        let place = &mut self.service().place;
        place.other_files = differs && place.container.is_none();
        self.seen.root = Some(root);
    }

    /// The environment it was started with. PHP-FPM writes over its own: then that of whoever started it in the same
    /// container, and what the container was given.
    fn environment(&self) -> Vec<(String, String)> {
        let mut all = process::environment(self.pid());
        if all.is_empty() {
            let parent = self.master.parent.as_ref();
            let near = parent.filter(|parent| {
                parent.pid != 1
                    && process::namespace(parent.pid, "mnt")
                        == process::namespace(self.pid(), "mnt")
            });
            all.extend(near.map_or_else(Vec::new, |parent| process::environment(parent.pid)));
        }
        all.extend(self.record.env.iter().cloned());
        all
    }

    /// Its command line. A master of nginx keeps it behind its own words, in one piece; Redis keeps nothing of it, but who
    /// keeps the container may.
    fn arguments(&self) -> Vec<String> {
        let args = &self.master.process.args;
        if self.master.kind == ServiceKind::Redis && args.len() == 1 {
            // Its file may be called otherwise: Debian has redis-check-rdb, a link's target.
            let names = ["redis-server", "valkey-server", "keydb-server"];
            let mut lines = names.iter().filter_map(|name| self.record.line_of(name));
            return lines.next().unwrap_or_else(|| args.clone());
        }
        match args
            .first()
            .and_then(|title| title.split_once("master process "))
        {
            Some((_, line)) if self.master.kind == ServiceKind::Nginx => arguments_of_title(line),
            _ => args.clone(),
        }
    }

    fn nginx(&mut self, subject: &Subject<'_>) {
        let found = config::nginx(subject, &self.program);
        let log = found.error_log.as_deref();
        self.logs_of_nginx(&found.settings, &found.nginx, log);
        let service = &mut self.seen.service;
        service.asks.extend(asks::of_nginx(&found.nginx));
        service.settings = found.settings;
        service.nginx = Some(found.nginx);
        service.files = found.files;
        service.blind.extend(found.blind);
        self.seen.roots = found.roots;
        // Its processes serve until they are told to read their files anew.
        self.read_s = self.seen.service.loaded_s;
    }

    fn fpm(&mut self, subject: &Subject<'_>) {
        let pid = self.pid();
        let mut reader = Reader::new(subject);
        let title = self.master.process.title();
        let named = title
            .split_once("master process (")
            .and_then(|(_, rest)| rest.rsplit_once(')'));
        let exe = &self.master.process.exe;
        let main = named.map_or("/usr/local/etc/php-fpm.conf", |(path, _)| path);
        let main = files::absolute(subject.cwd, main);
        let prefix = match exe.rfind("/sbin/") {
            Some(at) if at > 0 => exe[..at].to_owned(),
            _ => files::parent(&main).to_owned(),
        };
        let fpm = config::fpm(&mut reader, &main, &prefix, subject.env);
        // Files of pools may be too many to be read; those of PHP itself are read all the same.
        let (mut files, mut blind) = reader.done();
        let mut reader = Reader::new(subject);
        let (dir, scan) = (self.program.word(1), self.program.word(2));
        let places = php::places(pid);
        let places = places.unwrap_or_else(|| IniPlaces::of(subject.env, dir, scan, exe));
        let ini = config::php_ini(&mut reader, &places, subject.env);
        let (read, unread) = reader.done();
        files.extend(read);
        blind.extend(unread);
        let mut php = php::mapped(pid);
        let ini = Arc::new(ini);
        php.ini = Settings::within(&ini);
        php.scanned = Some(places.dirs);
        php.included = Some(fpm.included);
        let service = &mut self.seen.service;
        service.settings = fpm.global;
        service.pools = fpm.pools;
        let mut workers = php::by_title(&service.processes);
        for pool in &mut service.pools {
            pool.php = ini.under(&pool.php);
            let title = format!("php-fpm: pool {}", pool.name);
            pool.workers = workers.remove(title.as_str()).unwrap_or_default();
            self.seen.roots.extend(
                pool.settings
                    .text("chdir")
                    .filter(|dir| *dir != "/")
                    .map(str::to_owned),
            );
        }
        service.php = Some(php);
        // Its own file of its number is written anew at a reload.
        let pid_file = service
            .settings
            .text("pid")
            .map(|path| files::absolute(subject.cwd, path));
        let written = pid_file.and_then(|path| subject.files.tail(&path, 16).ok());
        let written = written.map_or(0.0, |content| content.modified_s);
        service.loaded_s = written.max(service.loaded_s);
        self.read_s = self.read_s.max(written);
        for file in &mut files {
            file.newer &= file.modified_s > service.loaded_s + 1.0;
        }
        service.files = files;
        service.blind.extend(blind);
        memory::overlay(service);
        self.logs_of_fpm(&prefix);
    }

    fn others(&mut self, kind: ServiceKind, subject: &Subject<'_>) {
        let mut reader = Reader::new(subject);
        let of = (&self.program, self.seen.service.listens.as_slice());
        let found = read_others(kind, subject, &mut reader, of);
        let hidden = found.settings.is_none();
        let settings = found.settings.unwrap_or_default();
        let mut data = found.data;
        if kind == ServiceKind::Mysql {
            data = Some(settings.or("datadir", "/var/lib/mysql").text);
        }
        let is_contained = self.seen.service.place.container.is_some();
        let log = log_of(kind, &settings, (hidden, is_contained));
        let log = log.filter(|(path, _)| !path.is_empty());
        self.logs
            .extend(log.map(|(path, format)| (files::absolute(subject.cwd, path), format)));
        if kind == ServiceKind::Apache {
            self.logs_of_apache(&settings, subject.cwd);
            let service = &mut self.seen.service;
            service.php = Some(php::mapped(self.master.process.pid));
            let served = settings.get("documentroot");
            let others = served.into_iter().flat_map(|value| &value.replaced);
            let others = others.map(|(root, _)| root.clone());
            self.seen.roots = served
                .map(|value| value.text.clone())
                .into_iter()
                .chain(others)
                .collect();
        }
        let (mut files, blind) = reader.done();
        // Some read their files again at a signal, and nothing outside tells when; what SET PERSIST writes holds at once.
        let rereads = matches!(kind, ServiceKind::Postgresql | ServiceKind::Pgbouncer);
        for file in &mut files {
            let is_persisted = file.path.ends_with(config::MYSQL_PERSISTED);
            file.newer &= !rereads && !is_persisted;
        }
        self.seen.hands = found.hands;
        let service = &mut self.seen.service;
        service.data_bytes = data.and_then(|dir| asks::data_bytes(subject.files, &dir, kind));
        service.asks.extend(found.asks);
        service.settings = settings;
        service.settings_hidden = hidden;
        service.files = files;
        service.blind.extend(blind);
    }

    fn kernel(&mut self) {
        let other = self.seen.service.place.other_net;
        match process::sysctls(self.pid(), other) {
            Ok(settings) => self.service().kernel = settings,
            Err(why) => {
                let what = format!("the kernel's settings for {}", self.seen.service.name());
                self.service()
                    .blind
                    .push(Blind::new(what, why, "run the check as root"));
            }
        }
    }
}

/// When the workers that take requests began, in seconds since 1970: 0 where there are none. A reload starts them anew, so
/// what runs was read no later than the oldest of them began; those of before only finish what they have.
fn begun_s(master: &Master) -> f64 {
    let workers = master.workers.iter();
    // An old one of HAProxy does not say that it is old: the newest takes the connections.
    let begun = if master.kind == ServiceKind::Haproxy {
        workers.map(|one| one.started_s).reduce(f64::max)
    } else {
        let stays = |one: &&process::ServiceProcess| !one.title().contains("is shutting down");
        let staying = workers.filter(stays);
        staying.map(|one| one.started_s).reduce(f64::min)
    };
    begun.unwrap_or(0.0)
}

/// Whether a worker of PHP-FPM serves a request; `None` where that cannot be told. One that waits on a connection which nginx
/// keeps open serves none.
fn is_busy(waits: &mut Waits, pid: u32) -> Option<bool> {
    let is_busy = process::is_busy(pid)?;
    Some(is_busy && !waits.look(pid).is_some_and(|label| Waits::is_idle(&label)))
}

/// The arguments of a title, in which blanks no longer tell where one ends.
fn arguments_of_title(line: &str) -> Vec<String> {
    let mut args: Vec<String> = Vec::new();
    for word in line.split(' ').filter(|word| !word.is_empty()) {
        let behind_flag = args.len() > 1 && args[args.len() - 2] == "-g";
        match args.last_mut() {
            Some(last) if behind_flag && !last.ends_with(';') => {
                last.push(' ');
                last.push_str(word);
            }
            _ => args.push(word.to_owned()),
        }
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_that_only_finish_do_not_tell_when_files_were_read() {
        let begun = |kind, titles: &[(&str, f64)]| {
            let worker = |&(title, started_s): &(&str, f64)| process::ServiceProcess {
                args: vec![title.to_owned()],
                started_s,
                ..process::ServiceProcess::default()
            };
            begun_s(&Master {
                kind,
                process: process::ServiceProcess::default(),
                workers: titles.iter().map(worker).collect(),
                parent: None,
            })
        };
        let nginx = [
            ("nginx: worker process is shutting down", 100.0),
            ("nginx: worker process", 205.0),
            ("nginx: worker process", 200.0),
        ];
        assert_eq!(begun(ServiceKind::Nginx, &nginx), 200.0);
        let haproxy = [("haproxy -Ws", 100.0), ("haproxy -sf 7 -Ws", 200.0)];
        assert_eq!(begun(ServiceKind::Haproxy, &haproxy), 200.0);
        assert_eq!(begun(ServiceKind::Redis, &[]), 0.0);
    }

    #[test]
    fn a_title_of_nginx_is_taken_apart() {
        let args = arguments_of_title("/usr/sbin/nginx -g daemon on; master_process on; -c /a");
        assert_eq!(
            args,
            [
                "/usr/sbin/nginx",
                "-g",
                "daemon on;",
                "master_process",
                "on;",
                "-c",
                "/a"
            ]
        );
    }
}
