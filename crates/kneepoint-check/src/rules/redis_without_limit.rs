//! RDS-10: nothing says how much Redis may keep.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "RDS-10",
    name: "redis-without-limit",
    title: "Redis may grow until the kernel kills it",
    what_it_is: "Without maxmemory, as it comes, Redis takes memory for every entry it is given. An application that forgets to \
        set times of expiry fills the host or the container; then the kernel kills Redis, or the database beside it, and all that \
        Redis kept is gone.",
    how_it_shows: "used_memory in `INFO memory` grows from day to day; then `Out of memory: Killed process` in the kernel's log.",
    unless: "The data has a size that is known and fits, or somebody watches its memory.",
    what_to_write: "maxmemory = what it may take of the host or the container. For a cache alone also maxmemory-policy \
        allkeys-lru; for sessions and queues the policy stays noeviction.",
    check,
};

/// Part of a container's limit that is for data, and of a host that others share \[ours\].
const OF_LIMIT: f64 = 0.6;
const OF_HOST: f64 = 0.25;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Redis) {
        let memory = service.settings.or("maxmemory", "0");
        // What nobody can read may be set.
        if service.settings_hidden || memory.size() != Some(0.0) {
            continue;
        }
        let policy = service.settings.or("maxmemory-policy", "noeviction");
        let kept = KeptInRedis::of(snapshot, at);
        let (severity, part) = match service.limits.memory {
            Some(_) => (Severity::Risk, OF_LIMIT),
            None => (Severity::Note, OF_HOST),
        };
        let bytes = service.memory_bytes(&snapshot.machine);
        let mut lines = format!(
            "maxmemory {:.0}mb",
            (bytes * part / 1_048_576.0).floor().max(1.0)
        );
        let evicts = policy.text != "noeviction";
        if kept.is_cache_only() && !evicts {
            lines.push_str("\nmaxmemory-policy allkeys-lru");
        }
        let fix = Fix::line(service, &memory, &lines);
        let fix = match evicts || kept.is_cache_only() {
            true => fix,
            false => fix.after("When that is full it refuses writes, which is right for sessions and queues (a cache alone: maxmemory-policy allkeys-lru)."),
        };
        RULE.at(snapshot, at, severity)
            .value("maxmemory", &memory)
            .value("maxmemory-policy", &policy)
            .seen(
                format!("{} may be used", format_bytes(bytes as u64)),
                service.memory_source(),
            )
            .cost("all that it keeps, when the host or the container has no memory left")
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
        let endless = || Case::healthy().set(2, "maxmemory", "0");
        let cache = endless()
            .set(2, "maxmemory-policy", "noeviction")
            .with(|all| {
                let drivers = [("CACHE_STORE".to_owned(), "redis".to_owned(), 4)];
                all.apps[0].drivers = drivers.into();
            });
        let sessions = endless()
            .set(2, "maxmemory-policy", "noeviction")
            .pool_with("", "session.save_handler=redis");
        let limited = endless().with(|all| {
            all.services[2].limits.memory = Some(crate::snapshot::ResourceLimit {
                value: 100.0 * 1_048_576.0,
                source: SettingSource::Kernel {
                    path: "/sys/fs/cgroup/memory.max".into(),
                },
            });
        });
        verify(
            &RULE,
            &[
                (endless(), Severity::Note, "maxmemory 3814mb"),
                (limited, Severity::Risk, "maxmemory 60mb"),
                (cache, Severity::Note, "\"maxmemory-policy allkeys-lru\""),
                (sessions.clone(), Severity::Note, "right for sessions"),
            ],
        );
        assert!(
            super::super::tests_of(&RULE, &sessions)[0]
                .fix
                .lines
                .is_empty()
        );
        let hidden = endless().with(|all| all.services[2].settings_hidden = true);
        assert!(super::super::tests_of(&RULE, &hidden).is_empty());
    }
}
