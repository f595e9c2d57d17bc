//! OPC-04: fewer places in OPcache than the application has files.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-04",
    name: "opcache-too-few-files",
    title: "OPcache has fewer places than the applications have files",
    what_it_is: "OPcache keeps scripts in a table whose size is fixed at the start: the next of a list of primes at or above \
        opcache.max_accelerated_files. A script may take two places. When the table is full the rest is compiled for every \
        request (11 times the time of a page in the lab), and it never heals by itself.",
    how_it_shows: "num_cached_keys equals max_cached_keys in opcache_get_status(), and some pages are always slow.",
    unless: "Most of the files are never included: tests, tools, other languages.",
    what_to_write: "opcache.max_accelerated_files = twice the number of files of PHP.",
    check,
};

/// The sizes there are (ext/opcache/zend_accelerator_hash.c).
const PRIMES: [u64; 16] = [
    5, 11, 19, 53, 107, 223, 463, 983, 1979, 3907, 7963, 16229, 32531, 65407, 130_987, 262_237,
];

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Fpm) {
        let Some(php) = &service.php else { continue };
        let value = php.ini.or("opcache.max_accelerated_files", "10000");
        let Some(asked) = value.number() else {
            continue;
        };
        let asked = asked as u64;
        let places = PRIMES
            .iter()
            .find(|prime| **prime >= asked)
            .copied()
            .unwrap_or(asked);
        let apps = snapshot.apps.iter().filter(|app| app.service == at);
        let files: u64 = apps.map(|app| app.php_files).sum();
        if files > places {
            RULE.at(snapshot, at, Severity::Risk)
                .value("opcache.max_accelerated_files", &value)
                .seen(
                    format!(
                        "the applications have {files} files of PHP, and there are {places} places"
                    ),
                    "",
                )
                .cost("once it is full, what does not fit is compiled for every request, for ever")
                .fix(Fix::ini(
                    service,
                    &[("opcache.max_accelerated_files", (2 * files).to_string())],
                ))
                .weight(0.35)
                .tell(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let large = |snapshot: &mut Snapshot| snapshot.apps[0].php_files = 17_000;
        let case = Case::healthy()
            .pool_with("", "opcache.max_accelerated_files=10000")
            .with(large);
        verify(
            &RULE,
            &[
                (case, Severity::Risk, "16229 places"),
                (
                    Case::healthy().pool_with("", "opcache.max_accelerated_files=200"),
                    Severity::Risk,
                    "500 files",
                ),
            ],
        );
    }
}
