//! Crates that decide touch nothing: clippy finds every way out of them, by a configuration that all of them share.

use super::edges::PURE;
use crate::tidy::Violation;
use crate::tidy::tree::Tree;
use std::collections::BTreeSet;

/// What those crates share; their own `clippy.toml` are links to it.
const SHARED: &str = "crates/pure.clippy.toml";
/// What the other crates have, whose place it takes.
const ROOT: &str = "clippy.toml";

/// Each of them has the configuration, it says all that the one at the root says, and nobody is excused from it outside of
/// tests.
pub(in crate::tidy) fn check(tree: &Tree) -> Vec<Violation> {
    let text = |path: &str| tree.files.get(path).map_or("", String::as_str);
    let shared = text(SHARED);
    let own = PURE.iter().filter_map(|krate| {
        let path = format!("crates/{krate}/clippy.toml");
        let wrong = format!("must be a link to {SHARED}: `{krate}` decides and touches nothing");
        (shared.is_empty() || text(&path) != shared)
            .then(|| Violation::new(&path, 0, "purity", wrong))
    });
    let (banned, of_root) = (paths(shared), paths(text(ROOT)));
    let forgotten = of_root.difference(&banned).map(|path| {
        let wrong = format!("`{path}` of {ROOT} is missing, whose place this takes");
        Violation::new(SHARED, 0, "purity", wrong)
    });
    own.chain(forgotten).chain(excused(tree)).collect()
}

/// What a configuration of clippy forbids.
fn paths(text: &str) -> BTreeSet<&str> {
    let quoted = text.split("path = \"").skip(1);
    quoted.filter_map(|rest| rest.split('"').next()).collect()
}

/// Lines that switch the lints off in what is not a test.
fn excused(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let dirs = PURE.iter().map(|krate| format!("crates/{krate}/src/"));
    for source in dirs.flat_map(|dir| tree.under(&dir).collect::<Vec<_>>()) {
        if source.test_only {
            continue;
        }
        let before_tests = source
            .text
            .lines()
            .take_while(|line| *line != "#[cfg(test)]");
        for (at, line) in before_tests.enumerate() {
            if line.contains("clippy::disallowed") {
                let text =
                    "what decides touches nothing, without exception: take it as an argument";
                violations.push(Violation::new(&source.path, at + 1, "purity", text));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests;
    use expect_test::expect;
    use std::path::Path;
    use std::process::Command;

    const PLANNER: &str = "crates/kneepoint-planner/src/lib.rs";

    /// A tree in which the crates have these configurations, and the planner this text.
    fn check_tree(shared: &str, of_report: &str, planner: &str, expected: expect_test::Expect) {
        let own = |krate: &str| format!("crates/{krate}/clippy.toml");
        let paths: Vec<String> = PURE.iter().map(|krate| own(krate)).collect();
        let mut files: Vec<(&str, &str)> = paths.iter().map(|it| (it.as_str(), shared)).collect();
        if let Some(report) = files.last_mut() {
            report.1 = of_report;
        }
        let root = r#"disallowed-methods = [{ path = "std::process::Command::new" }]"#;
        files.extend([(SHARED, shared), (ROOT, root), (PLANNER, planner)]);
        tests::check(check, &files, expected);
    }

    #[test]
    fn every_pure_crate_has_the_configuration_and_it_repeats_the_roots() {
        let whole = r#"disallowed-methods = [{ path = "std::process::Command::new" }]"#;
        check_tree(whole, whole, "", expect![[""]]);
        check_tree(
            whole,
            "",
            "",
            expect![[r#"
            crates/kneepoint-report/clippy.toml:0: purity: must be a link to crates/pure.clippy.toml: `kneepoint-report` decides and touches nothing
        "#]],
        );
        let other = r#"disallowed-methods = [{ path = "std::fs::read" }]"#;
        check_tree(
            other,
            other,
            "",
            expect![[r#"
            crates/pure.clippy.toml:0: purity: `std::process::Command::new` of clippy.toml is missing, whose place this takes
        "#]],
        );
    }

    #[test]
    fn nobody_is_excused_outside_of_tests() {
        let whole = r#"disallowed-methods = [{ path = "std::process::Command::new" }]"#;
        let text = "#[allow(clippy::disallowed_types)]\nfn f() {}\n\
                    #[cfg(test)]\nmod tests {\n    #[expect(clippy::disallowed_methods)]\n    fn g() {}\n}";
        check_tree(
            whole,
            whole,
            text,
            expect![[r#"
            crates/kneepoint-planner/src/lib.rs:1: purity: what decides touches nothing, without exception: take it as an argument
        "#]],
        );
    }

    /// Lines that reach out, a clock, a file, a thread or a socket each, and what clippy names in them.
    const WAYS_OUT: &[(&str, &str)] = &[
        ("std::time::Instant::now()", "std::time::Instant"),
        ("std::time::SystemTime::now()", "std::time::SystemTime"),
        ("std::time::UNIX_EPOCH.elapsed()", "std::time::SystemTime"),
        ("std::fs::read(\"x\")", "std::fs::read"),
        ("std::fs::File::open(\"x\")", "std::fs::File"),
        (
            "std::path::Path::new(\"x\").exists()",
            "std::path::Path::exists",
        ),
        ("std::fs::write(\"x\", \"y\")", "std::fs::write"),
        ("std::thread::spawn(|| ())", "std::thread::spawn"),
        ("std::thread::scope(|_| ())", "std::thread::scope"),
        ("std::thread::sleep(D)", "std::thread::sleep"),
        ("std::net::TcpStream::connect(\"x\")", "std::net::TcpStream"),
        ("std::net::UdpSocket::bind(\"x\")", "std::net::UdpSocket"),
        (
            "std::os::unix::net::UnixStream::connect(\"x\")",
            "std::os::unix::net::UnixStream",
        ),
        ("std::process::Command::new(\"x\")", "std::process::Command"),
        ("std::env::var(\"x\")", "std::env::var"),
        ("std::io::stdin()", "std::io::stdin"),
    ];

    /// Clippy itself, with the configuration of the planner, on a crate that tries each way.
    #[test]
    fn clippy_finds_every_way_out_of_the_planner() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/kneepoint-planner");
        let manifest = "[package]\nname = \"planted\"\nedition = \"2024\"\n[workspace]\n";
        let mut text = "const D: std::time::Duration = std::time::Duration::ZERO;\n".to_owned();
        for (nth, (code, _)) in WAYS_OUT.iter().enumerate() {
            text.push_str(&format!("pub fn way_{nth}() {{ let _ = {code}; }}\n"));
        }
        std::fs::write(directory.path().join("Cargo.toml"), manifest).expect("written");
        std::fs::create_dir(directory.path().join("src")).expect("made");
        std::fs::write(directory.path().join("src/lib.rs"), text).expect("written");
        let output = Command::new(env!("CARGO"))
            .args(["clippy", "--offline", "--message-format=short"])
            .current_dir(directory.path())
            .env("CARGO_TARGET_DIR", directory.path().join("target"))
            .env("CLIPPY_CONF_DIR", root)
            .output()
            .expect("clippy runs");
        let said = String::from_utf8_lossy(&output.stderr);
        for (nth, (code, path)) in WAYS_OUT.iter().enumerate() {
            let at = format!("src/lib.rs:{}:", nth + 2);
            let found = said.lines().any(|line| {
                line.starts_with(&at) && line.contains("disallowed") && line.contains(path)
            });
            assert!(found, "`{code}` passes: {said}");
        }
    }
}
