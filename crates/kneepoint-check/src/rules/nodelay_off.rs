//! NGX-27: tcp_nodelay is off.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-27",
    name: "nodelay-off",
    title: "The end of a response waits for an acknowledgement",
    what_it_is: "TCP holds a small packet back until what was sent before is acknowledged (Nagle), and the other \
        side acknowledges late, after up to 40 ms on Linux. tcp_nodelay, on as nginx comes, sends at once on kept \
        connections. Off, the last part of a response arrives those 40 ms late.",
    how_it_shows: "Response times of small pages that have a step of 40 ms on kept connections.",
    unless: "No connection is kept open, so that the end of the connection pushes the rest out.",
    what_to_write: "tcp_nodelay on; which is also what nginx does where nothing is written.",
    check,
};

const NODELAY: Directive = Directive {
    home: Home::Site,
    name: "tcp_nodelay",
    usual: "on",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, _| {
        (value.is_on() == Some(false)).then(|| {
            "up to 40 ms at the end of a response (the kernel's delayed acknowledgement)".to_owned()
        })
    },
    better: |_| "tcp_nodelay on;".into(),
    weight: 0.1,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    NODELAY.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().nginx_with("sendfile on;", "sendfile on;\n tcp_nodelay off;"),
                Severity::Risk,
                "40 ms",
            )],
        );
    }
}
