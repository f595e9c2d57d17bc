//! FPM-01: a pool that is too small, or of the size it came with.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-01",
    name: "pool-too-small",
    title: "The pool has the size it came with: 5 workers",
    what_it_is: "A worker of PHP-FPM serves one request at a time. Packages and images come with pm.max_children = 5: the \
        sixth request waits, however idle the CPU is. A pool should be as large as the requests that are under way at the \
        peak (rate times mean time), within what memory holds.",
    how_it_shows: "Requests wait while the CPU is idle; `server reached pm.max_children setting` in PHP-FPM's log.",
    unless: "No more than a few requests are under way at once at the peak, or every one uses a core all the time and there \
        are no more cores than workers.",
    what_to_write: "pm.max_children = the rate times the mean time of a request, within what memory holds.",
    check,
};

/// From so many pools on the memory of a host is divided among sites \[ours\].
const MANY_POOLS: usize = 10;
/// What packages and images come with.
const SHIPPED: u64 = 5;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service, pool) in snapshot.pools() {
        let Some(children) = pool.settings.get("pm.max_children") else {
            continue;
        };
        let Some(count) = pool.max_children() else {
            continue;
        };
        let own = |hits: &&crate::snapshot::LogHits| {
            hits.kind == LogKind::PoolExhausted
                && hits.pool.as_ref().is_none_or(|name| *name == pool.name)
        };
        let hits = service.logs.iter().find(own).filter(|hits| is_recent(hits));
        let queue = pool.queue.filter(|(length, _)| *length > 0);
        let busy = snapshot.busy_workers(pool);
        let full = busy.is_some_and(|(busy, seen)| busy as u64 >= count && busy == seen);
        let shipped = count <= SHIPPED;
        let waits = hits.is_some() || (queue.is_some() && full);
        if !shipped && !waits {
            continue;
        }
        let severity = match waits {
            true => Severity::Problem,
            // Hosts of many sites have small pools on purpose.
            false if snapshot.pools_sharing(service) > MANY_POOLS => Severity::Note,
            false => Severity::Risk,
        };
        let mut draft = RULE
            .at(snapshot, at, severity)
            .pool(pool)
            .value("pm.max_children", children);
        if let Some(title) = title(count, waits) {
            draft = draft.title(title);
        }
        if let Some(hits) = hits {
            draft = draft.seen(often(hits), &hits.path);
        }
        if let Some((length, limit)) = queue {
            let waiting = counted(length, "connection");
            draft = draft.seen(
                format!("{waiting} in its queue, {limit} fit"),
                "the kernel's accept queue",
            );
        }
        if let Some((busy, seen)) = busy {
            draft = draft.seen(
                match (busy, seen) {
                    (1, 1) => "its only worker was busy when it was looked at".to_owned(),
                    (_, 1) => "its only worker was idle when it was looked at".to_owned(),
                    _ => format!("{busy} of {seen} workers were busy when they were looked at"),
                },
                "",
            );
        }
        draft
            .cost(match waits {
                true => "requests wait for a worker: seconds at the peak, and errors once the queue is full".to_owned(),
                false => format!(
                    "above {} at once, each further one waits for a worker",
                    counted(count, "request")
                ),
            })
            .fix(match suggested(snapshot, service, pool) {
                Ok(size) => Fix::pool(service, pool, &sizes(pool, size)),
                Err(why) => Fix::words(why),
            })
            .weight(if waits { 0.6 } else { 0.45 })
            .tell(found);
    }
}

/// What is wrong with a pool of so many workers; the rule's own title where it is as shipped and nothing waits.
fn title(count: u64, waits: bool) -> Option<String> {
    let workers = counted(count, "worker");
    match (count, waits) {
        (count, _) if count > SHIPPED => Some(format!(
            "The pool of {workers} is too small, or its workers wait for something"
        )),
        (_, true) => Some(format!("The pool of {workers} is too small")),
        (count, false) if count < SHIPPED => Some(format!("The pool has {workers} only")),
        (_, false) => None,
    }
}

/// As many workers as the pool's part of the memory holds, but no more than a good many a core; or why there should not be more
/// than there are.
fn suggested(snapshot: &Snapshot, service: &Service, pool: &FpmPool) -> Result<u64, String> {
    const LOOK: &str = "Find out what the workers wait for: the slow log names the line, `kneepoint profile` the peer.";
    let pools = snapshot.pools_sharing(service) as f64;
    let by_cores = (service.cores(&snapshot.machine) * 10.0 / pools).clamp(10.0, 200.0);
    let sizes: Vec<f64> = pool.workers.iter().filter_map(|one| one.pss).collect();
    let each = sizes
        .iter()
        .copied()
        .fold(0.0, f64::max)
        .max(32.0 * 1_048_576.0);
    let limit = service.limits.memory.as_ref().map(|limit| limit.value);
    let room = limit.map_or(snapshot.machine.available_bytes, |limit| {
        limit - service.limits.memory_used.unwrap_or(0.0)
    });
    let by_memory = pool.workers.len() as f64 + (room * 0.7 / each / pools).max(0.0);
    let now = pool.max_children().unwrap_or(1);
    if by_memory as u64 <= now {
        return Err(format!(
            "Give PHP more memory first: {} are free{}, and a worker may take {}. {LOOK}",
            format_bytes(room.max(0.0) as u64),
            match pools > 1.0 {
                true => format!(" for {pools:.0} pools"),
                false => String::new(),
            },
            format_bytes(each as u64)
        ));
    }
    if by_cores as u64 <= now {
        let workers = counted(now, "worker");
        let cores = service.cores(&snapshot.machine);
        return Err(match pools > 1.0 {
            true => format!(
                "{workers} are this pool's part of {cores:.0} cores, which {pools:.0} pools share: more help where the others are \
                 idle at that time, or where they wait. {LOOK}"
            ),
            false => format!(
                "{workers} are many for {cores:.0} cores: more of them help only where they wait, and for as long. {LOOK}"
            ),
        });
    }
    Ok(by_cores.min(by_memory) as u64)
}

pub(super) fn sizes(pool: &FpmPool, size: u64) -> Vec<(&'static str, String)> {
    let mut lines = vec![("pm.max_children", size.to_string())];
    if pool.manager() == "dynamic" {
        lines.push(("pm.start_servers", (size / 2).max(1).to_string()));
        lines.push(("pm.min_spare_servers", (size / 4).max(1).to_string()));
        lines.push(("pm.max_spare_servers", (size - size / 4).to_string()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::LogHits;

    #[test]
    fn sick_and_healthy() {
        let logged = |snapshot: &mut Snapshot| {
            snapshot.services[1].logs.push(LogHits {
                kind: LogKind::PoolExhausted,
                count: 3,
                first: "20-Nov-2026 22:00:00".into(),
                last: String::new(),
                age_s: Some(60.0),
                path: "/var/log/fpm.log".into(),
                pool: Some("www".into()),
            });
        };
        let queued = |snapshot: &mut Snapshot| snapshot.services[1].pools[0].queue = Some((7, 511));
        let dynamic = "pm = dynamic\npm.max_children = 5\npm.start_servers = 2\npm.min_spare_servers = 1\npm.max_spare_servers = 3";
        verify(
            &RULE,
            &[
                (
                    Case::healthy().pool_with(dynamic, ""),
                    Severity::Risk,
                    "php-fpm.conf:17",
                ),
                (
                    Case::healthy().with(logged),
                    Severity::Problem,
                    "3 times since 20-Nov",
                ),
                (
                    Case::healthy().workers(20, 3e7, true).with(queued),
                    Severity::Problem,
                    "7 connections in its queue",
                ),
            ],
        );

        // Never as many as there are, or fewer.
        let fix = |case: &Case| {
            let found = super::super::tests_of(&RULE, case);
            format!("{:?}", found[0].fix)
        };
        let many = Case::healthy()
            .pool_with("pm.max_children = 80", "")
            .with(logged);
        assert!(fix(&many).contains("many for 4 cores"), "{}", fix(&many));
        let poor = Case::healthy().workers(20, 4e8, true).with(|all| {
            logged(all);
            all.machine.available_bytes = 1e8;
        });
        assert!(fix(&poor).contains("more memory first"), "{}", fix(&poor));
        let more = Case::healthy().with(logged);
        assert!(
            fix(&more).contains("pm.max_children = 40"),
            "{}",
            fix(&more)
        );
        let one = Case::healthy().pool_with("pm.max_children = 1", "");
        let said = format!("{:?}", super::super::tests_of(&RULE, &one));
        assert!(
            said.contains("The pool has 1 worker only") && said.contains("above 1 request at once")
        );
    }

    #[test]
    fn forty_pools_divide_what_there_is() {
        let shared = |memory: f64| {
            Case::healthy()
                .pool_with("pm.max_children = 5", "")
                .with(move |all| {
                    let pool = all.services[1].pools[0].clone();
                    all.services[1].pools = vec![pool; 40];
                    all.machine.available_bytes = memory;
                })
        };
        let found = super::super::tests_of(&RULE, &shared(40e9));
        assert!(found.len() == 40 && found[0].severity == Severity::Note);
        let text = format!("{:?}", found[0].fix);
        assert!(text.contains("pm.max_children = 10"), "{text}");
        let text = format!("{:?}", super::super::tests_of(&RULE, &shared(4e9))[0].fix);
        assert!(text.contains("are free for 40 pools"), "{text}");
    }
}
