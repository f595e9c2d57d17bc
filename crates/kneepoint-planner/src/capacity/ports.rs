//! Which local ports requests use up, as low load shows it. What a model of cores and workers says beyond that rate holds
//! for less than a minute.

use kneepoint_model::capacity::Ports;
use kneepoint_model::units::format_rate;
use kneepoint_model::{Layer, SeriesSet, Stack, metric};
use std::collections::BTreeMap;

/// Connections per request from which on they are told: below, they are those of a pool that grows or renews itself.
const TOLD: f64 = 0.01;

/// Connections that tiers closed towards the next ones during steps at low load.
#[derive(Debug, Default)]
pub struct ClosedConnections {
    requests: f64,
    /// By whose ports and towards whom.
    connections: BTreeMap<(Layer, Layer), f64>,
    /// How many ports each tier has.
    ranges: BTreeMap<Layer, f64>,
}

impl ClosedConnections {
    /// Takes in a step of less than a minute: no port that it used has come free in it.
    pub fn add(&mut self, requests: f64, series: &SeriesSet) {
        self.requests += requests;
        for layer in Layer::TIERS {
            for peer in Layer::TIERS {
                let held = series.labelled(layer, metric::TIME_WAIT, peer.name());
                let ends = held.and_then(|it| it.points.first().zip(it.points.last()));
                let Some(((_, before), (_, after))) = ends else {
                    continue;
                };
                *self.connections.entry((layer, peer)).or_default() += (after - before).max(0.0);
            }
            if let Some(range) = series.max(layer, metric::PORT_RANGE) {
                self.ranges.insert(layer, range);
            }
        }
    }

    /// Those that are used up at the lowest rate; `None` where connections are kept, or ports free themselves.
    #[must_use]
    pub fn scarcest(&self, stack: &Stack) -> Option<Ports> {
        let ports = self
            .connections
            .iter()
            .filter_map(|(&(layer, peer), count)| {
                let ports = Ports {
                    layer,
                    peer,
                    closed_per_request: count / self.requests.max(1.0),
                    range: *self.ranges.get(&layer)?,
                };
                // On a shared network most connections are on the loopback device, where ports are used again at once.
                let kept = stack.tier(layer)?.own_network
                    && stack.number(layer, "net.ipv4.tcp_tw_reuse") != Some(1.0);
                (kept && ports.closed_per_request >= TOLD).then_some(ports)
            });
        ports.min_by(|a, b| a.lasting_hz().total_cmp(&b.lasting_hz()))
    }
}

/// What is to be doubted of an R* that ports do not last for.
pub(crate) fn doubt(ports: &Ports, limit_hz: f64) -> Option<String> {
    (ports.lasting_hz() < limit_hz).then(|| {
        format!(
            "each request closes {:.2} connections from {layer} to {peer}, and each keeps its local port for a minute: from {} \
             on half of its {:.0} ports are taken after that, connecting gets slow, and what is predicted beyond holds for \
             less than a minute; keep connections to {peer}, or widen net.ipv4.ip_local_port_range (`kneepoint explain \
             KRN-01`)",
            ports.closed_per_request,
            format_rate(ports.lasting_hz()),
            ports.range,
            layer = ports.layer,
            peer = ports.peer,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::{ServerKind, Tier};

    const STEP_S: f64 = 13.0;

    fn stack(own_network: bool, reuse: Option<&str>) -> Stack {
        let reuse = reuse.map(|value| ("net.ipv4.tcp_tw_reuse".to_owned(), value.to_owned()));
        Stack {
            tiers: vec![Tier {
                layer: Layer::Php,
                server: ServerKind::new("fpm"),
                version: String::new(),
                settings: reuse.into_iter().collect(),
                tunables: Vec::new(),
                listen: None,
                pool: None,
                cpus: 2.0,
                memory_bytes: 1 << 30,
                link_mbit: None,
                own_network,
            }],
            ..Stack::default()
        }
    }

    /// What steps of PHP show that close this many connections to each of two peers, and how many ports it has.
    fn check(cache: f64, db: f64, range: f64, expected: Option<(Layer, f64)>) {
        let mut closed = ClosedConnections::default();
        for before in [0.0, 190.0] {
            let mut series = SeriesSet::default();
            for (peer, count) in [("cache", cache), ("db", db)] {
                series.push(Layer::Php, metric::TIME_WAIT, peer, 0.0, before);
                series.push(Layer::Php, metric::TIME_WAIT, peer, STEP_S, before + count);
            }
            series.push(Layer::Php, metric::PORT_RANGE, "", STEP_S, range);
            closed.add(1000.0, &series);
        }
        let found = closed.scarcest(&stack(true, None));
        let found = found.map(|ports| (ports.peer, ports.lasting_hz().round()));
        assert_eq!(found, expected);
        assert_eq!(closed.scarcest(&stack(false, None)), None);
        assert_eq!(closed.scarcest(&stack(true, Some("1"))), None);
    }

    #[test]
    fn the_peer_whose_ports_last_for_the_lowest_rate_is_told() {
        check(300.0, 800.0, 28_232.0, Some((Layer::Db, 294.0)));
        check(300.0, 200.0, 28_232.0, Some((Layer::Cache, 784.0)));
        check(300.0, 200.0, 64_512.0, Some((Layer::Cache, 1792.0)));
        check(2.0, 0.0, 28_232.0, None);
    }

    #[test]
    fn a_limit_beyond_what_ports_last_for_is_doubted() {
        let ports = Ports {
            layer: Layer::Php,
            peer: Layer::Db,
            closed_per_request: 0.3,
            range: 28_232.0,
        };
        assert_eq!(doubt(&ports, 780.0), None);
        let said = doubt(&ports, 1200.0).expect("a doubt");
        assert!(
            said.starts_with("each request closes 0.30 connections from php to db"),
            "{said}"
        );
        assert!(
            said.contains("from 784/s on half of its 28232 ports"),
            "{said}"
        );
    }
}
