//! FPM-06: workers that are replaced after few requests.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-06",
    name: "max-requests-churn",
    title: "Workers are replaced after few requests",
    what_it_is: "pm.max_requests ends a worker after this many requests, against leaks. Each new one is forked and fills its \
        caches again: in the lab, with 500 a light page reached 82 % of the requests a second that it reaches without, with 20 it \
        reached 31 %.",
    how_it_shows: "Lines `exited with code 0 after` and `started` in PHP-FPM's log all the time, and slow first requests of new workers.",
    unless: "Workers grow with every request and nobody has found why; or pages are so slow that a fork does not count.",
    what_to_write: "pm.max_requests = 0, or 10000 and more where memory grows.",
    check,
};

/// Fewer requests than this cost something.
const FEW: f64 = 1000.0;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service, pool) in snapshot.pools() {
        let Some(value) = pool.settings.get("pm.max_requests") else {
            continue;
        };
        let Some(count) = value.number().filter(|count| *count > 0.0 && *count < FEW) else {
            continue;
        };
        let severity = if count < 200.0 {
            Severity::Problem
        } else {
            Severity::Risk
        };
        RULE.at(snapshot, at, severity)
            .pool(pool)
            .value("pm.max_requests", value)
            .cost(format!(
                "each worker ends after {}, and a new one starts with empty caches. In the lab a light page was served 18 % less often \
                 with pm.max_requests = 500 than with 0, and 69 % less often with 20",
                counted(count as u64, "request")
            ))
            .fix(Fix::pool(service, pool, &[("pm.max_requests", "10000".into())]))
            .weight((90.0 / count).min(0.69))
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
            &[
                (
                    Case::healthy().pool_with("pm.max_requests = 500", ""),
                    Severity::Risk,
                    "php-fpm.conf:16",
                ),
                (
                    Case::healthy().pool_with("pm.max_requests = 20", ""),
                    Severity::Problem,
                    "69 %",
                ),
            ],
        );
    }
}
