//! Prints a rule's documentation as Markdown that also reads well as plain text.

use crate::rule::{AppliesTo, Rule};
use crate::rules::RULES;
use kneepoint_model::rule_page;

/// The documentation of a rule by its code (`OPC-01`, in any case) or its name (`opcache-off`); `None` when the
/// catalogue has no such rule.
#[must_use]
pub fn explain(code: &str) -> Option<String> {
    RULES
        .iter()
        .find(|rule| rule.code.eq_ignore_ascii_case(code) || rule.name.eq_ignore_ascii_case(code))
        .map(|rule| render(rule))
}

fn render(rule: &Rule) -> String {
    let layers: Vec<&str> = rule.layers.iter().map(|layer| layer.name()).collect();
    let holds_for = match rule.applies_to {
        AppliesTo::Any => "every stack".to_owned(),
        AppliesTo::Server(server) => format!("stacks with {server}"),
    };
    let facts = format!(
        "{}; layer {}; stage {}; {}; holds for {holds_for}; since {}",
        rule.name,
        layers.join(", "),
        rule.stage.name(),
        rule.signal.name(),
        rule.since,
    );
    let doc = &rule.doc;
    let needs = rule.requires.iter();
    let needs = listed(needs.map(|metric| format!("`{}`: {}", metric.name, metric.about)));
    let references = listed(doc.references.iter().map(|one| (*one).to_owned()));
    let parts = [
        ("What it is", doc.what_it_is),
        ("How it shows", doc.how_it_shows),
        ("How it is confirmed", doc.how_it_is_confirmed),
        ("What to write", doc.what_to_write),
        ("What it needs", needs.as_str()),
        ("References", references.as_str()),
    ];
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
            let page = explain(rule.code).expect(rule.code);
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
        assert_eq!(explain("opc-01"), explain("OPCACHE-OFF"));
        assert_eq!(explain("OPC-99"), None);
    }
}
