//! HAP-03: connections to servers are not reused.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "HAP-03",
    name: "haproxy-no-reuse",
    title: "HAProxy opens a new connection to the servers for every request",
    what_it_is: "HAProxy keeps connections to the servers behind it and shares them among visitors. `option \
        httpclose`, `option http-server-close` and `http-reuse never` end that: each request then costs a handshake, \
        and a local port for a minute.",
    how_it_shows: "As many connections in TIME_WAIT to the servers as requests in a minute.",
    unless: "The servers behind cannot keep connections, or a connection belongs to a visitor (NTLM).",
    what_to_write: "option http-keep-alive and http-reuse safe, in defaults.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Haproxy) {
        let options = service.settings.every("defaults option");
        let closes = options
            .filter(|(text, _)| matches!(*text, "httpclose" | "http-server-close" | "forceclose"));
        let reuse = service.settings.every("defaults http-reuse");
        let never = reuse.filter(|(text, _)| *text == "never");
        let named = closes
            .map(|one| ("option", one))
            .chain(never.map(|one| ("http-reuse", one)));
        let Some((name, (text, source))) = named.last() else {
            continue;
        };
        let value = SettingValue::new(text, source.clone());
        let right = match name {
            "option" => "option http-keep-alive\nhttp-reuse safe",
            _ => "http-reuse safe",
        };
        let waiting: u64 = service.time_wait.values().sum();
        RULE.at(snapshot, at, Severity::Risk)
            .value(name, &value)
            .seen(
                format!("{waiting} connections in TIME_WAIT to the servers behind"),
                format!("/proc/{}/net/tcp", service.pid),
            )
            .cost("a handshake for each request, and a local port for a minute (20 000 against 37 000 requests a second for nginx in the lab)")
            .fix(Fix::line(service, &value, right))
            .weight(0.25)
            .tell(found);
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
                    haproxy(&[
                        ("defaults option", "httplog"),
                        ("defaults option", "http-server-close"),
                        ("defaults option", "forwardfor"),
                    ]),
                    Severity::Risk,
                    "http-server-close",
                ),
                (
                    haproxy(&[("defaults http-reuse", "never")]),
                    Severity::Risk,
                    "never",
                ),
            ],
        );
    }
}
