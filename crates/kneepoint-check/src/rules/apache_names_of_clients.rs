//! APA-04: HostnameLookups is on.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APA-04",
    name: "apache-names-of-clients",
    title: "Apache asks the DNS for the name of every client",
    what_it_is: "With HostnameLookups Apache looks up the name of each client's address before it serves the \
        request, to write it into its log. The process waits for a name server somewhere in the world, for seconds \
        where nobody answers.",
    how_it_shows: "Processes in the state `DNS` (D) in the status page; first requests of a client are slow.",
    unless: "All clients are on the own network, with a name server that answers at once.",
    what_to_write: "HostnameLookups Off; logresolve finds names in the log afterwards.",
    check,
};

const NAMES: Directive = Directive {
    home: Home::Program(ServiceKind::Apache),
    name: "hostnamelookups",
    usual: "Off",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, around| {
        let on = !value.text.eq_ignore_ascii_case("off");
        on.then(|| {
            let most = around.service.apache_workers().unwrap_or(256.0);
            format!(
                "a wait for a name server in each new connection, by one of {most:.0} that serve"
            )
        })
    },
    better: |_| "HostnameLookups Off".into(),
    weight: 0.15,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    NAMES.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                apache(&[("hostnamelookups", "On")]),
                Severity::Risk,
                "that serve",
            )],
        );
    }
}
