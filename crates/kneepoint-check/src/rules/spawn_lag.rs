//! FPM-03: a dynamic pool that grows too slowly.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-03",
    name: "spawn-lag",
    title: "The pool takes long to grow to its size",
    what_it_is: "A dynamic pool looks once a second and adds at most pm.min_spare_servers workers, whatever its log says. \
        In the lab 40 workers with 4 spare took 9.5 seconds, and the slowest request 4.8 s instead of 1.0.",
    how_it_shows: "After a quiet time the first seconds of a burst are slow, then it is well; `seems busy` in the log.",
    unless: "Load never rises within seconds.",
    what_to_write: "pm = static; or pm.min_spare_servers as large as a burst, pm.start_servers near the peak.",
    check,
};

/// A ramp of so many seconds is felt.
const LONG_S: f64 = 5.0;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service, pool) in snapshot
        .pools()
        .filter(|(_, _, pool)| pool.manager() == "dynamic")
    {
        let Some(most) = pool.max_children() else {
            continue;
        };
        let spare = pool.number("pm.min_spare_servers", 1.0).max(1.0);
        let start = pool.number("pm.start_servers", spare);
        let rate = spare.min(pool.number("pm.max_spawn_rate", 32.0));
        let seconds = (most as f64 - start) / rate;
        if seconds < LONG_S {
            continue;
        }
        let mut draft = RULE.at(snapshot, at, Severity::Risk).pool(pool);
        for name in [
            "pm.max_children",
            "pm.start_servers",
            "pm.min_spare_servers",
        ] {
            draft = draft.value(name, &pool.settings.or(name, "not set"));
        }
        let own = |hits: &&crate::snapshot::LogHits| {
            hits.kind == LogKind::PoolBusySpawning
                && hits.pool.as_ref().is_none_or(|name| *name == pool.name)
        };
        if let Some(hits) = service.logs.iter().find(own).filter(|hits| is_recent(hits)) {
            draft = draft.seen(often(hits), &hits.path);
        }
        draft
            .cost(format!(
                "about {seconds:.0} s from {start:.0} to {most} workers, during which requests wait"
            ))
            .fix(Fix::pool(
                service,
                pool,
                &better(snapshot, service, pool, most),
            ))
            .weight(0.2)
            .tell(found);
    }
}

/// All workers at once where there are cores and memory for as many; else as many spare ones as make the ramp short.
fn better(
    snapshot: &Snapshot,
    service: &Service,
    pool: &FpmPool,
    most: u64,
) -> Vec<(&'static str, String)> {
    if super::ondemand::bears_all(snapshot, service, pool) {
        return vec![("pm", "static".into())];
    }
    let spare = most.div_ceil(LONG_S as u64);
    // PHP-FPM starts no more than so many a second, whatever is spare. Before 8.1 it does not know the directive, and does not
    // start with one that it does not know.
    let rate = pool.number("pm.max_spawn_rate", 32.0) as u64;
    let is_known = service.is_older_than(&[8, 1]) == Some(false);
    let faster = (is_known && spare > rate).then(|| ("pm.max_spawn_rate", spare.to_string()));
    let mut lines = vec![
        ("pm.start_servers", spare.to_string()),
        ("pm.min_spare_servers", spare.to_string()),
        ("pm.max_spare_servers", (2 * spare).min(most).to_string()),
    ];
    lines.extend(faster);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let pool = "pm = dynamic\npm.max_children = 100\npm.start_servers = 6\npm.min_spare_servers = 4\npm.max_spare_servers = 8";
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with(pool, ""),
                Severity::Risk,
                "24 s from 6 to 100",
            )],
        );
        let fix = |memory: f64, pool: &str| {
            let case = Case::healthy()
                .pool_with(pool, "")
                .with(|all| all.machine.memory_bytes = memory);
            super::super::tests_of(&RULE, &case)[0].fix.in_one_line()
        };
        let few = pool.replace("100", "30");
        assert!(
            fix(16e9, &few).contains("pm = static"),
            "{}",
            fix(16e9, &few)
        );
        let poor = fix(2e9, &few);
        assert!(
            poor.contains("pm.min_spare_servers = 6") && !poor.contains("static"),
            "{poor}"
        );
        let many = fix(16e9, &pool.replace("100", "300"));
        assert!(many.contains("pm.max_spawn_rate = 60"), "{many}");
        let older = Case::healthy()
            .pool_with(&pool.replace("100", "300"), "")
            .with(|all| all.services[1].version = "8.0.30".into());
        let older = super::super::tests_of(&RULE, &older)[0].fix.in_one_line();
        assert!(
            older.contains("pm.min_spare_servers = 60") && !older.contains("max_spawn_rate"),
            "{older}"
        );
    }
}
