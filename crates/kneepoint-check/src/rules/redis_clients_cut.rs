//! RDS-07: the limit of open files cuts maxclients.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "RDS-07",
    name: "redis-clients-cut",
    title: "Redis lets fewer clients in than maxclients says",
    what_it_is: "Each client is an open file, and Redis needs 32 more for itself. Where the limit of open files is \
        lower than maxclients, Redis lowers maxclients at its start, says so once in its log, and refuses clients \
        from there on.",
    how_it_shows: "`maxclients has been reduced` in the log of Redis; `max number of clients reached` in that of PHP.",
    unless: "Not as many clients ever come.",
    what_to_write: "LimitNOFILE=65535 for the unit of Redis, `ulimits:` of the container; then restart it.",
    check,
};

/// Files that Redis keeps for itself (`CONFIG_MIN_RESERVED_FDS` in server.h).
const RESERVED: f64 = 32.0;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Redis) {
        let clients = service.settings.or("maxclients", "10000");
        let (Some(asked), Some(files)) = (clients.number(), service.limits.files) else {
            continue;
        };
        let left = files - RESERVED;
        let workers = snapshot.workers_behind(at).unwrap_or(0) as f64;
        if asked <= left || service.settings.is_empty() {
            continue;
        }
        let severity = if workers > left {
            Severity::Risk
        } else {
            Severity::Note
        };
        RULE.at(snapshot, at, severity)
            .value("maxclients", &clients)
            .seen(format!("it may open {files:.0} files"), format!("/proc/{}/limits", service.pid))
            .cost(format!("the client after {left:.0} is refused, not the one after {asked:.0}; {workers:.0} workers of PHP ask it"))
            .fix(Fix::open_files(service))
            .weight(if workers > left { 0.25 } else { 0.03 })
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let files = |count| Case::healthy().with(|all| all.services[2].limits.files = Some(count));
        verify(
            &RULE,
            &[
                (files(1024.0), Severity::Note, "after 992"),
                (files(40.0), Severity::Risk, "after 8"),
            ],
        );
    }
}
