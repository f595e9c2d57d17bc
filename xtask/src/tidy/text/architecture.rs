//! ARCHITECTURE.md gives a reason for every dependency.

use crate::tidy::Violation;
use crate::tidy::tree::Tree;
use std::collections::BTreeMap;

const DOCUMENT: &str = "ARCHITECTURE.md";
const MANIFEST: &str = "Cargo.toml";
const HEADING: &str = "## Dependencies";

/// Every workspace dependency has its line, and every line its dependency.
pub(in crate::tidy) fn check(tree: &Tree) -> Vec<Violation> {
    let manifest = tree.files.get(MANIFEST).map_or("", String::as_str);
    let document = tree.files.get(DOCUMENT).map_or("", String::as_str);
    let reasons = reasons(document);
    let names = dependencies(manifest);
    let mut violations = Vec::new();
    for name in names
        .keys()
        .filter(|name| !reasons.contains_key(name.as_str()))
    {
        let text = format!("`{name}` has no reason in {DOCUMENT}, section Dependencies");
        violations.push(Violation::new(MANIFEST, names[name], "dependencies", text));
    }
    for (name, (line, reason)) in &reasons {
        if !names.contains_key(*name) {
            let text = format!("`{name}` is no dependency of the workspace");
            violations.push(Violation::new(DOCUMENT, *line, "dependencies", text));
        } else if reason.is_empty() {
            let text = format!("`{name}` is there without a reason");
            violations.push(Violation::new(DOCUMENT, *line, "dependencies", text));
        }
    }
    violations.extend(unused(tree, &names));
    violations
}

/// A dependency that no crate asks for.
fn unused(tree: &Tree, names: &BTreeMap<String, usize>) -> Vec<Violation> {
    let manifests = tree
        .files
        .iter()
        .filter(|(path, _)| path.ends_with("/Cargo.toml"));
    let lines = || manifests.clone().flat_map(|(_, text)| text.lines());
    let asked = |name: &str| lines().any(|line| line.split(['.', ' ', '=']).next() == Some(name));
    let unused = names.iter().filter(|(name, _)| !asked(name));
    unused
        .map(|(name, line)| {
            let text = format!("no crate asks for `{name}`: remove it");
            Violation::new(MANIFEST, *line, "dependencies", text)
        })
        .collect()
}

/// The external dependencies of the workspace, with their lines in the manifest.
fn dependencies(manifest: &str) -> BTreeMap<String, usize> {
    let table: toml::Table = manifest.parse().unwrap_or_default();
    let names = table
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies")?.as_table());
    let names = names.into_iter().flat_map(|table| table.keys());
    names
        .filter(|name| !name.starts_with("kneepoint"))
        .map(|name| {
            let mut lines = manifest.lines();
            let line = lines.position(|line| line.split('=').next().map(str::trim) == Some(name));
            (name.clone(), line.map_or(0, |index| index + 1))
        })
        .collect()
}

/// The lines `` - `name`, `name`: reason `` of the section, by name.
fn reasons(document: &str) -> BTreeMap<&str, (usize, &str)> {
    let lines = document.lines().enumerate();
    let section = lines
        .skip_while(|(_, line)| line.trim() != HEADING)
        .skip(1)
        .take_while(|(_, line)| !line.starts_with("## "));
    section
        .filter_map(|(index, line)| Some((index, line.strip_prefix("- `")?)))
        .flat_map(|(index, line)| {
            let (names, reason) = line.split_once(':').unwrap_or((line, ""));
            let names = names.split(',').map(|name| name.trim().trim_matches('`'));
            names.map(move |name| (name, (index + 1, reason.trim())))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests;
    use expect_test::expect;

    #[test]
    fn a_dependency_without_a_reason_is_named() {
        let manifest = "[workspace.dependencies]\nkneepoint-model = { path = \"x\" }\na = \"1\"\nb = \"1\"\nc = \"1\"\n";
        let document = "# X\n\n- `b`: not in the section\n\n## Dependencies\n\n- `a`: it counts\n- `c`:\n- `d`: gone\n\n## Other\n- `b`: no\n";
        let member = "[dependencies]\na.workspace = true\nb = { workspace = true }\n";
        let files = &[
            ("Cargo.toml", manifest),
            ("crates/x/Cargo.toml", member),
            ("ARCHITECTURE.md", document),
        ];
        tests::check(
            check,
            files,
            expect![[r#"
                ARCHITECTURE.md:8: dependencies: `c` is there without a reason
                ARCHITECTURE.md:9: dependencies: `d` is no dependency of the workspace
                Cargo.toml:4: dependencies: `b` has no reason in ARCHITECTURE.md, section Dependencies
                Cargo.toml:5: dependencies: no crate asks for `c`: remove it
            "#]],
        );
    }
}
