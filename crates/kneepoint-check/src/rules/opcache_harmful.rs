//! OPC-12: directives of OPcache that cost, or that no version knows any more.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-12",
    name: "opcache-harmful",
    title: "A directive of OPcache works against it",
    what_it_is: "opcache.file_cache_only leaves the shared memory out, so that each worker reads files from disk; \
        opcache.consistency_checks computes a checksum of every script it takes out, until PHP 8.1.18 and 8.2.5, where it is gone; \
        opcache.fast_shutdown and opcache.inherited_hack are gone since PHP 7.2 and 7.3.",
    how_it_shows: "opcache_get_status() shows no shared memory, or workers spend CPU time in checksums.",
    unless: "The shared memory cannot be had, as on some shared hosts.",
    what_to_write: "opcache.file_cache_only = 0 and opcache.consistency_checks = 0; remove what the version does not know.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.with_opcache() {
        let Some(php) = &service.php else { continue };
        let set = |name: &str| {
            php.ini
                .get(name)
                .filter(|value| value.is_on() != Some(false))
        };
        let no_more = |name: &str, value: &SettingValue| {
            let title = format!("{name} is no directive of PHP {} any more", service.version);
            RULE.at(snapshot, at, Severity::Note)
                .value(name, value)
                .title(title)
                .cost("nothing: it has no effect")
                .fix(Fix::without(service, value, ""))
        };
        for (name, cost) in [
            (
                "opcache.file_cache_only",
                "every worker reads and unserializes scripts from disk",
            ),
            (
                CHECKS,
                "a checksum of every script that is taken from memory",
            ),
        ] {
            let Some(value) = set(name) else { continue };
            if is_gone(service, name) {
                no_more(name, value).tell(found);
                continue;
            }
            RULE.at(snapshot, at, Severity::Problem)
                .value(name, value)
                .title(format!("{name} is on"))
                .cost(cost)
                .fix(Fix::ini(service, &[(name, "0".into())]))
                .weight(0.3)
                .tell(found);
        }
        for name in ["opcache.fast_shutdown", "opcache.inherited_hack"] {
            if let Some(value) = php.ini.get(name).filter(|_| is_gone(service, name)) {
                no_more(name, value).tell(found);
            }
        }
    }
}

const CHECKS: &str = "opcache.consistency_checks";

/// Whether a directive has no effect any more in the version that runs: the checks went with 8.1.18 and 8.2.5
/// (<https://www.php.net/manual/en/opcache.configuration.php>).
fn is_gone(service: &Service, name: &str) -> bool {
    let since = |version: &[u32]| service.is_older_than(version) == Some(false);
    match name {
        CHECKS => since(&[8, 2, 5]) || (since(&[8, 1, 18]) && !since(&[8, 2])),
        "opcache.fast_shutdown" | "opcache.inherited_hack" => since(&[7, 3]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[
                (
                    Case::healthy().pool_with("", "opcache.file_cache_only=1"),
                    Severity::Problem,
                    "a.ini:9",
                ),
                (
                    Case::healthy()
                        .pool_with("", "opcache.consistency_checks=5")
                        .with(|all| all.services[1].version = "8.2.4".into()),
                    Severity::Problem,
                    "checksum",
                ),
                (
                    Case::healthy().pool_with("", "opcache.consistency_checks=5"),
                    Severity::Note,
                    "opcache.consistency_checks is no directive",
                ),
                (
                    Case::healthy().pool_with("", "opcache.fast_shutdown=1"),
                    Severity::Note,
                    "any more",
                ),
            ],
        );
        let off = Case::healthy().pool_with("", "opcache.consistency_checks=0");
        assert!(super::super::tests_of(&RULE, &off).is_empty());
    }
}
