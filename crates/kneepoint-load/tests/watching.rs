//! Those who watch a load: what they are told while it runs, and rules that end it.

use crate::common::{Server, even, hold_invariants};
use kneepoint_load::{Engine, LoadPlan, Progress, StopRule, StopWhen};
use kneepoint_model::autostop::Observed;
use kneepoint_model::{LatencyHistogram, LoadPoint, Outcome, Second};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Runs a plan and returns all that was told of it.
fn watched(plan: &LoadPlan) -> (LoadPoint, Vec<Progress>) {
    let told = Mutex::new(Vec::new());
    let tell = |progress: &Progress| told.lock().expect("lock").push(progress.clone());
    let point = Engine::run(plan, &tell, &AtomicBool::new(false)).expect("the load runs");
    hold_invariants(plan, &point);
    (point, told.into_inner().expect("lock"))
}

#[test]
fn every_second_is_told_once_and_in_order() {
    let server = Server::answering(OK);
    // With a pause in the middle and at the end, and a thread that has nothing to do.
    for (schedule, threads) in [
        ("const(40,1.5) const(0,1) const(40,0.5)", 2),
        ("const(1,1) const(0,2)", 3),
    ] {
        let mut plan = even(server.target(), schedule);
        plan.threads = threads;
        let (point, told) = watched(&plan);
        let completed: Vec<Second> = told.iter().flat_map(|p| p.completed.clone()).collect();
        assert_eq!(completed, point.seconds);
        let starts: Vec<f64> = completed.iter().map(|s| s.at_s).collect();
        assert_eq!(starts, [0.0, 1.0, 2.0], "{schedule}");
        let while_it_ran = &told[..told.len() - 1];
        assert!(
            while_it_ran.iter().any(|p| !p.completed.is_empty()),
            "seconds are told while the load runs"
        );
    }
}

#[test]
fn progress_shows_what_a_live_view_needs() {
    let began = Instant::now();
    let server = Server::start(move |mut peer| {
        while peer.request().is_some() {
            // It answers with errors, then not for a while.
            let elapsed = began.elapsed().as_millis();
            if elapsed < 400 {
                peer.say("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n");
                continue;
            }
            if elapsed < 700 {
                std::thread::sleep(Duration::from_millis(300));
            }
            peer.ok("ok");
        }
    });
    let mut plan = even(server.target(), "const(50,1.6)");
    plan.max_connections = 2;
    plan.slo.timeout = Duration::from_secs(5);
    let (point, told) = watched(&plan);
    let last = told.last().expect("told");
    assert_eq!(last.outcomes, point.outcomes);
    assert_eq!(
        (last.ended, last.arrivals),
        (point.arrivals, point.arrivals)
    );
    assert!(told.iter().any(|p| p.connections_open == 2));
    assert!(told.iter().all(|p| p.connections_open <= 2));
    assert!(told.iter().any(|p| p.backlog > 0), "arrivals waited");
    assert!(
        told.iter()
            .any(|p| p.ok_hz > 0.0 && p.ok_hz >= p.goodput_hz)
    );
    let errors = |p: &Progress| p.outcomes.of(Outcome::HttpError);
    assert!(told.windows(2).all(|w| errors(&w[0]) <= errors(&w[1])));
}

/// Ends a load after so many seconds that had failures.
struct Failing {
    tolerated: u32,
    seen: Arc<Mutex<Vec<u32>>>,
}

impl StopRule for Failing {
    fn second(&mut self, observed: &Observed<'_>) -> Option<String> {
        let second = observed.second;
        let index = second.at_s as u32;
        self.seen.lock().expect("lock").push(index);
        let timed = observed.response.map_or(0, LatencyHistogram::count);
        assert_eq!(
            timed,
            second.outcomes.of(Outcome::Ok),
            "each is in the histogram"
        );
        let (busy, most) = observed.busy.expect("the engine knows");
        assert!(busy <= most);
        if second.outcomes.failed() == 0 {
            return None;
        }
        self.tolerated -= 1;
        (self.tolerated == 0).then(|| format!("second {index} had failures"))
    }
}

#[test]
fn a_stop_rule_ends_the_load_and_says_why() {
    let broken = Arc::new(AtomicBool::new(false));
    let breaks = broken.clone();
    let server = Server::start(move |mut peer| {
        while peer.request().is_some() {
            if breaks.load(Ordering::SeqCst) {
                peer.say("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n");
            } else {
                peer.ok("ok");
            }
        }
    });
    let mut plan = even(server.target(), "const(50,60)");
    let seen = Arc::new(Mutex::new(Vec::new()));
    plan.stop_when = Some(StopWhen::new(Failing {
        tolerated: 1,
        seen: seen.clone(),
    }));
    // The first second is good: the server breaks when it has been told.
    let tell = |progress: &Progress| {
        if !progress.completed.is_empty() {
            broken.store(true, Ordering::SeqCst);
        }
    };
    let point = Engine::run(&plan, &tell, &AtomicBool::new(false)).expect("the load runs");
    hold_invariants(&plan, &point);
    let seen = seen.lock().expect("lock").clone();
    let last = seen.last().copied().expect("seconds were judged");
    assert_eq!(seen, (0..=last).collect::<Vec<_>>(), "each once, in order");
    assert!(last >= 1);
    let because = format!("second {last} had failures");
    assert_eq!(point.stopped_because.as_deref(), Some(because.as_str()));
    assert!(
        point.window_s < 30.0 && !point.aborted,
        "{}",
        point.window_s
    );
    let expected = (point.window_s * 50.0).ceil();
    assert!(
        (point.arrivals as f64 - expected).abs() <= 1.0,
        "what was measured stays: {} of {expected}",
        point.arrivals
    );
}

#[test]
fn a_rule_that_is_silent_changes_nothing() {
    let server = Server::answering(OK);
    let mut plan = even(server.target(), "const(50,1.3)");
    plan.stop_when = Some(StopWhen::new(|observed: &Observed<'_>| {
        (observed.second.offered > 1_000_000).then(|| "too much".to_owned())
    }));
    let (point, _) = watched(&plan);
    assert_eq!((point.arrivals, point.stopped_because), (65, None));
}
