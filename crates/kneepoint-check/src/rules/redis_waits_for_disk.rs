//! RDS-11: each write waits for the disk.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "RDS-11",
    name: "redis-waits-for-disk",
    title: "Redis waits for the disk at each write",
    what_it_is: "With appendonly, Redis writes each change to a file as well. appendfsync says when that must have reached the \
        disk: everysec, once a second in the background; always, before the answer. One thread serves everybody, so with always \
        every request waits for the disk of every write.",
    how_it_shows: "Commands that write take milliseconds instead of microseconds (`INFO commandstats`), and Redis sleeps in fdatasync.",
    unless: "Not one confirmed write may be lost in a crash of the host, or the site hardly writes to it.",
    what_to_write: "appendfsync everysec: a crash of the host loses a second of writes at most.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Redis) {
        let appends = service.settings.or("appendonly", "no");
        let sync = service.settings.get("appendfsync");
        let Some(sync) =
            sync.filter(|value| value.text == "always" && appends.is_on() == Some(true))
        else {
            continue;
        };
        RULE.at(snapshot, at, Severity::Risk)
            .value("appendfsync", sync)
            .value("appendonly", &appends)
            .cost("the disk's time for every write, of one thread that serves everybody")
            .fix(Fix::line(service, sync, "appendfsync everysec"))
            .weight(0.25)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let always = || Case::healthy().set(2, "appendfsync", "always");
        verify(
            &RULE,
            &[(
                always().set(2, "appendonly", "yes"),
                Severity::Risk,
                "everysec",
            )],
        );
        assert!(super::super::tests_of(&RULE, &always()).is_empty());
    }
}
