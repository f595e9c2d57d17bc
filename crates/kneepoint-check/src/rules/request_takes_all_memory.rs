//! FPM-26: memory_limit is most of the memory there is.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-26",
    name: "request-takes-all-memory",
    title: "One request may take most of the memory there is",
    what_it_is: "memory_limit is how much one request may take before PHP ends it with an error of its own. Where \
        that is most of what the container or the host has, one bad page is ended by the kernel instead: it kills a \
        worker, or the database beside it, and says so in no log of PHP.",
    how_it_shows: "Workers end by signal 9 while memory_limit was never reached.",
    unless: "Only one script needs it, in a pool of its own that runs one request at a time.",
    what_to_write: "memory_limit = 256M, and more for the pool or the script that needs it.",
    check,
};

/// What PHP comes with, in bytes. Most applications do not work with less, so nobody is told to have less.
const LEAST: f64 = 128.0 * 1_048_576.0;

/// Part of the memory from which on two such requests at once are more than there is.
const MOST: f64 = 0.5;

const LIMIT: Directive = Directive {
    home: Home::Ini,
    name: "memory_limit",
    usual: "128M",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, around| {
        let bytes = value.size().filter(|bytes| *bytes > 0.0)?;
        let all = around.memory_bytes();
        (all > 0.0 && bytes >= all * MOST).then(|| {
            format!(
                "{} of {} ({}) for one request of one of {}: two at once are killed by the kernel",
                format_bytes(bytes as u64),
                format_bytes(all as u64),
                around.memory_source(),
                around.who()
            )
        })
    },
    better: |around| {
        let right = (around.memory_bytes() / 8.0).max(LEAST);
        format!("{:.0}M", (right / 1_048_576.0).floor())
    },
    weight: 0.2,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let before = found.len();
    LIMIT.check(&RULE, snapshot, found);
    for finding in found.iter_mut().skip(before) {
        let service = snapshot.services.get(finding.service);
        let memory = service.map_or(0.0, |one| one.memory_bytes(&snapshot.machine));
        if memory * MOST <= LEAST {
            finding.fix = Fix::words(
                "Give it more memory: most applications need the 128M that PHP comes with, and several requests are under way at once.",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with("", "memory_limit=8G"),
                Severity::Risk,
                "/proc/meminfo",
            )],
        );
        let small = |limit: &str| {
            let case = Case::healthy()
                .pool_with("", &format!("memory_limit={limit}"))
                .with(|all| all.machine.memory_bytes = 268_435_456.0);
            super::super::tests_of(&RULE, &case)
        };
        assert!(small("96M").is_empty());
        for limit in ["128M", "256M"] {
            let found = small(limit);
            let fix = found[0].fix.in_one_line();
            assert!(fix.contains("more memory") && !fix.contains(" = "), "{fix}");
        }
    }
}
