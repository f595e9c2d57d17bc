//! What PHP itself has in force, laid over what its files say.

use crate::snapshot::{Blind, Service, Settings, Source, Value};
use kneepoint_profiler::ini;
use std::collections::BTreeMap;

/// Directives that rules look at: others may hold what is nobody's business, and are forgotten at once.
const LOOKED_AT: [&str; 12] = [
    "opcache.",
    "memory_limit",
    "realpath_cache_",
    "open_basedir",
    "display_errors",
    "session.save_handler",
    "session.gc_",
    "redis.session.lock",
    "redis.pconnect.",
    "xdebug.mode",
    "max_execution_time",
    "zend.",
];

/// Reads the directives of a worker of each pool, or of the master where a pool has none. What differs from the files is
/// what runs.
pub(super) fn overlay(service: &mut Service) {
    let mut why = None;
    let master = service.pid;
    let of_master = service.pools.iter().any(|pool| pool.workers.is_empty());
    let shared = if of_master { ini(master).ok() } else { None };
    for pool in &mut service.pools {
        let (pid, found) = match pool.workers.first() {
            Some(worker) => (
                worker.pid,
                ini(worker.pid)
                    .map_err(|error| why = Some(error.to_string()))
                    .ok(),
            ),
            None => (master, shared.clone()),
        };
        if let Some(found) = found {
            // A pool without workers has values of its own that its master's memory does not show.
            let own = !pool.workers.is_empty();
            lay_over(&mut pool.php, &found, pid, own);
        }
    }
    let globals = ini(master).ok();
    if let (Some(php), Some(found)) = (&mut service.php, globals) {
        lay_over(&mut php.ini, &found, master, true);
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
            settings.set(name, text, Source::Memory { pid });
        }
    }
}

fn is_looked_at(name: &str) -> bool {
    LOOKED_AT.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a file and the memory say the same, each in its spelling.
fn is_same(value: &Value, text: &str) -> bool {
    let other = Value::new(text, Source::Default);
    let switches = || value.is_on().is_some() && value.is_on() == other.is_on();
    value.text.trim() == text.trim() || switches()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_replaces_what_is_written_where_they_differ() {
        let mut settings = Settings::default();
        settings.set("opcache.enable", "On", Source::file("/a", 1));
        settings.set("memory_limit", "128M", Source::file("/a", 2));
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
            Source::file("/a", 1)
        );
        let limit = settings.get("memory_limit").expect("set");
        assert_eq!(
            (limit.text.as_str(), &limit.source),
            ("64M", &Source::Memory { pid: 7 })
        );
        assert_eq!(limit.replaced[0].0, "128M");
        assert_eq!(settings.text("display_errors"), Some(""));
        assert!(settings.get("mysqli.default_pw").is_none());
    }
}
