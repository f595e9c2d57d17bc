//! FPM-05: a pool that ends its workers when nobody asks.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-05",
    name: "ondemand",
    title: "The pool starts its workers when requests arrive",
    what_it_is: "With pm = ondemand there is no worker until somebody asks, and each ends after pm.process_idle_timeout. \
        Every burst waits for new processes (9 to 10 s to 40 workers in the lab).",
    how_it_shows: "The first requests after a pause are slow, and workers are started and ended all day.",
    unless: "The host has many pools that are seldom asked: then it saves memory.",
    what_to_write: "pm = dynamic, with pm.min_spare_servers as large as a usual burst; pm = static for the pool that matters.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let pools: Vec<_> = snapshot.pools().collect();
    // A host of many sites is what it was made for.
    let many = pools.len() > 10;
    for (at, service, pool) in pools
        .into_iter()
        .filter(|(_, _, pool)| pool.manager() == "ondemand")
    {
        RULE.at(
            snapshot,
            at,
            if many { Severity::Note } else { Severity::Risk },
        )
        .pool(pool)
        .value("pm", &pool.settings.or("pm", "ondemand"))
        .cost("after each pause, and in each burst, requests wait for processes to start")
        .fix(Fix::pool(service, pool, &better(snapshot, service, pool)))
        .weight(0.15)
        .tell(found);
    }
}

/// What a worker takes where none was seen, in bytes \[ours\].
const WORKER: f64 = 64.0 * 1_048_576.0;

/// Whether there are cores and memory for all workers of a pool at once, beside the other pools that share them.
pub(super) fn bears_all(snapshot: &Snapshot, service: &Service, pool: &FpmPool) -> bool {
    let pools = snapshot.pools_sharing(service) as f64;
    let most = pool.max_children().unwrap_or(1) as f64;
    let seen = pool.workers.iter().filter_map(|one| one.pss);
    let each = seen.fold(0.0, f64::max);
    let each = if each > 0.0 { each } else { WORKER };
    let cores = service.cores(&snapshot.machine) / pools;
    let memory = service.memory_bytes(&snapshot.machine) / pools;
    // Others want memory, too: half of it is what pools may keep.
    most <= cores * 8.0 && most * each <= memory / 2.0
}

/// All workers at once where they can be borne; else some that are ready, by cores.
fn better(snapshot: &Snapshot, service: &Service, pool: &FpmPool) -> Vec<(&'static str, String)> {
    if bears_all(snapshot, service, pool) {
        return vec![("pm", "static".into())];
    }
    let cores = service.cores(&snapshot.machine) / snapshot.pools_sharing(service) as f64;
    let most = pool.max_children().unwrap_or(1);
    let at_most = |count: f64| (count.ceil() as u64).clamp(1, most.max(1));
    let (least, spare) = (at_most(cores * 2.0), at_most(cores * 4.0));
    vec![
        ("pm", "dynamic".into()),
        ("pm.start_servers", least.to_string()),
        ("pm.min_spare_servers", least.to_string()),
        ("pm.max_spare_servers", spare.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with("pm = ondemand", ""),
                Severity::Risk,
                "php-fpm.conf:16",
            )],
        );
    }

    #[test]
    fn no_more_workers_are_kept_than_cores_and_memory_are_for() {
        let written = |lines: &str, memory: f64| {
            let case = Case::healthy()
                .pool_with(lines, "")
                .with(|all| all.machine.memory_bytes = memory);
            let found = super::super::tests_of(&RULE, &case);
            found[0].fix.in_one_line()
        };
        // Four cores.
        let few = written("pm = ondemand", 16e9);
        assert!(few.contains("pm = static"), "{few}");
        for many in [
            written("pm = ondemand\npm.max_children = 200", 64e9),
            written("pm = ondemand", 1e9),
        ] {
            assert!(
                many.contains("pm = dynamic")
                    && many.contains("pm.start_servers = 8")
                    && many.contains("pm.min_spare_servers = 8")
                    && many.contains("pm.max_spare_servers = 16"),
                "{many}"
            );
        }
    }
}
