use super::*;
use crate::Double;
use kneepoint_model::PeerKind;
use proptest::prelude::*;
use std::time::Duration;

fn answers(status: u16, body: &str) -> Answers {
    Answers::of(&Double {
        listen: "127.0.0.1:1".parse().expect("an address"),
        kind: PeerKind::Http,
        latency: Duration::ZERO,
        capacity: 1,
        status,
        body: body.to_owned(),
    })
}

/// What is answered to these bytes.
fn said(bytes: &[u8]) -> String {
    let mut to = Vec::new();
    let _ = talk(bytes, &mut to, &answers(201, "{\"ok\":1}"));
    String::from_utf8(to).expect("text")
}

const ANSWER: &str =
    "HTTP/1.1 201 Double\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{\"ok\":1}";

#[test]
fn each_request_of_a_connection_is_answered_whatever_its_body() {
    let three = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n\
                  POST /x HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello\
                  \r\nPUT /y HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nT: 1\r\n\r\n";
    assert_eq!(said(three), ANSWER.repeat(3));
}

#[test]
fn a_connection_ends_when_the_client_says_so() {
    let close = "GET / HTTP/1.1\r\nConnection: close\r\n\r\n".repeat(2);
    assert_eq!(said(close.as_bytes()), ANSWER);
    assert_eq!(said("GET / HTTP/1.0\r\n\r\n".repeat(2).as_bytes()), ANSWER);
}

#[test]
fn an_answer_to_head_has_no_body_and_who_asks_first_is_told_to_go_on() {
    let head = said(b"HEAD / HTTP/1.1\r\n\r\n");
    assert!(
        head.ends_with("\r\n\r\n") && head.contains("Content-Length: 8"),
        "{head}"
    );
    let asks = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx";
    assert_eq!(said(asks), format!("HTTP/1.1 100 Continue\r\n\r\n{ANSWER}"));
}

#[test]
fn what_is_no_http_is_refused() {
    for bytes in [
        &b"hello\r\n\r\n"[..],
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ] {
        assert!(said(bytes).starts_with("HTTP/1.1 400"), "{bytes:?}");
    }
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(LINE));
    assert_eq!(said(long.as_bytes()), "");
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(LINES + 1));
    assert_eq!(said(many.as_bytes()), "");
    let huge = b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\nx";
    assert_eq!(said(huge), "");
    let chunk = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n";
    assert_eq!(said(chunk), "");
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        said(&bytes);
        said(&[b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", &bytes[..]].concat());
        said(&[b"GET / HTTP/1.1\r\n", &bytes[..]].concat());
    }

    #[test]
    fn a_body_is_never_taken_for_a_request(body in "\\PC{0,60}") {
        let request = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        prop_assert_eq!(said(request.repeat(2).as_bytes()), ANSWER.repeat(2));
    }
}
