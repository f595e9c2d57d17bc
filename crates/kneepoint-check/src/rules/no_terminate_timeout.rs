//! FPM-14: nothing ends a request that hangs.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-14",
    name: "no-terminate-timeout",
    title: "Nothing ends a request that hangs",
    what_it_is: "max_execution_time does not count time spent waiting for a database, a socket or sleep. Without \
        request_terminate_timeout a worker that waits for a dead peer waits for ever, and each incident leaves the pool \
        smaller.",
    how_it_shows: "The number of busy workers never falls back to none after an incident; a worker is at one request for hours.",
    unless: "Every connection of the application has a timeout of its own.",
    what_to_write: "request_terminate_timeout = 60s: a little less than nginx waits.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let askers = Askers::of(snapshot);
    for (at, service, pool) in snapshot.pools() {
        let value = pool.settings.or("request_terminate_timeout", "0");
        if value.seconds() == Some(0.0) {
            let waits = askers.patience(at, pool);
            let (seconds, who) = match waits.as_ref().and_then(SettingValue::seconds) {
                Some(seconds) => (seconds, "nginx gives up"),
                None => (
                    60.0,
                    "no nginx is seen to ask this pool; one gives up by its default",
                ),
            };
            let source = waits.map_or_else(String::new, |value| value.source.to_string());
            RULE.at(snapshot, at, Severity::Risk)
                .pool(pool)
                .value("request_terminate_timeout", &value)
                .seen(
                    format!("{who} after {seconds:.0} s (fastcgi_read_timeout): PHP should end the request a little sooner"),
                    source,
                )
                .cost("a worker for each request that hangs, until somebody restarts PHP")
                .fix(Fix::pool(
                    service,
                    pool,
                    &[("request_terminate_timeout", super::just_below(seconds))],
                ))
                .weight(0.08)
                .tell(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let never = || Case::healthy().pool_with("request_terminate_timeout = 0", "");
        verify(
            &RULE,
            &[
                (never(), Severity::Risk, "php-fpm.conf:16"),
                (never(), Severity::Risk, "gives up after 60 s"),
                (never(), Severity::Risk, "request_terminate_timeout = 55s"),
                (
                    never().nginx_with(
                        "fastcgi_pass unix",
                        "fastcgi_read_timeout 20s;\n   fastcgi_pass unix",
                    ),
                    Severity::Risk,
                    "request_terminate_timeout = 16s",
                ),
            ],
        );
    }
}
