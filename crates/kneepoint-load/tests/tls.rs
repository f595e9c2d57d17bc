//! HTTPS on a real nginx: what works, what fails, and what is said then.

use crate::common::secure_site::{LARGE_BYTES, NAME, PATIENCE, Site};
use crate::common::{Server, even, free_address, run, shown};
use kneepoint_load::{LoadPlan, Mode, Target, Tls, Verify, fetch, identify};
use kneepoint_model::{Address, ClosedLoop, LoadPoint, Outcome, Request, Workload};
use std::net::SocketAddr;
use std::time::Duration;

fn plan(target: Target, request: Request) -> LoadPlan {
    let mut plan = even(target, "const(60,1)");
    plan.workload.requests = vec![request];
    plan.slo.timeout = PATIENCE;
    plan
}

/// Sends ten requests with these settings and checks how all of them end, and what is said.
fn fails(door: SocketAddr, tls: Tls, expected: &str, says: &[&str]) -> LoadPoint {
    let target = Target::http(Address::Tcp(door), NAME).with_tls(tls);
    let point = run(&even(target, "const(50,0.2)"));
    assert_eq!(shown(&point), expected, "{:?}", point.examples);
    let said = point.examples.join("\n");
    assert!(says.iter().all(|part| said.contains(part)), "{said}");
    point
}

#[test]
fn encrypted_connections_carry_what_plain_ones_do() {
    let site = Site::start();
    for keep in [true, false] {
        let target = site.https(site.tls).with_keep_alive(keep);
        let mut get = Request::get("/");
        get.expect.body_contains = vec!["hello".into()];
        let point = run(&plan(target.clone(), get));
        assert_eq!(shown(&point), "ok 60 | 200: 60", "{:?}", point.examples);
        assert_eq!(point.doubts, Vec::<String>::new());
        let opened = point.connections_opened;
        assert!(if keep { opened < 30 } else { opened == 60 }, "{opened}");

        let mut post = Request::get("/echo");
        post.method.0 = "POST".into();
        // More than a session buffers at once, and than a socket takes.
        post.body = Some("x".repeat(3 << 20).into());
        post.expect.body_contains = vec![format!("POST {}", 3 << 20)];
        let point = run(&plan(target.clone(), post));
        assert_eq!(shown(&point), "ok 60 | 200: 60", "{:?}", point.examples);

        let mut head = Request::get("/large");
        head.method.0 = "HEAD".into();
        assert_eq!(shown(&run(&plan(target, head))), "ok 60 | 200: 60");
    }
}

#[test]
fn large_responses_come_whole() {
    let site = Site::start();
    let mut large = Request::get("/large");
    large.expect.body_contains = vec!["the end".into()];
    let mut plan = plan(site.https(site.tls), large);
    plan.mode = even(plan.target.clone(), "const(20,1)").mode;
    let point = run(&plan);
    assert_eq!(shown(&point), "ok 20 | 200: 20", "{:?}", point.examples);
    assert!(
        point.bytes_received > 20 * LARGE_BYTES as u64,
        "{} bytes with what encryption adds",
        point.bytes_received
    );
}

#[test]
fn sessions_are_resumed_on_new_connections() {
    let site = Site::start();
    let (_, before) = site.resumed(1);
    let target = site.https(site.tls).with_keep_alive(false);
    run(&plan(target, Request::get("/")));
    let (resumed, all) = site.resumed(before + 60);
    assert_eq!(all, before + 60);
    // The first ones have nothing to resume.
    assert!(resumed >= 50, "{resumed} of 60");
}

#[test]
fn a_certificate_that_is_not_trusted_is_an_outcome_with_a_reason() {
    let site = Site::start();
    let trusting = |ca: &std::path::Path| Tls::new(NAME).with_verify(Verify::CaFile(ca.into()));
    let all = "tls error 10 | ";
    fails(
        site.tls,
        trusting(&site.other_ca),
        all,
        &["GET /: TLS: ", "not trusted", "--cacert", "--insecure"],
    );
    fails(site.expired, trusting(&site.ca), all, &["has expired"]);
    let mut other_name = trusting(&site.ca);
    other_name.server_name = "other.test".into();
    fails(site.tls, other_name, all, &["not for `other.test`"]);
    let mut by_address = trusting(&site.ca);
    by_address.server_name = "127.0.0.1".into();
    fails(site.tls, by_address, "ok 10 | 200: 10", &[]);

    let blind = Tls::new("other.test").with_verify(Verify::None);
    let point = fails(site.expired, blind, "ok 10 | 200: 10", &[]);
    assert!(
        point.doubts[0].contains("certificates were not verified"),
        "{:?}",
        point.doubts
    );
}

#[test]
fn what_is_not_tls_is_said() {
    let site = Site::start();
    let tls = || Tls::new(NAME).with_verify(Verify::None);
    let server = Server::start(|mut peer| {
        peer.say("220 mail.test ready\r\n");
        peer.skip_body(1 << 20);
    });
    fails(
        server.address,
        tls(),
        "tls error 10 | ",
        &["not TLS", "http://"],
    );

    // A plain request at an encrypted door: nginx answers that in the clear.
    let plain = Target::http(Address::Tcp(site.tls), NAME);
    assert_eq!(
        shown(&run(&even(plain, "const(50,0.2)"))),
        "http error 10 | 400: 10"
    );
}

#[test]
fn a_handshake_that_breaks_or_hangs_is_no_tls_error() {
    let tls = || Tls::new(NAME).with_verify(Verify::None);
    let server = Server::start(drop);
    let said = ["during the TLS handshake"];
    fails(server.address, tls(), "reset 10 | ", &said);

    let gone = free_address();
    fails(gone, tls(), "refused 10 | ", &["connecting to"]);

    let silent = Server::start(|mut peer| {
        peer.skip_body(1 << 20);
    });
    let target = Target::http(Address::Tcp(silent.address), NAME).with_tls(tls());
    let mut plan = even(target, "const(50,0.2)");
    plan.slo.timeout = Duration::from_millis(100);
    assert_eq!(shown(&run(&plan)), "timeout 10 | ");
}

#[test]
fn a_closed_loop_does_not_storm_a_server_it_does_not_trust() {
    let site = Site::start();
    let tls = Tls::new(NAME).with_verify(Verify::CaFile(site.other_ca.clone()));
    let mode = Mode::Closed(ClosedLoop::new(4, Duration::from_millis(300)));
    let target = Target::http(Address::Tcp(site.tls), NAME).with_tls(tls);
    let point = run(&LoadPlan::new(target, Workload::single("/"), mode));
    // The pause doubles from 1 ms to 50 ms: some ten rounds of at most four.
    assert!((1..200).contains(&point.arrivals), "{}", point.arrivals);
    assert_eq!(point.outcomes.of(Outcome::Tls), point.arrivals);
}

#[test]
fn single_requests_are_encrypted_too() {
    let site = Site::start();
    let target = site.https(site.tls);
    assert_eq!(
        identify(&target, "/", None, PATIENCE).expect("answers"),
        "hello"
    );
    let mut post = Request::get("/echo");
    post.method.0 = "POST".into();
    post.body = Some("x".repeat(1 << 20).into());
    let fetched = fetch(&target, &post, None, PATIENCE).expect("answers");
    assert_eq!(fetched.body, format!("POST {}", 1 << 20).into_bytes());

    let stranger = Tls::new(NAME).with_verify(Verify::CaFile(site.other_ca.clone()));
    let error = fetch(
        &target.with_tls(stranger),
        &Request::get("/"),
        None,
        PATIENCE,
    );
    let error = error.expect_err("not trusted").to_string();
    assert!(
        error.contains("not trusted") && error.contains("--insecure"),
        "{error}"
    );
}
