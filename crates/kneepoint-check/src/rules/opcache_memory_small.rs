//! OPC-03: OPcache's memory is full, or will be.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-03",
    name: "opcache-memory-small",
    title: "OPcache has too little memory",
    what_it_is: "When OPcache's memory is full it keeps what it has and compiles the rest anew for every request, and never \
        heals by itself: a restart needs waste, and there is none (31 times the time of a page in the lab). No counter of \
        restarts shows it.",
    how_it_shows: "opcache_get_status()['cache_full'] is true, and misses grow while nothing is deployed.",
    unless: "The application has a few hundred files only.",
    what_to_write: "opcache.memory_consumption = 256: half as much again as is used when everything was asked for once.",
    check,
};

/// Less than this is little for a framework.
const LITTLE: f64 = 64.0 * 1_048_576.0;
/// Files of an application that is a framework with its libraries.
const MANY: u64 = 2000;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Fpm) {
        let Some(php) = &service.php else { continue };
        let value = php.ini.or("opcache.memory_consumption", "128");
        let Some(megabytes) = value.number() else {
            continue;
        };
        let bytes = if megabytes < 1e6 {
            megabytes * 1_048_576.0
        } else {
            megabytes
        };
        let files = snapshot
            .apps
            .iter()
            .filter(|app| app.service == at)
            .map(|app| app.php_files)
            .max()
            .unwrap_or(0);
        let tiny = bytes <= LITTLE / 4.0;
        if tiny || (bytes < LITTLE && files >= MANY) {
            RULE.at(snapshot, at, Severity::Risk)
                .value("opcache.memory_consumption", &value)
                .seen(
                    format!("the largest application has {files} files of PHP"),
                    "",
                )
                .cost("once it is full, what does not fit is compiled for every request, for ever")
                .fix(Fix::ini(
                    service,
                    &[("opcache.memory_consumption", "256".into())],
                ))
                .weight(0.4)
                .tell(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let large = |snapshot: &mut Snapshot| snapshot.apps[0].php_files = 9000;
        verify(
            &RULE,
            &[
                (
                    Case::healthy().pool_with("", "opcache.memory_consumption=8"),
                    Severity::Risk,
                    "a.ini:9",
                ),
                (
                    Case::healthy()
                        .pool_with("", "opcache.memory_consumption=48")
                        .with(large),
                    Severity::Risk,
                    "9000 files",
                ),
            ],
        );
    }
}
