//! A run whose load is of visits says so wherever a rate stands, and draws R* where its steps are.

use kneepoint_model::run::{Bound, LimitResult, TrialId};
use kneepoint_model::{Interval, LoadPoint, Outcome, Run, SessionCounts, Trial};
use kneepoint_report::{Format, Options, render};

/// A step at so many visits per second, of five requests each.
fn step(id: u64, visits_hz: f64) -> Trial {
    let requests = (visits_hz * 50.0) as u64;
    let mut load = LoadPoint {
        offered_hz: visits_hz * 5.0,
        visits_offered_hz: Some(visits_hz),
        window_s: 10.0,
        arrivals: requests,
        good: requests,
        sessions: Some(SessionCounts {
            started: (visits_hz * 10.0) as u64,
            ..SessionCounts::default()
        }),
        ..LoadPoint::default()
    };
    load.outcomes.by_outcome.insert(Outcome::Ok, requests);
    for _ in 0..requests {
        load.response.record_us(40_000);
    }
    Trial {
        id: TrialId(id),
        purpose: "limit: step".into(),
        arm: "base".into(),
        at_s: id as f64 * 10.0,
        load,
        cpu: None,
    }
}

fn run(requests_a_visit: Option<f64>) -> Run {
    let trials: Vec<Trial> = [24.0, 26.0, 28.0]
        .into_iter()
        .enumerate()
        .map(|(id, visits_hz)| step(id as u64, visits_hz))
        .collect();
    let steps = trials
        .iter()
        .map(|it| (it.load.rate_hz(), 0.0, it.load.arrivals));
    let limit = LimitResult {
        arm: "base".into(),
        rate_hz: Interval {
            low: 25.0,
            estimate: 26.3,
            high: 27.5,
        },
        requests_a_visit,
        visit_s: requests_a_visit.map(|_| 13.0),
        bound_by: Bound::ResponseTime(95.0),
        trials: trials.iter().map(|it| it.id).collect(),
        saturation_hz: 30.0,
        steps: steps.collect(),
        soak_hz: 25.0,
        soak_arrivals: 1250,
        soak_held: true,
        ..LimitResult::default()
    };
    Run {
        command: "limit".into(),
        trials,
        limits: vec![limit],
        ..Run::default()
    }
}

fn check(format: &str, requests_a_visit: Option<f64>, expected: &[&str]) -> String {
    let format = Format::named(format).expect("listed");
    let text = render(&run(requests_a_visit), format, &Options::default());
    let text = text.replace('\u{a0}', " ");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in expected {
        assert!(words.contains(expected), "`{expected}` is not in:\n{words}");
    }
    words
}

#[test]
fn the_terminal_says_visits_requests_and_users() {
    check(
        "terminal",
        Some(5.0),
        &[
            "R* is 26.3 visits/s (25.0 to 27.5), that is 132 requests/s, about 342 users online.",
            "the stack served 30.0 visits/s in one short step",
            "0 of 1250 requests failed at 25.0 visits/s",
        ],
    );
}

#[test]
fn the_pull_request_says_visits() {
    check(
        "markdown",
        Some(5.0),
        &[
            "26.3 visits/s (132 requests/s, about 342 users online)",
            "25.0 to 27.5 visits/s",
        ],
    );
}

#[test]
fn the_page_has_one_unit_on_its_axis_and_says_both_in_its_headline() {
    let page = check(
        "html",
        Some(5.0),
        &[
            "sustains 26.3 visits per second (132 requests per second)",
            "visits offered, per second",
            "good requests, per second",
            "26.0 visits/s planned, 130 requests/s answered in time",
        ],
    );
    // R* lies between the dots of its steps, and not far left of all.
    let xs: Vec<f64> = page
        .split("<circle class=\"dot")
        .skip(1)
        .filter_map(|dot| dot.split("cx=\"").nth(1)?.split('%').next()?.parse().ok())
        .collect();
    let least = xs.iter().copied().fold(f64::MAX, f64::min);
    let most = xs.iter().copied().fold(0.0, f64::max);
    assert!(xs.len() >= 3 && most < 97.5 && least > 60.0, "{xs:?}");
}

#[test]
fn a_headline_says_of_what_its_range_is() {
    let mut run = run(Some(5.0));
    (run.limits[0].rate_hz.low, run.limits[0].rate_hz.high) = (15.0, 45.0);
    let format = Format::named("html").expect("listed");
    let page = render(&run, format, &Options::default()).replace('\u{a0}', " ");
    let told =
        "sustains about 26.3 visits per second (15.0 to 45.0), that is 132 requests per second";
    assert!(page.contains(told), "{page}");
}

#[test]
fn an_old_run_that_took_requests_for_visits_is_doubted() {
    check(
        "terminal",
        None,
        &["measured by a version that took requests for visits"],
    );
}

#[test]
fn a_closed_loop_below_r_star_is_told_as_what_it_is() {
    let mut run = run(Some(5.0));
    run.limits[0].saturation_hz = 22.0;
    let format = Format::named("terminal").expect("listed");
    let text = render(&run, format, &Options::default());
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("the stack served 22.0 visits/s in one short step, less than R*"),
        "{words}"
    );
}
