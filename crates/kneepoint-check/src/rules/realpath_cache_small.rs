//! OPC-09: PHP resolves the paths of its files again and again.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-09",
    name: "realpath-cache-small",
    title: "PHP's cache of resolved paths is off or small",
    what_it_is: "PHP keeps where each path leads in a cache of each worker. open_basedir switches it off; a small one is full \
        before the framework is loaded. Then each included file costs a system call for every directory of its path.",
    how_it_shows: "Many lstat calls, one for each directory in the path of each included file.",
    unless: "OPcache checks no timestamps and the application includes no file by a relative path.",
    what_to_write: "realpath_cache_size = 4096K and realpath_cache_ttl = 600; no open_basedir.",
    check,
};

const SMALL: f64 = 1_048_576.0;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service, pool) in snapshot.pools() {
        let size = pool.php.or("realpath_cache_size", "4096K");
        let base = pool
            .php
            .get("open_basedir")
            .filter(|value| !value.text.trim().is_empty());
        if let Some(value) = base {
            RULE.at(snapshot, at, Severity::Note)
                .pool(pool)
                .value("open_basedir", value)
                .title("open_basedir switches PHP's cache of resolved paths off")
                .cost("system calls for every directory of the path of every included file")
                .fix(Fix::words(
                    "Give each site a user and directories of its own and leave open_basedir out.",
                ))
                .tell(found);
        } else if size.size().is_some_and(|bytes| bytes < SMALL) {
            RULE.at(snapshot, at, Severity::Risk)
                .pool(pool)
                .value("realpath_cache_size", &size)
                .cost(
                    "system calls for every directory of the path of every file that does not fit",
                )
                .fix(Fix::php(
                    service,
                    pool,
                    &[
                        ("realpath_cache_size", "4096K".into()),
                        ("realpath_cache_ttl", "600".into()),
                    ],
                ))
                .weight(0.05)
                .tell(found);
        }
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
                    Case::healthy().pool_with("", "realpath_cache_size=16K"),
                    Severity::Risk,
                    "a.ini:9",
                ),
                (
                    Case::healthy().pool_with("php_admin_value[open_basedir] = /srv", ""),
                    Severity::Note,
                    "open_basedir",
                ),
            ],
        );
    }
}
