//! Control groups of a lab: limits and accounting per host, on v1, v2 and mixed machines.

use super::disk;
use crate::LabError;
use crate::error::Context as _;
use crate::record::LabId;
use kneepoint_linux::Hierarchies;
use kneepoint_linux::cgroup::{Hierarchy, Version, children, pids_below};
use kneepoint_model::CgroupPaths;
use rustix::fs::XattrFlags;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The kernel's own default period for CPU quotas, and that of Docker and Kubernetes, in microseconds.
const PERIOD_US: f64 = 100_000.0;
/// A group is busy for a moment after its last process died.
const REMOVAL_LIMIT: Duration = Duration::from_secs(5);
/// The attribute of the topmost v2 group that names the controllers labs have switched on for the groups below it.
const MARK: &CStr = c"user.kneepoint.switched-on";

/// The hierarchies of this machine that the lab uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Cgroups(Hierarchies);

impl Cgroups {
    /// Finds the controllers.
    pub(crate) fn detect() -> Self {
        Self(Hierarchies::detect())
    }

    pub(crate) fn has_cpu(&self) -> bool {
        self.0.cpu.is_some()
    }

    pub(crate) fn has_memory(&self) -> bool {
        self.0.memory.is_some()
    }

    /// The directories of a lab that exist.
    pub(crate) fn of_lab(&self, lab: LabId) -> Vec<PathBuf> {
        self.0
            .roots()
            .into_iter()
            .map(|root| root.join(lab.directory_name()))
            .filter(|path| path.is_dir())
            .collect()
    }

    /// The labs that have a group.
    pub(crate) fn labs(&self) -> BTreeSet<LabId> {
        self.0
            .roots()
            .into_iter()
            .filter_map(|root| fs::read_dir(root).ok())
            .flat_map(|entries| entries.flatten())
            .filter_map(|entry| LabId::from_directory_name(entry.file_name().to_str()?))
            .collect()
    }

    /// Makes the groups of one host.
    ///
    /// # Errors
    /// A group could not be made, as without root or with a read-only mount.
    pub(crate) fn create(
        &self,
        lab: LabId,
        host: &str,
        limits_disk: bool,
    ) -> Result<HostGroup, LabError> {
        let mut made = HostGroup::default();
        let io = self.0.io.as_ref().filter(|_| limits_disk);
        for (hierarchy, slot) in [
            (self.0.cpu.as_ref(), &mut made.cpu),
            (self.0.cpuacct.as_ref(), &mut made.cpuacct),
            (self.0.memory.as_ref(), &mut made.memory),
            (io, &mut made.io),
        ] {
            let Some(hierarchy) = hierarchy else { continue };
            let top = hierarchy.root.join(lab.directory_name());
            if hierarchy.version == Version::V2 {
                let switched_on = self.delegate(&hierarchy.root, io)?;
                mark(&hierarchy.root, &switched_on);
            }
            make_dir(&top)?;
            if hierarchy.version == Version::V2 {
                self.delegate(&top, io)?;
            }
            let group = top.join(host);
            make_dir(&group)?;
            *slot = Some((group, hierarchy.version));
        }
        Ok(made)
    }

    /// Switches off what labs have switched on in the topmost group, once nobody uses it: with the last lab, where no
    /// other group has come meanwhile. Another's group would lose the limits that its owner gave it.
    pub(crate) fn put_back(&self) {
        let roots = [&self.0.cpu, &self.0.memory, &self.0.io];
        let roots = roots.into_iter().flatten();
        let of_v2 = roots.filter(|hierarchy| hierarchy.version == Version::V2);
        for root in of_v2
            .map(|hierarchy| hierarchy.root.as_path())
            .collect::<BTreeSet<_>>()
        {
            put_back(root);
        }
    }

    /// Lets the children of a v2 group have the controllers the lab uses; tells which of them they had not.
    fn delegate(
        &self,
        group: &Path,
        io: Option<&Hierarchy>,
    ) -> Result<Vec<&'static str>, LabError> {
        let file = group.join("cgroup.subtree_control");
        let mut switched_on = Vec::new();
        let present = fs::read_to_string(&file).unwrap_or_default();
        let (cpu, memory) = (self.0.cpu.as_ref(), self.0.memory.as_ref());
        for (name, hierarchy) in [("cpu", cpu), ("memory", memory), ("io", io)] {
            let wanted = hierarchy.is_some_and(|it| it.version == Version::V2);
            if wanted && !present.split_whitespace().any(|it| it == name) {
                write(&file, &format!("+{name}"))?;
                switched_on.push(name);
            }
        }
        Ok(switched_on)
    }
}

/// The controllers that labs have switched on in a group.
fn marked(group: &Path) -> Vec<String> {
    let mut value = [0_u8; 256];
    let length = rustix::fs::getxattr(group, MARK, &mut value).unwrap_or(0);
    let text = String::from_utf8_lossy(&value[..length]);
    text.split_whitespace().map(str::to_owned).collect()
}

/// Adds controllers to them. Where the kernel keeps no such attribute (before 5.7), they stay switched on.
fn mark(group: &Path, switched_on: &[&str]) {
    if switched_on.is_empty() {
        return;
    }
    let mut all = marked(group);
    all.extend(switched_on.iter().map(|name| (*name).to_owned()));
    let _ = rustix::fs::setxattr(group, MARK, all.join(" ").as_bytes(), XattrFlags::empty());
}

fn put_back(root: &Path) {
    if !children(root).is_empty() {
        return;
    }
    let file = root.join("cgroup.subtree_control");
    // One that the kernel keeps is in use after all, and remains noted.
    let switch_off = |name: &String| write(&file, &format!("-{name}")).is_ok();
    let names = marked(root);
    if !names.is_empty() && names.iter().all(switch_off) {
        let _ = rustix::fs::removexattr(root, MARK);
    }
}

fn make_dir(path: &Path) -> Result<(), LabError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result.context(|| format!("making the control group \"{}\"", path.display())),
    }
}

fn write(file: &Path, value: &str) -> Result<(), LabError> {
    // Never created: a file that is not there means a controller that is not there.
    File::options()
        .write(true)
        .open(file)
        .and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()))
        .context(|| format!("writing `{value}` to \"{}\"", file.display()))
}

/// The groups of one host.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostGroup {
    cpu: Option<(PathBuf, Version)>,
    cpuacct: Option<(PathBuf, Version)>,
    memory: Option<(PathBuf, Version)>,
    io: Option<(PathBuf, Version)>,
}

impl HostGroup {
    pub(crate) fn paths(&self) -> CgroupPaths {
        let path =
            |group: &Option<(PathBuf, Version)>| group.as_ref().map(|(path, _)| path.clone());
        CgroupPaths {
            cpu: path(&self.cpu),
            cpuacct: path(&self.cpuacct),
            memory: path(&self.memory),
        }
    }

    fn directories(&self) -> BTreeSet<&Path> {
        [&self.cpu, &self.cpuacct, &self.memory, &self.io]
            .into_iter()
            .flatten()
            .map(|(path, _)| path.as_path())
            .collect()
    }

    /// Limits CPU time to `cpus` cores; `None` lifts the limit.
    pub(crate) fn set_cpus(&self, cpus: Option<f64>) -> Result<(), LabError> {
        let Some((group, version)) = &self.cpu else {
            return Err(LabError::Unsupported {
                what: "limiting CPU time".into(),
                why: "this machine has no cpu control group".into(),
            });
        };
        let quota_us = cpus.map(|cpus| format!("{:.0}", (cpus * PERIOD_US).max(1000.0)));
        match version {
            Version::V1 => {
                write(&group.join("cpu.cfs_period_us"), &format!("{PERIOD_US}"))?;
                let quota = quota_us.as_deref().unwrap_or("-1");
                write(&group.join("cpu.cfs_quota_us"), quota)
            }
            Version::V2 => {
                let quota = quota_us.as_deref().unwrap_or("max");
                write(&group.join("cpu.max"), &format!("{quota} {PERIOD_US}"))
            }
        }
    }

    /// Limits memory, swap included where swap is accounted.
    pub(crate) fn set_memory(&self, bytes: u64) -> Result<(), LabError> {
        let Some((group, version)) = &self.memory else {
            return Err(LabError::Unsupported {
                what: "limiting memory".into(),
                why: "this machine has no memory control group".into(),
            });
        };
        let (limit, swap, swap_bytes) = match version {
            Version::V1 => (
                "memory.limit_in_bytes",
                "memory.memsw.limit_in_bytes",
                bytes,
            ),
            Version::V2 => ("memory.max", "memory.swap.max", 0),
        };
        write(&group.join(limit), &bytes.to_string())?;
        let swap = group.join(swap);
        if swap.exists() {
            write(&swap, &swap_bytes.to_string())?;
        }
        Ok(())
    }

    /// Limits the reads, and the writes, that the disk below a directory does in a second.
    ///
    /// # Errors
    /// The machine has no such control group, or the directory is on no disk.
    pub(crate) fn set_disk(&self, directory: &Path, iops: u32) -> Result<(), LabError> {
        let unsupported = |why: String| LabError::Unsupported {
            what: "limiting what the disk does".into(),
            why,
        };
        let (group, version) = self
            .io
            .as_ref()
            .ok_or_else(|| unsupported("this machine has no control group for disks".into()))?;
        let disk = disk::below(directory)
            .ok_or_else(|| unsupported(format!(
                "which disk \"{}\" is on is not known: it is in memory, on the network, in layers, on btrfs or on ZFS; TMPDIR \
                 names another place",
                directory.display()
            )))?;
        let limited = match version {
            Version::V1 => ["read", "write"].into_iter().try_for_each(|way| {
                let file = format!("blkio.throttle.{way}_iops_device");
                write(&group.join(file), &format!("{disk} {iops}"))
            }),
            Version::V2 => {
                let limits = format!("{disk} riops={iops} wiops={iops}");
                write(&group.join("io.max"), &limits)
            }
        };
        limited.map_err(|why| unsupported(format!("the kernel does not take the limit: {why}")))
    }

    /// How many processes the memory limit has killed.
    pub(crate) fn oom_kills(&self) -> u64 {
        let Some((group, version)) = &self.memory else {
            return 0;
        };
        let file = match version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        fs::read_to_string(group.join(file))
            .unwrap_or_default()
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
            .unwrap_or(0)
    }

    /// Opens the files through which a process joins: it writes `0`, which means itself.
    pub(crate) fn doors(&self) -> Result<Vec<File>, LabError> {
        self.directories()
            .into_iter()
            .map(|group| {
                let file = group.join("cgroup.procs");
                File::options()
                    .write(true)
                    .open(&file)
                    .context(|| format!("opening \"{}\"", file.display()))
            })
            .collect()
    }

    pub(crate) fn pids(&self) -> BTreeSet<u32> {
        self.directories()
            .into_iter()
            .flat_map(pids_below)
            .collect()
    }

    /// Removes the groups once they are empty.
    pub(crate) fn remove(&self) {
        for group in self.directories() {
            remove(group);
        }
    }
}

/// Removes an emptied group and the groups below it. True when nothing is left of it.
pub(crate) fn remove(group: &Path) -> bool {
    children(group).iter().for_each(|child| {
        remove(child);
    });
    let deadline = Instant::now() + REMOVAL_LIMIT;
    loop {
        match fs::remove_dir(group) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            Err(error)
                if error.kind() != io::ErrorKind::ResourceBusy || Instant::now() > deadline =>
            {
                return false;
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roots_controllers_are_put_back() {
        let root = tempfile::tempdir().expect("a directory");
        let (root, file) = (root.path(), root.path().join("cgroup.subtree_control"));
        let said = || fs::read_to_string(&file).expect("readable");
        // The kernel keeps a list in this file; here it is what was written last.
        let is = |text: &str| fs::write(&file, text).expect("writable");
        let v2 = || {
            let (root, version) = (root.to_owned(), Version::V2);
            Some(Hierarchy { root, version })
        };
        let groups = Cgroups(Hierarchies {
            cpu: v2(),
            cpuacct: None,
            memory: v2(),
            io: v2(),
        });
        is("memory");
        mark(root, &groups.delegate(root, None).expect("written"));
        assert_eq!(
            (said().trim_end(), marked(root)),
            ("+cpury", vec!["cpu".to_owned()])
        );
        is("");
        fs::create_dir(root.join("somebodys")).expect("made");
        groups.put_back();
        assert_eq!(said(), "", "another group may use it");
        fs::remove_dir(root.join("somebodys")).expect("removed");
        groups.put_back();
        assert_eq!(
            (said().as_str(), marked(root).len()),
            ("-cpu", 0),
            "and not memory, which was there"
        );
        is("");
        groups.put_back();
        assert_eq!(said(), "", "once");
    }

    #[test]
    fn v2_limits_are_written_as_its_files_want_them() {
        let root = tempfile::tempdir().expect("a directory");
        let group = root.path().to_owned();
        for file in ["cpu.max", "memory.max", "memory.swap.max", "io.max"] {
            fs::write(group.join(file), "").expect("writable");
        }
        let host = HostGroup {
            cpu: Some((group.clone(), Version::V2)),
            cpuacct: None,
            memory: Some((group.clone(), Version::V2)),
            io: Some((group.clone(), Version::V2)),
        };
        let check = |file: &str, expected: &str| {
            let text = fs::read_to_string(group.join(file)).expect("readable");
            assert_eq!(text, expected, "{file}");
            fs::write(group.join(file), "").expect("writable");
        };
        host.set_cpus(Some(0.5)).expect("written");
        check("cpu.max", "50000 100000");
        host.set_cpus(None).expect("written");
        check("cpu.max", "max 100000");
        host.set_memory(64 << 20).expect("written");
        check("memory.max", "67108864");
        check("memory.swap.max", "0");
        let target = Path::new(env!("CARGO_MANIFEST_DIR"));
        if let Some(disk) = disk::below(target) {
            host.set_disk(target, 500).expect("written");
            check("io.max", &format!("{disk} riops=500 wiops=500"));
        }
        assert_eq!(host.directories().len(), 1, "one v2 group, joined once");
    }
}
