//! FPM-03: a dynamic pool grows more slowly than the load.

use crate::rule::prelude::*;
use crate::saturation::pool::{PoolState, memory_cap};
use kneepoint_model::WorkerPool;

/// Growing for less than this is not worth a finding \[ours\]: one tick of FPM's process manager is a second.
const SHORTEST_S: f64 = 2.0;
/// A pool that takes this long to fill after a quiet time is worth a note, whatever this load needed \[ours\].
const SLOW_FILL_S: f64 = 5.0;
/// Mean queue while the pool grows, from which on requests suffered.
const QUEUED: f64 = 1.0;
/// CPU use while the pool grows above which more workers would not have helped \[ours\].
const CPU_BUSY: f64 = 0.85;

pub(crate) static RULE: Rule = Rule {
    code: "FPM-03",
    name: "spawn-lag",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Pool,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::WORKERS, metric::QUEUE],
    yields_to: &["FPM-10"],
    title: "the pool adds workers more slowly than the load arrives",
    doc: RuleDoc {
        what_it_is: "With pm = dynamic PHP-FPM starts with a few workers and looks once a second whether to add some. \
            It adds at most pm.min_spare_servers a second, whatever its log says about `spawning 32 children`. From \
            2 to 40 workers with min_spare_servers = 1 takes over half a minute, in which requests queue although \
            CPU and memory are there. Each quiet time ends the spare workers, and it begins anew.",
        how_it_shows: "Slow responses only in the seconds after the load rises; the number of workers climbs in a \
            straight line; FPM logs `seems busy (you may need to increase pm.start_servers, or \
            pm.min/max_spare_servers)`.",
        how_it_is_confirmed: "Set pm = static with the same pm.max_children: the same step of load has no slow seconds. \
            A laboratory run of 40 workers took 9.5 s to get there, with 4.8 s at worst instead of 1.0 s.",
        what_to_write: "In the pool, when the memory allows all workers at once:\n\n    pm = static\n    pm.max_children = \
            40\n\nor else\n\n    pm = dynamic\n    pm.start_servers = 30\n    pm.min_spare_servers = 20\n    \
            pm.max_spare_servers = 40",
        references: &[
            "https://github.com/php/php-src/blob/master/sapi/fpm/fpm/fpm_process_ctl.c",
            "field report S2",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let pool = evidence.stack.tier(Layer::Php)?.pool.as_ref()?;
    let per_s = pool.spawn_per_s.filter(|rate| *rate > 0.0)?;
    let climb = evidence
        .phases
        .iter()
        .filter_map(|phase| Climb::find(evidence, phase))
        .max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    match climb {
        Some(climb) => seen(evidence, pool, per_s, &climb),
        None => expected(evidence, pool, per_s),
    }
}

/// The pool growing while requests waited and CPU was left.
struct Climb<'a> {
    phase: &'a Phase,
    from: f64,
    to: f64,
    seconds: f64,
    queue: f64,
    cpu: f64,
}

impl<'a> Climb<'a> {
    fn find(evidence: &Evidence, phase: &'a Phase) -> Option<Self> {
        let workers = phase.series.get(Layer::Php, metric::WORKERS)?;
        let (start_s, from) = *workers.points.first()?;
        let to = workers.max()?;
        let end_s = workers.points.iter().find(|point| point.1 >= to)?.0;
        let growing = phase.during(start_s, end_s);
        let queue = growing.largest_mean(Layer::Php, metric::QUEUE)?;
        let cpu = evidence.cpu_use(&growing)?.share;
        let seconds = end_s - start_s;
        let suffered = to - from >= 2.0 && seconds >= SHORTEST_S && queue >= QUEUED;
        (suffered && cpu < CPU_BUSY).then_some(Self {
            phase,
            from,
            to,
            seconds,
            queue,
            cpu,
        })
    }
}

fn seen(evidence: &Evidence, pool: &WorkerPool, per_s: f64, climb: &Climb<'_>) -> Option<Finding> {
    let mut verdict = RULE
        .finds(Layer::Php, RULE.title)
        .configured(arithmetic(evidence, pool, per_s))
        .measured(
            format!(
                "the pool grew from {:.0} to {:.0} workers in {:.0} s while {:.1} requests queued and {} of the CPU was used",
                climb.from,
                climb.to,
                climb.seconds,
                climb.queue,
                format_share(climb.cpu)
            ),
            climb.phase,
        );
    verdict = verdict.logged(evidence.logged(&[Layer::Php], LogKind::PoolBusySpawning));
    let window_s = climb.phase.load.window_s.max(1.0);
    verdict
        // The share of workers that was missing, on average over the phase: they came one after the other.
        .weight((1.0 - climb.from / climb.to) / 2.0 * (climb.seconds / window_s).min(1.0))
        .gain(format!(
            "no slow first {:.0} s after the load rises",
            climb.seconds
        ))
        .refuted_by("a queue as long at the start of the same step with pm = static")
        .remedy(remedy(evidence, pool))
        .done()
}

/// Nobody saw it, but the workers in use at the limit are far from those there at the start.
fn expected(evidence: &Evidence, pool: &WorkerPool, per_s: f64) -> Option<Finding> {
    let phase = evidence.knee()?;
    let state = PoolState::read(evidence, phase)?;
    let missing = (state.busy - pool.start_workers as f64).max(0.0);
    let fill_s = pool.max_workers.saturating_sub(pool.start_workers) as f64 / per_s;
    if missing / per_s < SHORTEST_S && fill_s < SLOW_FILL_S {
        return None;
    }
    RULE.finds(Layer::Php, RULE.title)
        .configured(arithmetic(evidence, pool, per_s))
        .measured(
            format!(
                "{:.1} workers in use, {:.0} s after a start from {}",
                state.busy,
                missing / per_s,
                pool.start_workers
            ),
            phase,
        )
        // Nobody queued behind it: it costs the first seconds after a rise that nobody drove.
        .suspected_if(false)
        .refuted_by("a step of load from rest that has no slow first seconds")
        .remedy(remedy(evidence, pool))
        .done()
}

fn arithmetic(evidence: &Evidence, pool: &WorkerPool, per_s: f64) -> String {
    let to_go = pool.max_workers.saturating_sub(pool.start_workers) as f64;
    format!(
        "{}: {} workers at the start, {per_s:.0} more a second at most, so {:.0} s to {}",
        evidence.quote(Layer::Php, "pm"),
        pool.start_workers,
        to_go / per_s,
        pool.max_workers
    )
}

fn remedy(evidence: &Evidence, pool: &WorkerPool) -> kneepoint_model::Remedy {
    let size = pool.max_workers as f64;
    let fits = memory_cap(evidence).is_none_or(|cap| size <= cap);
    if !fits {
        let text = "Raise pm.start_servers and pm.min_spare_servers towards the workers in use at the peak; all of \
                    them at once do not fit the memory.";
        return Advice::new(evidence, text).build();
    }
    let text = "Have all workers there from the start: pm = static with the same pm.max_children.";
    let advice = Advice::new(evidence, text);
    advice.set(Layer::Php, "pm", "static").build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn dynamic() -> Case {
        Case::healthy()
            .set(Layer::Php, "pm", "dynamic")
            .pool(|pool| {
                (pool.start_workers, pool.max_workers) = (2, 10);
                pool.spawn_per_s = Some(1.0);
            })
    }

    fn climbing(case: Case) -> Case {
        case.series(PhaseKind::Knee, Layer::Php, metric::WORKERS, "", |at| {
            (2.0 + at).min(9.0)
        })
        .gauge(PhaseKind::Knee, Layer::Php, metric::QUEUE, "", 14.0)
    }

    #[test]
    fn fires_when_requests_queue_while_the_pool_grows() {
        let case = climbing(dynamic()).machine_at(PhaseKind::Knee, 0.6).log(
            PhaseKind::Knee,
            Layer::Php,
            LogKind::PoolBusySpawning,
            3,
            "seems busy (you may need to increase ...)",
        );
        check(
            case,
            expect![[r#"
                named: FPM-03
                suspected php (27 %): the pool adds workers more slowly than the load arrives
                  saw php.pm = dynamic: 2 workers at the start, 1 more a second at most, so 8 s to 10
                  saw the pool grew from 2 to 9 workers in 7 s while 14.0 requests queued and 60 % of the CPU was used, at 190/s offered for 10 s
                  saw 3 log lines: seems busy (you may need to increase ...), at 190/s offered for 10 s
                  set php.pm = static
            "#]],
        );
    }

    #[test]
    fn only_notes_what_arithmetic_says() {
        check(
            dynamic(),
            expect![[r#"
            named: CAP-02
            noted php (0 %): the pool adds workers more slowly than the load arrives
              saw php.pm = dynamic: 2 workers at the start, 1 more a second at most, so 8 s to 10
              saw 4.2 workers in use, 2 s after a start from 2, at 190/s offered for 10 s
              set php.pm = static
        "#]],
        );
    }

    #[test]
    fn stays_silent_when_the_cpu_was_used_up_meanwhile_or_all_workers_are_there() {
        let ample = dynamic().pool(|pool| pool.start_workers = 6);
        stays_silent(&RULE, climbing(ample).machine_at(PhaseKind::Knee, 0.97));
        stays_silent(&RULE, Case::healthy());
    }
}
