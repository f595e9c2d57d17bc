//! HAP-04: nbthread is 1.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "HAP-04",
    name: "haproxy-one-thread",
    title: "HAProxy uses one core of several",
    what_it_is: "HAProxy runs a thread for each core by itself since 2.1. nbthread 1, often left over from an older \
        version, has one core do all of TLS, compression and routing of all visitors.",
    how_it_shows: "HAProxy at 100 % of a core in `top` while others idle, and response times that rise from there on.",
    unless: "It hands plain HTTP on at a few thousand requests a second.",
    what_to_write: "Remove the line nbthread 1 from global.",
    check,
};

const THREADS: Directive = Directive {
    home: Home::Program(ServiceKind::Haproxy),
    name: "global nbthread",
    usual: "auto",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, around| {
        let cores = around.service.cores(&around.snapshot.machine);
        (value.number() == Some(1.0) && cores >= 2.0)
            .then(|| format!("one of {cores:.0} cores does all of HAProxy's work"))
    },
    better: |around| {
        let cores = around.service.cores(&around.snapshot.machine);
        format!("nbthread {cores:.0}")
    },
    weight: 0.15,
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
                haproxy(&[("global nbthread", "1")]),
                Severity::Risk,
                "one of 4 cores",
            )],
        );
    }
}
