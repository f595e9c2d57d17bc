//! The accept queues of a service, from the kernel's own diagnosis of sockets: nobody is asked.

use super::asks;
use crate::snapshot::{ListenEndpoint, Listener, Service, ServiceKind};
use kneepoint_model::{Address, CgroupPaths, RunningTier, ServerKind, metric};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Fills in how long the queues of a service and of its pools are, and how much fits them.
pub(super) fn sample(service: &mut Service) {
    let kind = service.kind;
    let listens = service.listens.iter();
    let listen: Vec<Address> = listens.filter_map(|one| address(&one.endpoint)).collect();
    // What listens for Unit and FrankenPHP is not told by their kind: nothing is said of their queues.
    if listen.is_empty() || matches!(kind, ServiceKind::Unit | ServiceKind::FrankenPhp) {
        return;
    }
    let Ok(recording) = kneepoint_telemetry::sample_once(vec![tier(service, &listen)]) else {
        return;
    };
    let last = |of, address: &Address| {
        let label = match listen.len() {
            1 => String::new(),
            _ => address.to_string(),
        };
        recording.series.labelled(kind.layer(), of, &label)?.last()
    };
    for listener in &mut service.listens {
        let Some(address) = address(&listener.endpoint) else {
            continue;
        };
        let queue = last(metric::QUEUE, &address).zip(last(metric::QUEUE_LIMIT, &address));
        listener.queue = queue.map(|(length, limit)| (length as u64, limit as u64));
    }
    for pool in &mut service.pools {
        let Some(own) = &pool.listen else { continue };
        let same = |listener: &&Listener| asks::is_same(own, &listener.endpoint);
        pool.queue = service.listens.iter().find(same).and_then(|one| one.queue);
    }
}

/// The service as telemetry knows it, without a door at which anything could be asked.
pub(crate) fn tier(service: &Service, listen: &[Address]) -> RunningTier {
    let netns = format!("/proc/{}/ns/net", service.pid);
    RunningTier {
        layer: service.kind.layer(),
        server: ServerKind::new(service.kind.name()),
        pid: service.pid,
        netns: service.place.other_net.then(|| netns.into()),
        cgroup: CgroupPaths::default(),
        listen: listen.to_vec(),
        peers: Vec::new(),
        doubles: Vec::new(),
        endpoints: Vec::new(),
        logs: Vec::new(),
        workers: None,
    }
}

pub(crate) fn address(endpoint: &ListenEndpoint) -> Option<Address> {
    match endpoint {
        ListenEndpoint::Unix(path) => Some(Address::Unix(path.into())),
        ListenEndpoint::Tcp(host, port) => {
            let ip = match host.as_str() {
                "*" => IpAddr::from(Ipv4Addr::UNSPECIFIED),
                host => host.parse().ok()?,
            };
            Some(Address::Tcp(SocketAddr::new(ip, *port)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_become_addresses() {
        let shown = |endpoint| address(&endpoint).map(|one| one.to_string());
        let tcp = |host: &str| ListenEndpoint::Tcp(host.into(), 80);
        assert_eq!(shown(tcp("*")).as_deref(), Some("0.0.0.0:80"));
        assert_eq!(
            shown(ListenEndpoint::Unix("/run/x".into())).as_deref(),
            Some("unix:/run/x")
        );
        assert_eq!(shown(tcp("php")), None);
    }
}
