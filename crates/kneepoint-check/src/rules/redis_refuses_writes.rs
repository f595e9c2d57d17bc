//! RDS-06: a cache that throws nothing away.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "RDS-06",
    name: "redis-refuses-writes",
    title: "Redis refuses every write once its memory is full",
    what_it_is: "maxmemory is how much Redis may keep, maxmemory-policy what it does when that is full. With noeviction, as it \
        comes, it throws nothing away and answers each write with an error. That is right for sessions and queues, which nobody \
        can make anew, and wrong for a cache, which fills its memory by its nature.",
    how_it_shows: "`OOM command not allowed when used memory > 'maxmemory'` in the application's log; used_memory in `INFO \
        memory` near maxmemory.",
    unless: "It keeps sessions or queues and nothing else: then the policy is right, and its memory is to be watched.",
    what_to_write: "maxmemory-policy allkeys-lru, where it keeps a cache and nothing else. Where it keeps sessions or queues \
        too: a second Redis for the cache.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Redis) {
        let memory = service.settings.or("maxmemory", "0");
        let policy = service.settings.or("maxmemory-policy", "noeviction");
        let limited = memory.size().is_some_and(|bytes| bytes > 0.0);
        let kept = KeptInRedis::of(snapshot, at);
        // What nobody can read may be set; and what must stay is kept by this very policy.
        let is_right = kept.must_stay() && kept.cache.is_none();
        if service.settings_hidden || !limited || policy.text != "noeviction" || is_right {
            continue;
        }
        // Where nobody knows what it keeps, it may be right.
        let severity = match kept.must_stay() || kept.is_cache_only() {
            true => Severity::Risk,
            false => Severity::Note,
        };
        let mut draft = RULE
            .at(snapshot, at, severity)
            .value("maxmemory", &memory)
            .value("maxmemory-policy", &policy);
        for (what, source) in [&kept.cache, &kept.sessions, &kept.queues]
            .into_iter()
            .flatten()
        {
            draft = draft.seen(what.clone(), source.clone());
        }
        let line = || Fix::line(service, &policy, "maxmemory-policy allkeys-lru");
        let (cost, fix) = match () {
            () if kept.must_stay() => (
                match (&kept.sessions, &kept.queues) {
                    (Some(_), Some(_)) => "when the cache has filled it: visitors cannot log in, and jobs are not taken",
                    (Some(_), None) => "when the cache has filled it: visitors cannot log in",
                    (None, _) => "when the cache has filled it: jobs are not taken",
                },
                Fix::words(
                    "Give the cache a Redis of its own with `maxmemory-policy allkeys-lru`, and leave this one as it is: sessions and \
                     queues must not be thrown away.",
                ),
            ),
            () if kept.is_cache_only() => ("when it is full: an error for every request that writes to the cache", line()),
            () => (
                "when it is full: an error for every request that writes to it",
                line().after("Only where it keeps a cache and nothing else (sessions and queues would be thrown away, too):"),
            ),
        };
        draft.cost(cost).fix(fix).weight(0.2).tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Case {
        Case::healthy().set(2, "maxmemory-policy", "noeviction")
    }

    fn keeping(names: &'static [&'static str]) -> Case {
        full().with(|all| {
            let drivers = names.iter().map(|name| ((*name).into(), "redis".into(), 4));
            all.apps[0].drivers = drivers.collect();
        })
    }

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[
                (full(), Severity::Note, "Only where it keeps a cache"),
                (
                    keeping(&["CACHE_STORE"]),
                    Severity::Risk,
                    "text: \"In /etc/x.conf:1, change",
                ),
                (
                    keeping(&["CACHE_STORE", "SESSION_DRIVER"]),
                    Severity::Risk,
                    "Give the cache a Redis of its own",
                ),
            ],
        );
        for right in [keeping(&["SESSION_DRIVER"]), keeping(&["QUEUE_CONNECTION"])] {
            assert!(super::super::tests_of(&RULE, &right).is_empty());
        }
    }

    #[test]
    fn a_hidden_command_line_is_no_default() {
        let hidden = full().with(|snapshot| snapshot.services[2].settings_hidden = true);
        assert!(super::super::tests_of(&RULE, &hidden).is_empty());
    }
}
