//! What can be set of Apache, and what it means for requests.

use crate::knob::{Kind::*, Knob};
use kneepoint_model::{Apply::Restart, Layer, SettingKey, WorkerPool};
use std::collections::BTreeMap;

/// Children prefork adds in a second at most, after some seconds of doubling (MAX_SPAWN_RATE in prefork.c).
const SPAWN_PER_S: f64 = 32.0;

/// The server's own settings; PHP's follow. Values are Debian's where it has some.
#[rustfmt::skip]
pub(super) const KNOBS: &[Knob] = &[
    Knob::new("MaxRequestWorkers", Integer(1, 20_000, "workers"), "150", Restart, "most children: connections served at once, idle ones included"),
    Knob::new("StartServers", Integer(1, 20_000, "workers"), "5", Restart, "children at the start"),
    Knob::new("MinSpareServers", Integer(1, 20_000, "workers"), "5", Restart, "fewest idle children"),
    Knob::new("MaxSpareServers", Integer(1, 20_000, "workers"), "10", Restart, "most idle children"),
    Knob::new("MaxConnectionsPerChild", Integer(0, 1_000_000_000, "connections"), "0", Restart, "a child ends after this many connections; 0 is never"),
    Knob::new("ListenBacklog", Integer(1, 65_535, "connections"), "511", Restart, "connections that may wait for a child, cut by net.core.somaxconn"),
    Knob::new("KeepAlive", Switch("Off", "On"), "On", Restart, "whether connections are kept; each holds a child"),
    Knob::new("KeepAliveTimeout", Duration(1, 3_600), "5s", Restart, "how long an idle connection holds its child"),
    Knob::new("MaxKeepAliveRequests", Integer(0, 1_000_000_000, "requests"), "100", Restart, "requests of one connection; 0 is no end"),
    Knob::new("Timeout", Duration(1, 86_400), "60s", Restart, "how long to wait for a client"),
    Knob::new("AllowOverride", Choice(&["None", "All"]), "None", Restart, "whether .htaccess is looked for in every directory of a path, at every request"),
];

/// The saturation model of the children with these effective settings.
pub(super) fn pool(settings: &BTreeMap<String, String>) -> WorkerPool {
    let number = |name: &str| settings.get(name).and_then(|value| value.parse().ok());
    let max_workers = number("MaxRequestWorkers").unwrap_or(0);
    let start_workers = number("StartServers")
        .unwrap_or(max_workers)
        .min(max_workers);
    WorkerPool {
        worker: "Apache child".into(),
        max_workers,
        start_workers,
        spawn_per_s: (start_workers < max_workers).then_some(SPAWN_PER_S),
        size_key: SettingKey::new(Layer::Php, "MaxRequestWorkers"),
        queue_limit: number("ListenBacklog").unwrap_or(0),
        keeps_queue: false,
    }
}
