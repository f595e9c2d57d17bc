//! CSV's syntax (RFC 4180): what must be quoted.

use crate::text::visible;

/// A text field on one line. A leading sign that a spreadsheet would take for a formula is set behind an apostrophe.
pub(crate) fn quoted(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        "'"
    } else {
        ""
    };
    // A terminal may show it.
    let text = visible(text);
    if guard.is_empty() && !text.contains([',', '"']) {
        return text;
    }
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_fields_stay_one_field_and_no_formula() {
        assert_eq!(quoted("limit: step"), "limit: step");
        assert_eq!(quoted("a, \"b\""), "\"a, \"\"b\"\"\"");
        assert_eq!(quoted("=1+1"), "\"'=1+1\"");
        assert_eq!(quoted("\t=1+1"), "\"' =1+1\"");
        assert_eq!(quoted("a\u{1b}[2J\nb"), "a [2J b");
    }
}
