//! APP-20: APCu is small, and entries have no time to live.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APP-20",
    name: "apcu-small",
    title: "APCu throws everything away when it is full",
    what_it_is: "APCu is a cache in the memory that all workers of one PHP share, 32 MB as it comes. When it is full \
        and apc.ttl is 0, it throws all entries away at once and starts anew: all requests then compute at the same \
        moment what the cache had kept.",
    how_it_shows: "Pages are slow in waves, and expunges in apcu_cache_info() counts up.",
    unless: "The application keeps a few small entries in it.",
    what_to_write: "apc.shm_size = 128M and apc.ttl = 3600",
    check,
};

/// What APCu has as it comes, in bytes.
const USUAL: f64 = 32.0 * 1_048_576.0;
/// Files of an application that keeps a great deal in its caches \[ours\].
const MANY: u64 = 2000;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Fpm) {
        let Some(php) = service
            .php
            .as_ref()
            .filter(|php| php.loaded.contains_key("apcu"))
        else {
            continue;
        };
        let size = php.ini.or("apc.shm_size", "32M");
        let life = php.ini.or("apc.ttl", "0");
        let apps = snapshot.apps.iter().filter(|app| app.service == at);
        let files = apps.map(|app| app.php_files).max().unwrap_or(0);
        // A bare number counts megabytes.
        let bare = size
            .text
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|count| *count < 1e5);
        let bytes = bare
            .map(|count| count * 1_048_576.0)
            .or_else(|| size.size());
        if bytes.is_none_or(|bytes| bytes > USUAL) || life.number() != Some(0.0) || files < MANY {
            continue;
        }
        RULE.at(snapshot, at, Severity::Note)
            .value("apc.shm_size", &size)
            .value("apc.ttl", &life)
            .seen(
                format!(
                    "the largest application has {} of PHP",
                    counted(files, "file")
                ),
                "",
            )
            .cost(format!(
                "each time {} are full, all that was cached is computed anew at once",
                size.text
            ))
            .fix(Fix::ini(
                service,
                &[("apc.shm_size", "128M".into()), ("apc.ttl", "3600".into())],
            ))
            .weight(0.03)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let with = |files| {
            Case::healthy().with(|all| {
                let php = all.services[1].php.as_mut().expect("PHP");
                php.loaded.insert("apcu".into(), "/lib/apcu.so".into());
                all.apps[0].php_files = files;
            })
        };
        verify(&RULE, &[(with(9000), Severity::Note, "each time 32M")]);
        assert!(super::super::tests_of(&RULE, &with(100)).is_empty());
    }
}
