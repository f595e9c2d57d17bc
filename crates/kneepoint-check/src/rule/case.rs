//! Stacks for tests of rules, made from configuration as people write it.

use super::{CheckFinding, CheckRule, Severity};
use crate::config::{self, IniPlaces, Reader, Subject};
use crate::files::Memory;
use crate::process::Program;
use crate::snapshot::{
    Link, ListenEndpoint, MachineState, PhpService, ServedApp, Service, ServiceKind,
    ServiceProcess, SettingSource, Settings, Snapshot,
};
use kneepoint_model::{AppSwitch, SwitchKind};
use std::sync::Arc;

/// A stack.
#[derive(Debug, Clone)]
pub(crate) struct Case(pub(crate) Snapshot);

/// A pool that nothing is wrong with.
const POOL: &str = "[global]\nprocess_control_timeout = 10s\nemergency_restart_threshold = 10\nemergency_restart_interval = 1m\n\
    [www]\nlisten = /run/php.sock\nlisten.backlog = 511\npm = static\npm.max_children = 20\npm.max_requests = 0\n\
    request_terminate_timeout = 50s\nrequest_slowlog_timeout = 5s\nslowlog = /var/log/slow.log\n\
    pm.status_path = /status\npm.status_listen = 127.0.0.1:9001\n";
/// The same of php.ini.
const INI: &str = "zend_extension=opcache.so\nopcache.enable=1\nopcache.memory_consumption=256\nopcache.interned_strings_buffer=32\n\
    opcache.max_accelerated_files=20000\nopcache.validate_timestamps=0\nmemory_limit=128M\ndisplay_errors=Off\n";
/// The same of nginx.
const NGINX: &str = "worker_processes auto;\nworker_rlimit_nofile 16384;\nevents {\n worker_connections 4096;\n}\n\
    http {\n sendfile on;\n keepalive_timeout 65;\n keepalive_requests 1000;\n access_log /l buffer=64k flush=1s;\n \
    gzip on;\n gzip_comp_level 5; gzip_types application/json;\n upstream app {\n  server 10.0.0.2:80;\n  keepalive 64;\n }\n server {\n  listen 80;\n  \
    location / {\n   proxy_http_version 1.1;\n   proxy_set_header Connection \"\";\n   proxy_pass http://app;\n  }\n  \
    location ~ php {\n   fastcgi_pass unix:/run/php.sock;\n  }\n }\n}\n";

impl Case {
    /// nginx, PHP-FPM, Redis, MariaDB and PostgreSQL that nothing is wrong with.
    pub(crate) fn healthy() -> Self {
        let machine = MachineState {
            cores: 4.0,
            memory_bytes: 16e9,
            available_bytes: 12e9,
            now_s: 1000.0,
        };
        let kinds = [
            ServiceKind::Nginx,
            ServiceKind::Fpm,
            ServiceKind::Redis,
            ServiceKind::Mysql,
            ServiceKind::Postgresql,
        ];
        let services = kinds.map(|kind| {
            let mut service = Service::new(kind, 10 + kind as u32);
            service.limits.files = Some(65_536.0);
            service.limits.allowed_cores = Some(4.0);
            (service.age_s, service.cpu_s) = (3600.0, 360.0);
            for (name, value) in [
                ("net.core.somaxconn", "4096"),
                ("net.ipv4.ip_local_port_range", "1024 65535"),
                ("net.ipv4.tcp_tw_reuse", "1"),
                ("fs.file-nr", "1000 0 1000000"),
                ("transparent_hugepage", "madvise"),
            ] {
                service
                    .kernel
                    .set(name, value, SettingSource::Kernel { path: name.into() });
            }
            service
        });
        let link = |from, to| Link {
            from,
            to,
            pool: (to == 1).then(|| "www".to_owned()),
            from_pools: Vec::from_iter((from == 1).then(|| "www".to_owned())),
            by: ListenEndpoint::Unix("/run/php.sock".into()),
            how: "/etc/nginx/nginx.conf:1".into(),
        };
        let links = vec![link(0, 1), link(1, 2), link(1, 3), link(1, 4)];
        let app = ServedApp {
            root: "/srv/app".into(),
            service: 1,
            pools: vec!["www".into()],
            php_files: 500,
            laravel_cached: Some((true, true)),
            composer_optimized: Some(true),
            ..ServedApp::default()
        };
        let snapshot = Snapshot {
            machine,
            services: services.into(),
            links,
            apps: vec![app],
            blind: Vec::new(),
        };
        let case = Self(snapshot).nginx(NGINX).fpm(POOL, INI);
        case.set(2, "maxmemory", "1gb")
            .set(2, "maxmemory-policy", "allkeys-lru")
            .set(2, "maxclients", "10000")
            .set(2, "save", "")
            .set(3, "innodb_buffer_pool_size", "4G")
            .set(3, "max_connections", "200")
            .set(3, "slow_query_log", "1")
            .set(4, "shared_buffers", "4GB")
            .set(4, "max_connections", "100")
            .set(4, "idle_in_transaction_session_timeout", "10s")
    }

    /// nginx with this configuration.
    pub(crate) fn nginx(mut self, text: &str) -> Self {
        let files = Memory::of(&[("/etc/nginx/nginx.conf", text)]);
        let found = config::nginx(&subject(&files), &Program::default());
        assert!(found.blind.is_empty(), "{:?}", found.blind);
        let service = &mut self.0.services[0];
        service.settings = found.settings;
        service.nginx = Some(found.nginx);
        service.files = found.files;
        service.version = "1.22.1".into();
        self
    }

    /// nginx with a line of its configuration instead of another.
    pub(crate) fn nginx_with(self, old: &str, new: &str) -> Self {
        assert!(NGINX.contains(old), "{old}");
        self.nginx(&NGINX.replace(old, new))
    }

    /// PHP-FPM with these files.
    pub(crate) fn fpm(mut self, pool: &str, ini: &str) -> Self {
        let files = Memory::of(&[
            ("/etc/php/php-fpm.conf", pool),
            ("/etc/php/conf.d/a.ini", ini),
        ]);
        let subject = subject(&files);
        let mut reader = Reader::new(&subject);
        let fpm = config::fpm(&mut reader, "/etc/php/php-fpm.conf", "/etc", subject.env);
        let places = IniPlaces {
            files: Vec::new(),
            dirs: vec!["/etc/php/conf.d".into()],
            told: true,
        };
        let service = &mut self.0.services[1];
        service.settings = fpm.global;
        service.pools = fpm.pools;
        let ini = Arc::new(config::php_ini(&mut reader, &places, subject.env));
        for pool in &mut service.pools {
            pool.php = ini.under(&pool.php);
        }
        service.php = Some(PhpService {
            loaded: [("opcache".to_owned(), "/lib/opcache.so".to_owned())].into(),
            maps_seen: true,
            opcache_bytes: Some(268_435_456.0),
            opcache: None,
            releases: Vec::new(),
            ini: Settings::within(&ini),
            scanned: Some(places.dirs),
            included: Some(fpm.included),
        });
        service.files = reader.done().0;
        service.version = "8.2.36".into();
        self
    }

    /// PHP-FPM with lines added to those of a pool that nothing is wrong with, and to php.ini.
    pub(crate) fn pool_with(self, pool: &str, ini: &str) -> Self {
        self.fpm(&format!("{POOL}{pool}\n"), &format!("{INI}{ini}\n"))
    }

    /// A setting of a service: 0 is nginx, 1 PHP-FPM, 2 Redis, 3 MariaDB, 4 PostgreSQL.
    pub(crate) fn set(mut self, service: usize, name: &str, value: &str) -> Self {
        self.0.services[service]
            .settings
            .set(name, value, SettingSource::file("/etc/x.conf", 1));
        self
    }

    /// A setting of the kernel, for a service.
    pub(crate) fn kernel(mut self, service: usize, name: &str, value: &str) -> Self {
        let source = SettingSource::Kernel {
            path: format!("/proc/sys/{name}"),
        };
        self.0.services[service].kernel.set(name, value, source);
        self
    }

    /// Workers of the pool with this much memory each, none of it shared.
    pub(crate) fn workers(mut self, count: u32, pss: f64, busy: bool) -> Self {
        let worker = |pid| ServiceProcess {
            pid,
            title: "php-fpm: pool www".into(),
            pss: Some(pss),
            private: Some(pss),
            busy: Some(busy),
        };
        let workers: Vec<ServiceProcess> = (100..100 + count).map(worker).collect();
        self.0.services[1].processes.clone_from(&workers);
        self.0.services[1].pools[0].workers = workers;
        self
    }

    /// OPcache with these numbers, beside those of one that has room.
    pub(crate) fn opcache(
        self,
        change: impl FnOnce(&mut kneepoint_profiler::OpcacheState),
    ) -> Self {
        self.with(|snapshot| {
            let mut state = kneepoint_profiler::OpcacheState {
                free_bytes: 128 << 20,
                scripts: 500,
                keys: 700,
                most_keys: 32_531,
                strings: Some((4 << 20, 32 << 20)),
                ..Default::default()
            };
            change(&mut state);
            let php = snapshot.services[1].php.as_mut().expect("PHP");
            php.opcache = Some(state);
        })
    }

    /// A switch that the application sets, in line 4 of a file of its own.
    pub(crate) fn switched(kind: SwitchKind, name: &str, file: &str) -> Self {
        let switch = AppSwitch {
            kind,
            name: name.to_owned(),
            value: "x".to_owned(),
            file: file.to_owned(),
            line: 4,
            instead: None,
        };
        Self::healthy().with(|snapshot| snapshot.apps[0].switches.push(switch))
    }

    /// Anything else.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Snapshot)) -> Self {
        change(&mut self.0);
        self
    }
}

fn subject<'a>(files: &'a Memory) -> Subject<'a> {
    Subject {
        files,
        args: &[],
        cwd: "/",
        env: &|_| None,
        loaded_s: 200.0,
    }
}

/// A rule is silent on the healthy stack, and says on each sick one how bad it is, with these words in what it says.
#[track_caller]
pub(crate) fn check(rule: &CheckRule, sick: &[(Case, Severity, &str)]) {
    let found = run(rule, &Case::healthy().0);
    assert!(found.is_empty(), "on a healthy stack: {found:#?}");
    for (case, severity, words) in sick {
        let found = run(rule, &case.0);
        let said = format!("{found:#?}");
        let told = found
            .iter()
            .any(|one| one.severity == *severity && format!("{one:?}").contains(words));
        assert!(told, "expected {severity:?} with `{words}` in: {said}");
        for finding in &found {
            assert!(
                !finding.seen.is_empty() && !finding.cost.is_empty(),
                "{finding:#?}"
            );
            assert!(
                !finding.unless.is_empty() && !finding.fix.text.is_empty(),
                "{finding:#?}"
            );
            assert!(
                one_a_line(finding, &case.0),
                "several directives in a line: {finding:#?}"
            );
        }
    }
}

/// Whether every line that is to be written holds one directive, and nothing that is none. Lines of nginx end where their
/// semicolons say.
fn one_a_line(finding: &CheckFinding, snapshot: &Snapshot) -> bool {
    let kind = snapshot.services.get(finding.service).map(|one| one.kind);
    if matches!(kind, None | Some(ServiceKind::Nginx | ServiceKind::Fpm)) {
        return true;
    }
    let behind = finding.fix.text.rsplit_once(": ").map(|(_, line)| line);
    let is_line = |line: &&str| !line.ends_with('.');
    let mut lines = finding.fix.written().chain(behind).filter(is_line);
    lines.all(|line| {
        !line.contains([',', '(']) && !line.contains(" and ") && line.matches(" = ").count() < 2
    })
}

/// The healthy stack, and beside it an Apache with these directives at `/etc/apache2/a.conf:3`.
pub(crate) fn apache(lines: &[(&str, &str)]) -> Case {
    beside(ServiceKind::Apache, "/etc/apache2/a.conf", lines)
}

/// The healthy stack, and beside it a HAProxy with these settings at `/etc/haproxy/haproxy.cfg:3`.
pub(crate) fn haproxy(lines: &[(&str, &str)]) -> Case {
    beside(ServiceKind::Haproxy, "/etc/haproxy/haproxy.cfg", lines)
}

/// The healthy stack, and beside it a PgBouncer with these settings at `/etc/pgbouncer/pgbouncer.ini:3`, which PHP asks.
pub(crate) fn pgbouncer(lines: &[(&str, &str)]) -> Case {
    let file = "/etc/pgbouncer/pgbouncer.ini";
    beside(ServiceKind::Pgbouncer, file, lines).with(|all| {
        let mut link = all.links[3].clone();
        link.to = 5;
        all.links.push(link);
    })
}

fn beside(kind: ServiceKind, file: &str, lines: &[(&str, &str)]) -> Case {
    Case::healthy().with(|all| {
        let mut service = Service::new(kind, 9);
        for (name, value) in lines {
            let source = SettingSource::file(file, 3);
            service.settings.set(name, value, source);
        }
        all.services.push(service);
    })
}

/// What a rule finds.
pub(crate) fn run(rule: &CheckRule, snapshot: &Snapshot) -> Vec<CheckFinding> {
    let mut found = Vec::new();
    (rule.check)(snapshot, &mut found);
    found
}

/// The healthy stack with twelve lines of a meaning in the log of a service, the last so many seconds ago.
pub(crate) fn logged(service: usize, kind: kneepoint_model::LogKind, age_s: f64) -> Case {
    Case::healthy().with(|snapshot| {
        snapshot.services[service]
            .logs
            .push(crate::snapshot::LogHits {
                kind,
                count: 12,
                first: "20-Nov-2026 22:00:00".into(),
                last: "20-Nov-2026 22:01:00".into(),
                age_s: Some(age_s),
                path: "/var/log/x.log".into(),
                pool: None,
            });
    })
}
