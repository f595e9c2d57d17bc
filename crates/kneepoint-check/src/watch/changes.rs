//! Whether anything changed that only a full look tells: files, first processes, generations of workers, new programs.

use crate::files::{Files as _, Root};
use crate::find::kind_named;
use crate::process::link;
use crate::snapshot::{ServiceKind, Snapshot};
use kneepoint_linux::Stat;
use kneepoint_linux::process::{all, children, name_of, parent_of};
use std::collections::{HashMap, HashSet};

/// A file of configuration as it was: its time of change and its length; `None` where it was not there.
type Stamp = Option<(u64, u64)>;

/// What there was at the last full look.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// First processes with the moment they were started.
    starts: Vec<(u32, Option<u64>)>,
    /// Files of configuration: first process, path, and how it was.
    files: Vec<(u32, String, Stamp)>,
    /// The children of each first process.
    generations: HashMap<u32, HashSet<u32>>,
    /// Every process that was there.
    known: HashSet<u32>,
}

impl Changes {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let mut changes = Self {
            known: all().into_iter().collect(),
            ..Self::default()
        };
        for service in &snapshot.services {
            changes.starts.push((service.pid, started(service.pid)));
            let workers: HashSet<u32> = children(service.pid)
                .unwrap_or_default()
                .into_iter()
                .collect();
            changes.generations.insert(service.pid, workers);
            let root = Root::of(service.pid).ok();
            for file in &service.files {
                let seen = root.as_ref().and_then(|root| stamp(root, &file.path));
                changes.files.push((service.pid, file.path.clone(), seen));
            }
        }
        changes
    }

    /// What changed since, in words; `None` where nothing did.
    pub(super) fn since(&mut self, snapshot: &Snapshot) -> Option<String> {
        if let Some((pid, _)) = self
            .starts
            .iter()
            .find(|(pid, start)| started(*pid) != *start)
        {
            return Some(format!("process {pid} ended"));
        }
        self.file()
            .or_else(|| self.generation(snapshot))
            .or_else(|| self.newcomer())
    }

    fn file(&self) -> Option<String> {
        let mut root: Option<(u32, Option<Root>)> = None;
        for (pid, path, seen) in &self.files {
            if root.as_ref().is_none_or(|(of, _)| of != pid) {
                root = Some((*pid, Root::of(*pid).ok()));
            }
            let root = root.as_ref().and_then(|(_, root)| root.as_ref());
            if root.and_then(|root| stamp(root, path)) != *seen {
                return Some(format!("{path} changed"));
            }
        }
        None
    }

    /// A reload replaces all workers. Those of a pool that starts them on demand come and go by themselves.
    fn generation(&self, snapshot: &Snapshot) -> Option<String> {
        let lasting = snapshot.services.iter().filter(|service| {
            service.kind != ServiceKind::Fpm
                || service.pools.iter().any(|pool| pool.manager() == "static")
        });
        for service in lasting {
            let before = self.generations.get(&service.pid)?;
            let now = children(service.pid).unwrap_or_default();
            if !before.is_empty() && !now.is_empty() && !now.iter().any(|pid| before.contains(pid))
            {
                return Some(format!("{} has new workers", service.name()));
            }
        }
        None
    }

    /// A program of a kind that is looked at, whose parent is none of those known.
    fn newcomer(&mut self) -> Option<String> {
        let now: HashSet<u32> = all().into_iter().collect();
        let new: Vec<u32> = now.difference(&self.known).copied().collect();
        self.known = now;
        new.into_iter().find_map(|pid| {
            let is_ours = |parent: u32| self.generations.contains_key(&parent);
            if parent_of(pid).is_none_or(is_ours) {
                return None;
            }
            let exe = link(pid, "exe").unwrap_or_default();
            let exe = exe.rsplit('/').next().unwrap_or_default();
            let kind = kind_named(exe).or_else(|| kind_named(&name_of(pid)?))?;
            Some(format!("{kind} was started (process {pid})"))
        })
    }
}

fn started(pid: u32) -> Option<u64> {
    Stat::of(pid)
        .filter(|stat| !stat.has_ended())
        .map(|stat| stat.start)
}

/// When a file was changed, and its length.
fn stamp(root: &Root, path: &str) -> Stamp {
    let content = root.tail(path, 0).ok()?;
    Some((content.modified_s.to_bits(), content.length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{ReadFile, Service};

    #[test]
    fn a_file_that_is_written_is_a_change() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("pool.conf");
        std::fs::write(&path, "pm = static\n").expect("written");
        let mut service = Service::new(ServiceKind::Nginx, std::process::id());
        service.files = vec![ReadFile {
            path: path.display().to_string(),
            modified_s: 0.0,
            newer: false,
        }];
        let snapshot = Snapshot {
            services: vec![service],
            ..Snapshot::default()
        };
        let mut changes = Changes::of(&snapshot);
        // Processes of other tests come and go meanwhile; files only here.
        assert_eq!(changes.file(), None);
        std::fs::write(&path, "pm = dynamic\n").expect("written");
        let said = changes.since(&snapshot).expect("a change");
        assert!(said.ends_with("pool.conf changed"), "{said}");
        let mut gone = Changes::of(&snapshot);
        gone.starts[0].1 = Some(0);
        assert!(gone.since(&snapshot).expect("a change").contains("ended"));
    }
}
