//! A first scenario for an application, from looking at its directory and at this machine.

use crate::config::{self, KINDS};
use anyhow::{Result, bail};
use kneepoint_model::AppKind;
use kneepoint_stack::detect::detect_dir;
use std::fmt::Write as _;
use std::path::Path;

/// What a draft is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitFacts {
    /// What kind of application it is.
    pub kind: AppKind,
    /// The application's directory, relative to where the scenario will be.
    pub root: String,
    /// The front controller, relative to the root.
    pub front: String,
    /// Cores of the machine.
    pub cores: usize,
    /// Memory of the machine in bytes.
    pub memory_bytes: u64,
}

/// Looks at an application and at this machine. The scenario is meant to be written into `root`.
///
/// # Errors
/// The directory holds no front controller; the message says where it was looked for.
pub fn look(root: &Path) -> Result<InitFacts> {
    let Some(found) = detect_dir(root) else {
        bail!(
            "`{}` has no front controller (looked for {} and for those of known frameworks): name the directory of a \
             PHP application",
            root.display(),
            config::FRONTS.join(" and ")
        );
    };
    let machine = kneepoint_experiment::machine();
    Ok(InitFacts {
        kind: found.kind,
        root: ".".into(),
        front: found.front.display().to_string(),
        cores: machine.cores as usize,
        memory_bytes: machine.memory_bytes,
    })
}

/// Writes a commented scenario. It can be read back as it is; every line that starts with `# ` and a key can
/// be switched on by removing the `# `.
#[must_use]
pub fn draft(facts: &InitFacts) -> String {
    let kind = KINDS.iter().find(|(_, kind)| *kind == facts.kind);
    let kind = kind.map_or("plain", |(name, _)| name);
    let mut text = String::from(
        "# What Kneepoint needs to know. `kneepoint tune` finds the limit of this stack, and what to change.\n\n",
    );
    let _ = write!(
        text,
        "[app]\nroot = {}\nfront = {}\nkind = \"{kind}\"\n\n\
         # Environment of the application, such as where it finds its key. Values never reach a report.\n\
         [app.env]\n# APP_ENV = \"production\"\n\n",
        quoted(&facts.root),
        quoted(&facts.front),
    );
    text.push_str(
        "# The chain a request goes through; a tier that is not here is not started. Your own configuration\n\
         # files go into `config` (and `ini` for PHP); without them a sane one is written.\n\
         [stack]\n\
         # proxy = { server = \"nginx\" }\n\
         web = { server = \"nginx\" }\n\
         php = { runtime = \"fpm\" }\n\
         # cache = { server = \"redis\" }\n\
         # db = { server = \"postgresql\" } # seed = \"seed.sql\" brings it to its initial state\n\n",
    );
    let memory_mib = (facts.memory_bytes >> 20).max(16);
    let _ = write!(
        text,
        "# What each tier may use, when the machines you plan for are smaller than this one: {} cores, {memory_mib} MiB.\n\
         [hosts]\n# php = {{ cpus = {}, memory = \"{memory_mib}MiB\" }}\n\n",
        facts.cores,
        facts.cores.max(1),
    );
    text.push_str(
        "# What users ask for, by weight. Name pages that matter, and text that only a good answer contains.\n\
         [[request]]\n\
         path = \"/\"\n\
         weight = 1\n\
         expect = { status = 200 }\n\n\
         # When the stack counts as coping.\n\
         [slo]\n\
         timeout = \"2s\"\n\
         response_time = { p95 = \"200ms\" }\n\
         errors = \"0.1%\"\n\n",
    );
    let _ = write!(
        text,
        "# How long tuning may take, how much memory all tiers may use, and what nobody may touch.\n\
         [tune]\nbudget = \"20m\"\n# memory = \"{memory_mib}MiB\"\n# keep = [\"php.pm.max_requests\"]\n",
    );
    text
}

/// A TOML string with everything escaped that needs to be.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn app(files: &[&str]) -> TempDir {
        let dir = TempDir::new().expect("a temporary directory");
        for file in files {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, "").expect("a file");
        }
        dir
    }

    /// The files are taken for this kind, and the draft is a scenario, also with every key switched on.
    #[track_caller]
    fn check(files: &[&str], kind: AppKind, front: &str) {
        let dir = app(files);
        let facts = look(dir.path()).expect("an application");
        assert_eq!((facts.kind, facts.front.as_str()), (kind, front));
        let text = draft(&facts);
        let all = text.replace("\n# APP", "\nAPP");
        let all = ["proxy", "cache", "db", "php", "memory", "keep"]
            .iter()
            .fold(all, |all, key| {
                all.replace(&format!("\n# {key} ="), &format!("\n{key} ="))
            });
        assert_ne!(text, all);
        for text in [text, all] {
            let read = config::parse(&text, dir.path(), "kneepoint.toml", &config::StackServers);
            let scenario = read.unwrap_or_else(|errors| panic!("{errors}\n{text}"));
            assert_eq!(scenario.kind, kind);
        }
    }

    #[test]
    fn applications_are_recognised_and_their_drafts_can_be_read() {
        check(
            &["artisan", "public/index.php"],
            AppKind::Laravel,
            "public/index.php",
        );
        check(
            &["bin/console", "public/index.php"],
            AppKind::Symfony,
            "public/index.php",
        );
        check(
            &["wp-load.php", "index.php"],
            AppKind::Wordpress,
            "index.php",
        );
        check(
            &["includes/WebStart.php", "index.php"],
            AppKind::Mediawiki,
            "index.php",
        );
        check(&["index.php"], AppKind::Plain, "index.php");
    }

    #[test]
    fn strange_names_and_small_machines_are_written_safely() {
        let dir = app(&["a \"b\"\\c/index.php"]);
        let facts = InitFacts {
            kind: AppKind::Plain,
            root: "a \"b\"\\c".into(),
            front: "index.php".into(),
            cores: 0,
            memory_bytes: 0,
        };
        let read = config::parse(&draft(&facts), dir.path(), "x.toml", &config::StackServers);
        assert!(read.is_ok(), "{read:?}");
    }

    #[test]
    fn a_directory_without_php_is_refused_by_name() {
        let dir = app(&["index.html"]);
        let error = look(dir.path()).expect_err("no PHP").to_string();
        assert!(error.contains("public/index.php and index.php"), "{error}");
    }
}
