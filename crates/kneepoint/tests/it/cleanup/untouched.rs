//! The user's directory is the user's: an application that writes into its own directory writes into a copy.

use crate::support::by_hand::{ByHand, end};
use crate::support::company::{Place, among_others, long_among_others};
use crate::support::{apps, kneepoint, needs_root, start, text, wait};
use kneepoint::UNDECIDED;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The longest that a command may take.
const LIMIT: Duration = Duration::from_secs(400);

/// Counts in a file, adds a row to a file that is out of the tree by a link, makes a new file, and removes one.
const WRITES: &str = r#"<?php
$root = dirname(__DIR__);
file_put_contents("$root/data/visits", 'x', FILE_APPEND);
file_put_contents("$root/shared/rows", "row\n", FILE_APPEND);
file_put_contents("$root/data/" . uniqid('new', true), 'new');
file_put_contents((getenv('DATA_DIR') ?: "$root/data") . '/named', 'x', FILE_APPEND);
@unlink("$root/data/old");
$is = fileowner("$root/data") === posix_geteuid() ? 'owner' : 'stranger';
echo "<title>counted by the $is</title>", filesize("$root/data/visits") > 0 ? 'good' : 'bad';
"#;

/// An application that writes, and beside it a directory that it has by a link.
struct Writer {
    directory: tempfile::TempDir,
    root: PathBuf,
}

impl Writer {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("temp dir");
        let root = directory.path().join("site");
        for path in ["site/public", "site/data", "beside"] {
            fs::create_dir_all(directory.path().join(path)).expect("directory made");
        }
        let files = [
            ("site/public/index.php", WRITES),
            ("site/data/visits", "x"),
            ("site/data/old", "old"),
            ("beside/rows", "row\n"),
        ];
        for (path, content) in files {
            fs::write(directory.path().join(path), content).expect("file written");
        }
        symlink("../beside", root.join("shared")).expect("link made");
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(directory.path(), open).expect("opened");
        Self { directory, root }
    }

    /// Its scenario, beside it. Every response has to say that what PHP writes into is its own.
    fn scenario(&self) -> PathBuf {
        let text = format!(
            "[app]\nroot = \"site\"\nfront = \"public/index.php\"\n[app.env]\nDATA_DIR = {:?}\n\
             [stack]\nweb = {{ server = \"nginx\" }}\nphp = {{ runtime = \"fpm\" }}\n[[request]]\npath = \"/\"\n\
             expect = {{ status = 200, body_contains = [\"counted by the owner\", \"good\"] }}\n",
            self.root.join("data").display().to_string()
        );
        let path = self.directory.path().join("kneepoint.toml");
        fs::write(&path, text).expect("scenario written");
        path
    }

    fn look(&self) -> BTreeMap<PathBuf, Seen> {
        let mut all = look(&self.root);
        all.extend(look(&self.directory.path().join("beside")));
        all
    }

    /// The same without what `init` is asked to write: the scenario, and with it the time of the directory it is in.
    fn look_beside_the_scenario(&self) -> BTreeMap<PathBuf, Seen> {
        let mut all = self.look();
        all.remove(&self.root.join("kneepoint.toml"));
        let root = all.get_mut(&self.root).expect("there");
        root.changed = (0, 0);
        all
    }
}

/// What a person could see of a file or directory.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    owner: (u32, u32),
    mode: u32,
    changed: (i64, i64),
    content: String,
}

/// Everything a person could see of a tree.
fn look(root: &Path) -> BTreeMap<PathBuf, Seen> {
    let about = fs::symlink_metadata(root).expect("there");
    let content = match about.file_type() {
        kind if kind.is_symlink() => format!("{:?}", fs::read_link(root).expect("a link")),
        kind if kind.is_file() => format!("{:?}", fs::read(root).expect("a file")),
        _ => String::new(),
    };
    let seen = Seen {
        owner: (about.uid(), about.gid()),
        mode: about.mode(),
        changed: (about.mtime(), about.mtime_nsec()),
        content,
    };
    let mut all = BTreeMap::from([(root.to_owned(), seen)]);
    if about.is_dir() {
        for entry in fs::read_dir(root).expect("a directory") {
            all.extend(look(&entry.expect("an entry").path()));
        }
    }
    all
}

/// Runs a command on the application; its directory, and what it has by a link, are the same before and after.
fn check(_place: Place, arguments: &[&str]) {
    let application = Writer::new();
    let scenario = application.scenario();
    let before = application.look();
    let output = wait(
        start(
            kneepoint()
                .arg(arguments[0])
                .arg(scenario)
                .args(&arguments[1..])
                .args(["--no-report", "--runs"])
                .arg(application.directory.path().join("runs")),
        ),
        LIMIT,
    );
    // Whether a short run could tell anything is not the matter here.
    let ended = [0, UNDECIDED].map(|code| Some(i32::from(code)));
    let said = text(&output.stderr);
    let could_not_tell = said.contains("too few rounds of");
    assert!(
        could_not_tell || ended.contains(&output.status.code()),
        "{said}"
    );
    assert_eq!(before, application.look());
}

#[test]
fn a_limit_leaves_the_users_directory_as_it_was() {
    check(among_others(), &["limit", "--loopback", "--budget", "5s"]);
}

/// Its phases, its traced requests and its A/B all stand up the same way.
#[test]
fn a_diagnosis_leaves_the_users_directory_as_it_was() {
    if needs_root("a_diagnosis_leaves_the_users_directory_as_it_was") {
        check(long_among_others(), &["diagnose", "--budget", "40s"]);
    }
}

#[test]
fn tuning_leaves_the_users_directory_as_it_was() {
    if needs_root("tuning_leaves_the_users_directory_as_it_was") {
        check(long_among_others(), &["tune", "--budget", "60s"]);
    }
}

/// Two copies of the application stand beside each other.
#[test]
fn a_comparison_leaves_the_users_directory_as_it_was() {
    let more = "more:php.pm.max_children=8";
    let arguments = [
        "compare",
        "--with",
        more,
        "--as-is",
        "--loopback",
        "--budget",
        "20s",
    ];
    check(long_among_others(), &arguments);
}

#[test]
fn init_writes_its_scenario_and_nothing_else() {
    let _place = among_others();
    let application = Writer::new();
    let before = application.look_beside_the_scenario();
    let mut command = kneepoint();
    command.arg("init").arg(&application.root).arg("--loopback");
    let output = wait(start(&mut command), LIMIT);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let scenario = application.root.join("kneepoint.toml");
    let scenario = fs::read_to_string(scenario).expect("the scenario");
    assert!(scenario.contains("counted by the owner"), "{scenario}");
    assert_eq!(before, application.look_beside_the_scenario());
}

/// It looks into workers that somebody else started, and starts nothing.
#[test]
fn a_profile_leaves_the_application_as_it_was() {
    if !needs_root("a_profile_leaves_the_application_as_it_was") {
        return;
    }
    let _place = among_others();
    let servers = ByHand::start();
    let root = apps().join("plain").canonicalize().expect("apps/plain");
    let before = look(&root);
    let load = start(&mut servers.load(&["-z", "30s"]));
    let pid = servers.fpm().to_string();
    let profile = |how: &[&str]| {
        let mut command: Command = kneepoint();
        command.args(["profile", "--pid", &pid]).args(how);
        let output = wait(start(&mut command), LIMIT);
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    profile(&["-z", "1s"]);
    profile(&["--calls", "--requests", "12"]);
    end(load);
    assert_eq!(before, look(&root));
}
