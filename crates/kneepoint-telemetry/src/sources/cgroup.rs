//! Throttling of a tier's host by its CPU quota.

use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use kneepoint_linux::file::{keyed, read};
use kneepoint_model::metric::{CGROUP_PERIODS, CGROUP_THROTTLED, CGROUP_THROTTLED_S};
use std::path::PathBuf;
use std::time::Duration;

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "cgroup",
    about: "quota periods, throttled periods and throttled time of a tier's host",
    requirements: "a control group with a CPU controller, version 1 or 2",
    overhead: "one small read a second, about 10 us",
    cadence: Duration::from_secs(1),
    metrics: &[CGROUP_PERIODS, CGROUP_THROTTLED, CGROUP_THROTTLED_S],
    lane: Lane::Trend,
    open: Open::Tier(|tier| {
        let file = tier.cgroup.cpu.as_ref()?.join("cpu.stat");
        Some(Box::new(Cgroup { file }))
    }),
};

struct Cgroup {
    file: PathBuf,
}

impl Probe for Cgroup {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        let path = self.file.display();
        let text = read(&path.to_string()).map_err(|why| Failure(why.to_string()))?;
        let quota = parse(&text).ok_or_else(|| {
            Failure::on(
                "reading",
                path,
                "no quota counters; is the cpu controller enabled for this group?",
            )
        })?;
        sink.push(CGROUP_PERIODS, quota.periods as f64);
        sink.push(CGROUP_THROTTLED, quota.throttled as f64);
        sink.push(CGROUP_THROTTLED_S, quota.throttled_s);
        Ok(())
    }
}

#[derive(Debug, PartialEq)]
struct Quota {
    periods: u64,
    throttled: u64,
    throttled_s: f64,
}

/// `cpu.stat` of version 1 (`throttled_time` in nanoseconds) and 2 (`throttled_usec`).
fn parse(text: &[u8]) -> Option<Quota> {
    let throttled_s = match keyed(text, "throttled_time") {
        Some(nanoseconds) => nanoseconds as f64 / 1e9,
        None => keyed(text, "throttled_usec")? as f64 / 1e6,
    };
    Some(Quota {
        periods: keyed(text, "nr_periods")?,
        throttled: keyed(text, "nr_throttled")?,
        throttled_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: Option<Quota>) {
        assert_eq!(parse(text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn both_versions_are_read() {
        let quota = || {
            Some(Quota {
                periods: 40,
                throttled: 7,
                throttled_s: 1.5,
            })
        };
        check(
            "nr_periods 40\nnr_throttled 7\nthrottled_time 1500000000\nnr_bursts 0\n",
            quota(),
        );
        check(
            "usage_usec 9\nnr_periods 40\nnr_throttled 7\nthrottled_usec 1500000\n",
            quota(),
        );
        check("usage_usec 9\nuser_usec 5\n", None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(text in "(nr_periods|throttled_time|[0-9 \n]){0,30}") {
            parse(text.as_bytes());
        }
    }
}
