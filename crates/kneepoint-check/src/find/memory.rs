//! What PHP itself has in force, laid over what its files say.

use crate::snapshot::{Blind, Service, SettingSource, SettingValue, Settings};
use kneepoint_profiler::ini;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Directives that rules look at: others may hold what is nobody's business, and are forgotten at once.
const LOOKED_AT: [&str; 22] = [
    "opcache.",
    "memory_limit",
    "realpath_cache_",
    "open_basedir",
    "display_errors",
    "session.save_handler",
    "session.gc_",
    "session.auto_start",
    "session.lazy_write",
    "redis.session.lock",
    "redis.pconnect.",
    "xdebug.mode",
    "max_execution_time",
    "zend.",
    "log_errors",
    "error_log",
    "default_socket_timeout",
    "auto_prepend_file",
    "apc.shm_size",
    "apc.ttl",
    "upload_max_filesize",
    "post_max_size",
];

/// Reads the directives of the master, and of a worker of each pool that says something else than php.ini. What differs
/// from the files is what runs.
pub(super) fn overlay(service: &mut Service) {
    let master = service.pid;
    let mut why = None;
    let mut read = |pid| ini(pid).map_err(|error| why = Some(error.to_string())).ok();
    let shared = read(master);
    let written = service.php.as_ref().map(|php| php.ini.clone());
    let written = written.unwrap_or_default();
    // What most pools have is made once: what runs, and what runs where nothing is written.
    let with = |own| {
        let mut settings = written.clone();
        let found = shared.iter();
        found.for_each(|found| lay_over(&mut settings, found, master, own));
        Arc::new(settings)
    };
    let (running, around) = (with(true), with(false));
    for pool in &mut service.pools {
        let worker = pool.workers.first().map(|worker| worker.pid);
        if !pool.php.add_to(&written) {
            pool.php = Settings::within(&running);
            continue;
        }
        match worker.and_then(|pid| Some((pid, read(pid)?))) {
            Some((pid, found)) => lay_over(&mut pool.php, &found, pid, true),
            // What the pool says itself, the master's memory does not show.
            None => pool.php.surround(&around),
        }
    }
    if let Some(php) = &mut service.php {
        php.ini = Settings::within(&running);
    }
    if let Some(why) = why {
        let what = format!("php.ini in force in {}", service.name());
        let remedy = "run the check as root; until then it tells what the files say";
        service.blind.push(Blind::new(what, why, remedy));
    }
}

fn lay_over(settings: &mut Settings, found: &BTreeMap<String, String>, pid: u32, own: bool) {
    for (name, text) in found.iter().filter(|(name, _)| is_looked_at(name)) {
        let known = settings.get(name);
        let same = known.is_some_and(|value| is_same(value, text));
        if !same && (own || known.is_none()) {
            settings.set(name, text, SettingSource::Memory { pid });
        }
    }
}

fn is_looked_at(name: &str) -> bool {
    LOOKED_AT.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a file and the memory say the same, each in its spelling.
fn is_same(value: &SettingValue, text: &str) -> bool {
    let other = SettingValue::new(text, SettingSource::Default);
    let switches = || value.is_on().is_some() && value.is_on() == other.is_on();
    value.text.trim() == text.trim() || switches()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_replaces_what_is_written_where_they_differ() {
        let mut settings = Settings::default();
        settings.set("opcache.enable", "On", SettingSource::file("/a", 1));
        settings.set("memory_limit", "128M", SettingSource::file("/a", 2));
        let found = [
            ("opcache.enable", "1"),
            ("memory_limit", "64M"),
            ("mysqli.default_pw", "secret"),
            ("display_errors", ""),
        ];
        let found = found
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into();
        lay_over(&mut settings, &found, 7, true);
        assert_eq!(
            settings.get("opcache.enable").expect("set").source,
            SettingSource::file("/a", 1)
        );
        let limit = settings.get("memory_limit").expect("set");
        assert_eq!(
            (limit.text.as_str(), &limit.source),
            ("64M", &SettingSource::Memory { pid: 7 })
        );
        assert_eq!(limit.replaced[0].0, "128M");
        assert_eq!(settings.text("display_errors"), Some(""));
        assert!(settings.get("mysqli.default_pw").is_none());
    }
}
