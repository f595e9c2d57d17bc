//! KRN-08: the kernel killed processes of the group.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "KRN-08",
    name: "oom-kills",
    title: "The kernel killed processes for want of memory",
    what_it_is: "When a control group reaches its memory limit the kernel kills a process in it. The counter is of the life of \
        the group, and stays when the container is not made anew.",
    how_it_shows: "Workers or databases vanish; `Out of memory: Killed process` in the log of the kernel.",
    unless: "It was one job that is gone.",
    what_to_write: "Smaller pools, a smaller memory_limit, or a larger limit of the container.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let mut groups: Vec<String> = Vec::new();
    for (at, service) in snapshot.services.iter().enumerate() {
        let Some(kills) = &service.limits.oom_kills else {
            continue;
        };
        let source = kills.source.to_string();
        // Without a limit of its own the counter is that of the whole machine.
        if service.limits.memory.is_none() || groups.contains(&source) {
            continue;
        }
        let limit = service
            .limits
            .memory
            .as_ref()
            .map_or(0.0, |limit| limit.value);
        RULE.at(snapshot, at, Severity::Problem)
            .seen(format!("the kernel killed {}; the limit is {}", counted(kills.value as u64, "process"), format_bytes(limit as u64)), &source)
            .cost("an error for each request of each of them, and cold caches after it")
            .fix(Fix::words("Make the pools smaller, by the memory their workers take, or raise the container's memory limit."))
            .weight(0.5)
            .tell(found);
        groups.push(source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::ResourceLimit;

    #[test]
    fn sick_and_healthy() {
        let killed = |snapshot: &mut Snapshot| {
            let limit = |value, path: &str| {
                Some(ResourceLimit {
                    value,
                    source: SettingSource::Kernel { path: path.into() },
                })
            };
            snapshot.services[1].limits.oom_kills = limit(3.0, "/x/memory.events");
            snapshot.services[1].limits.memory = limit(5e8, "/x/memory.max");
        };
        verify(
            &RULE,
            &[(
                Case::healthy().with(killed),
                Severity::Problem,
                "3 processes",
            )],
        );
    }
}
