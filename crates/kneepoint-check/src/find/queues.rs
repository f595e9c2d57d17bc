//! The accept queues of a service, from the kernel's own diagnosis of sockets: nobody is asked.

use super::asks;
use crate::snapshot::{ListenEndpoint, Service, ServiceKind};
use kneepoint_model::{Address, CgroupPaths, RunningTier, ServerKind, metric};
use std::collections::HashMap;
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
    // One series has no label: there is one listener.
    let last = |of| -> HashMap<&str, u64> {
        let all = recording.series.all(kind.layer(), of);
        let last = all.filter_map(|series| Some((series.label.as_str(), series.last()? as u64)));
        last.collect()
    };
    let (lengths, limits) = (last(metric::QUEUE), last(metric::QUEUE_LIMIT));
    for listener in &mut service.listens {
        let Some(address) = address(&listener.endpoint) else {
            continue;
        };
        let label = match listen.len() {
            1 => String::new(),
            _ => address.to_string(),
        };
        let both = lengths.get(label.as_str()).zip(limits.get(label.as_str()));
        listener.queue = both.map(|(length, limit)| (*length, *limit));
    }
    of_pools(service);
}

/// Gives each pool the queue of its listener.
pub(crate) fn of_pools(service: &mut Service) {
    let listens = service.listens.iter();
    let queues = listens.map(|one| (asks::usual(&one.endpoint), one.queue));
    let queues: HashMap<_, _> = queues.collect();
    for pool in &mut service.pools {
        let own = pool.listen.as_ref().map(asks::usual);
        pool.queue = own.and_then(|own| queues.get(&own).copied().flatten());
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
        jobs: Vec::new(),
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
