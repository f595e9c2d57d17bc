//! Where visitors make several requests each, all of a search is in visits.

use super::*;
use kneepoint_model::VisitShape;
use kneepoint_model::units::RateUnit;

const REQUESTS: u32 = 5;

fn visited() -> SimulatedStack {
    let app = App {
        requests_a_visit: Some(REQUESTS),
        ..App::default()
    };
    SimulatedStack::new(app, SimulatedStack::usual_slo(), Noise::none(), 3)
}

fn shape(pauses_s: u64) -> VisitShape {
    VisitShape {
        requests: f64::from(REQUESTS),
        pauses: Duration::from_secs(pauses_s),
    }
}

/// The search started at the closed loop's requests as if they were visits, five times too high, and no step was below R*.
#[test]
fn a_search_of_visits_starts_and_ends_in_visits() {
    let mut offered_hz = Vec::new();
    let options = LimitOptions::within(Duration::from_secs(120), 32);
    let found = search_with(&mut visited(), options, |step, point| {
        if let ("limit: step", crate::bench::Offer::Rate(rate_hz)) =
            (step.purpose.as_str(), step.offer)
        {
            assert!((point.rate_hz() - rate_hz).abs() < 1e-9);
            offered_hz.push(rate_hz);
        }
    });
    assert_eq!(found.unit(), RateUnit::Visits);
    let requests = found.requests_a_visit.expect("visits came");
    assert!(
        (requests / f64::from(REQUESTS) - 1.0).abs() < 0.05,
        "{requests}"
    );
    // A closed loop serves as many requests as one without visits.
    let served_hz = found.in_requests_hz(found.saturation_hz);
    assert!(
        (served_hz / App::default().capacity_hz() - 1.0).abs() < 0.05,
        "{served_hz}"
    );
    assert!(offered_hz[0] <= found.saturation_hz, "{offered_hz:?}");
    let limit_hz = found.rate_hz.estimate;
    let near = |rate_hz: &f64| (0.5..2.0).contains(&(rate_hz / limit_hz));
    assert!(offered_hz.iter().all(near), "{limit_hz}: {offered_hz:?}");
    assert!(
        offered_hz.iter().any(|rate_hz| *rate_hz < limit_hz),
        "{offered_hz:?}"
    );
    // Requests of a visit follow one another, so that they bunch: about as many are borne, and not five times as many.
    let ratio = found.in_requests().estimate / known().limit_hz;
    assert!((0.75..1.15).contains(&ratio), "{ratio}: {found:?}");
    assert!(found.soak_held && found.soak_hz < limit_hz, "{found:?}");
}

#[test]
fn who_is_online_follows_from_how_long_a_visit_takes() {
    let mut stack = visited();
    let options = LimitOptions {
        visit: Some(shape(4)),
        ..LimitOptions::within(Duration::from_secs(60), 32)
    };
    let mut skips = Vec::new();
    let found = search_with(&mut stack, options, |step, _| skips.push(step.skip));
    let visit_s = found.visit_s.expect("visits came");
    // Five responses of some 20 to 60 ms beside the pauses.
    assert!((4.05..4.6).contains(&visit_s), "{visit_s}");
    let users = found.users_online().expect("visits came");
    assert!((users / (found.rate_hz.estimate * visit_s) - 1.0).abs() < 1e-9);
    // A step counts once as many are on the site as its rate brings.
    assert!(
        skips[1..]
            .iter()
            .all(|skip| *skip >= Duration::from_secs(4)),
        "{skips:?}"
    );
    assert!(
        found
            .warnings
            .iter()
            .all(|text| !text.contains("visitors pause"))
    );
}

#[test]
fn visitors_who_pause_for_longer_than_a_step_waits_are_told() {
    let options = LimitOptions {
        visit: Some(shape(60)),
        ..LimitOptions::within(Duration::from_secs(60), 32)
    };
    let found = search_with(&mut visited(), options, |_, _| {});
    let tells = |text: &String| text.contains("visitors pause for 60 s in a visit");
    assert!(found.warnings.iter().any(tells), "{:?}", found.warnings);
}

#[test]
fn where_requests_stand_for_themselves_nothing_is_in_visits() {
    let found = search(
        &mut stack(Noise::none(), 3),
        LimitOptions::within(Duration::from_secs(60), 32),
    );
    assert_eq!((found.requests_a_visit, found.visit_s), (None, None));
    assert_eq!(found.unit(), RateUnit::Requests);
}
