//! APA-05: ServerLimit cuts MaxRequestWorkers.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APA-05",
    name: "apache-workers-cut",
    title: "Apache has fewer processes than MaxRequestWorkers says",
    what_it_is: "MaxRequestWorkers can be no larger than ServerLimit, times ThreadsPerChild where the MPM has threads. Where \
        nobody writes it, ServerLimit is 256 with prefork and 16 with event, which allows 400 (16 times 25 threads). Apache \
        starts all the same, with the smaller number, and says so once in its log.",
    how_it_shows: "`MaxRequestWorkers of N exceeds ServerLimit` in the error log at the start.",
    unless: "Not as many requests are ever under way at once.",
    what_to_write: "ServerLimit = MaxRequestWorkers (prefork), or MaxRequestWorkers divided by ThreadsPerChild \
        (event, worker); a full restart is needed.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Apache) {
        let settings = &service.settings;
        let Some(wanted) = settings.get("maxrequestworkers") else {
            continue;
        };
        let prefork = service.is_prefork();
        let (Some(asked), Some(most)) = (wanted.number(), service.apache_limit()) else {
            continue;
        };
        if asked <= most {
            continue;
        }
        let usual = if prefork { "256" } else { "16" };
        let threads = settings.or("threadsperchild", "25").number();
        let threads = threads.filter(|_| !prefork).unwrap_or(1.0).max(1.0);
        let right = format!("ServerLimit {:.0}", (asked / threads).ceil());
        let fix = match settings.get("serverlimit") {
            Some(limit) => Fix::line(service, limit, &right),
            None => Fix::beside(service, wanted, &right),
        };
        RULE.at(snapshot, at, Severity::Risk)
            .value("MaxRequestWorkers", wanted)
            .value("ServerLimit", &settings.or("serverlimit", usual))
            .cost(format!(
                "{most:.0} requests at once and not {asked:.0}: the others wait"
            ))
            .fix(fix)
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
            &[
                (
                    apache(&[
                        ("loadmodule", "mpm_prefork_module x.so"),
                        ("loadmodule", "php_module y.so"),
                        ("maxrequestworkers", "1000"),
                    ]),
                    Severity::Risk,
                    "256 requests",
                ),
                (
                    apache(&[("maxrequestworkers", "1000")]),
                    Severity::Risk,
                    "400 requests",
                ),
                // More processes than there may be now, of as many threads as each has.
                (
                    apache(&[("serverlimit", "32"), ("maxrequestworkers", "1000")]),
                    Severity::Risk,
                    "change this setting to: ServerLimit 40",
                ),
                (
                    apache(&[("threadsperchild", "64"), ("maxrequestworkers", "2000")]),
                    Severity::Risk,
                    "add beside it: ServerLimit 32",
                ),
            ],
        );
    }
}
