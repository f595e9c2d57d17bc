//! Comparisons: how often equal arms are called different although one looks after every pair, and how often a small
//! effect is seen.

use super::{LEVELS, Options, Search, TRUTH_WINDOWS, Verdict, known, limits, parallel};
use kneepoint_model::statistics::sequential::MIN_PAIRS;
use kneepoint_planner::ab::{self, AbMove, AbOptions, AbTest, Measure, Side};
use kneepoint_planner::bench::Bench as _;
use kneepoint_planner::comparison::AMONG_OTHERS;
use kneepoint_planner::comparison::speed_exponent;
use kneepoint_planner::simulated::{App, Noise, SimulatedStack, Truth};
use std::io::Write;
use std::time::Duration;

/// Largest share of equal arms that are called different.
const LARGEST_FALSE: f64 = 0.05;
/// Least share of effects that are seen.
const LEAST_POWER: f64 = 0.8;
/// The effect: R* with the change over R* without it.
const EFFECT: f64 = 1.06;
/// How well R* is known when a comparison begins, as a standard deviation of its logarithm.
const RATE_SD: f64 = 0.015;
/// Length of a step, and most pairs: five minutes of load.
const STEP: Duration = Duration::from_secs(3);
const MOST_PAIRS: usize = 48;
/// Longest time under load, the search for a telling rate included.
const LONGEST_S: f64 = 300.0;

/// What comparisons are made on.
#[derive(Clone, Copy)]
struct Ground {
    noise: Noise,
    limit_hz: f64,
    slope: f64,
    /// How far R* follows the machine's speed, by the same search as the slope.
    speed_exponent: f64,
    /// How much faster everything is in arm B.
    faster: f64,
    saturated: bool,
}

struct Outcome {
    verdict: ab::Verdict,
    pairs: u32,
    load_s: f64,
    /// ln of the estimated effect.
    ln_effect: f64,
}

fn compare(ground: Ground, seed: u64) -> Outcome {
    let slo = SimulatedStack::usual_slo();
    let mut stack = SimulatedStack::new(App::default(), slo, ground.noise, seed)
        .with_arm("b", App::default().faster(ground.faster));
    // A different multiple of the error each time, as if drawn: the low-discrepancy sequence of the golden ratio.
    let share = (seed as f64 * 0.618_033_988_749_895)
        .fract()
        .clamp(0.001, 0.999);
    let off = RATE_SD * kneepoint_model::statistics::special::normal_quantile(share);
    let measure = if ground.saturated {
        Measure::Saturation {
            workers: stack.saturating_workers(),
        }
    } else {
        Measure::AtRate {
            rate_hz: ground.limit_hz * off.exp(),
            slope: ground.slope,
            speed_exponent: ground.speed_exponent,
        }
    };
    let mut test = AbTest::new(AbOptions {
        measure,
        max_pairs: MOST_PAIRS,
        min_pairs: MIN_PAIRS,
        enough: AMONG_OTHERS,
        at_once: ground.saturated,
        not_worse: None,
        step: STEP,
        rope: 0.02,
        seed,
    });
    while stack.driven().as_secs_f64() + STEP.as_secs_f64() <= LONGEST_S {
        match test.next_move() {
            AbMove::Measure(side, step) => {
                let arm = if side == Side::A { "a" } else { "b" };
                let Ok((point, canary)) = stack.measure_with_canary(arm, &step);
                test.record(side, &point, canary);
            }
            AbMove::Both(_, step) => {
                let Ok([a, b]) = stack.measure_both(["a", "b"], &step);
                test.record_both(&a, &b);
            }
            AbMove::Done => break,
        }
    }
    let effect = test.effect("", &[]);
    Outcome {
        verdict: test.verdict(),
        pairs: effect.pairs,
        load_s: stack.driven().as_secs_f64(),
        ln_effect: effect.ratio.map_or(0.0, |ratio| ratio.estimate.ln()),
    }
}

/// Shares of verdicts over many comparisons.
struct Tally {
    better: f64,
    worse: f64,
    equivalent: f64,
    pairs: f64,
    load_s: f64,
    ln_effect: f64,
}

fn tally(ground: Ground, count: u64, seed: u64) -> Tally {
    let outcomes = parallel::map(count, |index| compare(ground, seed + index));
    let n = outcomes.len() as f64;
    let share = |verdict| outcomes.iter().filter(|it| it.verdict == verdict).count() as f64 / n;
    let mean = |of: fn(&Outcome) -> f64| outcomes.iter().map(of).sum::<f64>() / n;
    Tally {
        better: share(ab::Verdict::Better),
        worse: share(ab::Verdict::Worse),
        equivalent: share(ab::Verdict::Equivalent),
        pairs: mean(|it| f64::from(it.pairs)),
        load_s: mean(|it| it.load_s),
        ln_effect: mean(|it| it.ln_effect),
    }
}

/// How much faster everything must be for R* to be [`EFFECT`] times as high: R* rises a little more than in
/// proportion, as requests also leave more of the SLO's time to queue in.
fn faster_for_the_effect(noise: Noise, without: Truth) -> f64 {
    let with = known(&App::default().faster(1.1), noise, TRUTH_WINDOWS);
    let exponent = (with.limit_hz / without.limit_hz).ln() / 1.1f64.ln();
    EFFECT.powf(1.0 / exponent)
}

/// Runs the comparisons at each noise and prints a table.
pub(super) fn run(options: &Options, out: &mut impl Write) -> anyhow::Result<Vec<Verdict>> {
    writeln!(
        out,
        "\n{} A/A comparisons and {} with R* {:.0} % higher at each noise, seed {}; up to {MOST_PAIRS} pairs of {} s \
         steps, looked at after every pair\n{:<34}{:>9}{:>9}{:>9}{:>12}{:>7}{:>8}{:>10}",
        options.comparisons,
        options.comparisons / 3,
        (EFFECT - 1.0) * 100.0,
        options.seed,
        STEP.as_secs(),
        "  comparison",
        "better %",
        "worse %",
        "equal %",
        "unclear %",
        "pairs",
        "load s",
        "effect %"
    )?;
    let mut verdicts = Vec::new();
    for (level, noise) in LEVELS {
        let noise = options.noise(noise);
        let without = known(&App::default(), noise, TRUTH_WINDOWS);
        let seed = options.seed * 1_000_000;
        let slo = SimulatedStack::usual_slo();
        let mut stack = SimulatedStack::new(App::default(), slo, noise, seed);
        let (found, slope) = limits::search(&mut stack, seed, Search::default());
        let same = Ground {
            noise,
            limit_hz: without.limit_hz,
            slope,
            speed_exponent: speed_exponent(&found),
            faster: 1.0,
            saturated: false,
        };
        let other = Ground {
            faster: faster_for_the_effect(noise, without),
            ..same
        };
        for saturated in [false, true] {
            let quantity = if saturated { "saturation" } else { "at R*" };
            let of = |ground| Ground {
                saturated,
                ..ground
            };
            let equal = tally(of(same), options.comparisons, seed);
            line(&format!("{level}, {quantity}, A/A"), &equal, out)?;
            let changed = tally(of(other), options.comparisons / 3, seed + 500_000);
            line(&format!("{level}, {quantity}, +6 %"), &changed, out)?;
            let wrong = equal.better + equal.worse;
            verdicts.push(Verdict {
                what: format!(
                    "{level}, {quantity}: {:.1} % of equal arms differ, at most 5 %",
                    wrong * 100.0
                ),
                met: wrong <= LARGEST_FALSE,
            });
            verdicts.push(Verdict {
                what: format!(
                    "{level}, {quantity}: power {:.0} % is at least 80 %",
                    changed.better * 100.0
                ),
                met: changed.better >= LEAST_POWER,
            });
        }
    }
    Ok(verdicts)
}

fn line(name: &str, tally: &Tally, out: &mut impl Write) -> anyhow::Result<()> {
    let unclear = 1.0 - tally.better - tally.worse - tally.equivalent;
    writeln!(
        out,
        "  {name:<32}{:>9.1}{:>9.1}{:>9.1}{:>12.1}{:>7.1}{:>8.0}{:>+10.1}",
        tally.better * 100.0,
        tally.worse * 100.0,
        tally.equivalent * 100.0,
        unclear * 100.0,
        tally.pairs,
        tally.load_s,
        tally.ln_effect * 100.0
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground(faster: f64) -> Ground {
        Ground {
            noise: Noise::medium(),
            limit_hz: known(&App::default(), Noise::medium(), 60).limit_hz,
            slope: 25.0,
            speed_exponent: 1.0,
            faster,
            saturated: true,
        }
    }

    /// A small version of the whole: a test that called everything different, or nothing, would not pass.
    #[test]
    fn equal_arms_rarely_differ_and_a_small_effect_is_seen() {
        let equal = tally(ground(1.0), 30, 9_000);
        assert!(
            equal.better + equal.worse <= 0.14,
            "{} {}",
            equal.better,
            equal.worse
        );
        let changed = tally(ground(1.06), 20, 9_500);
        assert!(changed.better >= 0.6, "{}", changed.better);
        assert!(changed.worse < 0.1 && changed.load_s <= LONGEST_S);
    }
}
