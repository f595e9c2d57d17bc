//! Which lab something belongs to, and who owns it: the id in every name, and the record in the lab directory.

use crate::LabError;
use crate::error::Context as _;
use crate::identity::Identity;
use kneepoint_linux::file::open_untrusted;
use kneepoint_linux::machine;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

const PREFIX: &str = "kneepoint-";
const FILE: &str = "lab.json";
/// The environment variable every process of a lab is started with.
pub(crate) const VARIABLE: &str = "KNEEPOINT_LAB";

/// A lab's id *is* its keeper's identity, so that every name that carries it tells whether the keeper lives:
/// `4711-1f3a9`, the process id and (hexadecimal) the start time in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct LabId {
    pid: u32,
    start_ticks: u64,
}

impl LabId {
    pub(crate) fn of_keeper(keeper: Identity) -> Self {
        Self {
            pid: keeper.pid,
            start_ticks: keeper.start_ticks,
        }
    }

    pub(crate) fn keeper(self) -> Identity {
        Identity {
            pid: self.pid,
            start_ticks: self.start_ticks,
        }
    }

    /// The name of the lab directory and of its control groups.
    pub(crate) fn directory_name(self) -> String {
        format!("{PREFIX}{self}")
    }

    pub(crate) fn from_directory_name(name: &str) -> Option<Self> {
        name.strip_prefix(PREFIX)?.parse().ok()
    }
}

impl fmt::Display for LabId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:x}", self.pid, self.start_ticks)
    }
}

impl FromStr for LabId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (pid, start) = text.split_once('-')?;
            Some(Self {
                pid: pid.parse().ok()?,
                start_ticks: u64::from_str_radix(start, 16).ok()?,
            })
        };
        // Only the canonical form: two spellings of one id would be two names of one lab.
        read()
            .filter(|id| id.to_string() == text)
            .ok_or_else(|| format!("`{text}` is no lab id"))
    }
}

impl From<LabId> for String {
    fn from(id: LabId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for LabId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// What a lab directory says about its lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// What the lab is for.
    pub(crate) name: String,
    /// The process that uses the lab.
    pub(crate) owner: Identity,
    /// Start times count from the boot, so identities of another boot mean nobody.
    pub(crate) boot_id: String,
}

impl Record {
    pub(crate) fn new(name: &str, owner: Identity) -> Self {
        Self {
            name: name.to_owned(),
            owner,
            boot_id: machine::boot_id(),
        }
    }

    pub(crate) fn owner_is_alive(&self) -> bool {
        self.is_of_this_boot() && self.owner.is_alive()
    }

    /// Writes it down. As long as the returned file is open the lab lives, also for who sees its directory and not its
    /// processes: from another container, in which the same number is another process.
    pub(crate) fn write(&self, dir: &Path) -> Result<File, LabError> {
        let path = dir.join(FILE);
        let what = || format!("writing \"{}\"", path.display());
        let text = serde_json::to_string(self)
            .map_err(std::io::Error::from)
            .context(|| "describing the lab".into())?;
        let mut options = File::options();
        options.write(true).create_new(true);
        let mut file = options.open(&path).context(what)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).context(what)?;
        file.write_all(text.as_bytes()).context(what)?;
        Ok(file)
    }

    /// Whether the keeper that made a lab's directory holds on to it, wherever it runs.
    pub(crate) fn is_held(dir: &Path) -> bool {
        open_untrusted(&dir.join(FILE)).is_ok_and(|file| {
            let asked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
            asked == Err(rustix::io::Errno::WOULDBLOCK)
        })
    }

    /// Whether it was written since this machine was started: numbers of processes from before mean nothing.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        self.boot_id == machine::boot_id()
    }

    pub(crate) fn read(dir: &Path) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(dir.join(FILE)).ok()?).ok()
    }
}

/// Where lab directories are made and looked for: `TMPDIR`, or `/tmp`.
pub(crate) fn base_dir() -> PathBuf {
    let dir = std::env::temp_dir();
    std::path::absolute(&dir).unwrap_or(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_lab_makes_are_a_labs() {
        let id: LabId = "4711-1f3a9".parse().expect("an id");
        assert_eq!(id.keeper().pid, 4711);
        assert_eq!(id.directory_name(), "kneepoint-4711-1f3a9");
        assert_eq!(LabId::from_directory_name("kneepoint-4711-1f3a9"), Some(id));
        for name in [
            "kneepoint-",
            "kneepoint-main",
            "kneepoint-4711",
            "kneepoint-4711-",
            "kneepoint-04711-1f3a9",
            "kneepoint-4711-1F3A9",
            "4711-1f3a9",
        ] {
            assert_eq!(LabId::from_directory_name(name), None, "{name}");
        }
    }

    #[test]
    fn an_owner_of_another_boot_is_nobody() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = Identity::own().expect("this process");
        let record = Record::new("test", own);
        let held = record.write(dir.path()).expect("written");
        assert!(Record::is_held(dir.path()), "while its keeper has it open");
        drop(held);
        assert!(!Record::is_held(dir.path()));
        let read = Record::read(dir.path()).expect("read back");
        assert_eq!(read, record);
        assert!(read.owner_is_alive());
        let older = Record {
            boot_id: "before".into(),
            ..read
        };
        assert!(!older.owner_is_alive());
    }
}
