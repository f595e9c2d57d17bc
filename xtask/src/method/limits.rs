//! Limits: how far R* scatters, how often its interval covers, what it costs, beside what other tools do.

use super::{LEVELS, Options, Search, TRUTH_WINDOWS, Verdict, known, moments, parallel, searches};
use kneepoint_model::Interval;
use kneepoint_model::run::LimitResult;
use kneepoint_planner::bench::Bench as _;
use kneepoint_planner::limit::{LimitMove, LimitOptions, LimitSearch};
use kneepoint_planner::simulated::{App, Noise, SimulatedStack, Truth};
use std::io::Write;

/// Largest standard deviation of ln R* at reference speed, on a quiet and a medium machine.
const LARGEST_SD: f64 = 0.015;
/// Share of intervals that must cover, and may.
const COVERAGE: std::ops::RangeInclusive<f64> = 0.92..=0.98;
/// Longest mean time under load in seconds.
const LONGEST_LOAD_S: f64 = 300.0;
/// Least ratio of the bisection's sd squared times time to ours.
const LEAST_GAIN: f64 = 4.0;

/// One experiment by one method.
#[derive(Debug, Clone, Copy)]
struct Trial {
    /// ln of R* over the truth at reference speed.
    ln_error: f64,
    load_s: f64,
    /// Half width of the interval, as a share; 0 for a method that has none.
    half_width: f64,
    covers: bool,
}

/// One experiment by every method.
struct Experiment {
    reference: Trial,
    raw: Trial,
    bisection: Trial,
    ladder: Trial,
    r90_ln_error: f64,
    longest_s: f64,
}

fn stack(noise: Noise, seed: u64) -> SimulatedStack {
    SimulatedStack::new(App::default(), SimulatedStack::usual_slo(), noise, seed)
}

/// A whole search of the tool's own, soak included.
pub(super) fn search(stack: &mut SimulatedStack, seed: u64, asked: Search) -> (LimitResult, f64) {
    let workers = stack.saturating_workers();
    let usual = asked.budget.map_or_else(
        || LimitOptions::thorough(workers),
        |budget| LimitOptions::within(budget, workers),
    );
    let options = LimitOptions {
        seed,
        step_min: asked.step.unwrap_or(usual.step_min),
        ..usual
    };
    let mut search = LimitSearch::new(stack.slo().clone(), options);
    while let LimitMove::Measure(step) = search.next_move() {
        match stack.measure_with_canary("base", &step) {
            Ok((point, canary)) => search.record(&point, canary),
            Err(never) => match never {},
        }
    }
    (search.result("base"), search.estimate().slope)
}

fn trial(rate_hz: Interval, truth: Truth, load_s: f64) -> Trial {
    Trial {
        ln_error: (rate_hz.estimate / truth.limit_hz).ln(),
        load_s,
        half_width: rate_hz.relative_half_width(),
        covers: rate_hz.contains(truth.limit_hz),
    }
}

fn experiment(noise: Noise, truth: Truth, seed: u64, asked: Search) -> Experiment {
    let mut ours = stack(noise, seed);
    let (found, _) = search(&mut ours, seed.wrapping_mul(100_003), asked);
    let load_s = ours.driven().as_secs_f64();
    let other = |search: fn(&mut SimulatedStack, u64) -> f64| {
        let mut stack = stack(noise, seed);
        let rate_hz = search(&mut stack, seed.wrapping_mul(100_003));
        let point = Interval {
            low: rate_hz,
            estimate: rate_hz,
            high: rate_hz,
        };
        trial(point, truth, stack.driven().as_secs_f64())
    };
    Experiment {
        reference: trial(found.reference_hz.unwrap_or(found.rate_hz), truth, load_s),
        raw: trial(found.rate_hz, truth, load_s),
        bisection: other(searches::bisection),
        ladder: other(searches::ladder),
        r90_ln_error: (found.r90_hz.unwrap_or(f64::NAN) / truth.r90_hz).ln(),
        longest_s: load_s,
    }
}

/// A method's experiments in a few numbers.
struct Row {
    bias: f64,
    sd: f64,
    load_s: f64,
    half_width: f64,
    coverage: f64,
}

impl Row {
    fn of(experiments: &[Experiment], which: fn(&Experiment) -> Trial) -> Self {
        let trials: Vec<Trial> = experiments.iter().map(which).collect();
        let mean = |of: fn(&Trial) -> f64| moments(&trials.iter().map(of).collect::<Vec<_>>());
        let (bias, sd) = mean(|trial| trial.ln_error);
        Self {
            bias,
            sd,
            load_s: mean(|trial| trial.load_s).0,
            half_width: mean(|trial| trial.half_width).0,
            coverage: mean(|trial| f64::from(u8::from(trial.covers))).0,
        }
    }

    /// What a result costs: variance times time.
    fn cost(&self) -> f64 {
        self.sd * self.sd * self.load_s
    }
}

/// Runs the experiments at each noise and prints a table.
pub(super) fn run(options: &Options, out: &mut impl Write) -> anyhow::Result<Vec<Verdict>> {
    writeln!(
        out,
        "{} simulated experiments at each noise, seed {}; R* is where half of 10 s windows meet the SLO",
        options.experiments, options.seed
    )?;
    let mut verdicts = Vec::new();
    for (level, noise) in LEVELS {
        let noise = options.noise(noise);
        let truth = known(&App::default(), noise, TRUTH_WINDOWS);
        let experiments = parallel::map(options.experiments, |index| {
            experiment(
                noise,
                truth,
                options.seed * 1_000_000 + index,
                options.search,
            )
        });
        print(level, truth, &experiments, out)?;
        verdicts.extend(judge(level, &experiments));
    }
    Ok(verdicts)
}

fn print(
    level: &str,
    truth: Truth,
    experiments: &[Experiment],
    out: &mut impl Write,
) -> anyhow::Result<()> {
    writeln!(
        out,
        "\n{level}: true R* {:.1}/s, R90 {:.1}/s, 5 % late in the long run at {:.1}/s\n\
         {:<36}{:>8}{:>8}{:>10}{:>11}{:>8}{:>12}",
        truth.limit_hz,
        truth.r90_hz,
        truth.long_run_hz,
        "  method",
        "sd %",
        "bias %",
        "cover %",
        "half width",
        "load s",
        "sd^2 time"
    )?;
    type Which = fn(&Experiment) -> Trial;
    let methods: [(&str, Which); 4] = [
        ("kneepoint, at reference speed", |it| it.reference),
        ("kneepoint, as the machine was", |it| it.raw),
        ("doubling and bisecting, 30 s, 2 %", |it| it.bisection),
        ("ladder of 25/s, 30 s", |it| it.ladder),
    ];
    let least = Row::of(experiments, |it| it.reference).cost();
    for (name, which) in methods {
        let row = Row::of(experiments, which);
        let (covers, width) = if row.half_width > 0.0 {
            (
                format!("{:.1}", row.coverage * 100.0),
                format!("{:.1} %", row.half_width * 100.0),
            )
        } else {
            ("-".into(), "-".into())
        };
        writeln!(
            out,
            "  {name:<34}{:>8.2}{:>+8.2}{covers:>10}{width:>11}{:>8.0}{:>11.1}x",
            row.sd * 100.0,
            row.bias * 100.0,
            row.load_s,
            row.cost() / least
        )?;
    }
    let r90: Vec<f64> = experiments.iter().map(|it| it.r90_ln_error).collect();
    let longest = experiments
        .iter()
        .map(|it| it.longest_s)
        .fold(0.0, f64::max);
    writeln!(
        out,
        "  R90: bias {:+.2} %, sd {:.2} %; the longest experiment had {longest:.0} s of load",
        moments(&r90).0 * 100.0,
        moments(&r90).1 * 100.0
    )?;
    Ok(())
}

fn judge(level: &str, experiments: &[Experiment]) -> Vec<Verdict> {
    let ours = Row::of(experiments, |it| it.reference);
    let bisection = Row::of(experiments, |it| it.bisection);
    let gain = bisection.cost() / ours.cost();
    let mut verdicts = vec![
        Verdict {
            what: format!(
                "{level}: coverage {:.1} % is within 92 to 98 %",
                ours.coverage * 100.0
            ),
            met: COVERAGE.contains(&ours.coverage),
        },
        Verdict {
            what: format!("{level}: {:.0} s of load are at most 300 s", ours.load_s),
            met: ours.load_s <= LONGEST_LOAD_S,
        },
        Verdict {
            what: format!("{level}: {gain:.1} times better than bisecting, at least 4"),
            met: gain >= LEAST_GAIN,
        },
    ];
    if matches!(level, "quiet" | "medium") {
        verdicts.push(Verdict {
            what: format!("{level}: sd {:.2} % is at most 1.5 %", ours.sd * 100.0),
            met: ours.sd <= LARGEST_SD,
        });
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small version of the whole: loose bounds, that a broken estimator does not keep.
    #[test]
    fn limits_are_as_good_as_required_or_nearly() {
        let noise = Noise::medium();
        let truth = known(&App::default(), noise, 150);
        let experiments = parallel::map(24, |index| {
            experiment(noise, truth, 77_000 + index, Search::default())
        });
        let ours = Row::of(&experiments, |it| it.reference);
        let bisection = Row::of(&experiments, |it| it.bisection);
        assert!(ours.sd < 0.022, "{}", ours.sd);
        assert!(ours.bias.abs() < 0.012, "{}", ours.bias);
        assert!(ours.coverage > 0.8, "{}", ours.coverage);
        assert!(ours.load_s < 330.0, "{}", ours.load_s);
        assert!(
            bisection.cost() > 2.0 * ours.cost(),
            "{} {}",
            bisection.cost(),
            ours.cost()
        );
    }
}
