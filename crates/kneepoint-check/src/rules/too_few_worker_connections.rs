//! NGX-01: connection slots of nginx.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-01",
    name: "too-few-worker-connections",
    title: "nginx has few connection slots",
    what_it_is: "A process of nginx serves at most worker_connections connections, and a request that it hands on takes two \
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
        if let Some(hits) = recent {
            draft = draft
                .title("The connection slots of nginx were used up")
                .seen(often(hits), &hits.path);
        }
        draft
            .seen(
                format!(
                    "{} of nginx, with {each:.0} slots{}",
                    counted(workers as u64, "process"),
                    if workers > 1.0 { " each" } else { "" }
                ),
                "",
            )
            .cost(cost(each * workers, nginx.passes.is_empty()))
            .fix(fix(service, &value, each))
            .weight(if recent.is_some() { 0.5 } else { 0.2 })
            .tell(found);
    }
}

fn cost(slots: f64, serves_files: bool) -> String {
    let (clients, each) = match serves_files {
        true => (slots, "each takes one slot"),
        false => (
            slots / 2.0,
            "each takes two slots while its request is handed on",
        ),
    };
    format!(
        "above {clients:.0} clients at once ({each}; browsers that keep a connection count, too) further ones are closed without \
         an answer"
    )
}

/// More than there are: where these were used up, what is enough elsewhere is not enough here. Each may take two open files.
fn fix(service: &Service, value: &SettingValue, each: f64) -> Fix {
    let slots = (each * 2.0).max(4096.0);
    let line = Fix::line(service, value, &format!("worker_connections {slots:.0};"));
    let files = format!("worker_rlimit_nofile {:.0};", slots * 4.0);
    match service.settings.get("worker_rlimit_nofile") {
        Some(limit) if limit.number() >= Some(slots * 2.0) => line,
        Some(limit) => line.after(&format!("In {}, write `{files}`.", limit.source)),
        None if service.limits.files >= Some(slots * 2.0) => line,
        None => line.after(&format!("Above `events`, add `{files}`.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let small =
            Case::healthy().nginx_with(" worker_connections 4096;", " worker_connections 768;");
        let one = Case::healthy()
            .nginx_with(" worker_connections 4096;", " worker_connections 1024;")
            .set(0, "worker_processes", "1");
        let logged = crate::rule::case::logged(0, LogKind::NoConnectionSlots, 60.0);
        verify(
            &RULE,
            &[
                (small, Severity::Risk, "above 1536 clients"),
                (logged.clone(), Severity::Problem, "used up"),
                // It has 4096 already: that cannot be what to write.
                (logged, Severity::Problem, "worker_connections 8192;"),
                (one, Severity::Risk, "1 process of nginx, with 1024 slots\""),
            ],
        );
        // A second line of one directive would keep nginx from starting.
        let limited = Case::healthy()
            .nginx_with(" worker_connections 4096;", " worker_connections 768;")
            .set(0, "worker_rlimit_nofile", "512");
        let fix = &super::super::tests_of(&RULE, &limited)[0].fix;
        let change = "In /etc/x.conf:1, write `worker_rlimit_nofile 16384;`. In /etc/nginx";
        assert!(fix.text.starts_with(change), "{fix:?}");
    }
}
