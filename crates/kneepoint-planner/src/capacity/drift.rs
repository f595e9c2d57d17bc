//! How much the machine's speed drifts from one step at low load to the next.
//!
//! A shared machine takes longer for the same work in some seconds than in others. Low load hardly shows it, but close to
//! the limit a slow spell is a queue: the p95 over all spells is longer than that of a machine which always has its mean
//! speed.

use super::low_load::{LowLoadStep, SHARES};
use crate::averages::{mean, median};

/// Median absolute deviations from which on a second is taken for that far off and no further: a stall of a tenth of a
/// second is not a slow machine.
const FAR: f64 = 4.5;

/// Standard deviation of the logarithm of how long the machine takes for the same work, from step to step, on a machine
/// with this many cores. Zero where steps scatter no more than their seconds say they may, or where there are too few.
///
/// It is the component of variance between steps (a one-way analysis of variance over the seconds of each, rates apart)
/// by how much a response time follows the speed at that rate. What changes faster than a step lasts is not in it.
pub(crate) fn drift(seen: &[LowLoadStep], cores: f64) -> f64 {
    let levels = 0..SHARES.len();
    let found: Vec<Found> = levels.filter_map(|level| at(level, seen, cores)).collect();
    let rough = weighted(&found, |it| it.freedom).max(0.0);
    // What is known best counts most: an estimate scatters by its own noise and by what there is to find.
    let weight = |it: &Found| it.freedom / (rough + it.noise).powi(2).max(f64::MIN_POSITIVE);
    weighted(&found, weight).max(0.0).sqrt()
}

/// What the steps at one rate say.
struct Found {
    /// Steps but one.
    freedom: f64,
    /// The variance of the logarithm of the machine's slowness, and of what chance adds to each step's.
    variance: f64,
    noise: f64,
}

fn at(level: usize, seen: &[LowLoadStep], cores: f64) -> Option<Found> {
    let steps: Vec<&LowLoadStep> = seen
        .iter()
        .filter(|step| step.level == level && !step.seconds_ln_ms.is_empty())
        .collect();
    let (variance, noise) = between(&without_stalls(&steps))?;
    let busy_cores = mean(steps.iter().map(|step| step.busy_cores));
    let follows = follows(busy_cores / cores, cores).powi(2);
    Some(Found {
        freedom: steps.len() as f64 - 1.0,
        variance: variance / follows,
        noise: noise / follows,
    })
}

fn weighted(found: &[Found], weight: impl Fn(&Found) -> f64) -> f64 {
    let whole: f64 = found.iter().map(&weight).sum();
    let sum: f64 = found.iter().map(|it| weight(it) * it.variance).sum();
    sum / whole.max(f64::MIN_POSITIVE)
}

/// The seconds of steps at one rate, with those far from the rest brought nearer.
fn without_stalls(steps: &[&LowLoadStep]) -> Vec<Vec<f64>> {
    let all = || steps.iter().flat_map(|step| step.seconds_ln_ms.iter());
    let usual = median(all().copied());
    let reach = FAR * median(all().map(|it| (it - usual).abs()));
    let brought = |it: &f64| it.clamp(usual - reach, usual + reach);
    let of_step = |step: &&LowLoadStep| step.seconds_ln_ms.iter().map(brought).collect();
    steps.iter().map(of_step).collect()
}

/// The component of variance between groups, below zero where chance made it so, and what chance adds to a group's mean;
/// `None` of fewer than two groups, or where none has two values.
fn between(groups: &[Vec<f64>]) -> Option<(f64, f64)> {
    let count: f64 = groups.iter().map(|group| group.len() as f64).sum();
    let (between, within) = (groups.len() as f64 - 1.0, count - groups.len() as f64);
    if between < 1.0 || within < 1.0 {
        return None;
    }
    let whole = mean(groups.iter().flatten().copied());
    let (mut apart, mut inside) = (0.0, 0.0);
    for group in groups {
        let own = mean(group.iter().copied());
        apart += group.len() as f64 * (own - whole).powi(2);
        inside += group.iter().map(|it| (it - own).powi(2)).sum::<f64>();
    }
    let each = count / groups.len() as f64;
    let noise = inside / within / each;
    Some((apart / between / each - noise, noise))
}

/// By what power the response time follows how long the machine takes, at this utilisation of the cores: work shared by
/// `c` cores takes `1 / (1 - u^c)` times as long as alone (exact for one and two cores and exponential work), and both
/// the work and the utilisation grow.
fn follows(utilisation: f64, cores: f64) -> f64 {
    let cores = cores.max(1.0);
    let full = utilisation.clamp(0.0, 0.9).powf(cores);
    1.0 + cores * full / (1.0 - full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use kneepoint_model::LatencyHistogram;

    /// Steps of four seconds whose seconds scatter by a tenth, and their means by `sd` besides.
    fn steps(count: usize, sd: f64, busy_cores: f64) -> Vec<LowLoadStep> {
        let mut random = Random::new(3, 0);
        (0..count)
            .map(|nth| {
                let own = sd * random.normal();
                LowLoadStep {
                    level: nth % 2,
                    rate_hz: 100.0,
                    counted_hz: 100.0,
                    response: LatencyHistogram::default(),
                    seconds_ln_ms: (0..4).map(|_| own + 0.1 * random.normal()).collect(),
                    busy_cores,
                    others_cores: 0.0,
                    stolen_cores: 0.0,
                    tiers: Vec::new(),
                }
            })
            .collect()
    }

    #[test]
    fn what_steps_scatter_beyond_their_seconds_is_found() {
        let found = drift(&steps(400, 0.15, 0.0), 2.0);
        assert!((found - 0.15).abs() < 0.02, "{found}");
        let none = drift(&steps(400, 0.0, 0.0), 2.0);
        assert!(none < 0.02, "{none}");
    }

    /// On one core that is half busy, a machine that takes a tenth longer answers in a fifth more.
    #[test]
    fn a_busy_machine_shows_more_of_it() {
        assert!((follows(0.5, 1.0) - 2.0).abs() < 1e-9);
        assert!((follows(0.0, 2.0) - 1.0).abs() < 1e-9);
        let found = drift(&steps(400, 0.15, 0.5), 1.0);
        assert!((found - 0.075).abs() < 0.01, "{found}");
    }

    #[test]
    fn too_few_steps_say_nothing() {
        assert!(drift(&steps(1, 0.15, 0.5), 2.0).abs() < f64::EPSILON);
        assert!(drift(&[], 2.0).abs() < f64::EPSILON);
    }
}
