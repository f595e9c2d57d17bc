//! Everything a lab leaves in the system, found by the lab's id, and its removal.
//!
//! The keeper removes its own lab this way, its owner does when the keeper was killed, and [`clean`] does
//! when both were.

use crate::identity::Identity;
use crate::isolation::cgroup::{self, Cgroups};
use crate::record::{LabId, Record, VARIABLE, base_dir};
use kneepoint_linux::cgroup::pids_below;
use kneepoint_linux::{Environment, ProcessEntry};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long dying processes are waited for; one in uninterruptible sleep may outlast it.
const DEATH_LIMIT: Duration = Duration::from_secs(10);

/// Something that was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removed {
    /// A process was killed.
    Process {
        /// Its id.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// A control group was removed.
    Cgroup(PathBuf),
    /// A lab directory was removed.
    Directory(PathBuf),
    /// Something is still there although its removal was tried; says what and what to do.
    Failed(String),
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, name } => write!(f, "killed process {pid} ({name})"),
            Self::Cgroup(path) => write!(f, "removed control group {}", path.display()),
            Self::Directory(path) => write!(f, "removed directory {}", path.display()),
            Self::Failed(what) => write!(f, "could not remove {what}"),
        }
    }
}

/// A lab on this machine, alive or left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabState {
    /// The lab's id.
    pub id: String,
    /// What it is for; empty when its record is gone.
    pub name: String,
    /// True while its keeper or its owner runs.
    pub live: bool,
    /// The process that uses it, when its record is there.
    pub owner_pid: Option<u32>,
    /// Its directory, when that exists.
    pub dir: Option<PathBuf>,
    /// Its control groups.
    pub cgroups: Vec<PathBuf>,
    /// Its processes, the keeper not among them.
    pub pids: Vec<u32>,
}

/// Tells every lab on this machine that this user may see, live ones and leftovers.
#[must_use]
pub fn list() -> Vec<LabState> {
    let all = ProcessEntry::all();
    let cgroups = Cgroups::detect();
    found(&cgroups, &all)
        .into_iter()
        .map(|(id, dir)| {
            let record = dir.as_deref().and_then(Record::read);
            let owner_lives = record.as_ref().is_some_and(Record::owner_is_alive);
            LabState {
                id: id.to_string(),
                live: owner_lives
                    || id.keeper().is_alive()
                    || dir.as_deref().is_some_and(Record::is_held),
                owner_pid: record.as_ref().map(|record| record.owner.pid),
                name: record.map(|record| record.name).unwrap_or_default(),
                cgroups: cgroups.of_lab(id),
                pids: members(id, dir.as_deref(), &cgroups, &all)
                    .iter()
                    .map(|it| it.pid)
                    .collect(),
                dir,
            }
        })
        .collect()
}

/// Removes what labs left behind whose keeper and owner are both gone. Live labs, and directories of other
/// users, are left alone.
#[must_use]
pub fn clean() -> Vec<Removed> {
    let cgroups = Cgroups::detect();
    let mut removed = Vec::new();
    for (id, dir) in found(&cgroups, &ProcessEntry::all()) {
        let owner_lives = || {
            dir.as_deref()
                .and_then(Record::read)
                .is_some_and(|record| record.owner_is_alive())
        };
        let held = dir.as_deref().is_some_and(Record::is_held);
        if !held && !id.keeper().is_alive() && !owner_lives() {
            removed.extend(erase(id, dir.as_deref(), &cgroups));
        }
    }
    removed
}

/// Every lab that shows anywhere: as a directory, a control group, or in a process's environment.
fn found(cgroups: &Cgroups, all: &[ProcessEntry]) -> BTreeMap<LabId, Option<PathBuf>> {
    let mut labs: BTreeMap<LabId, Option<PathBuf>> = BTreeMap::new();
    for id in cgroups.labs() {
        labs.insert(id, None);
    }
    for stat in all {
        if let Environment::Has(value) = Environment::of(stat.pid, VARIABLE)
            && let Ok(id) = value.parse()
        {
            labs.entry(id).or_default();
        }
    }
    for base in BTreeSet::from([base_dir(), PathBuf::from("/tmp")]) {
        for entry in fs::read_dir(base).into_iter().flatten().flatten() {
            let id = entry
                .file_name()
                .to_str()
                .and_then(LabId::from_directory_name);
            if let (Some(id), true) = (id, is_own_directory(&entry.path())) {
                labs.insert(id, Some(entry.path()));
            }
        }
    }
    labs
}

/// In a directory that anyone may write to, only what this user made is a lab's (never a link).
fn is_own_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| {
        metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw()
    })
}

/// The processes of a lab: in its control groups, below its keeper, started with its variable, or, where a
/// program has overwritten its environment, in the session of its dead keeper.
fn members(
    id: LabId,
    dir: Option<&Path>,
    cgroups: &Cgroups,
    all: &[ProcessEntry],
) -> Vec<ProcessEntry> {
    let keeper = id.keeper();
    let mut pids: HashSet<u32> = cgroups
        .of_lab(id)
        .iter()
        .flat_map(|group| pids_below(group))
        .collect();
    if keeper.is_alive() {
        pids.extend(
            ProcessEntry::descendants(keeper.pid, all)
                .iter()
                .map(|it| it.pid),
        );
    }
    // While somebody else bears the keeper's number, a session of that number may be theirs; and numbers from before
    // this machine was started are anybody's.
    let record = dir.and_then(Record::read);
    let of_this_boot = record.is_none_or(|record| record.is_of_this_boot());
    let session_is_ours = of_this_boot
        && !all
            .iter()
            .any(|stat| stat.pid == keeper.pid && stat.start_ticks != keeper.start_ticks);
    let is_member = |stat: &ProcessEntry| {
        if stat.pid == keeper.pid || stat.pid == std::process::id() || stat.is_dead() {
            return false;
        }
        pids.contains(&stat.pid)
            || match Environment::of(stat.pid, VARIABLE) {
                Environment::Has(value) => value == id.to_string(),
                Environment::Lacks => false,
                Environment::Unknown => {
                    session_is_ours
                        && stat.session == keeper.pid
                        && stat.start_ticks >= keeper.start_ticks
                }
            }
    };
    all.iter().filter(|stat| is_member(stat)).cloned().collect()
}

/// Kills what `find` finds until it finds nothing. Returns what was killed and what would not die.
pub(crate) fn kill_until_gone(
    find: impl Fn() -> Vec<ProcessEntry>,
) -> (Vec<ProcessEntry>, Vec<ProcessEntry>) {
    let deadline = Instant::now() + DEATH_LIMIT;
    let mut killed: Vec<ProcessEntry> = Vec::new();
    loop {
        let alive = find();
        if alive.is_empty() || Instant::now() > deadline {
            return (killed, alive);
        }
        for stat in alive {
            let identity = Identity::from(&stat);
            if identity.kill() && !killed.iter().any(|it| Identity::from(it) == identity) {
                killed.push(stat);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Removes everything of a lab. Its keeper must be dead, or be the caller.
pub(crate) fn erase(id: LabId, dir: Option<&Path>, cgroups: &Cgroups) -> Vec<Removed> {
    let (killed, stubborn) = kill_until_gone(|| members(id, dir, cgroups, &ProcessEntry::all()));
    let mut removed: Vec<Removed> = killed
        .into_iter()
        .map(|stat| Removed::Process {
            pid: stat.pid,
            name: stat.name,
        })
        .collect();
    removed.extend(stubborn.into_iter().map(|stat| {
        Removed::Failed(format!(
            "process {} ({}): it does not die; look at /proc/{}/stack",
            stat.pid, stat.name, stat.pid
        ))
    }));
    for group in cgroups.of_lab(id) {
        removed.push(if cgroup::remove(&group) {
            Removed::Cgroup(group)
        } else {
            Removed::Failed(format!(
                "control group {}: remove it with rmdir",
                group.display()
            ))
        });
    }
    cgroups.put_back();
    removed.extend(dir.and_then(remove_directory));
    removed
}

/// `None` when there was nothing to remove.
fn remove_directory(dir: &Path) -> Option<Removed> {
    // A second try, for a file that a dying process created behind the first one's back.
    for _ in 0..2 {
        match fs::remove_dir_all(dir) {
            Ok(()) => return Some(Removed::Directory(dir.to_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Some(Removed::Failed(
            format!("directory {}: {error}; remove it with rm -r", dir.display()),
        )),
        _ => Some(Removed::Directory(dir.to_owned())),
    }
}
