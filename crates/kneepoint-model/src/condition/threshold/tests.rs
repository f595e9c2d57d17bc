//! What is read, what is refused, and what holds.

use super::*;
use crate::condition::{Comparator, Limit, LoadMetric};
use crate::{Outcome, OutcomeCounts, Second};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use std::time::Duration;

#[track_caller]
fn check_text(text: &str, expected: Expect) {
    let shown = match text.parse::<Threshold>() {
        Ok(threshold) => {
            let printed = threshold.to_string();
            assert_eq!(printed.parse(), Ok(threshold), "{printed}");
            printed
        }
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&shown);
}

#[track_caller]
fn check(text: &str, point: &LoadPoint, expected: Expect) {
    let threshold: Threshold = text.parse().expect("valid");
    expected.assert_eq(&threshold.judge(point).sentence);
}

/// A second of 100 requests.
fn second(at_s: usize, failed: u64, p99_ms: f64) -> Second {
    Second {
        at_s: at_s as f64,
        offered: 100,
        outcomes: counts(100 - failed, failed),
        good: 100 - failed,
        p50_ms: Some(10.0),
        p90_ms: Some(15.0),
        p95_ms: Some(20.0),
        p99_ms: Some(p99_ms),
        max_ms: Some(2.0 * p99_ms),
    }
}

fn counts(ok: u64, failed: u64) -> OutcomeCounts {
    let mut counts = OutcomeCounts::default();
    counts.by_outcome.insert(Outcome::Ok, ok);
    counts.by_outcome.insert(Outcome::HttpError, failed);
    counts
}

/// A run of a thousand requests in ten seconds: `Ok` ones took 1 to 100 ms.
fn run(failed: u64) -> LoadPoint {
    let mut point = LoadPoint {
        offered_hz: 100.0,
        window_s: 10.0,
        arrivals: 1000,
        outcomes: counts(1000 - failed, failed),
        good: 990 - failed,
        seconds: (0..10).map(|at| second(at, 0, 50.0)).collect(),
        ..LoadPoint::default()
    };
    (0..1000 - failed).for_each(|i| point.response.record_us((i % 100 + 1) * 1000));
    point
}

#[test]
fn thresholds_are_read_and_printed() {
    check_text("p95<200ms", expect!["p95<200ms"]);
    check_text(
        " p99.9 <= 1.5s over 10s",
        expect![
            "threshold `p99.9 <= 1.5s over 10s`: of single seconds p50, p95 and p99 are known, not p99.9; take one of them"
        ],
    );
    check_text("p99 < 1m over 1m", expect!["p99<60s over 60s"]);
    check_text("median<20ms", expect!["p50<20ms"]);
    check_text("errors<0.1%", expect!["errors<0.1%"]);
    check_text("errors < 0.001 over 30s", expect!["errors<0.1% over 30s"]);
    check_text("rate>=490/s", expect!["rate>=490/s"]);
    check_text("good>480", expect!["good>480/s"]);
    check_text("good>=99.5%", expect!["good>=99.5%"]);
    check_text("avg<=0.25ms", expect!["mean<=0.25ms"]);
    check_text("max<2s", expect!["max<2s"]);
}

#[test]
fn what_is_wrong_is_quoted() {
    check_text(
        "p95",
        expect![
            "threshold `p95`: there is no < or > in it; write for example p95<200ms, mean<100ms, errors<0.1%, good>=99%, rate>=490/s or p99<500ms over 10s"
        ],
    );
    check_text(
        "p95=3",
        expect![
            "threshold `p95=3`: there is no < or > in it; write for example p95<200ms, mean<100ms, errors<0.1%, good>=99%, rate>=490/s or p99<500ms over 10s"
        ],
    );
    check_text(
        "p95<200",
        expect![
            "threshold `p95<200`: `200` is no limit of p95; write a time such as 200ms or 1.5s"
        ],
    );
    check_text(
        "p0<1s",
        expect![
            "threshold `p0<1s`: there is no measure `p0`; write for example p95<200ms, mean<100ms, errors<0.1%, good>=99%, rate>=490/s or p99<500ms over 10s"
        ],
    );
    check_text(
        "speed>3",
        expect![
            "threshold `speed>3`: there is no measure `speed`; write for example p95<200ms, mean<100ms, errors<0.1%, good>=99%, rate>=490/s or p99<500ms over 10s"
        ],
    );
    check_text(
        "errors<lots",
        expect![
            "threshold `errors<lots`: `lots` is no limit of errors; write a share such as 0.1%"
        ],
    );
    check_text(
        "rate>10%",
        expect!["threshold `rate>10%`: `10%` is no limit of rate; write a rate such as 490/s"],
    );
    check_text(
        "p95<1s over a while",
        expect![
            "threshold `p95<1s over a while`: `a while` is no stretch of seconds; write whole ones, such as over 10s"
        ],
    );
    check_text(
        "max<1s over 10s",
        expect![
            "threshold `max<1s over 10s`: `max` is known for the whole run only; leave `over` out, or take p99"
        ],
    );
}

#[test]
fn a_run_is_judged_as_a_whole() {
    let point = run(0);
    check("p95<96ms", &point, expect!["p95<96ms held: 95.0 ms"]);
    check(
        "p95<90ms",
        &point,
        expect!["p95<90ms did not hold: 95.0 ms"],
    );
    check(
        "mean<=50ms",
        &point,
        expect!["mean<=50ms did not hold: 50.5 ms"],
    );
    check("max<101ms", &point, expect!["max<101ms held: 100 ms"]);
    check("errors<0.1%", &point, expect!["errors<0.1% held: 0 %"]);
    check("rate>=100/s", &point, expect!["rate>=100/s held: 100/s"]);
    check(
        "good>=99.5/s",
        &point,
        expect!["good>=99.5/s did not hold: 99.0/s"],
    );
    check("good>=99%", &point, expect!["good>=99% held: 99 %"]);
}

#[test]
fn an_error_is_no_fast_response() {
    check("p95<1s", &run(50), expect!["p95<1s held: 95.0 ms"]);
    check(
        "p95<1s",
        &run(51),
        expect!["p95<1s did not hold: beyond every limit"],
    );
    check("mean<1s", &run(1000 - 10), expect!["mean<1s held: 5.50 ms"]);
    check(
        "errors<5%",
        &run(50),
        expect!["errors<5% did not hold: 5.0 %"],
    );
    check(
        "errors<0.05%",
        &LoadPoint::default(),
        expect!["errors<0.05% did not hold: nothing was measured"],
    );
}

#[test]
fn a_stretch_is_judged_by_itself() {
    let mut point = run(0);
    // One second fails by half: 0.5 of 10 s, but 25 % of any two seconds with it.
    point.seconds[4] = second(4, 50, 50.0);
    check("errors<10%", &point, expect!["errors<10% held: 0 %"]);
    check(
        "errors<10% over 2s",
        &point,
        expect!["errors<10% over 2s did not hold: 25 % over the worst 2 s, from second 3"],
    );
    check(
        "rate>=80/s over 2s",
        &point,
        expect!["rate>=80/s over 2s did not hold: 75.0/s over the worst 2 s, from second 3"],
    );
    check(
        "good>=75% over 2s",
        &point,
        expect!["good>=75% over 2s held: 75 % over the worst 2 s, from second 3"],
    );
    // Slow in one second is not slow for two in a row.
    point.seconds[7] = second(7, 0, 900.0);
    check(
        "p99<500ms over 2s",
        &point,
        expect!["p99<500ms over 2s held: 50.0 ms in each second of the worst 2 s, from second 0"],
    );
    point.seconds[8] = second(8, 0, 700.0);
    check(
        "p99<500ms over 2s",
        &point,
        expect![
            "p99<500ms over 2s did not hold: 700 ms in each second of the worst 2 s, from second 7"
        ],
    );
    check(
        "p99<500ms over 20s",
        &point,
        expect![
            "p99<500ms over 20s held: 99.0 ms (the run is shorter than 20 s, so it is judged as a whole)"
        ],
    );
}

#[test]
fn the_last_second_may_be_a_part_of_one() {
    let mut point = run(0);
    point.seconds[9].outcomes = counts(10, 0);
    check(
        "rate>=100/s over 2s",
        &point,
        expect!["rate>=100/s over 2s held: 100/s over the worst 2 s, from second 0"],
    );
}

fn thresholds() -> impl Strategy<Value = Threshold> {
    let comparison = prop_oneof![
        Just(Comparator::Below),
        Just(Comparator::AtMost),
        Just(Comparator::Above),
        Just(Comparator::AtLeast)
    ];
    let over = || proptest::option::of(1u32..10_000);
    let time = || (1u64..100_000_000_000).prop_map(|ns| Limit::Time(Duration::from_nanos(ns)));
    let share = || (1u32..100_000_000).prop_map(|n| Limit::Share(f64::from(n) / 1e6 / 100.0));
    let rate = || (0.0..1e6f64).prop_map(Limit::Amount);
    let known = prop_oneof![Just(50.0), Just(95.0), Just(99.0)];
    let parts = prop_oneof![
        (known.prop_map(LoadMetric::Quantile), time(), over()),
        (
            (1u32..100_000).prop_map(|n| LoadMetric::Quantile(f64::from(n) / 1000.0)),
            time(),
            Just(None)
        ),
        (
            prop_oneof![Just(LoadMetric::Mean), Just(LoadMetric::Max)],
            time(),
            Just(None)
        ),
        (
            prop_oneof![Just(LoadMetric::Errors), Just(LoadMetric::GoodShare)],
            share(),
            over()
        ),
        (
            prop_oneof![Just(LoadMetric::Good), Just(LoadMetric::Rate)],
            rate(),
            over()
        ),
    ];
    (parts, comparison).prop_map(|((metric, limit, over_s), comparison)| {
        let window = match over_s {
            None => Window::Run,
            Some(length) if metric.is_time() => Window::Each(length),
            Some(length) => Window::Together(length),
        };
        Threshold(Condition {
            metric,
            comparison,
            limit,
            window,
        })
    })
}

proptest! {
    #[test]
    fn a_printed_threshold_is_the_threshold(threshold in thresholds()) {
        prop_assert_eq!(threshold.to_string().parse(), Ok(threshold));
    }

    #[test]
    fn no_text_makes_it_panic(
        text in any::<String>(),
        nearly in "(p[0-9.]{0,4}|mean|errors|good|rate) ?[<>]=?[0-9.]{0,6}(ms|s|%|/s)?( over [0-9]{1,3}s)?"
    ) {
        let _ = text.parse::<Threshold>();
        if let Ok(threshold) = nearly.parse::<Threshold>() {
            let _ = threshold.judge(&run(3));
            let _ = threshold.judge(&LoadPoint::default());
        }
    }
}
