//! A first scenario for an application, from looking at its directory, at this machine and at the application itself in
//! the lab.
//!
//! Nothing here changes the application's directory: what it needs to run against the lab's database is written into the
//! scenario, as changes to the private copy, where a person sees it.

mod draft;
mod settings;
mod visit;

pub(crate) use draft::NOT_READY;
pub use draft::{draft, took};
pub use settings::seeds::Seed;
pub use settings::{DbEngine, EnvValue, FileChange};
pub use visit::{Visit, VisitNeeds, VisitOutcome, VisitPage, visit};

use crate::config;
use anyhow::{Result, bail};
use kneepoint_model::AppKind;
use kneepoint_stack::detect::detect_dir;
use std::collections::BTreeSet;
use std::fs::FileType;
use std::path::{Path, PathBuf};

/// Entries of one directory looked at where the one that was named holds no application.
const MOST_ENTRIES: usize = 200;
/// Directories looked into two levels down, all together.
const MOST_DIRS: usize = 1000;
/// How many of what was seen there are named.
const MOST_NAMED: usize = 3;
/// Directories of others' code and of tests.
const PASSED_OVER: &[&str] = &["vendor", "node_modules", "tests", "test", "docs"];

/// What a draft is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitFacts {
    /// What kind of application it is.
    pub kind: AppKind,
    /// What people call it.
    pub name: String,
    /// The application's directory, relative to where the scenario will be.
    pub root: String,
    /// The front controller, relative to the root.
    pub front: String,
    /// What of PHP the application says it needs.
    pub needs: VisitNeeds,
    /// The database it uses; `None` where none is to be seen.
    pub engine: Option<DbEngine>,
    /// The file that says so, where one does.
    pub told_in: Option<String>,
    /// The dump that its database begins with.
    pub seed: Option<Seed>,
    /// Whether it uses Redis.
    pub redis: bool,
    /// The hosts that its settings and its dump call the site's own.
    pub hosts: Vec<String>,
    /// What its environment needs beside what the lab offers.
    pub env: Vec<EnvValue>,
    /// What its private copy needs to be changed.
    pub changes: Vec<FileChange>,
    /// What was found and what is missing, a sentence each.
    pub notes: Vec<String>,
    /// Cores of the machine.
    pub cores: usize,
    /// Memory of the machine in bytes.
    pub memory_bytes: u64,
}

impl InitFacts {
    /// Has its visitors look as if they came over TLS. Whether that is new.
    pub fn come_over_tls(&mut self) -> bool {
        let set = EnvValue::over_tls("The site sends everybody to https");
        let is_new = self.env.iter().all(|one| one.name != set.name);
        self.env.extend(is_new.then_some(set));
        is_new
    }
}

/// Looks at an application and at this machine. The scenario is meant to be written into `root`.
///
/// # Errors
/// The directory holds no front controller; the message says where it was looked for, and what was seen there.
pub fn look(root: &Path) -> Result<InitFacts> {
    let Some(found) = detect_dir(root) else {
        bail!(
            "`{}` has no front controller (looked for {} and for those of known frameworks){}",
            root.display(),
            config::FRONTS.join(" and "),
            what_to_name(root)
        );
    };
    let composer = json(&root.join("composer.json"));
    let machine = kneepoint_experiment::machine();
    let mut facts = InitFacts {
        kind: found.kind,
        name: found.name.into(),
        root: ".".into(),
        front: found.front.display().to_string(),
        needs: needs(&composer, &json(&root.join("composer.lock"))),
        engine: None,
        told_in: None,
        seed: None,
        redis: false,
        hosts: Vec::new(),
        env: Vec::new(),
        changes: Vec::new(),
        notes: not_installed(root, &composer)
            .into_iter()
            .chain(packages_above(root))
            .chain(beside_index(root, &found.front))
            .collect(),
        cores: machine.cores as usize,
        memory_bytes: machine.memory_bytes,
    };
    settings::look(root, &found, &mut facts);
    Ok(facts)
}

/// What to name instead of a directory without a front controller, as the end of a sentence.
fn what_to_name(root: &Path) -> String {
    let dirs = dirs_with_front(root);
    if !dirs.is_empty() {
        let shown = |dir: &PathBuf| dir.display().to_string();
        let within: Vec<String> = dirs.iter().map(shown).collect();
        let whole: Vec<String> = dirs.iter().map(|dir| shown(&root.join(dir))).collect();
        return format!(
            ". There is one in {}: name {}",
            within.join(" and in "),
            whole.join(" or ")
        );
    }
    // Packages may bring it along.
    if let Some(missing) = not_installed(root, &json(&root.join("composer.json"))) {
        return format!(". {missing}");
    }
    let mut files = names_in(root, FileType::is_file);
    files.retain(|name| name.ends_with(".php"));
    files.truncate(MOST_NAMED);
    let Some(first) = files.first() else {
        return ": name the directory of a PHP application".into();
    };
    format!(
        ". It has {}: a front controller must be called index.php, unless a scenario of your own names it (front = \
         \"{first}\" under [app])",
        files.join(" and ")
    )
}

/// Directories below that have a front controller, relative to the root; where none has, those one level further down.
fn dirs_with_front(root: &Path) -> Vec<PathBuf> {
    let has_front = |dir: &PathBuf| detect_dir(&root.join(dir)).is_some();
    let below = |dir: &Path| -> Vec<PathBuf> {
        let names = names_in(&root.join(dir), FileType::is_dir).into_iter();
        names.map(|name| dir.join(name)).collect()
    };
    let near = below(Path::new(""));
    let mut found = near.clone();
    found.retain(has_front);
    if found.is_empty() {
        let far = near.iter().flat_map(|dir| below(dir)).take(MOST_DIRS);
        return far.filter(has_front).take(MOST_NAMED).collect();
    }
    found.truncate(MOST_NAMED);
    found
}

/// Names of a directory's entries of one kind, in order. What a link leads to may be anywhere.
fn names_in(dir: &Path, is_wanted: fn(&FileType) -> bool) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .take(MOST_ENTRIES)
        .filter(|entry| entry.file_type().is_ok_and(|kind| is_wanted(&kind)))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.') && !PASSED_OVER.contains(&name.as_str()))
        .collect();
    names.sort();
    names
}

/// A file of JSON; null where there is none to be read.
fn json(path: &Path) -> serde_json::Value {
    let text = settings::read(path).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// That the packages which composer.json asks for are not there.
fn not_installed(root: &Path, json: &serde_json::Value) -> Option<String> {
    let required = json["require"].as_object()?;
    // PHP, its extensions and Composer's own have no vendor; `composer/installers` only says where others go.
    let is_package = |name: &String| name.contains('/') && !name.starts_with("composer/");
    let dir = json["config"]["vendor-dir"].as_str().unwrap_or("vendor");
    // Composer puts variables of the environment in.
    let is_known = !dir.starts_with('~') && !dir.contains('$');
    let autoload = Path::new(dir).join("autoload.php");
    let is_missing = is_known && !root.join(&autoload).is_file();
    (is_missing && required.keys().any(is_package)).then(|| {
        format!(
            "composer.json asks for packages, and {} is not there: run `composer install` in {} first",
            autoload.display(),
            root.display()
        )
    })
}

/// That the packages lie above the directory that was named, as they do where it is the public one: no copy is made of them.
fn packages_above(root: &Path) -> Option<String> {
    const FILES: [&str; 2] = ["composer.json", "vendor/autoload.php"];
    let above = root.parent()?;
    let has = |dir: &Path, file: &str| dir.join(file).is_file();
    let is_part = FILES
        .iter()
        .all(|file| has(above, file) && !has(root, file));
    is_part.then(|| {
        format!(
            "{}/vendor holds packages, and the private copy has nothing of what lies outside of {}: if they are its own, \
             name {} instead",
            above.display(),
            root.display(),
            above.display()
        )
    })
}

/// That an index.php lies beside a front controller of another name.
fn beside_index(root: &Path, front: &Path) -> Option<String> {
    let index = front.with_file_name("index.php");
    let is_beside = index != front && root.join(&index).is_file();
    is_beside.then(|| {
        format!(
            "`/` goes to {}, and what is neither a file nor a directory to {}",
            index.display(),
            front.display()
        )
    })
}

/// What of PHP composer.json asks for, and of its extensions the packages that composer.lock names, too.
fn needs(json: &serde_json::Value, lock: &serde_json::Value) -> VisitNeeds {
    let packages = lock["packages"].as_array().into_iter().flatten();
    let all: Vec<&serde_json::Value> = std::iter::once(json).chain(packages).collect();
    let extensions = |what: &str| -> BTreeSet<String> {
        let lists = all.iter().filter_map(|it| it[what].as_object());
        let names = lists.flat_map(|list| list.keys());
        names
            .filter_map(|name| name.strip_prefix("ext-").map(str::to_owned))
            .collect()
    };
    // What stands for an extension does without it.
    let given: BTreeSet<String> = &extensions("provide") | &extensions("replace");
    VisitNeeds {
        version: json["require"]["php"].as_str().map(str::to_owned),
        platform: json["config"]["platform"]["php"]
            .as_str()
            .map(str::to_owned),
        extensions: (&extensions("require") - &given).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests;
