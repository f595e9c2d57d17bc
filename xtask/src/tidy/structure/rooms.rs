//! A folder is a room that one can look around in: at most a dozen entries, and one way to write a module.

use super::lists::is_extension;
use crate::tidy::Violation;
use crate::tidy::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// Most entries of a folder. A module counts once, with the folder beside it; `lib.rs` and `main.rs` are the door.
const ENTRIES: usize = 12;

/// No source folder has more entries than one can take in, and none is entered by `mod.rs`.
pub(in crate::tidy) fn check(tree: &Tree) -> Vec<Violation> {
    let mut folders: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut violations = Vec::new();
    for path in tree.files.keys().filter(|path| is_code(path)) {
        let mut inside = path.as_str();
        // The folder itself is an entry of the one above it, up to the crate.
        while let Some((folder, name)) = inside.rsplit_once('/') {
            if !is_code(inside) {
                break;
            }
            if !matches!(name, "lib.rs" | "main.rs") && !is_extension(&format!("{folder}/x.rs")) {
                let module = name.trim_end_matches(".rs").to_owned();
                folders.entry(folder.to_owned()).or_default().insert(module);
            }
            inside = folder;
        }
        // Below `tests/` every file is a test of its own, so what tests share needs a folder with a `mod.rs`.
        if path.ends_with("/mod.rs") && path.contains("/src/") {
            let text = "a module's file stands beside its folder: room.rs, not room/mod.rs";
            violations.push(Violation::new(path, 0, "rooms", text));
        }
    }
    let crowded = folders.iter().filter(|(_, names)| names.len() > ENTRIES);
    violations.extend(crowded.map(|(folder, names)| {
        let text = format!(
            "{} entries; a folder has at most {ENTRIES}: put what belongs together into a folder of its own",
            names.len()
        );
        Violation::new(folder, 0, "rooms", text)
    }));
    violations
}

/// Whether a path lies in the source or the tests of a crate.
fn is_code(path: &str) -> bool {
    let in_crate = path.starts_with("crates/") || path.starts_with("xtask/");
    let of = |part: &str| path.contains(part) || path.ends_with(part.trim_end_matches('/'));
    in_crate && (of("/src/") || (of("/tests/") && !path.contains("/tests/golden")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests;
    use expect_test::expect;

    #[test]
    fn a_crowded_folder_and_a_mod_rs_are_named() {
        let names: Vec<String> = (0..13)
            .map(|n| format!("crates/x/src/room/m{n}.rs"))
            .collect();
        let twelve: Vec<String> = (0..12)
            .map(|n| format!("crates/x/src/fits/m{n}.rs"))
            .collect();
        let mut files: Vec<(&str, &str)> = names
            .iter()
            .chain(&twelve)
            .map(|path| (path.as_str(), ""))
            .collect();
        files.extend([
            ("crates/x/src/lib.rs", ""),
            ("crates/x/src/room.rs", ""),
            ("crates/x/src/fits/m0/deep.rs", ""),
            ("crates/x/src/old/mod.rs", ""),
        ]);
        tests::check(
            check,
            &files,
            expect![[r#"
                crates/x/src/old/mod.rs:0: rooms: a module's file stands beside its folder: room.rs, not room/mod.rs
                crates/x/src/room:0: rooms: 13 entries; a folder has at most 12: put what belongs together into a folder of its own
            "#]],
        );
    }
}
