//! OPC-11: preloaded files are never looked at again.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-11",
    name: "preload-is-not-validated",
    title: "Preloaded code stays old although OPcache looks for changes",
    what_it_is: "opcache.preload loads files once when PHP starts, and keeps them for all requests. \
        opcache.validate_timestamps = 1 says that changed files show by themselves; of what is preloaded that is not \
        true: it is only read again at a restart. Then one part of a deployment runs the new code and another the \
        old.",
    how_it_shows: "After files were changed, errors about methods that are missing or classes declared twice, until \
        PHP is restarted.",
    unless: "Every deployment restarts PHP (a reload of PHP-FPM is enough).",
    what_to_write: "opcache.validate_timestamps = 0 and a reload at each deployment; or no opcache.preload.",
    check,
};

const PRELOAD: Directive = Directive {
    home: Home::Ini,
    name: "opcache.preload",
    usual: "",
    beside: &[
        ("opcache.validate_timestamps", "1"),
        ("opcache.revalidate_freq", "2"),
    ],
    severity: Severity::Note,
    costs: |value, around| {
        let validates = around.settings.or("opcache.validate_timestamps", "1");
        let mixed = !value.text.trim().is_empty() && validates.is_on() != Some(false);
        mixed.then(|| {
            let every = around.settings.or("opcache.revalidate_freq", "2");
            format!(
                "within {} s of a change a page is made of new code and of old that was preloaded",
                every.text
            )
        })
    },
    better: |_| "\"\"".into(),
    weight: 0.02,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    PRELOAD.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with(
                    "",
                    "opcache.validate_timestamps=1\nopcache.preload=/srv/app/preload.php",
                ),
                Severity::Note,
                "within 2 s",
            )],
        );
    }
}
