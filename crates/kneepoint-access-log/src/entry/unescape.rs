//! Undoes how servers escape values in their logs.

use std::borrow::Cow;

/// The value before nginx (`\x22`, or `\"` and `\u001F` with escape=json) or Apache (`\"`, `\n`, `\xHH`) escaped it.
/// What is no escape stays as it is; bytes that are not UTF-8 are replaced.
pub(crate) fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        rest = match escaped(rest, &mut bytes) {
            Some(after) => after,
            None => {
                bytes.push(b'\\');
                rest
            }
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads what follows a backslash; what comes after it.
fn escaped<'t>(text: &'t str, out: &mut Vec<u8>) -> Option<&'t str> {
    let kind = *text.as_bytes().first()?;
    let hex = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        let plain = digits.bytes().all(|b| b.is_ascii_hexdigit());
        plain
            .then(|| u32::from_str_radix(digits, 16).ok())
            .flatten()
    };
    let byte = match kind {
        b'"' | b'\\' | b'/' | b'\'' => kind,
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 0x08,
        b'f' => 0x0c,
        b'v' => 0x0b,
        b'x' => {
            out.push(u8::try_from(hex(1, 3)?).ok()?);
            return text.get(3..);
        }
        b'u' => {
            let decoded = char::from_u32(hex(1, 5)?).unwrap_or(char::REPLACEMENT_CHARACTER);
            out.extend_from_slice(decoded.encode_utf8(&mut [0; 4]).as_bytes());
            return text.get(5..);
        }
        _ => return None,
    };
    out.push(byte);
    text.get(1..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_escape_is_undone() {
        for (text, expected) in [
            ("plain", "plain"),
            (r"a\x22b\x5Cc", "a\"b\\c"),
            (r"caf\xC3\xA9", "café"),
            (r#"say \"hi\"\n"#, "say \"hi\"\n"),
            (r"\u0041\u00e9\/", "Aé/"),
            (r"C:\dir\", r"C:\dir\"),
            (r"\x2", r"\x2"),
            (r"\xé1", r"\xé1"),
            (r"\u12", r"\u12"),
            (r"\ud800", "\u{fffd}"),
        ] {
            assert_eq!(unescape(text), expected, "{text}");
        }
    }
}
