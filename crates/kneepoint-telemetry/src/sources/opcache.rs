//! The opcode cache of the runtime that serves, by a script run inside it.

use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use crate::transport::{fastcgi_get, http_get};
use kneepoint_model::metric::{
    OPCACHE_BLACKLISTED, OPCACHE_ENABLED, OPCACHE_FREE_BYTES, OPCACHE_FULL, OPCACHE_HITS,
    OPCACHE_INTERNED_FREE_SHARE, OPCACHE_KEYS, OPCACHE_MAX_KEYS, OPCACHE_MISSES, OPCACHE_RESTARTS,
    OPCACHE_SCRIPTS, OPCACHE_USED_BYTES, OPCACHE_WASTED_SHARE, PHP_FILES,
};
use kneepoint_model::{Address, Endpoint, Metric};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "opcache",
    about: "state of the opcode cache, from opcache_get_status() inside the runtime that serves",
    requirements: "the probe script within the same runtime (the command-line PHP has a cache of its own)",
    overhead: "one short request every two seconds; the list of scripts is not asked for",
    cadence: Duration::from_secs(2),
    metrics: &[
        OPCACHE_ENABLED,
        OPCACHE_USED_BYTES,
        OPCACHE_FREE_BYTES,
        OPCACHE_WASTED_SHARE,
        OPCACHE_FULL,
        OPCACHE_SCRIPTS,
        OPCACHE_KEYS,
        OPCACHE_MAX_KEYS,
        OPCACHE_HITS,
        OPCACHE_MISSES,
        OPCACHE_BLACKLISTED,
        OPCACHE_RESTARTS,
        OPCACHE_INTERNED_FREE_SHARE,
        PHP_FILES,
    ],
    lane: Lane::Own,
    open: Open::Tier(|tier| {
        tier.endpoints.iter().find_map(|endpoint| match endpoint {
            Endpoint::PhpProbe { address, script } => Some(Box::new(Opcache {
                address: address.clone(),
                door: Door::FastCgi(script.clone()),
            }) as Box<dyn Probe>),
            Endpoint::PhpPage { address, path } => Some(Box::new(Opcache {
                address: address.clone(),
                door: Door::Http(path.clone()),
            }) as Box<dyn Probe>),
            _ => None,
        })
    }),
};

struct Opcache {
    address: Address,
    door: Door,
}

/// How the script is asked for.
enum Door {
    /// By FastCGI: its path on disk.
    FastCgi(PathBuf),
    /// By HTTP: the path of its page.
    Http(String),
}

impl Probe for Opcache {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        let failed = |why: &dyn std::fmt::Display| Failure::on("PHP probe at", &self.address, why);
        let page = match &self.door {
            Door::FastCgi(script) => fastcgi_get(&self.address, &script.to_string_lossy(), ""),
            Door::Http(path) => http_get(&self.address, path),
        };
        let page = page.map_err(|why| failed(&why))?;
        for (metric, value) in parse(&page).map_err(|why| failed(&why))? {
            sink.push(metric, value);
        }
        Ok(())
    }
}

/// What the probe printed, as metrics. With the cache off there is only that.
fn parse(page: &[u8]) -> Result<Vec<(Metric, f64)>, String> {
    let page: Value = serde_json::from_str(&String::from_utf8_lossy(page))
        .map_err(|why| format!("not JSON: {why}"))?;
    let mut values = Vec::new();
    // A probe that looks at one request of the application says how many files it included.
    if let Some(files) = page["included_files"].as_f64() {
        values.push((PHP_FILES, files));
    }
    let status = match &page["opcache"] {
        Value::Null => return Err("no `opcache` in the answer".into()),
        status => status,
    };
    let enabled = status["opcache_enabled"].as_bool() == Some(true);
    values.push((OPCACHE_ENABLED, f64::from(u8::from(enabled))));
    if enabled {
        let full = status["cache_full"].as_bool() == Some(true);
        values.push((OPCACHE_FULL, f64::from(u8::from(full))));
        values.extend(
            status_values(status)
                .into_iter()
                .filter_map(|(metric, value)| Some((metric, value?))),
        );
    }
    Ok(values)
}

fn status_values(status: &Value) -> [(Metric, Option<f64>); 11] {
    let memory = |name: &str| status["memory_usage"][name].as_f64();
    let strings = |name: &str| status["interned_strings_usage"][name].as_f64();
    let count = |name: &str| status["opcache_statistics"][name].as_f64();
    let restarts = ["oom_restarts", "hash_restarts", "manual_restarts"].map(count);
    let free_share = strings("free_memory")
        .zip(strings("buffer_size"))
        .filter(|(_, size)| *size > 0.0);
    [
        (OPCACHE_USED_BYTES, memory("used_memory")),
        (OPCACHE_FREE_BYTES, memory("free_memory")),
        (
            OPCACHE_WASTED_SHARE,
            memory("current_wasted_percentage").map(|percent| percent / 100.0),
        ),
        (OPCACHE_SCRIPTS, count("num_cached_scripts")),
        (OPCACHE_KEYS, count("num_cached_keys")),
        (OPCACHE_MAX_KEYS, count("max_cached_keys")),
        (OPCACHE_HITS, count("hits")),
        (OPCACHE_MISSES, count("misses")),
        (OPCACHE_BLACKLISTED, count("blacklist_misses")),
        (OPCACHE_RESTARTS, restarts.into_iter().sum()),
        (
            OPCACHE_INTERNED_FREE_SHARE,
            free_share.map(|(free, size)| free / size),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: &str = r#"{"loaded":true,"opcache":{"opcache_enabled":true,"cache_full":true,"memory_usage":{"used_memory":9000000,"free_memory":1000,"wasted_memory":0,"current_wasted_percentage":4},"interned_strings_usage":{"buffer_size":8000,"used_memory":6000,"free_memory":2000,"number_of_strings":7},"opcache_statistics":{"num_cached_scripts":40,"num_cached_keys":55,"max_cached_keys":223,"hits":700,"oom_restarts":1,"hash_restarts":2,"manual_restarts":3,"misses":41}},"ini":{}}"#;

    fn check(page: &str, expected: &[(Metric, f64)]) {
        let values = parse(page.as_bytes()).expect(page);
        for (metric, value) in expected {
            let found = values.iter().find(|(m, _)| m == metric).map(|(_, v)| *v);
            assert_eq!(found, Some(*value), "{}", metric.name);
        }
    }

    #[test]
    fn a_full_cache_is_read() {
        check(
            PAGE,
            &[
                (OPCACHE_ENABLED, 1.0),
                (OPCACHE_FULL, 1.0),
                (OPCACHE_WASTED_SHARE, 0.04),
                (OPCACHE_KEYS, 55.0),
                (OPCACHE_MAX_KEYS, 223.0),
                (OPCACHE_RESTARTS, 6.0),
                (OPCACHE_INTERNED_FREE_SHARE, 0.25),
            ],
        );
    }

    #[test]
    fn a_cache_that_is_off_or_missing_is_only_that() {
        for page in [
            r#"{"loaded":false,"opcache":false}"#,
            r#"{"loaded":true,"opcache":{"opcache_enabled":false}}"#,
        ] {
            assert_eq!(parse(page.as_bytes()), Ok(vec![(OPCACHE_ENABLED, 0.0)]));
        }
        assert!(parse(b"<?php echo").is_err());
        assert!(parse(b"{}").is_err());
    }

    proptest! {
        #[test]
        fn no_page_panics(at in 0..PAGE.len(), garbage in proptest::collection::vec(any::<u8>(), 0..20)) {
            let _ = parse(&[&PAGE.as_bytes()[..at], &garbage[..]].concat());
        }
    }
}
