//! Steps are as long as the SLO asks, or say that they are not.

use super::budget::go_on;
use super::*;

fn slo(response: Duration) -> Slo {
    Slo {
        response_time: response,
        timeout: 3 * response,
        ..Slo::default()
    }
}

/// R* as a search of steps alone finds it.
fn search(slo: &Slo, options: LimitOptions) -> LimitResult {
    let mut stack = SimulatedStack::new(App::default(), slo.clone(), Noise::none(), 1);
    let mut search = LimitSearch::of(&stack, options.unconfirmed());
    go_on(&mut search, &mut stack);
    search.result("base")
}

#[test]
fn steps_are_long_enough_for_an_slo_of_seconds() {
    for seconds in [1, 2] {
        let slo = slo(Duration::from_secs(seconds));
        let known = truth(&App::default(), &slo, Noise::none(), 100, 1);
        let found = search(&slo, LimitOptions::thorough(32));
        let off = found.rate_hz.estimate / known.limit_hz - 1.0;
        assert!(off.abs() < 0.05, "{seconds} s: {off} {found:?}");
    }
}

#[test]
fn steps_that_are_too_short_for_the_slo_are_told() {
    let tells = |response, load| {
        let found = search(&slo(response), LimitOptions::taking(load, 32));
        found.warnings.iter().any(|it| it.contains("too high"))
    };
    let [short, long] = [20, 200].map(Duration::from_secs);
    assert!(tells(Duration::from_secs(2), short));
    assert!(!tells(Duration::from_millis(300), short));
    assert!(!tells(Duration::from_secs(1), long));
}
