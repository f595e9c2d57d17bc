//! What `explain` prints of a rule, in one form for every kind of rule.

/// A page about a rule, in Markdown that also reads well as plain text: its code and title, a line of facts, and parts
/// with a heading each. Parts without text are left out.
#[must_use]
pub fn rule_page(code: &str, title: &str, facts: &str, parts: &[(&str, &str)]) -> String {
    let mut page = format!("# {code}: {}\n\n{facts}.\n", rule_title(title));
    for (heading, text) in parts.iter().filter(|(_, text)| !text.trim().is_empty()) {
        page.push_str(&format!("\n## {heading}\n\n{}\n", text.trim()));
    }
    page
}

/// A title as it begins a line: with a capital letter, unless its first word is a name that is written small, as `nginx`
/// and `process.max` are.
#[must_use]
pub fn rule_title(title: &str) -> String {
    let word = title.split(' ').next().unwrap_or_default();
    let is_name = word == "nginx" || word.contains(['.', '_']);
    let mut letters = title.chars();
    match letters.next() {
        Some(first) if !is_name => first.to_uppercase().chain(letters).collect(),
        _ => title.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_parts_in_their_order() {
        let parts = [
            ("What it is", " a "),
            ("Nothing", ""),
            ("What to write", "b"),
        ];
        let page = rule_page("X-01", "T", "f", &parts);
        assert_eq!(
            page,
            "# X-01: T\n\nf.\n\n## What it is\n\na\n\n## What to write\n\nb\n"
        );
    }

    #[test]
    fn a_title_begins_with_a_capital_letter_unless_a_name_does_not() {
        for (title, told) in [
            ("the CPU is the limit", "The CPU is the limit"),
            ("OPcache is off", "OPcache is off"),
            ("nginx sends text", "nginx sends text"),
            ("process.max stops pools", "process.max stops pools"),
            ("opcache.* is set", "opcache.* is set"),
            ("fastcgi_keep_conn is on", "fastcgi_keep_conn is on"),
            ("", ""),
        ] {
            assert_eq!(rule_title(title), told);
        }
    }
}
