//! NGX-13: a system call for every line of the access log.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-13",
    name: "access-log-unbuffered",
    title: "The access log is written line by line",
    what_it_is: "Without buffer= every request is a write of its own; to the pipe of a container's log it can block all that \
        the process serves. With buffer=64k flush=1s it is one write for hundreds of lines.",
    how_it_shows: "`strace -c` of a process of nginx shows a write for every request; a full disk or a slow reader of the container's log slows every page.",
    unless: "There are fewer than some hundred requests a second.",
    what_to_write: "access_log /var/log/nginx/access.log combined buffer=64k flush=1s;",
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
        let mut logs = nginx.servers.iter().flat_map(|server| {
            let all = server.settings.every("access_log");
            all.map(|(text, source)| SettingValue::new(text, source.clone()))
        });
        let Some(value) = logs.find(|value| is_plain(&value.text)) else {
            continue;
        };
        RULE.at(snapshot, at, Severity::Note)
            .value("access_log", &value)
            .cost("a write for every request: little to a disk, more where the reader of a pipe is slow")
            .fix(Fix::line(service, &value, &buffered(&value.text)))
            .tell(found);
    }
}

/// Whether each line is a write of its own and need not be: nginx refuses a buffer where the path has variables, and what it
/// compresses it gathers first.
fn is_plain(text: &str) -> bool {
    let gathers =
        |word: &str| word == "gzip" || word.starts_with("gzip=") || word.starts_with("buffer=");
    let mut words = text.split(' ');
    let path = words.next().unwrap_or_default();
    let is_file = path != "off" && !path.starts_with("syslog:") && !path.contains('$');
    is_file && !words.any(gathers)
}

/// The same log with a buffer. nginx takes what follows the path for a format, so that one must be named.
fn buffered(text: &str) -> String {
    let mut words: Vec<&str> = text.split(' ').collect();
    if words.get(1).is_none_or(|word| word.contains('=')) {
        words.insert(1, "combined");
    }
    format!("access_log {} buffer=64k flush=1s;", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let plain = |rest: &str| Case::healthy().nginx_with(" buffer=64k flush=1s", rest);
        verify(
            &RULE,
            &[
                (plain(""), Severity::Note, "nginx.conf:10"),
                (
                    plain(""),
                    Severity::Note,
                    "access_log /l combined buffer=64k flush=1s;",
                ),
                (
                    plain(" if=$loud"),
                    Severity::Note,
                    "access_log /l combined if=$loud buffer=64k",
                ),
                (
                    plain(" timed"),
                    Severity::Note,
                    "access_log /l timed buffer=64k",
                ),
                // The second of two.
                (
                    plain(" combined buffer=64k; access_log /m"),
                    Severity::Note,
                    "access_log /m combined buffer",
                ),
                (
                    plain("; access_log /m combined buffer=64k"),
                    Severity::Note,
                    "access_log /l combined buffer",
                ),
            ],
        );
        for well in [
            "/var/log/$host.log",
            "/l combined gzip",
            "/l combined gzip=4 flush=5m",
        ] {
            let case = Case::healthy().nginx_with("/l buffer=64k flush=1s", well);
            assert!(super::super::tests_of(&RULE, &case).is_empty(), "{well}");
        }
    }
}
