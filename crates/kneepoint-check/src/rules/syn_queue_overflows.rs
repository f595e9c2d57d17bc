//! KRN-04: the queue of half-open connections was full.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "KRN-04",
    name: "syn-queue-overflows",
    title: "The kernel dropped connections before they were established",
    what_it_is: "A connection that begins waits in a queue of the kernel until the client answers once more. When \
        many begin at once the queue is full: the kernel answers with cookies, which leave options out, or drops \
        them, and the client tries again after a second.",
    how_it_shows: "`Possible SYN flooding` in the log of the kernel; TCPReqQFullDoCookies or TCPReqQFullDrop in \
        `nstat -az` count up.",
    unless: "It happened long ago, or in an attack: the counters are of the whole life of the network namespace.",
    what_to_write: "net.ipv4.tcp_max_syn_backlog = 8192 and net.core.somaxconn = 4096",
    check,
};

/// Fewer than this are an accident.
const FEW: f64 = 10.0;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let mut nets = Vec::new();
    for (at, service) in snapshot.services.iter().enumerate() {
        let counters = ["TCPReqQFullDrop", "TCPReqQFullDoCookies"].map(|name| {
            let value = service.kernel.get(&format!("netstat.{name}"));
            (name, value.filter(|value| value.number() >= Some(FEW)))
        });
        let sum: f64 = counters
            .iter()
            .filter_map(|(_, value)| (*value)?.number())
            .sum();
        if sum == 0.0 || nets.contains(&service.place.net) {
            continue;
        }
        nets.push(service.place.net);
        let mut draft = RULE.at(snapshot, at, Severity::Note);
        for (name, value) in counters {
            if let Some(value) = value {
                draft = draft.value(name, value);
            }
        }
        draft
            .value("net.ipv4.tcp_max_syn_backlog", &service.kernel.or("net.ipv4.tcp_max_syn_backlog", "not known"))
            .cost(format!("{sum:.0} connections since the start that waited 1 s more, or lost options such as window scaling"))
            .fix(super::larger_sysctl(
                service,
                "net.ipv4.tcp_max_syn_backlog",
                8192,
                "The queue is long enough by its setting: see whether the queues of the listeners are short (NGX-15), or it was an attack.",
            ))
            .weight(0.02)
            .tell(found);
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
                Case::healthy().kernel(0, "netstat.TCPReqQFullDoCookies", "500"),
                Severity::Note,
                "500 connections",
            )],
        );
    }
}
