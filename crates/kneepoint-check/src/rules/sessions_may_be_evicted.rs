//! RDS-09: sessions share a Redis that throws entries away.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "RDS-09",
    name: "sessions-may-be-evicted",
    title: "Sessions are thrown away when Redis is full",
    what_it_is: "A Redis that is a cache throws old entries away when it is full (maxmemory-policy allkeys-...). \
        Where sessions are kept in the same Redis, by the application or by PHP (session.save_handler), these are entries \
        like all others: visitors are logged out and carts are empty, in the moment of the highest load.",
    how_it_shows: "Visitors report that they were logged out; evicted_keys in `INFO stats` counts up.",
    unless: "Its memory is never full: evicted_keys stays 0.",
    what_to_write: "A Redis of their own for sessions, with maxmemory-policy noeviction. volatile-lru is no help: sessions \
        carry a time of expiry as cache entries do.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Redis) {
        let policy = service.settings.get("maxmemory-policy");
        let Some(policy) = policy.filter(|policy| policy.text.starts_with("allkeys-")) else {
            continue;
        };
        let kept = KeptInRedis::of(snapshot, at);
        let most = service.settings.or("maxmemory", "0");
        let limited = most.size().is_none_or(|bytes| bytes > 0.0);
        let (Some((said, source)), true) = (&kept.sessions, limited) else {
            continue;
        };
        let mut draft = RULE
            .at(snapshot, at, Severity::Risk)
            .value("maxmemory-policy", policy)
            .value("maxmemory", &most)
            .seen(said.clone(), source.clone());
        if let Some((said, source)) = &kept.cache {
            draft = draft.seen(said.clone(), source.clone());
        }
        let fix = match kept.cache.is_some() || kept.others {
            true => Fix::words(
                "Keep sessions in a Redis of their own with `maxmemory-policy noeviction`.",
            ),
            false => Fix::line(service, policy, "maxmemory-policy noeviction"),
        };
        draft
            .cost(format!(
                "visitors are logged out once {} are full",
                most.text
            ))
            .fix(fix)
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
        let php = Case::healthy().pool_with("", "session.save_handler=redis");
        verify(
            &RULE,
            &[
                (shared.clone(), Severity::Risk, "once 1gb are full"),
                (php, Severity::Risk, "session.save_handler = redis"),
            ],
        );
        let kept = shared.set(2, "maxmemory-policy", "noeviction");
        assert!(super::super::tests_of(&RULE, &kept).is_empty());
    }
}
