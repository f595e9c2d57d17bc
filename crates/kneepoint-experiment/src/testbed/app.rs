//! The application on disk: its private copy with the scenario's changes, and its environment.

use super::copy::{Pristine, PrivateCopy};
use super::offers;
use crate::error::ExperimentError;
use kneepoint_linux::file::open_untrusted;
use kneepoint_model::{AppKind, Change, CommandSpec, FilePatch, Scenario};
use kneepoint_stack::application::OBJECT_CACHE;
use kneepoint_stack::{ConfigText, Program, Server, TierContext};
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a command that changes the application may take \[ours\]: a large class map takes some ten seconds.
const COMMAND_TAKES: Duration = Duration::from_secs(120);
/// Largest file of an application of which a part is changed, in bytes \[ours\].
const LARGEST: u64 = 64 << 20;
/// What stands for a private writable directory in values of `[app.env]`.
const STORAGE: &str = "{storage}";

fn unfit(what: &str, path: &Path, error: &dyn std::fmt::Display) -> ExperimentError {
    ExperimentError::Unfit(format!("{what} {}: {error}", path.display()))
}

/// A directory that its owner alone can enter.
///
/// # Errors
/// It cannot be made.
pub(super) fn shut_dir(dir: &Path) -> Result<(), ExperimentError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let made = builder.create(dir);
    made.map_err(|error| unfit("cannot create", dir, &error))
}

/// A line of the application's files that a change put another one in the place of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReplacedLine {
    /// The file, relative to the application's root, and the line in it, from 1.
    pub(super) at: (String, usize),
    /// What stood there.
    pub(super) before: String,
    /// What stands there now.
    pub(super) after: String,
}

/// An arm's private copy of the application below `dir`, with the scenario's changes of its files made, and the lines that
/// were replaced. `offers` are the values of the tiers that stand, for which a changed file may have `{NAME}`. They go into
/// the copy alone: the scenario, which is recorded, keeps the name.
///
/// # Errors
/// The copy cannot be made, or a change does not fit the file.
pub(super) fn private_copy(
    pristine: Arc<Pristine>,
    scenario: &Scenario,
    dir: &Path,
    offers: &BTreeMap<String, String>,
) -> Result<(PrivateCopy, Vec<ReplacedLine>), ExperimentError> {
    let copy = PrivateCopy::make(pristine, dir)?;
    let offers = offers::with_root(offers, &copy.root);
    let mut replaced = Vec::new();
    for patch in &scenario.app_files {
        copy.change(|root| apply(root, patch, &offers))?;
    }
    for (change, text) in scenario.changes() {
        if let Change::Line { file, line } = change {
            copy.change(|root| {
                replaced.push(ReplacedLine {
                    at: (file.to_owned(), line),
                    before: set_line(root, Path::new(file), line, text)?,
                    after: text.clone(),
                });
                Ok(())
            })?;
        }
    }
    Ok((copy, replaced))
}

/// A command that changes an application's copy, to be run on PHP's host as `user`.
pub(super) fn command(text: &str, php: &TierContext, user: Option<&str>) -> CommandSpec {
    let mut env = kneepoint_stack::app_env(php);
    // Composer does not start without a home, and keeps what it downloads there.
    let home = php.dir.join("storage").display().to_string();
    for name in ["HOME", "COMPOSER_HOME", "COMPOSER_CACHE_DIR"] {
        env.entry(name.to_owned()).or_insert_with(|| home.clone());
    }
    if text.contains(Change::OBJECT_CACHE) {
        env.insert(Change::OBJECT_CACHE.to_owned(), OBJECT_CACHE.to_owned());
    }
    CommandSpec {
        env: env.into_iter().collect(),
        dir: Some(php.app.root.clone()),
        user: user.map(str::to_owned),
        timeout: COMMAND_TAKES,
        ..CommandSpec::new("/bin/sh").args(["-c", text])
    }
}

/// A text in which the application's directory is named, with the copy in its place. A name that only begins like
/// it is another directory's.
pub(super) fn follow(text: &str, original: &Path, copy: &Path) -> String {
    let named = original.to_string_lossy();
    let copy = copy.to_string_lossy();
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(named.as_ref()).filter(|_| named.len() > 1) {
        let (before, found) = rest.split_at(at);
        let (found, after) = found.split_at(named.len());
        let belongs = |c: char| c.is_alphanumeric() || "_-.".contains(c);
        let begins = result.chars().chain(before.chars()).next_back();
        let is_it = !begins.is_some_and(|c| belongs(c) || c == '/')
            && !after.chars().next().is_some_and(belongs);
        result.push_str(before);
        result.push_str(if is_it { &copy } else { found });
        rest = after;
    }
    result + rest
}

/// A configuration with all that it includes: those files name the application's directory, too, and mean the copy.
///
/// # Errors
/// One of them cannot be used.
pub(super) fn gathered(
    server: &dyn Server,
    config: ConfigText,
    program: &Program,
    original: &Path,
    copy: &Path,
) -> Result<ConfigText, ExperimentError> {
    let mut config = server.gathered(config, program)?;
    config.text = follow(&config.text, original, copy);
    Ok(config)
}

fn apply(
    copy: &Path,
    patch: &FilePatch,
    offers: &BTreeMap<String, String>,
) -> Result<(), ExperimentError> {
    let path = place(copy, &patch.path)?;
    let new = offers::in_text(&patch.text, offers);
    let text = match &patch.find {
        None => new,
        Some(find) => {
            let text = String::from_utf8(contents(&path)?)
                .map_err(|error| unfit("cannot read", &path, &error))?;
            if !text.contains(find.as_str()) {
                return Err(ExperimentError::Unfit(format!(
                    "[[app.file]] {}: the text to find is not in it: {find}",
                    patch.path.display()
                )));
            }
            text.replace(find.as_str(), &new)
        }
    };
    write(&path, text.as_bytes())
}

/// What a file of the copy holds. Processes of another arm may be at work in it: nobody waits for what is no file, or reads
/// without end.
fn contents(path: &Path) -> Result<Vec<u8>, ExperimentError> {
    let read = || {
        let mut bytes = Vec::new();
        let file = open_untrusted(&path.canonicalize()?)?;
        file.take(LARGEST + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > LARGEST {
            true => Err(io::Error::other("it is larger than 64 MiB")),
            false => Ok(bytes),
        }
    };
    read().map_err(|error| unfit("cannot read", path, &error))
}

/// Puts another text in the place of one line of a file of the copy. Returns what stood there.
fn set_line(copy: &Path, file: &Path, line: usize, text: &str) -> Result<String, ExperimentError> {
    let path = place(copy, file)?;
    let present = contents(&path)?;
    let mut lines: Vec<&[u8]> = present.split(|byte| *byte == b'\n').collect();
    let Some(found) = line.checked_sub(1).and_then(|at| lines.get_mut(at)) else {
        return Err(ExperimentError::Unfit(format!(
            "the change of {}:{line} does not fit: the file has {} lines",
            file.display(),
            lines.len()
        )));
    };
    let before = std::mem::replace(found, text.as_bytes());
    let before = String::from_utf8_lossy(before).into_owned();
    write(&path, &lines.join(&b'\n'))?;
    Ok(before)
}

/// Whether the replaced lines still stand there, after what else changed the copy.
///
/// # Errors
/// One does not: what would be measured is not the change.
pub(super) fn still_replaced(
    copy: &PrivateCopy,
    replaced: &[ReplacedLine],
) -> Result<(), ExperimentError> {
    copy.change(|root| replaced.iter().try_for_each(|line| stands(root, line)))
}

fn stands(root: &Path, replaced: &ReplacedLine) -> Result<(), ExperimentError> {
    let (file, line) = &replaced.at;
    let present = contents(&place(root, Path::new(file))?)?;
    let mut lines = present.split(|byte| *byte == b'\n');
    let found = lines.nth(line.saturating_sub(1)).unwrap_or_default();
    match found == replaced.after.as_bytes() {
        true => Ok(()),
        false => Err(ExperimentError::Unfit(format!(
            "the change of {file}:{line} was undone by a command that ran after it; leave one of the two out"
        ))),
    }
}

fn write(path: &Path, text: &[u8]) -> Result<(), ExperimentError> {
    // A link is replaced: what it leads to is another file, and is not what was asked for.
    if std::fs::symlink_metadata(path).is_ok_and(|about| about.is_symlink()) {
        std::fs::remove_file(path).map_err(|error| unfit("cannot replace", path, &error))?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed(),
    );
    options
        .open(path)
        .and_then(|mut file| io::Write::write_all(&mut file, text))
        .map_err(|error| unfit("cannot write", path, &error))
}

/// Where a changed file lies in the copy, with the directories above it made; nothing on the way leads out of the copy.
fn place(copy: &Path, relative: &Path) -> Result<PathBuf, ExperimentError> {
    let leads_out = || {
        ExperimentError::Unfit(format!(
            "the change of {}: it leads out of the application",
            relative.display()
        ))
    };
    let inside = |it: Component<'_>| matches!(it, Component::Normal(_) | Component::CurDir);
    let name = relative.file_name().ok_or_else(leads_out)?;
    if !relative.components().all(inside) {
        return Err(leads_out());
    }
    let root = copy
        .canonicalize()
        .map_err(|error| unfit("cannot find", copy, &error))?;
    let mut at = root.clone();
    for component in relative.parent().into_iter().flat_map(Path::components) {
        at.push(component);
        if std::fs::symlink_metadata(&at).is_err() {
            std::fs::create_dir(&at).map_err(|error| unfit("cannot create", &at, &error))?;
        }
        at = at
            .canonicalize()
            .map_err(|error| unfit("cannot find", &at, &error))?;
        if !at.starts_with(&root) {
            return Err(leads_out());
        }
    }
    let path = at.join(name);
    match path.canonicalize() {
        Ok(leads_to) if !leads_to.starts_with(&root) => Err(leads_out()),
        _ => Ok(path),
    }
}

/// The application's environment, with a private writable directory where it needs one.
///
/// # Errors
/// The directory cannot be made or handed over.
pub(super) fn environment(
    scenario: &Scenario,
    dir: &Path,
    copy: &Path,
) -> Result<BTreeMap<String, String>, ExperimentError> {
    let storage = dir.join("storage");
    std::fs::create_dir_all(&storage).map_err(|error| unfit("cannot create", &storage, &error))?;
    // Whoever PHP runs as must be able to write there; the lab's directory is private to this run.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
    std::fs::set_permissions(&storage, open)
        .map_err(|error| unfit("cannot open to PHP", &storage, &error))?;
    let storage = storage.display().to_string();
    let mut env: BTreeMap<String, String> = scenario
        .env
        .iter()
        .map(|(name, value)| {
            let value = follow(value, &scenario.root, copy);
            (name.clone(), value.replace(STORAGE, &storage))
        })
        .collect();
    if scenario.kind == AppKind::Laravel {
        // Laravel 11 reads the second by itself; older skeletons need the first.
        for name in ["APP_STORAGE", "LARAVEL_STORAGE_PATH"] {
            env.entry(name.to_owned())
                .or_insert_with(|| storage.clone());
        }
    }
    Ok(env)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let (original, copy) = (Path::new("/srv/app"), Path::new("/lab/php/app"));
        assert_eq!(follow(text, original, copy), expected);
    }

    #[test]
    fn what_names_the_application_names_its_copy() {
        check("/srv/app", "/lab/php/app");
        check(
            "sqlite:/srv/app/data/db.sqlite",
            "sqlite:/lab/php/app/data/db.sqlite",
        );
        check(
            "/srv/app:/tmp:/srv/app/x",
            "/lab/php/app:/tmp:/lab/php/app/x",
        );
    }

    #[test]
    fn a_name_that_only_begins_or_ends_alike_is_another_directorys() {
        for other in [
            "/srv/app2/data",
            "/srv/app-old",
            "/old/srv/app",
            "/srv/app.bak",
        ] {
            check(other, other);
        }
    }

    #[test]
    fn what_a_configuration_includes_names_the_copy() {
        let dir = tempfile::tempdir().expect("a directory");
        let admin = dir.path().join("admin.conf");
        std::fs::write(admin, "alias /srv/app/admin/$1;\n").expect("a file");
        let config = ConfigText {
            path: dir.path().join("site.conf"),
            text: "include admin.conf;\n".to_owned(),
        };
        let nginx = kneepoint_stack::server("nginx").expect("nginx");
        let (original, copy) = (Path::new("/srv/app"), Path::new("/lab/php/app"));
        let config = gathered(nginx, config, &Program::default(), original, copy);
        let text = config.expect("all is there").text;
        assert!(text.contains("alias /lab/php/app/admin/$1;"), "{text}");
    }

    #[test]
    fn one_line_of_a_file_is_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let set = |line, text| set_line(dir.path(), Path::new("a.php"), line, text);
        std::fs::write(dir.path().join("a.php"), "<?php\r\n$a = 1;\n$b = 2;").expect("a file");
        assert_eq!(set(2, "$a = 3;").expect("changed"), "$a = 1;");
        assert_eq!(set(3, "").expect("changed"), "$b = 2;");
        let text = std::fs::read_to_string(dir.path().join("a.php")).expect("a file");
        assert_eq!(text, "<?php\r\n$a = 3;\n");
        let refused = set(9, "x").expect_err("no such line").to_string();
        assert!(
            refused.contains("a.php:9") && refused.contains("3 lines"),
            "{refused}"
        );
    }

    #[test]
    fn a_line_is_replaced_whatever_else_the_file_holds() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("local.php");
        std::fs::write(&path, b"// caf\xe9\n$debug = 1;\n").expect("a file");
        let before = set_line(dir.path(), Path::new("local.php"), 2, "$debug = 0;");
        assert_eq!(before.expect("changed"), "$debug = 1;");
        let text = std::fs::read(&path).expect("a file");
        assert_eq!(text, b"// caf\xe9\n$debug = 0;\n");
    }

    #[test]
    fn nobody_waits_for_what_is_no_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let pipe = dir.path().join(".env");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .expect("a pipe");
        let line = set_line(dir.path(), Path::new(".env"), 1, "A=1").map(drop);
        let patch = |find: Option<&str>| {
            let patch = FilePatch {
                path: ".env".into(),
                find: find.map(str::to_owned),
                text: "A=1".into(),
            };
            apply(dir.path(), &patch, &BTreeMap::new())
        };
        for refused in [line, patch(Some("A=0")), patch(None)] {
            let said = refused.expect_err("it is a pipe").to_string();
            assert!(said.contains(".env"), "{said}");
        }
    }

    #[test]
    fn a_replaced_line_that_another_change_undid_is_no_change() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(".env");
        let line = ReplacedLine {
            at: (".env".to_owned(), 2),
            before: "APP_DEBUG=true".to_owned(),
            after: "APP_DEBUG=false".to_owned(),
        };
        std::fs::write(&path, "A=1\nAPP_DEBUG=false\n").expect("a file");
        stands(dir.path(), &line).expect("it stands");
        for text in ["A=1\nAPP_DEBUG=true\n", "A=1"] {
            std::fs::write(&path, text).expect("a file");
            let undone = stands(dir.path(), &line).expect_err(text).to_string();
            assert!(undone.contains(".env:2 was undone"), "{undone}");
        }
    }

    #[test]
    fn a_changed_file_holds_what_the_lab_offers() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config.ini");
        let offers: BTreeMap<String, String> = [
            ("APP_ROOT", "/lab/app"),
            ("DB_HOST", "10.0.0.2"),
            ("DB_PASSWORD", "of-the-lab"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let changed = |find: Option<&str>, text: &str| {
            std::fs::write(&path, "host = old {DB_HOST}\n").expect("a file");
            let patch = FilePatch {
                path: "config.ini".into(),
                find: find.map(str::to_owned),
                text: text.to_owned(),
            };
            apply(dir.path(), &patch, &offers).expect("changed");
            std::fs::read_to_string(&path).expect("a file")
        };
        // What stands in the application's own file is its own.
        assert_eq!(
            changed(Some("old"), "{DB_HOST} \"{DB_PASSWORD}\""),
            "host = 10.0.0.2 \"of-the-lab\" {DB_HOST}\n"
        );
        // There is no cache, and `${DB_HOST}` is for whoever reads the file.
        assert_eq!(
            changed(
                None,
                "{APP_ROOT}/x\n{REDIS_HOST}\n${DB_HOST}\n{ DB_HOST }\n"
            ),
            "/lab/app/x\n{REDIS_HOST}\n${DB_HOST}\n{ DB_HOST }\n"
        );
    }

    /// An application beside somebody's file, and whether a change of a file of it is made; the file beside it stays.
    fn change(
        plant: impl Fn(&Path, &Path),
        path: &str,
        find: Option<&str>,
    ) -> Result<String, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let (copy, beside) = (dir.path().join("app"), dir.path().join("beside"));
        for dir in [&copy, &beside] {
            std::fs::create_dir(dir).expect("a directory");
        }
        std::fs::write(beside.join(".env"), "KEY=theirs").expect("a file");
        plant(&copy, &beside);
        let patch = FilePatch {
            path: path.into(),
            find: find.map(str::to_owned),
            text: "KEY=ours".into(),
        };
        let made = apply(&copy, &patch, &BTreeMap::new());
        let theirs = std::fs::read_to_string(beside.join(".env")).expect("a file");
        assert_eq!(theirs, "KEY=theirs");
        assert_eq!(std::fs::read_dir(&beside).expect("a directory").count(), 1);
        made.map_err(|error| error.to_string())?;
        Ok(std::fs::read_to_string(copy.join(path)).expect("a file"))
    }

    #[test]
    fn a_changed_file_is_never_written_through_a_link() {
        use std::os::unix::fs::symlink;
        let ours = Ok("KEY=ours".to_owned());
        assert_eq!(change(|_, _| (), "config/.env", None), ours);
        let within = |copy: &Path, _: &Path| {
            std::fs::create_dir(copy.join("shared")).expect("a directory");
            std::fs::write(copy.join("shared/.env"), "KEY=old").expect("a file");
            symlink("shared/.env", copy.join(".env")).expect("a link");
            symlink("shared", copy.join("config")).expect("a link");
        };
        assert_eq!(change(within, ".env", Some("KEY=old")), ours);
        assert_eq!(change(within, "config/.env", Some("KEY=old")), ours);
        for path in [".env", "etc/.env", "../beside/.env", "etc/new"] {
            let out = |copy: &Path, beside: &Path| {
                symlink(beside.join(".env"), copy.join(".env")).expect("a link");
                symlink(beside, copy.join("etc")).expect("a link");
            };
            let refused = change(out, path, None).expect_err(path);
            assert!(
                refused.contains("leads out of the application"),
                "{refused}"
            );
        }
    }
}
