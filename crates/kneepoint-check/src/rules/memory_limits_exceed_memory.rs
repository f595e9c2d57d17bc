//! FPM-36: what memory_limit allows all workers together is several times what there is.

use crate::rule::prelude::*;
use std::collections::BTreeMap;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-36",
    name: "memory-limits-exceed-memory",
    title: "If all workers took what memory_limit allows, memory would be short many times over",
    what_it_is: "memory_limit is the most that one request may take, and a pool has as many requests at once as workers. The product \
        is the worst case. It may well be more than there is, since pages hardly ever take that much at once; but a limit that is \
        far above what pages need protects nobody: a page that runs wild is ended by the kernel, with others, and not by PHP.",
    how_it_shows: "Nothing, until several large requests meet: then a worker or the database ends by signal 9.",
    unless: "Only one rare script needs that much.",
    what_to_write: "memory_limit at about twice what the largest page takes; more only in the pool, or the script (ini_set), that \
        needs it.",
    check,
};

/// What PHP has where nobody writes it, in bytes: more than that is somebody's wish.
const STOCK: f64 = 128.0 * 1_048_576.0;
/// Times the memory there is, from which on it is told \[ours\]: pages never take all of their limit at once.
const TIMES: f64 = 2.0;

/// What all PHP below one limit of memory may take.
#[derive(Default)]
struct Worst {
    service: usize,
    bytes: f64,
    pools: Vec<(String, SettingValue)>,
    raised: bool,
}

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let mut all: BTreeMap<String, Worst> = BTreeMap::new();
    for (at, service, pool) in snapshot.pools() {
        let value = pool.php.or("memory_limit", "128M");
        let each = value.size().filter(|bytes| *bytes > 0.0);
        let (Some(each), Some(count)) = (each, pool.max_children()) else {
            continue;
        };
        let worst = all.entry(service.memory_source()).or_insert_with(|| Worst {
            service: at,
            ..Worst::default()
        });
        worst.bytes += each * count as f64;
        worst.raised |= each > STOCK;
        let words = format!(
            "pool {}: {} of at most",
            pool.name,
            counted(count, "worker")
        );
        worst.pools.push((words, value));
    }
    for (source, worst) in all {
        let Some(service) = snapshot.services.get(worst.service) else {
            continue;
        };
        let memory = service.memory_bytes(&snapshot.machine);
        if !worst.raised || memory <= 0.0 || worst.bytes <= memory * TIMES {
            continue;
        }
        let mut draft = RULE.at(snapshot, worst.service, Severity::Note);
        for (words, value) in worst.pools.iter().take(6) {
            draft = draft.seen(format!("{words} {}", value.text), value.source.to_string());
        }
        let (most, all) = (
            format_bytes(worst.bytes as u64),
            format_bytes(memory as u64),
        );
        draft
            .seen(format!("{most} at the worst, {all} may be used"), source)
            .cost("nothing while pages are small; a few that run wild at once are ended by the kernel, and others with them")
            .fix(Fix::words(
                "Write memory_limit = 128M, or twice what the largest page takes; and more only in the pool or the script that needs it.",
            ))
            .weight(0.02)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let php = |ini: &str| Case::healthy().pool_with("", ini);
        verify(
            &RULE,
            &[
                (
                    php("memory_limit=2G"),
                    Severity::Note,
                    "40.0 GiB at the worst, 14.9 GiB",
                ),
                (
                    php("memory_limit=2G"),
                    Severity::Note,
                    "20 workers of at most 2G",
                ),
            ],
        );
        let stock = Case::healthy().with(|all| all.machine.memory_bytes = 1e9);
        for well in [php("memory_limit=1G"), php("memory_limit=-1"), stock] {
            assert!(super::super::tests_of(&RULE, &well).is_empty());
        }
    }
}
