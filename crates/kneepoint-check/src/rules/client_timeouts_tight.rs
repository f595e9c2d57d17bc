//! NGX-20: clients are cut off within a second or two.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-20",
    name: "client-timeouts-tight",
    title: "nginx gives slow clients no time",
    what_it_is: "send_timeout, client_body_timeout and client_header_timeout are what a client may pause. One or two seconds \
        end uploads and downloads of phones, and of everybody when the host is busy; a keepalive_timeout of 0 is a new \
        connection, with TLS, for every request.",
    how_it_shows: "Uploads from phones break off, status 408 in the access log, and more new connections the busier the host is.",
    unless: "Only a proxy nearby connects.",
    what_to_write: "send_timeout 60s; client_body_timeout 60s; client_header_timeout 60s; keepalive_timeout 65s;",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Nginx) {
        let Some(nginx) = &service.nginx else {
            continue;
        };
        let servers = nginx.servers.iter().map(|one| &one.settings);
        let settings: Vec<&Settings> = std::iter::once(&service.settings).chain(servers).collect();
        for (name, least, right) in [
            ("send_timeout", 5.0, "send_timeout 60s;"),
            ("client_body_timeout", 5.0, "client_body_timeout 60s;"),
            ("client_header_timeout", 3.0, "client_header_timeout 60s;"),
            ("keepalive_timeout", 5.0, "keepalive_timeout 65s;"),
        ] {
            let first = |value: &SettingValue| {
                SettingValue::new(
                    value.text.split(' ').next().unwrap_or_default(),
                    SettingSource::Default,
                )
                .seconds()
            };
            let mut values = settings.iter().filter_map(|settings| settings.get(name));
            let Some(value) =
                values.find(|value| first(value).is_some_and(|seconds| seconds < least))
            else {
                continue;
            };
            let seconds = first(value).unwrap_or(0.0);
            let (title, cost) = words(name, seconds);
            // Clients whose next bytes are not there yet are cut off: nearly everybody.
            let severity = match seconds == 0.0 && name != "keepalive_timeout" {
                true => Severity::Problem,
                false => Severity::Risk,
            };
            RULE.at(snapshot, at, severity)
                .value(name, value)
                .title(title)
                .cost(cost)
                .fix(Fix::line(service, value, right))
                .weight(0.07)
                .tell(found);
        }
    }
}

/// What a value does, and what it costs.
fn words(name: &str, seconds: f64) -> (String, &'static str) {
    match (name, seconds == 0.0) {
        ("keepalive_timeout", true) => (
            "nginx closes each connection after one response (keepalive_timeout 0)".into(),
            "a new connection, and over TLS a new handshake, for every file of a page",
        ),
        ("keepalive_timeout", false) => (
            format!("nginx closes connections that rest for {seconds} s (keepalive_timeout)"),
            "a new connection, and over TLS a new handshake, for nearly every page that somebody opens",
        ),
        (_, true) => (
            format!("nginx cuts off every client that pauses at all ({name} 0)"),
            "connections that are cut as soon as the next bytes are not there at once",
        ),
        (_, false) => (
            format!("nginx cuts off a client that pauses for {seconds} s ({name})"),
            "uploads and downloads over slow lines that break off, and most of them under load",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[
                (
                    Case::healthy().nginx_with("keepalive_timeout 65;", "keepalive_timeout 0;"),
                    Severity::Risk,
                    "nginx.conf:8",
                ),
                (
                    Case::healthy().nginx_with("keepalive_timeout 65;", "keepalive_timeout 0;"),
                    Severity::Risk,
                    "closes each connection after one response",
                ),
                (
                    Case::healthy().nginx_with("keepalive_timeout 65;", "keepalive_timeout 2 2;"),
                    Severity::Risk,
                    "rest for 2 s",
                ),
                (
                    Case::healthy().nginx_with("gzip on;", "client_body_timeout 0;"),
                    Severity::Problem,
                    "pauses at all (client_body_timeout 0)",
                ),
                (
                    Case::healthy().nginx_with("gzip on;", "send_timeout 1s;"),
                    Severity::Risk,
                    "send_timeout",
                ),
            ],
        );
    }
}
