//! KRN-03: the kernel dropped connections because a queue was full.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "KRN-03",
    name: "accept-queue-overflows",
    title: "The kernel dropped connections: an accept queue was full",
    what_it_is: "A connection waits in the listener's queue until the program accepts it. When the queue is full the kernel \
        drops it, and the client tries again after one, three and seven seconds. No log says so. Queues of Unix sockets \
        are not counted here.",
    how_it_shows: "Some clients wait one or three seconds longer than all others; `nstat -az TcpExtListenOverflows` counts up, and no log has a line.",
    unless: "It happened long ago: the counter is of the whole life of the network namespace.",
    what_to_write: "net.core.somaxconn = 4096, and more workers or fewer waits behind the listener: a longer queue alone \
        only lets requests wait longer.",
    check,
};

/// Fewer drops than this are an accident.
const FEW: f64 = 10.0;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let mut nets = Vec::new();
    for (at, service) in snapshot.services.iter().enumerate() {
        let Some(value) = service.kernel.get("netstat.ListenOverflows") else {
            continue;
        };
        if value.number().is_none_or(|count| count < FEW) || nets.contains(&service.place.net) {
            continue;
        }
        nets.push(service.place.net);
        let somaxconn = service.kernel.or("net.core.somaxconn", "4096");
        RULE.at(snapshot, at, Severity::Note)
            .value("ListenOverflows", value)
            .value("net.core.somaxconn", &somaxconn)
            .cost("waits of one, three and seven seconds for those clients")
            .fix(super::larger_sysctl(
                service,
                "net.core.somaxconn",
                4096,
                "The kernel would give queues of that length: see which listener asked for a shorter one (Send-Q in `ss -ltn`), and \
                 why it took connections so late: a pool that was full, or too few processes.",
            ))
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let full = || Case::healthy().kernel(0, "netstat.ListenOverflows", "255");
        verify(
            &RULE,
            &[
                (full(), Severity::Note, "255"),
                // It is 4096 already.
                (full(), Severity::Note, "see which listener asked"),
                (
                    full().kernel(0, "net.core.somaxconn", "128"),
                    Severity::Note,
                    "net.core.somaxconn = 4096",
                ),
            ],
        );
        let fix = |case: Case| super::super::tests_of(&RULE, &case)[0].fix.clone();
        let many = || Case::healthy().kernel(0, "netstat.ListenOverflows", "255");
        assert_eq!(fix(many()).file, None, "4096 is no remedy for 4096");
        assert!(
            fix(many().kernel(0, "net.core.somaxconn", "128"))
                .file
                .is_some()
        );
    }
}
