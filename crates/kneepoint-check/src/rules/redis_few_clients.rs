//! RDS-02: Redis lets fewer clients in than there are workers.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "RDS-02",
    name: "redis-few-clients",
    title: "Redis lets fewer clients in than PHP has workers",
    what_it_is: "With persistent connections each worker keeps one for each database it uses. Beyond maxclients Redis refuses: \
        `max number of clients reached`.",
    unless: "Only some of the workers use Redis.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Redis) {
        let value = service.settings.or("maxclients", "10000");
        let Some(most) = value.number() else { continue };
        let hits = service
            .logged(LogKind::TooManyCacheClients)
            .filter(|hits| is_recent(hits));
        let workers = snapshot.workers_behind(at).unwrap_or(0);
        if hits.is_none() && workers as f64 <= most {
            continue;
        }
        let mut draft = RULE
            .at(
                snapshot,
                at,
                if hits.is_some() {
                    Severity::Problem
                } else {
                    Severity::Risk
                },
            )
            .value("maxclients", &value);
        if let Some(hits) = hits {
            draft = draft.seen(often(hits), &hits.path);
        }
        draft
            .seen(
                format!("pools of PHP with {workers} workers in all ask it"),
                "",
            )
            .cost("errors for every worker beyond it, in the moment of the highest load")
            .fix(Fix::line(
                service,
                &value,
                &format!("maxclients {}", (workers * 2).max(10_000)),
            ))
            .weight(0.3)
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
                    Case::healthy().set(2, "maxclients", "10"),
                    Severity::Risk,
                    "20 workers",
                ),
                (
                    crate::rule::case::logged(2, LogKind::TooManyCacheClients, 9.0),
                    Severity::Problem,
                    "/var/log/x.log",
                ),
            ],
        );
    }
}
