//! RDS-06: what Redis does when its memory is full, and when it writes to disk.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "RDS-06",
    name: "redis-memory",
    title: "Redis stops or stalls when its memory is full",
    what_it_is: "With maxmemory and the policy noeviction every write fails once memory is full; without maxmemory Redis grows \
        until the kernel kills it. appendfsync always waits for the disk at each write; snapshots (save) fork a copy, which \
        stalls a large instance, the more so with transparent huge pages.",
    how_it_shows: "`OOM command not allowed` in the application's log; or Redis vanishes, with all it kept; or all pages pause at once.",
    unless: "It keeps queues or sessions that must not be lost, and somebody watches its memory.",
    what_to_write: "maxmemory with maxmemory-policy allkeys-lru for a cache; appendfsync everysec; save \"\" where nothing must be kept.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Redis) {
        // What nobody can read may be set.
        if service.settings_hidden {
            continue;
        }
        let memory = service.settings.or("maxmemory", "0");
        let policy = service.settings.or("maxmemory-policy", "noeviction");
        let limited = memory.size().is_some_and(|bytes| bytes > 0.0);
        if limited && policy.text == "noeviction" {
            RULE.at(snapshot, at, Severity::Risk)
                .value("maxmemory", &memory)
                .value("maxmemory-policy", &policy)
                .title("Redis refuses every write once its memory is full")
                .cost("errors of every request that writes to the cache")
                .fix(Fix::line(service, &policy, "maxmemory-policy allkeys-lru"))
                .weight(0.2)
                .tell(found);
        } else if !limited {
            let in_container = service.limits.memory.is_some();
            RULE.at(
                snapshot,
                at,
                if in_container {
                    Severity::Risk
                } else {
                    Severity::Note
                },
            )
            .value("maxmemory", &memory)
            .title("Redis grows until the kernel kills it")
            .cost("all that it keeps, when the host or the container has no memory left")
            .fix(Fix::line(
                service,
                &memory,
                "maxmemory 1gb and maxmemory-policy allkeys-lru (for a cache)",
            ))
            .weight(0.1)
            .tell(found);
        }
        let sync = service
            .settings
            .get("appendfsync")
            .filter(|value| value.text == "always");
        let appends = service
            .settings
            .get("appendonly")
            .and_then(SettingValue::is_on)
            == Some(true);
        if let Some(sync) = sync.filter(|_| appends) {
            RULE.at(snapshot, at, Severity::Risk)
                .value("appendfsync", sync)
                .title("Redis waits for the disk at each write")
                .cost("the disk's time for every write, of one thread that serves everybody")
                .fix(Fix::line(service, sync, "appendfsync everysec"))
                .weight(0.25)
                .tell(found);
        }
        snapshots(snapshot, at, service, found);
    }
}

/// Snapshots to disk while huge pages are on: the copy after a fork is by 2 MB and not by 4 kB.
fn snapshots(snapshot: &Snapshot, at: usize, service: &Service, found: &mut Vec<CheckFinding>) {
    let save = service.settings.or("save", "3600 1 300 100 60 10000");
    let Some(pages) = service
        .kernel
        .get("transparent_hugepage")
        .filter(|value| value.text == "always")
    else {
        return;
    };
    if save.text.trim().is_empty() {
        return;
    }
    RULE.at(snapshot, at, Severity::Note)
        .value("save", &save)
        .value("transparent_hugepage", pages)
        .title("Redis writes snapshots while huge pages are on")
        .cost("pauses of everybody after each fork, by the size of the instance")
        .fix(Fix::line(service, &save, "save \"\" (for a cache)"))
        .tell(found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_command_line_is_no_default() {
        let hidden = Case::healthy().with(|snapshot| {
            let redis = &mut snapshot.services[2];
            redis.settings = Settings::default();
            redis.settings_hidden = true;
        });
        assert!(super::super::tests_of(&RULE, &hidden).is_empty());
    }

    #[test]
    fn sick_and_healthy() {
        let case = Case::healthy;
        verify(
            &RULE,
            &[
                (
                    case().set(2, "maxmemory-policy", "noeviction"),
                    Severity::Risk,
                    "refuses every write",
                ),
                (case().set(2, "maxmemory", "0"), Severity::Note, "grows"),
                (
                    case()
                        .set(2, "appendonly", "yes")
                        .set(2, "appendfsync", "always"),
                    Severity::Risk,
                    "everysec",
                ),
                (
                    case()
                        .set(2, "save", "900 1")
                        .kernel(2, "transparent_hugepage", "always"),
                    Severity::Note,
                    "snapshots",
                ),
            ],
        );
    }
}
