//! NGX-24: responses are not taken up before the client reads them.

use crate::find::asks::{endpoints_of, usual};
use crate::rule::prelude::*;
use crate::snapshot::{Link, ListenEndpoint, Nginx, Pass};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-24",
    name: "buffering-off",
    title: "A slow client holds a worker of PHP",
    what_it_is: "nginx takes up what PHP or the next tier answers, so that a worker is free after milliseconds, and \
        hands it to the client at the client's speed. With fastcgi_buffering or proxy_buffering off the worker waits \
        until the client has read all of it: a phone on a slow line holds a worker for seconds.",
    how_it_shows: "All workers are busy in write while the CPU is idle; the more, the slower the clients.",
    unless: "The location streams (server-sent events, long downloads) and has a pool of its own.",
    what_to_write: "fastcgi_buffering on; proxy_buffering on; and off only in the one location that streams.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, web) in snapshot.of(ServiceKind::Nginx) {
        let Some(nginx) = &web.nginx else { continue };
        // One line may hold for many places that hand requests on: it is told once, with all that is behind them.
        let mut lines: BTreeMap<String, (&'static str, &SettingValue, Vec<&Pass>)> =
            BTreeMap::new();
        for pass in &nginx.passes {
            let name = match pass.directive.as_str() {
                "fastcgi_pass" => "fastcgi_buffering",
                "proxy_pass" => "proxy_buffering",
                _ => continue,
            };
            let value = pass.settings.get(name);
            if let Some(value) = value.filter(|value| value.is_on() == Some(false)) {
                let key = format!("{name} {}", value.source);
                let line = lines.entry(key).or_insert((name, value, Vec::new()));
                line.2.push(pass);
            }
        }
        for (name, value, passes) in lines.into_values() {
            let Some(workers) = held(snapshot, at, nginx, &passes) else {
                continue;
            };
            let mut draft = RULE.at(snapshot, at, Severity::Risk).value(name, value);
            if workers == 0 {
                draft = draft.title("A slow client holds a connection to the next server, and what works for it there");
            }
            draft
                .cost(cost(workers))
                .fix(Fix::line(web, value, &format!("{name} on;")))
                .weight(0.2)
                .tell(found);
        }
    }
}

/// Workers of PHP behind these places, each pool once; 0 where it is not known who is behind one of them. `None` where all
/// lead to a nginx: that one takes responses up itself, or is told of by itself.
fn held(snapshot: &Snapshot, at: usize, nginx: &Nginx, passes: &[&Pass]) -> Option<u64> {
    let mut pools: BTreeSet<(usize, Option<&str>)> = BTreeSet::new();
    let mut unknown = false;
    let mut led: HashMap<&ListenEndpoint, Vec<&Link>> = HashMap::new();
    for link in snapshot.links.iter().filter(|link| link.from == at) {
        led.entry(&link.by).or_default().push(link);
    }
    // Another server of the same nginx has no link.
    let own = snapshot.services.get(at).into_iter();
    let own = own.flat_map(|web| &web.listens);
    let own: HashSet<ListenEndpoint> = own.map(|one| usual(&one.endpoint)).collect();
    for (to, _) in passes.iter().flat_map(|pass| endpoints_of(nginx, pass)) {
        match led.get(&to) {
            Some(links) => pools.extend(links.iter().map(|link| (link.to, link.pool.as_deref()))),
            None => unknown |= !own.contains(&usual(&to)),
        }
    }
    pools.retain(|(to, _)| {
        let service = snapshot.services.get(*to);
        service.is_some_and(|service| service.kind != ServiceKind::Nginx)
    });
    let workers = pools.iter().filter_map(|(to, pool)| {
        let service = snapshot.services.get(*to)?;
        let own = service
            .pools
            .iter()
            .find(|one| Some(one.name.as_str()) == *pool);
        own.map_or_else(|| service.php_workers(), FpmPool::max_children)
    });
    let workers = workers.sum();
    (unknown || !pools.is_empty()).then_some(workers)
}

fn cost(workers: u64) -> String {
    match workers {
        0 => "a worker there for as long as a client reads, unless that server takes responses up itself".into(),
        1 => "one client on a slow line holds the only worker of PHP behind it".into(),
        count => format!("{count} clients on slow lines hold all {count} workers of PHP behind it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Listener;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[
                (
                    Case::healthy().nginx_with(
                        "fastcgi_pass unix",
                        "fastcgi_buffering off;\n   fastcgi_pass unix",
                    ),
                    Severity::Risk,
                    "20 clients",
                ),
                (
                    Case::healthy()
                        .nginx_with("sendfile on;", "sendfile on;\n proxy_buffering off;"),
                    Severity::Risk,
                    "proxy_buffering",
                ),
            ],
        );
        // A pool counts once, however many places lead to it.
        let twice = "location ~ php {\n   fastcgi_buffering off;\n   fastcgi_pass unix:/run/php.sock;\n  }\n  location /api {\n   \
            fastcgi_buffering off;\n   fastcgi_pass unix:/run/php.sock;\n  }\n";
        let old = "location ~ php {\n   fastcgi_pass unix:/run/php.sock;\n  }\n";
        let both = Case::healthy()
            .nginx_with(old, twice)
            .with(|all| all.links.push(all.links[0].clone()));
        let found = super::super::tests_of(&RULE, &both);
        assert_eq!(found.len(), 2, "one for each line: {found:#?}");
        assert!(found.iter().all(|one| one.cost.starts_with("20 clients")));
    }

    #[test]
    fn another_nginx_takes_responses_up_itself() {
        let before = |kind| {
            Case::healthy()
                .nginx_with("sendfile on;", "sendfile on;\n proxy_buffering off;")
                .with(|all| {
                    all.links.push(Link {
                        from: 0,
                        to: all.services.len(),
                        pool: None,
                        from_pools: Vec::new(),
                        by: ListenEndpoint::Tcp("10.0.0.2".into(), 80),
                        how: "/etc/nginx/nginx.conf:16".into(),
                    });
                    all.services.push(Service::new(kind, 99));
                })
        };
        assert!(super::super::tests_of(&RULE, &before(ServiceKind::Nginx)).is_empty());
        let itself = Case::healthy()
            .nginx_with("sendfile on;", "sendfile on;\n proxy_buffering off;")
            .with(|all| {
                let endpoint = ListenEndpoint::Tcp("10.0.0.2".into(), 80);
                all.services[0].listens = vec![Listener {
                    endpoint,
                    queue: None,
                }];
            });
        assert!(super::super::tests_of(&RULE, &itself).is_empty());
        let found = super::super::tests_of(&RULE, &before(ServiceKind::Haproxy));
        assert!(found[0].title.contains("next server"), "{found:#?}");
    }
}
