//! KRN-05: the firewall's table of connections is nearly full.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "KRN-05",
    name: "conntrack-full",
    title: "The firewall's table of connections is nearly full",
    what_it_is: "Netfilter keeps every connection in a table, closed ones for two more minutes. When the table is full, the \
        kernel drops packets, of any connection, and only its own log says so.",
    how_it_shows: "`nf_conntrack: table full, dropping packet` in the log of the kernel, and connections that time out at random.",
    unless: "The count is a peak that does not come back.",
    what_to_write: "net.netfilter.nf_conntrack_max = 262144, a shorter nf_conntrack_tcp_timeout_time_wait, or no tracking of loopback.",
    check,
};

const NEAR: f64 = 0.8;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let mut nets = Vec::new();
    for (at, service) in snapshot.services.iter().enumerate() {
        let (Some(count), Some(most)) = (
            service.kernel.get("net.netfilter.nf_conntrack_count"),
            service.kernel.get("net.netfilter.nf_conntrack_max"),
        ) else {
            continue;
        };
        let (Some(used), Some(size)) = (count.number(), most.number()) else {
            continue;
        };
        if size <= 0.0 || used / size < NEAR || nets.contains(&service.place.net) {
            continue;
        }
        nets.push(service.place.net);
        RULE.at(snapshot, at, Severity::Problem)
            .value("net.netfilter.nf_conntrack_count", count)
            .value("net.netfilter.nf_conntrack_max", most)
            .cost("dropped packets of every connection once it is full")
            .fix(Fix::sysctl(
                service,
                "net.netfilter.nf_conntrack_max",
                &format!("{:.0}", size * 4.0),
            ))
            .weight(0.5)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let case = Case::healthy()
            .kernel(0, "net.netfilter.nf_conntrack_count", "60000")
            .kernel(0, "net.netfilter.nf_conntrack_max", "65536");
        let contained = case.clone().with(|all| {
            all.services[0].place.container = Some(crate::snapshot::Container {
                id: "a".repeat(64),
                runtime: crate::snapshot::Runtime::Docker,
                name: None,
                compose_service: Some("web".into()),
                in_pod: false,
            });
        });
        verify(
            &RULE,
            &[
                (case, Severity::Problem, "262144"),
                (contained, Severity::Problem, "On the host, for"),
            ],
        );
    }
}
