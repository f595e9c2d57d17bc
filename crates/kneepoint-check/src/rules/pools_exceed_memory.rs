//! FPM-20: all pools together may take more memory than there is.

use crate::rule::prelude::*;
use std::collections::BTreeMap;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-20",
    name: "pools-exceed-memory",
    title: "All workers together would take more memory than there is",
    what_it_is: "When every pool is full, each worker takes what its requests need. The sum must fit the memory limit of the \
        container, or of the host where there is none; else the kernel kills a process in the moment of the highest load. \
        Workers that run count by their proportional size (PSS), each further one by the memory that it alone would have: \
        what workers share counts once. The sum of their RSS would be several times too large.",
    how_it_shows: "At the peak a worker ends by signal 9, or the database is killed, or the host swaps.",
    unless: "The pools are never full at the same time.",
    what_to_write: "pm.max_children = memory for PHP divided by the proportional size of a worker under load.",
    check,
};

/// What all PHP under one limit may take.
#[derive(Default)]
struct Sum {
    service: usize,
    needed: f64,
    now: f64,
    pools: Vec<String>,
}

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for (at, service, pool) in snapshot.pools() {
        let sizes: Vec<f64> = pool.workers.iter().filter_map(|one| one.pss).collect();
        let Some(most) = pool.max_children().filter(|_| !sizes.is_empty()) else {
            continue;
        };
        let now: f64 = sizes.iter().sum();
        let seen = sizes.len() as f64;
        let own: Vec<f64> = pool.workers.iter().filter_map(|one| one.private).collect();
        let each = match own.is_empty() {
            true => now / seen,
            false => own.iter().sum::<f64>() / own.len() as f64,
        };
        let limit = service.limits.memory.as_ref();
        let sum = sums
            .entry(limit.map_or_else(String::new, |limit| limit.source.to_string()))
            .or_default();
        if sum.pools.is_empty() {
            sum.service = at;
        }
        sum.needed += now + each * (most as f64 - seen).max(0.0);
        sum.now += now;
        sum.pools.push(format!(
            "pool {}: {}, a further one takes {}",
            pool.name,
            counted(most, "worker"),
            format_bytes(each as u64)
        ));
    }
    for (source, sum) in sums {
        let Some(service) = snapshot.services.get(sum.service) else {
            continue;
        };
        let (limit, room) = match &service.limits.memory {
            Some(limit) => {
                let others = (service.limits.memory_used.unwrap_or(sum.now) - sum.now).max(0.0);
                // Pages of files count, and the kernel takes them back: at most half of what others use is taken as needed.
                (limit.value, limit.value - others / 2.0)
            }
            None => (
                snapshot.machine.memory_bytes,
                snapshot.machine.available_bytes + sum.now,
            ),
        };
        if sum.needed <= room {
            continue;
        }
        let source = if source.is_empty() {
            "/proc/meminfo".to_owned()
        } else {
            source
        };
        let mut draft = RULE.at(snapshot, sum.service, Severity::Risk);
        for line in sum.pools.iter().take(6) {
            draft = draft.seen(line, "memory of the workers there are");
        }
        draft
            .seen(format!("{} in all, {} may be used, {} of it for PHP", format_bytes(sum.needed as u64), format_bytes(limit as u64), format_bytes(room as u64)), source)
            .cost("in the moment of the highest load the kernel kills a worker, or the database beside it")
            .fix(fix(service, room / sum.needed))
            .weight(0.55)
            .tell(found);
    }
}

fn fix(service: &Service, part: f64) -> Fix {
    match service.pools.first() {
        Some(pool) if service.pools.len() == 1 => {
            let most = pool.max_children().unwrap_or(1) as f64 * part * 0.8;
            // PHP-FPM does not start with more spare workers than workers.
            let lines = super::pool_too_small::sizes(pool, most.max(1.0) as u64);
            Fix::pool(service, pool, &lines)
        }
        _ => Fix::words(format!(
            "Make the pools smaller, to {:.0} % of their size in all, or give them more memory.",
            part * 80.0
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::ResourceLimit;

    #[test]
    fn sick_and_healthy() {
        let limited = |snapshot: &mut Snapshot| {
            let limit = ResourceLimit {
                value: 536_870_912.0,
                source: SettingSource::Kernel {
                    path: "/sys/fs/cgroup/x/memory.max".into(),
                },
            };
            snapshot.services[1].limits.memory = Some(limit);
        };
        verify(
            &RULE,
            &[
                (
                    Case::healthy().workers(4, 5e7, false).with(limited),
                    Severity::Risk,
                    "memory.max",
                ),
                (
                    Case::healthy().workers(4, 1e9, false),
                    Severity::Risk,
                    "/proc/meminfo",
                ),
            ],
        );
        // Most of a worker is OPcache, which a further one shares.
        let shared = Case::healthy().workers(2, 9e8, false).with(|all| {
            for worker in &mut all.services[1].pools[0].workers {
                worker.private = Some(3e7);
            }
        });
        assert!(super::super::tests_of(&RULE, &shared).is_empty());
        // The host's memory is large; the same workers fit it.
        assert!(super::super::tests_of(&RULE, &Case::healthy().workers(4, 5e7, false)).is_empty());
    }

    #[test]
    fn a_smaller_dynamic_pool_has_fewer_spare_workers() {
        let stock = "pm = dynamic\npm.max_children = 50\npm.start_servers = 5\n\
            pm.min_spare_servers = 5\npm.max_spare_servers = 35";
        let fix = |workers: u32, available: f64| {
            let case = Case::healthy()
                .pool_with(stock, "")
                .workers(workers, 1e8, false)
                .with(|all| all.machine.available_bytes = available);
            super::super::tests_of(&RULE, &case)[0].fix.in_one_line()
        };
        let some = fix(5, 1.55e9);
        assert!(
            some.contains("pm.max_children = 16") && some.contains("pm.max_spare_servers = 12"),
            "{some}"
        );
        let one = fix(1, 0.0);
        let ends = ["start_servers", "min_spare_servers", "max_spare_servers"];
        for name in ends {
            assert!(one.contains(&format!("pm.{name} = 1")), "{one}");
        }
    }
}
