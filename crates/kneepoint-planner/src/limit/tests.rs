mod alone;
mod budget;
mod others;
mod steps;
mod visits;

use super::*;
use crate::bench::Bench;
use crate::simulated::{App, Noise, SimulatedStack, Truth, truth};
use kneepoint_model::Validity;
use kneepoint_model::run::Bound;
use std::sync::OnceLock;

fn stack(noise: Noise, seed: u64) -> SimulatedStack {
    SimulatedStack::new(App::default(), SimulatedStack::usual_slo(), noise, seed)
}

/// What is true of the stack without noise.
fn known() -> Truth {
    static KNOWN: OnceLock<Truth> = OnceLock::new();
    let slo = SimulatedStack::usual_slo();
    *KNOWN.get_or_init(|| truth(&App::default(), &slo, Noise::none(), 200, 1))
}

/// Searches with every point changed on its way; returns the result.
fn search_with(
    stack: &mut SimulatedStack,
    options: LimitOptions,
    mut change: impl FnMut(&Step, &mut LoadPoint),
) -> LimitResult {
    let mut search = LimitSearch::new(stack.slo().clone(), options);
    while let LimitMove::Measure(step) = search.next_move() {
        let (mut point, canary) = stack
            .measure_with_canary("base", &step)
            .expect("a simulated stack does not fail");
        change(&step, &mut point);
        search.record(&point, canary);
    }
    search.result("base")
}

fn search(stack: &mut SimulatedStack, options: LimitOptions) -> LimitResult {
    search_with(stack, options, |_, _| {})
}

#[test]
fn the_limit_of_a_simulated_stack_is_found_at_every_noise() {
    for noise in [Noise::quiet(), Noise::medium(), Noise::high()] {
        let mut within = 0;
        for seed in 0..8 {
            let options = LimitOptions {
                seed: seed * 1000,
                ..LimitOptions::thorough(32)
            };
            let found = search(&mut stack(noise, seed), options);
            let at_reference = found.reference_hz.expect("there is a canary");
            let off = at_reference.estimate / known().limit_hz - 1.0;
            assert!(off.abs() < 0.06, "{off} {found:?}");
            within += u32::from(at_reference.contains(known().limit_hz));
            let limits = found.noise.expect("it says how noisy it was");
            assert!(!width::too_wide(&at_reference), "{found:?}");
            let says_little = width::too_wide(&found.rate_hz);
            assert_eq!(limits.too_noisy, says_little, "{found:?}");
            assert!(!limits.too_noisy || noise != Noise::quiet(), "{found:?}");
        }
        assert!(within >= 6, "{within} of 8 intervals cover at {noise:?}");
    }
}

/// Without a canary a machine that drifts is still searched, and the interval says less.
#[test]
fn a_bench_without_a_canary_gives_no_reference() {
    let mut search = LimitSearch::new(
        SimulatedStack::usual_slo(),
        LimitOptions::within(Duration::from_secs(120), 32),
    );
    let mut stack = stack(Noise::medium(), 3);
    while let LimitMove::Measure(step) = search.next_move() {
        let point = stack.measure("base", &step).expect("it does not fail");
        search.record(&point, Canary::default());
    }
    let found = search.result("base");
    assert_eq!(found.reference_hz, None);
    assert!(found.speeds.is_empty());
    assert!(
        (found.rate_hz.estimate / known().limit_hz - 1.0).abs() < 0.12,
        "{found:?}"
    );
    assert_eq!(found.noise.map(|noise| noise.speed_exponent), Some(0.0));
}

/// On a shared machine the canary hardly moves while a request takes a tenth more or less.
#[test]
fn where_the_canary_is_blind_the_requests_say_how_fast_the_machine_was() {
    let mut within = 0;
    for seed in 0..8 {
        let options = LimitOptions {
            seed: seed * 1000,
            ..LimitOptions::thorough(32)
        };
        let mut search = LimitSearch::new(SimulatedStack::usual_slo(), options);
        let mut stack = stack(Noise::high(), seed);
        while let LimitMove::Measure(step) = search.next_move() {
            let point = stack.measure("base", &step).expect("it does not fail");
            let blind = Canary {
                before: Some(1.0),
                after: Some(1.0),
            };
            search.record(&point, blind);
        }
        let found = search.result("base");
        let noise = found.noise.expect("it says how noisy it was");
        assert!(noise.speed_sd.is_some_and(|sd| sd > 0.02), "{noise:?}");
        assert!(noise.speed_exponent > 0.7, "{noise:?}");
        assert!(noise.cpu_ms.is_some(), "{noise:?}");
        within += u32::from(found.rate_hz.contains(known().limit_hz));
    }
    assert!(within >= 6, "{within} of 8 intervals cover");
}

/// A server that drops what it has no room for wastes most of a closed loop: what is left says little.
#[test]
fn a_closed_loop_that_mostly_failed_does_not_bound_the_search() {
    let mut stack = stack(Noise::none(), 11);
    let options = LimitOptions::within(Duration::from_secs(80), 32);
    let found = search_with(&mut stack, options, |step, point| {
        if step.purpose == "limit: saturate" {
            let kept = point.outcomes.of(Outcome::Ok) / 10;
            let lost = point.outcomes.of(Outcome::Ok) - kept;
            point.outcomes.by_outcome.insert(Outcome::Ok, kept);
            point.outcomes.by_outcome.insert(Outcome::Reset, lost);
        }
    });
    let found = found.rate_hz;
    assert!(
        (found.estimate / known().limit_hz - 1.0).abs() < 0.1,
        "{:?}: {found:?}",
        known()
    );
}

#[test]
fn a_stack_that_chokes_on_many_requests_at_once_has_a_limit_all_the_same() {
    let mut stack = stack(Noise::none(), 11);
    let options = LimitOptions::within(Duration::from_secs(120), 32);
    let found = search_with(&mut stack, options, |step, point| {
        if step.purpose == "limit: saturate" {
            let lost = point.outcomes.of(Outcome::Ok);
            point.outcomes.by_outcome.clear();
            point.outcomes.by_outcome.insert(Outcome::Timeout, lost);
        }
    });
    assert!(
        found.warnings[0].contains("begins with one at a time"),
        "{:?}",
        found.warnings
    );
    let found = found.rate_hz;
    assert!(
        (found.estimate / known().limit_hz - 1.0).abs() < 0.1,
        "{:?}: {found:?}",
        known()
    );
}

#[test]
fn a_stack_that_serves_nothing_has_no_limit() {
    let mut app = App::default();
    // Every request takes longer than its timeout.
    app.kinds.iter_mut().for_each(|kind| kind.wait_s = 100.0);
    let mut stack = SimulatedStack::new(app, SimulatedStack::usual_slo(), Noise::none(), 1);
    let found = search(&mut stack, LimitOptions::within(Duration::from_secs(30), 8));
    assert_eq!(found.rate_hz, Interval::default());
    assert!(
        found.warnings[1].contains("serves nothing"),
        "{:?}",
        found.warnings
    );
}

#[test]
fn a_limit_that_does_not_hold_for_long_is_lowered_below_the_rate_that_failed() {
    let mut failed_at = None;
    let options = LimitOptions::within(Duration::from_secs(40), 32);
    let found = search_with(&mut stack(Noise::none(), 5), options, |step, point| {
        if step.purpose == "limit: soak" && failed_at.is_none() {
            failed_at = Some(point.offered_hz);
            point.good = 0;
        }
    });
    let (found, failed_at) = (found.rate_hz, failed_at.expect("a soak"));
    assert!(
        found.low <= found.estimate && found.estimate <= found.high,
        "{found:?}"
    );
    assert!(
        found.estimate < failed_at && found.high <= failed_at * 1.001,
        "{found:?} {failed_at}"
    );
}

/// One step down from a load that drowned would drown as well.
#[test]
fn a_soak_that_failed_badly_is_repeated_at_a_much_lower_rate() {
    let lowered = |late_share: f64| {
        let mut rates = Vec::new();
        let options = LimitOptions::within(Duration::from_secs(60), 32);
        search_with(&mut stack(Noise::none(), 6), options, |step, point| {
            if step.purpose == "limit: soak" {
                point.good = point.arrivals;
                if rates.is_empty() {
                    point.good -= (point.arrivals as f64 * late_share) as u64;
                }
                rates.push(point.offered_hz);
            }
        });
        assert_eq!(rates.len(), 2);
        rates[1] / rates[0]
    };
    let (little, badly) = (lowered(0.3), lowered(0.95));
    assert!(badly < little && badly < 0.92, "{badly} {little}");
    assert!(badly > 0.7, "{badly}");
}

/// A soak that comes out a little over the goal is what single stretches do: R* stays, and is confirmed lower.
#[test]
fn a_soak_that_fails_by_chance_is_repeated_lower() {
    // The canary is right, so that no failure is laid at the machine's door.
    let noise = Noise {
        canary_error: 0.0,
        ..Noise::none()
    };
    let run = |fail: bool| {
        let mut soaks = 0;
        let options = LimitOptions::within(Duration::from_secs(60), 32);
        let found = search_with(&mut stack(noise, 6), options, |step, point| {
            if step.purpose == "limit: soak" {
                soaks += 1;
                point.good = point.arrivals;
                if fail && soaks == 1 {
                    point.good -= point.arrivals * 6 / 100;
                }
            }
        });
        (found, soaks)
    };
    let ((held, one), (failed, two)) = (run(false), run(true));
    assert_eq!((one, two), (1, 2));
    assert_eq!(failed.rate_hz, held.rate_hz);
    assert!(failed.soak_hz < held.soak_hz && failed.soak_held);
    assert!(
        failed
            .warnings
            .iter()
            .any(|text| text.contains("confirmed at a lower rate"))
    );
}

/// What short steps cannot see: connections use up ports, and after so many of them nothing is answered any more.
#[test]
fn a_limit_is_lowered_when_two_soaks_drown_after_as_many_requests() {
    // Makes soaks drown after so many requests, all that are left where there are no more, and tells what it said of each.
    let run = |bears: &[u64]| {
        let mut bears = bears.iter();
        let options = LimitOptions::within(Duration::from_secs(120), 32);
        search_with(&mut stack(Noise::none(), 6), options, |step, point| {
            if step.purpose != "limit: soak" {
                return;
            }
            let mut left = bears.next().copied().unwrap_or(u64::MAX);
            for second in &mut point.seconds {
                left = left.saturating_sub(second.offered);
                // A third of what comes is late: few enough over the whole stretch to be chance.
                second.good = if left > 0 {
                    second.offered
                } else {
                    second.offered * 2 / 3
                };
            }
            point.good = point
                .seconds
                .iter()
                .map(|it| it.good)
                .sum::<u64>()
                .min(point.arrivals);
        })
    };
    let said = |found: &LimitResult, nth: usize| found.warnings[nth].contains("something fills up");
    let bears = (15.0 * known().limit_hz) as u64;
    let alike = run(&[bears, bears]);
    assert!(!said(&alike, 0) && said(&alike, 1), "{:?}", alike.warnings);
    let held = run(&[]);
    assert!(
        alike.rate_hz.estimate < 0.97 * held.rate_hz.estimate,
        "{alike:?}"
    );
    let apart = run(&[bears, bears / 4 * 3]);
    assert!((0..2).all(|nth| !said(&apart, nth)), "{:?}", apart.warnings);
}

/// Timeouts that bind are called so, and errors, be they few or more than the goal of time bears.
#[test]
fn the_goal_that_binds_is_named() {
    let found = |outcome, one_in: u64| {
        let options = LimitOptions::within(Duration::from_secs(60), 32).unconfirmed();
        search_with(&mut stack(Noise::none(), 7), options, |step, point| {
            // Some requests fail from 200/s on, long before any is late.
            if point.offered_hz > 200.0 && step.purpose == "limit: step" {
                let failed = point.arrivals / one_in;
                point
                    .outcomes
                    .by_outcome
                    .insert(Outcome::Ok, point.arrivals - failed);
                point.outcomes.by_outcome.insert(outcome, failed);
                point.good = point.arrivals - failed;
                let us = if outcome == Outcome::Timeout {
                    2_000_000
                } else {
                    1_000
                };
                (0..failed).for_each(|_| point.failed_response.record_us(us));
            }
        })
    };
    assert_eq!(found(Outcome::Timeout, 50).bound_by, Bound::Timeout);
    for one_in in [50, 12, 6] {
        let found = found(Outcome::HttpError, one_in);
        assert_eq!(found.bound_by, Bound::Errors, "one in {one_in}");
        let limit_hz = found.rate_hz.estimate;
        assert!(limit_hz < 220.0, "one in {one_in}: {limit_hz}");
    }
    let options = LimitOptions::within(Duration::from_secs(60), 32);
    assert_eq!(
        search(&mut stack(Noise::none(), 8), options).bound_by,
        Bound::ResponseTime(95.0)
    );
}

#[test]
fn the_search_ends_within_its_load_time_and_its_soaks() {
    let mut stack = stack(Noise::high(), 3);
    let options = LimitOptions::within(Duration::from_secs(40), 32);
    let allowed = options.load_time + options.step_max + options.soak * 4;
    let found = search(&mut stack, options);
    assert!(
        stack.driven() <= allowed,
        "{:?} of {allowed:?}",
        stack.driven()
    );
    assert!(
        (found.load_s - stack.driven().as_secs_f64()).abs() < 1.0,
        "{found:?}"
    );
}

/// Six steps at a time may fall into half a minute in which something else uses the machine: those after it count.
#[test]
fn what_disturbs_for_a_while_does_not_end_the_search() {
    let with = |disturbed: std::ops::Range<usize>, seed: u64| {
        let (mut nth, mut stack) = (0, stack(Noise::none(), seed));
        let options = LimitOptions::within(Duration::from_secs(180), 32);
        let found = search_with(&mut stack, options, |step, point| {
            if step.purpose == "limit: step" && disturbed.contains(&nth) {
                let because = vec!["something else used the machine".to_owned()];
                point.validity = Validity::Invalid { because };
            }
            nth += 1;
        });
        (found, stack.driven())
    };
    let covers = (1..=20).filter(|seed| {
        let (found, _) = with(3..11, *seed);
        assert!(found.steps.len() >= 6, "{found:?}");
        found.rate_hz.contains(known().limit_hz)
    });
    let covers = covers.count();
    assert!(covers >= 18, "{covers} of 20 intervals");
    let (found, driven) = with(3..1000, 6);
    assert!(found.steps.len() == 2, "{found:?}");
    assert!(found.warnings[0].contains("were invalid"), "{found:?}");
    assert!(driven < Duration::from_secs(120), "{driven:?}");
}

/// A generator that was not sound says nothing of the stack: the same rate is measured again.
#[test]
fn a_soak_in_which_the_generator_was_late_lowers_nothing() {
    let run = |late: bool| {
        let mut rates = Vec::new();
        let options = LimitOptions::within(Duration::from_secs(60), 32);
        let found = search_with(&mut stack(Noise::none(), 6), options, |step, point| {
            if step.purpose == "limit: soak" {
                point.good = point.arrivals;
                if late && rates.is_empty() {
                    let because = vec!["the generator was late".to_owned()];
                    point.validity = Validity::Invalid { because };
                }
                rates.push(point.offered_hz);
            }
        });
        (found.rate_hz, rates)
    };
    let ((sound, once), (doubted, twice)) = (run(false), run(true));
    assert_eq!((once.len(), twice.len()), (1, 2));
    assert!((twice[0] - twice[1]).abs() < 1e-9, "{twice:?}");
    assert_eq!(sound, doubted);
}

/// A stretch that drowned beside other programs is told apart from one on a machine that had slowed.
#[test]
fn what_others_took_of_a_stretch_is_not_called_a_slow_machine() {
    let check = |change: fn(&mut LoadPoint), expected: &str| {
        let options = LimitOptions::within(Duration::from_secs(60), 32);
        let mut soaks = 0;
        let found = search_with(&mut stack(Noise::none(), 6), options, |step, point| {
            if step.purpose == "limit: soak" {
                soaks += 1;
                if soaks == 1 {
                    point.good = point.arrivals / 2;
                    change(point);
                }
            }
        });
        let told = found.warnings.iter().any(|text| text.starts_with(expected));
        assert!(told, "{:?}", found.warnings);
    };
    check(
        |point| point.health.foreign_share = Some(0.3),
        "other programs took part of the machine",
    );
    check(
        |point| point.health.steal_share = Some(0.3),
        "the host took part of the machine's time",
    );
    check(
        |point| point.cpu_ms = point.cpu_ms.map(|ms| ms * 1.3),
        "the machine had slowed",
    );
}

/// Where nothing was seen to hold, the interval reaches below the lowest rate that was tried.
#[test]
fn a_limit_that_is_never_confirmed_says_so() {
    let mut tried = Vec::new();
    let options = LimitOptions::within(Duration::from_secs(60), 32);
    let found = search_with(&mut stack(Noise::none(), 6), options, |step, point| {
        if step.purpose == "limit: soak" {
            tried.push(point.offered_hz);
            point.good = 0;
        }
    });
    let lowest = tried.last().copied().expect("a soak");
    assert!(!found.soak_held && found.rate_hz.low < lowest, "{found:?}");
    assert!(
        found
            .warnings
            .iter()
            .any(|text| text.contains("not confirmed")),
        "{:?}",
        found.warnings
    );
}

/// Poisson arrivals are more at times and fewer at others, and so is the load.
#[test]
fn a_step_counts_at_the_rate_it_drew_unless_it_ended_early() {
    let mut point = LoadPoint {
        offered_hz: 100.0,
        window_s: 4.0,
        arrivals: 440,
        ..LoadPoint::default()
    };
    assert!((drawn_hz(&point) - 110.0).abs() < 1e-9);
    point.aborted = true;
    assert!((drawn_hz(&point) - 100.0).abs() < 1e-9);
    assert!(drawn_hz(&LoadPoint::default()).abs() < 1e-9);
}
