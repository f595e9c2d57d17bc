//! What servers and sockets do to a load generator, one test each: load-engine.md, "Pitfalls".

use crate::common::{Peer, Server, even, free_address, http, run, shown};
use expect_test::{Expect, expect};
use kneepoint_load::{Engine, LoadPlan, Mode, Target, fetch};
use kneepoint_model::{Address, ClosedLoop, LoadPoint, Outcome, Validity, Workload};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Ten arrivals, one after the other.
const TEN: &str = "const(50,0.2)";

/// Runs ten arrivals against a script, changing the plan first, and shows how they ended.
fn check(
    script: impl Fn(Peer) + Send + Sync + 'static,
    change: impl FnOnce(&mut LoadPlan),
    expected: Expect,
) -> (LoadPoint, Server) {
    let server = Server::start(script);
    let mut plan = even(server.target(), TEN);
    change(&mut plan);
    let point = run(&plan);
    expected.assert_eq(&shown(&point));
    (point, server)
}

fn unchanged(_: &mut LoadPlan) {}

/// Answers every request on a connection with the same text.
fn always(response: &'static str) -> impl Fn(Peer) {
    move |mut peer| {
        while peer.request().is_some() {
            peer.say(response);
        }
    }
}

#[test]
fn a_stale_connection_is_replaced_and_the_request_sent_again() {
    let (point, server) = check(
        |mut peer| {
            peer.request();
            peer.ok("once");
            // The second request on a connection meets its end, after it was sent.
            peer.request();
        },
        unchanged,
        expect!["ok 10 | 200: 10"],
    );
    assert_eq!((point.connections_opened, point.sent_again), (10, 9));
    assert_eq!(server.requests(), 19, "nine went out twice");
}

/// The first connection answers once and meets its end after this long with the next request; others answer always.
fn first_one_dies(after: Duration) -> impl Fn(Peer) {
    move |mut peer| {
        while peer.request().is_some() {
            peer.ok("an answer");
            if peer.number == 1 && peer.request().is_some() {
                std::thread::sleep(after);
                return;
            }
        }
    }
}

#[test]
fn a_worker_that_dies_of_a_request_is_not_hidden() {
    let (point, server) = check(
        first_one_dies(Duration::from_millis(900)),
        unchanged,
        expect!["ok 9, reset 1 | 200: 9"],
    );
    assert_eq!((point.sent_again, server.requests()), (0, 10));
    assert_eq!(point.examples, ["GET /: reset: closed by the server"]);
}

#[test]
fn what_a_repetition_could_change_is_not_sent_again() {
    for method in ["POST", "PATCH"] {
        let (point, server) = check(
            first_one_dies(Duration::ZERO),
            |plan| plan.workload.requests[0].method.0 = method.into(),
            expect!["ok 9, reset 1 | 200: 9"],
        );
        assert_eq!((point.sent_again, server.requests()), (0, 10), "{method}");
    }
}

#[test]
fn a_stale_connection_that_resets_is_replaced_too() {
    check(
        |mut peer| {
            peer.request();
            peer.ok("once");
            peer.request();
            peer.reset();
        },
        unchanged,
        expect!["ok 10 | 200: 10"],
    );
}

#[test]
fn a_request_is_sent_again_only_once() {
    let (_, server) = check(
        |mut peer| {
            peer.request();
            if peer.number == 1 {
                peer.ok("the only answer");
                peer.request();
            }
        },
        unchanged,
        expect!["ok 1, reset 9 | 200: 1"],
    );
    assert_eq!(
        server.requests(),
        11,
        "only the second request went out twice"
    );
}

#[test]
fn an_end_before_any_byte_is_a_reset() {
    let reset = |mut peer: Peer| {
        peer.request();
        peer.reset();
    };
    let (point, _) = check(reset, unchanged, expect!["reset 10 | "]);
    assert_eq!(point.examples.len(), 1, "{:?}", point.examples);
    check(
        |mut peer| drop(peer.request()),
        unchanged,
        expect!["reset 10 | "],
    );
}

#[test]
fn an_end_within_the_response_is_a_truncation() {
    let half = |mut peer: Peer| {
        peer.request();
        peer.say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    };
    check(half, unchanged, expect!["truncated 10 | "]);
    let chunk = |mut peer: Peer| {
        peer.request();
        peer.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
    };
    check(chunk, unchanged, expect!["truncated 10 | "]);
}

#[test]
fn a_body_may_end_with_the_connection() {
    let (point, _) = check(
        |mut peer| {
            peer.request();
            peer.say("HTTP/1.1 200 OK\r\n\r\nall there is");
        },
        |plan| plan.workload.requests[0].expect.body_contains = vec!["there is".into()],
        expect!["ok 10 | 200: 10"],
    );
    assert_eq!(point.connections_opened, 10);
}

#[test]
fn chunks_and_interim_responses_keep_the_connection() {
    let (point, _) = check(
        always(
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
             3\r\nvis\r\n3\r\nits\r\n0\r\n\r\n",
        ),
        |plan| plan.workload.requests[0].expect.body_contains = vec!["visits".into()],
        expect!["ok 10 | 200: 10"],
    );
    assert_eq!(point.connections_opened, 1);
}

#[test]
fn responses_without_a_body_keep_the_connection() {
    for response in [
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n",
    ] {
        let server = Server::answering(response);
        let point = run(&even(server.target(), TEN));
        assert_eq!(
            (point.good, point.connections_opened),
            (10, 1),
            "{response}"
        );
    }
    let (point, _) = check(
        always("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"),
        |plan| plan.workload.requests[0].method.0 = "HEAD".into(),
        expect!["ok 10 | 200: 10"],
    );
    assert_eq!(point.connections_opened, 1);
}

#[test]
fn a_server_that_closes_gets_a_new_connection_each_time() {
    let (point, server) = check(
        |mut peer| {
            let head = peer.request().expect("a request");
            assert!(!head.contains("Connection: close"), "{head}");
            peer.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        },
        unchanged,
        expect!["ok 10 | 200: 10"],
    );
    assert_eq!((point.connections_opened, server.connections()), (10, 10));
}

#[test]
fn without_keep_alive_the_server_is_asked_to_close_and_closes_first() {
    check(
        |mut peer| {
            let head = peer.request().expect("a request");
            assert!(head.contains("Connection: close\r\n"), "{head}");
            peer.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
            let _ = peer
                .stream
                .set_read_timeout(Some(Duration::from_millis(30)));
            // Within these, the generator must not have closed: an end would be a request() that ends at once.
            let began = std::time::Instant::now();
            assert!(peer.request().is_none());
            // The last ones end with the load.
            assert!(
                peer.number > 6 || began.elapsed() >= Duration::from_millis(25),
                "the generator closed first"
            );
        },
        |plan| {
            plan.target = plan.target.clone().with_keep_alive(false);
        },
        expect!["ok 10 | 200: 10"],
    );
}

#[test]
fn nobody_listening_is_refused() {
    let gone = free_address();
    let point = run(&even(http(gone), TEN));
    assert_eq!(shown(&point), "refused 10 | ");
    // A machine that is busy may make the generator late. The refusals themselves are the server's failure.
    if let Validity::Invalid { because } = &point.validity {
        let late = |why: &String| why.starts_with("the load generator sent requests too late");
        assert!(because.iter().all(late), "{because:?}");
    }

    let nowhere = Target::http(Address::Unix("/nonexistent/x.sock".into()), "test");
    assert_eq!(shown(&run(&even(nowhere, TEN))), "refused 10 | ");
}

/// A closed loop that is dropped unanswered must not spin: the shortest pause between two attempts bounds how many
/// there are, whatever the machine.
#[test]
fn a_closed_loop_does_not_storm_a_server_that_drops_it() {
    let server = Server::start(|mut peer| {
        peer.request();
        peer.reset();
    });
    let duration = Duration::from_millis(400);
    let mode = Mode::Closed(ClosedLoop::new(8, duration));
    let plan = LoadPlan::new(server.target(), Workload::single("/"), mode);
    let point = run(&plan);
    let most = duration.as_millis() as u64 + 8;
    assert!(
        point.arrivals > 10 && point.arrivals <= most,
        "{}",
        point.arrivals
    );
}

#[test]
fn a_full_backlog_of_a_unix_socket_refuses() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("full.sock");
    let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("socket");
    bind(&listener, &SocketAddrUnix::new(&path).expect("short")).expect("bind");
    listen(&listener, 1).expect("listen");

    let mut plan = even(Target::http(Address::Unix(path), "test"), TEN);
    plan.slo.timeout = Duration::from_secs(1);
    // A backlog of 1 holds two connections, which nobody serves.
    assert_eq!(shown(&run(&plan)), "timeout 2, refused 8 | ");
}

#[test]
fn what_is_no_answer_ends_at_the_timeout_and_with_the_connection() {
    let (point, server) = check(
        |mut peer| {
            peer.request();
            assert!(peer.request().is_none(), "the generator closes");
        },
        |plan| plan.slo.timeout = Duration::from_millis(100),
        expect!["timeout 10 | "],
    );
    assert_eq!(server.connections(), 10);
    assert_eq!(
        point.failed_response.count_above_us(99_000),
        10,
        "counted with at least the timeout"
    );
}

#[test]
fn what_waits_for_a_slow_server_is_the_servers_failure() {
    let server = Server::start(|mut peer| while peer.request().is_some() {});
    let mut plan = even(server.target(), "const(100,0.3)");
    plan.max_connections = 2;
    plan.slo.timeout = Duration::from_millis(400);
    let point = run(&plan);
    let given_up = point.outcomes.of(Outcome::Timeout) + point.outcomes.of(Outcome::Unsent);
    assert_eq!(given_up, 30, "{}", shown(&point));
    assert!(point.health.backlog_max >= 20, "{:?}", point.health);
    assert!(point.health.achieved_share >= 0.99, "{:?}", point.health);
}

#[test]
fn what_never_got_a_connection_is_unsent() {
    let server = Server::start(|mut peer| while peer.request().is_some() {});
    // All at once, so that their time is over at once, too.
    let mut plan = even(server.target(), "const(1000000,0.00003)");
    plan.max_connections = 1;
    plan.slo.timeout = Duration::from_millis(100);
    let point = run(&plan);
    assert!(
        point.outcomes.of(Outcome::Timeout) >= 1,
        "{}",
        shown(&point)
    );
    assert!(point.outcomes.of(Outcome::Unsent) >= 1, "{}", shown(&point));
    assert_eq!(point.arrivals, 30);
    assert_eq!(point.failed_response.count_above_us(99_000), 30);
}

#[test]
fn something_else_than_http_is_a_protocol_error() {
    let (point, _) = check(
        always("-ERR unknown command\r\n"),
        unchanged,
        expect!["protocol error 10 | "],
    );
    assert_eq!(
        point.examples,
        ["GET /: protocol error: not an HTTP response"]
    );
}

#[test]
fn an_error_is_never_a_fast_response() {
    let (point, _) = check(
        always("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 8\r\n\r\nbad\r\ngw\n"),
        unchanged,
        expect!["http error 10 | 502: 10"],
    );
    assert_eq!((point.good, point.response.count()), (0, 0));
    assert_eq!(
        point.examples,
        ["GET /: http error, status 502, expected a status from 200 to 399: bad gw"]
    );

    let (point, _) = check(
        always("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nFatal error"),
        |plan| plan.workload.requests[0].expect.body_contains = vec!["visits".into()],
        expect!["wrong body 10 | 200: 10"],
    );
    assert_eq!(
        point.examples,
        ["GET /: wrong body, status 200, expected a body with \"visits\": Fatal error"]
    );
}

#[test]
fn bytes_nobody_asked_for_end_the_connection() {
    let (point, _) = check(
        always("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more"),
        unchanged,
        expect!["ok 10 | 200: 10"],
    );
    assert_eq!(point.connections_opened, 10);
}

/// Bytes that no inflater would take, announced as gzip: they are counted and never looked into.
#[test]
fn compressed_bodies_are_counted_as_on_the_wire_and_never_inflated() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 500\r\n\r\n";
    let (point, _) = check(
        |mut peer| {
            let response = [HEAD.as_bytes(), &[0xff; 500]].concat();
            while peer.request().is_some() {
                let _ = peer.stream.write_all(&response);
            }
        },
        unchanged,
        expect!["ok 10 | 200: 10"],
    );
    assert_eq!(point.bytes_received, 10 * (HEAD.len() as u64 + 500));
    assert_eq!(point.connections_opened, 1);
}

#[test]
fn a_slow_server_does_not_make_the_connections_grow_beyond_their_cap() {
    for threads in [1, 2] {
        let server = Server::start(|mut peer| {
            while peer.request().is_some() {
                std::thread::sleep(Duration::from_millis(40));
                peer.ok("ok");
            }
        });
        let mut plan = even(server.target(), "const(200,0.4)");
        plan.threads = threads;
        plan.max_connections = 5;
        // 5 connections serve 125 per second; the rest waits, as long as it takes.
        plan.slo.timeout = Duration::from_secs(20);
        let point = run(&plan);
        assert_eq!(shown(&point), "ok 80 | 200: 80", "{threads} threads");
        assert!(server.connections() <= 5, "{}", server.connections());
        assert!(point.health.backlog_max > 5, "{:?}", point.health);
    }
}

#[test]
fn a_response_nobody_asked_for_is_not_taken_for_the_next_one() {
    let (point, _) = check(
        always(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
        ),
        unchanged,
        expect!["ok 10 | 200: 10"],
    );
    assert_eq!(point.connections_opened, 10);
}

/// A chunk, its size and the end of the body each in a piece of its own.
#[test]
fn a_chunked_body_may_come_in_any_pieces() {
    let (point, _) = check(
        |mut peer| {
            let _ = peer.stream.set_nodelay(true);
            while peer.request().is_some() {
                peer.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r");
                for piece in ["\nvis", "its\r", "\n", "0\r\n", "\r", "\n"] {
                    std::thread::sleep(Duration::from_millis(1));
                    peer.say(piece);
                }
            }
        },
        |plan| {
            plan.workload.requests[0].expect.body_contains = vec!["visits".into()];
            plan.max_connections = 1;
        },
        expect!["ok 10 | 200: 10"],
    );
    assert_eq!(point.connections_opened, 1);
}

#[test]
fn a_large_body_goes_out_in_pieces() {
    let (point, _) = check(
        |mut peer| {
            while let Some(head) = peer.request() {
                let length = head
                    .lines()
                    .find_map(|l| l.strip_prefix("Content-Length: "));
                let mut left: usize = length
                    .and_then(|l| l.trim().parse().ok())
                    .expect("a length");
                // The body must not contain an empty line, or request() would take it for a head.
                left -= peer.skip_body(left);
                assert_eq!(left, 0);
                peer.ok("thanks");
            }
        },
        |plan| {
            plan.workload.requests[0].method.0 = "POST".into();
            plan.workload.requests[0].body = Some("x".repeat(3 << 20).into());
        },
        expect!["ok 10 | 200: 10"],
    );
    assert_eq!(point.arrivals, 10);
}

/// The server closes with most of the body unread, which resets the connection behind its answer.
#[test]
fn an_answer_before_the_body_is_read_counts() {
    let large = |plan: &mut LoadPlan| {
        plan.workload.requests[0].method.0 = "POST".into();
        plan.workload.requests[0].body = Some("x".repeat(16 << 20).into());
    };
    let early = |mut peer: Peer| {
        peer.request();
        peer.say(
            "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        );
    };
    let (point, server) = check(early, large, expect!["http error 10 | 413: 10"]);
    assert_eq!(point.sent_again, 0);

    let mut plan = even(server.target(), TEN);
    large(&mut plan);
    let request = &plan.workload.requests[0];
    let fetched = fetch(&plan.target, request, None, Duration::from_secs(20));
    assert_eq!(fetched.expect("an answer").status, 413);
}

/// An address of this host.
fn local(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

#[test]
fn new_connections_come_from_all_addresses_in_turn() {
    let seen: Arc<Mutex<BTreeMap<IpAddr, u32>>> = Arc::default();
    let from = seen.clone();
    let server = Server::start(move |mut peer| {
        let address = peer.stream.peer_addr().expect("connected");
        // Each connection serves once, so that each request has a new one.
        if peer.request().is_some() {
            *from.lock().expect("lock").entry(address.ip()).or_default() += 1;
            peer.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    for threads in [1, 2] {
        seen.lock().expect("lock").clear();
        let mut plan = even(server.target(), "const(60,0.5)");
        plan.threads = threads;
        plan.source_addresses = [2, 3, 4].map(local).into();
        assert_eq!(shown(&run(&plan)), "ok 30 | 200: 30");
        let expected = [2, 3, 4].map(|last| (local(last), 10));
        let seen = seen.lock().expect("lock").clone();
        assert_eq!(seen, BTreeMap::from(expected), "{threads} threads");
    }
}

#[test]
fn without_a_choice_the_system_chooses() {
    let seen: Arc<Mutex<Vec<IpAddr>>> = Arc::default();
    let from = seen.clone();
    let server = Server::start(move |mut peer| {
        let address = peer.stream.peer_addr().expect("connected");
        from.lock().expect("lock").push(address.ip());
        while peer.request().is_some() {
            peer.ok("ok");
        }
    });
    run(&even(server.target(), "const(50,0.1)"));
    assert_eq!(*seen.lock().expect("lock"), [local(1)]);
}

#[test]
fn addresses_that_cannot_be_are_refused_with_what_to_do() {
    let server = Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let refused = |change: &dyn Fn(&mut LoadPlan), says: &str| {
        let mut plan = even(server.target(), "const(1,1)");
        change(&mut plan);
        let error = Engine::run(&plan, &|_| {}, &AtomicBool::new(false)).expect_err(says);
        assert!(error.to_string().contains(says), "{error}");
    };
    refused(
        &|p| p.source_addresses = vec![local(2), Ipv4Addr::new(203, 0, 113, 7).into()],
        "sending from 203.0.113.7",
    );
    refused(
        &|p| p.source_addresses = vec![Ipv6Addr::LOCALHOST.into()],
        "use addresses of the target's family",
    );
    refused(
        &|p| {
            p.source_addresses = vec![local(2)];
            let Target::Http { address, .. } = &mut p.target else {
                unreachable!("the target is HTTP")
            };
            *address = Address::Unix("/run/x.sock".into());
        },
        "source addresses for the Unix socket",
    );
    assert_eq!(server.requests(), 0);
}
