//! The watch as lines of text.

use kneepoint_check::{Moment, OwnCost, PoolMoment, Severity, TrafficMoment, Watched};
use kneepoint_model::units::{format_ms, format_rate, format_share, format_span};
use std::fmt::Write as _;
use std::time::Duration;

/// Everything at one moment.
pub(super) fn all(moment: &Moment) -> String {
    let mut text = format!("{}\n", summary(moment));
    for pool in &moment.pools {
        let _ = writeln!(text, "{}", of_pool(pool));
    }
    for log in &moment.traffic {
        let _ = writeln!(text, "log {}  {}", log.path, of_traffic(log));
    }
    for service in &moment.services {
        if let Some(cores) = service.cores {
            let _ = writeln!(text, "{}  {cores:.2} cores", service.name);
        }
    }
    let told = |one: &&Watched| one.finding.severity != Severity::Note && one.gone_s.is_none();
    for one in moment.findings.iter().filter(told) {
        let _ = writeln!(text, "{}", of_finding(one));
    }
    text + &format!("itself: {}", of_cost(&moment.cost))
}

/// What was told already: findings are told when they come and when they go.
#[derive(Debug, Default)]
pub(super) struct Told(Vec<String>);

impl Told {
    /// What is new at this moment.
    pub(super) fn next(&mut self, moment: &Moment) -> String {
        let mut text = summary(moment);
        let active =
            |pool: &&PoolMoment| pool.busy > 0 || pool.queue.is_some_and(|queue| queue.0 > 0);
        for pool in moment.pools.iter().filter(active) {
            let _ = write!(text, "\n  {}", of_pool(pool));
        }
        let served = |log: &&TrafficMoment| log.rate_hz > Some(0.0) || log.is_stuck();
        for log in moment.traffic.iter().filter(served) {
            let _ = write!(text, "\n  log {}  {}", log.path, of_traffic(log));
        }
        let told = |one: &&Watched| one.finding.severity != Severity::Note && one.gone_s.is_none();
        let now: Vec<String> = moment
            .findings
            .iter()
            .filter(told)
            .map(of_finding)
            .collect();
        for line in now.iter().filter(|line| !self.0.contains(line)) {
            let _ = write!(text, "\n  + {line}");
        }
        for line in self.0.iter().filter(|line| !now.contains(line)) {
            let _ = write!(text, "\n  - no longer: {line}");
        }
        self.0 = now;
        text
    }
}

/// The moment in one line.
pub(super) fn summary(moment: &Moment) -> String {
    let (busy, workers) = moment.workers();
    let pools = moment.pools.len();
    format!(
        "{}  {busy} of {workers} workers busy in {pools} {}, {} queued; {}; itself {}",
        clock(moment.at_s),
        if pools == 1 { "pool" } else { "pools" },
        moment.queued(),
        counts(moment),
        of_share(&moment.cost),
    )
}

/// `0.4 % of a core`. Of the first moments no share can be told: there, one look is all that it did.
fn of_share(cost: &OwnCost) -> String {
    match cost.share() {
        Some(share) => format!("{} of a core", format_share(share)),
        None => format!(
            "just begun ({:.1} s of CPU for the first look)",
            cost.first_cpu_s
        ),
    }
}

/// `2 problems, 1 risk, 0 notes`.
pub(super) fn counts(moment: &Moment) -> String {
    let words = [Severity::Problem, Severity::Risk, Severity::Note].map(|severity| {
        let count = moment.count(severity);
        format!(
            "{count} {}{}",
            severity.name(),
            if count == 1 { "" } else { "s" }
        )
    });
    words.join(", ")
}

fn of_pool(pool: &PoolMoment) -> String {
    let mut text = format!("pool {} of {}  {}", pool.pool, pool.service, busy(pool));
    if let Some((length, limit)) = pool.queue {
        let _ = write!(text, ", queue {length} of {limit}");
    }
    if !pool.waits.is_empty() {
        let _ = write!(text, ": {}", pool.in_words());
    }
    text
}

/// `4 busy of 5, at most 20`.
fn busy(pool: &PoolMoment) -> String {
    let limit = pool
        .limit
        .map_or_else(String::new, |limit| format!(", at most {limit}"));
    format!("{} busy of {}{limit}", pool.busy, pool.busy + pool.idle)
}

/// Rate, times and failures of a log, or why it is not followed.
pub(super) fn of_traffic(log: &TrafficMoment) -> String {
    if let Some(why) = &log.blind {
        return format!("not followed: {why}");
    }
    if log.is_stuck() {
        return format!("none finished, {} in flight", log.in_flight);
    }
    let rate = log.rate_hz.map_or_else(|| "-".to_owned(), format_rate);
    let p95 = match log.p95_s {
        Some(p95) => format!("p95 {}", format_ms(p95 * 1000.0)),
        None if log.rate_hz > Some(0.0) => "no times in this log".to_owned(),
        None => "no requests".to_owned(),
    };
    let failed = log.failed_share.filter(|share| *share > 0.0);
    let failed = failed.map_or_else(String::new, |share| {
        format!(", {} failed", format_share(share))
    });
    format!("{rate}, {p95}{failed}")
}

fn of_finding(one: &Watched) -> String {
    let finding = &one.finding;
    format!(
        "{} {}  {} ({})",
        finding.severity.name(),
        finding.code,
        finding.title,
        finding.place
    )
}

/// What the watch costs, in words.
pub(super) fn of_cost(cost: &OwnCost) -> String {
    let span = |seconds: f64| format_span(Duration::from_secs_f64(seconds.max(0.0)));
    format!(
        "{} over {}, after {:.1} s of CPU to begin with; a look every {} takes {}; everything was read {} ago in {:.1} s",
        of_share(cost),
        span(cost.watched_s),
        cost.first_cpu_s,
        format_ms(cost.every_s * 1000.0),
        format_ms(cost.look_s * 1000.0),
        span(cost.full_look_age_s),
        cost.full_look_s,
    )
}

/// The time of day, in UTC.
pub(super) fn clock(at_s: f64) -> String {
    let seconds = at_s.max(0.0) as u64 % 86_400;
    format!(
        "{:02}:{:02}:{:02} UTC",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use expect_test::expect;
    use kneepoint_check::snapshot::ServiceKind;
    use kneepoint_check::{CheckFinding, Fix, ServiceMoment};

    pub(in super::super) fn moment() -> Moment {
        let pool = |name: &str, busy, idle, queued| PoolMoment {
            service: "php-fpm (process 790)".into(),
            pid: 790,
            pool: name.into(),
            limit: Some(5),
            busy,
            idle,
            queue: Some((queued, 511)),
            waits: match busy {
                0 => Vec::new(),
                _ => vec![("recv mysql".into(), busy - 1), ("running".into(), 1)],
            },
        };
        let finding = CheckFinding {
            code: "FPM-01",
            rule: "pool-too-small",
            severity: Severity::Problem,
            title: "The pool is too small".into(),
            service: 0,
            place: "pool www of php-fpm (process 790)".into(),
            seen: Vec::new(),
            cost: "requests wait".into(),
            unless: "Nobody asks.".into(),
            fix: Fix {
                text: "pm.max_children = 20".into(),
                ..Fix::default()
            },
            also: Vec::new(),
            weight: 0.5,
        };
        Moment {
            at_s: 1_000_000.0,
            pools: vec![pool("shop", 0, 2, 0), pool("www", 5, 0, 7)],
            services: vec![ServiceMoment {
                name: "nginx (process 811)".into(),
                kind: ServiceKind::Nginx,
                cpu_s: 1.0,
                cores: Some(0.12),
                queue: None,
            }],
            traffic: vec![TrafficMoment {
                path: "/var/log/nginx/access.log".into(),
                service: "nginx (process 811)".into(),
                rate_hz: Some(120.0),
                failed_share: Some(0.01),
                p95_s: Some(0.083),
                requests: 1200,
                in_flight: 5,
                blind: None,
            }],
            findings: vec![Watched {
                finding,
                since_s: 999_940.0,
                gone_s: None,
            }],
            blind: 1,
            cost: OwnCost {
                first_cpu_s: 0.3,
                watched_s: 60.0,
                cpu_s: 0.24,
                every_s: 1.0,
                look_s: 0.0031,
                full_look_s: 0.4,
                full_look_age_s: 60.0,
            },
        }
    }

    #[test]
    fn a_moment_is_told_in_lines() {
        expect![[r#"
            13:46:40 UTC  5 of 7 workers busy in 2 pools, 7 queued; 1 problem, 0 risks, 0 notes; itself 0.4 % of a core
            pool shop of php-fpm (process 790)  0 busy of 2, at most 5, queue 0 of 511
            pool www of php-fpm (process 790)  5 busy of 5, at most 5, queue 7 of 511: mysql 4, computing 1
            log /var/log/nginx/access.log  120/s, p95 83.0 ms, 1.0 % failed
            nginx (process 811)  0.12 cores
            problem FPM-01  The pool is too small (pool www of php-fpm (process 790))
            itself: 0.4 % of a core over 1m, after 0.3 s of CPU to begin with; a look every 1 s takes 3.10 ms; everything was read 1m ago in 0.4 s"#]]
        .assert_eq(&all(&moment()));
    }

    #[test]
    fn requests_that_take_long_are_no_silence() {
        let mut now = moment();
        now.traffic[0].rate_hz = Some(0.0);
        let expected = "log /var/log/nginx/access.log  none finished, 5 in flight";
        assert!(all(&now).contains(expected), "{}", all(&now));
        assert!(Told::default().next(&now).contains(expected));
        now.traffic[0].in_flight = 0;
        assert!(all(&now).contains("access.log  0.0/s"), "{}", all(&now));
    }

    #[test]
    fn the_first_look_is_no_share_of_a_core() {
        let mut now = moment();
        (now.cost.watched_s, now.cost.cpu_s) = (0.02, 0.01);
        let said = summary(&now);
        assert!(
            said.ends_with("itself just begun (0.3 s of CPU for the first look)"),
            "{said}"
        );
    }

    #[test]
    fn findings_are_told_when_they_come_and_when_they_go() {
        let mut told = Told::default();
        let mut now = moment();
        let first = told.next(&now);
        assert!(
            first.contains("\n  + problem FPM-01") && !first.contains("pool shop"),
            "{first}"
        );
        assert!(!told.next(&now).contains("FPM-01"));
        now.findings[0].gone_s = Some(1_000_010.0);
        assert!(told.next(&now).contains("\n  - no longer: problem FPM-01"));
        assert!(!told.next(&now).contains("FPM-01"));
    }
}
