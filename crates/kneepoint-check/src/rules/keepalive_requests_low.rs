//! NGX-06: connections are closed after few requests.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-06",
    name: "keepalive-requests-low",
    title: "nginx closes connections after few requests",
    what_it_is: "keepalive_requests is how many requests a connection may carry: 1000 by default, 100 before nginx 1.19.10. \
        Towards the next tier that is a new connection once in this many requests; towards a proxy or CDN in front, too.",
    how_it_shows: "A steady stream of new connections, one in every keepalive_requests requests.",
    unless: "Clients are browsers that make a few requests each.",
    what_to_write: "keepalive_requests 10000;",
    check,
};

const LOW: f64 = 1000.0;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Nginx) {
        let Some(nginx) = &service.nginx else {
            continue;
        };
        let upstreams = nginx.upstreams.iter();
        let kept = upstreams.filter(|one| service.keepalive_of(one).is_some());
        let mut values: Vec<SettingValue> = kept
            .filter_map(|one| service.keepalive_requests_of(one))
            .collect();
        values.extend(service.settings.get("keepalive_requests").cloned());
        values.extend(
            nginx
                .servers
                .iter()
                .filter_map(|one| one.settings.get("keepalive_requests"))
                .cloned(),
        );
        values.sort_by_key(|value| value.source.to_string());
        values.dedup();
        for value in values {
            if value.number().is_some_and(|count| count < LOW) {
                // What nginx comes with is told of upstreams only: most clients are browsers.
                let line = match value.is_default() {
                    true => "keepalive_requests 10000; (in the upstream)",
                    false => "keepalive_requests 10000;",
                };
                RULE.at(snapshot, at, Severity::Risk)
                    .value("keepalive_requests", &value)
                    .cost(match value.text.trim() {
                        "0" | "1" => {
                            "a new connection for every request, with its handshakes".into()
                        }
                        count => {
                            format!("a new connection every {count} requests, with its handshakes")
                        }
                    })
                    .fix(Fix::line(service, &value, line))
                    .weight(0.06)
                    .tell(found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let older = Case::healthy().with(|all| all.services[0].version = "1.18.0".into());
        verify(
            &RULE,
            &[
                (
                    Case::healthy()
                        .nginx_with("keepalive_requests 1000;", "keepalive_requests 100;"),
                    Severity::Risk,
                    "nginx.conf:9",
                ),
                // It comes with 100.
                (older, Severity::Risk, "(in the upstream)"),
            ],
        );
    }
}
