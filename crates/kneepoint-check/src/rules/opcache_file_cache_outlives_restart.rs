//! OPC-08: OPcache's cache on disk is never compared with the files.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-08",
    name: "opcache-file-cache-outlives-restart",
    title: "After a deployment a restart of PHP serves the old code",
    what_it_is: "opcache.file_cache keeps compiled code in files too, so that a restarted PHP need not compile \
        everything at once. With opcache.validate_timestamps = 0 nothing compares these with the source: after a \
        deployment into the same directory even a restart takes the old code from disk.",
    how_it_shows: "New code is deployed, PHP is restarted, and the site runs the old code until the cache's \
        directory is emptied.",
    unless: "Each release has a directory of its own, or the deployment empties the cache's directory.",
    what_to_write: "Empty the directory of opcache.file_cache at each deployment, before the reload; or leave \
        opcache.file_cache out.",
    check,
};

const CACHE: Directive = Directive {
    home: Home::Ini,
    name: "opcache.file_cache",
    usual: "",
    beside: &[("opcache.validate_timestamps", "1")],
    severity: Severity::Risk,
    costs: |value, around| {
        let validates = around.settings.or("opcache.validate_timestamps", "1");
        let stale = !value.text.trim().is_empty() && validates.is_on() == Some(false);
        stale.then(|| {
            format!(
                "after a deployment all {} run the old code, restarted or not",
                around.who()
            )
        })
    },
    better: |_| "\"\"".into(),
    weight: 0.05,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    CACHE.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with("", "opcache.file_cache=/var/tmp/opcache"),
                Severity::Risk,
                "old code",
            )],
        );
    }
}
