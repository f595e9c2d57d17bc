//! FPM-35: scripts may run longer than nginx waits.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-35",
    name: "execution-limit-beyond-nginx",
    title: "PHP lets scripts run longer than nginx waits for them",
    what_it_is: "max_execution_time is raised so that long exports and imports come to an end. But nginx waits \
        fastcgi_read_timeout (60 s where nobody writes it) and then answers 504: the visitor sees an error, and the worker goes \
        on for nobody, until the script ends. Reloading the page starts the same once more.",
    how_it_shows: "504 after exactly a minute for pages that take long, and workers that are busy long after.",
    unless: "No page takes that long, or nobody waits for the answers of those that do.",
    what_to_write: "fastcgi_read_timeout as long as the script may run, in the location that serves it; or a max_execution_time \
        below it, and the long work in a job.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let askers = Askers::of(snapshot);
    for (at, _, pool) in snapshot.pools() {
        // Where PHP-FPM ends requests itself, that limit is the one that counts, and another rule compares it.
        let ends = pool.settings.or("request_terminate_timeout", "0");
        let limit = pool.php.or("max_execution_time", "30");
        let waits = askers.patience(at, pool);
        let (Some(waits), Some(runs_s), Some(0.0)) = (waits, limit.seconds(), ends.seconds())
        else {
            continue;
        };
        let Some(waits_s) = waits.seconds().filter(|waits_s| *waits_s < runs_s) else {
            continue;
        };
        RULE.at(snapshot, at, Severity::Risk)
            .pool(pool)
            .value("max_execution_time", &limit)
            .value("fastcgi_read_timeout", &waits)
            .cost(format!(
                "a page that takes more than {waits_s:.0} s is an error for the visitor, and holds a worker for up to {runs_s:.0} s of \
                 computing"
            ))
            .fix(Fix::words(format!(
                "In nginx, where the long pages are served: fastcgi_read_timeout {runs_s:.0}s; or write max_execution_time = {} in \
                 PHP.",
                super::just_below(waits_s).trim_end_matches('s')
            )))
            .weight(0.06)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let raised = |ends: &str| {
            let pool = format!("request_terminate_timeout = {ends}");
            Case::healthy().pool_with(&pool, "max_execution_time=300")
        };
        let patient = "fastcgi_read_timeout 300s;\n   fastcgi_pass unix";
        verify(
            &RULE,
            &[
                (raised("0"), Severity::Risk, "more than 60 s"),
                (raised("0"), Severity::Risk, "fastcgi_read_timeout 300s;"),
            ],
        );
        for well in [
            raised("50s"),
            raised("0").nginx_with("fastcgi_pass unix", patient),
        ] {
            assert!(super::super::tests_of(&RULE, &well).is_empty());
        }
    }
}
