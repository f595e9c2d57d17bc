//! What is read, what is refused, and when the load ends.

use super::*;
use crate::condition::{Limit, Mask};
use crate::{LatencyHistogram, Outcome, OutcomeCounts, Second};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use std::time::Duration;

#[track_caller]
fn check_text(text: &str, expected: Expect) {
    let shown = match text.parse::<Autostop>() {
        Ok(autostop) => {
            let printed = autostop.to_string();
            assert_eq!(printed.parse(), Ok(autostop), "{printed}");
            printed
        }
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&shown);
}

/// A second of 100 requests: so many with a status, so many with an outcome, the others ok at 40 ms in the median.
fn second(status: u16, with_status: u64, outcome: Outcome, with_outcome: u64) -> Second {
    let ok = 100 - with_outcome - if status == 200 { 0 } else { with_status };
    let mut outcomes = OutcomeCounts::default();
    outcomes.by_outcome.insert(Outcome::Ok, ok);
    outcomes.by_status.insert(200, ok);
    if status != 200 {
        outcomes.by_outcome.insert(Outcome::HttpError, with_status);
        outcomes.by_status.insert(status, with_status);
    }
    *outcomes.by_outcome.entry(outcome).or_default() += with_outcome;
    Second {
        offered: 100,
        outcomes,
        p50_ms: Some(40.0),
        p95_ms: Some(80.0),
        p99_ms: Some(120.0),
        ..Second::default()
    }
}

fn quiet() -> Second {
    second(200, 0, Outcome::Reset, 0)
}

/// Feeds seconds one after the other, and prints when the load ends and why.
#[track_caller]
fn check(conditions: &str, seconds: &[Second], expected: Expect) {
    let mut autostop: Autostop = conditions.parse().expect("valid");
    let mut shown = "it goes on".to_owned();
    for (index, second) in seconds.iter().enumerate() {
        let second = Second {
            at_s: index as f64,
            ..second.clone()
        };
        if let Some(stop) = autostop.push(&second) {
            shown = format!("after {} s: {}", stop.at_s, stop.sentence);
            break;
        }
    }
    expected.assert_eq(&shown);
}

#[test]
fn conditions_are_read_and_printed() {
    check_text(
        "time(1s,10s) http(5xx,10%,1m) http(404,25,10s) net(xx,25,10) net(110,5%,10s) quantile(95,100ms,10s) \
         instances(80%,30) limit(1m)",
        expect![
            "time(1s,10s) http(5xx,10%,60s) http(404,25,10s) net(xx,25,10s) net(110,5%,10s) quantile(95,100ms,10s) instances(80%,30s) limit(60s)"
        ],
    );
    check_text(
        "time(500,10)total_time(300ms,70%,3s)\ntotal_http(5xx,0.1%,10) total_net(1xx, 5, 2s)",
        expect![
            "time(500ms,10s) total_time(300ms,70%,3s) total_http(5xx,0.1%,10s) total_net(1xx,5,2s)"
        ],
    );
    check_text(
        "quantile(99.9,1s500ms,1h)",
        expect!["quantile(99.9,1500ms,3600s)"],
    );
}

#[test]
fn what_is_wrong_is_quoted() {
    for (text, expected) in [
        (
            "",
            expect![
                "autostop: ``: there is nothing; write time(1s,10s), quantile(95,100ms,10s), http(5xx,10%,1m), net(110,5%,10s), total_time(300ms,70%,3s), total_http(5xx,10%,1m), total_net(xx,25,10s), instances(80%,30s) or limit(10m)"
            ],
        ),
        (
            "time",
            expect![
                "autostop: `time`: this is no condition; write time(1s,10s), quantile(95,100ms,10s), http(5xx,10%,1m), net(110,5%,10s), total_time(300ms,70%,3s), total_http(5xx,10%,1m), total_net(xx,25,10s), instances(80%,30s) or limit(10m)"
            ],
        ),
        (
            "time(1s)",
            expect![
                "autostop: `time(1s)`: there is no such condition with these values; write time(1s,10s), quantile(95,100ms,10s), http(5xx,10%,1m), net(110,5%,10s), total_time(300ms,70%,3s), total_http(5xx,10%,1m), total_net(xx,25,10s), instances(80%,30s) or limit(10m)"
            ],
        ),
        (
            "http(5xx,10%,0.5s)",
            expect![
                "autostop: `http(5xx,10%,0.5s)`: `0.5s` is no window; write whole seconds, up to a day, such as 10s"
            ],
        ),
        (
            "http(ok,10%,1s)",
            expect![
                "autostop: `http(ok,10%,1s)`: `ok` means no status and no error; write digits and x for any digit, such as 5xx, 404 or 110"
            ],
        ),
        (
            "http(5xx,some,1s)",
            expect![
                "autostop: `http(5xx,some,1s)`: `some` is no number of requests and no share; write for example 25 or 10%"
            ],
        ),
        (
            "http(5xx,10%,1s,checkout)",
            expect![
                "autostop: `http(5xx,10%,1s,checkout)`: requests are not counted by tag; leave `checkout` out"
            ],
        ),
        (
            "quantile(101,1s,1s)",
            expect![
                "autostop: `quantile(101,1s,1s)`: `101` is no quantile; write percent between 0 and 100, such as 95"
            ],
        ),
        (
            "time(1s,1s) total_limit(1s)",
            expect![
                "autostop: `total_limit(1s)`: there is no such condition with these values; write time(1s,10s), quantile(95,100ms,10s), http(5xx,10%,1m), net(110,5%,10s), total_time(300ms,70%,3s), total_http(5xx,10%,1m), total_net(xx,25,10s), instances(80%,30s) or limit(10m)"
            ],
        ),
        (
            "metric_higher(host,cpu,1,1)",
            expect![
                "autostop: `metric_higher(host,cpu,1,1)`: there is no such condition with these values; write time(1s,10s), quantile(95,100ms,10s), http(5xx,10%,1m), net(110,5%,10s), total_time(300ms,70%,3s), total_http(5xx,10%,1m), total_net(xx,25,10s), instances(80%,30s) or limit(10m)"
            ],
        ),
    ] {
        check_text(text, expected);
    }
}

#[test]
fn every_second_of_the_window_must_breach() {
    let bad = second(503, 10, Outcome::Reset, 0);
    let run = |pattern: &str| -> Vec<Second> {
        let one = |c| if c == 'x' { bad.clone() } else { quiet() };
        pattern.chars().map(one).collect()
    };
    check("http(5xx,10%,3s)", &run("xx.xx.xx."), expect!["it goes on"]);
    check(
        "http(5xx,10%,3s)",
        &run(".xxx"),
        expect![
            "after 4 s: http(5xx,10%,3s): at least 10% of the responses had a status 5xx in each of 3 seconds, the last of them with 10 such responses of 100"
        ],
    );
    check(
        "http(5xx,10,1)",
        &run(".x"),
        expect!["after 2 s: http(5xx,10,1s): 10 such responses of 100 in one second"],
    );
    check("http(5xx,11%,1)", &run("xxx"), expect!["it goes on"]);
    check("http(4xx,1,1)", &run("xxx"), expect!["it goes on"]);
    // As a whole, 60 of 900 are 6.7 %.
    check(
        "total_http(5xx,6%,9s)",
        &run("xx.xx.xx."),
        expect!["after 9 s: total_http(5xx,6%,9s): 60 such requests of 900 in 9 s together"],
    );
    check(
        "total_http(5xx,7%,9s)",
        &run("xx.xx.xx."),
        expect!["it goes on"],
    );
    check(
        "total_http(503,30,4s)",
        &run("xx.xx"),
        expect!["after 4 s: total_http(503,30,4s): 30 such requests of 400 in 4 s together"],
    );
}

#[test]
fn transport_outcomes_are_system_errors() {
    let with = |outcome| vec![second(200, 0, outcome, 7); 2];
    check(
        "net(110,5%,2s)",
        &with(Outcome::Timeout),
        expect![
            "after 2 s: net(110,5%,2s): at least 5% of the requests ended in a system error 110 in each of 2 seconds, the last of them with 7 such errors of 100"
        ],
    );
    check(
        "net(110,5%,2s)",
        &with(Outcome::Refused),
        expect!["it goes on"],
    );
    check(
        "net(111,7,2s)",
        &with(Outcome::Refused),
        expect![
            "after 2 s: net(111,7,2s): at least 7 of the requests ended in a system error 111 in each of 2 seconds, the last of them with 7 such errors of 100"
        ],
    );
    check(
        "net(xx,7,2s)",
        &with(Outcome::Reset),
        expect![
            "after 2 s: net(xx,7,2s): at least 7 of the requests ended in a system error xx in each of 2 seconds, the last of them with 7 such errors of 100"
        ],
    );
    check(
        "net(1xx,7,2s)",
        &with(Outcome::Unsent),
        expect!["it goes on"],
    );
    check(
        "net(777,7,2s)",
        &with(Outcome::Unsent),
        expect![
            "after 2 s: net(777,7,2s): at least 7 of the requests ended in a system error 777 in each of 2 seconds, the last of them with 7 such errors of 100"
        ],
    );
    check(
        "total_net(xx,14,2s)",
        &with(Outcome::Truncated),
        expect!["after 2 s: total_net(xx,14,2s): 14 such requests of 200 in 2 s together"],
    );
    check(
        "net(xx,1,1s)",
        &[second(500, 7, Outcome::Ok, 0)],
        expect!["it goes on"],
    );
}

#[test]
fn times_are_judged_by_the_record_when_there_is_no_histogram() {
    check(
        "quantile(95,79ms,1s)",
        &[quiet()],
        expect!["after 1 s: quantile(95,79ms,1s): p95 80.0 ms in one second"],
    );
    check("quantile(95,80ms,1s)", &[quiet()], expect!["it goes on"]);
    // The 98th percentile is no less than the 95th.
    check(
        "quantile(98,79ms,1s)",
        &[quiet()],
        expect!["after 1 s: quantile(98,79ms,1s): p98 80.0 ms in one second"],
    );
    check("quantile(98,81ms,1s)", &[quiet()], expect!["it goes on"]);
    // The mean of times with a median of 40 ms is at least 20 ms.
    check(
        "time(19,1s)",
        &[quiet()],
        expect!["after 1 s: time(19ms,1s): mean 20.0 ms in one second"],
    );
    check("time(21,1s)", &[quiet()], expect!["it goes on"]);
    check(
        "total_time(79ms,5%,1s)",
        &[quiet()],
        expect!["after 1 s: total_time(79ms,5%,1s): 5 such requests of 100 in 1 s together"],
    );
    check("total_time(79ms,6%,1s)", &[quiet()], expect!["it goes on"]);
}

#[test]
fn what_never_came_is_slower_than_any_limit() {
    let lost = |count| vec![second(200, 0, Outcome::Timeout, count)];
    check("quantile(95,10s,1s)", &lost(5), expect!["it goes on"]);
    check(
        "quantile(95,10s,1s)",
        &lost(6),
        expect!["after 1 s: quantile(95,10s,1s): p95 beyond the timeout in one second"],
    );
    check("time(10s,1s)", &lost(50), expect!["it goes on"]);
    check(
        "time(10s,1s)",
        &lost(51),
        expect!["after 1 s: time(10s,1s): mean beyond the timeout in one second"],
    );
    check(
        "total_time(10s,6%,1s)",
        &lost(6),
        expect!["after 1 s: total_time(10s,6%,1s): 6 such requests of 100 in 1 s together"],
    );
}

#[test]
fn with_the_histogram_times_are_exact() {
    let mut response = LatencyHistogram::default();
    (1..=100u64).for_each(|ms| response.record_us(ms * 1000));
    let second = quiet();
    let stops = |text: &str| {
        let mut autostop: Autostop = text.parse().expect("valid");
        let observed = Observed {
            response: Some(&response),
            ..Observed::from(&second)
        };
        autostop.push(observed).is_some()
    };
    // The mean is 50.5 ms, the 90th percentile 90 ms, and 30 of 100 took more than 70.5 ms.
    for (text, expected) in [
        ("time(50,1s)", true),
        ("time(51,1s)", false),
        ("quantile(90,89ms,1s)", true),
        ("quantile(90,91ms,1s)", false),
        ("total_time(70.5ms,29%,1s)", true),
        ("total_time(70.5ms,31%,1s)", false),
    ] {
        assert_eq!(stops(text), expected, "{text}");
    }
}

#[test]
fn busy_connections_and_the_time_limit() {
    let mut autostop: Autostop = "instances(80%,2) limit(1m)".parse().expect("valid");
    let mut ends = Vec::new();
    for (at, busy) in [81, 80, 81, 100].into_iter().enumerate() {
        let second = Second {
            at_s: at as f64,
            ..quiet()
        };
        let observed = Observed {
            busy: Some((busy, 100)),
            ..Observed::from(&second)
        };
        ends.extend(autostop.push(observed).map(|stop| stop.sentence));
    }
    let seconds = vec![quiet(); 70];
    expect!["instances(80%,2s): more than 80% connections busy in each of 2 seconds, the last of them with 100 connections of 100 busy"].assert_eq(&ends.join("\n"));
    check(
        "instances(1,1) limit(1m)",
        &seconds,
        expect!["after 60 s: limit(60s): the load has lasted 60 s"],
    );
}

#[test]
fn comparisons_end_a_load_too() {
    check_text(
        "errors > 10% over 3s http(5xx,1,1s), p99>500ms over 10s",
        expect!["errors>10% over 3s http(5xx,1,1s) p99>500ms over 10s"],
    );
    check_text(
        "errors>10%",
        expect!["autostop: `errors>10%`: say over how long, such as errors>10% over 10s"],
    );
    check_text(
        "speed>3 over 10s",
        expect![
            "autostop: `speed>3 over 10s`: there is no measure `speed`; write for example p95<200ms, mean<100ms, errors<0.1%, good>=99%, rate>=490/s or p99<500ms over 10s"
        ],
    );
    let bad = second(503, 30, Outcome::Reset, 0);
    // A fifth of the requests of three seconds, though one of them is clean.
    let uneven = [quiet(), bad.clone(), quiet(), bad.clone()];
    check(
        "errors>19% over 3s",
        &uneven,
        expect!["after 4 s: errors>19% over 3s: errors 20 % in 3 s together"],
    );
    check("errors>20% over 3s", &uneven, expect!["it goes on"]);
    check(
        "p99>110ms over 2s",
        &[quiet(), quiet()],
        expect![
            "after 2 s: p99>110ms over 2s: p99 above 110ms in each of 2 seconds, the last of them with p99 120 ms"
        ],
    );
    // Unlike in `quantile(..)`, a failed request is slower than any limit.
    check(
        "p95>10s over 1s",
        &[bad],
        expect!["after 1 s: p95>10s over 1s: p95 beyond every limit in one second"],
    );
}

fn conditions() -> impl Strategy<Value = Condition> {
    use Comparator::{Above, AtLeast};
    let time = || {
        prop_oneof![
            (1u64..100_000).prop_map(Duration::from_millis),
            (1u64..100_000_000_000).prop_map(Duration::from_nanos)
        ]
    };
    let limit = move || time().prop_map(Limit::Time);
    // A share as somebody writes it: with at most six decimals of a percent.
    let share = || {
        (1u32..100_000_000).prop_map(|millionths| Limit::Share(f64::from(millionths) / 1e6 / 100.0))
    };
    let level = move || {
        prop_oneof![
            (1u64..1_000_000).prop_map(|count| Limit::Amount(count as f64)),
            share()
        ]
    };
    let mask = || "[0-9x]{1,3}".prop_map(Mask);
    let percent = (1u32..100_000).prop_map(|n| f64::from(n) / 1000.0);
    let counted = prop_oneof![
        mask().prop_map(LoadMetric::Status),
        mask().prop_map(LoadMetric::SystemError)
    ];
    let parts = prop_oneof![
        (Just(LoadMetric::TankMean), limit())
            .prop_map(|(metric, limit)| (metric, Above, limit, false)),
        (percent.prop_map(LoadMetric::TankQuantile), limit())
            .prop_map(|(metric, limit)| (metric, Above, limit, false)),
        (time().prop_map(LoadMetric::Slower), share())
            .prop_map(|(metric, limit)| (metric, AtLeast, limit, true)),
        (counted, level(), any::<bool>())
            .prop_map(|(metric, limit, total)| (metric, AtLeast, limit, total)),
        level().prop_map(|limit| (LoadMetric::Busy, Above, limit, false)),
        (share(), any::<bool>()).prop_map(|(limit, good)| (
            if good {
                LoadMetric::GoodShare
            } else {
                LoadMetric::Errors
            },
            Above,
            limit,
            true
        )),
        limit().prop_map(|limit| (LoadMetric::Quantile(99.0), Above, limit, false)),
    ];
    let windowed =
        (parts, 1u32..86_400).prop_map(|((metric, comparison, limit, total), length)| Condition {
            metric,
            comparison,
            limit,
            window: if total {
                Window::Together(length)
            } else {
                Window::Each(length)
            },
        });
    let lasting = limit().prop_map(|limit| Condition {
        metric: LoadMetric::Elapsed,
        comparison: AtLeast,
        limit,
        window: Window::Each(1),
    });
    prop_oneof![6 => windowed, 1 => lasting]
}

proptest! {
    #[test]
    fn printed_conditions_are_the_conditions(all in prop::collection::vec(conditions(), 1..5)) {
        let autostop = Autostop::new(all);
        prop_assert_eq!(autostop.to_string().parse(), Ok(autostop));
    }

    #[test]
    fn no_text_makes_it_panic(
        text in any::<String>(),
        nearly in "((total_)?(time|http|net|quantile|instances|limit|x)[(][0-9x%.,ms ]{0,15}[)]?|(p9|errors|rate)[<>][0-9%ms]{0,4}( over [0-9s]{0,3})?){1,2}"
    ) {
        let _ = text.parse::<Autostop>();
        if let Ok(mut autostop) = nearly.parse::<Autostop>() {
            let _ = autostop.push(&quiet());
        }
    }

    #[test]
    fn a_window_ends_the_load_after_exactly_so_many_seconds_in_a_row(
        breaches in prop::collection::vec(any::<bool>(), 1..40),
        window in 1usize..5,
    ) {
        let mut autostop: Autostop = format!("http(5xx,10%,{window}s)").parse().expect("valid");
        let bad = second(500, 10, Outcome::Ok, 0);
        let stopped = breaches.iter().position(|breach| {
            let second = if *breach { bad.clone() } else { quiet() };
            autostop.push(&second).is_some()
        });
        let expected = breaches.windows(window).position(|seconds| seconds.iter().all(|breach| *breach));
        prop_assert_eq!(stopped, expected.map(|at| at + window - 1));
    }
}
