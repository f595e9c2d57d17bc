use super::*;
use crate::bench::Bench;
use crate::simulated::{App, Noise, SimulatedStack, truth};
use std::sync::OnceLock;

fn limit_hz() -> f64 {
    static KNOWN: OnceLock<f64> = OnceLock::new();
    let slo = SimulatedStack::usual_slo();
    *KNOWN.get_or_init(|| truth(&App::default(), &slo, Noise::none(), 120, 1).limit_hz)
}

fn options(measure: AbMeasure, seed: u64) -> AbOptions {
    AbOptions {
        measure,
        max_pairs: 24,
        min_pairs: MIN_PAIRS,
        enough: ENOUGH,
        at_once: true,
        not_worse: None,
        step: Duration::from_secs(3),
        rope: 0.02,
        seed,
    }
}

/// The test on an arm and the same arm made faster, on one machine of medium noise.
fn compare(faster: f64, measure: AbMeasure, seed: u64) -> (Verdict, Effect) {
    compare_on(Noise::medium(), faster, measure, seed)
}

fn compare_on(noise: Noise, faster: f64, measure: AbMeasure, seed: u64) -> (Verdict, Effect) {
    let slo = SimulatedStack::usual_slo();
    let mut stack = SimulatedStack::new(App::default(), slo, noise, seed)
        .with_arm("b", App::default().faster(faster));
    let mut test = AbTest::new(options(measure, seed));
    loop {
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
            AbMove::Done => return (test.verdict(), test.effect("change", &[])),
        }
    }
}

fn at(rate_hz: f64) -> AbMeasure {
    AbMeasure::AtRate {
        rate_hz,
        slope: 25.0,
        speed_exponent: 1.0,
    }
}

/// Records pairs in which the arm with the change serves so many times as much.
fn pairs_of(test: &mut AbTest, ratios: impl IntoIterator<Item = f64>) {
    for ratio in ratios {
        for _ in 0..2 {
            let AbMove::Measure(side, _) = test.next_move() else {
                return;
            };
            let ok = if side == Side::A {
                1000.0
            } else {
                1000.0 * ratio
            };
            test.record(side, &throughput(ok as u64), Canary::default());
        }
    }
}

#[test]
fn a_decided_test_goes_on_for_a_few_pairs_to_hold_among_others() {
    let scattered = || [1.1, 1.3].into_iter().cycle();
    let mut alone = AbTest::new(options(SATURATED, 1));
    pairs_of(&mut alone, scattered());
    let among = AbOptions {
        enough: 1e6 * ENOUGH,
        ..options(SATURATED, 1)
    };
    let mut among = AbTest::new(among);
    pairs_of(&mut among, scattered());
    assert_eq!(alone.verdict(), Verdict::Better);
    assert_eq!(among.verdict(), Verdict::Better);
    assert_eq!(among.pairs(), alone.pairs() + MORE_PAIRS);
}

const SATURATED: AbMeasure = AbMeasure::Saturation { workers: 32 };

#[test]
fn a_large_gain_is_seen_in_the_fewest_pairs() {
    let (verdict, effect) = compare(5.0, SATURATED, 1);
    assert_eq!(verdict, Verdict::Better);
    assert_eq!(effect.pairs as usize, MIN_PAIRS);
    let ratio = effect.ratio.expect("pairs enough");
    assert!((4.0..6.0).contains(&ratio.estimate), "{ratio:?}");
    assert!(ratio.contains(5.0) && ratio.low > LARGE, "{ratio:?}");
}

#[test]
fn a_gain_of_ten_percent_is_seen_at_the_limit() {
    let found = (0..10)
        .filter(|seed| compare(1.10, at(limit_hz()), *seed).0 == Verdict::Better)
        .count();
    assert!(found >= 7, "{found} of 10");
}

#[test]
fn a_factor_beyond_what_one_rate_can_tell_is_called_the_least_it_can_be() {
    let beyond = |faster: f64| {
        let told = (0..5).filter(|seed| {
            let (verdict, effect) = compare(faster, at(limit_hz()), *seed);
            verdict == Verdict::Better && effect.conditions.contains("farther from 1")
        });
        told.count()
    };
    assert_eq!((beyond(5.0), beyond(1.06)), (5, 0));
    // Where one is drowned and the other hardly feels it, too.
    let drowned = compare(50.0, at(1.3 * limit_hz()), 1).1.conditions;
    assert!(drowned.contains("farther from 1"), "{drowned}");
}

#[test]
fn two_equal_arms_rarely_differ_at_the_limit() {
    let differ = |seed| {
        let verdict = compare(1.0, at(limit_hz()), seed).0;
        matches!(verdict, Verdict::Better | Verdict::Worse)
    };
    let differing = (0..40).filter(|seed| differ(*seed)).count();
    assert!(differing <= 5, "{differing} of 40");
}

#[test]
fn two_equal_arms_rarely_differ_at_saturation() {
    let differ = |seed| {
        matches!(
            compare(1.0, SATURATED, seed).0,
            Verdict::Better | Verdict::Worse
        )
    };
    let differing = (0..40).filter(|seed| differ(*seed)).count();
    assert!(differing <= 5, "{differing} of 40");
}

/// At a rate that neither arm violates the two look alike, however different they are.
#[test]
fn arms_that_are_both_well_are_not_called_equivalent() {
    let (verdict, _) = compare(1.5, at(limit_hz() / 6.0), 3);
    assert_eq!(verdict, Verdict::Inconclusive);
}

/// What R* was taken for may be far off: the rate is raised until it tells.
#[test]
fn a_rate_far_below_the_limit_is_raised_until_it_tells() {
    let (verdict, _) = compare(1.5, at(limit_hz() / 2.0), 3);
    assert_eq!(verdict, Verdict::Better);
}

/// Hands the same two points to a test until it ends; returns it.
fn fed(a: &LoadPoint, b: &LoadPoint, speeds: (Option<f64>, Option<f64>)) -> AbTest {
    let mut test = AbTest::new(options(SATURATED, 1));
    let mut asked = 0;
    while let AbMove::Measure(side, _) = test.next_move() {
        let (point, speed) = if side == Side::A {
            (a, speeds.0)
        } else {
            (b, speeds.1)
        };
        let canary = Canary {
            before: speed,
            after: speed,
        };
        test.record(side, point, canary);
        asked += 1;
        assert!(asked < 100, "it must end");
    }
    test
}

fn throughput(ok: u64) -> LoadPoint {
    let mut point = LoadPoint {
        window_s: 1.0,
        arrivals: ok,
        ..LoadPoint::default()
    };
    point
        .outcomes
        .by_outcome
        .insert(kneepoint_model::Outcome::Ok, ok);
    point
}

#[test]
fn invalid_steps_void_their_pair_and_end_the_test_in_the_end() {
    let invalid = LoadPoint {
        validity: kneepoint_model::Validity::Invalid {
            because: vec!["lag".into()],
        },
        ..LoadPoint::default()
    };
    let test = fed(&invalid, &throughput(100), (None, None));
    assert_eq!(test.verdict(), Verdict::Inconclusive);
    let effect = test.effect("x", &[]);
    assert_eq!(effect.pairs, 0);
    assert!(effect.void_pairs > 1, "{effect:?}");
    let told = format!(", {} pairs thrown away", effect.void_pairs);
    assert!(effect.conditions.ends_with(&told), "{effect:?}");
    assert!(effect.was_measured(), "it was tried");
}

#[test]
fn steps_of_both_that_are_given_up_are_said() {
    let mut test = AbTest::new(options(SATURATED, 1));
    // What a request took of the CPU is not known of it.
    let mut point = throughput(1000);
    point.health.idle_share = Some(0.02);
    for _ in 0..7 {
        match test.next_move() {
            AbMove::Measure(side, _) => test.record(side, &point, Canary::default()),
            AbMove::Both(..) => test.record_both(&point, &point),
            AbMove::Done => break,
        }
    }
    let told = test.effect("x", &[]).conditions;
    let expected = ", 3 pairs thrown away, no more steps of both at once after 3 in a row";
    assert!(told.contains(expected), "{told}");
    assert!(matches!(test.next_move(), AbMove::Measure(..)), "{told}");
}

#[test]
fn a_machine_that_shifts_or_is_stolen_from_voids_no_pair() {
    for speeds in [(1.0, 0.85), (0.85, 1.0)] {
        let speeds = (Some(speeds.0), Some(speeds.1));
        let effect = fed(&throughput(100), &throughput(200), speeds).effect("x", &[]);
        assert_eq!((effect.void_pairs, effect.verdict), (0, Verdict::Better));
    }
    let mut stolen = throughput(100);
    stolen.health.steal_share = Some(0.2);
    stolen.health.foreign_share = Some(0.3);
    let effect = fed(&stolen, &throughput(300), (None, None)).effect("x", &[]);
    assert_eq!((effect.void_pairs, effect.verdict), (0, Verdict::Better));
}

/// Beside other programs that come and go a factor of two is as clear as on a quiet machine, and equal arms are equal.
#[test]
fn other_programs_neither_hide_a_change_nor_make_one() {
    for seed in 0..8 {
        let (verdict, effect) = compare_on(Noise::busy(), 2.5, SATURATED, seed);
        assert_eq!(verdict, Verdict::Better, "{effect:?}");
        assert!(effect.pairs <= 6, "{effect:?}");
    }
    let differ = |seed| {
        let (verdict, _) = compare_on(Noise::busy(), 1.0, SATURATED, seed);
        matches!(verdict, Verdict::Better | Verdict::Worse)
    };
    let differing = (0..40).filter(|seed| differ(*seed)).count();
    assert!(differing <= 5, "{differing} of 40");
}

#[test]
fn an_effect_without_pairs_has_no_number() {
    let effect = AbTest::new(options(SATURATED, 1)).effect("x", &[]);
    assert_eq!((effect.ratio, effect.smallest_visible), (None, None));
    assert_eq!(effect.verdict, Verdict::Inconclusive);
}

#[test]
fn a_change_is_no_better_when_it_is_shown_to_gain_little() {
    let mut test = AbTest::new(options(SATURATED, 1));
    pairs_of(
        &mut test,
        [0.97, 1.05, 1.03, 0.99].into_iter().cycle().take(40),
    );
    assert_eq!(
        test.verdict(),
        Verdict::NoBetter,
        "{:?}",
        test.effect("", &[])
    );
}

#[test]
fn the_rate_follows_the_machine_and_is_one_within_a_pair() {
    let rates = rates_offered([1.0, 0.9, 0.88, 1.1, 1.1].map(|speed| (speed, 88)));
    assert_eq!(rates, [100.0, 100.0, 100.0, 88.0, 88.0]);
}

#[test]
fn the_rate_follows_what_the_pair_before_said() {
    let drowned = rates_offered([88, 60, 10, 88, 88].map(|good| (1.0, good)));
    assert_eq!(drowned, [100.0, 100.0, 100.0, 97.0, 97.0]);
    let idle = rates_offered([88, 100, 99, 88, 88].map(|good| (1.0, good)));
    assert_eq!(idle, [100.0, 100.0, 100.0, 103.0, 103.0]);
}

/// The rates of steps between which the machine has these speeds, and of whose 100 arrivals so many are good.
fn rates_offered<const N: usize>(steps: [(f64, u64); N]) -> Vec<f64> {
    let mut test = AbTest::new(options(at(100.0), 1));
    let mut point = throughput(100);
    let mut rates = Vec::new();
    for (speed, good) in steps {
        point.good = good;
        let AbMove::Measure(side, step) = test.next_move() else {
            break;
        };
        if let crate::bench::Offer::Rate(rate_hz) = step.offer {
            rates.push(rate_hz.round());
        }
        let canary = Canary {
            before: Some(speed),
            after: Some(speed),
        };
        test.record(side, &point, canary);
    }
    rates
}

/// A step of 100 requests of which so many failed, and so many more were late.
fn violating(failed: u64, late: u64) -> LoadPoint {
    let mut point = throughput(100 - failed);
    point.arrivals = 100;
    point.good = 100 - failed - late;
    let outcomes = &mut point.outcomes.by_outcome;
    outcomes.insert(kneepoint_model::Outcome::HttpError, failed);
    point
}

/// A comparison at one rate of arms that do this in each step.
fn at_one_rate(a: &LoadPoint, b: &LoadPoint) -> AbTest {
    let mut test = AbTest::new(options(at(100.0), 1));
    while let AbMove::Measure(side, _) = test.next_move() {
        let point = if side == Side::A { a } else { b };
        test.record(side, point, Canary::default());
    }
    test
}

#[test]
fn a_remedy_that_ends_errors_wins_at_one_rate_and_one_that_refuses_more_does_not() {
    let ends_errors = at_one_rate(&violating(15, 0), &violating(0, 3));
    assert_eq!(ends_errors.verdict(), Verdict::Better);
    let told = ends_errors.effect("x", &[]).conditions;
    let expected = ", and more requests failed without the change than with it";
    assert!(told.ends_with(expected), "{told}");
    // What was late is refused instead: fewer violate the SLO, and more are turned away.
    let refuses = at_one_rate(&violating(0, 15), &violating(5, 0));
    assert_eq!(refuses.verdict(), Verdict::Inconclusive);
    let told = refuses.effect("x", &[]).conditions;
    assert!(
        told.contains("more requests failed with the change"),
        "{told}"
    );
}

#[test]
fn an_a_a_takes_all_the_pairs_it_was_given() {
    let mut test = AbTest::new(AbOptions {
        max_pairs: 12,
        min_pairs: 12,
        ..options(SATURATED, 1)
    });
    while let AbMove::Measure(side, _) = test.next_move() {
        let ok = if side == Side::A { 1000 } else { 1001 };
        test.record(side, &throughput(ok), Canary::default());
    }
    assert_eq!(test.effect("A/A", &[]).pairs, 12);
}

#[test]
fn a_change_that_must_only_not_lose_ends_when_that_is_shown() {
    let not_worse = AbOptions {
        not_worse: Some(0.02),
        ..options(SATURATED, 1)
    };
    // By 1 % to 5 % better: not equivalent, and not shown to be better either.
    let ratios = || [1.01, 1.05].into_iter().cycle();
    let mut asked = AbTest::new(not_worse.clone());
    pairs_of(&mut asked, ratios().take(40));
    assert!(asked.pairs() < 12, "{} pairs", asked.pairs());
    let low = |test: &AbTest| test.effect("", &[]).ratio.expect("pairs").low;
    assert!(low(&asked) > 0.98);

    let mut loses = AbTest::new(not_worse);
    pairs_of(&mut loses, [0.96, 0.98].into_iter().cycle().take(40));
    assert!(low(&loses) < 0.98);
}
