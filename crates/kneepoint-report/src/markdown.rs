//! Markdown's syntax: what must be escaped where, tables, lists, fences.

use crate::text::visible;
use std::fmt::Write as _;

/// A line.
pub(crate) fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// A heading with empty lines around it.
pub(crate) fn section(out: &mut String, title: &str) {
    let _ = write!(out, "\n### {title}\n\n");
}

/// A table; cells are escaped.
pub(crate) fn table(
    out: &mut String,
    columns: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) {
    line(out, &format!("| {} |", columns.join(" | ")));
    line(out, &format!("|{}", " --- |".repeat(columns.len())));
    for row in rows {
        let cells: Vec<_> = row.iter().map(|cell| escaped(cell)).collect();
        line(out, &format!("| {} |", cells.join(" | ")));
    }
}

/// A heading and a list under it; nothing when there is no item.
pub(crate) fn list(out: &mut String, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    section(out, title);
    for item in items {
        line(out, &format!("- {}", escaped(item)));
    }
}

/// Text that Markdown and HTML leave as it is, on one line.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '~' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

/// Text inside an HTML element, where Markdown is not read, on one line.
pub(crate) fn html_text(text: &str) -> String {
    visible(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Text as it is, in a fence that it cannot end.
pub(crate) fn fenced(out: &mut String, language: &str, text: &str) {
    // A terminal may show it.
    let text = kneepoint_model::redact::shown::visible_lines(text);
    let fence = "`".repeat(longest_fence(&text).max(2) + 1);
    line(
        out,
        &format!(
            "{fence}{language}\n{}\n{fence}",
            text.trim_end_matches('\n')
        ),
    );
}

/// The longest row of backticks, which the fence must outdo.
fn longest_fence(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(
            escaped("a|b *c* <d> `e`\n# f"),
            "a\\|b \\*c\\* &lt;d&gt; \\`e\\` \\# f"
        );
        assert_eq!(html_text("a_b <c>"), "a_b &lt;c&gt;");
    }

    #[test]
    fn a_fence_is_longer_than_any_in_its_text() {
        let mut out = String::new();
        fenced(&mut out, "diff", "+```\n+````x\n");
        assert_eq!(out, "`````diff\n+```\n+````x\n`````\n");
    }
}
