//! NGX-15: the accept queue of a server is short or filling.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-15",
    name: "listener-queue-short",
    title: "The queue before a server is short",
    what_it_is: "A connection waits in the listener's queue until the server accepts it. Each server asks for a \
        length, nginx and Redis for 511, and the kernel cuts it to net.core.somaxconn: 128 on older kernels and in \
        some images. When the queue is full, connections are dropped without a line in a log.",
    how_it_shows: "`ss -ltn` shows a small Send-Q, and Recv-Q near it under load; some clients wait for one or three \
        seconds.",
    unless: "Connections come from a proxy that keeps a few open.",
    what_to_write: "net.core.somaxconn = 4096 in that network namespace, then restart the server.",
    check,
};

/// What nginx and Redis ask for.
const ASKED: u64 = 511;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.services.iter().enumerate() {
        // Of pools of PHP another rule tells, with their own directive.
        if service.kind == ServiceKind::Fpm {
            continue;
        }
        let listens = service.listens.iter();
        let queues = listens.filter_map(|one| Some((one, one.queue?)));
        let worst = queues
            .filter(|(_, (length, limit))| *limit < ASKED || length * 2 > *limit)
            .max_by(|a, b| (a.1.0 * b.1.1.max(1)).cmp(&(b.1.0 * a.1.1.max(1))));
        let Some((listener, (length, limit))) = worst else {
            continue;
        };
        let filling = length * 2 > limit;
        let somaxconn = service.kernel.or("net.core.somaxconn", "4096");
        RULE.at(snapshot, at, if filling { Severity::Problem } else { Severity::Risk })
            .seen(format!("{length} of {limit} connections wait at {}", listener.endpoint), "the kernel's accept queue")
            .value("net.core.somaxconn", &somaxconn)
            .cost(if filling {
                format!("{length} clients wait right now, and above {limit} connections are dropped: 1 s more for each")
            } else {
                format!("in a burst above {limit} connections are dropped, and come again after 1 s and 3 s")
            })
            .fix(super::after_restart(service, fix(service, &somaxconn, limit)))
            .weight(if filling { 0.5 } else { 0.1 })
            .tell(found);
    }
}

/// What to do about a queue that holds so many.
fn fix(service: &Service, somaxconn: &SettingValue, limit: u64) -> Fix {
    // It asked for more than the kernel gave.
    let cut = somaxconn.number().is_none_or(|most| most as u64 <= limit);
    match cut || limit >= ASKED {
        true => super::larger_sysctl(
            service,
            "net.core.somaxconn",
            4096,
            "A longer queue would only make them wait longer: see why the server takes connections so late, such as too few processes, \
             or a next tier that is full.",
        ),
        // The kernel would give more by now.
        false => Fix::words(
            "Restart the server: its socket keeps the length it was opened with. If it is as short then, its own files ask for no \
             more: `backlog=` in listen of nginx, ListenBacklog of Apache.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let queue = |length, limit| {
            Case::healthy().with(|all| {
                all.services[0].listens = vec![crate::snapshot::Listener {
                    endpoint: crate::snapshot::ListenEndpoint::Tcp("*".into(), 80),
                    queue: Some((length, limit)),
                }];
            })
        };
        verify(
            &RULE,
            &[
                (queue(0, 128), Severity::Risk, "above 128"),
                (queue(0, 128), Severity::Risk, "Restart the server"),
                (
                    queue(0, 128).kernel(0, "net.core.somaxconn", "128"),
                    Severity::Risk,
                    "sysctl --system, then restart it",
                ),
                (queue(400, 511), Severity::Problem, "400 of 511"),
            ],
        );
        assert!(super::super::tests_of(&RULE, &queue(3, 511)).is_empty());
    }
}
