//! RDS-01: PHP's sessions open a connection to Redis in every request.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "RDS-01",
    name: "sessions-connect-per-request",
    title: "Sessions open a connection to Redis for every request",
    what_it_is: "phpredis opens a connection for each request unless session.save_path says persistent=1. Each costs a \
        handshake and a local port for a minute: the cause of a field report, found by switching Redis off.",
    how_it_shows: "total_connections_received of Redis grows as fast as requests, and connections in TIME_WAIT pile up.",
    unless: "Few requests use a session.",
    what_to_write: "session.save_path = \"tcp://redis:6379?persistent=1\", or the path of its Unix socket.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service, pool) in snapshot.pools() {
        let handler = pool.php.or("session.save_handler", "files");
        let Some(path) = pool
            .php
            .get("session.save_path")
            .filter(|_| handler.text == "redis")
        else {
            continue;
        };
        if path.text.contains("persistent=1")
            || path.text.starts_with("unix:")
            || path.text.starts_with('/')
        {
            continue;
        }
        let shown = path.text.split('?').next().unwrap_or_default();
        let shown = shown.rsplit_once('@').map_or(shown, |(_, host)| host);
        let count: u64 = service.time_wait.values().sum();
        RULE.at(snapshot, at, Severity::Risk)
            .pool(pool)
            .value("session.save_handler", &handler)
            .seen(format!("session.save_path = {shown}, without persistent=1"), path.source.to_string())
            .seen(format!("{} in TIME_WAIT to whom PHP asks", counted(count, "connection")), "/proc/net/tcp of its namespace")
            .cost("a connection for every request; at some hundred a second to one Redis, ports run short")
            .fix(Fix::reload(service, persistent(path, shown)))
            .weight(0.35)
            .tell(found);
    }
}

/// How to keep connections. A path with `=` must stand in double quotes, or PHP does not start with it. What it holds besides
/// may be a password, and is not told.
fn persistent(path: &SettingValue, shown: &str) -> String {
    let written = match path.text.contains('?') {
        true => "\"...&persistent=1\"` (where `...` is what stands there)".to_owned(),
        false => format!("\"{shown}?persistent=1\"`"),
    };
    format!(
        "In {}, change this setting to `session.save_path = {written}, with the double quotes, and in a pool with its \
         php_value[ ]; or use Redis' Unix socket.",
        path.source
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let ini = "session.save_handler=redis\nsession.save_path=\"tcp://redis:6379?auth=secret\"";
        let case = Case::healthy().pool_with("", ini);
        let found = super::super::tests_of(&RULE, &case);
        assert!(!format!("{found:?}").contains("secret"));
        assert!(
            found[0].fix.text.contains("\"...&persistent=1\""),
            "{found:?}"
        );
        verify(&RULE, &[(case, Severity::Risk, "a.ini:10")]);
        let plain = "session.save_handler=redis\nsession.save_path=\"tcp://redis:6379\"";
        let plain = Case::healthy().pool_with("", plain);
        let written = "session.save_path = \\\"tcp://redis:6379?persistent=1\\\"";
        verify(&RULE, &[(plain, Severity::Risk, written)]);
    }
}
