//! One stack, searched again and again.

use super::Bench;
use crate::method::Verdict;
use anyhow::Context as _;
use kneepoint_model::Interval;
use kneepoint_model::run::LimitResult;
use kneepoint_model::units::{format_rate, format_share};
use std::io::Write;
use std::time::Duration;

/// Searches when nobody says how many.
const RUNS: usize = 5;
/// Load time of each: what `limit` takes when nobody says.
const BUDGET: Duration = Duration::from_secs(300);
/// What keeps an application the same stack from one second to the next, so that it has an R* to be found.
///
/// The pool is fixed: one that grows and shrinks is a stack of its own every time. And connections of PHP have all
/// unprivileged ports: a request opens its own, whose port stays taken for a minute after, and with the usual range both
/// applications come to half of all ports between the 40th and the 45th second close to R*. From then on connecting takes
/// so much CPU that they answer next to nothing (KRN-01), and R* would be a matter of how long a step is. What a plan says
/// of such a stack is up to which rate its ports last.
pub(super) const STEADY_STACK: [&str; 6] = [
    "--set",
    "php.pm=static",
    "--set",
    "php.pm.max_children=10",
    "--set",
    "php.net.ipv4.ip_local_port_range=1024 65535",
];

/// The searches, one after the other, and whether their intervals agree.
pub(super) fn run(bench: &Bench, out: &mut impl Write) -> anyhow::Result<Verdict> {
    let scenario = bench.scenario("laravel/kneepoint.toml");
    let runs = bench.runs.unwrap_or(RUNS);
    writeln!(
        out,
        "laravel, a fixed pool of 10, all ports: {runs} searches one after the other\n\
         {:>4}  {:<24}{:>8}{:>13}{:>10}{:>9}{:>9}  confirmed",
        "", "R*", "CPU", "at one CPU", "canary", "speed sd", "step sd"
    )?;
    let mut limits: Vec<LimitResult> = Vec::new();
    let mut first_cpu_ms = None;
    for nth in 1..=runs {
        let seed = nth.to_string();
        let more = [&STEADY_STACK[..], &["--seed", &seed]].concat();
        let run = bench.run("limit", &scenario, bench.budget(BUDGET), &more)?;
        let limit = run.limit("base").context("a limit without R*")?.clone();
        let noise = limit.noise.unwrap_or_default();
        first_cpu_ms = first_cpu_ms.or(noise.cpu_ms);
        let at_one_cpu = first_cpu_ms.and_then(|ms| limit.at_cpu_ms(ms));
        writeln!(
            out,
            "{nth:>4}  {:<24}{:>5.2} ms{:>13}{:>7.2} ms{:>9}{:>9}  {}",
            interval(&limit.rate_hz),
            noise.cpu_ms.unwrap_or(f64::NAN),
            at_one_cpu.map_or_else(|| "-".into(), format_rate),
            noise.reference_ms.unwrap_or(f64::NAN),
            noise.speed_sd.map_or_else(|| "-".into(), format_share),
            format_share(noise.step_sd),
            if limit.soak_held { "yes" } else { "no" }
        )?;
        limits.push(limit);
    }
    let rates: Vec<Interval> = limits.iter().map(|limit| limit.rate_hz).collect();
    Ok(Verdict {
        what: format!("{runs} searches of one stack agree within their intervals"),
        met: agree(&rates),
    })
}

/// `48.2/s (44.0/s to 53.1/s)`.
pub(super) fn interval(rate: &Interval) -> String {
    format!(
        "{} ({} to {})",
        format_rate(rate.estimate),
        format_rate(rate.low),
        format_rate(rate.high)
    )
}

/// Whether there is a value that lies in all of the intervals.
fn agree(rates: &[Interval]) -> bool {
    let low = rates.iter().map(|rate| rate.low).fold(0.0, f64::max);
    let high = rates
        .iter()
        .map(|rate| rate.high)
        .fold(f64::INFINITY, f64::min);
    low <= high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_agree_where_one_value_lies_in_all_of_them() {
        let of = |low, high| Interval {
            low,
            estimate: f64::midpoint(low, high),
            high,
        };
        assert!(agree(&[of(1.0, 3.0), of(2.0, 4.0), of(2.5, 2.6)]));
        assert!(!agree(&[of(1.0, 2.1), of(2.0, 4.0), of(2.5, 2.6)]));
    }
}
