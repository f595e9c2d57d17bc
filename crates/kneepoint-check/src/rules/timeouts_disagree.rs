//! FPM-13: PHP goes on with requests that nginx has given up.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-13",
    name: "timeouts-disagree",
    title: "PHP goes on with requests that nginx has given up",
    what_it_is: "nginx waits fastcgi_read_timeout (60 s) and answers 504. The worker works on, until \
        request_terminate_timeout ends it. Where that is longer, workers are busy for nobody, and a retry takes one more.",
    how_it_shows: "504 for the visitor, while the worker goes on with that request for a long time.",
    unless: "Requests that long are meant, and nobody waits for their answer.",
    what_to_write: "request_terminate_timeout a little below fastcgi_read_timeout.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let askers = Askers::of(snapshot);
    for (at, php, pool) in snapshot.pools() {
        let ends = pool.settings.or("request_terminate_timeout", "0");
        let Some(ends_s) = ends.seconds().filter(|seconds| *seconds > 0.0) else {
            continue;
        };
        let Some(waits) = askers.patience(at, pool) else {
            continue;
        };
        let Some(waits_s) = waits.seconds().filter(|seconds| *seconds < ends_s) else {
            continue;
        };
        RULE.at(snapshot, at, Severity::Risk)
            .pool(pool)
            .value("request_terminate_timeout", &ends)
            .value("fastcgi_read_timeout", &waits)
            .cost("workers that are busy for nobody, most of them when the site is slow already")
            .fix(Fix::pool(
                php,
                pool,
                &[("request_terminate_timeout", super::just_below(waits_s))],
            ))
            .weight(0.1)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let conf = "http { server { location / {\n fastcgi_read_timeout 10s;\n fastcgi_pass unix:/run/php.sock; } } }";
        verify(
            &RULE,
            &[(Case::healthy().nginx(conf), Severity::Risk, "nginx.conf:2")],
        );
    }
}
