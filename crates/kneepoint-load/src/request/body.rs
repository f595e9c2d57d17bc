//! Encodes bodies for the wire, before the load.

use crate::request::variables::{Encoding, Text, encode};
use kneepoint_model::VariableNames;
use kneepoint_model::{Body, Feeder, Part, PartContent};
use memchr::memmem;

/// A body in the form of the wire, with its content type unless the request names one.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    pub(crate) text: Text,
    pub(crate) content_type: Option<String>,
}

fn as_is(literal: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(literal.as_bytes());
}

fn as_form(literal: &str, out: &mut Vec<u8>) {
    encode(literal.as_bytes(), Encoding::Form, out);
}

impl Encoded {
    pub(crate) fn new(body: Option<&Body>, names: &VariableNames, feeders: &[Feeder]) -> Self {
        let mut text = Text::default();
        let content_type = match body {
            None => None,
            Some(Body::Text(content)) => {
                text.compile(content, names, Encoding::Raw, as_is);
                Some("application/x-www-form-urlencoded".to_owned())
            }
            Some(Body::Form(fields)) => {
                for (index, (name, value)) in fields.iter().enumerate() {
                    let mut encoded = Vec::new();
                    as_form(name, &mut encoded);
                    text.push(if index > 0 { b"&" } else { b"" });
                    text.push(&encoded);
                    text.push(b"=");
                    text.compile(value, names, Encoding::Form, as_form);
                }
                Some("application/x-www-form-urlencoded".to_owned())
            }
            Some(Body::Json(content)) => {
                text.compile(content, names, Encoding::Json, as_is);
                Some("application/json".to_owned())
            }
            Some(Body::Multipart(parts)) => {
                let boundary = boundary(parts, feeders);
                multipart(&mut text, parts, &boundary, names);
                Some(format!("multipart/form-data; boundary={boundary}"))
            }
            Some(Body::File(file)) => {
                text.push(&file.bytes);
                Some("application/octet-stream".to_owned())
            }
            Some(Body::Bytes(bytes)) => {
                text.push(bytes);
                Some("application/octet-stream".to_owned())
            }
        };
        Self { text, content_type }
    }
}

/// Whether the engine itself must name the content type: only it knows the boundary.
pub(crate) fn owns_content_type(body: Option<&Body>) -> bool {
    matches!(body, Some(Body::Multipart(_)))
}

/// A line that occurs neither in a part nor in a value a feeder may put into one.
fn boundary(parts: &[Part], feeders: &[Feeder]) -> String {
    let contents = parts.iter().map(|part| match &part.content {
        PartContent::Value(text) => text.as_bytes(),
        PartContent::File(file) => &file.bytes,
    });
    let values = feeders
        .iter()
        .flat_map(|feeder| feeder.rows.iter().flatten());
    let all: Vec<&[u8]> = contents.chain(values.map(|v| v.as_bytes())).collect();
    let mut number = 0u32;
    loop {
        let boundary = format!("----kneepoint{number:08x}");
        let occurs = |content: &&[u8]| memmem::find(content, boundary.as_bytes()).is_some();
        if !all.iter().any(occurs) {
            return boundary;
        }
        number += 1;
    }
}

/// Writes parts as browsers do (RFC 7578; WHATWG HTML, multipart/form-data encoding algorithm).
fn multipart(text: &mut Text, parts: &[Part], boundary: &str, names: &VariableNames) {
    let quoted = |name: &str| {
        name.replace('"', "%22")
            .replace('\r', "%0D")
            .replace('\n', "%0A")
    };
    for part in parts {
        let mut head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"",
            quoted(&part.name)
        );
        if let Some(filename) = &part.filename {
            head.push_str(&format!("; filename=\"{}\"", quoted(filename)));
        }
        let untyped = part
            .filename
            .as_ref()
            .map(|_| "application/octet-stream".to_owned());
        if let Some(content_type) = part.content_type.clone().or(untyped) {
            head.push_str(&format!("\r\nContent-Type: {content_type}"));
        }
        head.push_str("\r\n\r\n");
        text.push(head.as_bytes());
        match &part.content {
            PartContent::Value(value) => text.compile(value, names, Encoding::Raw, as_is),
            PartContent::File(file) => text.push(&file.bytes),
        }
        text.push(b"\r\n");
    }
    text.push(format!("--{boundary}--\r\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use kneepoint_model::FileContent;

    fn check(body: Body, expected: Expect) {
        let encoded = Encoded::new(Some(&body), &VariableNames::default(), &[]);
        let bytes = encoded.text.fixed().expect("no variables");
        let shown = format!(
            "{}\n\n{}",
            encoded.content_type.unwrap_or_default(),
            String::from_utf8_lossy(bytes)
        );
        expected.assert_eq(&shown.replace('\r', ""));
    }

    fn part(name: &str, content: PartContent) -> Part {
        Part {
            name: name.into(),
            content,
            filename: None,
            content_type: None,
        }
    }

    #[test]
    fn forms_are_encoded_as_browsers_do() {
        let fields = [("user", "ann & bob"), ("a b", "c=\u{fc}~*"), ("e", "")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        check(
            Body::Form(fields.into()),
            expect![[r#"
                application/x-www-form-urlencoded

                user=ann+%26+bob&a+b=c%3D%C3%BC%7E*&e="#]],
        );
    }

    #[test]
    fn texts_files_and_json_are_sent_as_they_are() {
        check(
            Body::Json("{\"a\": 1}".into()),
            expect![[r#"
                application/json

                {"a": 1}"#]],
        );
        check(
            Body::Bytes(b"\x01{{x}}".to_vec()),
            expect!["application/octet-stream\n\n\u{1}{{x}}"],
        );
    }

    #[test]
    fn parts_are_set_apart_by_a_line_that_is_in_none() {
        let file = FileContent {
            path: "/tmp/a.txt".into(),
            bytes: (&b"--------kneepoint00000000\r\n----kneepoint00000001"[..]).into(),
        };
        let mut upload = part("file", PartContent::File(file));
        upload.filename = Some("a \"b\".txt".into());
        check(
            Body::Multipart(vec![part("name", PartContent::Value("ann".into())), upload]),
            expect![[r#"
                multipart/form-data; boundary=----kneepoint00000002

                ------kneepoint00000002
                Content-Disposition: form-data; name="name"

                ann
                ------kneepoint00000002
                Content-Disposition: form-data; name="file"; filename="a %22b%22.txt"
                Content-Type: application/octet-stream

                --------kneepoint00000000
                ----kneepoint00000001
                ------kneepoint00000002--
            "#]],
        );
    }
}
