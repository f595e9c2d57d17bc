//! APP-18: assert() runs in production.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APP-18",
    name: "assertions-on",
    title: "Assertions of the code are compiled and run",
    what_it_is: "assert() is a check that a programmer writes for the time of development. zend.assertions = -1 \
        leaves them out when the code is compiled, at no cost; 1 runs every one of them, and 0 keeps them and skips \
        each. Frameworks have thousands, some in code that runs for each row.",
    how_it_shows: "PHP takes more CPU than on a host with the php.ini for production; AssertionError in the log.",
    unless: "It is a developer's machine, or the application has few of them.",
    what_to_write: "zend.assertions = -1 in php.ini: it can be set nowhere else.",
    check,
};

const ASSERTIONS: Directive = Directive {
    home: Home::Ini,
    name: "zend.assertions",
    usual: "-1",
    beside: &[],
    severity: Severity::Note,
    costs: |value, _| {
        let runs = value.number().is_some_and(|level| level >= 1.0);
        // The same for every pool: pools are told of together.
        runs.then(|| {
            "every assert() of the application and its libraries, in each request (not measured here)".to_owned()
        })
    },
    better: |_| "-1".into(),
    weight: 0.02,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    ASSERTIONS.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with("", "zend.assertions=1"),
                Severity::Note,
                "a.ini:",
            )],
        );
        let three = Case::healthy().pool_with("[b]\npm = static\n[c]", "zend.assertions=1");
        let told = super::super::tests_of(&RULE, &three);
        assert_eq!(told.len(), 1);
        assert_eq!(
            told[0].also,
            [
                "pool b of php-fpm (process 13)",
                "pool c of php-fpm (process 13)"
            ]
        );
    }
}
