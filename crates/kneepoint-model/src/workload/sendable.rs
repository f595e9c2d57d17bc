//! Refuses requests that cannot be sent: what would break the protocol's framing, and variables nobody fills.

use super::{Request, VariableNames, Workload};
use crate::body::Body;
use crate::variables::{CaptureFrom, Piece, is_name, pieces};

/// What cannot be sent, and what to do instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsendable(pub String);

fn wrong<T>(problem: String) -> Result<T, Unsendable> {
    Err(Unsendable(problem))
}

fn unsendable<T>(what: &str, text: &str, instead: &str) -> Result<T, Unsendable> {
    wrong(format!("{what} {text:?} cannot be sent; {instead}"))
}

/// Refuses a workload without requests, or with one that cannot be sent.
///
/// # Errors
/// The first thing that cannot be sent, and what to do instead.
pub fn check_workload(workload: &Workload) -> Result<(), Unsendable> {
    if workload.requests.is_empty() {
        return wrong("no request to send; add a [[request]] with a path".into());
    }
    let weights = workload.requests.iter().map(|r| r.weight);
    if !weights.clone().all(|w| w.is_finite() && w >= 0.0) || weights.sum::<f64>() <= 0.0 {
        return wrong(
            "the weights of the requests must be numbers of at least 0, not all 0".into(),
        );
    }
    for feeder in &workload.feeders {
        let fits = |row: &Vec<String>| row.len() == feeder.columns.len();
        if feeder.rows.is_empty() || !feeder.rows.iter().all(fits) {
            return wrong(format!(
                "the feeder `{}` has no rows, or rows without a value for each of its {} columns",
                feeder.name,
                feeder.columns.len()
            ));
        }
    }
    let names = VariableNames::new(workload);
    let requests = &workload.requests;
    requests.iter().try_for_each(|r| check_request(r, &names))
}

/// Refuses a request that would break the protocol's framing, or needs a value that nothing gives.
///
/// # Errors
/// What cannot be sent, and what to do instead.
pub fn check_request(request: &Request, names: &VariableNames) -> Result<(), Unsendable> {
    let token = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    let one_line = |text: &str| !text.bytes().any(|b| b == b'\r' || b == b'\n' || b == 0);
    let sendable = |piece| match piece {
        Piece::Literal(text) => !text.bytes().any(|b| b <= b' ' || b == 0x7f),
        Piece::Variable(_) => true,
    };
    if !request.path.starts_with('/') || !pieces(&request.path).all(sendable) {
        let instead = "begin it with / and encode spaces as %20";
        return unsendable("the path", &request.path, instead);
    }
    if !token(&request.method.0) {
        let instead = "use a word such as GET or POST";
        return unsendable("the method", &request.method.0, instead);
    }
    for (name, value) in &request.headers {
        if !token(name) || !one_line(value) {
            let instead = "use a name of letters and dashes and a value on one line";
            return unsendable("the header", &format!("{name}: {value}"), instead);
        }
    }
    if let Some(Body::Multipart(parts)) = &request.body {
        let types = parts.iter().filter_map(|part| part.content_type.as_ref());
        if let Some(text) = types.into_iter().find(|text| !one_line(text)) {
            return unsendable("the content type", text, "use one such as image/png");
        }
    }
    check_variables(request, names)?;
    check_expectations(request)
}

fn check_variables(request: &Request, names: &VariableNames) -> Result<(), Unsendable> {
    for name in request.variables() {
        if names.source(name).is_none() {
            return wrong(format!(
                "{} {} needs {{{{{name}}}}}, which no request captures and no feeder has",
                request.method.0, request.path
            ));
        }
    }
    for capture in &request.captures {
        if !is_name(&capture.name) {
            return wrong(format!(
                "a value cannot be captured as {:?}; use letters, digits, _ and -",
                capture.name
            ));
        }
    }
    Ok(())
}

/// Everything contains an empty text: to look for one is a mistake.
fn check_expectations(request: &Request) -> Result<(), Unsendable> {
    let expect = &request.expect;
    let mut markers: Vec<&str> = Vec::new();
    markers.extend(expect.body_contains.iter().map(String::as_str));
    markers.extend(expect.body_lacks.iter().map(String::as_str));
    for capture in &request.captures {
        if let CaptureFrom::BodyBetween { before, after } = &capture.from {
            markers.extend([before.as_str(), after.as_str()]);
        }
    }
    if markers.contains(&"") {
        return wrong(format!(
            "a text expected in responses to {} {} is empty; remove it or write the text",
            request.method.0, request.path
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Capture;
    use expect_test::{Expect, expect};

    fn check(change: impl Fn(&mut Request), expected: Expect) {
        let mut workload = Workload::single("/");
        change(&mut workload.requests[0]);
        let said = match check_workload(&workload) {
            Ok(()) => "fine".to_owned(),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&said);
    }

    #[test]
    fn variables_must_come_from_somewhere() {
        check(
            |r| r.path = "/{{users.id}}".into(),
            expect![
                "GET /{{users.id}} needs {{users.id}}, which no request captures and no feeder has"
            ],
        );
        let capture = |name: &str| Capture {
            name: name.into(),
            from: CaptureFrom::Header("X".into()),
        };
        check(
            |r| {
                r.path = "/{{ token }}".into();
                r.captures = vec![capture("token")];
            },
            expect!["fine"],
        );
        check(
            |r| r.captures = vec![capture("a.b")],
            expect![[r#"a value cannot be captured as "a.b"; use letters, digits, _ and -"#]],
        );
    }

    #[test]
    fn nothing_may_break_the_framing() {
        check(
            |r| r.path = "/a b".into(),
            expect![[
                r#"the path "/a b" cannot be sent; begin it with / and encode spaces as %20"#
            ]],
        );
        check(
            |r| r.headers = vec![("X".into(), "a\r\nY: b".into())],
            expect![[
                r#"the header "X: a\r\nY: b" cannot be sent; use a name of letters and dashes and a value on one line"#
            ]],
        );
        check(
            |r| r.expect.body_lacks = vec![String::new()],
            expect!["a text expected in responses to GET / is empty; remove it or write the text"],
        );
    }
}
