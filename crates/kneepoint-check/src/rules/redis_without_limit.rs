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
        let evicts = policy.text != "noeviction";
        let fix = fix(
            service,
            &memory,
            bytes,
            part,
            (evicts, kept.is_cache_only()),
        );
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

/// So much more than what is there now may come \[ours\].
const ROOM: f64 = 1.25;
/// Part of the memory above which no limit helps: the copy for a snapshot comes on top \[ours\].
const MOST: f64 = 0.8;

/// A limit that what is kept now fits: below it Redis would refuse every write, or throw things away, at once.
fn fix(
    service: &Service,
    memory: &SettingValue,
    bytes: f64,
    part: f64,
    (evicts, is_cache): (bool, bool),
) -> Fix {
    let held = service.pss.unwrap_or(0.0);
    let right = (bytes * part).max(held * ROOM);
    if right > bytes * MOST {
        return Fix::words(format!(
            "It holds {} already. Give it more memory, or a time of expiry to what it keeps, before maxmemory is set: below what \
             it holds it refuses writes, or throws entries away, at once.",
            format_bytes(held as u64)
        ));
    }
    // What is to be thrown away is said before the limit is there.
    let policy = match is_cache && !evicts {
        true => "maxmemory-policy allkeys-lru\n",
        false => "",
    };
    let megabytes = (right / 1_048_576.0).floor().max(1.0);
    let fix = Fix::line(
        service,
        memory,
        &format!("{policy}maxmemory {megabytes:.0}mb"),
    );
    match evicts || is_cache {
        true => fix,
        false => fix.after("When that is full it refuses writes, which is right for sessions and queues (a cache alone: maxmemory-policy allkeys-lru)."),
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
        let holding = |bytes| endless().with(move |all| all.services[2].pss = Some(bytes));
        verify(
            &RULE,
            &[
                (holding(6e9), Severity::Note, "maxmemory 7152mb"),
                (holding(11e9), Severity::Note, "It holds 10.2 GiB already"),
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
