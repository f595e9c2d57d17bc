//! FPM-15: a reload ends the requests under way.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-15",
    name: "reload-cuts-requests",
    title: "A reload of PHP ends the requests under way",
    what_it_is: "process_control_timeout is how long workers may finish what they do at a reload or a graceful stop. Its \
        default 0 gives them no time: in the lab 19 of 132 requests failed in four reloads, none with 10 s.",
    how_it_shows: "A burst of 502 and `(104: Connection reset by peer)` at each deployment.",
    unless: "PHP is only ever stopped when no request can come, as behind a load balancer that drains first.",
    what_to_write: "process_control_timeout = 10s in [global].",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Fpm) {
        let value = service.settings.or("process_control_timeout", "0");
        if value.seconds() == Some(0.0) && !service.pools.is_empty() {
            RULE.at(snapshot, at, Severity::Risk)
                .value("process_control_timeout", &value)
                .cost("errors 502 at every deployment and log rotation that reloads PHP: one request in seven in the lab")
                .fix(Fix::global(service, &[("process_control_timeout", "10s".into())]))
                .weight(0.09)
                .tell(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let case = Case::healthy().fpm("[www]\npm = static\npm.max_children = 20", "");
        verify(
            &RULE,
            &[(
                case,
                Severity::Risk,
                "default: no file that was read sets it",
            )],
        );
    }
}
