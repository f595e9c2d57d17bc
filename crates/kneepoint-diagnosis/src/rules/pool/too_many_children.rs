//! FPM-02: more workers than the memory or the cores can carry.

use crate::evidence::MEMORY_SHORT;
use crate::rule::prelude::*;
use crate::saturation::pool::{
    PoolState, WORKERS_PER_CORE, memory_cap, memory_limit, resize, size_key, worker_bytes,
};
use kneepoint_model::units::format_bytes;

/// Workers per core that run at once, from which on they are in each other's way \[ours\].
const RUNNING_PER_CORE: f64 = 6.0;
/// Throughput above the limit over that just below it, under which the load itself costs \[ours\]: a queue that
/// grows does not slow the workers down.
const FALLING: f64 = 0.9;
/// CPU stall from which on (catalogue FPM-02): some task waited for a CPU in this share of the time.
const STALLED: f64 = 0.2;
/// Workers per core that make a crowd, whatever they cost \[ours\]: 100 on four cores beat 218 in field report S2,
/// and 100 beat 250 in S5.
const CROWD_PER_CORE: f64 = 25.0;
/// Forced context switches a request above the limit over those below, from which on a crowd thrashes \[ours\].
const THRASHING: f64 = 3.0;

pub(crate) static RULE: Rule = Rule {
    code: "FPM-02",
    name: "too-many-children",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Pool,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::WORKERS_RUNNING],
    yields_to: &["OPC-01", "FPM-04"],
    title: "more PHP workers than the machine can carry",
    doc: RuleDoc {
        what_it_is: "Workers that all want the CPU share it: with a hundred of them on two cores each request takes \
            fifty times as long, most miss their deadline, and switching between them costs on top. And each needs \
            memory: when their sum exceeds it, the kernel ends one of them or begins to swap. One field report \
            found 100 workers better than the 218 that fitted its memory, another 100 better than 250.",
        how_it_shows: "Throughput falls as the load rises; hundreds of processes are ready to run; forced context \
            switches and CPU stall (PSI) go up. Or: workers times their proportional set size is more than the memory.",
        how_it_is_confirmed: "Halve pm.max_children for one run: throughput above the limit rises.",
        what_to_write: "In the pool, a few for each core, more only when they wait:\n\n    pm.max_children = 8\n\nMeasure \
            memory as PSS under load (smaps_rollup), not as RSS, which counts shared memory once for each worker.",
        references: &[
            "field reports S2 and S5",
            "https://docs.kernel.org/accounting/psi.html",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    over_memory(evidence).or_else(|| over_cores(evidence))
}

fn over_memory(evidence: &Evidence) -> Option<Finding> {
    let cap = memory_cap(evidence)?;
    let limit = memory_limit(evidence)?;
    let worker = worker_bytes(evidence)?;
    let size = evidence.stack.tier(Layer::Php)?.pool.as_ref()?.max_workers as f64;
    if size * worker <= limit {
        return None;
    }
    // Workers are not all as large as the largest, and not all may ever be there: where nothing was short, it is a risk.
    let held = evidence.largest(Layer::Php, metric::PSS_BYTES);
    let mut stalls = evidence.phases.iter().filter_map(Phase::memory_stall);
    let short = stalls.any(|share| share >= MEMORY_SHORT);
    let killed = evidence.logged(&[Layer::Php], LogKind::OutOfMemory);
    let is_short = short || killed.is_some() || held.is_none_or(|held| held > limit);
    RULE.finds(
        Layer::Php,
        "the PHP workers together need more memory than there is",
    )
    .suspected_if(is_short)
    .configured(quote_size(evidence))
    .under(
        format!(
            "{size:.0} workers of {} need {}, and PHP may use {}",
            format_bytes(worker as u64),
            format_bytes((size * worker) as u64),
            format_bytes(limit as u64)
        ),
        "largest worker of all phases".to_owned(),
    )
    .weight(1.0 - cap / size)
    .refuted_by("all workers busy at once without swapping and without a kill by the kernel")
    .remedy(
        resize(
            evidence,
            cap,
            format!("Run at most {cap:.0} workers, which fit the memory."),
        )
        .build(),
    )
    .done()
}

fn over_cores(evidence: &Evidence) -> Option<Finding> {
    let knee = evidence.phase(PhaseKind::Knee)?;
    let over = evidence.phase(PhaseKind::Over)?;
    let pool = PoolState::read(evidence, over)?;
    let cpus = evidence.cpus(Layer::Php);
    let running = over.series.mean(Layer::Php, metric::WORKERS_RUNNING)?;
    let ratio = over.pool_hz() / knee.pool_hz().max(f64::MIN_POSITIVE);
    let stalled = over
        .series
        .rate(Layer::Generator, metric::PSI_CPU_SOME_S)
        .is_none_or(|share| share > STALLED);
    let forced = forced_switches(over).zip(forced_switches(knee));
    let thrashing = pool.max >= CROWD_PER_CORE * cpus
        && forced.is_some_and(|(above, below)| above >= THRASHING * below);
    if running < RUNNING_PER_CORE * cpus || !stalled || (ratio > FALLING && !thrashing) {
        return None;
    }
    let wanted = (WORKERS_PER_CORE * cpus)
        .ceil()
        .min(pool.max / 2.0)
        .max(1.0)
        .floor();
    let mut verdict = RULE
        .finds(
            Layer::Php,
            "more PHP workers run at once than there are cores for",
        )
        .configured(quote_size(evidence))
        .measured(
            format!("{running:.0} workers want to run on {cpus:.1} cores"),
            over,
        )
        .measured(
            format!(
                "PHP serves {} of what it served just below the limit",
                format_share(ratio)
            ),
            over,
        );
    if let Some((above, below)) = forced {
        verdict = verdict.measured(
            format!(
                "{above:.1} forced context switches a request, {below:.1} just below the limit"
            ),
            over,
        );
    }
    verdict
        .weight(1.0 - ratio)
        .refuted_by("as low a throughput above the limit with half the workers")
        .remedy(
            resize(
                evidence,
                wanted,
                format!("Run {wanted:.0} workers, a few for each core."),
            )
            .build(),
        )
        .done()
}

fn forced_switches(phase: &Phase) -> Option<f64> {
    let hz = phase
        .series
        .rate(Layer::Php, metric::CONTEXT_SWITCHES_FORCED)?;
    Some(hz / phase.pool_hz().max(f64::MIN_POSITIVE))
}

fn quote_size(evidence: &Evidence) -> String {
    let key = size_key(evidence);
    evidence.quote(key.layer, &key.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    #[test]
    fn fires_when_throughput_falls_with_a_crowd_of_runnable_workers() {
        let case = Case::healthy()
            .pool_of(100)
            .running(PhaseKind::Over, 96.0)
            .counter(PhaseKind::Over, Layer::Php, metric::WORKER_REQUESTS, 140.0)
            .counter(
                PhaseKind::Over,
                Layer::Php,
                metric::CONTEXT_SWITCHES_FORCED,
                4200.0,
            );
        check(
            case,
            expect![[r#"
            named: FPM-02
            suspected php (26 %): more PHP workers run at once than there are cores for
              saw php.pm.max_children = 100
              saw 96 workers want to run on 2.0 cores, at 240/s offered for 10 s
              saw PHP serves 74 % of what it served just below the limit, at 240/s offered for 10 s
              saw 30.0 forced context switches a request, 2.0 just below the limit, at 240/s offered for 10 s
              set php.pm.max_children = 8
        "#]],
        );
    }

    #[test]
    fn fires_when_the_workers_do_not_fit_the_memory() {
        let case = Case::healthy()
            .pool_of(60)
            .with(|evidence| evidence.memory_budget_bytes = Some(1 << 30));
        check(
            case,
            expect![[r#"
            named: FPM-02
            suspected php (37 %): the PHP workers together need more memory than there is
              saw php.pm.max_children = 60
              saw 60 workers of 20.0 MiB need 1.2 GiB, and PHP may use 1.0 GiB, largest worker of all phases
              set php.pm.max_children = 38
        "#]],
        );
    }

    #[test]
    fn stays_silent_when_a_large_pool_costs_nothing() {
        let large = Case::healthy().pool_of(32).running(PhaseKind::Over, 30.0);
        stays_silent(&RULE, large);
        stays_silent(&RULE, Case::healthy());
    }
}
