//! Which crate may know which.

use crate::tidy::Violation;
use anyhow::{Context as _, Result};
use cargo_metadata::MetadataCommand;
use std::path::Path;

/// A crate of the workspace and what it asks for, of every kind of dependency.
pub(in crate::tidy) struct Member {
    name: String,
    /// Its manifest, relative to the workspace.
    manifest: String,
    text: String,
    /// Names with whether they are for tests only.
    dependencies: Vec<(String, bool)>,
}

/// The layer table of ARCHITECTURE.md: each crate with the siblings it may know.
const TABLE: &[(&str, &[&str])] = &[
    ("kneepoint-model", &[]),
    ("kneepoint-linux", &[]),
    ("kneepoint-access-log", MODEL),
    ("kneepoint-schedules", MODEL),
    ("kneepoint-planner", MODEL),
    ("kneepoint-double", KERNEL),
    ("kneepoint-lab", KERNEL),
    ("kneepoint-load", KERNEL),
    ("kneepoint-profiler", KERNEL),
    ("kneepoint-stack", MODEL),
    ("kneepoint-telemetry", KERNEL),
    ("kneepoint-diagnosis", MODEL),
    ("kneepoint-report", MODEL),
    (
        "kneepoint-check",
        &[
            "kneepoint-access-log",
            "kneepoint-linux",
            "kneepoint-model",
            "kneepoint-profiler",
            "kneepoint-stack",
            "kneepoint-telemetry",
        ],
    ),
    (
        "kneepoint-experiment",
        &[
            "kneepoint-agents",
            "kneepoint-diagnosis",
            "kneepoint-double",
            "kneepoint-lab",
            "kneepoint-linux",
            "kneepoint-load",
            "kneepoint-model",
            "kneepoint-planner",
            "kneepoint-profiler",
            "kneepoint-schedules",
            "kneepoint-stack",
            "kneepoint-telemetry",
        ],
    ),
    (
        "kneepoint-agents",
        &["kneepoint-linux", "kneepoint-load", "kneepoint-model"],
    ),
    (BINARY, &["kneepoint-*"]),
    ("xtask", &["kneepoint", "kneepoint-*"]),
];

const MODEL: &[&str] = &["kneepoint-model"];
/// Instruments that look into the kernel.
const KERNEL: &[&str] = &["kneepoint-linux", "kneepoint-model"];
const BINARY: &str = "kneepoint";

/// Crates that talk to a terminal: only the binary may have them.
const TERMINAL: &[&str] = &[
    "clap",
    "console",
    "crossterm",
    "dialoguer",
    "indicatif",
    "ratatui",
];

/// Crates that touch the world: the model and the judges may have them in tests only.
const WORLDLY: &[&str] = &[
    "libc",
    "mysql",
    "postgres",
    "procfs",
    "rand",
    "redis",
    "rusqlite",
    "rustix",
    "signal-hook",
    "walkdir",
];
pub(super) const PURE: &[&str] = &[
    "kneepoint-model",
    "kneepoint-planner",
    "kneepoint-schedules",
    "kneepoint-diagnosis",
    "kneepoint-report",
];

/// The members of the workspace, as cargo sees them.
pub(in crate::tidy) fn members(root: &Path) -> Result<Vec<Member>> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .context("`cargo metadata` failed")?;
    let packages = metadata.packages.into_iter();
    packages
        .map(|package| {
            let path = package.manifest_path.as_std_path();
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let manifest = path
                .strip_prefix(root)
                .unwrap_or(path)
                .display()
                .to_string();
            let dependencies = package.dependencies.into_iter();
            Ok(Member {
                name: package.name.to_string(),
                manifest,
                text,
                dependencies: dependencies
                    .map(|one| {
                        (
                            one.name,
                            one.kind == cargo_metadata::DependencyKind::Development,
                        )
                    })
                    .collect(),
            })
        })
        .collect()
}

/// Every edge is in the table, and the terminal and the world are where they belong.
pub(in crate::tidy) fn check(members: &[Member]) -> Vec<Violation> {
    members.iter().flat_map(check_member).collect()
}

fn check_member(member: &Member) -> Vec<Violation> {
    let wrong = |name: &str, text: String| {
        let mut lines = member.text.lines();
        let line = lines.position(|line| line.split(['.', '=', ' ']).next() == Some(name));
        Violation::new(
            &member.manifest,
            line.map_or(0, |index| index + 1),
            "edges",
            text,
        )
    };
    let krate = member.name.as_str();
    let Some((_, siblings)) = TABLE.iter().find(|(name, _)| *name == krate) else {
        let text = format!("`{krate}` has no place in the layer table of xtask/src/tidy/edges.rs");
        return vec![wrong("name", text)];
    };
    let mut violations = Vec::new();
    for (name, for_tests) in &member.dependencies {
        let name = name.as_str();
        if name.starts_with(BINARY) && !siblings.iter().any(|pattern| matches(pattern, name)) {
            violations.push(wrong(name, format!("`{krate}` must not know `{name}`")));
        }
        // The chores have a command line of their own, and nothing else of a terminal.
        let of_chores = krate == "xtask" && name == "clap";
        if TERMINAL.contains(&name) && krate != BINARY && !of_chores {
            violations.push(wrong(
                name,
                format!("only `{BINARY}` talks to a terminal, not `{krate}` with `{name}`"),
            ));
        }
        if WORLDLY.contains(&name) && PURE.contains(&krate) && !for_tests {
            violations.push(wrong(
                name,
                format!("`{krate}` touches nothing, so it has no use for `{name}`"),
            ));
        }
    }
    violations
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    #[track_caller]
    fn check_crate(name: &str, dependencies: &[&str], expected: Expect) {
        let listed: String = dependencies
            .iter()
            .map(|one| format!("{one}.workspace = true\n"))
            .collect();
        let member = Member {
            name: name.into(),
            manifest: "Cargo.toml".into(),
            text: format!("[package]\nname = \"{name}\"\n[dependencies]\n{listed}"),
            dependencies: dependencies
                .iter()
                .map(|one| ((*one).to_owned(), false))
                .collect(),
        };
        let found: String = check(&[member])
            .iter()
            .map(|found| format!("{found}\n"))
            .collect();
        expected.assert_eq(&found);
    }

    #[test]
    fn instruments_and_judges_know_only_the_model() {
        check_crate(
            "kneepoint-stack",
            &["kneepoint-model", "kneepoint-lab", "serde"],
            expect![[r#"
                Cargo.toml:5: edges: `kneepoint-stack` must not know `kneepoint-lab`
            "#]],
        );
        check_crate(
            "kneepoint-planner",
            &["kneepoint-model", "kneepoint-load", "rustix"],
            expect![[r#"
                Cargo.toml:5: edges: `kneepoint-planner` must not know `kneepoint-load`
                Cargo.toml:6: edges: `kneepoint-planner` touches nothing, so it has no use for `rustix`
            "#]],
        );
        check_crate(
            "kneepoint-model",
            &["kneepoint-load", "rand"],
            expect![[r#"
                Cargo.toml:4: edges: `kneepoint-model` must not know `kneepoint-load`
                Cargo.toml:5: edges: `kneepoint-model` touches nothing, so it has no use for `rand`
            "#]],
        );
    }

    #[test]
    fn what_is_read_of_the_kernel_is_for_the_instruments_that_look_into_it() {
        check_crate(
            "kneepoint-telemetry",
            &["kneepoint-linux", "kneepoint-model"],
            expect![[""]],
        );
        check_crate(
            "kneepoint-diagnosis",
            &["kneepoint-linux", "procfs"],
            expect![[r#"
                Cargo.toml:4: edges: `kneepoint-diagnosis` must not know `kneepoint-linux`
                Cargo.toml:5: edges: `kneepoint-diagnosis` touches nothing, so it has no use for `procfs`
            "#]],
        );
        check_crate(
            "kneepoint-linux",
            &["kneepoint-model"],
            expect![[r#"
                Cargo.toml:4: edges: `kneepoint-linux` must not know `kneepoint-model`
            "#]],
        );
    }

    #[test]
    fn the_upper_layers_keep_their_distance() {
        check_crate(
            "kneepoint-experiment",
            &["kneepoint-lab", "kneepoint-report", "kneepoint", "clap"],
            expect![[r#"
                Cargo.toml:5: edges: `kneepoint-experiment` must not know `kneepoint-report`
                Cargo.toml:6: edges: `kneepoint-experiment` must not know `kneepoint`
                Cargo.toml:7: edges: only `kneepoint` talks to a terminal, not `kneepoint-experiment` with `clap`
            "#]],
        );
        check_crate("kneepoint", &["kneepoint-report", "clap"], expect![[""]]);
        check_crate(
            "xtask",
            &["kneepoint", "clap", "indicatif"],
            expect![[r#"
            Cargo.toml:6: edges: only `kneepoint` talks to a terminal, not `xtask` with `indicatif`
        "#]],
        );
        check_crate(
            "kneepoint-extra",
            &[],
            expect![[r#"
            Cargo.toml:2: edges: `kneepoint-extra` has no place in the layer table of xtask/src/tidy/edges.rs
        "#]],
        );
    }

    #[test]
    fn tests_of_the_pure_crates_may_draw_numbers() {
        let member = Member {
            name: "kneepoint-model".into(),
            manifest: "Cargo.toml".into(),
            text: String::new(),
            dependencies: vec![("rand".into(), true)],
        };
        assert!(check(&[member]).is_empty());
    }
}
