//! NGX-25: TLS without HTTP/2.

use crate::rule::prelude::*;
use std::collections::HashSet;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-25",
    name: "http2-off",
    title: "nginx speaks HTTP/1 only with browsers",
    what_it_is: "Over HTTP/1 a browser opens up to six connections to a site and asks for one file at a time on \
        each. HTTP/2 carries all files of a page over one connection: one handshake of TLS instead of six, and no \
        file waits for another. Browsers speak it over TLS only, and nginx only where it is told to.",
    how_it_shows: "Six connections for each visitor, and files of a page that begin one after the other in the \
        browser's waterfall.",
    unless: "A proxy or CDN in front speaks HTTP/2 with browsers, or clients are programs.",
    what_to_write: "http2 on; in the server (since nginx 1.25.1), before that listen 443 ssl http2;",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Nginx) {
        let Some(nginx) = &service.nginx else {
            continue;
        };
        // As a word of `listen` it holds for every server of that address and port.
        let listens = nginx.servers.iter().flat_map(|server| &server.listens);
        let listens = listens.filter(|listen| has(listen, "http2"));
        let spoken: HashSet<&str> = listens.map(address).collect();
        let without = nginx.servers.iter().find_map(|server| {
            let on = server.settings.get("http2").and_then(SettingValue::is_on) == Some(true);
            let mut listens = server.listens.iter();
            let speaks = |listen| spoken.contains(address(listen)) || has(listen, "quic");
            let speaks = on || listens.any(speaks);
            let tls = server.listens.iter().find(|listen| has(listen, "ssl"))?;
            (!speaks).then_some(tls)
        });
        let Some(listen) = without else { continue };
        let newer = service.is_older_than(&[1, 25, 1]) == Some(false);
        let fix = if newer {
            Fix::beside(service, listen, "http2 on;")
        } else {
            Fix::line(service, listen, &format!("listen {} http2;", listen.text))
        };
        RULE.at(snapshot, at, Severity::Note)
            .value("listen", listen)
            .cost("up to 6 connections and handshakes of TLS for each visitor instead of 1")
            .fix(fix)
            .weight(0.05)
            .tell(found);
    }
}

/// Whether a `listen` has this word.
fn has(listen: &SettingValue, word: &str) -> bool {
    listen.text.split(' ').any(|one| one == word)
}

/// The address and port of a `listen`. A port alone is that of every address.
fn address(listen: &SettingValue) -> &str {
    let first = listen.text.split(' ').next().unwrap_or_default();
    let every = first.strip_prefix("*:");
    let every = every.or_else(|| first.strip_prefix("0.0.0.0:"));
    every.unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let tls = |listen: &str| Case::healthy().nginx_with("listen 80;", listen);
        verify(
            &RULE,
            &[
                (tls("listen 443 ssl;"), Severity::Note, "443 ssl http2"),
                // Another server's port.
                (
                    tls("listen 443 ssl http2;\n }\n server {\n  listen 8443 ssl;"),
                    Severity::Note,
                    "listen 8443 ssl http2;",
                ),
            ],
        );
        for well in [
            "listen 443 ssl http2;",
            "listen 443 ssl;\n  http2 on;",
            "listen *:443 ssl http2;\n }\n server {\n  listen 443 ssl;",
        ] {
            assert!(
                super::super::tests_of(&RULE, &tls(well)).is_empty(),
                "{well}"
            );
        }
    }
}
