//! A moment as Prometheus reads it: the text format, version 0.0.4.

use super::moment::Moment;
use crate::rule::Severity;
use std::fmt::Write as _;

/// The moment in the text format: base units, `_total` on what only grows, HELP and TYPE for each name.
#[must_use]
pub fn metrics(moment: &Moment) -> String {
    let mut text = Text::default();
    pools(&mut text, moment);
    services(&mut text, moment);
    traffic(&mut text, moment);
    findings(&mut text, moment);
    own(&mut text, moment);
    text.0
}

#[derive(Default)]
struct Text(String);

type Labels<'a> = Vec<(&'a str, &'a str)>;

impl Text {
    /// A family of samples. Nothing is written of one without samples.
    fn family<'a>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'a>, f64)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let labels: Vec<String> = labels
                .into_iter()
                .map(|(label, text)| format!("{label}=\"{}\"", escaped(text)))
                .collect();
            let labels = match labels.is_empty() {
                true => String::new(),
                false => format!("{{{}}}", labels.join(",")),
            };
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }
}

/// A label's value as the format wants it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn pools(text: &mut Text, moment: &Moment) {
    let all = || {
        moment.pools.iter().map(|pool| {
            (
                pool,
                vec![
                    ("service", pool.service.as_str()),
                    ("pool", pool.pool.as_str()),
                ],
            )
        })
    };
    let states = all().flat_map(|(pool, labels)| {
        let state = |name, count: u64| {
            let mut labels = labels.clone();
            labels.push(("state", name));
            (labels, count as f64)
        };
        [state("busy", pool.busy), state("idle", pool.idle)]
    });
    text.family(
        "kneepoint_pool_workers",
        "gauge",
        "Workers of a PHP-FPM pool, with a request (busy) or without (idle).",
        states,
    );
    let limits = all().filter_map(|(pool, labels)| Some((labels, pool.limit? as f64)));
    text.family(
        "kneepoint_pool_workers_max",
        "gauge",
        "Most workers the pool may have (pm.max_children).",
        limits,
    );
    let queues = || all().filter_map(|(pool, labels)| Some((labels, pool.queue?)));
    text.family(
        "kneepoint_pool_queue_length",
        "gauge",
        "Connections that wait to be accepted by the pool.",
        queues().map(|(labels, queue)| (labels, queue.0 as f64)),
    );
    text.family(
        "kneepoint_pool_queue_max",
        "gauge",
        "Connections that fit the pool's accept queue.",
        queues().map(|(labels, queue)| (labels, queue.1 as f64)),
    );
    let waits = all().flat_map(|(pool, labels)| {
        pool.waits.iter().map(move |(label, count)| {
            let mut labels = labels.clone();
            labels.push(("on", label.as_str()));
            (labels, *count as f64)
        })
    });
    text.family(
        "kneepoint_pool_workers_waiting",
        "gauge",
        "Busy workers by what they do: running, or the call and the peer they wait for.",
        waits,
    );
}

fn services(text: &mut Text, moment: &Moment) {
    let all = || {
        moment.services.iter().map(|one| {
            (
                one,
                vec![("service", one.name.as_str()), ("program", one.kind.name())],
            )
        })
    };
    text.family(
        "kneepoint_service_cpu_seconds_total",
        "counter",
        "CPU time of the service's processes since the watch began.",
        all().map(|(one, labels)| (labels, one.cpu_s)),
    );
    let queues = all().filter_map(|(one, labels)| Some((labels, one.queue?.0 as f64)));
    text.family(
        "kneepoint_service_queue_length",
        "gauge",
        "Connections that wait to be accepted by the service's listeners.",
        queues,
    );
}

fn traffic(text: &mut Text, moment: &Moment) {
    let all = || {
        moment.traffic.iter().map(|one| {
            (
                one,
                vec![
                    ("log", one.path.as_str()),
                    ("service", one.service.as_str()),
                ],
            )
        })
    };
    text.family(
        "kneepoint_requests_total",
        "counter",
        "Lines of an access log since the watch began.",
        all().map(|(one, labels)| (labels, one.requests as f64)),
    );
    let p95 = all().filter_map(|(one, labels)| Some((labels, one.p95_s?)));
    text.family(
        "kneepoint_request_duration_p95_seconds",
        "gauge",
        "95th percentile of the times in an access log over the last ten seconds.",
        p95,
    );
    let failed = all().filter_map(|(one, labels)| Some((labels, one.failed_share?)));
    text.family(
        "kneepoint_requests_failed_ratio",
        "gauge",
        "Share of the requests of the last ten seconds with a status of 500 or more.",
        failed,
    );
}

fn findings(text: &mut Text, moment: &Moment) {
    let counts = [Severity::Problem, Severity::Risk, Severity::Note].map(|severity| {
        (
            vec![("severity", severity.name())],
            moment.count(severity) as f64,
        )
    });
    text.family(
        "kneepoint_findings",
        "gauge",
        "Findings of kneepoint check that hold now.",
        counts,
    );
    let now = moment.findings.iter().filter(|one| one.gone_s.is_none());
    let told = now.map(|one| {
        let finding = &one.finding;
        let labels = vec![
            ("code", finding.code),
            ("rule", finding.rule),
            ("severity", finding.severity.name()),
            ("place", finding.place.as_str()),
        ];
        (labels, one.since_s)
    });
    // Two findings of a rule may have one place.
    let mut known: Vec<(Labels<'_>, f64)> = Vec::new();
    for (labels, since) in told {
        if !known.iter().any(|(one, _)| *one == labels) {
            known.push((labels, since));
        }
    }
    text.family(
        "kneepoint_finding_since_timestamp_seconds",
        "gauge",
        "Since when a finding holds, as far as this watch saw.",
        known,
    );
    text.family(
        "kneepoint_unseen",
        "gauge",
        "Things that could not be seen; kneepoint check tells which.",
        [(Vec::new(), moment.blind as f64)],
    );
}

fn own(text: &mut Text, moment: &Moment) {
    let cost = moment.cost;
    let own = |value: f64| [(Vec::new(), value)];
    text.family(
        "process_cpu_seconds_total",
        "counter",
        "CPU time of the watch itself.",
        own(cost.first_cpu_s + cost.cpu_s),
    );
    text.family(
        "kneepoint_watch_seconds_total",
        "counter",
        "How long it has watched.",
        own(cost.watched_s),
    );
    text.family(
        "kneepoint_watch_look_interval_seconds",
        "gauge",
        "Time between two looks at the workers.",
        own(cost.every_s),
    );
    text.family(
        "kneepoint_watch_look_duration_seconds",
        "gauge",
        "How long the last look at the workers took.",
        own(cost.look_s),
    );
    text.family(
        "kneepoint_watch_full_look_duration_seconds",
        "gauge",
        "How long the last look at everything took.",
        own(cost.full_look_s),
    );
    text.family(
        "kneepoint_watch_timestamp_seconds",
        "gauge",
        "When the numbers above were read.",
        own(moment.at_s),
    );
    let build = [(vec![("version", env!("CARGO_PKG_VERSION"))], 1.0)];
    text.family(
        "kneepoint_build_info",
        "gauge",
        "The version of Kneepoint.",
        build,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::moment::{PoolMoment, TrafficMoment, Watched};
    use expect_test::expect;
    use std::collections::BTreeSet;

    fn moment() -> Moment {
        let sick = crate::rule::case::Case::healthy().pool_with("", "opcache.enable=0");
        let found = crate::report::judge(&sick.0).findings;
        Moment {
            pools: vec![PoolMoment {
                service: "php-fpm \"a\\b\" (process 7)".into(),
                pool: "www".into(),
                limit: Some(5),
                busy: 4,
                idle: 1,
                queue: Some((3, 511)),
                waits: vec![("recv mysql".into(), 3), ("running".into(), 1)],
                ..PoolMoment::default()
            }],
            traffic: vec![TrafficMoment {
                path: "/l".into(),
                requests: 12,
                p95_s: Some(0.25),
                ..TrafficMoment::default()
            }],
            findings: found
                .into_iter()
                .map(|finding| Watched {
                    finding,
                    since_s: 5.0,
                    gone_s: None,
                })
                .collect(),
            ..Moment::default()
        }
    }

    #[test]
    fn a_moment_is_told_in_the_text_format() {
        let text = metrics(&moment());
        let pools: Vec<&str> = text.lines().take(16).collect();
        expect![[r#"
            # HELP kneepoint_pool_workers Workers of a PHP-FPM pool, with a request (busy) or without (idle).
            # TYPE kneepoint_pool_workers gauge
            kneepoint_pool_workers{service="php-fpm \"a\\b\" (process 7)",pool="www",state="busy"} 4
            kneepoint_pool_workers{service="php-fpm \"a\\b\" (process 7)",pool="www",state="idle"} 1
            # HELP kneepoint_pool_workers_max Most workers the pool may have (pm.max_children).
            # TYPE kneepoint_pool_workers_max gauge
            kneepoint_pool_workers_max{service="php-fpm \"a\\b\" (process 7)",pool="www"} 5
            # HELP kneepoint_pool_queue_length Connections that wait to be accepted by the pool.
            # TYPE kneepoint_pool_queue_length gauge
            kneepoint_pool_queue_length{service="php-fpm \"a\\b\" (process 7)",pool="www"} 3
            # HELP kneepoint_pool_queue_max Connections that fit the pool's accept queue.
            # TYPE kneepoint_pool_queue_max gauge
            kneepoint_pool_queue_max{service="php-fpm \"a\\b\" (process 7)",pool="www"} 511
            # HELP kneepoint_pool_workers_waiting Busy workers by what they do: running, or the call and the peer they wait for.
            # TYPE kneepoint_pool_workers_waiting gauge
            kneepoint_pool_workers_waiting{service="php-fpm \"a\\b\" (process 7)",pool="www",on="recv mysql"} 3"#]]
        .assert_eq(&pools.join("\n"));
        assert!(
            text.contains("kneepoint_findings{severity=\"problem\"} 1\n"),
            "{text}"
        );
    }

    #[test]
    fn no_label_hides_anything() {
        use crate::report::texts::Texts as _;
        use kneepoint_model::redact::shown::is_unseen;
        let mut hostile = moment();
        hostile.services.push(crate::watch::moment::ServiceMoment {
            name: "redis".into(),
            kind: crate::snapshot::ServiceKind::Redis,
            cpu_s: 1.0,
            cores: None,
            queue: Some((0, 1)),
        });
        let lines = metrics(&hostile).lines().count();
        hostile.each(&mut |text| text.push_str("\u{1b}[2J\r\n\u{202e}\u{9b}\"} 1"));
        let text = metrics(&hostile.shown());
        let unseen = text.chars().find(|one| *one != '\n' && is_unseen(*one));
        assert_eq!((unseen, text.lines().count()), (None, lines), "{text}");
    }

    #[test]
    fn every_sample_is_declared_once_and_only_counters_are_totals() {
        let text = metrics(&moment());
        let mut declared: BTreeSet<(&str, &str)> = BTreeSet::new();
        let mut samples = BTreeSet::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let pair = rest.split_once(' ').expect("name and kind");
                assert!(declared.insert(pair), "{line}");
            } else if !line.starts_with('#') {
                assert!(
                    samples.insert(line.rsplit_once(' ').expect("a value").0),
                    "twice: {line}"
                );
                let name = line.split(['{', ' ']).next().expect("a name");
                assert!(declared.iter().any(|(known, _)| *known == name), "{line}");
            }
        }
        for (name, kind) in declared {
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
        }
    }
}
