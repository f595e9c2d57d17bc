//! NGX-21: every TLS connection is negotiated in full, and HTTP/1 only.

use crate::rule::prelude::*;
use crate::snapshot::Nginx;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-21",
    name: "tls-without-sessions",
    title: "TLS sessions are not shared between nginx's processes",
    what_it_is: "A client that comes back can leave out the expensive part of TLS, if a process knows its session. Without \
        ssl_session_cache shared:... (and with tickets off) each process knows its own only, or none.",
    how_it_shows: "Many full handshakes for few visitors: CPU time of nginx in the TLS library.",
    unless: "Clients take tickets (ssl_session_tickets, on unless switched off), as browsers do.",
    what_to_write: "ssl_session_cache shared:SSL:10m; ssl_session_timeout 1h;",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Nginx) {
        let Some(nginx) = &service.nginx else {
            continue;
        };
        let tls = nginx.servers.iter().find_map(|server| {
            let listen = server
                .listens
                .iter()
                .find(|value| value.text.split(' ').any(|word| word == "ssl"))?;
            let cached = server
                .settings
                .text("ssl_session_cache")
                .is_some_and(|text| text.contains("shared:"));
            let tickets = server
                .settings
                .get("ssl_session_tickets")
                .and_then(SettingValue::is_on)
                != Some(false);
            (!cached).then_some((server, listen, tickets))
        });
        let Some((server, listen, tickets)) = tls else {
            continue;
        };
        let severity = if tickets {
            Severity::Note
        } else {
            Severity::Risk
        };
        RULE.at(snapshot, at, severity)
            .value("listen", listen)
            .seen("ssl_session_cache is not shared", "")
            .cost("a full handshake, about a millisecond of CPU, for clients that come back")
            .fix(fix(service, &server.settings, listen, zone(nginx)))
            .tell(found);
    }
}

/// Sessions that all processes share. Of what stands there already a second line would keep nginx from starting.
fn fix(service: &Service, settings: &Settings, listen: &SettingValue, zone: &str) -> Fix {
    let cache = format!("ssl_session_cache {zone};");
    let lines = match settings.get("ssl_session_timeout") {
        Some(_) => cache,
        None => cache + "\nssl_session_timeout 1h;",
    };
    match settings.get("ssl_session_cache") {
        Some(value) => Fix::line(service, value, &lines),
        None => Fix::beside(service, listen, &lines),
    }
}

/// The zone that another server has, since one name with two sizes is refused; else one of a name of its own.
fn zone(nginx: &Nginx) -> &str {
    let mut known = nginx.servers.iter().filter_map(|server| {
        let text = server.settings.text("ssl_session_cache")?;
        text.split(' ').find(|word| word.starts_with("shared:"))
    });
    known.next().unwrap_or("shared:SSL:10m")
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
                    Case::healthy().nginx_with("listen 80;", "listen 443 ssl;"),
                    Severity::Note,
                    "nginx.conf:18",
                ),
                (
                    Case::healthy().nginx(
                        "http { server { listen 443 ssl; ssl_session_cache shared:SSL:50m; } server { listen 443 ssl; } }",
                    ),
                    Severity::Note,
                    "ssl_session_cache shared:SSL:50m;",
                ),
                (
                    Case::healthy()
                        .nginx_with("listen 80;", "listen 443 ssl; ssl_session_tickets off;"),
                    Severity::Risk,
                    "handshake",
                ),
            ],
        );
        let fix = |lines: &str| {
            let case = Case::healthy().nginx_with("listen 80;", lines);
            super::super::tests_of(&RULE, &case)[0].fix.in_one_line()
        };
        let timed = fix("listen 443 ssl; ssl_session_timeout 5m;");
        assert!(!timed.contains("ssl_session_timeout"), "{timed}");
        let own = fix("listen 443 ssl;\n  ssl_session_cache builtin;");
        assert!(
            own.contains("nginx.conf:19, write instead of this setting"),
            "{own}"
        );
    }
}
