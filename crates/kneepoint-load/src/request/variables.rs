//! Texts of requests with variables in them, compiled before the load and written without allocating.

use kneepoint_model::variables::{Piece, pieces};
use kneepoint_model::{ValueSource, VariableNames};
use std::io::Write as _;

/// The value of that variable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestId {
    bytes: [u8; Self::LONGEST],
    length: usize,
}

impl RequestId {
    /// `kneepoint-` and the digits of the largest number.
    const LONGEST: usize = 10 + 20;

    /// Of the request with this number.
    pub(crate) fn of(number: u64) -> Self {
        let mut bytes = [0; Self::LONGEST];
        let mut rest = &mut bytes[..];
        // There is room for every number.
        let _ = write!(rest, "kneepoint-{number}");
        let length = Self::LONGEST - rest.len();
        Self { bytes, length }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// How a value is written where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// As it is.
    Raw,
    /// As it is, on one line.
    Header,
    /// Percent-encoded but for what is unreserved (RFC 3986, section 2.3).
    Url,
    /// As browsers encode forms (WHATWG URL Standard, application/x-www-form-urlencoded serializing).
    Form,
    /// Escaped as within a JSON string (RFC 8259, section 7).
    Json,
}

/// Why a request cannot be sent: the value of a variable, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoValue<'p> {
    /// Nothing was captured for it.
    Missing(&'p str),
    /// It holds a line break or another control character, and stands in a header.
    Unfit(&'p str),
}

impl NoValue<'_> {
    /// Why, and what to do.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Missing(variable) => format!(
                "nothing was captured for {{{{{variable}}}}}; the request that captures it must come first and succeed"
            ),
            Self::Unfit(variable) => format!(
                "the value of {{{{{variable}}}}} holds a control character, which no header can"
            ),
        }
    }
}

/// Where a text finds the values of its variables.
pub(crate) trait Values {
    /// The value, unless there is none.
    fn value(&self, source: ValueSource) -> Option<&[u8]>;
}

#[derive(Debug)]
enum Part {
    Literal(Vec<u8>),
    Variable {
        name: String,
        source: ValueSource,
        encoding: Encoding,
    },
}

/// A text in parts.
#[derive(Debug, Default)]
pub(crate) struct Text {
    parts: Vec<Part>,
}

impl Text {
    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if let Some(Part::Literal(last)) = self.parts.last_mut() {
            last.extend_from_slice(bytes);
        } else if !bytes.is_empty() {
            self.parts.push(Part::Literal(bytes.to_vec()));
        }
    }

    /// Appends a text whose variables are known names. `literal` encodes what stands between them.
    pub(crate) fn compile(
        &mut self,
        text: &str,
        names: &VariableNames,
        encoding: Encoding,
        literal: impl Fn(&str, &mut Vec<u8>),
    ) {
        let mut encoded = Vec::new();
        for piece in pieces(text) {
            let variable = match piece {
                Piece::Variable(name) => names.source(name).map(|source| (name, source)),
                Piece::Literal(_) => None,
            };
            match (variable, piece) {
                (Some((name, source)), _) => self.parts.push(Part::Variable {
                    name: name.to_owned(),
                    source,
                    encoding,
                }),
                // The check of the plan has refused names that nobody knows.
                (None, Piece::Literal(text) | Piece::Variable(text)) => {
                    encoded.clear();
                    literal(text, &mut encoded);
                    self.push(&encoded);
                }
            }
        }
    }

    /// Whether it has no variable.
    pub(crate) fn is_fixed(&self) -> bool {
        self.parts.iter().all(|p| matches!(p, Part::Literal(_)))
    }

    /// Whether it needs a captured value.
    pub(crate) fn needs_captured(&self) -> bool {
        self.parts.iter().any(|part| {
            matches!(
                part,
                Part::Variable {
                    source: ValueSource::Captured(_),
                    ..
                }
            )
        })
    }

    /// Appends the text with its values to a buffer.
    pub(crate) fn write<'p>(
        &'p self,
        values: &impl Values,
        out: &mut Vec<u8>,
    ) -> Result<(), NoValue<'p>> {
        for part in &self.parts {
            match part {
                Part::Literal(bytes) => out.extend_from_slice(bytes),
                Part::Variable {
                    name,
                    source,
                    encoding,
                } => {
                    let value = values.value(*source).ok_or(NoValue::Missing(name))?;
                    if !encode(value, *encoding, out) {
                        return Err(NoValue::Unfit(name));
                    }
                }
            }
        }
        Ok(())
    }

    /// The text when it has no variable.
    pub(crate) fn fixed(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(&[]),
            [Part::Literal(bytes)] => Some(bytes),
            _ => None,
        }
    }
}

/// Appends a value as its place asks; false when it cannot stand there.
pub(crate) fn encode(value: &[u8], encoding: Encoding, out: &mut Vec<u8>) -> bool {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let percent = |byte: u8, out: &mut Vec<u8>| {
        out.extend([
            b'%',
            HEX[usize::from(byte >> 4)],
            HEX[usize::from(byte & 15)],
        ]);
    };
    match encoding {
        Encoding::Raw => out.extend_from_slice(value),
        Encoding::Header => {
            if value
                .iter()
                .any(|b| *b != b'\t' && (*b < b' ' || *b == 0x7f))
            {
                return false;
            }
            out.extend_from_slice(value);
        }
        Encoding::Url => {
            for &byte in value {
                match byte {
                    b'-' | b'.' | b'_' | b'~' => out.push(byte),
                    _ if byte.is_ascii_alphanumeric() => out.push(byte),
                    _ => percent(byte, out),
                }
            }
        }
        Encoding::Form => {
            for &byte in value {
                match byte {
                    b' ' => out.push(b'+'),
                    b'*' | b'-' | b'.' | b'_' => out.push(byte),
                    _ if byte.is_ascii_alphanumeric() => out.push(byte),
                    _ => percent(byte, out),
                }
            }
        }
        Encoding::Json => {
            for &byte in value {
                match byte {
                    b'"' | b'\\' => out.extend([b'\\', byte]),
                    0..=0x1f => {
                        let digit = |nibble: u8| HEX[usize::from(nibble)];
                        out.extend_from_slice(b"\\u00");
                        out.extend([digit(byte >> 4), digit(byte & 15)]);
                    }
                    _ => out.push(byte),
                }
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use kneepoint_model::{Capture, CaptureFrom, Feeder, Request, RowOrder, Workload};

    struct Fixed(Option<&'static [u8]>);

    impl Values for Fixed {
        fn value(&self, _: ValueSource) -> Option<&[u8]> {
            self.0
        }
    }

    fn names() -> VariableNames {
        let mut workload = Workload::single("/");
        let mut request = Request::get("/");
        request.captures = vec![Capture {
            name: "csrf".into(),
            from: CaptureFrom::Header("X".into()),
        }];
        workload.requests.push(request);
        workload.feeders = vec![Feeder {
            name: "users".into(),
            columns: vec!["id".into(), "name".into()],
            order: RowOrder::InTurn,
            rows: [vec!["1".into(), "ann".into()]].into(),
        }];
        VariableNames::new(&workload)
    }

    #[test]
    fn the_largest_number_has_room_in_a_request_id() {
        let id = RequestId::of(u64::MAX);
        assert_eq!(id.as_bytes(), b"kneepoint-18446744073709551615");
    }

    fn check(encoding: Encoding, value: &'static [u8], expected: Expect) {
        let mut text = Text::default();
        text.compile("a={{csrf}}&", &names(), encoding, |literal, out| {
            out.extend_from_slice(literal.as_bytes());
        });
        let mut out = Vec::new();
        let written = text.write(&Fixed(Some(value)), &mut out).map(|()| out);
        let shown = written.map(|out| String::from_utf8_lossy(&out).into_owned());
        expected.assert_eq(&format!("{shown:?}"));
    }

    #[test]
    fn values_are_encoded_for_their_place() {
        let value = "a b+&=/\"\\\u{e4}~*".as_bytes();
        check(
            Encoding::Raw,
            value,
            expect![[r#"Ok("a=a b+&=/\"\\ä~*&")"#]],
        );
        check(
            Encoding::Url,
            value,
            expect![[r#"Ok("a=a%20b%2B%26%3D%2F%22%5C%C3%A4~%2A&")"#]],
        );
        check(
            Encoding::Form,
            value,
            expect![[r#"Ok("a=a+b%2B%26%3D%2F%22%5C%C3%A4%7E*&")"#]],
        );
        check(
            Encoding::Json,
            b"a\"b\\c\n",
            expect![[r#"Ok("a=a\\\"b\\\\c\\u000A&")"#]],
        );
        check(Encoding::Header, b"a b", expect![[r#"Ok("a=a b&")"#]]);
        check(
            Encoding::Header,
            b"a\r\nX: b",
            expect![[r#"Err(Unfit("csrf"))"#]],
        );
    }

    #[test]
    fn a_missing_value_is_never_an_empty_one() {
        let mut text = Text::default();
        text.compile("{{csrf}}", &names(), Encoding::Raw, |_, _| {});
        assert!(text.needs_captured() && !text.is_fixed());
        let missing = text.write(&Fixed(None), &mut Vec::new());
        assert_eq!(missing, Err(NoValue::Missing("csrf")));
        assert_eq!(text.write(&Fixed(Some(b"")), &mut Vec::new()), Ok(()));
    }
}
