//! NGX-24: responses are not taken up before the client reads them.

use crate::find::asks::{endpoints_of, usual};
use crate::rule::kept_open::always_upgrades;
use crate::rule::prelude::*;
use crate::snapshot::{Link, ListenEndpoint, Nginx, Pass};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-24",
    name: "buffering-off",
    title: "A slow client holds a worker of PHP",
    what_it_is: "nginx normally keeps the response of PHP or the next tier and sends it on at the client's speed, so that \
        the worker is free after milliseconds. With fastcgi_buffering or proxy_buffering off the worker waits until the \
        client has read all of it: a phone on a slow line holds a worker for seconds.",
    how_it_shows: "All workers are busy in write while the CPU is idle; the slower the clients, the more of them.",
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
                // What is upgraded to another protocol (WebSocket) is no response to take up.
                "proxy_pass" if !always_upgrades(pass) => "proxy_buffering",
                _ => continue,
            };
            let value = pass.settings.get(name);
            if let Some(value) = value.filter(|value| value.is_on() == Some(false)) {
                let key = format!("{name} {}", value.source);
                let line = lines.entry(key).or_insert((name, value, Vec::new()));
                line.2.push(pass);
            }
        }
        let behind = Behind::of(snapshot, at, web, nginx);
        for (name, value, passes) in lines.into_values() {
            let Some(workers) = behind.held(&passes) else {
                continue;
            };
            let mut draft = RULE.at(snapshot, at, Severity::Risk).value(name, value);
            if workers == 0 {
                draft = draft
                    .severity(Severity::Note)
                    .title("A slow client holds a connection to the next server, and what works for it there");
            }
            draft
                .cost(cost(workers))
                .fix(Fix::line(web, value, &format!("{name} on;")))
                .weight(0.2)
                .tell(found);
        }
    }
}

/// Who is behind one nginx.
struct Behind<'a> {
    snapshot: &'a Snapshot,
    nginx: &'a Nginx,
    links: HashMap<&'a ListenEndpoint, Vec<&'a Link>>,
    /// Where it listens itself: another server of the same nginx has no link.
    own: HashSet<ListenEndpoint>,
    /// Workers of each pool, by its service and name.
    workers: HashMap<(usize, &'a str), Option<u64>>,
}

impl<'a> Behind<'a> {
    fn of(snapshot: &'a Snapshot, at: usize, web: &'a Service, nginx: &'a Nginx) -> Self {
        let mut links: HashMap<&ListenEndpoint, Vec<&Link>> = HashMap::new();
        for link in snapshot.links.iter().filter(|link| link.from == at) {
            links.entry(&link.by).or_default().push(link);
        }
        let own = web.listens.iter().map(|one| usual(&one.endpoint));
        let pools = snapshot.pools();
        let workers = pools.map(|(at, _, pool)| ((at, pool.name.as_str()), pool.max_children()));
        Self {
            snapshot,
            nginx,
            links,
            own: own.collect(),
            workers: workers.collect(),
        }
    }

    /// Workers of PHP behind these places, each pool once; 0 where it is not known who is behind one of them. `None` where
    /// all lead to a nginx: that one takes responses up itself, or is told of by itself.
    fn held(&self, passes: &[&Pass]) -> Option<u64> {
        let mut pools: BTreeSet<(usize, Option<&str>)> = BTreeSet::new();
        let mut unknown = false;
        for (to, _) in passes
            .iter()
            .flat_map(|pass| endpoints_of(self.nginx, pass))
        {
            match self.links.get(&to) {
                Some(links) => {
                    pools.extend(links.iter().map(|link| (link.to, link.pool.as_deref())))
                }
                None => unknown |= !self.own.contains(&usual(&to)),
            }
        }
        let service = |at: usize| self.snapshot.services.get(at);
        pools.retain(|(to, _)| service(*to).is_some_and(|one| one.kind != ServiceKind::Nginx));
        let workers = pools.iter().filter_map(|(to, pool)| {
            let own = pool.and_then(|name| self.workers.get(&(*to, name)).copied());
            own.unwrap_or_else(|| service(*to).and_then(Service::php_workers))
        });
        let workers = workers.sum();
        (unknown || !pools.is_empty()).then_some(workers)
    }
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
                    Severity::Note,
                    "proxy_buffering",
                ),
            ],
        );
        let socket = Case::healthy().nginx_with(
            "proxy_set_header Connection \"\";",
            "proxy_buffering off;\n   proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;",
        );
        assert!(super::super::tests_of(&RULE, &socket).is_empty());
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
