//! NGX-01: connection slots of nginx.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-01",
    name: "too-few-worker-connections",
    title: "nginx has few connection slots",
    what_it_is: "A process of nginx serves at most worker_connections connections, and a client that is handed on takes two \
        of them. Kept connections of browsers count, too. When they are used up nginx closes connections without an answer \
        (9 861 of 163 674 were served in the lab).",
    how_it_shows: "`worker_connections are not enough` in the error log, and connections that are closed without an answer.",
    unless: "No more than a few hundred clients are connected at once, such as behind a proxy that keeps few connections.",
    what_to_write: "worker_connections 4096;",
    check,
};

/// Fewer slots in all than this are used up by some hundred browsers.
const FEW: f64 = 4096.0;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Nginx) {
        let Some(nginx) = service
            .nginx
            .as_ref()
            .filter(|nginx| !nginx.servers.is_empty())
        else {
            continue;
        };
        let value = service.settings.or("worker_connections", "512");
        let Some(each) = value.number() else { continue };
        let hits = service.logged(LogKind::NoConnectionSlots);
        let recent = hits.filter(|hits| is_recent(hits));
        let workers = super::nginx_workers(snapshot, service);
        let per_client = if nginx.passes.is_empty() { 1.0 } else { 2.0 };
        let few = each * workers < FEW && each <= 1024.0;
        if !few && recent.is_none() {
            continue;
        }
        let severity = if recent.is_some() {
            Severity::Problem
        } else {
            Severity::Risk
        };
        let mut draft = RULE
            .at(snapshot, at, severity)
            .value("worker_connections", &value);
        if let Some(hits) = hits {
            draft = draft
                .title("The connection slots of nginx were used up")
                .seen(often(hits), &hits.path);
        }
        draft
            .seen(format!("{workers:.0} processes of nginx"), "")
            .cost(format!("above {:.0} clients at once, kept connections included, further ones are closed without an answer", each * workers / per_client))
            .fix(Fix::line(service, &value, "worker_connections 4096; (and worker_rlimit_nofile 16384; at the top)"))
            .weight(if recent.is_some() { 0.5 } else { 0.2 })
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let small =
            Case::healthy().nginx_with(" worker_connections 4096;", " worker_connections 768;");
        let logged = crate::rule::case::logged(0, LogKind::NoConnectionSlots, 60.0);
        verify(
            &RULE,
            &[
                (small, Severity::Risk, "above 1536 clients"),
                (logged, Severity::Problem, "used up"),
            ],
        );
    }
}
