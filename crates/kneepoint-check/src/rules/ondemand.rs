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
        .fix(Fix::pool(service, pool, &[("pm", "static".into())]))
        .weight(0.15)
        .tell(found);
    }
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
}
