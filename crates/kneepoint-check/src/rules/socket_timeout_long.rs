//! APP-05: a silent peer holds a worker for minutes.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APP-05",
    name: "socket-timeout-long",
    title: "PHP waits very long for a peer that says nothing",
    what_it_is: "default_socket_timeout is how long PHP waits for an answer where the code says nothing else: of a web \
        service, a mail server, a file fetched by its address. It is 60 s as it comes. A peer that accepts and stays silent \
        holds one worker for that long; a few calls hold the whole pool while the CPU is idle.",
    how_it_shows: "All workers wait in poll or recv on one peer, and the site is down though nothing of it is broken.",
    unless: "The application gives each call a time limit of its own, such as CURLOPT_TIMEOUT.",
    what_to_write: "default_socket_timeout = 10, and a time limit of its own for each call that may take longer.",
    check,
};

const TIMEOUT: Directive = Directive {
    home: Home::Ini,
    name: "default_socket_timeout",
    usual: "60",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, around| {
        /// What PHP comes with, in seconds.
        const USUAL_S: f64 = 60.0;
        let seconds = value.number()?;
        let calls = counted(around.workers(), "call");
        match seconds {
            below if below < 0.0 => {
                Some(format!("{calls} to a silent peer hold the pool for ever"))
            }
            above if above > USUAL_S => Some(format!(
                "{calls} to a silent peer hold the pool for {above:.0} s"
            )),
            _ => None,
        }
    },
    better: |_| "10".into(),
    weight: 0.12,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    TIMEOUT.check(&RULE, snapshot, found);
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
                    Case::healthy().pool_with("", "default_socket_timeout=300"),
                    Severity::Risk,
                    "for 300 s",
                ),
                (
                    Case::healthy().pool_with("", "default_socket_timeout=-1"),
                    Severity::Risk,
                    "for ever",
                ),
            ],
        );
    }
}
