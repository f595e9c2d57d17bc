//! What a Redis is known to keep: it decides what may be thrown away when its memory is full.

use crate::find::asks::usual;
use crate::snapshot::{ListenEndpoint, ServedApp, ServiceKind, Snapshot};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// What a Redis is known to keep, each with the line that says so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KeptInRedis {
    /// Visitors' sessions: what says so, and where.
    pub(crate) sessions: Option<(String, String)>,
    /// Jobs that wait.
    pub(crate) queues: Option<(String, String)>,
    /// What could be made anew.
    pub(crate) cache: Option<(String, String)>,
    /// Somebody asks it of whom that is not known.
    pub(crate) others: bool,
}

impl KeptInRedis {
    /// Of the Redis at a position. An application that asks several is not known to keep a thing in this one.
    pub(crate) fn of(snapshot: &Snapshot, at: usize) -> Self {
        let mut kept = Self::default();
        for asker in askers(snapshot, at) {
            if redises_of(snapshot, asker) > 1 {
                kept.others = true;
                continue;
            }
            kept.by_php(snapshot, asker, at);
            let apps = snapshot.apps.iter().filter(|app| app.service == asker);
            let mut known = false;
            for app in apps {
                kept.by_app(app);
                known |= driver(app, &["CACHE_STORE", "CACHE_DRIVER", "SESSION_DRIVER"]).is_some();
            }
            kept.others |= !known;
        }
        kept
    }

    /// Whether it is known to keep a cache and nothing else.
    pub(crate) fn is_cache_only(&self) -> bool {
        self.cache.is_some() && !self.must_stay() && !self.others
    }

    /// Whether it is known to keep what must not be thrown away.
    pub(crate) fn must_stay(&self) -> bool {
        self.sessions.is_some() || self.queues.is_some()
    }

    fn by_php(&mut self, snapshot: &Snapshot, asker: usize, at: usize) {
        let pools = snapshot.services.get(asker).into_iter();
        for pool in pools.flat_map(|service| &service.pools) {
            let handler = pool.php.get("session.save_handler");
            if let Some(handler) = handler.filter(|handler| handler.text == "redis") {
                let path = pool.php.text("session.save_path").unwrap_or_default();
                if is_elsewhere(snapshot, (asker, at), path) {
                    self.others = true;
                    continue;
                }
                let said = "session.save_handler = redis".to_owned();
                self.sessions = Some((said, handler.source.to_string()));
            }
        }
    }

    fn by_app(&mut self, app: &ServedApp) {
        let said = |names: &[&str]| {
            let (name, value, line) = driver(app, names)?;
            (value == "redis").then(|| (format!("{name}={value}"), app.place_of_driver(*line)))
        };
        self.sessions = said(&["SESSION_DRIVER"]).or(self.sessions.take());
        self.queues = said(&["QUEUE_CONNECTION"]).or(self.queues.take());
        self.cache = said(&["CACHE_STORE", "CACHE_DRIVER"]).or(self.cache.take());
    }
}

fn driver<'a>(app: &'a ServedApp, names: &[&str]) -> Option<&'a (String, String, usize)> {
    let mut all = app.drivers.iter();
    all.find(|(name, _, _)| names.contains(&name.as_str()))
}

fn askers(snapshot: &Snapshot, at: usize) -> BTreeSet<usize> {
    let links = snapshot.links.iter().filter(|link| link.to == at);
    links.map(|link| link.from).collect()
}

/// Whether a `session.save_path` is surely another Redis than the one that is asked: both addresses are numbers or sockets, and
/// they differ.
fn is_elsewhere(snapshot: &Snapshot, (asker, at): (usize, usize), path: &str) -> bool {
    let first = path.split([',', ' ', '?']).next().unwrap_or_default();
    let address = match first.split_once("://") {
        Some((scheme, rest)) if scheme != "unix" => rest,
        _ => first,
    };
    let Some(to) = ListenEndpoint::parse(address, 6379).map(|to| usual(&to)) else {
        return false;
    };
    let service = snapshot.services.get(at);
    let mut listens = service.into_iter().flat_map(|one| &one.listens);
    if listens.any(|listen| is_reached(&usual(&listen.endpoint), &to)) {
        return false;
    }
    let links = snapshot.links.iter();
    let mut links = links
        .filter(|link| link.from == asker && link.to == at)
        .map(|link| usual(&link.by));
    is_sure(&to) && links.all(|by| is_sure(&by) && by != to)
}

/// Whether an address may lead to a listener.
fn is_reached(listener: &ListenEndpoint, to: &ListenEndpoint) -> bool {
    match (listener, to) {
        (ListenEndpoint::Unix(own), ListenEndpoint::Unix(path)) => {
            let run = |path: &str| path.replacen("/var/run/", "/run/", 1);
            run(own) == run(path)
        }
        (ListenEndpoint::Tcp(own, port), ListenEndpoint::Tcp(host, other)) => {
            let address = host.parse::<IpAddr>();
            port == other && (own == host || address.is_ok_and(|address| address.is_loopback()))
        }
        _ => false,
    }
}

/// Whether an address is no name, which may be another's.
fn is_sure(endpoint: &ListenEndpoint) -> bool {
    match endpoint {
        ListenEndpoint::Tcp(host, _) => host.parse::<IpAddr>().is_ok(),
        ListenEndpoint::Unix(_) => true,
    }
}

fn redises_of(snapshot: &Snapshot, asker: usize) -> usize {
    let links = snapshot.links.iter().filter(|link| link.from == asker);
    let asked: BTreeSet<usize> = links.map(|link| link.to).collect();
    let is_redis = |at: &&usize| {
        let service = snapshot.services.get(**at);
        service.is_some_and(|one| one.kind == ServiceKind::Redis)
    };
    asked.iter().filter(is_redis).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::case::Case;
    use crate::snapshot::Listener;

    fn drivers(of: &[(&str, &str)]) -> Case {
        Case::healthy().with(|all| {
            let of = of.iter().enumerate();
            all.apps[0].drivers = of
                .map(|(line, (name, value))| ((*name).into(), (*value).into(), line + 1))
                .collect();
        })
    }

    #[test]
    fn what_is_kept_is_what_an_application_or_php_says() {
        let cache = drivers(&[("CACHE_STORE", "redis"), ("SESSION_DRIVER", "file")]);
        assert!(KeptInRedis::of(&cache.0, 2).is_cache_only());
        let both = drivers(&[("CACHE_STORE", "redis"), ("SESSION_DRIVER", "redis")]);
        let kept = KeptInRedis::of(&both.0, 2);
        assert!(kept.must_stay() && kept.cache.is_some() && !kept.is_cache_only());
        assert_eq!(
            kept.sessions,
            Some((
                "SESSION_DRIVER=redis".into(),
                "/srv/app/bootstrap/cache/config.php:2".into()
            ))
        );
        let queue = drivers(&[("CACHE_STORE", "file"), ("QUEUE_CONNECTION", "redis")]);
        assert!(KeptInRedis::of(&queue.0, 2).must_stay());
        let php = Case::healthy().pool_with("", "session.save_handler=redis");
        assert!(KeptInRedis::of(&php.0, 2).must_stay());
    }

    #[test]
    fn sessions_of_another_redis_are_not_kept_here() {
        let stays = |path: &str| {
            let ini = format!("session.save_handler=redis\nsession.save_path=\"{path}\"");
            let case = Case::healthy().pool_with("", &ini).with(|all| {
                all.links[1].by = ListenEndpoint::Tcp("127.0.0.1".into(), 6379);
                let endpoint = ListenEndpoint::Unix("/run/own.sock".into());
                let queue = None;
                all.services[2].listens = vec![Listener { endpoint, queue }];
            });
            KeptInRedis::of(&case.0, 2).must_stay()
        };
        assert!(stays("tcp://localhost:6379?auth=x") && stays("tcp://redis:6379"));
        assert!(stays("unix:///var/run/own.sock"));
        assert!(!stays("tcp://10.0.0.5:6379") && !stays("unix:///run/redis.sock?database=2"));
    }

    #[test]
    fn what_nobody_says_is_not_known() {
        let kept = KeptInRedis::of(&Case::healthy().0, 2);
        assert!(kept.others && !kept.is_cache_only() && !kept.must_stay());
        // With a second Redis nobody knows which of them keeps the cache.
        let two = drivers(&[("CACHE_STORE", "redis")]).with(|all| {
            all.services.push(all.services[2].clone());
            let mut link = all.links[1].clone();
            link.to = 5;
            all.links.push(link);
        });
        assert!(!KeptInRedis::of(&two.0, 2).is_cache_only());
    }
}
