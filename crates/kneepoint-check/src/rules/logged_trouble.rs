//! Lines of logs with one meaning, for which no other rule reads a setting.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-17",
    name: "logged-trouble",
    title: "The logs tell of trouble",
    what_it_is: "Some log lines of nginx, PHP and the kernel have exactly one meaning, and each meaning has a code of \
        its own. NGX-17: the next tier did not answer in time. Other codes: its queue was full, nobody listened there, \
        no local port or descriptor was left, a buffer was too small, a limit refused requests, PHP's memory was \
        corrupted, PHP lost a connection to a database or to Redis.",
    how_it_shows: "NGX-17 is `upstream timed out (110: Connection timed out) while reading ...` in nginx's error log; the \
        visitor gets 504, or a page that breaks off. `kneepoint explain` quotes the lines of the other codes.",
    unless: "It happened once, during work on the host.",
    what_to_write: "What the line asks for: `kneepoint explain CODE` with the code beside it.",
    check,
};

/// What lines mean, the catalogue's code, and what to do.
const KNOWN: [(LogKind, &str, Severity, &str); 14] = [
    (
        LogKind::UpstreamReadTimeout,
        "NGX-17",
        Severity::Problem,
        "Find what the application waited for: the slow log of PHP-FPM names the line. Longer timeouts make it worse.",
    ),
    (
        LogKind::UpstreamQueueFull,
        "FPM-07",
        Severity::Problem,
        "The pool behind was full: see its size and what its workers wait for; then listen.backlog and net.core.somaxconn.",
    ),
    (
        LogKind::UpstreamConnectTimeout,
        "FPM-08",
        Severity::Problem,
        "The listener behind dropped connections: see the pool's size; then its backlog and net.core.somaxconn.",
    ),
    (
        LogKind::UpstreamRefused,
        "FPM-24",
        Severity::Problem,
        "Nobody listened there: see that PHP runs, where it listens, and who may connect (listen.owner, listen.mode).",
    ),
    (
        LogKind::UpstreamReset,
        "FPM-11",
        Severity::Problem,
        "The worker ended or closed the connection: see crashes, request_terminate_timeout, reloads (process_control_timeout) and pm.max_requests with kept connections.",
    ),
    (
        LogKind::NoLocalPort,
        "KRN-01",
        Severity::Problem,
        "Keep connections to the next tier open (`keepalive`, persistent connections); then widen net.ipv4.ip_local_port_range in that network namespace.",
    ),
    (
        LogKind::NoFileDescriptors,
        "NGX-02",
        Severity::Problem,
        "Raise worker_rlimit_nofile, rlimit_files or LimitNOFILE= of the unit.",
    ),
    (
        LogKind::HeaderTooBig,
        "NGX-09",
        Severity::Problem,
        "Write fastcgi_buffers 16 16k; and fastcgi_buffer_size 32k; (proxy_ instead of fastcgi_ where nginx asks by HTTP), and \
         see why headers are that large: debug headers, cookies.",
    ),
    (
        LogKind::BufferedToFile,
        "NGX-08",
        Severity::Risk,
        "Write fastcgi_buffers 16 16k; and fastcgi_buffer_size 32k; (proxy_ instead of fastcgi_ where nginx asks by HTTP).",
    ),
    (
        LogKind::NoLiveUpstreams,
        "NGX-18",
        Severity::Problem,
        "See why it failed. Name one address, 127.0.0.1 and not localhost, which is ::1 as well. Where all servers are one \
         machine, write max_fails=0 at each.",
    ),
    (
        LogKind::RateLimited,
        "NGX-19",
        Severity::Note,
        "If these were real users, raise rate or burst of limit_req, limit_conn.",
    ),
    (
        LogKind::OutOfMemory,
        "KRN-08",
        Severity::Problem,
        "Make the pools smaller or give the host or container more memory.",
    ),
    (
        LogKind::HeapCorrupted,
        "RT-06",
        Severity::Problem,
        "Update PHP and its extensions: the line does not say which of them did it. See whether OPcache started anew at \
         that time (opcache_reset(), no memory left); then leave extensions out one after the other.",
    ),
    (
        LogKind::KeptConnectionLost,
        "RT-09",
        Severity::Risk,
        "Where PHP keeps connections (persistent ones, Octane, jobs that run for hours), the server closes those that are idle \
         for longer than its wait_timeout or timeout: connect again before use, or on this error. Else see whether \
         the server was restarted, or a query was larger than max_allowed_packet.",
    ),
];

/// The codes of lines with what these mean and what to do.
pub(super) fn codes() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    KNOWN
        .iter()
        .map(|(kind, code, _, remedy)| (*code, crate::snapshot::said(*kind), *remedy))
}

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.services.iter().enumerate() {
        for (kind, code, severity, remedy) in KNOWN {
            let Some(hits) = service.logged(kind) else {
                continue;
            };
            let old = !is_recent(hits) || service.is_older_run(hits);
            let mut told = Vec::new();
            let severity = match old {
                true => Severity::Note,
                false => graded(severity, service, hits),
            };
            RULE.at(snapshot, at, severity)
                .title(format!("The log says: {}", crate::snapshot::said(kind)))
                .seen(often(hits), &hits.path)
                .cost(if old {
                    "nothing any more, or it is still to come back".to_owned()
                } else {
                    format!(
                        "{}: an error or a wait of somebody each",
                        counted(hits.count, "line")
                    )
                })
                .fix(Fix::words(remedy))
                .weight(0.3 + (hits.count as f64).log10() / 100.0)
                .tell(&mut told);
            found.extend(
                told.into_iter()
                    .map(|finding| CheckFinding { code, ..finding }),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::case::logged;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[
                (
                    logged(0, LogKind::UpstreamReadTimeout, 60.0),
                    Severity::Problem,
                    "code: \"NGX-17\"",
                ),
                (
                    logged(0, LogKind::UpstreamReadTimeout, 60.0)
                        .with(|all| all.services[0].logs[0].count = 1),
                    Severity::Note,
                    "1 line: an error",
                ),
                (
                    logged(0, LogKind::NoLocalPort, 60.0),
                    Severity::Problem,
                    "code: \"KRN-01\"",
                ),
                (
                    logged(0, LogKind::UpstreamRefused, 7200.0)
                        .with(|all| all.services[0].age_s = 3600.0),
                    Severity::Note,
                    "FPM-24",
                ),
                (
                    logged(0, LogKind::UpstreamRefused, 1e7),
                    Severity::Note,
                    "FPM-24",
                ),
                (
                    logged(1, LogKind::HeapCorrupted, 60.0),
                    Severity::Problem,
                    "code: \"RT-06\"",
                ),
                (
                    logged(1, LogKind::KeptConnectionLost, 60.0),
                    Severity::Risk,
                    "wait_timeout",
                ),
                // One that was made a moment ago may be lost as well.
                (
                    logged(1, LogKind::KeptConnectionLost, 60.0),
                    Severity::Risk,
                    "The log says: PHP lost a connection",
                ),
                // The size alone is refused: what is sent at once would not fit the other buffers.
                (
                    logged(0, LogKind::HeaderTooBig, 60.0),
                    Severity::Problem,
                    "fastcgi_buffers 16 16k; and fastcgi_buffer_size 32k; (proxy_",
                ),
                // nginx ignores max_fails where there is one server.
                (
                    logged(0, LogKind::NoLiveUpstreams, 60.0),
                    Severity::Problem,
                    "127.0.0.1 and not localhost",
                ),
            ],
        );
    }
}
