//! OPC-09: paths that were resolved are forgotten within seconds.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-09",
    name: "realpath-cache-short-lived",
    title: "PHP forgets within seconds where its paths lead",
    what_it_is: "Each worker keeps where a path leads, through all links, for realpath_cache_ttl seconds: 120 as it \
        comes. When that has passed, the next include of the file asks the kernel again for every directory of its \
        path. A small number makes that happen all the time.",
    how_it_shows: "Bursts of lstat calls in every worker (`strace -c`), one for each directory of each included file.",
    unless: "OPcache checks no timestamps: then few paths are resolved at all.",
    what_to_write: "realpath_cache_ttl = 600; a deployment that changes links reloads PHP anyhow.",
    check,
};

const TTL: Directive = Directive {
    home: Home::Ini,
    name: "realpath_cache_ttl",
    usual: "120",
    beside: &[("opcache.validate_timestamps", "1")],
    severity: Severity::Note,
    costs: |value, around| {
        /// Shorter than this, and a worker resolves everything again between two requests \[ours\].
        const SHORT_S: f64 = 30.0;
        let short = value.number().filter(|seconds| *seconds < SHORT_S)?;
        let checks = around.settings.or("opcache.validate_timestamps", "1");
        (checks.is_on() != Some(false)).then(|| {
            format!(
                "each of {} resolves every path again every {short:.0} s, a system call a directory",
                around.who()
            )
        })
    },
    better: |_| "600".into(),
    weight: 0.02,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    TTL.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy()
                    .pool_with("", "opcache.validate_timestamps=1\nrealpath_cache_ttl=2"),
                Severity::Note,
                "every 2 s",
            )],
        );
    }
}
