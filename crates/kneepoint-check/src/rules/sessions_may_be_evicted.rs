//! RDS-09: sessions share a Redis that throws entries away.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "RDS-09",
    name: "sessions-may-be-evicted",
    title: "Sessions are thrown away when the cache is full",
    what_it_is: "A Redis that is a cache throws old entries away when it is full (maxmemory-policy allkeys-...). \
        Where the application keeps its sessions in the same Redis, these are entries like all others: visitors are \
        logged out and carts are empty, in the moment of the highest load.",
    how_it_shows: "Visitors report that they were logged out; evicted_keys in `INFO stats` counts up.",
    unless: "Its memory is never full: evicted_keys stays 0.",
    what_to_write: "A second Redis for sessions with maxmemory-policy noeviction; or volatile-lru, where sessions \
        live longer than cache entries.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for app in &snapshot.apps {
        let driver = |names: &[&str]| {
            let mut all = app.drivers.iter();
            all.find(|(name, value, _)| names.contains(&name.as_str()) && value == "redis")
        };
        let (Some(sessions), Some(_)) = (
            driver(&["SESSION_DRIVER"]),
            driver(&["CACHE_STORE", "CACHE_DRIVER"]),
        ) else {
            continue;
        };
        let mut asked = snapshot
            .links
            .iter()
            .filter(|link| link.from == app.service);
        let shared = asked.find_map(|link| {
            let service = snapshot
                .services
                .get(link.to)
                .filter(|one| one.kind == ServiceKind::Redis)?;
            let policy = service.settings.get("maxmemory-policy")?;
            policy
                .text
                .starts_with("allkeys-")
                .then_some((link.to, service, policy))
        });
        let redis = snapshot.of(ServiceKind::Redis).count();
        let Some((at, service, policy)) = shared.filter(|_| redis == 1) else {
            continue;
        };
        let most = service.settings.or("maxmemory", "0");
        RULE.at(snapshot, at, Severity::Risk)
            .value("maxmemory-policy", policy)
            .value("maxmemory", &most)
            .seen(
                "SESSION_DRIVER and the cache are both `redis`",
                format!("{}/.env:{}", app.root, sessions.2),
            )
            .cost(format!(
                "visitors are logged out once {} are full",
                most.text
            ))
            .fix(Fix::words(
                "Keep sessions in a Redis of their own with maxmemory-policy noeviction.",
            ))
            .weight(0.1)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let shared = Case::healthy().with(|all| {
            for name in ["SESSION_DRIVER", "CACHE_STORE"] {
                all.apps[0].drivers.push((name.into(), "redis".into(), 4));
            }
        });
        verify(&RULE, &[(shared, Severity::Risk, "once 1gb are full")]);
    }
}
