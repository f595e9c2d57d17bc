//! Nothing in the repository names the machine of whoever wrote it.

use crate::tidy::Violation;
use crate::tidy::tree::Tree;

/// Beginnings of private directories, in two parts so that this file does not name one itself.
const PRIVATE: &[(&str, &str)] = &[
    ("/ho", "me/"),
    ("/Us", "ers/"),
    ("/ro", "ot/"),
    ("/wo", "rk/"),
    ("C:\\Us", "ers\\"),
];

/// No text file holds an absolute path into somebody's directory.
pub(in crate::tidy) fn check(tree: &Tree) -> Vec<Violation> {
    tree.files
        .iter()
        .flat_map(|(path, text)| {
            let lines = text.lines().enumerate();
            lines.filter_map(move |(index, line)| {
                let private = PRIVATE
                    .iter()
                    .find(|(a, b)| names(line, &format!("{a}{b}")))?;
                let text = format!("`{}{}…` is a path of one machine", private.0, private.1);
                Some(Violation::new(path, index + 1, "machine-path", text))
            })
        })
        .collect()
}

/// Whether a line holds the directory at the beginning of a path: `/srv/home/x` and `$root/home/` do not.
fn names(line: &str, dir: &str) -> bool {
    line.match_indices(dir).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let begins = before.is_none_or(|c| !c.is_alphanumeric() && !"._-/}>*)".contains(c));
        let inside = line[at + dir.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '.');
        begins && inside
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests;
    use expect_test::expect;

    #[test]
    fn private_directories_are_named() {
        let (a, b) = PRIVATE[0];
        let script = format!("cd {a}{b}ann/src\nls /srv{a}{b}x\nls {a}{b}\n");
        tests::check(
            check,
            &[("scripts/x", &script)],
            expect![[r#"
            scripts/x:1: machine-path: `/home/…` is a path of one machine
        "#]],
        );
    }
}
