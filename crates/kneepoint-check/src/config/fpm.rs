//! PHP-FPM: its main file with all it includes, section by section, later lines over earlier ones.

use super::{Reader, lines};
use crate::files;
use crate::snapshot::{FpmPool, ListenEndpoint, SettingSource, Settings};
use kneepoint_stack::application::symfony;
use std::collections::HashMap;

/// What is configured.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Fpm {
    /// Of the section `[global]`.
    pub(crate) global: Settings,
    /// The pools, in the order they were first named.
    pub(crate) pools: Vec<FpmPool>,
    /// The files that are included, by names or patterns.
    pub(crate) included: Vec<String>,
}

/// Reads a main file. `prefix` is what relative paths of includes are relative to.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    main: &str,
    prefix: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Fpm {
    let mut parser = Parser {
        fpm: Fpm::default(),
        known: HashMap::new(),
        section: "global".to_owned(),
        prefix: prefix.to_owned(),
        env,
    };
    if let Some(text) = reader.must(main) {
        parser.text(reader, &text, main);
    }
    for pool in &mut parser.fpm.pools {
        let listen = pool.settings.text("listen").map(str::to_owned);
        let home = pool.settings.text("prefix").unwrap_or(prefix);
        pool.listen = listen.and_then(|text| endpoint(&text, home));
        keep_environment(pool, env);
    }
    parser.fpm
}

/// What the workers of a pool that keeps PHP-FPM's environment find in it, of the names by which Symfony is switched.
fn keep_environment(pool: &mut FpmPool, env: &dyn Fn(&str) -> Option<String>) {
    let clears = pool.settings.get("clear_env");
    let Some(keeps) = clears.filter(|value| value.is_on() == Some(false)) else {
        return;
    };
    let SettingSource::File { path, line } = keeps.source.clone() else {
        return;
    };
    for name in symfony::NAMES {
        let key = format!("env[{name}]");
        let value = env(name).filter(|_| pool.settings.get(&key).is_none());
        if let Some(value) = value {
            let source = SettingSource::Variable {
                name: name.to_owned(),
                path: path.clone(),
                line,
            };
            pool.settings.set(&key, &value, source);
        }
    }
}

/// Where a pool listens. What is neither a port nor an address is a path below the pool's directory, as panels write it.
fn endpoint(text: &str, home: &str) -> Option<ListenEndpoint> {
    let is_path = !text.contains(':') && text.parse::<u16>().is_err();
    match is_path {
        true => Some(ListenEndpoint::Unix(files::absolute(home, text))),
        false => ListenEndpoint::parse(text, 9000),
    }
}

struct Parser<'a> {
    fpm: Fpm,
    /// The position of each pool, by its name.
    known: HashMap<String, usize>,
    /// It goes on over the end of an included file, as FPM's own parser has it.
    section: String,
    prefix: String,
    env: &'a dyn Fn(&str) -> Option<String>,
}

impl Parser<'_> {
    fn text(&mut self, reader: &mut Reader<'_>, text: &str, path: &str) {
        let mut began = false;
        for entry in lines::ini(text) {
            if !entry.section.is_empty() && (!began || entry.section != self.section) {
                self.section = entry.section.clone();
                began = true;
                self.open();
            }
            let Some(value) = entry.value else {
                reader.unread(
                    &format!("{path}:{}", entry.line),
                    "it is no `name = value`: PHP-FPM does not start with it",
                    "run `php-fpm -t`: what is on disk is not what runs",
                );
                continue;
            };
            let (value, variable, missing) = lines::expanded(&value, self.env);
            if let Some(name) = missing {
                let what = format!("variable {name}, by {path}:{}", entry.line);
                let why =
                    "PHP-FPM overwrites its own environment, and its parent's does not have it";
                reader.unread(
                    &what,
                    why,
                    "name the container's environment in a file, or look at it there",
                );
            }
            if entry.key == "include" {
                let pattern = files::absolute(&self.prefix, &value);
                for (file, text) in reader.included(&pattern) {
                    reader.deeper(|reader| self.text(reader, &text, &file));
                }
                self.fpm.included.push(pattern);
                continue;
            }
            let source = match variable {
                Some(name) => SettingSource::Variable {
                    name,
                    path: path.to_owned(),
                    line: entry.line,
                },
                None => SettingSource::file(path, entry.line),
            };
            let value = value.replace("$pool", &self.section);
            self.set(&entry.key, &value, source);
        }
        // A section may be empty, or end a file.
        if let Some(last) = last_section(text) {
            self.section = last;
            self.open();
        }
    }

    fn open(&mut self) {
        if self.section != "global" {
            self.pool();
        }
    }

    /// The pool of the section.
    fn pool(&mut self) -> &mut FpmPool {
        let pools = &mut self.fpm.pools;
        let at = match self.known.get(&self.section) {
            Some(at) => *at,
            None => {
                pools.push(FpmPool {
                    name: self.section.clone(),
                    ..FpmPool::default()
                });
                self.known.insert(self.section.clone(), pools.len() - 1);
                pools.len() - 1
            }
        };
        &mut pools[at]
    }

    fn set(&mut self, key: &str, value: &str, source: SettingSource) {
        if self.section == "global" {
            self.fpm.global.set(key, value, source);
            return;
        }
        let pool = self.pool();
        let ini = [
            "php_admin_value[",
            "php_admin_flag[",
            "php_value[",
            "php_flag[",
        ];
        let Some(name) = ini.iter().find_map(|prefix| key.strip_prefix(prefix)) else {
            return pool.settings.set(key, value, source);
        };
        let name = name.trim_end_matches(']').trim();
        // What an administrator sets, PHP-FPM sets last, wherever it stands.
        let is_final = |key: &str| key.starts_with("php_admin_");
        if pool.php_keys.get(name).is_some_and(|one| is_final(one)) && !is_final(key) {
            return;
        }
        pool.php.set(name, value, source);
        pool.php_keys.insert(name.to_owned(), key.to_owned());
    }
}

fn last_section(text: &str) -> Option<String> {
    let lines = text.lines().rev().map(str::trim);
    let mut headers = lines.filter_map(|line| line.strip_prefix('['));
    let inside = headers.next()?.split(']').next()?;
    Some(inside.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Subject;
    use crate::files::Memory;

    fn fpm(files: &[(&str, &str)], env: &dyn Fn(&str) -> Option<String>) -> (Fpm, Vec<String>) {
        let files = Memory::of(files);
        let subject = Subject {
            files: &files,
            args: &[],
            cwd: "/",
            env,
            loaded_s: 50.0,
        };
        let mut reader = Reader::new(&subject);
        let fpm = read(&mut reader, "/etc/fpm.conf", "/etc", env);
        let (read, blind) = reader.done();
        assert!(read.iter().all(|file| file.newer));
        (fpm, blind.into_iter().map(|one| one.what).collect())
    }

    #[test]
    fn a_second_file_overrides_the_first() {
        let (fpm, blind) = fpm(
            &[
                (
                    "/etc/fpm.conf",
                    "[global]\nerror_log = /log\ninclude=pool.d/*.conf\n",
                ),
                (
                    "/etc/pool.d/www.conf",
                    "[www]\nlisten = /run/$pool.sock\npm = dynamic\npm.max_children = 20\nphp_admin_value[memory_limit] = 64M",
                ),
                (
                    "/etc/pool.d/zz-docker.conf",
                    "[global]\ndaemonize = no\n\n[www]\nlisten = 9000\npm.max_children = 5",
                ),
            ],
            &|_| None,
        );
        assert_eq!(blind, Vec::<String>::new());
        assert_eq!(fpm.global.text("daemonize"), Some("no"));
        let [pool] = fpm.pools.as_slice() else {
            panic!("{:?}", fpm.pools)
        };
        let children = pool.settings.get("pm.max_children").expect("set");
        assert_eq!(children.source.to_string(), "/etc/pool.d/zz-docker.conf:6");
        assert_eq!(children.replaced[0].1.to_string(), "/etc/pool.d/www.conf:4");
        assert_eq!(pool.listen, Some(ListenEndpoint::Tcp("*".into(), 9000)));
        assert_eq!(pool.php.text("memory_limit"), Some("64M"));
        let listen = pool.settings.get("listen").expect("set");
        assert_eq!(listen.replaced[0].0, "/run/www.sock");
    }

    #[test]
    fn what_an_administrator_sets_holds_wherever_it_stands() {
        let text = "[www]\nphp_admin_value[memory_limit] = 64M\nphp_value[memory_limit] = 1G\n";
        let (fpm, _) = fpm(&[("/etc/fpm.conf", text)], &|_| None);
        let pool = &fpm.pools[0];
        assert_eq!(pool.php.text("memory_limit"), Some("64M"));
        assert_eq!(
            pool.php_keys["memory_limit"],
            "php_admin_value[memory_limit]"
        );
    }

    #[test]
    fn a_socket_may_be_named_within_the_pools_own_directory() {
        let listen = |text: &str| {
            let text = format!("[shop]\n{text}\n");
            let (fpm, _) = fpm(&[("/etc/fpm.conf", &text)], &|_| None);
            fpm.pools[0].listen.clone().map(|one| one.to_string())
        };
        // As Plesk writes it.
        let plesk = listen("prefix = /var/www/system/$pool\nlisten = php-fpm.sock");
        assert_eq!(plesk.as_deref(), Some("/var/www/system/shop/php-fpm.sock"));
        let relative = listen("listen = run/php.sock");
        assert_eq!(relative.as_deref(), Some("/etc/run/php.sock"));
        assert_eq!(listen("listen = 9001").as_deref(), Some("*:9001"));
        assert_eq!(listen("listen = [::]:9001").as_deref(), Some("[::]:9001"));
        assert_eq!(
            listen("listen = /run/a.sock").as_deref(),
            Some("/run/a.sock")
        );
    }

    #[test]
    fn variables_come_from_the_environment() {
        let text = "[www]\npm = ${PM}\npm.max_children = ${NONE}\n[b]\n";
        let env = |name: &str| (name == "PM").then(|| "ondemand".to_owned());
        let (fpm, blind) = fpm(&[("/etc/fpm.conf", text)], &env);
        assert_eq!(
            fpm.pools[0]
                .settings
                .get("pm")
                .expect("set")
                .source
                .to_string(),
            "variable PM, by /etc/fpm.conf:2"
        );
        assert_eq!(fpm.pools[0].max_children(), None);
        assert_eq!(blind, ["variable NONE, by /etc/fpm.conf:3"]);
        assert_eq!(fpm.pools.len(), 2);
    }

    #[test]
    fn workers_may_keep_the_environment() {
        let env = |name: &str| (name == "APP_ENV").then(|| "prod".to_owned());
        let given = |text: &str| {
            let text = format!("[www]\n{text}\n");
            let (fpm, _) = fpm(&[("/etc/fpm.conf", &text)], &env);
            let value = fpm.pools[0].settings.get("env[APP_ENV]").cloned();
            value.map(|value| format!("{} {}", value.text, value.source))
        };
        assert_eq!(given("clear_env = yes"), None);
        let kept = "prod variable APP_ENV, by /etc/fpm.conf:2";
        assert_eq!(given("clear_env = no").as_deref(), Some(kept));
        let own = given("clear_env = no\nenv[APP_ENV] = dev");
        assert_eq!(own.as_deref(), Some("dev /etc/fpm.conf:3"));
    }

    #[test]
    fn a_line_without_a_value_is_told() {
        let text = "[www]\npm = static\npm.max_children 50\n";
        let (fpm, blind) = fpm(&[("/etc/fpm.conf", text)], &|_| None);
        assert_eq!(blind, ["/etc/fpm.conf:3"]);
        assert_eq!(fpm.pools.len(), 1);
    }
}
