//! The schedule decides: counts, spread, mixture, sessions, stalls, early ends.

use crate::common;
use crate::common::{Server, even, hold_invariants, run, shown};
use kneepoint_load::{AbortRule, Engine, LoadPlan, Mode, Progress, fetch, identify};
use kneepoint_model::{Arrivals, ClosedLoop, Outcome, Request, Validity, Workload};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn the_arrivals_are_the_schedule() {
    let server = Server::answering(OK);
    for threads in [1, 3] {
        let mut plan = even(server.target(), "line(0,200,1) const(0,0.3) const(40.5,1)");
        plan.threads = threads;
        let point = run(&plan);
        assert_eq!(shown(&point), "ok 140 | 200: 140", "{threads} threads");
        let offered: Vec<u64> = point.seconds.iter().map(|s| s.offered).collect();
        assert_eq!(offered, [100, 29, 11], "by second of intended start");
        assert!(
            (point.offered_hz - 140.5 / 2.3).abs() < 1e-9,
            "{}",
            point.offered_hz
        );
        assert_eq!(
            point.good,
            point.seconds.iter().map(|s| s.good).sum::<u64>()
        );
    }
}

#[test]
fn what_is_skipped_is_not_in_the_window() {
    let server = Server::answering(OK);
    let mut plan = even(server.target(), "const(100,1)");
    plan.skip = Duration::from_millis(400);
    let point = run(&plan);
    assert_eq!((point.arrivals, point.good), (60, 60));
    assert!((point.window_s - 0.6).abs() < 1e-9);
    assert!((point.offered_hz - 100.0).abs() < 1e-6);
    assert_eq!(server.requests(), 100);
    assert_eq!(
        point.seconds[0].offered, 100,
        "the seconds show all of the load"
    );
}

#[test]
fn equal_seeds_give_equal_loads() {
    let server = Server::answering(OK);
    let offered = |seed| {
        let mut plan = even(server.target(), "const(150,1.5)");
        plan.mode = Mode::Open {
            schedule: "const(150,1.5)".parse().expect("valid"),
            arrivals: Arrivals::Poisson { seed },
        };
        plan.threads = 2;
        run(&plan)
            .seconds
            .iter()
            .map(|s| s.offered)
            .collect::<Vec<_>>()
    };
    let first = offered(11);
    assert_eq!(first, offered(11));
    assert_ne!(first, offered(12));
    let total: u64 = first.iter().sum();
    assert!(
        (total as f64 - 225.0).abs() < 5.0 * 15.0,
        "{total} of 225 expected"
    );
}

#[test]
fn the_mixture_arrives_with_its_weights() {
    let server = Server::start(|mut peer| {
        while let Some(head) = peer.request() {
            let status = if head.starts_with("GET /rare") {
                201
            } else {
                200
            };
            peer.say(&format!(
                "HTTP/1.1 {status} OK\r\nContent-Length: 0\r\n\r\n"
            ));
        }
    });
    let mut plan = even(server.target(), "const(1000,1)");
    plan.workload.requests[0].weight = 3.0;
    plan.workload.requests.push(Request::get("/rare"));
    let rare = run(&plan).outcomes.by_status[&201] as f64;
    let sd = (1000.0f64 * 0.25 * 0.75).sqrt();
    assert!((rare - 250.0).abs() < 5.0 * sd, "{rare} of 250 expected");
}

#[test]
fn a_stall_shows_in_every_response_it_delayed() {
    let stall = Duration::from_millis(300);
    let began = Instant::now();
    let stalled = AtomicBool::new(false);
    let server = Server::start(move |mut peer| {
        while peer.request().is_some() {
            let due = began.elapsed() > Duration::from_millis(400);
            if due && !stalled.swap(true, Ordering::SeqCst) {
                std::thread::sleep(stall);
            }
            peer.ok("ok");
        }
    });
    let mut plan = even(server.target(), "const(100,1.2)");
    // One connection, so that one request meets the stall and the others wait behind it.
    plan.max_connections = 1;
    plan.slo.response_time = Duration::from_millis(100);
    let point = run(&plan);
    let half = stall.as_micros() as u64 / 2;
    let slow_service = point.service.count_above_us(half);
    let slow_response = point.response.count_above_us(half);
    assert_eq!(point.outcomes.of(Outcome::Ok), 120);
    assert!(slow_service >= 1, "the one that met it");
    assert!(
        slow_response >= 10 && slow_response >= 5 * slow_service,
        "{slow_response} slow from the intended start, {slow_service} from the send"
    );
    assert!(point.violations() >= slow_response);
}

#[test]
fn users_keep_their_own_cookies() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let heads = seen.clone();
    let given = AtomicUsize::new(0);
    let server = Server::start(move |mut peer| {
        while let Some(head) = peer.request() {
            let cookie = head
                .lines()
                .find_map(|l| l.strip_prefix("Cookie: "))
                .map(str::to_owned);
            let set = match &cookie {
                Some(_) => String::new(),
                None => format!(
                    "Set-Cookie: id={}; path=/\r\n",
                    given.fetch_add(1, Ordering::SeqCst)
                ),
            };
            heads.lock().expect("lock").push(cookie.unwrap_or_default());
            peer.say(&format!(
                "HTTP/1.1 200 OK\r\n{set}Content-Length: 2\r\n\r\nok"
            ));
        }
    });
    let mut plan = even(server.target(), "const(50,0.8)");
    plan.workload.requests[0].session = true;
    plan.workload.users = 4;
    assert_eq!(shown(&run(&plan)), "ok 40 | 200: 40");
    let seen = seen.lock().expect("lock");
    let without = seen.iter().filter(|cookie| cookie.is_empty()).count();
    let distinct: BTreeSet<&String> = seen.iter().filter(|cookie| !cookie.is_empty()).collect();
    assert_eq!((without, distinct.len()), (4, 4), "{seen:?}");
}

#[test]
fn a_closed_loop_keeps_so_many_requests_under_way() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (n, m) = (now.clone(), most.clone());
    let server = Server::start(move |mut peer| {
        while peer.request().is_some() {
            m.fetch_max(n.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(5));
            n.fetch_sub(1, Ordering::SeqCst);
            peer.ok("ok");
        }
    });
    let mode = Mode::Closed(ClosedLoop::new(6, Duration::from_millis(500)));
    let mut plan = LoadPlan::new(server.target(), Workload::single("/"), mode);
    plan.threads = 2;
    plan.max_connections = 2;
    let point = run(&plan);
    assert_eq!(most.load(Ordering::SeqCst), 6);
    assert_eq!(point.closed_workers, Some(6));
    assert_eq!(server.connections(), 6);
    assert!((point.offered_hz - point.arrivals as f64 / 0.5).abs() < 1e-6);
}

#[test]
fn a_closed_loop_does_not_storm_a_dead_server() {
    let gone = common::free_address();
    let mode = Mode::Closed(ClosedLoop::new(4, Duration::from_millis(300)));
    let point = run(&LoadPlan::new(
        common::http(gone),
        Workload::single("/"),
        mode,
    ));
    // The pause doubles from 1 ms to 50 ms: some ten rounds of at most four, not thousands.
    assert!(
        (1..200).contains(&point.arrivals),
        "{} attempts",
        point.arrivals
    );
    assert_eq!(point.outcomes.of(Outcome::Refused), point.arrivals);
}

#[test]
fn a_stop_ends_the_load_and_keeps_what_was_measured() {
    let server = Server::answering(OK);
    let plan = even(server.target(), "const(100,60)");
    let stop = AtomicBool::new(false);
    let last: Mutex<Option<Progress>> = Mutex::default();
    let told = |progress: &Progress| {
        stop.store(progress.arrivals > 50, Ordering::Relaxed);
        *last.lock().expect("lock") = Some(progress.clone());
    };
    let point = Engine::run(&plan, &told, &stop).expect("runs");
    hold_invariants(&plan, &point);
    assert!(
        point.window_s < 30.0 && point.arrivals > 50,
        "{}",
        point.describe()
    );
    let expected = (point.window_s * 100.0).ceil();
    assert!(
        (point.arrivals as f64 - expected).abs() <= 1.0,
        "{} in {}",
        point.arrivals,
        point.window_s
    );
    assert!(!point.aborted);
    let progress = last
        .lock()
        .expect("lock")
        .clone()
        .expect("progress was told");
    assert_eq!(progress.total, Duration::from_secs(60));
    assert!(
        progress.p50_ms.is_some() && progress.ended > 0,
        "{progress:?}"
    );
}

#[test]
fn a_hopeless_load_is_ended() {
    let server = Server::answering("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n");
    let mut plan = even(server.target(), "const(200,60)");
    plan.abort = Some(AbortRule::default());
    let point = run(&plan);
    assert!(
        point.aborted && point.window_s < 30.0,
        "{}",
        point.describe()
    );
    assert!(point.arrivals >= 100);
}

#[test]
fn every_arrival_ends_once_whatever_the_server_does() {
    let server = Server::start(|mut peer| {
        let mut turn = peer.number;
        while peer.request().is_some() {
            turn += 1;
            match turn % 7 {
                0 => return peer.reset(),
                1 => return,
                2 => return peer.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
                3 => peer.say("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
                4 => std::thread::sleep(Duration::from_millis(150)),
                5 => return peer.say("garbage\r\n\r\n"),
                _ => peer.ok("ok"),
            }
        }
    });
    for (threads, connections) in [(1, 1), (1, 64), (2, 5)] {
        let mut plan = even(server.target(), "line(0,600,1)");
        plan.threads = threads;
        plan.max_connections = connections;
        plan.slo.timeout = Duration::from_millis(100);
        plan.skip = Duration::from_millis(100);
        let point = run(&plan);
        // 3 of the 300 arrivals come within the skipped tenth of a second.
        assert_eq!(
            point.arrivals, 297,
            "{threads} threads, {connections} connections"
        );
        assert!(point.outcomes.by_outcome.len() >= 3, "{}", shown(&point));
        assert!(point.examples.len() <= 5);
    }
}

#[test]
fn a_plan_that_cannot_be_is_refused_with_what_to_do() {
    let server = Server::answering(OK);
    let check = |change: fn(&mut LoadPlan), says: &str| {
        let mut plan = even(server.target(), "const(1,1)");
        change(&mut plan);
        let error = Engine::run(&plan, &|_| {}, &AtomicBool::new(false)).expect_err(says);
        assert!(error.to_string().contains(says), "{error}");
    };
    check(|p| p.threads = 0, "use 1 to 256");
    check(|p| p.max_connections = 0, "at least one per thread");
    check(|p| p.max_connections = 100_000_000, "raise `ulimit -Hn`");
    check(|p| p.workload.requests.clear(), "add a [[request]]");
    check(|p| p.workload.requests[0].weight = 0.0, "not all 0");
    check(
        |p| p.workload.requests[0].path = "x y".into(),
        "begin it with /",
    );
    check(
        |p| p.workload.requests[0].headers = vec![("A".into(), "b\r\nC: d".into())],
        "on one line",
    );
    check(|p| p.slo.timeout = Duration::ZERO, "set slo.timeout");
    check(|p| p.netns = Some("/run/netns/no-such".into()), "no-such");
}

#[test]
fn an_empty_window_is_invalid() {
    let server = Server::answering(OK);
    let mut plan = even(server.target(), "const(10,0.2)");
    plan.skip = Duration::from_secs(5);
    let Validity::Invalid { because } = run(&plan).validity else {
        panic!("nothing was measured");
    };
    assert!(because[0].contains("no arrival"), "{because:?}");
}

#[test]
fn single_requests_identify_the_target() {
    let server = Server::start(|mut peer| {
        let head = peer.request().unwrap_or_default();
        if head.starts_with("GET /.well-known/kneepoint ") {
            peer.ok("nonce-42");
        } else {
            peer.say("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone");
        }
    });
    let second = Duration::from_secs(5);
    let target = server.target();
    let nonce = identify(&target, "/.well-known/kneepoint", None, second).expect("answers");
    assert_eq!(nonce, "nonce-42");
    let error = identify(&target, "/other", None, second).expect_err("404");
    assert!(
        error.to_string().contains("status 404 instead of 200"),
        "{error}"
    );
    let fetched =
        fetch(&target, &Request::get("/other"), None, second).expect("an answer is an answer");
    assert_eq!(
        (fetched.status, fetched.body.as_slice()),
        (404, b"none".as_slice())
    );

    let silent = Server::start(|mut peer| while peer.request().is_some() {});
    let error = fetch(
        &silent.target(),
        &Request::get("/"),
        None,
        Duration::from_millis(50),
    );
    assert!(
        error
            .expect_err("silence")
            .to_string()
            .contains("nothing within 50ms")
    );
}
