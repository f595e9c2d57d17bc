//! NGX-26: nginx writes every step of every request.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-26",
    name: "error-log-verbose",
    title: "nginx logs at the level debug",
    what_it_is: "error_log FILE debug has nginx write some hundred lines about each request, when it was built for \
        that. It is for those who look for a fault of nginx. Each line is a write, and the disk is full after a busy \
        day.",
    how_it_shows: "An error log of gigabytes, with `[debug]` in its lines, and a process of nginx that mostly writes.",
    unless: "nginx was built without --with-debug: then the level has no effect.",
    what_to_write: "error_log /var/log/nginx/error.log warn;",
    check,
};

const SITE: Directive = Directive {
    home: Home::Site,
    name: "error_log",
    usual: "error",
    beside: &[],
    severity: Severity::Risk,
    costs: debug,
    better: |around| quieter(around.settings.text("error_log")),
    weight: 0.2,
};

const MAIN: Directive = Directive {
    home: Home::Program(ServiceKind::Nginx),
    name: "error_log",
    usual: "error",
    beside: &[],
    severity: Severity::Risk,
    costs: debug,
    better: |around| quieter(around.settings.text("error_log")),
    weight: 0.2,
};

/// The same log with fewer lines.
fn quieter(log: Option<&str>) -> String {
    let path = log.and_then(|log| log.split(' ').next());
    format!(
        "error_log {} warn;",
        path.unwrap_or("/var/log/nginx/error.log")
    )
}

fn debug(value: &SettingValue, _: &Around<'_>) -> Option<String> {
    let level = value.text.split(' ').skip(1).any(|word| word == "debug");
    level.then(|| "some hundred lines, a write each, for every request".to_owned())
}

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let before = found.len();
    SITE.check(&RULE, snapshot, found);
    if found.len() == before {
        MAIN.check(&RULE, snapshot, found);
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
                    Case::healthy()
                        .nginx_with("sendfile on;", "sendfile on;\n error_log /l debug;"),
                    Severity::Risk,
                    "error_log /l warn;",
                ),
                (
                    Case::healthy().nginx_with(
                        "worker_processes auto;",
                        "worker_processes auto;\nerror_log /l debug;",
                    ),
                    Severity::Risk,
                    "nginx.conf:2",
                ),
            ],
        );
    }
}
