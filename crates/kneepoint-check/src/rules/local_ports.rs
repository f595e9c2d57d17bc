//! KRN-01: local ports towards the next tier run out.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "KRN-01",
    name: "local-ports",
    title: "Few local ports for connections to the next tier",
    what_it_is: "A connection that is closed keeps its local port for a minute. Linux tries one half of the range first: from \
        half of the range on, connecting takes ever longer without an error (10 500 requests a second became 2 650 in the \
        lab); at all of it, it fails. The range belongs to the network namespace: a container has its own.",
    how_it_shows: "`ss -tan state time-wait` shows thousands of connections to one peer; the kernel's part of the CPU rises, and at last `Cannot assign requested address`.",
    unless: "Connections are kept open, or go over Unix sockets.",
    what_to_write: "Keep connections open first; then net.ipv4.ip_local_port_range = 1024 65535 in that network namespace.",
    check,
};

/// Ports of the kernel's own default, 32768 to 60999.
const USUAL: f64 = 28_232.0;
/// Part of the range from which connecting becomes slow.
const CLIFF: f64 = 0.5;
/// How long a closed connection keeps its port.
const MINUTE_S: f64 = 60.0;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let mut seen: Vec<(u64, Severity)> = Vec::new();
    for (at, service) in snapshot.services.iter().enumerate() {
        let Some(range) = service.kernel.get("net.ipv4.ip_local_port_range") else {
            continue;
        };
        let Some(width) = width(range) else { continue };
        let most = service.time_wait.iter().max_by_key(|(_, count)| **count);
        let used = most.map_or(0.0, |(_, count)| *count as f64 / width);
        let narrow = width < USUAL * 0.99;
        let severity = if used >= CLIFF {
            Severity::Problem
        } else {
            Severity::Risk
        };
        // One namespace, one finding.
        if !(narrow || used >= CLIFF) || seen.contains(&(service.place.net, severity)) {
            continue;
        }
        // The narrow range matters to who connects by TCP.
        if used < CLIFF && !connects(snapshot, at, service) {
            continue;
        }
        seen.push((service.place.net, severity));
        let mut draft = RULE
            .at(snapshot, at, severity)
            .value("net.ipv4.ip_local_port_range", range);
        if let Some((peer, count)) = most.filter(|_| used >= CLIFF / 5.0) {
            draft = draft.seen(
                format!(
                    "{count} connections in TIME_WAIT to {peer}, {:.0} % of the range",
                    used * 100.0
                ),
                format!("/proc/{}/net/tcp", service.pid),
            );
        }
        draft
            .title(if used >= CLIFF { "Local ports towards the next tier are used up" } else { RULE.title })
            .cost(format!("above about {:.0} new connections a second to one peer, connecting becomes slow and then fails", per_second(width)))
            .fix(Fix::sysctl(service, "net.ipv4.ip_local_port_range", "1024 65535"))
            .weight(if used >= CLIFF { 0.6 } else { 0.18 })
            .tell(found);
    }
}

/// The range of a service's local ports, and how many new connections a second to one peer it bears.
pub(super) fn bearable(service: &Service) -> Option<(&SettingValue, f64)> {
    let range = service.kernel.get("net.ipv4.ip_local_port_range")?;
    Some((range, per_second(width(range)?)))
}

/// How many new connections a second to one peer so many ports bear.
fn per_second(ports: f64) -> f64 {
    ports * CLIFF / MINUTE_S
}

fn width(range: &SettingValue) -> Option<f64> {
    let (first, last) = range.text.split_once(' ')?;
    Some(last.trim().parse::<f64>().ok()? - first.parse::<f64>().ok()? + 1.0)
}

fn connects(snapshot: &Snapshot, at: usize, service: &Service) -> bool {
    let linked = snapshot
        .links
        .iter()
        .any(|link| link.from == at && link.by.is_tcp());
    linked || service.asks.iter().any(|(endpoint, _)| endpoint.is_tcp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::ListenEndpoint;

    #[test]
    fn sick_and_healthy() {
        let asks = |snapshot: &mut Snapshot| {
            let to = ListenEndpoint::Tcp("10.0.0.2".into(), 80);
            snapshot.services[0]
                .asks
                .push((to, "/etc/nginx/nginx.conf:1".into()));
        };
        let many = |snapshot: &mut Snapshot| {
            snapshot.services[1]
                .time_wait
                .insert("127.0.0.1:6379".into(), 40_000);
        };
        let narrow = Case::healthy().kernel(0, "net.ipv4.ip_local_port_range", "32768 33767");
        verify(
            &RULE,
            &[
                (narrow.with(asks), Severity::Risk, "8 new"),
                (
                    Case::healthy().with(many),
                    Severity::Problem,
                    "127.0.0.1:6379",
                ),
            ],
        );
    }
}
