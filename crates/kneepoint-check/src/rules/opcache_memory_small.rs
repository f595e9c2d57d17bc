//! OPC-03: OPcache's memory is full, or will be.

use crate::rule::prelude::*;
use kneepoint_profiler::OpcacheState;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-03",
    name: "opcache-memory-small",
    title: "OPcache has too little memory",
    what_it_is: "When OPcache's memory is full it keeps what it has and compiles the rest anew for every request. It would \
        start over only when scripts that have changed take enough of its memory, and none has: so it stays that way (31 \
        times the time of a page in the lab). No counter of restarts shows it.",
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
    for (at, service) in snapshot.with_opcache() {
        let Some(php) = &service.php else { continue };
        let value = php.ini.or("opcache.memory_consumption", "128");
        let Some(bytes) = bytes(&value) else {
            continue;
        };
        if let Some(state) = php.opcache {
            full(snapshot, at, &value, bytes, state, found);
            continue;
        }
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
                    format!(
                        "the largest application has {} of PHP",
                        counted(files, "file")
                    ),
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

/// Bytes of OPcache's memory by its directive, which counts megabytes.
pub(super) fn bytes(value: &SettingValue) -> Option<f64> {
    let megabytes = value.number()?;
    Some(match megabytes < 1e6 {
        true => megabytes * 1_048_576.0,
        false => megabytes,
    })
}

/// Whether the next deployment fills what is left of so much memory.
pub(super) fn is_nearly_full(state: OpcacheState, bytes: f64) -> bool {
    /// Part of the memory below which it does \[ours\].
    const NEARLY: f64 = 0.05;
    state.free_bytes as f64 <= bytes * NEARLY
}

/// What OPcache says itself, where that is known: nothing is guessed from the number of files then.
fn full(
    snapshot: &Snapshot,
    at: usize,
    value: &SettingValue,
    bytes: f64,
    state: OpcacheState,
    found: &mut Vec<CheckFinding>,
) {
    let (free, wasted) = (state.free_bytes, state.wasted_bytes);
    let service = &snapshot.services[at];
    let near = is_nearly_full(state, bytes);
    // OPcache has one mark for both: where the keys are used up and memory is left, it is the keys that were missing.
    let keys_only = state.keys >= state.most_keys && !near;
    let exhausted = state.exhausted && !keys_only;
    if !near && !exhausted {
        return;
    }
    let severity = if exhausted {
        Severity::Problem
    } else {
        Severity::Risk
    };
    RULE.at(snapshot, at, severity)
        .title(if exhausted {
            "OPcache's memory is full"
        } else {
            "OPcache's memory is nearly full"
        })
        .value("opcache.memory_consumption", value)
        .seen(
            format!(
                "{} free, {} wasted, {} kept; {} taken from it and {} compiled since its start",
                format_bytes(free),
                format_bytes(wasted),
                counted(u64::from(state.scripts), "script"),
                state.hits,
                state.misses
            ),
            format!("OPcache's memory, of process {}", service.pid),
        )
        .cost("what does not fit is compiled for every request (31 times the time of a page of which half does not fit, in the lab)")
        .fix(Fix::ini(
            service,
            &[("opcache.memory_consumption", format!("{:.0}", bytes / 1_048_576.0 * 2.0))],
        ))
        .weight(if exhausted { 0.6 } else { 0.3 })
        .tell(found);
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
                    Case::healthy().opcache(|state| state.exhausted = true),
                    Severity::Problem,
                    "memory is full",
                ),
                (
                    Case::healthy().opcache(|state| state.free_bytes = 1 << 20),
                    Severity::Risk,
                    "1.0 MiB free",
                ),
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
        let roomy = Case::healthy().opcache(|_| ()).with(large);
        assert!(super::super::tests_of(&RULE, &roomy).is_empty());
    }

    #[test]
    fn keys_that_ran_out_are_no_want_of_memory() {
        let keys = |free| {
            Case::healthy().opcache(|state| {
                (state.exhausted, state.keys) = (true, state.most_keys);
                state.free_bytes = free;
            })
        };
        assert!(super::super::tests_of(&RULE, &keys(128 << 20)).is_empty());
        assert_eq!(super::super::tests_of(&RULE, &keys(1 << 20)).len(), 1);
    }
}
