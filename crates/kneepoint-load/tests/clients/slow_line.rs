//! Clients whose lines are slow: what they take comes at the rate of the line, and the rest stays with the server.

use crate::common::secure_site::{LARGE_BYTES, Site};
use crate::common::{Peer, Server, closed, even, free_address, http, run, shown};
use kneepoint_load::{HttpVersion, LoadPlan, Target};
use kneepoint_model::{Address, ClosedLoop, LoadPoint, Request};
use rustix::net::sockopt::set_socket_send_buffer_size;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a page is.
const PAGE_BYTES: usize = 250_000;
/// The line of a telephone, as measurements of web pages take it.
const LINE_MBIT: f64 = 1.6;

/// A request over a line.
fn over(mbit: f64, path: &str) -> Request {
    Request {
        client_mbit: Some(mbit),
        ..Request::get(path)
    }
}

/// Such a request, once.
fn once(target: Target, request: Request) -> LoadPlan {
    let mut plan = even(target, "const(1,1)");
    plan.workload.requests = vec![request];
    plan.slo.timeout = Duration::from_secs(60);
    plan
}

/// No line is faster than it is: so many bytes take so long, in ms.
fn least_ms(bytes: usize, mbit: f64) -> f64 {
    bytes as f64 * 8e-3 / mbit
}

/// One response of so many bytes took what its line takes, and not several times that. A histogram has three digits.
fn check(point: &LoadPoint, bytes: usize, mbit: f64) {
    assert_eq!(shown(point), "ok 1 | 200: 1", "{:?}", point.examples);
    let took_ms = point.response.quantile_ms(0.5).expect("an answer");
    let least_ms = least_ms(bytes, mbit);
    assert!(took_ms >= 0.998 * least_ms, "{took_ms} ms of {least_ms}");
    assert!(took_ms < 4.0 * least_ms, "{took_ms} ms of {least_ms}");
}

#[test]
fn a_slow_client_keeps_the_server_waiting() {
    let wrote: Arc<Mutex<Vec<f64>>> = Arc::default();
    let writes = wrote.clone();
    let server = Server::start(move |mut peer: Peer| {
        // The kernel's buffers grow with what it could send: they are to hold less than the page.
        set_socket_send_buffer_size(&peer.stream, 16 << 10).expect("a socket");
        while peer.request().is_some() {
            let began = Instant::now();
            peer.ok(&"x".repeat(PAGE_BYTES));
            let took_ms = began.elapsed().as_secs_f64() * 1e3;
            writes.lock().expect("one at a time").push(took_ms);
        }
    });
    let point = run(&once(server.target(), over(LINE_MBIT, "/")));
    check(&point, PAGE_BYTES, LINE_MBIT);
    let wrote_ms = wrote.lock().expect("it has ended")[0];
    let least_ms = least_ms(PAGE_BYTES, LINE_MBIT);
    assert!(wrote_ms > 0.3 * least_ms, "{wrote_ms} of {least_ms}");
}

#[test]
fn a_line_that_carries_more_than_one_read_takes_its_time_as_well() {
    const MBIT: f64 = 80.0;
    const BYTES: usize = 8_000_000;
    let server = Server::start(|mut peer: Peer| {
        while peer.request().is_some() {
            peer.ok(&"x".repeat(BYTES));
        }
    });
    check(&run(&once(server.target(), over(MBIT, "/"))), BYTES, MBIT);
}

#[test]
fn encrypted_answers_take_as_long() {
    let site = Site::start();
    let mut large = over(40.0, "/large");
    large.expect.body_contains = vec!["the end".into()];
    let point = run(&once(site.https(site.tls), large));
    check(&point, LARGE_BYTES, 40.0);
}

/// The paths that were asked for on each connection, in the order in which connections ended.
type Asked = Arc<Mutex<Vec<Vec<String>>>>;

/// A server whose page `/slow` is longer than others.
fn noting(asked: &Asked) -> Server {
    let asked = asked.clone();
    Server::start(move |mut peer: Peer| {
        let mut paths = Vec::new();
        while let Some(head) = peer.request() {
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let is_slow = path == "/slow";
            peer.ok(&"x".repeat(if is_slow { 20_000 } else { 10 }));
            paths.push(path);
            if is_slow {
                assert!(head.contains("Connection: close"), "{head}");
                break;
            }
        }
        asked.lock().expect("one at a time").push(paths);
    })
}

#[test]
fn other_clients_have_connections_of_their_own() {
    let asked = Asked::default();
    let server = noting(&asked);
    let mut plan = even(server.target(), "const(50,1)");
    plan.workload.requests = vec![over(LINE_MBIT, "/slow"), Request::get("/fast")];
    let point = run(&plan);
    assert_eq!(shown(&point), "ok 50 | 200: 50", "{:?}", point.examples);
    drop(server);
    let asked = asked.lock().expect("it has ended");
    let slow = || {
        asked
            .iter()
            .filter(|paths| paths.contains(&"/slow".to_owned()))
    };
    assert!(slow().count() > 10, "{asked:?}");
    assert!(slow().all(|paths| paths.len() == 1), "{asked:?}");
    let fast = asked.iter().filter(|paths| paths.len() > 1);
    assert!(fast.count() > 0, "the others are kept: {asked:?}");
}

#[test]
fn who_waits_for_a_connection_that_a_slow_client_holds_waits_for_the_generator() {
    let server = noting(&Asked::default());
    let mut plan = even(server.target(), "const(50,1)");
    let said = |plan: &LoadPlan| run(plan).doubts.join("\n");
    plan.workload.requests = vec![over(LINE_MBIT, "/slow")];
    assert_eq!(said(&plan), "");
    plan.max_connections = 2;
    let doubts = said(&plan);
    assert!(doubts.contains("at most 2"), "{doubts}");
}

#[test]
fn who_asks_over_a_slow_line_in_between_keeps_the_connection_for_the_rest() {
    let asked = Asked::default();
    let server = noting(&asked);
    let mut plan = closed(
        server.target(),
        ClosedLoop {
            requests: Some(40),
            ..ClosedLoop::new(1, Duration::from_secs(30))
        },
    );
    plan.workload.requests = vec![over(40.0, "/slow"), Request::get("/fast")];
    let point = run(&plan);
    assert_eq!(shown(&point), "ok 40 | 200: 40", "{:?}", point.examples);
    drop(server);
    let asked = asked.lock().expect("it has ended");
    let fast = asked
        .iter()
        .filter(|paths| paths.contains(&"/fast".to_owned()));
    assert_eq!(fast.count(), 1, "{asked:?}");
}

#[test]
fn a_server_that_goes_away_is_noticed_before_the_line_has_carried_all() {
    const MBIT: f64 = 0.001;
    let server = Server::start(|mut peer: Peer| {
        peer.request();
        peer.say("HTTP/1.1 200 OK\r\nContent-Length: 250000\r\n\r\n");
        peer.say(&"x".repeat(5000));
        peer.reset();
    });
    let point = run(&once(server.target(), over(MBIT, "/")));
    assert_eq!(shown(&point), "truncated 1 | ", "{:?}", point.examples);
    let took_ms = point.failed_response.max_ms().expect("one");
    let least_ms = least_ms(point.bytes_received as usize, MBIT);
    assert!(
        took_ms < least_ms,
        "{took_ms} ms, and {least_ms} on the line"
    );
}

#[test]
fn an_answer_that_comes_before_the_request_was_sent_is_taken_at_once() {
    let server = Server::start(|mut peer: Peer| {
        peer.request();
        peer.say("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    });
    let mut upload = over(LINE_MBIT, "/");
    upload.method.0 = "POST".into();
    upload.body = Some("x".repeat(16 << 20).into());
    upload.expect.status = vec![413.into()];
    let point = run(&once(server.target(), upload));
    assert_eq!(shown(&point), "ok 1 | 413: 1", "{:?}", point.examples);
}

#[test]
fn what_no_client_has_a_line_to_is_refused() {
    let refused = |target: Target| {
        let refused = once(target, over(LINE_MBIT, "/")).check();
        let said = refused.expect_err("it cannot").to_string();
        assert!(
            said.contains("client_mbit is for HTTP/1.1 over TCP"),
            "{said}"
        );
    };
    let address = Address::Tcp(free_address());
    let socket = || Address::Unix("/run/site.sock".into());
    refused(http(free_address()).with_version(HttpVersion::Http2));
    refused(Target::http(socket(), "site.test"));
    refused(Target::fastcgi(
        address,
        Path::new("/srv/index.php"),
        Path::new("/srv"),
    ));
    for mbit in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let refused = once(http(free_address()), over(mbit, "/")).check();
        assert!(refused.is_err(), "{mbit}");
    }
}
