//! The generator convicts itself: what it measures of itself, and the gates past which a step is invalid.

use kneepoint_linux::clock::thread_cpu;
use kneepoint_model::units::{format_ms, format_rate, format_share};
use kneepoint_model::{Health, Slo, Validity};
use std::time::Duration;

/// Least share of arrivals the generator must handle in time (load-engine.md, section 3, item 8).
const LEAST_ACHIEVED: f64 = 0.99;
/// The send lag's 99th percentile may reach the larger of this and [`LAG_SHARE`] (method.md, section 6).
const LAG_FLOOR: Duration = Duration::from_millis(1);
/// The same as a share of the SLO's response time (method.md, section 6).
const LAG_SHARE: f64 = 0.02;
/// Share of arrivals that may be later than that: what lies above a 99th percentile.
const LATE_SHARE: f64 = 0.01;
/// Standard errors of that share that a count of late ones may lie above it. Of fifty arrivals, one that was late
/// makes the 99th percentile, and says little of how often they are.
const LATE_ERRORS: f64 = 2.0;
/// Largest share of a core for one thread: beyond, its own queueing shows in what it measures (Hyperfoil warns at
/// the same value; load-engine.md, section 2, item 8).
const LARGEST_CPU_SHARE: f64 = 0.8;
/// The offered rate must stay this many times below what the generator reached against a null server
/// (method.md, section 6).
const CEILING_FACTOR: f64 = 3.0;

/// What the gates judge.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) health: &'a Health,
    /// The busiest thread's share of a core.
    pub(crate) busiest_thread: f64,
    /// Arrivals of the window.
    pub(crate) arrivals: u64,
    /// Arrivals that found no local port or descriptor.
    pub(crate) no_local_port: u64,
    pub(crate) offered_hz: f64,
    /// Arrivals of the window that were sent later than [`latest_us`].
    pub(crate) late: u64,
    pub(crate) slo: &'a Slo,
}

/// How late an arrival may be sent, in microseconds.
pub(crate) fn latest_us(slo: &Slo) -> u64 {
    let by_goal = slo.response_time.mul_f64(LAG_SHARE);
    by_goal.max(LAG_FLOOR).as_micros() as u64
}

/// Passes or fails a step by the generator's own condition, never by the server's.
pub(crate) fn judge(evidence: &Evidence<'_>) -> Validity {
    let gates = [arrivals, achieved, lag, cpu, ceiling];
    let because: Vec<String> = gates.iter().filter_map(|gate| gate(evidence)).collect();
    if because.is_empty() {
        Validity::Valid
    } else {
        Validity::Invalid { because }
    }
}

fn arrivals(e: &Evidence<'_>) -> Option<String> {
    (e.arrivals == 0).then(|| {
        "no arrival fell into the window: offer a higher rate, or load for longer than is skipped".into()
    })
}

fn achieved(e: &Evidence<'_>) -> Option<String> {
    let share = e.health.achieved_share;
    (share < LEAST_ACHIEVED).then(|| {
        let ports = match e.no_local_port {
            0 => {
                "the machine was busy, or the rate is too high for the cores that the generator has"
                    .to_owned()
            }
            n => format!(
                "{n} found no local port or file descriptor: keep connections alive, or raise \
                 net.ipv4.ip_local_port_range and `ulimit -n` on the generator's side"
            ),
        };
        format!(
            "the generator sent only {} of the arrivals in time (gate: {}); {ports}",
            format_share(share),
            format_share(LEAST_ACHIEVED)
        )
    })
}

fn lag(e: &Evidence<'_>) -> Option<String> {
    let n = e.arrivals as f64;
    let spread = (n * LATE_SHARE * (1.0 - LATE_SHARE)).sqrt();
    (e.late as f64 > n * LATE_SHARE + LATE_ERRORS * spread).then(|| {
        format!(
            "the load generator sent requests too late: send lag p99 {} (allowed: {}); the machine was busy, or the rate \
             is too high for the cores it has",
            format_ms(e.health.send_lag_p99_ms),
            format_ms(latest_us(e.slo) as f64 / 1e3)
        )
    })
}

fn cpu(e: &Evidence<'_>) -> Option<String> {
    (e.busiest_thread > LARGEST_CPU_SHARE).then(|| {
        format!(
            "a generator thread used {} of a core (gate: {}); use more threads or a lower rate",
            format_share(e.busiest_thread),
            format_share(LARGEST_CPU_SHARE)
        )
    })
}

fn ceiling(e: &Evidence<'_>) -> Option<String> {
    let ceiling = e.health.ceiling_hz?;
    (e.offered_hz > ceiling / CEILING_FACTOR).then(|| {
        format!(
            "{} offered is more than a third of this generator's ceiling of {}; use more threads or a faster machine",
            format_rate(e.offered_hz),
            format_rate(ceiling)
        )
    })
}

/// CPU time of the calling thread over the window.
#[derive(Debug)]
pub(crate) struct CpuMeter {
    skip: u64,
    /// Nanoseconds on the wall, and time on the CPU, when the window began and ended.
    began: Option<(u64, Duration)>,
    ended: Option<(u64, Duration)>,
}

impl CpuMeter {
    pub(crate) fn new(skip: u64) -> Self {
        Self {
            skip,
            began: None,
            ended: None,
        }
    }

    /// Notes the begin of the window, and its end once no request will start any more.
    #[inline]
    pub(crate) fn observe(&mut self, now: u64, over: bool) {
        if self.began.is_none() && now >= self.skip {
            self.began = Some((now, thread_cpu()));
        }
        if over && self.ended.is_none() {
            self.ended = Some((now, thread_cpu()));
        }
    }

    /// Share of one core over the window; 0 when there was no window.
    pub(crate) fn share(&self) -> f64 {
        match (self.began, self.ended) {
            (Some((wall_0, cpu_0)), Some((wall_1, cpu_1))) if wall_1 > wall_0 => {
                cpu_1.saturating_sub(cpu_0).as_nanos() as f64 / (wall_1 - wall_0) as f64
            }
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn healthy() -> Health {
        Health {
            achieved_share: 1.0,
            send_lag_p50_ms: 0.02,
            send_lag_p99_ms: 0.3,
            cpu_share: 0.2,
            ceiling_hz: Some(60_000.0),
            ..Health::default()
        }
    }

    fn check(
        health: &Health,
        busiest_thread: f64,
        offered_hz: f64,
        no_local_port: u64,
        expected: Expect,
    ) {
        let late = if health.send_lag_p99_ms > 4.0 { 30 } else { 5 };
        check_late(
            health,
            busiest_thread,
            offered_hz,
            no_local_port,
            late,
            expected,
        );
    }

    fn check_late(
        health: &Health,
        busiest_thread: f64,
        offered_hz: f64,
        no_local_port: u64,
        late: u64,
        expected: Expect,
    ) {
        let verdict = judge(&Evidence {
            health,
            busiest_thread,
            arrivals: 1000,
            no_local_port,
            offered_hz,
            late,
            slo: &Slo::default(),
        });
        expected.assert_eq(&match verdict {
            Validity::Valid => "valid".into(),
            Validity::Invalid { because } => because.join("\n"),
        });
    }

    #[test]
    fn a_healthy_generator_is_believed() {
        check(&healthy(), 0.2, 500.0, 0, expect!["valid"]);
    }

    #[test]
    fn each_gate_names_itself_its_numbers_and_what_to_do() {
        let ill = Health {
            achieved_share: 0.97,
            send_lag_p99_ms: 6.0,
            ..healthy()
        };
        check(
            &ill,
            0.91,
            25_000.0,
            0,
            expect![[r#"
                the generator sent only 97 % of the arrivals in time (gate: 99 %); the machine was busy, or the rate is too high for the cores that the generator has
                the load generator sent requests too late: send lag p99 6.00 ms (allowed: 4.00 ms); the machine was busy, or the rate is too high for the cores it has
                a generator thread used 91 % of a core (gate: 80 %); use more threads or a lower rate
                25 000/s offered is more than a third of this generator's ceiling of 60 000/s; use more threads or a faster machine"#]],
        );
        let portless = Health {
            achieved_share: 0.5,
            ..healthy()
        };
        check(
            &portless,
            0.1,
            500.0,
            500,
            expect![
                "the generator sent only 50 % of the arrivals in time (gate: 99 %); 500 found no local port or file descriptor: keep connections alive, or raise net.ipv4.ip_local_port_range and `ulimit -n` on the generator's side"
            ],
        );
    }

    /// A thousand arrivals, of which ten may be late: sixteen come by chance, seventeen do not.
    #[test]
    fn a_few_late_arrivals_prove_nothing() {
        let late = Health {
            send_lag_p99_ms: 6.0,
            ..healthy()
        };
        check_late(&late, 0.2, 500.0, 0, 16, expect!["valid"]);
        check_late(
            &late,
            0.2,
            500.0,
            0,
            17,
            expect![
                "the load generator sent requests too late: send lag p99 6.00 ms (allowed: 4.00 ms); the machine was busy, or the rate is too high for the cores it has"
            ],
        );
    }
}
