//! The logs that a service writes, and what their ends say.

use super::super::containers;
use super::Gather;
use crate::files::{self, Files, Root};
use crate::logs::{self, Stacks};
use crate::rule::counted;
use crate::snapshot::{Blind, FpmPool, Nginx, Service, Settings};
use kneepoint_model::LogFormat;
use std::collections::{BTreeMap, HashSet};

/// Most logs of one service that are read \[ours\]: of each the last megabytes are.
const MOST: usize = 20;

impl Gather<'_> {
    /// The error logs of nginx. `usual` is the one that it was built with.
    pub(super) fn logs_of_nginx(
        &mut self,
        settings: &Settings,
        nginx: &Nginx,
        usual: Option<&str>,
    ) {
        self.add_logs(of_nginx(settings, nginx, usual), LogFormat::NginxError);
    }

    /// The error logs of Apache, which runs in this directory.
    pub(super) fn logs_of_apache(&mut self, settings: &Settings, cwd: &str) {
        self.add_logs(of_apache(settings, cwd), LogFormat::Apache);
    }

    /// The logs of PHP-FPM, those of PHP itself for all pools and for one, and the slow logs of pools. `prefix` is
    /// the directory that paths of pools are relative to.
    pub(super) fn logs_of_fpm(&mut self, prefix: &str) {
        let service = &self.seen.service;
        let pools = service.pools.iter().enumerate();
        let slow = pools.filter_map(|(at, pool)| Some((at, slow_log(pool, prefix)?)));
        self.slow_logs = slow.collect();
        let log = service.settings.or("error_log", "").text;
        let php = of_php(service);
        let is_named = !log.is_empty() && log != "syslog";
        self.logs
            .extend(is_named.then_some((log, LogFormat::FpmError)));
        self.add_logs(php, LogFormat::PhpError);
    }

    /// Takes logs to be read, each once; what is left out is told.
    fn add_logs(&mut self, named: Vec<String>, format: LogFormat) {
        let (paths, left) = distinct(named);
        if left > 0 {
            let service = &mut self.seen.service;
            let what = format!("{} of {}", counted(left, "error log"), service.name());
            let why = format!("only {MOST} logs of one program are read");
            let blind = Blind::new(what, why, "look at them by hand");
            service.blind.push(blind);
        }
        self.logs
            .extend(paths.into_iter().map(|path| (path, format)));
    }

    /// Reads the ends of the slow logs, each file once. One that cannot be read is not told: PHP-FPM's own log counts the
    /// requests.
    pub(super) fn read_slow_logs(&mut self) {
        let Some(root) = &self.seen.root else { return };
        let own = Root::at("/");
        let service = &mut self.seen.service;
        let printed = service.place.container.as_ref().and_then(containers::log);
        let mut named: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, path) in std::mem::take(&mut self.slow_logs) {
            named.entry(path).or_default().push(at);
        }
        let mut read = 0;
        for (path, pools) in named {
            let stacks = match (files::is_printed(&path), &printed, &own) {
                (false, ..) => Stacks::read(root, &path, self.now_s),
                (true, Some(kept), Ok(own)) => Stacks::read(own, kept, self.now_s),
                _ => None,
            };
            let Some(stacks) = stacks else { continue };
            for at in pools {
                let pool = &mut service.pools[at];
                let sessions = pool.php.text("session.save_handler");
                pool.slow = stacks.of_pool(&pool.name, sessions);
            }
            read += 1;
            if read == MOST {
                break;
            }
        }
    }

    /// Reads the ends of the logs.
    pub(super) fn read_logs(&mut self) {
        let Some(root) = &self.seen.root else { return };
        let own = Root::at("/");
        for (path, format) in std::mem::take(&mut self.logs) {
            let service = &mut self.seen.service;
            let (files, path): (&dyn Files, String) = if files::is_printed(&path) {
                let kept = service.place.container.as_ref().and_then(containers::log);
                match (kept, &own) {
                    (Some(path), Ok(own)) => (own, path),
                    _ => {
                        let what = format!("what {} prints", service.name());
                        service.blind.push(Blind::new(
                            what,
                            "it goes to the process that started it",
                            "look there: `journalctl -u UNIT`, `docker logs`, `kubectl logs`",
                        ));
                        continue;
                    }
                }
            } else {
                (root, path)
            };
            match logs::hits(files, &path, format, (self.now_s, self.read_s)) {
                Ok(hits) => service.logs.extend(hits),
                Err(files::Unread::Missing) => {}
                Err(why) => {
                    service
                        .blind
                        .push(Blind::new(path, why.to_string(), "look at it by hand"))
                }
            }
        }
    }
}

/// The error log of PHP, and those that its pools have for themselves.
fn of_php(service: &Service) -> Vec<String> {
    let shared = service.php.iter().map(|php| &php.ini);
    let shared = shared.filter_map(|ini| ini.text("error_log"));
    let own = service.pools.iter();
    let own = own.filter_map(|pool| pool.php.text("error_log"));
    // What is printed is no file of its own.
    let own = own.filter(|path| !files::is_printed(path));
    let named = shared.chain(own).filter(|path| is_file(path));
    named.map(str::to_owned).collect()
}

/// The slow log of a pool.
fn slow_log(pool: &FpmPool, prefix: &str) -> Option<String> {
    let path = pool.settings.text("slowlog")?;
    let home = pool.settings.text("prefix").unwrap_or(prefix);
    (!path.is_empty()).then(|| files::absolute(home, path))
}

/// The error log of nginx, and those that its servers have for themselves.
fn of_nginx(settings: &Settings, nginx: &Nginx, usual: Option<&str>) -> Vec<String> {
    let main = settings.text("error_log").map(path_of).or(usual);
    // What servers have from around them is one and the same: a stranger's file may have thousands of both.
    let mut known = HashSet::new();
    let all = nginx.servers.iter().filter(|server| {
        let log = server.settings.get("error_log");
        log.is_some_and(|log| known.insert(std::ptr::from_ref(log)))
    });
    let all = all.flat_map(|server| server.settings.every("error_log"));
    let own = all.map(|(text, _)| path_of(text));
    let own = own.filter(|path| !files::is_printed(path));
    let named = main.into_iter().chain(own).filter(|path| is_file(path));
    named.map(str::to_owned).collect()
}

/// The error log of Apache, and those of its hosts.
fn of_apache(settings: &Settings, cwd: &str) -> Vec<String> {
    let home = settings.text("serverroot").unwrap_or(cwd);
    let named = settings.every("errorlog").map(|(path, _)| path);
    let named = named.filter(|path| is_file(path));
    let named = named.map(|path| files::absolute(home, path));
    named.collect()
}

/// The path of a log, without its level.
fn path_of(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

/// Whether what is named as a log is a file, or what is printed: no variable, no program, nobody who takes messages.
fn is_file(path: &str) -> bool {
    let is_other = ["syslog:", "memory:", "|"]
        .iter()
        .any(|begin| path.starts_with(begin));
    !is_other && !path.contains('$') && !["", "syslog", "/dev/null"].contains(&path)
}

/// So many of the logs as are read, each once, in their order; and how many others there are.
fn distinct(mut all: Vec<String>) -> (Vec<String>, u64) {
    let mut known = HashSet::new();
    all.retain(|path| known.insert(path.clone()));
    let left = all.len().saturating_sub(MOST);
    all.truncate(MOST);
    (all, left as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::case::{Case, apache};

    #[test]
    fn servers_of_nginx_may_have_logs_of_their_own() {
        let of = |lines: &str| {
            let case = Case::healthy().nginx_with("  listen 80;", lines);
            let service = &case.0.services[0];
            let nginx = service.nginx.as_ref().expect("nginx");
            of_nginx(&service.settings, nginx, Some("/usual"))
        };
        let one = of("  listen 80;\n error_log /a warn;\n");
        assert_eq!(one, ["/usual", "/a"]);
        let two = "  error_log /a;\n error_log /b crit;\n error_log stderr;\n";
        assert_eq!(of(two), ["/usual", "/a", "/b"]);
        assert_eq!(of("  error_log /var/log/$host;\n"), ["/usual"]);
    }

    #[test]
    fn every_error_log_of_apache_is_taken_from_its_home() {
        let case = apache(&[
            ("errorlog", "logs/error_log"),
            ("errorlog", "|/usr/bin/rotatelogs /l 86400"),
            ("errorlog", "/srv/shop/error.log"),
        ]);
        let service = &case.0.services[5];
        let of = |settings: &Settings| of_apache(settings, "/");
        assert_eq!(
            of(&service.settings),
            ["/logs/error_log", "/srv/shop/error.log"]
        );
        let mut settings = service.settings.clone();
        let source = crate::snapshot::SettingSource::Default;
        settings.set("serverroot", "/etc/httpd", source);
        assert_eq!(of(&settings)[0], "/etc/httpd/logs/error_log");
    }

    #[test]
    fn pools_may_have_error_logs_of_their_own() {
        let own = "php_admin_value[error_log] = /var/log/php-fpm/www-error.log\n\
            [shop]\nphp_admin_value[error_log] = /var/log/php-fpm/$pool.log\n\
            [printed]\nphp_admin_value[error_log] = /dev/stderr\n";
        let case = Case::healthy().pool_with(own, "error_log = /var/log/php.log");
        assert_eq!(
            of_php(&case.0.services[1]),
            [
                "/var/log/php.log",
                "/var/log/php-fpm/www-error.log",
                "/var/log/php-fpm/shop.log"
            ]
        );
    }

    #[test]
    fn a_slow_log_may_lie_below_the_pools_own_directory() {
        let of = |lines: &str| {
            let pool = format!("[shop]\nlisten = /run/shop.sock\n{lines}");
            let case = Case::healthy().pool_with(&pool, "");
            slow_log(&case.0.services[1].pools[1], "/usr")
        };
        let found = of("slowlog = log/$pool.slow");
        assert_eq!(found.as_deref(), Some("/usr/log/shop.slow"));
        let found = of("prefix = /srv/$pool\nslowlog = slow.log");
        assert_eq!(found.as_deref(), Some("/srv/shop/slow.log"));
        assert_eq!(of("").as_deref(), None);
    }

    #[test]
    fn what_is_no_file_is_not_read() {
        for path in [
            "",
            "/dev/null",
            "/var/log/$host.log",
            "syslog:server=unix:/dev/log",
            "memory:32m",
            "|/usr/bin/rotatelogs /l 86400",
            "syslog",
        ] {
            assert!(!is_file(path), "{path}");
        }
        assert!(is_file("/var/log/nginx/shop.error.log") && is_file("stderr"));
        assert_eq!(path_of("/var/log/a.log warn"), "/var/log/a.log");
    }

    #[test]
    fn each_log_is_read_once_and_not_too_many() {
        let named = |count: usize| -> Vec<String> {
            let all = 0..2 * count;
            all.map(|at| format!("/l{}", at % count)).collect()
        };
        let (read, left) = distinct(named(3));
        assert_eq!((read.join(" ").as_str(), left), ("/l0 /l1 /l2", 0));
        let (read, left) = distinct(named(25));
        assert_eq!((read.len(), left), (MOST, 5));
    }
}
