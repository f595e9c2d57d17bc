//! NGX-14: files are copied through nginx.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-14",
    name: "sendfile-off",
    title: "Files that nginx serves are copied twice",
    what_it_is: "With sendfile the kernel sends a file's pages to the socket; without, nginx reads them into its memory and \
        writes them out again. It is off unless it is switched on.",
    how_it_shows: "nginx reads and writes in turns (`strace`), and uses CPU time where it serves large files.",
    unless: "nginx serves no files of its own, or those lie on a network file system that cannot.",
    what_to_write: "sendfile on; tcp_nopush on;",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Nginx) {
        let Some(nginx) = &service.nginx else {
            continue;
        };
        let serves = nginx.servers.iter().find(|one| {
            one.settings.get("root").is_some() || one.settings.get("sendfile").is_some()
        });
        let Some(server) = serves else { continue };
        let value = server.settings.or("sendfile", "off");
        if value.is_on() == Some(false) {
            // Of what stands there already a second line would keep nginx from starting.
            let lines = match server.settings.get("tcp_nopush") {
                Some(_) => "sendfile on;",
                None => "sendfile on;\ntcp_nopush on;",
            };
            RULE.at(snapshot, at, Severity::Note)
                .value("sendfile", &value)
                .cost(
                    "a copy of every byte of every file: CPU of nginx where it serves large files",
                )
                .fix(Fix::line(service, &value, lines))
                .tell(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().nginx_with("sendfile on;", "sendfile off;"),
                Severity::Note,
                "nginx.conf:7",
            )],
        );
        let fix = |lines: &str| {
            let case = Case::healthy().nginx_with("sendfile on;", lines);
            super::super::tests_of(&RULE, &case)[0].fix.in_one_line()
        };
        let whole = fix("sendfile off;");
        assert!(whole.contains("tcp_nopush on;"), "{whole}");
        let part = fix("sendfile off; tcp_nopush on;");
        assert!(!part.contains("tcp_nopush"), "{part}");
    }
}
