//! The user's directory is the user's: an application that writes into its own directory writes into a copy.

use crate::support::company::among_others;
use crate::support::{kneepoint, needs_root, start, text, wait};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Counts in a file, adds a row to a file that is out of the tree by a link, makes a new file, and removes one.
const WRITES: &str = r#"<?php
$root = dirname(__DIR__);
file_put_contents("$root/data/visits", 'x', FILE_APPEND);
file_put_contents("$root/shared/rows", "row\n", FILE_APPEND);
file_put_contents("$root/data/" . uniqid('new', true), 'new');
file_put_contents(getenv('DATA_DIR') . '/named', 'x', FILE_APPEND);
@unlink("$root/data/old");
$is = fileowner("$root/data") === posix_geteuid() ? 'owner' : 'stranger';
echo "<title>counted by the $is</title>", filesize("$root/data/visits") > 0 ? 'good' : 'bad';
"#;

/// An application that writes, and beside it a directory that it has by a link.
fn application(directory: &Path) -> PathBuf {
    let root = directory.join("site");
    for path in ["site/public", "site/data", "beside"] {
        fs::create_dir_all(directory.join(path)).expect("directory made");
    }
    let files = [
        ("site/public/index.php", WRITES),
        ("site/data/visits", "x"),
        ("site/data/old", "old"),
        ("beside/rows", "row\n"),
    ];
    for (path, content) in files {
        fs::write(directory.join(path), content).expect("file written");
    }
    symlink("../beside", root.join("shared")).expect("link made");
    let scenario = format!(
        "[app]\nroot = \"site\"\nfront = \"public/index.php\"\n[app.env]\nDATA_DIR = {:?}\n\
         [stack]\nweb = {{ server = \"nginx\" }}\nphp = {{ runtime = \"fpm\" }}\n\
         [[request]]\npath = \"/\"\nexpect = {{ status = 200, body_contains = \"good\" }}\n",
        root.join("data").display().to_string()
    );
    fs::write(directory.join("kneepoint.toml"), scenario).expect("scenario written");
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("opened");
    root
}

/// Everything a person could see of a tree: names, contents, owners, modes and times.
fn seen(root: &Path, all: &mut BTreeMap<PathBuf, String>) {
    let about = fs::symlink_metadata(root).expect("there");
    let content = match about.file_type() {
        kind if kind.is_symlink() => format!("{:?}", fs::read_link(root).expect("a link")),
        kind if kind.is_file() => format!("{:?}", fs::read(root).expect("a file")),
        _ => String::new(),
    };
    let rest = (
        about.uid(),
        about.gid(),
        about.mode(),
        about.mtime(),
        about.mtime_nsec(),
    );
    all.insert(root.to_owned(), format!("{rest:?} {content}"));
    if about.is_dir() {
        for entry in fs::read_dir(root).expect("a directory") {
            seen(&entry.expect("an entry").path(), all);
        }
    }
}

/// Runs a command on the application; its directory, and what it has by a link, are the same before and after.
fn check(arguments: &[&str]) {
    let _place = among_others();
    let directory = tempfile::tempdir().expect("temp dir");
    let root = application(directory.path());
    let look = || {
        let mut all = BTreeMap::new();
        seen(&root, &mut all);
        seen(&directory.path().join("beside"), &mut all);
        all
    };
    let before = look();
    let output = wait(
        start(
            kneepoint()
                .arg(arguments[0])
                .arg(directory.path().join("kneepoint.toml"))
                .args(&arguments[1..])
                .args(["--no-report", "--runs"])
                .arg(directory.path().join("runs")),
        ),
        Duration::from_secs(240),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(before, look());
}

#[test]
fn a_limit_leaves_the_users_directory_as_it_was() {
    check(&["limit", "--loopback", "--budget", "5s"]);
}

/// Its phases, its traced requests and its A/B all stand up the same way.
#[test]
fn a_diagnosis_leaves_the_users_directory_as_it_was() {
    if needs_root("a_diagnosis_leaves_the_users_directory_as_it_was") {
        check(&["diagnose", "--budget", "40s"]);
    }
}
