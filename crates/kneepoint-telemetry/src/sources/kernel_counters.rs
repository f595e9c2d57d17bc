//! Counters of the kernel's TCP and of the interfaces in the network namespace of a tier.

use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use kneepoint_linux::file::read;
use kneepoint_linux::network::{parse_counter, parse_traffic};
use kneepoint_model::Metric;
use kneepoint_model::metric::{
    ACTIVE_OPENS, LISTEN_DROPS, LISTEN_OVERFLOWS, NET_RECEIVED_BYTES, NET_SENT_BYTES, RETRANS,
};
use std::time::Duration;

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "kernel-counters",
    about: "connections opened, dropped at full accept queues, segments sent again, and bytes sent and received, by network \
            namespace",
    requirements: "/proc/PID/net of the tier's first process; without a namespace of its own the whole machine counts",
    overhead: "three reads of /proc a second, about 70 us a tier",
    cadence: Duration::from_secs(1),
    metrics: &[
        ACTIVE_OPENS,
        LISTEN_OVERFLOWS,
        LISTEN_DROPS,
        RETRANS,
        NET_SENT_BYTES,
        NET_RECEIVED_BYTES,
    ],
    lane: Lane::Trend,
    open: Open::Tier(|tier| Some(Box::new(KernelCounters { pid: tier.pid }))),
};

/// File, table, column, metric. Overflows of Unix sockets are counted nowhere.
const COUNTERS: [(&str, &str, &str, Metric); 4] = [
    ("snmp", "Tcp", "ActiveOpens", ACTIVE_OPENS),
    ("snmp", "Tcp", "RetransSegs", RETRANS),
    ("netstat", "TcpExt", "ListenOverflows", LISTEN_OVERFLOWS),
    ("netstat", "TcpExt", "ListenDrops", LISTEN_DROPS),
];

struct KernelCounters {
    pid: u32,
}

impl Probe for KernelCounters {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        for file in ["snmp", "netstat"] {
            let path = format!("/proc/{}/net/{file}", self.pid);
            let text = read(&path).map_err(|why| Failure(why.to_string()))?;
            for (_, table, column, metric) in COUNTERS.iter().filter(|counter| counter.0 == file) {
                let value = parse_counter(&text, table, column)
                    .ok_or_else(|| Failure::on("no counter", column, format!("not in `{path}`")))?;
                sink.push(*metric, value as f64);
            }
        }
        let path = format!("/proc/{}/net/dev", self.pid);
        let text = read(&path).map_err(|why| Failure(why.to_string()))?;
        // A namespace with nothing but its loopback has no link.
        if let Some((received, sent)) = parse_traffic(&text) {
            sink.push(NET_RECEIVED_BYTES, received as f64);
            sink.push(NET_SENT_BYTES, sent as f64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_has_all_of_them() {
        let mut sink = Sink::default();
        KernelCounters {
            pid: std::process::id(),
        }
        .sample(&mut sink)
        .expect("our own namespace");
        let has = |metric: &Metric| sink.value(*metric, "").is_some();
        assert!(COUNTERS.iter().all(|counter| has(&counter.3)));
        let gone = KernelCounters { pid: u32::MAX }
            .sample(&mut sink)
            .expect_err("no such process");
        assert!(gone.to_string().contains("/net/snmp"), "{gone}");
    }
}
