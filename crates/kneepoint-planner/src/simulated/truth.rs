//! What is true of a simulated stack, by simulating it for as long as it takes.

use super::app::App;
use super::drive::{Bed, Drive};
use super::noise::{Machine, Noise};
use super::pool::Pool;
use crate::bench::Step;
use crate::random::Random;
use kneepoint_model::Slo;
use kneepoint_model::statistics::special::{logit, normal_quantile};
use std::time::Duration;

/// Length of a window that passes or does not, in seconds (method.md section 1): at R* half of them pass.
pub(crate) const WINDOW_S: f64 = 10.0;
/// What is left out at the start of a long run, in windows.
const WARM_UP: usize = 2;
/// How far around the limit the rates lie that it is read from, as ln ratios.
const AROUND: [f64; 5] = [-0.03, -0.015, 0.0, 0.015, 0.03];

/// The known limits of a simulated stack, per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Truth {
    /// R*: the rate at which half of 10 s windows of steady operation meet the SLO.
    pub limit_hz: f64,
    /// R90: the rate at which nine tenths of them do.
    pub r90_hz: f64,
    /// The rate at which the violating share over everything is the SLO's: below R*, since what violates comes in
    /// bursts.
    pub long_run_hz: f64,
}

/// The limits of an application on a machine, from `windows` windows at each of a few rates around them: some
/// hundreds are good for half a percent. For R* at reference speed, hand it the machine without its drift.
#[must_use]
pub fn truth(app: &App, slo: &Slo, noise: Noise, windows: usize, seed: u64) -> Truth {
    let share = slo.violating_share();
    let passing = |shares: &[f64]| {
        let passed = shares
            .iter()
            .filter(|violating| **violating <= share)
            .count() as f64;
        (passed + 0.5) / (shares.len() as f64 + 1.0)
    };
    let capacity = app.capacity_hz();
    let (mut low, mut high) = ((0.2 * capacity).ln(), (1.02 * capacity).ln());
    for nth in 0..9 {
        let middle = f64::midpoint(low, high);
        let shares = violating_shares(
            app,
            slo,
            noise,
            middle.exp(),
            (windows / 5).max(20),
            seed + nth,
        );
        if passing(&shares) > 0.5 {
            low = middle;
        } else {
            high = middle;
        }
    }
    let centre = f64::midpoint(low, high);
    let (mut by_window, mut overall) = (Vec::new(), Vec::new());
    for (nth, offset) in AROUND.into_iter().enumerate() {
        let ln_rate = centre + offset;
        let seed = seed + 100 + nth as u64;
        let shares = violating_shares(app, slo, noise, ln_rate.exp(), windows, seed);
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        by_window.push((ln_rate, normal_quantile(passing(&shares))));
        overall.push((ln_rate, logit(mean.clamp(1e-4, 0.9))));
    }
    Truth {
        limit_hz: crossing(&by_window, 0.0).exp(),
        r90_hz: crossing(&by_window, normal_quantile(0.9)).exp(),
        long_run_hz: crossing(&overall, logit(share)).exp(),
    }
}

/// The violating share of each window of one long run.
fn violating_shares(
    app: &App,
    slo: &Slo,
    noise: Noise,
    rate_hz: f64,
    windows: usize,
    seed: u64,
) -> Vec<f64> {
    let mut machine = Machine::new(noise, seed);
    let (mut pool, mut sizes, mut next_id) = (Pool::new(app.size), Random::new(seed, 3), 0);
    let mut bed = Bed {
        app,
        slo,
        pool: &mut pool,
        machine: &mut machine,
        sizes: &mut sizes,
        next_id: &mut next_id,
        share: 1.0,
    };
    let length = Duration::from_secs_f64(WINDOW_S * (windows + WARM_UP) as f64);
    let mut step = Step::at_rate("", rate_hz, length, seed).to_the_end();
    step.skip = Duration::from_secs_f64(WINDOW_S * WARM_UP as f64);
    Drive::new(&mut bed, &step).violating_by_window(WINDOW_S)
}

/// Where the straight line through points reaches a value (least squares).
fn crossing(points: &[(f64, f64)], value: f64) -> f64 {
    let n = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / n;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / n;
    let slope = points
        .iter()
        .map(|(x, y)| (x - mean_x) * (y - mean_y))
        .sum::<f64>()
        / points
            .iter()
            .map(|(x, _)| (x - mean_x).powi(2))
            .sum::<f64>();
    mean_x + (value - mean_y) / slope
}

#[cfg(test)]
mod tests {
    use super::super::pool::PoolSize;
    use super::super::{Kind, SimulatedStack};
    use super::*;

    #[test]
    fn the_limits_lie_in_their_order_below_the_capacity() {
        let slo = SimulatedStack::usual_slo();
        let known = truth(&App::default(), &slo, Noise::none(), 100, 1);
        let capacity = App::default().capacity_hz();
        assert!(
            known.r90_hz < known.limit_hz && known.limit_hz < capacity,
            "{known:?}"
        );
        assert!(known.limit_hz > 0.8 * capacity, "{known:?}");
        assert!(
            (known.long_run_hz / known.limit_hz - 1.0).abs() < 0.05,
            "{known:?}"
        );
    }

    #[test]
    fn a_stack_that_is_twice_as_fast_has_more_than_twice_the_limit() {
        let slo = SimulatedStack::usual_slo();
        let of = |app: &App| truth(app, &slo, Noise::none(), 60, 1).limit_hz;
        let (slow, fast) = (of(&App::default()), of(&App::default().faster(2.0)));
        assert!((2.0..2.25).contains(&(fast / slow)), "{slow} {fast}");
    }

    /// M/M/1: response times are exponential with rate mu - lambda, so p95 is ln 20 / (mu - lambda).
    #[test]
    fn the_limit_of_one_queue_is_the_known_one() {
        let app = App {
            size: PoolSize {
                workers: 1,
                cores: 1.0,
                backlog: 100_000,
            },
            kinds: vec![Kind {
                weight: 1.0,
                cpu_s: 0.001,
                wait_s: 0.0,
                pieces: 1,
            }],
            requests_a_visit: None,
        };
        let slo = Slo {
            response_time: Duration::from_millis(30),
            ..Slo::default()
        };
        let known_hz = 1000.0 - 20f64.ln() / 0.03;
        let found = truth(&app, &slo, Noise::none(), 60, 2);
        assert!(
            (found.long_run_hz / known_hz - 1.0).abs() < 0.01,
            "{found:?}, known {known_hz}"
        );
    }
}
