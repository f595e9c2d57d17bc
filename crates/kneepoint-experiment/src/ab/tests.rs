use super::*;
use crate::bench::Bench;
use crate::simulated::{App, Noise, SimulatedStack, truth};
use std::sync::OnceLock;

fn limit_hz() -> f64 {
    static KNOWN: OnceLock<f64> = OnceLock::new();
    let slo = SimulatedStack::usual_slo();
    *KNOWN.get_or_init(|| truth(&App::default(), &slo, Noise::none(), 120, 1).limit_hz)
}

fn options(measure: Measure, seed: u64) -> AbOptions {
    AbOptions {
        measure,
        max_pairs: 24,
        min_pairs: MIN_PAIRS,
        enough: ENOUGH,
        not_worse: None,
        step: Duration::from_secs(3),
        rope: 0.02,
        seed,
    }
}

/// The test on an arm and the same arm made faster, on one machine of medium noise.
fn compare(faster: f64, measure: Measure, seed: u64) -> (Verdict, Effect) {
    let slo = SimulatedStack::usual_slo();
    let mut stack = SimulatedStack::new(App::default(), slo, Noise::medium(), seed)
        .with_arm("b", App::default().faster(faster));
    let mut test = AbTest::new(options(measure, seed));
    while let AbMove::Measure(side, step) = test.next_move() {
        let arm = if side == Side::A { "a" } else { "b" };
        let (point, canary) = stack
            .measure_with_canary(arm, &step)
            .expect("a simulated stack does not fail");
        test.record(side, &point, canary);
    }
    (test.verdict(), test.effect("change", &[]))
}

fn at(rate_hz: f64) -> Measure {
    Measure::AtRate {
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

const SATURATED: Measure = Measure::Saturation { workers: 32 };

#[test]
fn a_large_gain_is_seen_in_the_fewest_pairs() {
    let (verdict, effect) = compare(5.0, SATURATED, 1);
    assert_eq!(verdict, Verdict::Better);
    assert_eq!(effect.pairs as usize, MIN_PAIRS);
    assert!(
        (4.0..6.0).contains(&effect.ratio.estimate),
        "{:?}",
        effect.ratio
    );
    assert!(effect.permutation_p.is_some_and(|p| p < 0.1));
    assert!(effect.bootstrap.is_some_and(|ratio| ratio.low > 3.5));
}

#[test]
fn a_gain_of_ten_percent_is_seen_at_the_limit() {
    let found = (0..10)
        .filter(|seed| compare(1.10, at(limit_hz()), *seed).0 == Verdict::Better)
        .count();
    assert!(found >= 7, "{found} of 10");
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
    assert_eq!(test.effect("x", &[]).pairs, 0);
}

#[test]
fn a_pair_is_void_when_the_machine_shifts_in_it_whichever_arm_it_favours() {
    // Of 24 pairs, 6 may be void. A machine that shifts in all of them still gets its answer.
    for speeds in [(1.0, 0.85), (0.85, 1.0)] {
        let test = fed(
            &throughput(100),
            &throughput(120),
            (Some(speeds.0), Some(speeds.1)),
        );
        let effect = test.effect("x", &[]);
        assert_eq!((effect.void_pairs, test.verdict()), (6, Verdict::Better));
        assert!(effect.conditions.contains("void"), "{effect:?}");
    }
    let steady = fed(&throughput(100), &throughput(120), (Some(0.85), Some(0.9)));
    assert_eq!(steady.verdict(), Verdict::Better);
    let stolen = |ok, share| {
        let mut point = throughput(ok);
        point.health.steal_share = Some(share);
        point
    };
    let one_sided = fed(&stolen(100, 0.08), &stolen(120, 0.01), (None, None));
    assert_eq!(one_sided.effect("x", &[]).void_pairs, 6);
    let even = fed(&stolen(100, 0.08), &stolen(120, 0.07), (None, None));
    assert_eq!(
        (even.effect("x", &[]).void_pairs, even.verdict()),
        (0, Verdict::Better)
    );
}

#[test]
fn the_rate_follows_the_machine_and_is_one_within_a_pair() {
    let mut test = AbTest::new(options(at(100.0), 1));
    let mut point = throughput(100);
    point.good = 80;
    let mut rates = Vec::new();
    for speed in [1.0, 0.9, 0.88, 1.1, 1.1] {
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
    assert_eq!(rates, [100.0, 100.0, 100.0, 88.0, 88.0]);
}

/// Pairs that drift together say less than their number.
#[test]
fn pairs_that_resemble_their_neighbours_are_merged() {
    let mut test = AbTest::new(options(SATURATED, 1));
    test.differences = (0..24)
        .map(|i| 0.01 + 0.02 * (f64::from(i) / 4.0).sin())
        .collect();
    assert_eq!(test.judged().len(), 12);
    test.differences = (0..24).map(|i| f64::from(i % 2) * 0.01).collect();
    assert_eq!(test.judged().len(), 24);
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
    assert!(asked.effect("", &[]).ratio.low > 0.98);

    let mut loses = AbTest::new(not_worse);
    pairs_of(&mut loses, [0.96, 0.98].into_iter().cycle().take(40));
    assert!(loses.effect("", &[]).ratio.low < 0.98);
}
