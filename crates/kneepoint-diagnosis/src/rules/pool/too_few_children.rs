//! FPM-01: too few workers, with CPU to spare.

use crate::evidence::CPU_HEADROOM;
use crate::rule::prelude::*;
use crate::saturation::pool::{PoolState, resize, size_key, sufficient_size};
use crate::saturation::waits::Blocked;

/// CPU use below which a pool whose workers mostly wait, or of which there are few for each core, can still do more
/// \[ours\]; [`CPU_HEADROOM`] is the bar for every other.
const SOME_HEADROOM: f64 = 0.9;
/// Workers for each core up to which a pool is small: one computes, and one bridges its waits.
const FEW: f64 = 2.0;
/// Share of busy workers asleep from which on a pool mostly waits.
const MOSTLY_WAITING: f64 = 0.5;

pub(crate) static RULE: Rule = Rule {
    code: "FPM-01",
    name: "too-few-children",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Pool,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::QUEUE, metric::MACHINE_BUSY_S],
    yields_to: &["FPM-10", "SES-01", "FPM-03", "FPM-17", "NGX-24"],
    title: "too few PHP workers: requests queue while the CPU is idle",
    doc: RuleDoc {
        what_it_is: "A PHP worker serves one request at a time and holds it from the first byte to the last, also while \
            it waits for the database. When all pm.max_children are busy the next request queues, however idle the \
            CPU is. It is the most named cause of slow PHP sites and often a symptom: when workers wait for something \
            slow, or PHP compiles every file anew, more of them help little or not at all. It is named here only \
            when CPU was left.",
        how_it_shows: "No idle worker, requests in the queue before PHP (on a Unix socket only the kernel shows it, \
            FPM's status page says 0), CPU below 70 %. A dynamic pool logs once `server reached pm.max_children \
            setting`; a static one never says so.",
        how_it_is_confirmed: "Double pm.max_children for one run: goodput must rise. When it does not, workers are \
            blocked (FPM-04).",
        what_to_write: "In the pool; workers needed are requests a second times seconds each holds a worker, a quarter \
            more to be safe, as far as memory and database connections allow:\n\n    pm = static\n    pm.max_children = \
            20",
        references: &[
            "https://github.com/php/php-src/blob/master/sapi/fpm/fpm/fpm_process_ctl.c",
            "field reports S1, S2 and S5",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let (phase, pool, cpu) = [PhaseKind::Over, PhaseKind::Knee]
        .into_iter()
        .filter_map(|kind| evidence.phase(kind))
        .find_map(|phase| {
            let pool = PoolState::read(evidence, phase)?;
            let cpu = evidence.cpu_use(phase)?;
            let has_room = cpu.share < bar(evidence, &pool) && !evidence.wants_cpu(phase);
            (pool.exhausted() && has_room).then_some((phase, pool, cpu))
        })?;
    // More workers would only queue at a peer that gets slower with every one of them.
    if Blocked::find(evidence).is_some_and(|blocked| blocked.congested()) {
        return None;
    }
    let size = sufficient_size(evidence, &pool, cpu.share);
    let key = size_key(evidence);
    let hold_s = pool.hold_s().unwrap_or(0.0);
    let mut verdict = RULE
        .finds(Layer::Php, RULE.title)
        .configured(evidence.quote(key.layer, &key.name))
        .measured(pool.describe(), phase)
        .measured(cpu.describe(), phase)
        .measured(
            format!(
                "{} holds of {} each",
                format_rate(pool.hz),
                format_ms(hold_s * 1e3)
            ),
            phase,
        );
    if let Some(blocked) = pool.blocked {
        verdict = verdict.measured(
            format!("busy workers sleep {} of the time", format_share(blocked)),
            phase,
        );
    }
    verdict = verdict.logged(evidence.logged(&[Layer::Php], LogKind::PoolExhausted));
    let gain = 1.0 / cpu.share.max(0.05);
    verdict
        .weight(1.0 - cpu.share)
        .gain(format!(
            "up to {gain:.1} times the rate, where the CPU would be used up"
        ))
        .refuted_by("goodput that does not rise with twice the workers")
        .remedy(remedy(evidence, &pool, size))
        .done()
}

/// How idle the CPU must be for the pool to be the limit.
fn bar(evidence: &Evidence, pool: &PoolState) -> f64 {
    let few = pool.max <= FEW * evidence.cpus(Layer::Php).ceil();
    let mostly_waits = pool.blocked.is_some_and(|share| share >= MOSTLY_WAITING);
    if few || mostly_waits {
        SOME_HEADROOM
    } else {
        CPU_HEADROOM
    }
}

fn remedy(evidence: &Evidence, pool: &PoolState, size: f64) -> kneepoint_model::Remedy {
    if size <= pool.max {
        let text = "More workers would help, but their memory is not there: free some, or give the host more.";
        return Advice::new(evidence, text).build();
    }
    let text = format!(
        "Run {size:.0} workers: as many as use the CPU that was left (Little's law with a quarter on top), at least \
         twice as many as now."
    );
    let advice = resize(evidence, size, text);
    match evidence.stack.setting(Layer::Php, "pm") {
        Some("dynamic" | "ondemand") => advice.also(Layer::Php, "pm", "static"),
        _ => advice,
    }
    .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    /// Workers that mostly wait for the database, as long at low load as above the limit.
    fn waiting(size: u64) -> Case {
        let workers = size as f64;
        Case::healthy()
            .pool_of(size)
            .machine_at(PhaseKind::Over, 0.4)
            .counter(PhaseKind::Over, Layer::Php, metric::WORKER_REQUESTS, 80.0)
            .running(PhaseKind::Over, 0.3 * workers)
            .waiting(PhaseKind::Over, "recv db", 0.7 * workers)
            .waiting(PhaseKind::Low, "recv db", 0.5 * workers)
    }

    #[test]
    fn fires_when_waiting_workers_are_all_busy() {
        check(
            waiting(4),
            expect![[r#"
            named: FPM-01
            suspected php (60 %): too few PHP workers: requests queue while the CPU is idle
              saw php.pm.max_children = 4
              saw 4.0 of at most 4 workers busy, 120.0 requests queue before them, at 240/s offered for 10 s
              saw 40 % of the machine's 2 cores used, at 240/s offered for 10 s
              saw 80.0/s holds of 50.0 ms each, at 240/s offered for 10 s
              saw busy workers sleep 71 % of the time, at 240/s offered for 10 s
              set php.pm.max_children = 13
        "#]],
        );
    }

    #[test]
    fn raises_connection_slots_along_and_stops_at_the_memory() {
        check(
            waiting(4).set(Layer::Db, "max_connections", "15"),
            expect![[r#"
                named: FPM-01
                suspected php (60 %): too few PHP workers: requests queue while the CPU is idle
                  saw php.pm.max_children = 4
                  saw 4.0 of at most 4 workers busy, 120.0 requests queue before them, at 240/s offered for 10 s
                  saw 40 % of the machine's 2 cores used, at 240/s offered for 10 s
                  saw 80.0/s holds of 50.0 ms each, at 240/s offered for 10 s
                  saw busy workers sleep 71 % of the time, at 240/s offered for 10 s
                  set php.pm.max_children = 13
                  set db.max_connections = 30
            "#]],
        );
        let little_memory =
            waiting(4).with(|evidence| evidence.memory_budget_bytes = Some(300 << 20));
        check(
            little_memory,
            expect![[r#"
            named: FPM-01
            suspected php (60 %): too few PHP workers: requests queue while the CPU is idle
              saw php.pm.max_children = 4
              saw 4.0 of at most 4 workers busy, 120.0 requests queue before them, at 240/s offered for 10 s
              saw 40 % of the machine's 2 cores used, at 240/s offered for 10 s
              saw 80.0/s holds of 50.0 ms each, at 240/s offered for 10 s
              saw busy workers sleep 71 % of the time, at 240/s offered for 10 s
              set php.pm.max_children = 7
        "#]],
        );
    }

    #[test]
    fn fires_when_there_are_fewer_workers_than_cores() {
        let case = Case::healthy()
            .pool_of(1)
            .machine_at(PhaseKind::Over, 0.72)
            .running(PhaseKind::Over, 0.9)
            .counter(PhaseKind::Over, Layer::Php, metric::WORKER_REQUESTS, 120.0);
        check(
            case,
            expect![[r#"
                named: FPM-01
                suspected php (28 %): too few PHP workers: requests queue while the CPU is idle
                  saw php.pm.max_children = 1
                  saw 1.0 of at most 1 workers busy, 120.0 requests queue before them, at 240/s offered for 10 s
                  saw 72 % of the machine's 2 cores used, at 240/s offered for 10 s
                  saw 120/s holds of 8.33 ms each, at 240/s offered for 10 s
                  saw busy workers sleep 41 % of the time, at 240/s offered for 10 s
                  set php.pm.max_children = 8
            "#]],
        );
    }

    #[test]
    fn stays_silent_when_the_cpu_is_used_up_or_the_peer_congested() {
        stays_silent(&RULE, waiting(4).machine_at(PhaseKind::Over, 0.95));
        let congested = waiting(4).waiting(PhaseKind::Low, "recv db", 0.1);
        check(
            congested,
            expect![[r#"
            named: FPM-04
            silent
        "#]],
        );
        stays_silent(&RULE, Case::healthy());
    }

    #[test]
    fn proposes_nothing_that_is_to_be_kept() {
        check(
            waiting(4).keep("php.pm.max_children"),
            expect![[r#"
            named: FPM-01
            suspected php (60 %): too few PHP workers: requests queue while the CPU is idle
              saw php.pm.max_children = 4
              saw 4.0 of at most 4 workers busy, 120.0 requests queue before them, at 240/s offered for 10 s
              saw 40 % of the machine's 2 cores used, at 240/s offered for 10 s
              saw 80.0/s holds of 50.0 ms each, at 240/s offered for 10 s
              saw busy workers sleep 71 % of the time, at 240/s offered for 10 s
              do: Run 13 workers: as many as use the CPU that was left (Little's law with a quarter on top), at least twice as many as now. Not proposed as a change: php.pm.max_children = 13, since it is to be kept as it is.
        "#]],
        );
    }
}
