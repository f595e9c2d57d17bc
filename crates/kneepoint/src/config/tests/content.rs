//! What is sent and what is expected: bodies, variables, feeders, captures, sessions.

use super::{good, read};
use expect_test::{Expect, expect};
use kneepoint_model::{
    Body, Capture, CaptureFrom, PartContent, Request, RowOrder, ThinkTime, Workload,
};
use std::time::Duration;

const APP: &str = "app = { root = '.' }\n";

#[track_caller]
fn workload(text: &str) -> Workload {
    let (top, tables) = text.split_once('[').unwrap_or((text, ""));
    let bracket = if tables.is_empty() { "" } else { "[" };
    good(&format!("{top}{APP}{bracket}{tables}")).workload
}

/// The only request of a mix.
#[track_caller]
fn request(keys: &str) -> Request {
    let mut requests = workload(&format!("[[request]]\n{keys}\n")).requests;
    assert_eq!(requests.len(), 1);
    requests.remove(0)
}

/// The text is refused, in these words.
#[track_caller]
fn refused(text: &str, expected: Expect) {
    let errors = read(&format!("{APP}{text}")).expect_err("the text is refused");
    expected.assert_eq(&format!("{errors}\n"));
}

#[test]
fn a_body_is_a_text_a_form_parts_json_or_a_file() {
    let text = request("body = '{\"a\": {\"b\": {}}}'");
    assert_eq!(text.body, Some("{\"a\": {\"b\": {}}}".into()));
    assert_eq!(text.method.0, "POST");
    let json = request("method = 'PUT'\njson = { n = 1, list = [true, 'x\"y'], f = 1.5 }");
    assert_eq!(
        json.body,
        Some(Body::Json(
            r#"{"f":1.5,"list":[true,"x\"y"],"n":1}"#.to_owned()
        ))
    );
    assert_eq!(json.method.0, "PUT");
    let Some(Body::File(file)) = request("body_file = 'photo.png'").body else {
        panic!("a file")
    };
    assert!(file.path.is_absolute());
    assert_eq!(&*file.bytes, b"\x01PNG");
}

#[test]
fn parts_hold_a_value_or_a_file() {
    let upload = request(
        "multipart = [{ name = 'note', value = 3 }, { name = 'photo', file = 'photo.png', type = 'image/png' }]",
    );
    let Some(Body::Multipart(parts)) = upload.body else {
        panic!("parts")
    };
    assert_eq!(parts[0].content, PartContent::Value("3".into()));
    assert_eq!((&parts[0].filename, &parts[0].content_type), (&None, &None));
    assert_eq!(parts[1].filename.as_deref(), Some("photo.png"));
    assert_eq!(parts[1].content_type.as_deref(), Some("image/png"));
    let PartContent::File(file) = &parts[1].content else {
        panic!("a file")
    };
    assert_eq!(&*file.bytes, b"\x01PNG");
}

#[test]
fn bodies_are_refused_where_they_are_unclear() {
    refused(
        r#"[[request]]
multipart = [{ name = "a" }, { value = "x", fil = "y" }]
headers = { content-type = "multipart/form-data" }
[[request]]
body = "x"
json = { a = 1979-05-27 }
[[request]]
json = { a = 1979-05-27 }
[[request]]
body_file = "photo.pgn"
"#,
        expect![[r#"
        "#]],
    );
}

#[test]
fn rows_of_a_table_are_values_of_variables() {
    let workload = workload(
        "[feeder.users]\nfile = 'users.csv'\norder = 'random'\n\
         [[request]]\npath = '/u/{{users.name}}'\nform = { p = '{{ users.password }}' }\n",
    );
    let [users] = workload.feeders.as_slice() else {
        panic!("one feeder")
    };
    assert_eq!(users.columns, ["name", "password"]);
    assert_eq!(users.order, RowOrder::Random);
    assert_eq!(users.rows[0], ["ann", "a,b"]);
    assert_eq!(users.rows.len(), 2);
    assert_eq!(
        workload.requests[0].variables(),
        ["users.name", "users.password"]
    );
    assert!(!workload.requests[0].session);
}

#[test]
fn tables_must_be_tables() {
    refused(
        r#"[feeder.users]
file = "users.cvs"
[feeder.a]
file = "crooked.csv"
[feeder.b]
file = "empty.csv"
order = "in turn"
[feeder.c]
file = "named.csv"
[feeder."1"]
"#,
        expect![[r#"
        "#]],
    );
}

#[test]
fn values_are_captured_for_the_same_user() {
    let workload = workload(
        r#"[[request]]
capture = { csrf = { body_between = ['value="', '"'] }, a = { header = "X-A" }, b = { json = "/b" } }
[[request]]
headers = { X-XSRF-TOKEN = "{{csrf}}" }
[[request]]
capture.c.cookie = "XSRF-TOKEN"
"#,
    );
    let captures = &workload.requests[0].captures;
    assert_eq!(
        captures[0],
        Capture {
            name: "csrf".into(),
            from: CaptureFrom::BodyBetween {
                before: "value=\"".into(),
                after: "\"".into()
            }
        }
    );
    assert_eq!(captures[1].from, CaptureFrom::Header("X-A".into()));
    assert_eq!(captures[2].from, CaptureFrom::Json("/b".into()));
    let cookie = &workload.requests[2].captures[0].from;
    assert_eq!(*cookie, CaptureFrom::Cookie("XSRF-TOKEN".into()));
    // Who captures or needs what was captured is somebody.
    assert!(workload.requests.iter().all(|request| request.session));
}

#[test]
fn variables_must_come_from_somewhere() {
    refused(
        r#"[[request]]
path = "/{{crsf}}/{{users.name}}"
capture = { csrf = { cookie = "XSRF-TOKEN" } }
session = false
[[request]]
capture = { "a.b" = { header = "X Y" }, c = {}, d = { json = "$.data.id" }, e = { body_between = ["a"] } }
[feeder.user]
file = "users.csv"
"#,
        expect![[r#"
        "#]],
    );
}

#[test]
fn expectations_are_lists_where_one_is_not_enough() {
    let expect = request(
        "expect = { status = [200, '3xx'], header = { ETag = true, X-Cache = 'HIT' }, \
         body_contains = ['a', 'b'], body_lacks = 'Fatal error', body_min = '2K' }",
    )
    .expect;
    assert_eq!(expect.describe_status(), "status 200 or 3xx");
    assert_eq!(expect.headers[0].contains, "");
    assert_eq!(expect.headers[1].contains, "HIT");
    assert_eq!(expect.body_contains, ["a", "b"]);
    assert_eq!(expect.body_lacks, ["Fatal error"]);
    assert_eq!(expect.body_min_bytes, 2048);
}

#[test]
fn expectations_must_be_possible() {
    refused(
        r#"[[request]]
expect = { status = ["2x", 99], header = { "a b" = true, B = false }, body_lacks = "" }
[[request]]
expect = { status = [], body_min = 0, body_contains = [1] }
"#,
        expect![[r#"
        "#]],
    );
}

#[test]
fn sessions_are_sequences_of_named_requests() {
    let workload = workload(
        r#"think_time = { mean = "2s" }
[[request]]
name = "form"
capture = { csrf = { cookie = "XSRF-TOKEN" } }
[[request]]
name = "post"
form = { _token = "{{csrf}}" }
[[session]]
weight = 3
requests = ["form", "post", "post"]
[[session]]
name = "reader"
requests = ["form"]
"#,
    );
    let sessions = workload.sessions.expect("sessions");
    let [buyer, reader] = sessions.scripts.as_slice() else {
        panic!("two scripts")
    };
    assert_eq!(buyer.requests, [0, 1, 1]);
    assert_eq!((buyer.name.as_str(), buyer.weight), ("session 1", 3.0));
    assert_eq!(reader.name, "reader");
    let mean = Duration::from_secs(2);
    assert_eq!(sessions.think_time, ThinkTime::Exponential { mean });
}

#[test]
fn a_fixed_pause_is_a_duration() {
    let workload =
        workload("think_time = '300ms'\n[[request]]\nname = 'a'\n[[session]]\nrequests = ['a']\n");
    let pause = workload.sessions.map(|sessions| sessions.think_time);
    assert_eq!(pause, Some(ThinkTime::Fixed(Duration::from_millis(300))));
}

#[test]
fn sessions_must_make_sense() {
    refused(
        r#"think_time = { men = "2s" }
[[request]]
name = "login"
capture = { csrf = { cookie = "XSRF-TOKEN" } }
[[request]]
name = "login"
path = "/{{csrf}}"
[[request]]
name = "cart"
path = "/{{csrf}}"
[[request]]
[[session]]
name = "a"
requests = ["cart", "logni", 3]
[[session]]
name = "a"
requests = []
weight = 0
[[session]]
"#,
        expect![[r#"
        "#]],
    );
    refused(
        "think_time = '1s'\n",
        expect![[r#"
        "#]],
    );
}
