//! APP-19: auto_prepend_file runs before every request.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APP-19",
    name: "file-before-every-request",
    title: "A file of PHP runs before every request",
    what_it_is: "auto_prepend_file names a script that PHP runs before the one that was asked for, in every request \
        of every site: security plugins, agents of monitoring, counters. It is not part of the application, so \
        nobody looks there when pages are slow.",
    how_it_shows: "`kneepoint profile` shows the file at the root of the stacks of pages that have nothing to do \
        with it.",
    unless: "The script does little: `kneepoint profile` says what it takes.",
    what_to_write: "auto_prepend_file = \"\" where nothing needs it; otherwise measure what it costs.",
    check,
};

const PREPEND: Directive = Directive {
    home: Home::Ini,
    name: "auto_prepend_file",
    usual: "",
    beside: &[],
    severity: Severity::Note,
    costs: |value, around| {
        (!value.text.trim().is_empty()).then(|| {
            format!(
                "its time in each request of {}: `kneepoint profile` tells how much",
                around.who()
            )
        })
    },
    better: |_| "\"\"".into(),
    weight: 0.02,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    PREPEND.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with("", "auto_prepend_file=/srv/waf.php"),
                Severity::Note,
                "/srv/waf.php",
            )],
        );
    }
}
