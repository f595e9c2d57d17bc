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
        if groups.contains(&source) {
            continue;
        }
        let killed = counted(kills.value as u64, "process");
        let (limit, remedy) = match &service.limits.memory {
            Some(limit) => (
                format!("the limit is {}", format_bytes(limit.value as u64)),
                "or raise the memory limit.",
            ),
            None => (
                "it has no limit below the machine's memory: the machine had none left".to_owned(),
                "or give the machine more memory.",
            ),
        };
        // Without a limit of its own it was the machine that lacked memory, and whoever it was may be gone.
        let of_anybody = service.limits.kills_of_anybody && service.limits.memory.is_none();
        let (severity, whose) = if of_anybody {
            (
                Severity::Note,
                ", of this service or of others in its group",
            )
        } else {
            (Severity::Problem, "")
        };
        RULE.at(snapshot, at, severity)
            .seen(
                format!("the kernel killed {killed}{whose}; {limit}"),
                &source,
            )
            .cost("an error for each request of each of them, and cold caches after it")
            .fix(Fix::words(format!(
                "Make the pools smaller, by the memory their workers take, {remedy}"
            )))
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
            &[
                (
                    Case::healthy().with(killed),
                    Severity::Problem,
                    "3 processes",
                ),
                (
                    Case::healthy().with(|all| {
                        killed(all);
                        all.services[1].limits.memory = None;
                    }),
                    Severity::Problem,
                    "no limit below the machine's memory",
                ),
                (
                    Case::healthy().with(|all| {
                        killed(all);
                        all.services[1].limits.memory = None;
                        all.services[1].limits.kills_of_anybody = true;
                    }),
                    Severity::Note,
                    "of this service or of others",
                ),
            ],
        );
    }
}
