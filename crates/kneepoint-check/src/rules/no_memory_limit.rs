//! FPM-20: a single request may take all memory.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-20",
    name: "no-memory-limit",
    title: "A single request may take all memory",
    what_it_is: "memory_limit = -1 lets a request take whatever there is. One bad query result is then enough for the kernel \
        to kill processes of the host or the container.",
    how_it_shows: "One page that reads a large result makes the kernel kill a worker, or the database.",
    unless: "The pool serves only jobs that somebody watches.",
    what_to_write: "memory_limit = 256M, and more for the one script that needs it.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service, pool) in snapshot.pools() {
        let value = pool.php.or("memory_limit", "128M");
        if value.text.trim() == "-1" {
            RULE.at(snapshot, at, Severity::Risk)
                .pool(pool)
                .value("memory_limit", &value)
                .cost("one request can end all others")
                .fix(Fix::php(service, pool, &[("memory_limit", "256M".into())]))
                .weight(0.12)
                .tell(found);
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
                Case::healthy().pool_with("", "memory_limit=-1"),
                Severity::Risk,
                "a.ini:9",
            )],
        );
    }
}
