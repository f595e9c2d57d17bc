//! Which crates may touch what: processes, files, the terminal.

use crate::tidy::Violation;
use crate::tidy::tree::Tree;
use crate::tidy::tree::source::Source;

/// Something in the world, and who may touch it.
struct Door {
    rule: &'static str,
    /// Paths that lead to it; everything below them too.
    paths: &'static [&'static str],
    /// Who may, and why.
    except: &'static [(&'static str, &'static str)],
    /// What to do instead.
    instead: &'static str,
}

const DOORS: &[Door] = &[
    Door {
        rule: "processes",
        paths: &[
            "std::process::Command",
            "std::os::unix::process::CommandExt",
            "rustix::process::kill_process",
            "rustix::process::kill_process_group",
            "rustix::process::kill_current_process_group",
            "libc::fork",
            "libc::kill",
            "libc::execve",
            "libc::posix_spawn",
        ],
        except: &[
            (
                "crates/kneepoint-lab/src/",
                "it owns processes and cleans them up",
            ),
            (
                "xtask/src/",
                "it runs git, cargo and rustfmt for the people who work here",
            ),
        ],
        instead: "only kneepoint-lab starts and kills processes: describe it as a ProcessSpec or ask model::Commands",
    },
    Door {
        rule: "files",
        paths: &[
            "std::fs::write",
            "std::fs::rename",
            "std::fs::copy",
            "std::fs::hard_link",
            "std::fs::File::create",
            "std::fs::File::create_new",
            "std::fs::File::options",
            "std::fs::OpenOptions",
            "std::os::unix::fs::symlink",
        ],
        except: &[
            (
                "crates/kneepoint-stack/src/",
                "it writes the configuration of tiers",
            ),
            (
                "crates/kneepoint-lab/src/",
                "its record of what to remove, output files of processes, cgroups and sysctls",
            ),
            (
                "crates/kneepoint-experiment/src/",
                "the run file, and the private copy of the application",
            ),
            (
                "crates/kneepoint/src/",
                "reports and the scenario of `init`, where the person asked for them",
            ),
            ("xtask/src/", "generated documentation"),
            (
                "crates/kneepoint-double/src/log_reader.rs",
                "a pipe that it opens for writing as well has no end; it writes nothing",
            ),
        ],
        instead: "only kneepoint-stack writes configuration; who else writes a file is listed with its reason in xtask/src/tidy/structure/doors.rs",
    },
];

/// Macros that print.
const PRINTS: &[&str] = &["println", "eprintln", "print", "eprint", "dbg"];

/// Where printing is the job.
const PRINTERS: &[&str] = &["crates/kneepoint/", "xtask/"];

/// Nobody passes a door that is not theirs, and only the binary prints.
pub(in crate::tidy) fn check(tree: &Tree) -> Vec<Violation> {
    let subjects = tree.sources.iter().filter(|source| is_subject(source));
    subjects
        .flat_map(|source| {
            let mut violations = prints(source);
            let doors = DOORS.iter().filter(|door| applies(door, &source.path));
            violations.extend(doors.flat_map(|door| passes(door, source)));
            violations
        })
        .collect()
}

fn is_subject(source: &Source) -> bool {
    source.path.contains("/src/") && !source.test_only
}

fn applies(door: &Door, path: &str) -> bool {
    !door.except.iter().any(|(dir, _)| path.starts_with(dir))
}

fn passes(door: &Door, source: &Source) -> Vec<Violation> {
    let mut violations: Vec<Violation> = source
        .usages
        .iter()
        .filter(|usage| door.paths.iter().any(|path| usage.is_under(path)))
        .map(|usage| {
            let text = format!("`{}`: {}", usage.path.join("::"), door.instead);
            Violation::new(&source.path, usage.line, door.rule, text)
        })
        .collect();
    violations.dedup_by_key(|violation| violation.line);
    violations
}

fn prints(source: &Source) -> Vec<Violation> {
    if PRINTERS.iter().any(|dir| source.path.starts_with(dir)) {
        return Vec::new();
    }
    let macros = source.usages.iter().filter(|usage| usage.is_macro);
    macros
        .filter_map(|usage| {
            let name = usage.path.last()?;
            PRINTS.contains(&name.as_str()).then(|| {
                let text =
                    format!("`{name}!`: only the binary prints; return what there is to say");
                Violation::new(&source.path, usage.line, "prints", text)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests;
    use expect_test::{Expect, expect};

    #[track_caller]
    fn check_file(path: &str, text: &str, expected: Expect) {
        let root = match path.split_once("/src/") {
            Some((dir, _)) => format!("{dir}/src/lib.rs"),
            None => "lib.rs".into(),
        };
        tests::check(check, &[(&root, "mod a;"), (path, text)], expected);
    }

    #[test]
    fn processes_belong_to_the_lab() {
        let text = "use std::process::Command;\nfn f() {\n    Command::new(\"nginx\");\n    libc::kill(1, 9);\n}";
        check_file(
            "crates/kneepoint-stack/src/a.rs",
            text,
            expect![[r#"
            crates/kneepoint-stack/src/a.rs:1: processes: `std::process::Command`: only kneepoint-lab starts and kills processes: describe it as a ProcessSpec or ask model::Commands
            crates/kneepoint-stack/src/a.rs:3: processes: `std::process::Command::new`: only kneepoint-lab starts and kills processes: describe it as a ProcessSpec or ask model::Commands
            crates/kneepoint-stack/src/a.rs:4: processes: `libc::kill`: only kneepoint-lab starts and kills processes: describe it as a ProcessSpec or ask model::Commands
        "#]],
        );
        check_file("crates/kneepoint-lab/src/a.rs", text, expect![[""]]);
        check_file("crates/kneepoint-stack/tests/a.rs", text, expect![[""]]);
    }

    #[test]
    fn configuration_belongs_to_the_stack() {
        let text = "use std::fs::{self, File};\nfn f() {\n    fs::write(a, b);\n    File::create(a);\n    File::open(a);\n}";
        check_file(
            "crates/kneepoint-telemetry/src/a.rs",
            text,
            expect![[r#"
            crates/kneepoint-telemetry/src/a.rs:3: files: `std::fs::write`: only kneepoint-stack writes configuration; who else writes a file is listed with its reason in xtask/src/tidy/structure/doors.rs
            crates/kneepoint-telemetry/src/a.rs:4: files: `std::fs::File::create`: only kneepoint-stack writes configuration; who else writes a file is listed with its reason in xtask/src/tidy/structure/doors.rs
        "#]],
        );
        check_file("crates/kneepoint-stack/src/a.rs", text, expect![[""]]);
    }

    #[test]
    fn only_the_binary_prints() {
        let text = "fn f() {\n    println!(\"x\");\n    g!(std::eprintln!(\"y\"));\n    let print = a != (b);\n}\n\
                    #[cfg(test)]\nmod tests {\n    fn g() { dbg!(1); }\n}";
        check_file(
            "crates/kneepoint-load/src/a.rs",
            text,
            expect![[r#"
            crates/kneepoint-load/src/a.rs:2: prints: `println!`: only the binary prints; return what there is to say
            crates/kneepoint-load/src/a.rs:3: prints: `eprintln!`: only the binary prints; return what there is to say
        "#]],
        );
        check_file("crates/kneepoint/src/a.rs", text, expect![[""]]);
    }
}
