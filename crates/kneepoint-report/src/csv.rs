//! CSV's syntax (RFC 4180): what must be quoted.

/// A text field. A leading sign that a spreadsheet would take for a formula is set behind an apostrophe.
pub(crate) fn quoted(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        "'"
    } else {
        ""
    };
    if guard.is_empty() && !text.contains([',', '"', '\n', '\r']) {
        return text.to_owned();
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
    }
}
