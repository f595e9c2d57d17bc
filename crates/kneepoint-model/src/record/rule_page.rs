//! What `explain` prints of a rule, in one form for every kind of rule.

/// A page about a rule, in Markdown that also reads well as plain text: its code and title, a line of facts, and parts
/// with a heading each. Parts without text are left out.
#[must_use]
pub fn rule_page(code: &str, title: &str, facts: &str, parts: &[(&str, &str)]) -> String {
    let mut page = format!("# {code}: {title}\n\n{facts}.\n");
    for (heading, text) in parts.iter().filter(|(_, text)| !text.trim().is_empty()) {
        page.push_str(&format!("\n## {heading}\n\n{}\n", text.trim()));
    }
    page
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
}
