//! HTTP/2 on a real nginx, in the clear and encrypted.

use crate::common::secure_site::{LARGE_BYTES, NAME, PATIENCE, Site};
use crate::common::{Server, even, free_address, run, shown};
use kneepoint_load::{HttpVersion, LoadPlan, Mode, Target, fetch, identify};
use kneepoint_model::{Address, Arrivals, ClosedLoop, Feeder, Outcome, Request, RowOrder};
use std::net::SocketAddr;
use std::time::Duration;

fn clear(door: SocketAddr) -> Target {
    Target::http(Address::Tcp(door), NAME).with_version(HttpVersion::Http2)
}

fn doors(site: &Site) -> [Target; 2] {
    let encrypted = site.https(site.tls_h2).with_version(HttpVersion::Http2);
    [clear(site.h2c), encrypted]
}

fn plan(target: Target, schedule: &str, request: Request) -> LoadPlan {
    let mut plan = even(target, schedule);
    plan.workload.requests = vec![request];
    plan.slo.timeout = PATIENCE;
    plan
}

#[test]
fn the_arrivals_are_the_schedule() {
    let site = Site::start();
    for target in doors(&site) {
        for threads in [1, 2] {
            let mut get = Request::get("/");
            get.expect.body_contains = vec!["hello".into()];
            let schedule = "line(0,200,1) const(0,0.3) const(40.5,1)";
            let mut plan = plan(target.clone(), schedule, get);
            plan.threads = threads;
            let point = run(&plan);
            assert_eq!(shown(&point), "ok 140 | 200: 140", "{:?}", point.examples);
            let offered: Vec<u64> = point.seconds.iter().map(|s| s.offered).collect();
            assert_eq!(offered, [100, 29, 11], "by second of intended start");
            assert_eq!(point.bytes_received, 140 * 5);
            assert!(point.health.cpu_share > 0.0);
        }
    }
}

#[test]
fn equal_seeds_give_equal_loads_and_what_is_skipped_is_not_in_the_window() {
    let site = Site::start();
    let offered = |seed| {
        let mut plan = plan(clear(site.h2c), "const(1,1)", Request::get("/"));
        plan.mode = Mode::Open {
            schedule: "const(150,1.2)".parse().expect("valid"),
            arrivals: Arrivals::Poisson { seed },
        };
        plan.skip = Duration::from_millis(500);
        let point = run(&plan);
        let all: u64 = point.seconds.iter().map(|s| s.offered).sum();
        assert!(point.arrivals < all, "{} of {all}", point.arrivals);
        all
    };
    assert_eq!(offered(11), offered(11));
}

#[test]
fn errors_of_the_site_are_counted_as_such() {
    let site = Site::start();
    for target in doors(&site) {
        let missing = plan(target.clone(), "const(60,0.5)", Request::get("/missing"));
        let point = run(&missing);
        assert_eq!(shown(&point), "http error 30 | 404: 30");
        assert!(
            point.examples[0]
                .starts_with("GET /missing: http error, status 404, expected a status"),
            "{:?}",
            point.examples
        );
        let mut wrong = Request::get("/");
        wrong.expect.body_contains = vec!["goodbye".into()];
        let point = run(&plan(target, "const(60,0.5)", wrong));
        assert_eq!(shown(&point), "wrong body 30 | 200: 30");
    }
}

#[test]
fn large_bodies_pass_flow_control_both_ways() {
    let site = Site::start();
    for target in doors(&site) {
        for connections in [1, 64] {
            let mut large = Request::get("/large");
            large.expect.body_contains = vec!["the end".into()];
            let mut plan_down = plan(target.clone(), "const(20,1)", large);
            plan_down.max_connections = connections;
            let point = run(&plan_down);
            assert_eq!(shown(&point), "ok 20 | 200: 20", "{:?}", point.examples);
            assert_eq!(point.bytes_received, 20 * LARGE_BYTES as u64);
        }
        let mut post = Request::get("/echo");
        post.method.0 = "POST".into();
        post.body = Some("x".repeat(1 << 20).into());
        post.expect.body_contains = vec![format!("POST {}", 1 << 20)];
        let point = run(&plan(target, "const(20,1)", post));
        assert_eq!(shown(&point), "ok 20 | 200: 20", "{:?}", point.examples);
    }
}

#[test]
fn a_timeout_ends_the_stream_and_not_the_connection() {
    let site = Site::start();
    for target in doors(&site) {
        let mut plan = even(target, "const(50,1)");
        plan.workload.requests = vec![Request::get("/"), Request::get("/slow")];
        plan.max_connections = 1;
        plan.slo.timeout = Duration::from_millis(400);
        let point = run(&plan);
        let (ok, late) = (
            point.outcomes.of(Outcome::Ok),
            point.outcomes.of(Outcome::Timeout),
        );
        assert_eq!(ok + late, 50, "{}: {:?}", shown(&point), point.examples);
        assert!(ok > 5 && late > 5, "{}", shown(&point));
        assert_eq!(point.connections_opened, 1);
        assert_eq!(point.failed_response.count_above_us(399_000), late);
    }
}

#[test]
fn a_server_that_says_goodbye_gets_a_new_connection() {
    let site = Site::start();
    let point = run(&plan(clear(site.goaway), "const(100,1)", Request::get("/")));
    assert_eq!(shown(&point), "ok 100 | 200: 100", "{:?}", point.examples);
    assert!(
        point.connections_opened >= 10,
        "{}",
        point.connections_opened
    );
}

#[test]
fn without_keep_alive_each_connection_carries_one_request() {
    let site = Site::start();
    let target = clear(site.h2c).with_keep_alive(false);
    let point = run(&plan(target, "const(60,1)", Request::get("/")));
    assert_eq!(shown(&point), "ok 60 | 200: 60", "{:?}", point.examples);
    assert_eq!(point.connections_opened, 60);
}

#[test]
fn a_closed_loop_keeps_to_what_the_server_allows_at_a_time() {
    let site = Site::start();
    for (door, workers) in [(site.narrow, 8), (site.h2c, 8)] {
        let mut plan = plan(clear(door), "const(1,1)", Request::get("/"));
        plan.mode = Mode::Closed(ClosedLoop::new(workers, Duration::from_millis(500)));
        plan.max_connections = 1;
        let point = run(&plan);
        assert_eq!(
            point.outcomes.failed(),
            0,
            "{}: {:?}",
            shown(&point),
            point.examples
        );
        assert!(point.arrivals > 50, "{}", point.arrivals);
        assert_eq!(point.connections_opened, 1);
        assert_eq!(point.closed_workers, Some(workers));
    }
}

#[test]
fn users_keep_their_own_cookies() {
    let site = Site::start();
    let mut request = Request::get("/cookie");
    request.session = true;
    request.expect.body_contains = vec!["cookie=1".into()];
    let mut plan = plan(clear(site.h2c), "const(60,1)", request);
    plan.workload.users = 5;
    // The first visit of each user is without.
    assert_eq!(shown(&run(&plan)), "ok 55, wrong body 5 | 200: 60");
}

#[test]
fn values_and_bodies_are_put_in_as_in_the_other_lane() {
    let site = Site::start();
    let mut request = Request::get("/echo?name={{users.name}}");
    request.method.0 = "POST".into();
    request.body = Some("name={{users.name}}".to_owned().into());
    // Both names have three letters.
    request.expect.body_contains = vec!["POST 8".into()];
    for target in doors(&site) {
        let mut plan = plan(target, "const(60,0.5)", request.clone());
        plan.workload.feeders = vec![Feeder {
            name: "users".into(),
            columns: vec!["name".into()],
            order: RowOrder::InTurn,
            rows: vec![vec!["ada".to_owned()], vec!["bob".to_owned()]].into(),
        }];
        let point = run(&plan);
        assert_eq!(shown(&point), "ok 30 | 200: 30", "{:?}", point.examples);
    }
}

#[test]
fn what_does_not_speak_http_2_is_said() {
    let site = Site::start();
    let server = Server::answering("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let point = run(&even(clear(server.address), "const(50,0.2)"));
    assert_eq!(
        shown(&point),
        "protocol error 10 | ",
        "{:?}",
        point.examples
    );
    assert!(
        point.examples[0].contains("speaks HTTP/2"),
        "{:?}",
        point.examples
    );

    // The encrypted door without HTTP/2 refuses it when the protocol is agreed on.
    let target = site.https(site.tls).with_version(HttpVersion::Http2);
    let point = run(&even(target, "const(50,0.2)"));
    assert_eq!(point.outcomes.failed(), 10);
    assert!(
        point.examples[0].contains("--http2"),
        "{:?}",
        point.examples
    );

    let gone = free_address();
    let point = run(&even(clear(gone), "const(50,0.2)"));
    assert_eq!(shown(&point), "refused 10 | ", "{:?}", point.examples);

    let silent = Server::start(|mut peer| {
        peer.skip_body(1 << 20);
    });
    let mut plan = even(clear(silent.address), "const(50,0.2)");
    plan.slo.timeout = Duration::from_millis(100);
    assert_eq!(shown(&run(&plan)), "timeout 10 | ");
}

#[test]
fn a_closed_loop_does_not_storm_a_server_that_drops_it() {
    let server = Server::start(|mut peer| {
        peer.request();
        peer.reset();
    });
    let duration = Duration::from_millis(300);
    let mut plan = plan(clear(server.address), "const(1,1)", Request::get("/"));
    plan.mode = Mode::Closed(ClosedLoop::new(8, duration));
    let point = run(&plan);
    let most = duration.as_millis() as u64 + 8;
    assert!(
        point.arrivals > 5 && point.arrivals <= most,
        "{}",
        point.arrivals
    );
}

#[test]
fn single_requests_speak_http_2_too() {
    let site = Site::start();
    for target in doors(&site) {
        assert_eq!(
            identify(&target, "/", None, PATIENCE).expect("answers"),
            "hello"
        );
        let error = fetch(
            &target,
            &Request::get("/slow"),
            None,
            Duration::from_millis(300),
        );
        let error = error.expect_err("it takes seconds").to_string();
        assert!(error.contains("nothing within 300ms"), "{error}");
    }
    let stranger = site.https(site.tls_h2).with_version(HttpVersion::Http2);
    let tls = kneepoint_load::Tls::new("other.test")
        .with_verify(kneepoint_load::Verify::CaFile(site.ca.clone()));
    let error = fetch(&stranger.with_tls(tls), &Request::get("/"), None, PATIENCE);
    let error = error.expect_err("another name").to_string();
    assert!(error.contains("not for `other.test`"), "{error}");
}
