//! KRN-13: SYN cookies are off.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "KRN-13",
    name: "syncookies-off",
    title: "A burst of new connections is dropped: SYN cookies are off",
    what_it_is: "When the queue of connections that begin is full, the kernel can still let them in, with cookies \
        instead of memory. net.ipv4.tcp_syncookies = 0 forbids that: a burst of visitors, or a simple attack, then \
        keeps all others out.",
    how_it_shows: "New visitors get no connection while the CPU is idle; TCPReqQFullDrop in `nstat -az` counts up.",
    unless: "A firewall in front answers for the host.",
    what_to_write: "net.ipv4.tcp_syncookies = 1",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let mut nets = Vec::new();
    for (at, service) in snapshot.services.iter().enumerate() {
        let faces = matches!(
            service.kind,
            ServiceKind::Haproxy | ServiceKind::Nginx | ServiceKind::Apache
        );
        let off = service
            .kernel
            .get("net.ipv4.tcp_syncookies")
            .filter(|value| value.is_on() == Some(false));
        let Some(off) = off.filter(|_| faces && !nets.contains(&service.place.net)) else {
            continue;
        };
        nets.push(service.place.net);
        let backlog = service
            .kernel
            .or("net.ipv4.tcp_max_syn_backlog", "not known");
        RULE.at(snapshot, at, Severity::Risk)
            .value("net.ipv4.tcp_syncookies", off)
            .value("net.ipv4.tcp_max_syn_backlog", &backlog)
            .cost(format!(
                "above {} connections that begin at once, all further ones are dropped",
                backlog.text
            ))
            .fix(Fix::sysctl(service, "net.ipv4.tcp_syncookies", "1"))
            .weight(0.1)
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
                Case::healthy()
                    .kernel(0, "net.ipv4.tcp_syncookies", "0")
                    .kernel(0, "net.ipv4.tcp_max_syn_backlog", "512"),
                Severity::Risk,
                "above 512",
            )],
        );
    }
}
