//! KRN-09: the machine runs out of open files.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "KRN-09",
    name: "machine-descriptors",
    title: "The machine has nearly no open files left",
    what_it_is: "fs.file-max is how many files all processes together may have open. At its end every accept, connect and \
        open fails, of every program.",
    how_it_shows: "`Too many open files in system` from any program; the first number of /proc/sys/fs/file-nr is near the last.",
    unless: "Never: nearly all files that the machine may open are open.",
    what_to_write: "fs.file-max = 4 times as many, and find the program that leaks: `ls /proc/PID/fd | wc -l`.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.services.iter().enumerate() {
        let Some(value) = service.kernel.get("fs.file-nr") else {
            continue;
        };
        let numbers: Vec<f64> = value
            .text
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        let [used, _, most] = numbers.as_slice() else {
            continue;
        };
        if used / most < 0.8 {
            continue;
        }
        RULE.at(snapshot, at, Severity::Problem)
            .value("fs.file-nr", value)
            .cost("errors of every program once they are used up")
            .fix(Fix::sysctl(
                service,
                "fs.file-max",
                &format!("{:.0}", most * 4.0),
            ))
            .weight(0.6)
            .tell(found);
        return;
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
                Case::healthy().kernel(0, "fs.file-nr", "95000 0 100000"),
                Severity::Problem,
                "400000",
            )],
        );
    }
}
