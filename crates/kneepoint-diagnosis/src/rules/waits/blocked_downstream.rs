//! FPM-04: workers wait for a tier behind PHP.

use crate::causes::{mostly_waits, pauses, slow_peer};
use crate::rule::prelude::*;
use crate::saturation::waits::Blocked;
use kneepoint_model::TracedCall;

/// Time waiting over time on the CPU from which on the dependency is slow in itself \[ours\].
const SLOW: f64 = 10.0;

pub(crate) static RULE: Rule = Rule {
    code: "FPM-04",
    name: "blocked-downstream",
    since: "0.1.0",
    layers: &[Layer::Cache, Layer::Db, Layer::App],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::WORKERS_WAITING, metric::MACHINE_BUSY_S],
    // A lock of sessions in Redis is waited for by sleeping.
    yields_to: &[
        "FPM-10", "SES-01", "SES-02", "SES-04", "MYS-06", "PG-03", "RDS-04", "MYS-07", "PG-15",
        "APP-15", "NGX-24",
    ],
    title: "workers wait for a tier behind PHP, or sleep",
    doc: RuleDoc {
        what_it_is: "Every worker is busy, but not with PHP: most of them sleep until the database or the cache \
            answers. That looks like too few workers, yet more workers would only queue at the same place when it is \
            that place which is slow.",
        how_it_shows: "No idle worker, a queue before PHP, an idle CPU, and most workers in recv towards one peer. \
            When the wait per request grows with the load, the peer is congested; when it is the same at low load, \
            it is merely far or slow. A page that sleeps keeps its worker in the same way (nanosleep).",
        how_it_is_confirmed: "Double pm.max_children for one run. When goodput does not rise, the dependency binds; \
            when it does, the pool was too small as well (FPM-01).",
        what_to_write: "Fix the dependency first: indexes, locks held too long, slow commands. Set timeouts, so that \
            one slow peer cannot occupy the pool:\n\n    ; in the pool\n    request_terminate_timeout = 30s\n    \
            request_slowlog_timeout = 2s\n    slowlog = /var/log/php-fpm.slow.log",
        references: &[
            "https://www.netdata.cloud/guides/php-fpm/php-fpm-worker-exhaustion/",
            "field report S1 (workers waited for Redis)",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    waits_for_tier(evidence)
        .or_else(|| pauses(&RULE, evidence))
        .or_else(|| mostly_waits(&RULE, evidence))
}

fn waits_for_tier(evidence: &Evidence) -> Option<Finding> {
    let blocked = Blocked::find(evidence)?;
    let layer = blocked.layer()?;
    // Workers that connect over and over are another rule's (RDS-01, PG-02).
    let connecting: f64 = blocked
        .waits
        .iter()
        .filter(|wait| wait.is_connect())
        .map(|wait| wait.workers)
        .sum();
    if connecting > blocked.workers / 2.0 {
        return None;
    }
    let php_ms = blocked.phase.cpu_ms(Layer::Php)?;
    let slow = blocked.ms >= SLOW * php_ms && blocked.pool.is_ample(evidence);
    let mut verdict = RULE
        .finds(
            layer,
            format!("workers wait for {layer} while the CPU is idle"),
        )
        .measured(blocked.describe(), blocked.phase)
        .measured(
            format!(
                "{} waiting in each request, {} of CPU",
                format_ms(blocked.ms),
                format_ms(php_ms)
            ),
            blocked.phase,
        )
        .measured(blocked.cpu.describe(), blocked.phase);
    if let (Some(low_ms), Some(low)) = (blocked.low_ms, evidence.phase(PhaseKind::Low)) {
        verdict = verdict.measured(
            format!("{} waiting in each request", format_ms(low_ms)),
            low,
        );
    }
    let met = evidence.met_waiting(|wait| blocked.is_it(wait));
    let asks = |call: &TracedCall| met.iter().any(|met| call.named_place() == Some(met.place));
    verdict
        .inside(evidence.seen_waiting(|wait| blocked.is_it(wait)))
        .inside(evidence.seen_calls(CallKind::Query, asks))
        .inside(evidence.seen_calls(CallKind::Command, asks))
        .suspected_if(blocked.congested() || slow)
        .weight(blocked.workers / blocked.pool.busy)
        .refuted_by("goodput that rises with twice the workers")
        .remedy(slow_peer(evidence, layer))
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{builtin, met, place, sampled, traced};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn waiting_for_db(workers: f64) -> Case {
        Case::healthy()
            .machine_at(PhaseKind::Over, 0.3)
            .counter(PhaseKind::Over, Layer::Php, metric::CPU_S, 0.4)
            .counter(PhaseKind::Over, Layer::Php, metric::WORKER_REQUESTS, 60.0)
            .running(PhaseKind::Over, 8.0 - workers)
            .waiting(PhaseKind::Over, "recv db", workers)
    }

    #[test]
    fn fires_when_the_database_gets_slower_under_load() {
        check(
            waiting_for_db(7.2),
            expect![[r#"
                named: FPM-04
                suspected db (90 %): workers wait for db while the CPU is idle
                  saw 7.2 of 8.0 busy workers wait: recv db, at 240/s offered for 10 s
                  saw 120 ms waiting in each request, 6.67 ms of CPU, at 240/s offered for 10 s
                  saw 30 % of the machine's 2 cores used, at 240/s offered for 10 s
                  saw 2.10 ms waiting in each request, at 60.0/s offered for 10 s
                  do: Look for what makes db slow (locks, missing indexes, slow commands), and set timeouts. More workers help only when its answers do not get slower with them.
            "#]],
        );
    }

    #[test]
    fn names_the_line_that_waits_and_what_it_asks() {
        let at = || place("App\\Orders::list", "app/Orders.php", 23);
        let mut query = traced(
            "GET /orders",
            CallKind::Query,
            "select * from orders",
            at(),
            1,
        );
        "db".clone_into(&mut query.peer);
        let other = place("App\\Home::index", "app/Home.php", 9);
        let elsewhere = traced("GET /", CallKind::Query, "select ?", other, 1);
        let stacks = sampled(
            50,
            vec![at(), builtin("[recv db]")],
            vec![met("GET /orders", &[0, 1], 900), met("GET /", &[0], 100)],
        );
        let case = waiting_for_db(7.2)
            .traced("GET /orders", 10, vec![query, elsewhere])
            .with(|evidence| evidence.stacks = Some(stacks));
        check(
            case,
            expect![[r#"
                named: FPM-04
                suspected db (90 %): workers wait for db while the CPU is idle
                  saw 7.2 of 8.0 busy workers wait: recv db, at 240/s offered for 10 s
                  saw 120 ms waiting in each request, 6.67 ms of CPU, at 240/s offered for 10 s
                  saw 30 % of the machine's 2 cores used, at 240/s offered for 10 s
                  saw 2.10 ms waiting in each request, at 60.0/s offered for 10 s
                  saw waiting there: GET /orders, App\Orders::list at app/Orders.php:23, 100 % of 900 stacks, sampled 50 times a second, at 240/s offered for 10 s
                  saw select * from orders, once in each GET /orders, in App\Orders::list at app/Orders.php:23, in 10 requests that were traced, one after the other
                  do: Look for what makes db slow (locks, missing indexes, slow commands), and set timeouts. More workers help only when its answers do not get slower with them.
            "#]],
        );
    }

    /// As long a wait at low load as above the limit.
    fn far_away(case: Case) -> Case {
        case.waiting(PhaseKind::Low, "recv db", 4.9)
    }

    #[test]
    fn names_a_slow_peer_together_with_the_pool_when_the_pool_is_ample() {
        check(
            far_away(waiting_for_db(5.0)),
            expect![[r#"
                named: FPM-04, FPM-01
                suspected db (62 %): workers wait for db while the CPU is idle
                  saw 5.0 of 8.0 busy workers wait: recv db, at 240/s offered for 10 s
                  saw 83.3 ms waiting in each request, 6.67 ms of CPU, at 240/s offered for 10 s
                  saw 30 % of the machine's 2 cores used, at 240/s offered for 10 s
                  saw 81.7 ms waiting in each request, at 60.0/s offered for 10 s
                  do: Look for what makes db slow (locks, missing indexes, slow commands), and set timeouts. More workers help only when its answers do not get slower with them.
            "#]],
        );
    }

    #[test]
    fn only_notes_the_peer_when_the_pool_is_small() {
        let small = Case::healthy()
            .pool_of(4)
            .machine_at(PhaseKind::Over, 0.3)
            .running(PhaseKind::Over, 0.6)
            .waiting(PhaseKind::Over, "recv db", 3.2)
            .waiting(PhaseKind::Low, "recv db", 0.9);
        check(
            small,
            expect![[r#"
                named: FPM-01
                noted db (80 %): workers wait for db while the CPU is idle
                  saw 3.2 of 4.0 busy workers wait: recv db, at 240/s offered for 10 s
                  saw 15.6 ms waiting in each request, 7.00 ms of CPU, at 240/s offered for 10 s
                  saw 30 % of the machine's 2 cores used, at 240/s offered for 10 s
                  saw 15.0 ms waiting in each request, at 60.0/s offered for 10 s
                  do: Look for what makes db slow (locks, missing indexes, slow commands), and set timeouts. More workers help only when its answers do not get slower with them.
            "#]],
        );
    }

    #[test]
    fn stays_silent_when_the_cpu_is_what_is_busy() {
        stays_silent(&RULE, waiting_for_db(7.2).machine_at(PhaseKind::Over, 0.97));
        stays_silent(&RULE, Case::healthy());
    }
}
