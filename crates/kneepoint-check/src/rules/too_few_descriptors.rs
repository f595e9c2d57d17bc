//! NGX-02: fewer descriptors than connections.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-02",
    name: "too-few-descriptors",
    title: "nginx may open fewer files than it has connections",
    what_it_is: "Every connection is an open file, a request that nginx hands on needs two, and files that nginx serves \
        count as well. The limit of the process comes from worker_rlimit_nofile, or else from the process that started it: \
        often 1024.",
    how_it_shows: "`Too many open files` or `(24: ...)` in the error log of nginx.",
    unless: "There are never that many connections.",
    what_to_write: "worker_rlimit_nofile = at least twice worker_connections.",
    check,
};

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
        let (Some(connections), Some(files)) = (value.number(), service.limits.files) else {
            continue;
        };
        // worker_connections counts both ends of a client that is handed on.
        let needed = if nginx.passes.is_empty() {
            connections
        } else {
            connections * 1.05
        };
        if files >= needed {
            continue;
        }
        RULE.at(snapshot, at, Severity::Risk)
            .value("worker_connections", &value)
            .seen(format!("a worker may have {files:.0} open files"), format!("/proc/{}/limits", service.pid))
            .cost(format!("above {files:.0} connections accept() fails: clients wait, and nginx writes error lines as fast as it can"))
            .fix(match service.settings.get("worker_rlimit_nofile") {
                Some(limit) => Fix::line(service, limit, &format!("worker_rlimit_nofile {:.0};", connections * 2.0)),
                None => Fix::words(format!("In {}, add at the top: worker_rlimit_nofile {:.0};", service.files.first().map_or("nginx.conf", |file| &file.path), connections * 2.0)),
            })
            .weight(0.25)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let few = |snapshot: &mut Snapshot| snapshot.services[0].limits.files = Some(1024.0);
        verify(
            &RULE,
            &[(
                Case::healthy().with(few),
                Severity::Risk,
                "worker_rlimit_nofile 8192",
            )],
        );
    }
}
