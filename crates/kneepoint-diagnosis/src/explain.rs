//! Prints a rule's documentation as Markdown that also reads well as plain text.

use crate::rule::{AppliesTo, Rule};
use crate::rules::RULES;
use kneepoint_model::rule_page;

/// The documentation of a rule by its code (`OPC-01`, in any case) or its name (`opcache-off`), with parts that somebody
/// else knows of the same matter, each a heading and a text; `None` when the catalogue has no such rule.
#[must_use]
pub fn explain(code: &str, besides: &[(&str, &str)]) -> Option<String> {
    RULES
        .iter()
        .find(|rule| rule.code.eq_ignore_ascii_case(code) || rule.name.eq_ignore_ascii_case(code))
        .map(|rule| render(rule, besides))
}

fn render(rule: &Rule, besides: &[(&str, &str)]) -> String {
    let holds_for = match rule.applies_to {
        AppliesTo::Any => "every stack".to_owned(),
        AppliesTo::Server(server) => format!("stacks with {server}"),
    };
    let also = if besides.is_empty() {
        ""
    } else {
        ", and without load by kneepoint check"
    };
    let facts =
        format!("Found under load by kneepoint diagnose and tune{also}; holds for {holds_for}");
    let doc = &rule.doc;
    let references = listed(doc.references.iter().map(|one| (*one).to_owned()));
    let mut parts = vec![
        ("What it is", doc.what_it_is),
        ("How it shows", doc.how_it_shows),
    ];
    parts.extend_from_slice(besides);
    parts.extend([
        ("How it is confirmed", doc.how_it_is_confirmed),
        ("What to write", doc.what_to_write),
        ("References", references.as_str()),
    ]);
    rule_page(rule.code, rule.title, &facts, &parts)
}

fn listed(items: impl Iterator<Item = String>) -> String {
    let lines: Vec<String> = items.map(|item| format!("- {item}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_explains_itself() {
        for rule in RULES {
            let page = explain(rule.code, &[]).expect(rule.code);
            for part in [
                rule.doc.what_it_is,
                rule.doc.how_it_shows,
                rule.doc.how_it_is_confirmed,
                rule.doc.what_to_write,
            ] {
                assert!(
                    part.trim().len() > 60 && page.contains(part.trim()),
                    "{} leaves the reader alone: {part:?}",
                    rule.code
                );
            }
            assert!(!rule.doc.references.is_empty(), "{}", rule.code);
        }
    }

    #[test]
    fn a_rule_is_found_by_code_or_name_in_any_case() {
        assert_eq!(explain("opc-01", &[]), explain("OPCACHE-OFF", &[]));
        assert_eq!(explain("OPC-99", &[]), None);
    }

    #[test]
    fn what_others_know_of_the_matter_stands_in_the_same_article() {
        let page = explain("OPC-01", &[("When it does not matter", "Never.")]).expect("a page");
        assert_eq!(page.matches("# OPC-01").count(), 1);
        let at = |text: &str| page.find(text).expect(text);
        assert!(at("How it shows") < at("When it does not matter"));
        assert!(at("Never.") < at("What to write"));
        assert!(!page.contains("stage "), "{page}");
    }
}
