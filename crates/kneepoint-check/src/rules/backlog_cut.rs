//! FPM-07: a queue before PHP that is shorter than it says.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-07",
    name: "backlog-cut",
    title: "The queue before PHP is shorter than listen.backlog says",
    what_it_is: "listen.backlog is how many connections may wait for a worker, and the kernel cuts it to net.core.somaxconn. The \
        socket keeps the length it was opened with: a reload of PHP-FPM hands it on as it is, only a restart opens it anew. Where a \
        Unix socket's queue is full, nginx answers 502 at once, and no counter of the kernel shows it; over TCP, clients wait one and \
        three seconds.",
    how_it_shows: "502 at once in a burst, with `(11: Resource temporarily unavailable)` in the error log of nginx, although \
        listen.backlog of the pool is larger.",
    unless: "The queue is never that long.",
    what_to_write: "net.core.somaxconn = 4096 in that network namespace, listen.backlog = 511 in the pool; then restart both.",
    check,
};

/// A queue of fewer connections is full in a moment.
const SHORT: f64 = 128.0;
/// What PHP-FPM asks for by itself: a queue of this many is not called short for being cut.
const USUAL: f64 = 511.0;

/// Why a queue is shorter than it should be.
#[derive(Clone, Copy, PartialEq)]
enum Why {
    /// The socket was opened when the settings were others.
    Older,
    /// The kernel cut what PHP-FPM asked for.
    Cut,
    /// PHP-FPM asked for no more.
    Asked,
}

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service, pool) in snapshot.pools() {
        let backlog = pool.settings.or("listen.backlog", "511");
        let somaxconn = service.kernel.get("net.core.somaxconn");
        // Where nobody wrote it, PHP-FPM asks for 511, or since PHP 8 for whatever the kernel allows.
        let Some(asked) = backlog.number() else {
            continue;
        };
        let asked = if asked < 0.0 { f64::MAX } else { asked };
        let most = somaxconn.and_then(SettingValue::number);
        // What a restart would give, and what the kernel has.
        let written = most.map(|most| asked.min(most));
        let real = pool.queue.map(|(_, limit)| limit as f64);
        let Some(length) = real.or(written) else {
            continue;
        };
        let why = match written {
            Some(written) if written > length => Why::Older,
            _ if asked > length => Why::Cut,
            _ => Why::Asked,
        };
        let little = length < SHORT || (why == Why::Cut && length < USUAL);
        if !little && why != Why::Older {
            continue;
        }
        let mut draft = RULE.at(snapshot, at, Severity::Risk).pool(pool).value(
            "listen.backlog",
            &pool.settings.or("listen.backlog", "not set"),
        );
        if let Some(somaxconn) = somaxconn {
            draft = draft.value("net.core.somaxconn", somaxconn);
        }
        if real.is_some() {
            let fit = counted(length as u64, "connection");
            draft = draft.seen(
                format!("{fit} fit into the queue of its socket"),
                "the kernel",
            );
        }
        draft
            .title(title(why))
            // The kernel takes one more than the length of the queue (sk_acceptq_is_full in include/net/sock.h).
            .cost(format!(
                "in a burst {} wait, and any further one is an error, or waits seconds more",
                counted(length as u64 + 1, "connection")
            ))
            .fix(fix(why, service, pool))
            .weight(0.1)
            .tell(found);
    }
}

fn title(why: Why) -> &'static str {
    match why {
        Why::Older => "The queue before PHP is not yet as long as its settings say",
        Why::Cut => RULE.title,
        Why::Asked => "The queue before PHP is short",
    }
}

fn fix(why: Why, service: &Service, pool: &FpmPool) -> Fix {
    match why {
        Why::Older => Fix::restarted(
            service,
            "Restart PHP-FPM: its socket keeps the length it was opened with, and a reload hands it on as it is.",
        ),
        Why::Cut => Fix::sysctl(service, "net.core.somaxconn", "4096"),
        Why::Asked => {
            Fix::pool(service, pool, &[("listen.backlog", "511".into())]).after_restart(service)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let queue =
            |limit| move |all: &mut Snapshot| all.services[1].pools[0].queue = Some((0, limit));
        verify(
            &RULE,
            &[
                (
                    Case::healthy().kernel(1, "net.core.somaxconn", "128"),
                    Severity::Risk,
                    "129 connections wait",
                ),
                (
                    Case::healthy().pool_with("listen.backlog = 16", ""),
                    Severity::Risk,
                    "17 connections wait",
                ),
                (
                    Case::healthy().pool_with("listen.backlog = 16", ""),
                    Severity::Risk,
                    "Restart PHP-FPM as it was started",
                ),
                (
                    Case::healthy().with(queue(128)),
                    Severity::Risk,
                    "Restart PHP-FPM",
                ),
                (
                    Case::healthy()
                        .pool_with("listen.backlog = 2000", "")
                        .with(queue(511)),
                    Severity::Risk,
                    "not yet as long",
                ),
            ],
        );

        // The kernel has more than is written now: what was opened before stays as it is.
        let short = Case::healthy().pool_with("listen.backlog = 16", "");
        assert!(super::super::tests_of(&RULE, &short.with(queue(511))).is_empty());
    }
}
