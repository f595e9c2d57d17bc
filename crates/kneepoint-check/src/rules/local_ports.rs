//! KRN-01: local ports towards the next tier run out.

use crate::rule::prelude::*;
use crate::snapshot::ListenEndpoint;
use std::net::IpAddr;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "KRN-01",
    name: "local-ports",
    title: "Few local ports for connections to the next tier",
    what_it_is: "Each connection needs a local port, and keeps it for a minute after it was closed. Linux tries one half of \
        the range first. Once that half is used up, connecting takes ever longer, without an error (10 500 requests a second \
        became 2 650 in the lab); once all ports are used up, it fails. With net.ipv4.tcp_tw_reuse = 2, the default, a port \
        to loopback is free again after a second; with 1, any port is. The range and tcp_tw_reuse belong to the network \
        namespace: a container has its own.",
    how_it_shows: "`ss -tan state time-wait` shows thousands of connections to one peer; the kernel's part of the CPU rises, and at last `Cannot assign requested address`.",
    unless: "Connections are kept open, or go over Unix sockets.",
    what_to_write: "Keep connections open first; then net.ipv4.ip_local_port_range = 15000 65535 in that network namespace: below \
        are the usual ports of servers.",
    check,
};

const RANGE: &str = "net.ipv4.ip_local_port_range";
/// The range that is proposed \[ours\]: above the ports at which servers usually listen.
const FIRST: u16 = 15_000;
const WIDE: &str = "15000 65535";
/// Ports of the kernel's own default, 32768 to 60999.
const USUAL: f64 = 28_232.0;
/// Part of the range from which connecting becomes slow.
const CLIFF: f64 = 0.5;
/// How long a closed connection keeps its port.
const MINUTE_S: f64 = 60.0;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let mut seen: Vec<(u64, Severity)> = Vec::new();
    for (at, service) in snapshot.services.iter().enumerate() {
        let Some(range) = service.kernel.get(RANGE) else {
            continue;
        };
        let Some(width) = width(range) else { continue };
        let kept = service.time_wait.iter().filter(|(peer, _)| {
            let peer = ListenEndpoint::parse(peer, 0);
            peer.is_none_or(|peer| !is_taken_again(service, &peer))
        });
        let most = kept.max_by_key(|(_, count)| **count);
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
        let mut draft = RULE.at(snapshot, at, severity).value(RANGE, range);
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
            .fix(wider(service, range))
            .weight(if used >= CLIFF { 0.6 } else { 0.18 })
            .tell(found);
    }
}

/// The range of a service's local ports, and how many new connections a second to one peer it bears.
pub(super) fn bearable(service: &Service) -> Option<(&SettingValue, f64)> {
    let range = service.kernel.get(RANGE)?;
    Some((range, per_second(width(range)?)))
}

/// How many new connections a second to one peer so many ports bear.
fn per_second(ports: f64) -> f64 {
    ports * CLIFF / MINUTE_S
}

fn width(range: &SettingValue) -> Option<f64> {
    let (first, last) = ends(range)?;
    Some(f64::from(last) - f64::from(first) + 1.0)
}

fn ends(range: &SettingValue) -> Option<(u16, u16)> {
    let (first, last) = range.text.split_once(' ')?;
    Some((first.parse().ok()?, last.trim().parse().ok()?))
}

fn connects(snapshot: &Snapshot, at: usize, service: &Service) -> bool {
    let linked = snapshot.links.iter().filter(|link| link.from == at);
    let asked = service.asks.iter().map(|(endpoint, _)| endpoint);
    let mut all = linked.map(|link| &link.by).chain(asked);
    // A pooler keeps its connections.
    let opens = service.kind != ServiceKind::Pgbouncer;
    opens && all.any(|peer| peer.is_tcp() && !is_taken_again(service, peer))
}

/// Whether a port in TIME_WAIT to a peer is taken again after a second: to any with `tcp_tw_reuse` = 1, to loopback with 2, the
/// kernel's default since 4.19 (Documentation/networking/ip-sysctl.rst). Where it is not known, it is taken for the default.
pub(super) fn is_taken_again(service: &Service, peer: &ListenEndpoint) -> bool {
    let ListenEndpoint::Tcp(host, _) = peer else {
        return false;
    };
    let address = host.parse::<IpAddr>();
    let is_loopback =
        host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback());
    match service.kernel.text("net.ipv4.tcp_tw_reuse") {
        Some("1") => true,
        Some("2") | None => is_loopback,
        Some(_) => false,
    }
}

/// A range above the usual ports of servers. Ports of others that listen in it, and were not in it before, are reserved.
fn wider(service: &Service, range: &SettingValue) -> Fix {
    let (first, last) = ends(range).unwrap_or((u16::MAX, 0));
    if last.saturating_sub(first) >= u16::MAX - FIRST {
        return Fix::words("The range is wide already: keep connections to the next tier open.");
    }
    let taken = service.ports_taken.range(FIRST..);
    let taken = taken.filter(|port| !(first..=last).contains(*port));
    let taken: Vec<String> = taken.map(u16::to_string).collect();
    let why = "An outgoing connection may hold the port of a server that restarts";
    match taken.join(",").as_str() {
        "" => Fix::sysctl(service, RANGE, WIDE)
            .after(&format!("{why}, so the range begins above the usual ones.")),
        taken => {
            // A second value takes the place of the first.
            let before = service.kernel.text(RESERVED).unwrap_or_default();
            let all = [before, taken].join(",");
            let reserved = (RESERVED, all.trim_start_matches(','));
            Fix::sysctls(service, &[(RANGE, WIDE), reserved])
                .after(&format!("{why}, so those in the new range are reserved."))
        }
    }
}

const RESERVED: &str = "net.ipv4.ip_local_reserved_ports";

#[cfg(test)]
mod tests {
    use super::*;

    /// PHP with 20 000 connections in TIME_WAIT to a peer, of the kernel's own range, and with this `tcp_tw_reuse`.
    fn waiting(peer: &str, reuse: &str) -> Case {
        let case = Case::healthy().kernel(1, RANGE, "32768 60999");
        let case = case.kernel(1, "net.ipv4.tcp_tw_reuse", reuse);
        case.with(|snapshot| {
            let waits = &mut snapshot.services[1].time_wait;
            waits.insert(peer.to_owned(), 20_000);
        })
    }

    #[test]
    fn ports_that_are_taken_again_do_not_run_out() {
        for (peer, reuse, told) in [
            ("127.0.0.1:6379", "0", 1),
            ("127.0.0.1:6379", "1", 0),
            ("127.0.0.1:6379", "2", 0),
            ("[::1]:6379", "2", 0),
            ("10.0.0.2:6379", "0", 1),
            ("10.0.0.2:6379", "1", 0),
            ("10.0.0.2:6379", "2", 1),
        ] {
            let found = super::super::tests_of(&RULE, &waiting(peer, reuse));
            assert_eq!(found.len(), told, "{peer} {reuse}");
        }
    }

    #[test]
    fn the_range_takes_no_port_of_a_server() {
        let fix = |case: Case| {
            let found = super::super::tests_of(&RULE, &case);
            found[0].fix.in_one_line()
        };
        let listening = |ports: &[u16]| {
            let ports = ports.iter().copied().collect();
            waiting("10.0.0.2:6379", "2").with(|all| all.services[1].ports_taken = ports)
        };
        let alone = fix(listening(&[3306, 9000, 33_060]));
        let range = "ip_local_port_range = 15000 65535";
        assert!(alone.contains(range), "{alone}");
        assert!(!alone.contains("reserved"), "{alone}");
        let beside = fix(listening(&[3306, 15_672, 33_060, 61_613]));
        let reserved = "net.ipv4.ip_local_reserved_ports = 15672,61613";
        assert!(beside.contains(reserved), "{beside}");
        let wide = listening(&[]).kernel(1, RANGE, "1024 65535");
        let wide = wide.with(|all| {
            let waits = &mut all.services[1].time_wait;
            waits.insert("10.0.0.2:6379".into(), 40_000);
        });
        assert!(fix(wide).starts_with("The range is wide already"));
    }

    #[test]
    fn sick_and_healthy() {
        let asks = |snapshot: &mut Snapshot| {
            let to = ListenEndpoint::Tcp("10.0.0.2".into(), 80);
            snapshot.services[0]
                .asks
                .push((to, "/etc/nginx/nginx.conf:1".into()));
        };
        let narrow = Case::healthy().kernel(0, RANGE, "32768 33767").with(asks);
        assert!(super::super::tests_of(&RULE, &narrow).is_empty());
        let narrow = narrow.kernel(0, "net.ipv4.tcp_tw_reuse", "2");
        let many = waiting("127.0.0.1:6379", "0");
        verify(
            &RULE,
            &[
                (narrow, Severity::Risk, "8 new"),
                (many, Severity::Problem, "127.0.0.1:6379"),
            ],
        );
    }
}
