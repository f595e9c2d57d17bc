//! The beginning of a response, for people.

use crate::response::page::Page;

/// Bytes as one line of text.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(bytes)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The beginning of a body as a person reads it: HTML without its tags, unless nothing else has come of it yet.
pub(crate) fn readable(body: &[u8]) -> String {
    let Page {
        title,
        text,
        is_html: true,
        ..
    } = Page::read(body, None)
    else {
        return printable(body);
    };
    let title = title.filter(|title| !text.starts_with(title.as_str()));
    let texts = [title.unwrap_or_default(), text];
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    match texts.is_empty() {
        true => printable(body),
        false => texts.join(". "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_shown_as_it_is_read() {
        let check = |body: &str, expected: &str| assert_eq!(readable(body.as_bytes()), expected);
        check(
            "<!DOCTYPE html><html><head><meta charset='utf-8'><title>Database Error</title><style type=\"t",
            "Database Error",
        );
        check("<br />\n<b>Fatal error</b>:  no", "Fatal error: no");
        check("<title>Oh</title><p>Oh no</p>", "Oh no");
        check("{\"a\":\n1}", "{\"a\": 1}");
        check("<html><head><meta", "<html><head><meta");
        check("", "");
    }
}
