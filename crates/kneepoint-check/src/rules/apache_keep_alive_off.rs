//! APA-08: KeepAlive is off.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APA-08",
    name: "apache-keep-alive-off",
    title: "Apache closes the connection after every request",
    what_it_is: "With KeepAlive Off a browser opens a new connection for each file of a page, with a handshake of \
        TCP and of TLS each. A page with fifty files then needs fifty. It was advice of the time when every \
        connection held a process.",
    how_it_shows: "As many new connections as requests, and CPU time in TLS.",
    unless: "A proxy in front keeps the connections of browsers, and is near.",
    what_to_write: "KeepAlive On, KeepAliveTimeout 2, MaxKeepAliveRequests 1000",
    check,
};

const KEEP: Directive = Directive {
    home: Home::Program(ServiceKind::Apache),
    name: "keepalive",
    usual: "On",
    beside: &[],
    severity: Severity::Note,
    costs: |value, _| {
        (value.is_on() == Some(false))
            .then(|| "a handshake of TCP, and one of TLS, for every file of a page".to_owned())
    },
    better: |_| "KeepAlive On\nKeepAliveTimeout 2".into(),
    weight: 0.06,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    KEEP.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(apache(&[("keepalive", "Off")]), Severity::Note, "handshake")],
        );
    }
}
