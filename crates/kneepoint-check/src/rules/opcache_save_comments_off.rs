//! OPC-15: comments that applications read are thrown away.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-15",
    name: "opcache-save-comments-off",
    title: "OPcache throws the comments of the code away",
    what_it_is: "With opcache.save_comments = 0 the comments before classes and functions are not kept. That saves \
        some memory. Applications read those comments when they run: annotations of Doctrine, of older Symfony and \
        Laminas, of test frameworks. What reads them then finds nothing: routes, columns or checks are missing.",
    how_it_shows: "Errors such as `not a valid entity` that are not there with OPcache switched off.",
    unless: "No library of the application reads annotations in comments (attributes of PHP 8 are not comments).",
    what_to_write: "opcache.save_comments = 1, and more opcache.memory_consumption where memory was the reason.",
    check,
};

const COMMENTS: Directive = Directive {
    home: Home::Ini,
    name: "opcache.save_comments",
    usual: "1",
    beside: &[("opcache.memory_consumption", "128")],
    severity: Severity::Risk,
    costs: |value, around| {
        (value.is_on() == Some(false)).then(|| {
            let memory = around.settings.or("opcache.memory_consumption", "128");
            format!(
                "libraries that read annotations fail; it saves a part of {} MB",
                memory.text
            )
        })
    },
    better: |_| "1".into(),
    weight: 0.05,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    COMMENTS.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with("", "opcache.save_comments=0"),
                Severity::Risk,
                "a part of 256 MB",
            )],
        );
    }
}
