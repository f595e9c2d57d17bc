//! APA-06: MaxConnectionsPerChild is small.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APA-06",
    name: "apache-children-churn",
    title: "Processes of Apache are replaced after few requests",
    what_it_is: "MaxConnectionsPerChild ends a process after this many connections, against leaks. Each new one is \
        forked, connects to its databases anew and fills its caches again. 0, as it comes, keeps processes.",
    how_it_shows: "The numbers of Apache's processes in `ps` change from minute to minute.",
    unless: "A module leaks so much that the host would run out of memory.",
    what_to_write: "MaxConnectionsPerChild 0, or 10000 where memory grows.",
    check,
};

const CHILD: Directive = Directive {
    home: Home::Program(ServiceKind::Apache),
    name: "maxconnectionsperchild",
    usual: "0",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, _| {
        /// Fewer than this, and at 100 requests a second a process is forked every ten seconds or more often \[ours\].
        const FEW: f64 = 1000.0;
        let most = value.number().filter(|most| *most > 0.0 && *most < FEW)?;
        Some(format!(
            "a fork and cold caches once in {most:.0} connections of a process"
        ))
    },
    better: |_| "MaxConnectionsPerChild 10000".into(),
    weight: 0.08,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    CHILD.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                apache(&[("maxconnectionsperchild", "50")]),
                Severity::Risk,
                "once in 50",
            )],
        );
    }
}
