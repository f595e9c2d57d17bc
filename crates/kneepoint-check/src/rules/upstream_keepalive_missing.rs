//! NGX-04: a new connection for every request that is handed on.

use crate::rule::kept_open::{always_upgrades, asks_to_keep, kept_open, only_words, own_upstream};
use crate::rule::prelude::*;
use crate::snapshot::{Pass, Upstream};
use std::collections::BTreeSet;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-04",
    name: "upstream-keepalive-missing",
    title: "nginx opens a new connection for every request it hands on",
    what_it_is: "Before 1.29.7, nginx keeps connections to the next tier only where its `upstream` has `keepalive` and the \
        location says proxy_http_version 1.1 and an empty Connection header. Without, every request costs a handshake and a \
        local port for a minute (20 000 against 37 000 requests a second in the lab). At half of the port range connecting \
        itself becomes slow, without an error.",
    how_it_shows: "Thousands of connections in TIME_WAIT to the next tier; a rate that stops growing while the kernel's part of the CPU does.",
    unless: "Few requests are handed on, or over a Unix socket.",
    what_to_write: "upstream app { server ...; keepalive 64; } and at the pass: proxy_http_version 1.1; proxy_set_header Connection \"\";",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Nginx) {
        if service.is_older_than(&[1, 29, 7]) == Some(false) {
            continue;
        }
        let Some(nginx) = &service.nginx else {
            continue;
        };
        let mut told: BTreeSet<&str> = BTreeSet::new();
        for pass in nginx
            .passes
            .iter()
            .filter(|pass| pass.directive == "proxy_pass")
        {
            // What is upgraded to another protocol (WebSocket) is nobody else's connection afterwards.
            let is_told = told.contains(pass.target.text.as_str());
            if pass.target.text.contains("unix:") || always_upgrades(pass) || is_told {
                continue;
            }
            let upstream = nginx.upstream_of(pass);
            let keepalive = upstream.and_then(|one| one.settings.get("keepalive"));
            if keepalive.is_some() && asks_to_keep(pass) {
                continue;
            }
            told.insert(&pass.target.text);
            let mut draft = RULE
                .at(snapshot, at, Severity::Risk)
                .value(&pass.directive, &pass.target);
            match (upstream, keepalive) {
                (_, Some(keepalive)) => {
                    draft = draft
                        .value("keepalive", keepalive)
                        .title("keepalive has no effect: the location asks by HTTP/1.0 or closes");
                }
                (Some(upstream), None) => {
                    draft = draft.seen(
                        format!("upstream {} has no keepalive", upstream.name),
                        begins(upstream),
                    )
                }
                (None, None) => {
                    draft = draft.seen(
                        "it names no upstream block, which alone can have keepalive",
                        "",
                    )
                }
            }
            let waiting: u64 = service.time_wait.values().sum();
            if waiting > 0 {
                let waiting = counted(waiting, "connection");
                draft = draft.seen(
                    format!("{waiting} in TIME_WAIT to whom it asks"),
                    format!("/proc/{}/net/tcp", service.pid),
                );
            }
            let ports = super::local_ports::bearable(service);
            if let Some((range, _)) = ports {
                draft = draft.value("net.ipv4.ip_local_port_range", range);
            }
            draft
                .cost(cost(ports.map(|(_, most)| most)))
                .fix(fix(service, pass, upstream, keepalive.is_some()))
                .weight(0.4)
                .tell(found);
        }
    }
}

fn fix(service: &Service, pass: &Pass, upstream: Option<&Upstream>, is_kept: bool) -> Fix {
    let lines = kept_open(pass, None);
    let beside = || Fix::beside(service, &pass.target, &lines);
    if let Some(text) = only_words(pass, upstream.is_some()) {
        return Fix::words(text);
    }
    match upstream {
        Some(_) if is_kept => beside(),
        Some(upstream) => {
            let place = match begins(upstream) {
                at if at.is_empty() => format!("In upstream {}", upstream.name),
                at => format!("In upstream {} ({at})", upstream.name),
            };
            let kept = format!("{place}, below its servers, add `keepalive 64;`.");
            match lines.is_empty() {
                true => Fix::reload(service, kept),
                false => beside().after(&kept),
            }
        }
        None => {
            let (block, lines) = own_upstream(pass);
            let above = format!("Above the server, write `{block}`.");
            Fix::line(service, &pass.target, &lines).after(&above)
        }
    }
}

fn begins(upstream: &Upstream) -> String {
    let at = upstream.at.as_ref();
    at.map_or_else(String::new, ToString::to_string)
}

/// What connecting for each request costs, and where the local ports end: at so many requests a second.
fn cost(ports_bear: Option<f64>) -> String {
    let costs =
        "a handshake for every request, and a local port for a minute: up to half of the rate";
    match ports_bear {
        Some(most) => format!(
            "{costs}; above about {most:.0} requests a second to one server connecting itself becomes slow"
        ),
        None => costs.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(case: Case) -> String {
        let told = super::super::tests_of(&RULE, &case);
        let fix = &told[0].fix;
        format!(
            "{}\n{}",
            fix.text,
            fix.written().collect::<Vec<_>>().join("\n")
        )
    }

    #[test]
    fn what_to_write_stands_where_it_belongs() {
        let text = written(Case::healthy().nginx_with("  keepalive 64;\n", ""));
        assert!(
            text.starts_with("In upstream app (/etc/nginx/nginx.conf:")
                && text.ends_with("below its servers, add `keepalive 64;`.\n"),
            "{text}"
        );
        let text = written(Case::healthy().nginx_with("   proxy_http_version 1.1;\n", ""));
        assert!(text.starts_with("In /etc/nginx/nginx.conf:"), "{text}");
    }

    #[test]
    fn headers_that_the_new_line_would_take_away_stand_beside_it() {
        let conf = |location: &str| {
            Case::healthy().nginx(&format!(
                "http {{ proxy_set_header Host $host;\n proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n \
                 server {{ location / {{ {location} proxy_pass https://10.0.0.9:8443/api/; }} }} }}"
            ))
        };
        let inherited = written(conf(""));
        let expected = "upstream kept_10_0_0_9_8443 { server 10.0.0.9:8443; keepalive 64; }";
        assert!(inherited.contains(expected), "{inherited}");
        let lines = "proxy_pass https://kept_10_0_0_9_8443/api/;\nproxy_http_version 1.1;\n\
            proxy_set_header Host $host;\nproxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n\
            proxy_set_header Connection \"\";\nproxy_ssl_name 10.0.0.9;";
        assert!(inherited.ends_with(lines), "{inherited}");
        // Its own headers stay, and Host is what it was.
        let own = written(conf("proxy_set_header X-A \"a b\";\n"));
        let lines = "proxy_http_version 1.1;\nproxy_set_header Host 10.0.0.9:8443;\nproxy_set_header Connection \"\";\n\
            proxy_ssl_name 10.0.0.9;";
        assert!(own.ends_with(lines), "{own}");
    }

    #[test]
    fn an_address_is_named_as_nginx_would_take_it() {
        let conf = |location: &str| {
            Case::healthy().nginx(&format!(
                "http {{ server {{ location / {{ {location} }} }} }}"
            ))
        };
        let named = written(conf("proxy_pass https://api.example.com;"));
        assert!(
            named.contains("{ server api.example.com:443; keepalive 64; }")
                && named.contains("proxy_ssl_name api.example.com;"),
            "{named}"
        );
        let all = written(conf("proxy_pass http://10.0.0.9:80$request_uri;"));
        assert!(all.contains("//kept_10_0_0_9_80$request_uri;"), "{all}");
        let looked_up = written(conf("set $u http://app:8080; proxy_pass $u;"));
        assert!(looked_up.contains("without a variable"), "{looked_up}");
        let socket = conf(
            "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; \
             proxy_pass http://127.0.0.1:6001;",
        );
        assert!(super::super::tests_of(&RULE, &socket).is_empty());
        let mapped = written(conf(
            "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $upgrade; \
             proxy_pass http://127.0.0.1:6001;",
        ));
        assert!(mapped.contains("let the map give ''"), "{mapped}");
    }

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[
                (
                    Case::healthy().nginx_with("  keepalive 64;\n", ""),
                    Severity::Risk,
                    "has no keepalive",
                ),
                (
                    Case::healthy().nginx_with("   proxy_http_version 1.1;\n", ""),
                    Severity::Risk,
                    "HTTP/1.0",
                ),
                (
                    Case::healthy()
                        .nginx_with("proxy_pass http://app;", "proxy_pass http://10.0.0.9;"),
                    Severity::Risk,
                    "upstream block",
                ),
            ],
        );
        let without = Case::healthy().nginx_with("  keepalive 64;\n", "").kernel(
            0,
            "net.ipv4.ip_local_port_range",
            "32768 60999",
        );
        let told = super::super::tests_of(&RULE, &without);
        assert!(
            told[0].cost.contains("above about 235 requests a second"),
            "{told:?}"
        );
        let newer = Case::healthy()
            .nginx_with("  keepalive 64;\n", "")
            .with(|all| all.services[0].version = "1.29.8".into());
        assert!(super::super::tests_of(&RULE, &newer).is_empty());
    }
}
