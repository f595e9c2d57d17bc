//! OPC-14: OPcache keeps code as it was compiled, without making it faster.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-14",
    name: "opcache-optimizer-off",
    title: "OPcache's optimizer is switched off",
    what_it_is: "When OPcache compiles a file it removes what is never needed, computes what is constant and \
        shortens calls, once; opcache.optimization_level says which of these passes run. 0 leaves all out, and every \
        worker executes more instructions for the same page, in every request.",
    how_it_shows: "PHP takes a little more CPU on every page; opcache_get_configuration() shows optimization_level 0.",
    unless: "A bug of the optimizer was met, and this version of PHP still has it.",
    what_to_write: "Remove opcache.optimization_level: what PHP comes with (0x7FFEBFFF) is right.",
    check,
};

const LEVEL: Directive = Directive {
    home: Home::Ini,
    name: "opcache.optimization_level",
    usual: "0x7FFEBFFF",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, around| {
        let none = matches!(value.text.trim(), "0" | "0x0" | "");
        none.then(|| {
            format!(
                "every page of {} runs unoptimised code: some per cent of PHP's CPU time (not measured here)",
                around.who()
            )
        })
    },
    better: |_| "0x7FFEBFFF".into(),
    weight: 0.06,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    LEVEL.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with("", "opcache.optimization_level=0"),
                Severity::Risk,
                "a.ini:",
            )],
        );
    }
}
