//! APA-02: MaxRequestWorkers was reached.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APA-02",
    name: "apache-was-full",
    title: "Apache ran out of processes",
    what_it_is: "MaxRequestWorkers is how many requests, or with mod_php how many connections, Apache serves at \
        once. Beyond it connections wait in the kernel's queue, and the error log says so once an hour at the most, \
        however often it happens.",
    how_it_shows: "`server reached MaxRequestWorkers setting` in the error log; pages wait while the CPU is idle.",
    unless: "It was an attack, or the CPU was used up at that moment: then more processes do not help.",
    what_to_write: "KeepAliveTimeout 2 first; then MaxRequestWorkers as large as memory allows, or the event MPM \
        with PHP-FPM.",
    check,
};

const LINES: Logged = Logged {
    kinds: &[ServiceKind::Apache],
    line: LogKind::PoolExhausted,
    least: 1,
    severity: Severity::Problem,
    costs: |count| {
        format!(
            "{} at least, all processes were taken and visitors waited for one",
            counted(count, "time")
        )
    },
    remedy: "Lower KeepAliveTimeout; see what the processes wait for; then raise MaxRequestWorkers (and ServerLimit) within the memory.",
    weight: 0.45,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    LINES.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let hits = crate::rule::case::logged(0, LogKind::PoolExhausted, 60.0)
            .0
            .services[0]
            .logs
            .clone();
        let full = apache(&[]).with(|all| all.services[5].logs = hits);
        verify(&RULE, &[(full, Severity::Problem, "12 times")]);
    }
}
