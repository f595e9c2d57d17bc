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
fn changes_have_the_name_of_what_they_are_made_to() {
    let scenario = good(&format!(
        "{APP}stack = {{ php = {{ runtime = 'fpm' }}, db = {{ server = 'postgresql' }} }}\n[changes]\n\
         'db.sql.by_author' = 'CREATE INDEX by_author ON articles (author)'\n'app.line.conf.php:12' = '$debug = false;'\n\
         'app.run.composer' = 'composer dump-autoload -o'\n"
    ));
    let changes: Vec<String> = scenario.changes.keys().map(ToString::to_string).collect();
    assert_eq!(
        changes,
        [
            "db.sql.by_author",
            "app.line.conf.php:12",
            "app.run.composer"
        ]
    );
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
            kneepoint.toml:3:13: `multipart` beside the header `content-type`
               3 | multipart = [{ name = "a" }, { value = "x", fil = "y" }]
                 |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                 expected no such header: the load engine writes it, with the boundary
            kneepoint.toml:3:14: it is not clear what the part holds
               3 | multipart = [{ name = "a" }, { value = "x", fil = "y" }]
                 |              ^^^^^^^^^^^^^^
                 expected either `value` or `file`
            kneepoint.toml:3:30: `request.multipart.name` is missing
               3 | multipart = [{ name = "a" }, { value = "x", fil = "y" }]
                 |                              ^^^^^^^^^^^^^^^^^^^^^^^^^^
                 expected the name of the field, such as name = "photo"
            kneepoint.toml:3:45: unknown key `fil` in [request.multipart]
               3 | multipart = [{ name = "a" }, { value = "x", fil = "y" }]
                 |                                             ^^^
                 expected `name`, `value`, `file`, `filename` or `type`
                 did you mean `file`?
            kneepoint.toml:7:8: `json` beside `body`: a request has one body
               7 | json = { a = 1979-05-27 }
                 |        ^^^^^^^^^^^^^^^^^^
                 expected one of them
            kneepoint.toml:9:14: found a date
               9 | json = { a = 1979-05-27 }
                 |              ^^^^^^^^^^
                 expected a value that JSON has
            kneepoint.toml:11:13: `photo.pgn` does not exist
              11 | body_file = "photo.pgn"
                 |             ^^^^^^^^^^^
                 expected a file to send, relative to the directory of kneepoint.toml
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
            kneepoint.toml:3:8: `users.cvs` does not exist
               3 | file = "users.cvs"
                 |        ^^^^^^^^^^^
                 expected a CSV file, relative to the directory of kneepoint.toml
            kneepoint.toml:5:8: this is no table: CSV error: record 1 (line: 2, byte: 9): found record with 1 fields, but the previous record has 2 fields
               5 | file = "crooked.csv"
                 |        ^^^^^^^^^^^^^
                 expected a CSV file in UTF-8 whose first line names the columns, with as many values in every other
            kneepoint.toml:7:8: the table has no row below its first line
               7 | file = "empty.csv"
                 |        ^^^^^^^^^^^
                 expected a CSV file in UTF-8 whose first line names the columns, with as many values in every other
            kneepoint.toml:8:9: `in turn` is not possible
               8 | order = "in turn"
                 |         ^^^^^^^^^
                 expected `in-turn` or `random`
                 did you mean `in-turn`?
            kneepoint.toml:10:8: the column `first name` cannot be a variable
              10 | file = "named.csv"
                 |        ^^^^^^^^^^^
                 expected names of letters, digits, `_` and `-`, not beginning with a digit
            kneepoint.toml:10:8: `name` is there twice
              10 | file = "named.csv"
                 |        ^^^^^^^^^^^
                 expected each name once
            kneepoint.toml:11:1: `feeder.1.file` is missing
              11 | [feeder."1"]
                 | ^^^^^^^^^^^^
                 expected a CSV file, such as file = "users.csv"
            kneepoint.toml:11:9: `1` cannot be the name of a feeder
              11 | [feeder."1"]
                 |         ^^^
                 expected a name of letters, digits, `_` and `-`, not beginning with a digit
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
            kneepoint.toml:3:8: `{{crsf}}` stands for nothing
               3 | path = "/{{crsf}}/{{users.name}}"
                 |        ^^^^^^^^^^^^^^^^^^^^^^^^^^
                 expected a value that some request captures, or FEEDER.COLUMN
                 did you mean `{{csrf}}`?
            kneepoint.toml:3:8: `{{users.name}}` stands for nothing
               3 | path = "/{{crsf}}/{{users.name}}"
                 |        ^^^^^^^^^^^^^^^^^^^^^^^^^^
                 expected a value that some request captures, or FEEDER.COLUMN
                 did you mean `{{user.name}}`?
            kneepoint.toml:5:11: a captured value belongs to a user, and this request to none
               5 | session = false
                 |           ^^^^^
                 expected `session = true`, which is understood
            kneepoint.toml:7:13: `a.b` cannot be a variable
               7 | capture = { "a.b" = { header = "X Y" }, c = {}, d = { json = "$.data.id" }, e = { body_between = ["a…
                 |             ^^^^^
                 expected a name of letters, digits, `_` and `-`, not beginning with a digit
            kneepoint.toml:7:32: `X Y` is no header name
               7 | capture = { "a.b" = { header = "X Y" }, c = {}, d = { json = "$.data.id" }, e = { body_between = ["a…
                 |                                ^^^^^
                 expected a name such as X-CSRF-Token
            kneepoint.toml:7:45: it is not clear where the value stands
               7 | capture = { "a.b" = { header = "X Y" }, c = {}, d = { json = "$.data.id" }, e = { body_between = ["a…
                 |                                             ^^
                 expected one of `body_between`, `header`, `json` and `cookie`
            kneepoint.toml:7:62: `$.data.id` is no JSON pointer
               7 | capture = { "a.b" = { header = "X Y" }, c = {}, d = { json = "$.data.id" }, e = { body_between = ["a…
                 |                                                              ^^^^^^^^^^^
                 expected a JSON pointer, such as "/data/token"
                 did you mean `/data/id`?
            kneepoint.toml:7:98: found 1 texts
               7 | …a.b" = { header = "X Y" }, c = {}, d = { json = "$.data.id" }, e = { body_between = ["a"] } }
                 |                                                                                      ^^^^^
                 expected the texts before and behind the value, such as ['name="_token" value="', '"']
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
            kneepoint.toml:3:22: `2x` is not possible
               3 | expect = { status = ["2x", 99], header = { "a b" = true, B = false }, body_lacks = "" }
                 |                      ^^^^
                 expected a status from 100 to 599, a class such as "2xx", or a list of these
            kneepoint.toml:3:28: `99` is not possible
               3 | expect = { status = ["2x", 99], header = { "a b" = true, B = false }, body_lacks = "" }
                 |                            ^^
                 expected a status from 100 to 599, a class such as "2xx", or a list of these
            kneepoint.toml:3:44: `a b` is no header name
               3 | expect = { status = ["2x", 99], header = { "a b" = true, B = false }, body_lacks = "" }
                 |                                            ^^^^^
                 expected a name such as X-Cache
            kneepoint.toml:3:62: found a boolean
               3 | expect = { status = ["2x", 99], header = { "a b" = true, B = false }, body_lacks = "" }
                 |                                                              ^^^^^
                 expected `true` for a header that must be there, or text it must contain
            kneepoint.toml:3:84: found an empty string
               3 | expect = { status = ["2x", 99], header = { "a b" = true, B = false }, body_lacks = "" }
                 |                                                                                    ^^
                 expected text the body must not contain, or a list of such
            kneepoint.toml:5:21: no status would be good
               5 | expect = { status = [], body_min = 0, body_contains = [1] }
                 |                     ^^
                 expected at least one
            kneepoint.toml:5:36: `0` is not possible
               5 | expect = { status = [], body_min = 0, body_contains = [1] }
                 |                                    ^
                 expected a length of at least 1 byte, such as 500 or "2K"
            kneepoint.toml:5:56: found an integer
               5 | expect = { status = [], body_min = 0, body_contains = [1] }
                 |                                                        ^
                 expected text the body must contain, or a list of such
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
            kneepoint.toml:2:14: `think_time.mean` is missing
               2 | think_time = { men = "2s" }
                 |              ^^^^^^^^^^^^^^
                 expected the mean of an exponential distribution, such as { mean = "2s" }
            kneepoint.toml:2:16: unknown key `men` in [think_time]
               2 | think_time = { men = "2s" }
                 |                ^^^
                 expected `mean`
                 did you mean `mean`?
            kneepoint.toml:7:8: `login` is there twice
               7 | name = "login"
                 |        ^^^^^^^
                 expected each name once
            kneepoint.toml:15:13: no request before this one captures `{{csrf}}`
              15 | requests = ["cart", "logni", 3]
                 |             ^^^^^^
                 expected the request that captures it earlier in the session
            kneepoint.toml:15:21: no request is called `logni`
              15 | requests = ["cart", "logni", 3]
                 |                     ^^^^^^^
                 expected `login`, `login` or `cart`
                 did you mean `login`?
            kneepoint.toml:15:30: found an integer
              15 | requests = ["cart", "logni", 3]
                 |                              ^
                 expected names of requests, such as ["login", "cart"]
            kneepoint.toml:17:8: `a` is there twice
              17 | name = "a"
                 |        ^^^
                 expected each name once
            kneepoint.toml:18:12: a session without requests
              18 | requests = []
                 |            ^^
                 expected names of requests, such as ["login", "cart"]
            kneepoint.toml:19:10: `0` is not possible
              19 | weight = 0
                 |          ^
                 expected a weight above 0, such as 8
            kneepoint.toml:20:1: `session.requests` is missing
              20 | [[session]]
                 | ^^^^^^^^^^^
                 expected names of requests, such as ["login", "cart"]
        "#]],
    );
    refused(
        "[[request]]\nname = 'a'\n[[request]]\nname = 'b'\n[[request]]\n[[session]]\nrequests = ['a']\n",
        expect![[r#"
            kneepoint.toml:4:1: `b` is in no session and would never be sent
               4 | [[request]]
                 | ^^^^^^^^^^^
                 expected each request in a session: sessions replace the mix
            kneepoint.toml:6:1: this request has no `name`, so no session can send it
               6 | [[request]]
                 | ^^^^^^^^^^^
                 expected each request in a session: sessions replace the mix
        "#]],
    );
    refused(
        "think_time = '1s'\n",
        expect![[r#"
            kneepoint.toml:2:14: `think_time` without a [[session]]: no visitor makes a second request
               2 | think_time = '1s'
                 |              ^^^^
                 expected [[session]] tables
        "#]],
    );
}
