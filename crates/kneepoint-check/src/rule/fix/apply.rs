//! How a change takes effect: a command for a shell where there is one, a sentence where there is none.

use crate::snapshot::{ListenEndpoint, Service, ServiceKind};
use shlex::try_quote;

/// Directives that hold only after the program was ended and started: `shared_buffers` and its like are memory that is
/// taken at the start, and a graceful restart of Apache keeps its ServerLimit.
const ONLY_AT_START: [&str; 7] = [
    "shared_buffers",
    "max_connections",
    "serverlimit",
    "tcp-backlog",
    "disable-thp",
    "listenbacklog",
    "listen_backlog",
];

/// How a changed file takes effect.
pub(super) fn apply(service: &Service) -> String {
    apply_all(service, &[])
}

/// How directives take effect, each as it is written.
pub(super) fn apply_all(service: &Service, directives: &[String]) -> String {
    if service.place.container.is_some() {
        return CREATE.into();
    }
    let at_start = directives.iter().any(|line| {
        let name = line.split([' ', '=']).next().unwrap_or_default();
        ONLY_AT_START.contains(&name.to_ascii_lowercase().as_str())
    });
    match service.kind {
        ServiceKind::Redis if !at_start && !directives.is_empty() => at_once(service, directives),
        ServiceKind::Redis | ServiceKind::Mysql => restart(service, ""),
        _ if at_start => restart(service, ""),
        _ => reload(service),
    }
}

const CREATE: &str = "Create the container anew.";

/// Ends and starts it, after a command that may be empty.
pub(super) fn restart(service: &Service, first: &str) -> String {
    if service.place.container.is_some() {
        return CREATE.into();
    }
    match (&service.place.unit, first) {
        (Some(unit), "") => format!("systemctl restart {unit}"),
        (Some(unit), first) => format!("{first} && systemctl restart {unit}"),
        (None, "") => format!("Restart {} as it was started.", called(service.kind)),
        (None, first) => format!(
            "Run `{first}`, then restart {} as it was started.",
            called(service.kind)
        ),
    }
}

/// Has it read its files again, while it serves.
fn reload(service: &Service) -> String {
    if service.kind == ServiceKind::Fpm {
        return reload_fpm(service);
    }
    if let Some(unit) = &service.place.unit {
        return format!("systemctl reload {unit}");
    }
    let main = service.files.first().map(|file| shell_word(&file.path));
    let pid = service.pid;
    match (service.kind, main) {
        (ServiceKind::Nginx, Some(main)) => format!("nginx -t -c {main} && kill -HUP {pid}"),
        (ServiceKind::Nginx, None) => format!("nginx -t && kill -HUP {pid}"),
        // Graceful: it finishes what it serves.
        (ServiceKind::Apache, _) => format!("kill -USR1 {pid}"),
        (ServiceKind::Postgresql | ServiceKind::Pgbouncer, _) => format!("kill -HUP {pid}"),
        (ServiceKind::Haproxy, Some(main)) => {
            format!(
                "Restart HAProxy as it was started; `haproxy -c -f {main}` tests the file first."
            )
        }
        (kind, _) => format!("Restart {} as it was started.", called(kind)),
    }
}

/// A master that finds an error in its files at a reload ends, and nobody serves the site: they are tested first.
fn reload_fpm(service: &Service) -> String {
    let program = service.program.strip_suffix(" (deleted)");
    let program = program.unwrap_or(&service.program);
    let program = if program.is_empty() {
        "php-fpm"
    } else {
        program
    };
    let main = service.files.first();
    let main = main.map_or_else(String::new, |file| {
        format!(" -y {}", shell_word(&file.path))
    });
    let then = match &service.place.unit {
        Some(unit) => format!("systemctl reload {unit}"),
        None => signal_fpm(service),
    };
    // A program that somebody keeps elsewhere is not for root to run.
    let installed = ["/usr/", "/opt/", "/sbin/", "/bin/", "php-fpm"];
    match installed.iter().any(|place| program.starts_with(place)) {
        true => format!("{} -t{main} && {then}", shell_word(program)),
        false => then,
    }
}

/// Signals the master. One that runs in the background becomes another process at each reload, and writes its number into
/// its file; whoever may write there could name any process, so that only one of this name is signalled.
fn signal_fpm(service: &Service) -> String {
    let file = service.settings.text("pid");
    match file.filter(|path| path.starts_with('/')) {
        Some(path) => format!("pkill -USR2 -F {} php-fpm", shell_word(path)),
        None => format!("kill -USR2 {}", service.pid),
    }
}

/// Tells a running Redis, which forgets nothing by it; at its next start the file says the same.
fn at_once(service: &Service, directives: &[String]) -> String {
    let mut listens = service.listens.iter().map(|one| &one.endpoint);
    let is_usual = |host: &str| matches!(host, "*" | "0.0.0.0" | "127.0.0.1" | "::" | "localhost");
    let client = match listens.find(|one| one.is_tcp()) {
        Some(ListenEndpoint::Tcp(host, port)) if is_usual(host) => format!("redis-cli -p {port}"),
        Some(ListenEndpoint::Tcp(host, port)) => {
            format!("redis-cli -h {} -p {port}", shell_word(host))
        }
        _ => match service.listens.first().map(|one| &one.endpoint) {
            Some(ListenEndpoint::Unix(path)) => format!("redis-cli -s {}", shell_word(path)),
            _ => "redis-cli".to_owned(),
        },
    };
    // Without its password it refuses, and redis-cli ends as if it had not.
    let client = match service.settings.get("requirepass") {
        Some(_) => client.replacen("redis-cli", "redis-cli --askpass", 1),
        None => client,
    };
    let told = directives.iter();
    let told: Vec<String> = told
        .map(|line| format!("{client} CONFIG SET {line}"))
        .collect();
    told.join(" && ")
}

/// A word as a shell takes it: quoted where it needs to be.
#[must_use]
pub fn shell_word(word: &str) -> String {
    try_quote(word).map_or_else(|_| word.to_owned(), std::borrow::Cow::into_owned)
}

/// The program as people write its name.
fn called(kind: ServiceKind) -> &'static str {
    match kind {
        ServiceKind::Haproxy => "HAProxy",
        ServiceKind::Nginx => "nginx",
        ServiceKind::Apache => "Apache",
        ServiceKind::Fpm => "PHP-FPM",
        ServiceKind::Unit => "Unit",
        ServiceKind::FrankenPhp => "FrankenPHP",
        ServiceKind::Redis => "Redis",
        ServiceKind::Mysql => "MariaDB",
        ServiceKind::Postgresql => "PostgreSQL",
        ServiceKind::Pgbouncer => "PgBouncer",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Listener, ReadFile, SettingSource};

    fn of(kind: ServiceKind, lines: &[&str]) -> String {
        let mut service = Service::new(kind, 7);
        service.files.push(ReadFile {
            path: "/srv/a b.conf".into(),
            modified_s: 0.0,
            newer: false,
        });
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        apply_all(&service, &lines)
    }

    #[test]
    fn a_program_without_a_unit_is_told_as_it_understands() {
        for (kind, line, expected) in [
            (
                ServiceKind::Nginx,
                "gzip on;",
                "nginx -t -c '/srv/a b.conf' && kill -HUP 7",
            ),
            (ServiceKind::Apache, "KeepAlive On", "kill -USR1 7"),
            (
                ServiceKind::Apache,
                "ServerLimit 20",
                "Restart Apache as it was started.",
            ),
            (ServiceKind::Postgresql, "work_mem = 16MB", "kill -HUP 7"),
            (
                ServiceKind::Postgresql,
                "shared_buffers = 1GB",
                "Restart PostgreSQL as it was started.",
            ),
            (
                ServiceKind::Mysql,
                "general_log = 0",
                "Restart MariaDB as it was started.",
            ),
            (
                ServiceKind::Redis,
                "maxmemory 1gb",
                "redis-cli CONFIG SET maxmemory 1gb",
            ),
            (
                ServiceKind::Redis,
                "tcp-backlog 511",
                "Restart Redis as it was started.",
            ),
        ] {
            assert_eq!(of(kind, &[line]), expected);
        }
    }

    #[test]
    fn a_redis_is_told_where_it_listens() {
        let listening = |endpoint| {
            let mut service = Service::new(ServiceKind::Redis, 7);
            service.listens = vec![Listener {
                endpoint,
                queue: None,
            }];
            apply_all(&service, &["save \"\"".to_owned()])
        };
        let tcp = |host: &str| ListenEndpoint::Tcp(host.into(), 6380);
        assert_eq!(
            listening(tcp("*")),
            "redis-cli -p 6380 CONFIG SET save \"\""
        );
        assert_eq!(
            listening(tcp("10.0.0.4")),
            "redis-cli -h 10.0.0.4 -p 6380 CONFIG SET save \"\""
        );
        assert_eq!(
            listening(ListenEndpoint::Unix("/run/r.sock".into())),
            "redis-cli -s /run/r.sock CONFIG SET save \"\""
        );
        let mut locked = Service::new(ServiceKind::Redis, 7);
        let file = SettingSource::file("/etc/redis.conf", 3);
        locked.settings.set("requirepass", "hunter2", file);
        assert_eq!(
            apply_all(&locked, &["save \"\"".to_owned()]),
            "redis-cli --askpass CONFIG SET save \"\""
        );
    }

    #[test]
    fn a_master_that_forks_is_found_by_its_file() {
        let mut service = Service::new(ServiceKind::Fpm, 7);
        assert_eq!(apply(&service), "php-fpm -t && kill -USR2 7");
        let source = SettingSource::file("/c", 1);
        service.settings.set("pid", "/run/php/fpm.pid", source);
        assert_eq!(
            apply(&service),
            "php-fpm -t && pkill -USR2 -F /run/php/fpm.pid php-fpm"
        );
        service.place.unit = Some("php8.2-fpm.service".into());
        service.program = "/usr/sbin/php-fpm8.2".into();
        service.files.push(ReadFile {
            path: "/etc/php/8.2/fpm/php-fpm.conf".into(),
            modified_s: 0.0,
            newer: false,
        });
        assert_eq!(
            apply(&service),
            "/usr/sbin/php-fpm8.2 -t -y /etc/php/8.2/fpm/php-fpm.conf && systemctl reload php8.2-fpm.service"
        );
    }
}
