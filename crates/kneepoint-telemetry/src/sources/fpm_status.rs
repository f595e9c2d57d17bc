//! The FPM pool by its status page.

use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use crate::transport::fastcgi_get;
use kneepoint_model::metric::{
    POOL_EXHAUSTED, WORKER_REQUESTS, WORKERS, WORKERS_BUSY, WORKERS_IDLE, WORKERS_PINNED,
};
use kneepoint_model::{Address, Endpoint};
use serde::Deserialize;
use std::time::Duration;

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "fpm-status",
    about: "workers busy, idle and pinned by kept connections, from FPM's full status page (never its queue)",
    requirements: "pm.status_path, best on a listener of its own (pm.status_listen) so that it answers at saturation",
    overhead: "one FastCGI request a second; FPM writes about 400 bytes a worker",
    cadence: Duration::from_secs(1),
    metrics: &[
        WORKERS,
        WORKERS_BUSY,
        WORKERS_IDLE,
        WORKERS_PINNED,
        WORKER_REQUESTS,
        POOL_EXHAUSTED,
    ],
    lane: Lane::Own,
    open: Open::Tier(|tier| {
        tier.endpoints.iter().find_map(|endpoint| match endpoint {
            Endpoint::FpmStatus { address, path } => Some(Box::new(FpmStatus {
                address: address.clone(),
                path: path.clone(),
            }) as Box<dyn Probe>),
            _ => None,
        })
    }),
};

struct FpmStatus {
    address: Address,
    path: String,
}

impl Probe for FpmStatus {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        let failed = |why: &dyn std::fmt::Display| {
            Failure::on(
                "FPM status at",
                format!("{}{}", self.address, self.path),
                why,
            )
        };
        let page =
            fastcgi_get(&self.address, &self.path, "full&json").map_err(|why| failed(&why))?;
        let values = parse(&page).map_err(|why| failed(&why))?;
        for (metric, value) in SOURCE.metrics.iter().zip(values) {
            sink.push(*metric, value);
        }
        Ok(())
    }
}

/// What is read of the page; the rest of it (URIs, users, timestamps of every worker) is skipped unread.
#[derive(Deserialize)]
struct Page {
    #[serde(rename = "total processes")]
    total: f64,
    #[serde(rename = "active processes")]
    active: f64,
    #[serde(rename = "idle processes")]
    idle: f64,
    #[serde(rename = "accepted conn")]
    accepted: f64,
    #[serde(rename = "max children reached")]
    exhausted: f64,
    #[serde(default)]
    processes: Vec<Process>,
}

#[derive(Deserialize)]
struct Process {
    #[serde(default)]
    state: String,
}

/// Total, active, idle, pinned, accepted connections, max children reached.
fn parse(page: &[u8]) -> Result<[f64; 6], String> {
    // The page quotes URIs and user names as bytes; anything but the numbers may be damaged by this.
    let page: Page =
        serde_json::from_str(&String::from_utf8_lossy(page)).map_err(|why| why.to_string())?;
    let pinned = page
        .processes
        .iter()
        .filter(|process| process.state == "Reading headers");
    let pinned = pinned.count() as f64;
    Ok([
        page.total,
        page.active,
        page.idle,
        pinned,
        page.accepted,
        page.exhausted,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: &str = r#"{"pool":"www","process manager":"dynamic","start time":1,"start since":7,"accepted conn":45,"listen queue":0,"max listen queue":0,"listen queue len":0,"idle processes":1,"active processes":2,"total processes":3,"max active processes":3,"max children reached":4,"slow requests":0, "processes":[{"pid":1,"state":"Running","requests":3,"request uri":"/status?full&json"},{"pid":2,"state":"Reading headers","requests":9,"request uri":"-"},{"pid":3,"state":"Idle","requests":0,"request uri":"/"}]}"#;

    #[test]
    fn the_page_is_read() {
        assert_eq!(parse(PAGE.as_bytes()), Ok([3.0, 2.0, 1.0, 1.0, 45.0, 4.0]));
        assert!(parse(b"Access denied.").is_err());
        let short = parse(b"{\"pool\":\"www\"}").expect_err("short");
        assert!(short.contains("total processes"), "{short}");
    }

    proptest! {
        #[test]
        fn no_page_panics(at in 0..PAGE.len(), garbage in proptest::collection::vec(any::<u8>(), 0..20)) {
            let _ = parse(&[&PAGE.as_bytes()[..at], &garbage[..]].concat());
        }
    }
}
