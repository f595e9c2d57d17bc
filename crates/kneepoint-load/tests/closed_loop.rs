//! Workers decide: how many, from when, with which pauses, and how many requests they make.

use crate::common::{Server, closed, free_address, http, run, shown};
use kneepoint_load::{Engine, LoadPlan};
use kneepoint_model::{ClosedLoop, Outcome, ThinkTime};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const LONG: Duration = Duration::from_secs(60);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// So many requests as workers with a fixed pause can have made at most: one at once, one after each pause.
fn most(workers: u32, duration: Duration, pause: Duration) -> f64 {
    f64::from(workers) * (1.0 + duration.as_secs_f64() / pause.as_secs_f64())
}

#[test]
fn workers_think_between_their_requests() {
    let server = Server::answering(OK);
    let (workers, duration, pause) = (5, ms(800), ms(20));
    let quantiles = vec![pause, pause];
    for think_time in [ThinkTime::Fixed(pause), ThinkTime::Empirical { quantiles }] {
        let plan = closed(
            server.target(),
            ClosedLoop {
                think_time,
                ..ClosedLoop::new(workers, duration)
            },
        );
        let point = run(&plan);
        let (made, most) = (point.arrivals as f64, most(workers, duration, pause));
        // Responses take time, too: on a busy machine as much as the pauses.
        assert!(
            made <= most && made > most / 2.0,
            "{made} of at most {most}"
        );
        assert_eq!(point.outcomes.of(Outcome::Ok), point.arrivals);
        assert_eq!(point.closed_workers, Some(workers));
    }
}

#[test]
fn random_pauses_have_their_mean() {
    let server = Server::answering(OK);
    let (workers, duration, mean) = (20, ms(1000), ms(20));
    let mut plan = closed(
        server.target(),
        ClosedLoop {
            think_time: ThinkTime::Exponential { mean },
            ..ClosedLoop::new(workers, duration)
        },
    );
    plan.threads = 2;
    let made = run(&plan).arrivals as f64;
    // Workers with exponential pauses and instant responses make a Poisson process.
    let mean = most(workers, duration, mean);
    assert!(
        made < mean + 5.0 * mean.sqrt() && made > mean / 2.0,
        "{made} of {mean} expected"
    );
}

#[test]
fn a_bound_on_requests_is_met_exactly_whatever_the_threads() {
    let thinking = |c: &mut ClosedLoop| c.think_time = ThinkTime::Fixed(ms(1));
    let plain = |_: &mut ClosedLoop| {};
    for (threads, change) in [
        (1, &plain as &dyn Fn(&mut ClosedLoop)),
        (3, &plain),
        (1, &thinking),
        (3, &thinking),
    ] {
        let server = Server::answering(OK);
        let mut loops = ClosedLoop {
            requests: Some(500),
            ..ClosedLoop::new(7, LONG)
        };
        change(&mut loops);
        let mut plan = closed(server.target(), loops);
        plan.threads = threads;
        let point = run(&plan);
        assert_eq!(shown(&point), "ok 500 | 200: 500", "{threads} threads");
        assert_eq!(server.requests(), 500);
        assert!(
            point.window_s < LONG.as_secs_f64() / 2.0,
            "it ends with its last response"
        );
        let rate = 500.0 / point.window_s;
        assert!((point.offered_hz / rate - 1.0).abs() < 1e-6);
    }
}

#[test]
fn fewer_requests_than_workers_are_as_many_as_asked_for() {
    let server = Server::answering(OK);
    let plan = closed(
        server.target(),
        ClosedLoop {
            requests: Some(3),
            ..ClosedLoop::new(50, LONG)
        },
    );
    assert_eq!(shown(&run(&plan)), "ok 3 | 200: 3");
}

#[test]
fn every_worker_makes_its_loops() {
    let server = Server::answering(OK);
    for threads in [1, 2] {
        let mut plan = closed(
            server.target(),
            ClosedLoop {
                loops: Some(3),
                think_time: ThinkTime::Fixed(ms(2)),
                ..ClosedLoop::new(5, LONG)
            },
        );
        plan.threads = threads;
        let point = run(&plan);
        assert_eq!(shown(&point), "ok 15 | 200: 15", "{threads} threads");
        assert!(point.window_s < LONG.as_secs_f64() / 2.0);
    }
}

#[test]
fn a_failed_request_counts_as_one_of_the_loops() {
    let server = Server::answering("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    let plan = closed(
        server.target(),
        ClosedLoop {
            loops: Some(4),
            ..ClosedLoop::new(2, LONG)
        },
    );
    assert_eq!(shown(&run(&plan)), "http error 8 | 503: 8");
}

#[test]
fn workers_start_over_the_ramp() {
    let server = Server::answering(OK);
    let mut plan = closed(
        server.target(),
        ClosedLoop {
            ramp: Duration::from_secs(2),
            loops: Some(1),
            ..ClosedLoop::new(6, LONG)
        },
    );
    plan.threads = 2;
    let point = run(&plan);
    let offered: Vec<u64> = point.seconds.iter().map(|s| s.offered).collect();
    // Worker i of 6 at i/3 s: three in each second.
    assert_eq!(offered, [3, 3], "by second of intended start");
}

#[test]
fn a_worker_that_thinks_keeps_its_connection() {
    let server = Server::answering(OK);
    let plan = closed(
        server.target(),
        ClosedLoop {
            ramp: ms(100),
            think_time: ThinkTime::Fixed(ms(60)),
            loops: Some(4),
            ..ClosedLoop::new(8, LONG)
        },
    );
    let point = run(&plan);
    assert_eq!(shown(&point), "ok 32 | 200: 32");
    assert_eq!((point.connections_opened, server.connections()), (8, 8));
}

#[test]
fn a_dead_server_is_not_stormed_and_its_workers_are_not_late() {
    let gone = free_address();
    let plan = closed(
        http(gone),
        ClosedLoop {
            ramp: ms(50),
            think_time: ThinkTime::Fixed(ms(1)),
            ..ClosedLoop::new(10, ms(400))
        },
    );
    let point = run(&plan);
    // The pause after a refusal doubles from 1 ms to 50 ms: some ten rounds of ten, not 4000.
    assert!((1..500).contains(&point.arrivals), "{}", point.arrivals);
    assert_eq!(point.outcomes.of(Outcome::Refused), point.arrivals);
    assert!(point.health.achieved_share >= 0.99, "{:?}", point.health);
}

#[test]
fn every_request_ends_once_whatever_the_server_does() {
    let server = Server::start(|mut peer| {
        let mut turn = peer.number;
        while peer.request().is_some() {
            turn += 1;
            match turn % 6 {
                0 => return peer.reset(),
                1 => return,
                2 => peer.say("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
                3 => std::thread::sleep(ms(80)),
                _ => peer.ok("ok"),
            }
        }
    });
    for (threads, think_time, loops) in [
        (1, ThinkTime::None, None),
        (2, ThinkTime::Fixed(ms(1)), None),
        (2, ThinkTime::None, Some(9)),
    ] {
        let mut plan = closed(
            server.target(),
            ClosedLoop {
                think_time,
                loops,
                ..ClosedLoop::new(12, ms(500))
            },
        );
        plan.threads = threads;
        plan.slo.timeout = ms(50);
        plan.skip = ms(50);
        let point = run(&plan);
        assert!(point.outcomes.by_outcome.len() >= 3, "{}", shown(&point));
    }
}

#[test]
fn a_loop_that_cannot_be_is_refused_with_what_to_do() {
    let server = Server::answering(OK);
    let check = |change: fn(&mut ClosedLoop), says: &str| {
        let mut loops = ClosedLoop::new(1, ms(10));
        change(&mut loops);
        let plan: LoadPlan = closed(server.target(), loops);
        let error = Engine::run(&plan, &|_| {}, &AtomicBool::new(false)).expect_err(says);
        assert!(error.to_string().contains(says), "{error}");
    };
    check(|c| c.workers = 0, "closed loop of 0 workers");
    check(|c| c.duration = Duration::ZERO, "no duration");
    check(|c| c.requests = Some(0), "of 0 requests");
    check(|c| c.loops = Some(0), "of 0 loops");
    check(
        |c| {
            c.think_time = ThinkTime::Empirical {
                quantiles: vec![Duration::ZERO],
            };
        },
        "has 1 quantiles",
    );
    check(
        |c| {
            c.think_time = ThinkTime::Empirical {
                quantiles: vec![Duration::from_secs(2), Duration::from_secs(1)],
            };
        },
        "give them ascending",
    );
    assert_eq!(server.requests(), 0);
}
