//! MYS-15: threads are not kept.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "MYS-15",
    name: "mysql-thread-cache-off",
    title: "MariaDB makes a new thread for every connection",
    what_it_is: "PHP opens a connection for each request unless it is told to keep them. The database serves each by \
        a thread, and keeps up to thread_cache_size idle ones for the next. With 0 it makes and ends a thread for \
        every request.",
    how_it_shows: "Threads_created grows as fast as Connections.",
    unless: "All connections are persistent, or the thread pool is used (thread_handling = pool-of-threads).",
    what_to_write: "thread_cache_size = 100, or remove the line: the database chooses well by itself.",
    check,
};

const THREADS: Directive = Directive {
    home: Home::Program(ServiceKind::Mysql),
    name: "thread_cache_size",
    usual: "256",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, around| {
        let pooled = around.settings.text("thread_handling") == Some("pool-of-threads");
        (value.number() == Some(0.0) && !pooled).then(|| {
            format!(
                "a thread made and ended for each connection of {}",
                around.who()
            )
        })
    },
    better: |_| "thread_cache_size = 100".into(),
    weight: 0.06,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    THREADS.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().set(3, "thread_cache_size", "0"),
                Severity::Risk,
                "20 workers",
            )],
        );
    }
}
