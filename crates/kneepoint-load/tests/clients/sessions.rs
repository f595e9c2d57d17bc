//! Visitors decide: scripts in order with one cookie, pauses from the response, visits that complete and that do not.

use crate::common::{Peer, Server, closed, even, run, shown};
use kneepoint_load::{Engine, LoadPlan};
use kneepoint_model::{ClosedLoop, Request, Script, SessionCounts, Sessions, ThinkTime, Workload};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What a server saw of each visitor, by the cookie it gave: the paths in order.
type Seen = Arc<Mutex<BTreeMap<usize, Vec<String>>>>;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Which visitor a request is of, by its cookie; a new one without.
fn visitor(head: &str, given: &AtomicUsize) -> usize {
    let cookie = head.lines().find_map(|l| l.strip_prefix("Cookie: id="));
    match cookie.and_then(|id| id.trim().parse().ok()) {
        Some(id) => id,
        None => given.fetch_add(1, Ordering::SeqCst),
    }
}

/// A server that knows its visitors again and answers each path with a status.
fn knowing(status: impl Fn(&str) -> u16 + Send + Sync + 'static) -> (Server, Seen) {
    let seen = Seen::default();
    let (paths, given) = (seen.clone(), AtomicUsize::new(0));
    let server = Server::start(move |mut peer: Peer| {
        while let Some(head) = peer.request() {
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let id = visitor(&head, &given);
            let status = status(&path);
            let mut seen = paths.lock().expect("lock");
            seen.entry(id).or_default().push(path);
            drop(seen);
            peer.say(&format!(
                "HTTP/1.1 {status} X\r\nSet-Cookie: id={id}; path=/\r\nContent-Length: 2\r\n\r\nok"
            ));
        }
    });
    (server, seen)
}

fn script(name: &str, requests: &[usize]) -> Script {
    Script {
        name: name.into(),
        weight: 1.0,
        requests: requests.into(),
    }
}

/// Login, shop and pay, of which no request asks for a session of its own.
fn workload(sessions: Sessions) -> Workload {
    let mut workload = Workload::single("/");
    workload.requests = ["/login", "/shop", "/pay"].map(Request::get).into();
    workload.sessions = Some(sessions);
    workload
}

fn shopping(pause: Duration) -> Workload {
    workload(Sessions {
        scripts: vec![script("shopping", &[0, 1, 1, 2])],
        think_time: ThinkTime::Fixed(pause),
        ..Sessions::default()
    })
}

fn with(mut plan: LoadPlan, workload: Workload) -> LoadPlan {
    plan.workload = workload;
    plan
}

#[test]
fn visitors_follow_the_script_with_one_cookie() {
    for threads in [1, 2] {
        let (server, seen) = knowing(|_| 200);
        let mut plan = with(
            even(server.target(), "const(50,0.4) const(0,0.8)"),
            shopping(ms(10)),
        );
        plan.threads = threads;
        let point = run(&plan);
        assert_eq!(shown(&point), "ok 80 | 200: 80", "{threads} threads");
        let seen = seen.lock().expect("lock");
        assert_eq!(seen.len(), 20, "a user for each of 20 visits");
        for paths in seen.values() {
            assert_eq!(paths, &["/login", "/shop", "/shop", "/pay"]);
        }
        let complete = SessionCounts {
            started: 20,
            completed: 20,
            ..SessionCounts::default()
        };
        assert_eq!(point.sessions, Some(complete));
        assert!(
            (point.offered_hz - 80.0 / 1.2).abs() < 1e-6,
            "requests, not visits: {}",
            point.offered_hz
        );
        let visits_hz = point.visits_offered_hz.expect("visitors come");
        assert!((visits_hz - 20.0 / 1.2).abs() < 1e-6, "{visits_hz}");
    }
}

#[test]
fn the_pause_counts_from_the_response() {
    let pause = ms(30);
    let shortest = Arc::new(Mutex::new(Duration::MAX));
    let least = shortest.clone();
    let server = Server::start(move |mut peer| {
        let mut answered: Option<Instant> = None;
        while peer.request().is_some() {
            if let Some(answered) = answered {
                let mut least = least.lock().expect("lock");
                *least = answered.elapsed().min(*least);
            }
            std::thread::sleep(ms(20));
            // Taken before the answer: what follows cannot be earlier than the pause after it.
            answered = Some(Instant::now());
            peer.ok("ok");
        }
    });
    // All three are on a visit at the same time, so that nobody takes over a connection.
    let plan = with(
        even(server.target(), "const(100,0.03) const(0,1)"),
        shopping(pause),
    );
    let point = run(&plan);
    assert_eq!(shown(&point), "ok 12 | 200: 12");
    // Each visitor kept its connection, so that the server saw every pause.
    assert_eq!(server.connections(), 3);
    let shortest = *shortest.lock().expect("lock");
    assert!(shortest >= pause, "{shortest:?} after a response");
}

#[test]
fn a_failure_breaks_the_visit_off() {
    let (server, seen) = knowing(|path| if path == "/shop" { 500 } else { 200 });
    let plan = with(
        even(server.target(), "const(50,0.4) const(0,0.3)"),
        shopping(ms(5)),
    );
    let point = run(&plan);
    assert_eq!(shown(&point), "ok 20, http error 20 | 200: 20, 500: 20");
    for paths in seen.lock().expect("lock").values() {
        assert_eq!(paths, &["/login", "/shop"], "nobody paid");
    }
    let counts = point.sessions.expect("visits");
    assert_eq!((counts.started, counts.broken_off), (20, 20));
    assert_eq!((counts.completed, counts.unfinished()), (0, 0));
}

#[test]
fn visits_of_the_mix_have_their_length() {
    let (server, seen) = knowing(|_| 200);
    let sessions = Sessions {
        lengths: vec![(3, 1.0)],
        ..Sessions::default()
    };
    let plan = with(
        even(server.target(), "const(50,0.4) const(0,0.5)"),
        workload(sessions),
    );
    let point = run(&plan);
    assert_eq!(shown(&point), "ok 60 | 200: 60");
    assert!(
        seen.lock()
            .expect("lock")
            .values()
            .all(|paths| paths.len() == 3)
    );
}

#[test]
fn when_the_schedule_ends_visits_go_no_further() {
    let (server, _) = knowing(|_| 200);
    let sessions = Sessions {
        lengths: vec![(1000, 1.0)],
        think_time: ThinkTime::Fixed(ms(40)),
        ..Sessions::default()
    };
    let plan = with(even(server.target(), "const(20,0.5)"), workload(sessions));
    let point = run(&plan);
    let counts = point.sessions.expect("visits");
    assert_eq!((counts.started, counts.unfinished()), (10, 10));
    // A visitor who comes at t makes at most one request and one per pause until 0.5 s.
    let most: f64 = (0..10)
        .map(|k| 1.0 + (0.5 - f64::from(k) / 20.0) / 0.04)
        .sum();
    let made = point.arrivals as f64;
    assert!(made <= most && made > most / 2.0, "{made} of {most}");
    assert_eq!(point.seconds.len(), 1, "none is intended after the end");
}

#[test]
fn what_is_skipped_does_not_count_among_the_visits() {
    let (server, _) = knowing(|_| 200);
    let mut plan = with(even(server.target(), "const(50,0.8)"), shopping(ms(1)));
    plan.skip = ms(400);
    let counts = run(&plan).sessions.expect("visits");
    assert_eq!(counts.started, 20, "{counts:?}");
}

#[test]
fn a_worker_is_one_visitor_after_the_other() {
    let (server, seen) = knowing(|_| 200);
    let plan = with(
        closed(
            server.target(),
            ClosedLoop {
                loops: Some(12),
                think_time: ThinkTime::Fixed(ms(2)),
                ..ClosedLoop::new(3, Duration::from_secs(60))
            },
        ),
        shopping(ms(1)),
    );
    let point = run(&plan);
    assert_eq!(shown(&point), "ok 36 | 200: 36");
    let seen = seen.lock().expect("lock");
    // 3 workers with 3 visits each, and somebody new each time.
    assert_eq!(seen.len(), 9);
    assert!(
        seen.values()
            .all(|p| *p == ["/login", "/shop", "/shop", "/pay"])
    );
    let counts = point.sessions.expect("visits");
    assert_eq!((counts.started, counts.completed), (9, 9));
}

#[test]
fn visitors_never_share_cookies_however_few_users_there_are() {
    let (server, seen) = knowing(|_| 200);
    let mut plan = with(
        even(server.target(), "const(100,0.1) const(0,1)"),
        shopping(ms(100)),
    );
    plan.workload.users = 2;
    let point = run(&plan);
    assert_eq!(shown(&point), "ok 40 | 200: 40");
    let seen = seen.lock().expect("lock");
    assert_eq!(seen.len(), 10, "one for each visit");
    assert!(seen.values().all(|paths| paths.len() == 4));
    assert_eq!(point.sessions.expect("visits").completed, 10);
}

#[test]
fn those_who_think_give_way_when_connections_are_few() {
    let (server, _) = knowing(|_| 200);
    let mut plan = with(
        even(server.target(), "const(100,0.2) const(0,1)"),
        shopping(ms(30)),
    );
    plan.max_connections = 2;
    let point = run(&plan);
    assert_eq!(shown(&point), "ok 80 | 200: 80");
    assert_eq!(point.connections_opened, 2);
}

#[test]
fn every_request_ends_once_whatever_the_server_does() {
    let server = Server::start(|mut peer| {
        let mut turn = peer.number;
        while peer.request().is_some() {
            turn += 1;
            match turn % 9 {
                0 => return peer.reset(),
                1 => return,
                2 => return peer.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
                3 => peer.say("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
                4 => std::thread::sleep(ms(150)),
                _ => peer.ok("ok"),
            }
        }
    });
    let mut all = SessionCounts::default();
    for (threads, connections) in [(1, 1), (1, 64), (2, 5)] {
        let mut plan = with(even(server.target(), "line(0,300,1)"), shopping(ms(5)));
        plan.threads = threads;
        plan.max_connections = connections;
        plan.slo.timeout = ms(100);
        let point = run(&plan);
        let counts = point.sessions.expect("visits");
        assert_eq!(counts.started, 150, "{threads} threads, {connections}");
        assert!(point.arrivals > 150, "{}", shown(&point));
        all.merge(&counts);
    }
    assert!(all.broken_off > 0 && all.completed > 0, "{all:?}");
}

#[test]
fn visits_that_cannot_be_are_refused_with_what_to_do() {
    let (server, _) = knowing(|_| 200);
    let check = |sessions: Sessions, says: &str| {
        let plan = with(even(server.target(), "const(1,1)"), workload(sessions));
        let error = Engine::run(&plan, &|_| {}, &AtomicBool::new(false)).expect_err(says);
        assert!(error.to_string().contains(says), "{error}");
    };
    let scripts = |scripts| Sessions {
        scripts,
        ..Sessions::default()
    };
    let lengths = |lengths| Sessions {
        lengths,
        ..Sessions::default()
    };
    check(Sessions::default(), "without scripts and without lengths");
    check(lengths(vec![(0, 1.0)]), "a visit of 0 requests");
    check(
        lengths(vec![(1, 0.0)]),
        "the weights of the lengths of visits",
    );
    check(
        scripts(vec![script("empty", &[])]),
        "\"empty\" has no requests",
    );
    check(
        scripts(vec![script("far", &[0, 3])]),
        "asks for request 3 and there are 3",
    );
    let mut weightless = script("none", &[0]);
    weightless.weight = f64::NAN;
    check(scripts(vec![weightless]), "the weights of the scripts");
    let backwards = Sessions {
        think_time: ThinkTime::Empirical {
            quantiles: vec![ms(2), ms(1)],
        },
        ..lengths(vec![(1, 1.0)])
    };
    check(backwards, "the visitors' think time");
}
