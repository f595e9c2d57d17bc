//! SLOs that one request alone misses.

use super::{search, stack};
use crate::limit::LimitOptions;
use crate::simulated::{App, Noise, SimulatedStack};
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
