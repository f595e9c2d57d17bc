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
        if value.seconds() != Some(0.0) {
            continue;
        }
        let draft = RULE
            .at(snapshot, at, Severity::Risk)
            .pool(pool)
            .value("request_terminate_timeout", &value)
            .cost("a worker for each request that hangs, until somebody restarts PHP")
            .weight(0.08);
        let waits = askers.longest_patience(at, pool);
        let seconds = waits.as_ref().and_then(|waits| waits.value.seconds());
        let Some((waits, seconds)) = waits.as_ref().zip(seconds) else {
            draft
                .seen("nobody is seen who asks this pool", "")
                .fix(Fix::words(
                    "In the pool, set request_terminate_timeout a little below what the server before it waits: \
                     fastcgi_read_timeout of nginx, ProxyTimeout or Timeout of Apache, 60 s as they come.",
                ))
                .tell(found);
            continue;
        };
        let own = pool.php.get("max_execution_time");
        let own = own.and_then(SettingValue::seconds).unwrap_or(0.0);
        let ends = ("request_terminate_timeout", super::just_below(seconds));
        // What PHP itself allows a script is not cut short.
        let fix = match own > seconds {
            true => Fix::words(format!(
                "First let {} wait as long as scripts may run ({own:.0} s) where long pages are served, or lower max_execution_time; \
                 then set request_terminate_timeout a little below what it waits.",
                waits.who
            )),
            false => Fix::pool(service, pool, &[ends]),
        };
        draft
            .seen(
                format!(
                    "{} gives up after {seconds:.0} s ({}): PHP should end the request a little sooner",
                    waits.who,
                    waits.name
                ),
                waits.value.source.to_string(),
            )
            .fix(fix)
            .tell(found);
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
                    Case::healthy()
                        .pool_with("request_terminate_timeout = 0", "max_execution_time = 300"),
                    Severity::Risk,
                    "First let nginx wait as long as scripts may run (300 s)",
                ),
                (
                    never().with(|all| all.links.clear()),
                    Severity::Risk,
                    "nobody is seen who asks this pool",
                ),
                (
                    never().with(|all| {
                        let mut apache = Service::new(ServiceKind::Apache, 9);
                        let source = SettingSource::file("/etc/apache2/apache2.conf", 3);
                        apache.settings.set("timeout", "300", source);
                        all.links[0].from = all.services.len();
                        all.services.push(apache);
                    }),
                    Severity::Risk,
                    "request_terminate_timeout = 295s",
                ),
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
