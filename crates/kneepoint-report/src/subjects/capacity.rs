//! What `plan` predicts, in words.

pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod terminal;

use crate::words;
use kneepoint_model::capacity::{
    CapacityPlan, CapacityPoint, HoldOut, Need, Population, Ports, Verified,
};
use kneepoint_model::{Interval, units};

/// The prediction in one sentence or two, what was asked for first.
pub(crate) fn sentence(plan: &CapacityPlan) -> String {
    let limit = format!(
        "R* is predicted at {}, from no more than {} of it.",
        words::rate_interval(&plan.limit_hz),
        words::share(plan.measured_up_to)
    );
    let Some(need) = &plan.need else { return limit };
    let who = need
        .population
        .map_or_else(String::new, |population| users(&population) + ": ");
    format!(
        "{who}{} needs {} such as this one, {} with one to spare. {limit}",
        words::rate(need.rate_hz),
        words::counted(u64::from(need.hosts), "host", "hosts"),
        need.hosts_with_spare,
    )
}

fn users(population: &Population) -> String {
    let mut text = format!(
        "{} users with {} between pages",
        words::count(population.users.round() as u64),
        words::duration(population.think_s)
    );
    if (population.requests_per_page - 1.0).abs() > 1e-9 {
        text += &format!(" of {} requests", population.requests_per_page);
    }
    if (population.peak - 1.0).abs() > 1e-9 {
        text += &format!(", {} times that at the peak", population.peak);
    }
    text
}

/// Everything else that is one fact, each with its label.
pub(crate) fn facts(plan: &CapacityPlan) -> Vec<(&'static str, String)> {
    let demand = &plan.demand;
    let tiers: Vec<String> = demand
        .tiers_ms
        .iter()
        .filter(|(_, cpu_ms)| *cpu_ms >= 0.01)
        .map(|(layer, cpu_ms)| format!("{layer} {}", words::ms(Some(*cpu_ms))))
        .collect();
    let mut facts = vec![
        (
            "A request",
            format!(
                "{} of CPU ({}); {} when nearly alone, {} of it on the CPU",
                interval_ms(&demand.cpu_ms),
                if tiers.is_empty() {
                    "not divided by tier".to_owned()
                } else {
                    tiers.join(", ")
                },
                words::ms(Some(demand.response_ms)),
                words::ms(Some(demand.on_the_way_ms)),
            ),
        ),
        (
            "Saturates",
            format!(
                "at {} by {}: {} workers on {:.1} cores",
                words::rate(plan.saturation_hz),
                plan.bound_by,
                plan.workers,
                plan.cores
            ),
        ),
    ];
    facts.extend(plan.ports.map(|ports| ("Ports", last(&ports))));
    facts.extend(
        plan.speed_sd
            .and_then(wanders)
            .map(|said| ("Machine", said)),
    );
    facts.push((
        "p95",
        "that half of all stretches of a few seconds stay below, as half of them bear R*"
            .to_owned(),
    ));
    facts.extend(plan.hold_out.map(|kept| ("Test", test(&kept))));
    facts.extend(plan.verified.map(|verified| ("Verified", off(&verified))));
    facts.extend(plan.need.map(|need| ("Hosts", hosts(&need))));
    facts.extend(plan.need.map(|need| ("Each host", each_host(&need))));
    facts
}

/// Up to which rate local ports last.
fn last(ports: &Ports) -> String {
    format!(
        "a request closes {:.2} connections from {} to {}: half of its {} ports are taken after a minute at {}",
        ports.closed_per_request,
        ports.layer,
        ports.peer,
        words::count(ports.range as u64),
        words::rate(ports.lasting_hz())
    )
}

/// By how much the machine's speed wandered; `None` where it did not.
fn wanders(speed_sd: f64) -> Option<String> {
    (speed_sd > 0.0).then(|| {
        format!(
            "its speed wanders by {} from step to step, and the predictions are for one that does",
            words::share(speed_sd)
        )
    })
}

/// How far off the prediction was.
fn off(verified: &Verified) -> String {
    let limit = format!(
        "R* measured {}, {} predicted: {}",
        words::rate_interval(&verified.limit_hz),
        words::rate(verified.predicted_limit_hz),
        too(verified.limit_off())
    );
    let Some(p95_off) = verified.p95_off() else {
        return limit;
    };
    let before = format!(
        "{limit}; p95 at {} measured {} in the median step{}, {} predicted: {}",
        words::rate(verified.offered_hz),
        measured(verified),
        overall(verified),
        interval_ms(&verified.predicted_p95_ms),
        too(p95_off)
    );
    match turned(verified) {
        Some(turned) => format!("{before}. {turned}"),
        None => before,
    }
}

/// The measured p95, with its interval where that is known.
fn measured(verified: &Verified) -> String {
    let interval = verified.measured_p95_interval_ms.as_ref();
    interval.map_or_else(|| words::ms(verified.measured_p95_ms), interval_ms)
}

/// What the p95 was over all steps together, where that is known.
fn overall(verified: &Verified) -> String {
    let overall_ms = verified.measured_overall_p95_ms;
    overall_ms.map_or_else(String::new, |ms| {
        format!(" ({} over all of them)", words::ms(Some(ms)))
    })
}

/// The same of what low load in turns with it said.
fn turned(verified: &Verified) -> Option<String> {
    let turned = verified.turned()?;
    Some(format!(
        "From low load in turns with these, so that a machine that drifts does so for both: {} ({}) and {} ({}){}",
        words::rate(turned.predicted_limit_hz),
        too(turned.limit_off()),
        interval_ms(&turned.predicted_p95_ms),
        too(turned.p95_off()?),
        known(&turned)
    ))
}

/// How well the measured p95 is known on a machine that was as fast as low load said.
fn known(turned: &Verified) -> String {
    let interval = turned.measured_p95_interval_ms;
    interval.map_or_else(String::new, |it| {
        format!(
            "; as fast as the machine was then, what was measured is known to {} to {}",
            words::ms(Some(it.low)),
            words::ms(Some(it.high))
        )
    })
}

/// `6.2 % too high`.
fn too(off: f64) -> String {
    let way = if off < 0.0 { "low" } else { "high" };
    format!("{} too {way}", words::share(off.abs()))
}

fn test(kept: &HoldOut) -> String {
    format!(
        "{} was kept aside: p95 {} measured, {} predicted from the lower rates: {}",
        words::rate(kept.offered_hz),
        words::ms(Some(kept.measured_p95_ms)),
        words::ms(Some(kept.predicted_p95_ms)),
        if kept.hit { "hit" } else { "missed" }
    )
}

fn hosts(need: &Need) -> String {
    format!(
        "{} for {}, {} with one to spare",
        need.hosts,
        words::rate(need.rate_hz),
        need.hosts_with_spare
    )
}

fn each_host(need: &Need) -> String {
    let mut parts = vec![
        format!("at most {}", words::rate(need.per_host_hz)),
        format!("{:.1} cores busy", need.busy_cores),
        words::counted(u64::from(need.workers), "worker", "workers"),
    ];
    parts.extend(
        need.memory_bytes
            .map(|bytes| format!("{} for them", units::format_bytes(bytes as u64))),
    );
    let p95 = need.p95_ms.map_or_else(String::new, |p95| {
        format!("; p95 {} while none is down", interval_ms(&p95))
    });
    format!("{}{p95}", parts.join(", "))
}

/// One row for each rate: the rate, what was measured there, what is predicted.
pub(crate) fn rows(plan: &CapacityPlan) -> Vec<[String; 3]> {
    let measured = plan.points.iter().map(|point: &CapacityPoint| {
        let predicted = point.predicted_p95_ms.as_ref();
        [
            words::rate(point.offered_hz),
            words::ms(point.p95_ms),
            predicted.map_or_else(String::new, interval_ms),
        ]
    });
    let predicted = plan
        .curve
        .iter()
        .map(|(rate_hz, p95)| [words::rate(*rate_hz), "not driven".into(), interval_ms(p95)]);
    measured.chain(predicted).collect()
}

/// The headings of [`rows`].
pub(crate) const COLUMNS: [&str; 3] = ["rate", "p95 measured", "p95 predicted"];

/// `48.2 ms (44.0 to 53.1)`, each number with its unit where they differ; without a range where there is none.
fn interval_ms(interval: &Interval) -> String {
    let ms = |value: f64| {
        if value.is_finite() {
            words::ms(Some(value))
        } else {
            "beyond the timeout".into()
        }
    };
    if interval.low >= interval.high {
        return ms(interval.estimate);
    }
    format!(
        "{} ({} to {})",
        ms(interval.estimate),
        ms(interval.low),
        ms(interval.high)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::plain;
    use kneepoint_model::capacity::{Demand, InTurns};
    use kneepoint_model::run::LimitResult;
    use kneepoint_model::{Layer, Run};

    fn interval(low: f64, estimate: f64, high: f64) -> Interval {
        Interval {
            low,
            estimate,
            high,
        }
    }

    fn ports() -> Ports {
        Ports {
            layer: Layer::Php,
            peer: Layer::Db,
            closed_per_request: 1.5,
            range: 28_232.0,
        }
    }

    fn planned() -> CapacityPlan {
        CapacityPlan {
            points: vec![CapacityPoint {
                offered_hz: 40.0,
                arrivals: 1200,
                p95_ms: Some(21.0),
                predicted_p95_ms: Some(interval(19.0, 20.0, 22.0)),
                busy_cores: 0.7,
                stolen_cores: 0.0,
            }],
            demand: Demand {
                cpu_ms: interval(17.0, 18.0, 19.0),
                tiers_ms: vec![(Layer::Php, 12.0), (Layer::Cache, 0.001)],
                response_ms: 16.0,
                on_the_way_ms: 13.0,
                worker_memory_bytes: Some(2e7),
            },
            workers: 10,
            cores: 1.9,
            saturation_hz: 105.0,
            bound_by: "the CPU".into(),
            speed_sd: Some(0.05),
            ports: Some(ports()),
            limit_hz: interval(90.0, 98.0, 103.0),
            measured_up_to: 0.53,
            curve: vec![(98.0, interval(180.0, 250.0, f64::INFINITY))],
            hold_out: Some(HoldOut {
                offered_hz: 52.0,
                measured_p95_ms: 25.0,
                predicted_p95_ms: 24.0,
                hit: true,
            }),
            need: Some(Need {
                rate_hz: 333.0,
                population: Some(Population {
                    users: 10_000.0,
                    think_s: 30.0,
                    requests_per_page: 1.0,
                    peak: 1.0,
                }),
                per_host_hz: 72.0,
                hosts: 5,
                hosts_with_spare: 6,
                p95_ms: Some(interval(24.0, 26.0, 30.0)),
                busy_cores: 1.2,
                workers: 3,
                memory_bytes: Some(6e7),
            }),
            verified: Some(Verified {
                predicted_limit_hz: 98.0,
                limit_hz: interval(94.0, 100.0, 106.0),
                offered_hz: 80.0,
                measured_p95_ms: Some(40.0),
                measured_p95_interval_ms: Some(interval(37.0, 40.0, 44.0)),
                measured_overall_p95_ms: Some(46.0),
                predicted_p95_ms: interval(42.0, 44.0, 46.0),
                in_turns: Some(InTurns {
                    measured_up_to_hz: 52.0,
                    speed_sd: Some(0.05),
                    limit_hz: interval(96.0, 101.0, 106.0),
                    p95_ms: interval(40.0, 42.0, 44.0),
                    measured_p95_interval_ms: Some(interval(38.0, 40.0, 42.5)),
                }),
            }),
            doubts: Vec::new(),
        }
    }

    /// What one of the facts says.
    fn fact(label: &str) -> String {
        let facts = facts(&planned());
        let found = facts.iter().find(|(it, _)| *it == label);
        plain(&found.expect("it is told").1)
    }

    #[test]
    fn how_far_off_it_was_is_said_with_its_direction() {
        assert_eq!(
            fact("Verified"),
            "R* measured 100/s (94.0 to 106), 98.0/s predicted: 2.0 % too low; p95 at 80.0/s measured 40.0 ms (37.0 \
             ms to 44.0 ms) in the median step (46.0 ms over all of them), 44.0 ms (42.0 ms to 46.0 ms) predicted: 10 % too high. From low \
             load in turns with these, so that a machine that drifts does so for both: 101/s (1.0 % too high) and 42.0 ms (40.0 ms to 44.0 ms) (5.0 % too high); \
             as fast as the machine was then, what was measured is known to 38.0 ms to 42.5 ms"
        );
    }

    #[test]
    fn ports_that_are_used_up_are_told_with_the_rate_they_last_for() {
        assert_eq!(
            fact("Ports"),
            "a request closes 1.50 connections from php to db: half of its 28 232 ports are taken after a minute at 157/s"
        );
    }

    #[test]
    fn what_was_asked_for_comes_first() {
        assert_eq!(
            plain(&sentence(&planned())),
            "10 000 users with 30 s between pages: 333/s needs 5 hosts such as this one, 6 with one to spare. R* is \
             predicted at 98.0/s (90.0 to 103), from no more than 53 % of it."
        );
    }

    #[test]
    fn a_plan_that_was_verified_still_says_first_what_was_asked_for() {
        let run = Run {
            command: "plan".into(),
            capacity: Some(planned()),
            limits: vec![LimitResult {
                arm: "base".into(),
                rate_hz: interval(94.0, 100.0, 106.0),
                ..LimitResult::default()
            }],
            ..Run::default()
        };
        let told = crate::summarise(&run);
        assert_eq!(told.outcome, crate::RunOutcome::Plan);
        assert_eq!(told.verdict, plain(&sentence(&planned())));
        assert_eq!(fact("Hosts"), "5 for 333/s, 6 with one to spare");
    }

    #[test]
    fn what_lies_beyond_the_timeout_is_no_number() {
        let rows = rows(&planned());
        assert_eq!(rows.len(), 2);
        assert_eq!(plain(&rows[1][2]), "250 ms (180 ms to beyond the timeout)");
        let facts = facts(&planned());
        assert!(facts[0].1.contains("php"), "{facts:?}");
        assert!(
            !facts[0].1.contains("cache"),
            "too little to tell: {facts:?}"
        );
    }
}
