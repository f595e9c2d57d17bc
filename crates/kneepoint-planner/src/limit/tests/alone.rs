//! SLOs that one request alone misses.

use super::{search, stack};
use crate::limit::LimitOptions;
use crate::simulated::{App, Noise, RequestKind, SimulatedStack};
use std::time::Duration;

/// A search where the response time may be so much.
fn within(
    response_time: Duration,
    noise: Noise,
    options: LimitOptions,
) -> kneepoint_model::run::LimitResult {
    let slo = kneepoint_model::Slo {
        response_time,
        ..SimulatedStack::usual_slo()
    };
    let mut stack = SimulatedStack::new(App::default(), slo, noise, 3);
    search(&mut stack, options)
}

#[test]
fn an_slo_that_one_request_alone_misses_ends_the_search_and_says_so() {
    for noise in [Noise::quiet(), Noise::high()] {
        let found = within(Duration::from_millis(1), noise, LimitOptions::thorough(32));
        let missed = found
            .missed_alone
            .expect("a request takes longer than that");
        assert!(
            missed.late > 0 && missed.took_ms > missed.allowed_ms,
            "{missed:?}"
        );
        assert!(
            found.steps.len() <= 2 && found.soak_arrivals == 0,
            "{found:?}"
        );
        assert!(
            found.warnings[0].starts_with("no rate meets the SLO"),
            "{found:?}"
        );
    }
}

/// A stack of which this share of the requests takes longer than the SLO allows, whatever the rate.
fn with_slow_pages(share: f64, seed: u64) -> SimulatedStack {
    let mut app = App::default();
    let slow = RequestKind {
        wait_s: 0.4,
        weight: share / (1.0 - share),
        ..app.kinds[0]
    };
    app.kinds.push(slow);
    app.size.workers = 200;
    SimulatedStack::new(app, SimulatedStack::usual_slo(), Noise::medium(), seed)
}

#[test]
fn pages_that_are_late_at_any_rate_end_the_search_where_they_are_more_than_the_slo_allows() {
    for seed in 0..4 {
        for share in [0.2, 0.5] {
            let found = search(
                &mut with_slow_pages(share, seed),
                LimitOptions::thorough(64),
            );
            let missed = found.missed_alone.expect("no rate meets the SLO");
            assert!(missed.took_ms > missed.allowed_ms, "{missed:?}");
            assert_eq!(found.soak_arrivals, 0, "{share}: {found:?}");
        }
    }
}

#[test]
fn where_it_held_nowhere_there_is_no_lower_end() {
    // So few more than the SLO allows may be chance for one request after the other.
    let found = search(&mut with_slow_pages(0.09, 1), LimitOptions::thorough(64));
    let says = |warning: &String| warning.contains("R* may lie anywhere below");
    assert!(found.warnings.iter().any(says), "{found:?}");
    assert_eq!(
        (found.missed_alone, found.rate_hz.low),
        (None, 0.0),
        "{found:?}"
    );
}

#[test]
fn where_one_request_meets_it_the_search_goes_on() {
    for seed in 0..4 {
        let options = LimitOptions {
            seed: seed * 100,
            ..LimitOptions::thorough(32)
        };
        let found = search(&mut stack(Noise::medium(), seed), options);
        assert_eq!(found.missed_alone, None);
        assert!(found.soak_arrivals > 0, "{found:?}");
    }
}
