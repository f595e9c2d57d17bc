//! Who held how many sockets under a load.

use kneepoint_model::replay::Sockets;
use kneepoint_model::{Layer, SeriesSet, metric};

/// The sockets of the tier that held most of them towards one peer; nothing where none were counted.
pub(super) fn most(series: &SeriesSet) -> Option<Sockets> {
    let held = Layer::TIERS.into_iter().flat_map(|layer| {
        let waiting = series.all(layer, metric::TIME_WAIT);
        waiting.map(move |waiting| {
            let established = series.labelled(layer, metric::ESTABLISHED, &waiting.label);
            Sockets {
                layer,
                peer: waiting.label.clone(),
                time_wait: waiting.points.clone(),
                established: established.map_or(Vec::new(), |it| it.points.clone()),
                port_range: series.last(layer, metric::PORT_RANGE),
            }
        })
    });
    held.max_by(|a, b| a.most().total_cmp(&b.most()))
}

/// Most connections that the tier in front held to the next one.
pub(super) fn upstream(series: &SeriesSet) -> Option<f64> {
    let counts = series.all(Layer::Proxy, metric::ESTABLISHED);
    counts
        .filter_map(kneepoint_model::Series::max)
        .reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tier_that_holds_most_is_told() {
        let mut series = SeriesSet::default();
        for (layer, peer, waiting) in [
            (Layer::Proxy, "web", 20.0),
            (Layer::Php, "db", 900.0),
            (Layer::Php, "cache", 30.0),
        ] {
            series.push(layer, metric::TIME_WAIT, peer, 1.0, waiting);
            series.push(layer, metric::ESTABLISHED, peer, 1.0, 7.0);
        }
        series.push(Layer::Php, metric::PORT_RANGE, "", 1.0, 2000.0);
        let sockets = most(&series).expect("some were counted");
        assert_eq!((sockets.layer, sockets.peer.as_str()), (Layer::Php, "db"));
        assert_eq!(sockets.most(), 907.0);
        assert_eq!(sockets.port_range, Some(2000.0));
        assert_eq!(upstream(&series), Some(7.0));
        assert_eq!(most(&SeriesSet::default()), None);
    }
}
