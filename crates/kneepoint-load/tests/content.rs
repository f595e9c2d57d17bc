//! What is sent and what is made of the answers: values from tables and from responses, expectations.

use crate::common::{Peer, Server, even, run, shown};
use kneepoint_load::LoadPlan;
use kneepoint_model::{
    Body, Capture, CaptureFrom, Feeder, HeaderExpectation, Outcome, Request, RowOrder,
};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

fn plan(server: &Server, requests: Vec<Request>) -> LoadPlan {
    let mut plan = even(server.target(), "const(40,1)");
    plan.workload.requests = requests;
    plan
}

fn capture(name: &str, from: CaptureFrom) -> Capture {
    Capture {
        name: name.into(),
        from,
    }
}

/// The page of a user: a token of his own in the body, in pieces and chunks, and one in a cookie.
fn form(peer: &mut Peer, number: usize) {
    peer.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n");
    peer.say(&format!("Set-Cookie: xsrf=x%3D{number}; path=/\r\n\r\n"));
    peer.say("c\r\n<input value\r\n");
    thread::sleep(Duration::from_millis(1));
    peer.say("8\r\n=\"t+");
    peer.say(&format!("{:04}\r\n5\r\n\"><p>\r\n0\r\n\r\n", number));
}

fn length_of(head: &str) -> usize {
    head.lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .map_or(0, |length| length.parse().expect("a length"))
}

#[test]
fn what_a_response_gave_goes_into_the_next_request_of_the_same_user() {
    let posts: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = posts.clone();
    let server = Server::start(move |mut peer| {
        let mut number = peer.number * 100;
        while let Some(head) = peer.request() {
            if head.starts_with("GET /form ") {
                number += 1;
                form(&mut peer, number);
            } else {
                let length = length_of(&head);
                assert_eq!(
                    peer.skip_body(length),
                    length,
                    "the length is that of the body"
                );
                seen.lock().expect("lock").push(head);
                peer.ok("thanks");
            }
        }
    });
    let mut get = Request::get("/form");
    let between = CaptureFrom::BodyBetween {
        before: "value=\"".into(),
        after: "\"".into(),
    };
    get.captures = vec![
        capture("csrf", between),
        capture("xsrf", CaptureFrom::Cookie("xsrf".into())),
    ];
    let mut post = Request::get("/post?t={{csrf}}");
    post.method.0 = "POST".into();
    post.headers = vec![("X-XSRF".into(), "{{xsrf}}".into())];
    post.body = Some(Body::Form(vec![("_token".into(), "{{csrf}}".into())]));
    let mut plan = plan(&server, vec![get, post]);
    plan.workload.users = 3;
    let point = run(&plan);
    let kept_back = point.outcomes.of(Outcome::NoValue);
    assert_eq!(
        point.outcomes.of(Outcome::Ok) + kept_back,
        40,
        "{}",
        shown(&point)
    );
    // At most what the mixture drew before each of the three users had seen the form.
    assert!(kept_back < 20, "{}", shown(&point));
    let posts = posts.lock().expect("lock");
    assert!(posts.len() > 5, "{}", posts.len());
    for head in posts.iter() {
        let number = head
            .strip_prefix("POST /post?t=t%2B")
            .and_then(|rest| rest.split_whitespace().next())
            .unwrap_or_else(|| panic!("a token in {head}"));
        let number: usize = number.parse().expect("a number");
        assert!(head.contains(&format!("X-XSRF: x={number}\r\n")), "{head}");
        assert!(
            head.contains(&format!("Cookie: xsrf=x%3D{number}\r\n")),
            "{head}"
        );
    }
}

#[test]
fn a_request_without_its_value_is_kept_back_and_its_connection_serves_others() {
    let server = Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let mut get = Request::get("/");
    get.captures = vec![capture("token", CaptureFrom::Header("X-Token".into()))];
    let needs = Request::get("/{{token}}");
    let point = run(&plan(&server, vec![get, needs]));
    let (wrong, kept_back) = (
        point.outcomes.of(Outcome::WrongBody),
        point.outcomes.of(Outcome::NoValue),
    );
    assert_eq!(wrong + kept_back, 40, "{}", shown(&point));
    assert!(wrong > 5 && kept_back > 5, "{}", shown(&point));
    assert_eq!(server.requests() as u64, wrong, "nothing was sent empty");
    let mut examples = point.examples.clone();
    examples.sort();
    assert_eq!(
        examples,
        [
            "GET /: wrong body, status 200, expected a value for {{token}} in the header `X-Token`: ok",
            "GET /{{token}}: not sent: nothing was captured for {{token}}; the request that captures it must come \
             first and succeed"
        ]
    );
}

#[test]
fn rows_are_taken_in_turn() {
    let paths: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = paths.clone();
    let server = Server::start(move |mut peer| {
        while let Some(head) = peer.request() {
            let path = head.split_whitespace().nth(1).unwrap_or_default();
            seen.lock().expect("lock").push(path.to_owned());
            peer.ok("ok");
        }
    });
    let mut plan = plan(
        &server,
        vec![Request::get("/u/{{users.name}}?p={{users.pin}}")],
    );
    plan.threads = 2;
    plan.workload.feeders = vec![Feeder {
        name: "users".into(),
        columns: vec!["name".into(), "pin".into()],
        order: RowOrder::InTurn,
        rows: (0..40)
            .map(|n| vec![format!("ann {n}"), format!("{n}")])
            .collect(),
    }];
    let point = run(&plan);
    assert_eq!(shown(&point), "ok 40 | 200: 40");
    let paths: BTreeSet<String> = paths.lock().expect("lock").iter().cloned().collect();
    let expected: BTreeSet<String> = (0..40).map(|n| format!("/u/ann%20{n}?p={n}")).collect();
    assert_eq!(paths, expected, "each row once");
}

#[test]
fn the_expectation_that_failed_is_named() {
    let server = Server::answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 24\r\nX-Cache: MISS\r\n\r\nvisits: 3<br>Fatal error",
    );
    let check = |change: fn(&mut Request), outcome: Outcome, expected: &str| {
        let mut request = Request::get("/");
        change(&mut request);
        let point = run(&plan(&server, vec![request]));
        assert_eq!(point.outcomes.of(outcome), 40, "{}", shown(&point));
        let said = format!(
            "GET /: {}, status 200, {expected}: visits: 3<br>Fatal error",
            outcome.name()
        );
        assert_eq!(point.examples, [said]);
    };
    check(
        |r| r.expect.status = vec![404.into(), 500.into()],
        Outcome::HttpError,
        "expected status 404 or 500",
    );
    check(
        |r| r.expect.body_lacks = vec!["Fatal error".into()],
        Outcome::WrongBody,
        "expected a body without \"Fatal error\"",
    );
    check(
        |r| r.expect.body_contains = vec!["visits".into(), "ann".into()],
        Outcome::WrongBody,
        "expected a body with \"ann\"",
    );
    check(
        |r| {
            r.expect.headers = vec![HeaderExpectation {
                name: "x-cache".into(),
                contains: "HIT".into(),
            }];
        },
        Outcome::WrongBody,
        "expected a header `x-cache` with \"HIT\"",
    );
    check(
        |r| r.expect.body_min_bytes = 25,
        Outcome::WrongBody,
        "expected a body of at least 25 bytes",
    );
}
