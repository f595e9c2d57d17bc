//! The hosts of a lab: made, found by name, removed.

use super::first::First;
use super::{Keeper, network};
use crate::LabError;
use crate::error::Context as _;
use crate::identity::Identity;
use crate::identity::users;
use crate::isolation::cgroup::{Cgroups, HostGroup};
use crate::isolation::numbers::Numbers;
use crate::isolation::sysctl;
use crate::launch::{Launch, Output};
use crate::plan::{Capabilities, HostInfo, HostPlan, LabPlan, MOST_HOSTS};
use crate::protocol::Begun;
use crate::record::{Record, VARIABLE};
use crate::room::Room;
use crate::room::names::Names;
use crate::traces::{Removed, erase, kill_until_gone};
use kneepoint_linux::{ProcessEntry, machine};
use kneepoint_model::{CommandSpec, HostLimits};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The directory of what servers read and write, below the lab's own, which only root enters and whoever root gives this
/// group to. Others on the machine, who may know a path in it, do not come that far; a room has its own way there.
const INSIDE: &str = "lab";
/// A group that no system gives to anyone (<https://systemd.io/UIDS-GIDS/>: 65520 to 65533 are unused).
const PASSING_GROUP: u32 = 65_530;

/// A host as the keeper holds it.
pub(super) struct Host {
    pub(super) info: HostInfo,
    pub(super) netns: Option<Arc<OwnedFd>>,
    room: Option<Arc<Room>>,
    first: Option<First>,
    pub(super) group: Option<HostGroup>,
    number: u8,
}

/// How far a lab has come.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    NotBegun,
    Open,
    /// It was removed, and nothing may be made any more: an owner that dies right after it asked for the lab is missed
    /// before that request is handled.
    Ended,
}

/// What the lab is made of. Locked while hosts come and go.
#[derive(Default)]
struct World {
    phase: Phase,
    dir: PathBuf,
    switch: Option<Arc<OwnedFd>>,
    /// Whether hosts have a view of the file system and of processes of their own.
    rooms: bool,
    /// Says that the lab lives.
    held: Option<File>,
    cgroups: Option<Cgroups>,
    hosts: BTreeMap<String, Arc<Host>>,
}

/// The hosts by name.
#[derive(Default)]
pub(super) struct Hosts(Mutex<World>);

impl Hosts {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The host of this name.
    pub(super) fn get(&self, name: &str) -> Result<Arc<Host>, LabError> {
        let world = self.world();
        world.hosts.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = world.hosts.keys().map(String::as_str).collect();
            LabError::UnknownHost {
                name: name.to_owned(),
                known: if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                },
            }
        })
    }
}

impl Host {
    /// The network to act in; `None` is the machine's own.
    pub(super) fn network(&self) -> Option<&OwnedFd> {
        self.netns.as_deref()
    }

    /// A host with its own network, or why there is none.
    pub(super) fn own_network(&self, what: &str) -> Result<&OwnedFd, LabError> {
        self.network().ok_or_else(|| LabError::Unsupported {
            what: what.to_owned(),
            why:
                "the lab runs without network namespaces, and the setting would change the machine"
                    .into(),
        })
    }

    /// A launch on this host.
    pub(super) fn launch(
        &self,
        keeper: &Keeper,
        command: &CommandSpec,
        output: Output,
    ) -> Result<Launch, LabError> {
        let mut env = command.env.clone();
        env.push((VARIABLE.to_owned(), keeper.id.to_string()));
        Ok(Launch {
            program: command.program.clone(),
            args: command.args.clone(),
            env,
            dir: command.dir.clone().unwrap_or_else(|| "/".into()),
            account: users::account(command.user.as_deref())?,
            netns: self.netns.clone(),
            room: self.room.clone(),
            numbers: self
                .first
                .as_ref()
                .map_or(Numbers::Starters, |first| first.numbers.clone()),
            groups: self
                .group
                .as_ref()
                .map_or(Ok(Vec::new()), HostGroup::doors)?,
            input: command.stdin.is_some(),
            output,
        })
    }

    /// Words for a death by the memory limit; empty when there was none.
    pub(super) fn memory_note(&self) -> String {
        let kills = self.group.as_ref().map_or(0, HostGroup::oom_kills);
        if kills == 0 {
            return String::new();
        }
        format!(
            " (the memory limit of host `{}`, {}, has killed {kills} processes; raise it)",
            self.info.name,
            kneepoint_model::units::format_bytes(self.info.memory_bytes)
        )
    }
}

impl Keeper {
    /// Builds the lab.
    pub(super) fn begin(
        &self,
        plan: &LabPlan,
        owner: Identity,
        base: &Path,
    ) -> Result<Begun, LabError> {
        plan.check()?;
        let mut world = self.hosts.world();
        if world.phase == Phase::Ended {
            return Err(has_ended());
        }
        let top = base.join(self.id.directory_name());
        world.held = Some(self.make_lab_dir(&top, &Record::new(&plan.name, owner))?);
        let dir = top.join(INSIDE);
        make_dir(&dir)?;
        world.dir.clone_from(&dir);
        world.phase = Phase::Open;
        let mut capabilities = Capabilities {
            users: users::is_root(),
            ..Capabilities::default()
        };
        match self.try_switch(plan.loopback) {
            Ok(switch) => {
                world.switch = Some(switch);
                capabilities.namespaces = true;
                world.cgroups = self.usable_cgroups(&mut capabilities);
            }
            Err(why) if !plan.loopback => return Err(LabError::NotClosed { why }),
            Err(why) => capabilities.missing.push(format!(
                "no network namespaces, limits and kernel settings: {why}; all hosts share 127.0.0.1, and the application \
                 reaches whatever this machine reaches: the databases, mail servers and others that its settings name"
            )),
        }
        match self.try_room(&dir) {
            Ok(()) => {
                world.rooms = true;
                capabilities.files = true;
            }
            Err(why) if !plan.loopback => return Err(LabError::NotClosed { why }),
            Err(why) => {
                // Without rooms the servers' users have no other way to their files.
                open_to_pass(&top)?;
                capabilities.missing.push(format!(
                "no file systems and processes of their own: {why}; the application reaches the sockets, files and \
                 processes of this machine"
            ));
            }
        }
        if !capabilities.users {
            capabilities.missing.push(
                "no other users: processes run as this one, since only root may change it".into(),
            );
        }
        let hosts = plan
            .hosts
            .iter()
            .map(|host| self.add_to(&mut world, host))
            .collect::<Result<_, _>>()?;
        Ok(Begun {
            id: self.id,
            dir,
            hosts,
            capabilities,
        })
    }

    /// Whether hosts can have a view of the file system and of processes of their own, or why not.
    fn try_room(&self, dir: &Path) -> Result<(), String> {
        if !users::is_root() {
            let uid = rustix::process::geteuid().as_raw();
            return Err(format!("they need root and this is user {uid}"));
        }
        let made = Room::make(dir, None).and_then(|room| self.start_first(&Arc::new(room)));
        made.map(drop).map_err(|error| error.to_string())
    }

    fn make_lab_dir(&self, dir: &Path, record: &Record) -> Result<File, LabError> {
        // Known before it exists, so that the end finds it whenever it comes.
        let _ = self.dir.set(dir.to_owned());
        let what = || format!("making the directory \"{}\"", dir.display());
        fs::DirBuilder::new()
            .mode(0o700)
            .create(dir)
            .context(what)?;
        if users::is_root() {
            // In a container that has no such group it stays root's.
            let _ = chown(dir, None, Some(PASSING_GROUP));
            let mode = fs::Permissions::from_mode(0o710);
            fs::set_permissions(dir, mode).context(what)?;
        }
        record.write(dir)
    }

    fn try_switch(&self, loopback: bool) -> Result<Arc<OwnedFd>, String> {
        if loopback {
            return Err("the plan asks for loopback".into());
        }
        if !users::is_root() {
            let uid = rustix::process::geteuid().as_raw();
            return Err(format!("they need root and this is user {uid}"));
        }
        self.make_switch().map_err(|error| error.to_string())
    }

    /// The control groups, if one can really be made.
    fn usable_cgroups(&self, capabilities: &mut Capabilities) -> Option<Cgroups> {
        let cgroups = Cgroups::detect();
        let missing = &mut capabilities.missing;
        if let Err(error) = cgroups
            .create(self.id, "probe", false)
            .map(|group| group.remove())
        {
            missing.push(format!("no CPU and memory limits: {error}"));
            return None;
        }
        capabilities.cpu_limits = cgroups.has_cpu();
        capabilities.memory_limits = cgroups.has_memory();
        for (has, what, controller) in [
            (cgroups.has_cpu(), "CPU", "cpu"),
            (cgroups.has_memory(), "memory", "memory"),
        ] {
            if !has {
                missing.push(format!(
                    "no {what} limits: the {controller} control group is not mounted"
                ));
            }
        }
        Some(cgroups)
    }

    /// Adds a host to a lab that runs.
    pub(super) fn add_host(&self, plan: &HostPlan) -> Result<HostInfo, LabError> {
        plan.check()?;
        self.add_to(&mut self.hosts.world(), plan)
    }

    fn add_to(&self, world: &mut World, plan: &HostPlan) -> Result<HostInfo, LabError> {
        if world.phase != Phase::Open {
            return Err(has_ended());
        }
        if world.hosts.contains_key(&plan.name) {
            return Err(LabError::bad_plan(format!(
                "host `{}` exists already; remove it first or choose another name",
                plan.name
            )));
        }
        let number = (1..=MOST_HOSTS)
            .find(|number| world.hosts.values().all(|host| host.number != *number))
            .ok_or_else(|| LabError::bad_plan(format!("a lab has at most {MOST_HOSTS} hosts")))?;
        let dir = world.dir.join(&plan.name);
        make_dir(&dir)?;
        let made = self.equip(world, plan, number, &dir);
        match made {
            Ok(host) => {
                let info = host.info.clone();
                world.hosts.insert(plan.name.clone(), Arc::new(host));
                Ok(info)
            }
            Err(error) => {
                // What was made so far must not stand in the way of a second try.
                let _ = fs::remove_dir_all(&dir);
                if let Some(switch) = &world.switch {
                    let _ = self.unplug(switch, number);
                }
                Err(error)
            }
        }
    }

    fn equip(
        &self,
        world: &World,
        plan: &HostPlan,
        number: u8,
        dir: &Path,
    ) -> Result<Host, LabError> {
        let limits = &plan.limits;
        can_hold(world, limits)?;
        let netns = match &world.switch {
            Some(switch) => Some(self.plug_in(switch, number)?),
            None => None,
        };
        let (mut room, mut first) = (None, None);
        if world.rooms {
            let names = Names::write(dir, &plan.names)?;
            let made = Arc::new(Room::make(&world.dir, Some(&names))?);
            first = Some(self.start_first(&made)?);
            room = Some(made);
        }
        if let Some(netns) = &netns {
            for (name, value) in &limits.sysctl {
                sysctl::set(netns.as_ref(), name, value)?;
            }
            if let (Some(switch), Some(mbit)) = (&world.switch, limits.link_mbit) {
                self.limit_link(switch, netns, number, mbit)?;
            }
        }
        let group = match &world.cgroups {
            Some(cgroups) => {
                Some(cgroups.create(self.id, &plan.name, limits.disk_iops.is_some())?)
            }
            None => None,
        };
        let mut cpus = machine_cpus();
        let mut memory_bytes = machine::memory_bytes().unwrap_or(0);
        if let Some(group) = &group {
            // A failed limit takes its group with it; the caller removes the rest.
            hold(group, limits, dir).inspect_err(|_| group.remove())?;
            cpus = limits.cpus.map_or(cpus, |limit| limit.min(cpus));
            let bytes = limits.memory_bytes;
            memory_bytes = bytes.map_or(memory_bytes, |limit| limit.min(memory_bytes));
        }
        let info = HostInfo {
            name: plan.name.clone(),
            address: IpAddr::V4(
                netns
                    .as_ref()
                    .map_or(Ipv4Addr::LOCALHOST, |_| network::address(number)),
            ),
            dir: dir.to_owned(),
            netns: netns.as_deref().map(network::path),
            cgroup: group.as_ref().map(HostGroup::paths).unwrap_or_default(),
            cpus,
            memory_bytes,
        };
        Ok(Host {
            info,
            netns,
            room,
            first,
            group,
            number,
        })
    }

    /// Changes the CPU limit of a host. Returns the cores it may use now.
    pub(super) fn set_cpus(&self, name: &str, cpus: f64) -> Result<f64, LabError> {
        crate::plan::check_cpus(cpus)?;
        let host = self.hosts.get(name)?;
        let group = host.group.as_ref().ok_or_else(|| LabError::Unsupported {
            what: format!("limiting the CPU of host `{name}`"),
            why: "the lab runs without control groups".into(),
        })?;
        group.set_cpus(Some(cpus))?;
        Ok(cpus.min(machine_cpus()))
    }

    /// Kills what runs on a host and removes all of it.
    pub(super) fn remove_host(&self, name: &str) -> Result<(), LabError> {
        self.hosts.get(name)?;
        let mut world = self.hosts.world();
        let Some(host) = world.hosts.remove(name) else {
            return Ok(());
        };
        // From here on nothing new starts there; what runs is found by group, by descent and by its servers.
        let mut roots = self.servers.forget_host(name);
        roots.extend(host.first.as_ref().map(|first| first.root));
        let find = || {
            let all = ProcessEntry::all();
            let mut pids = host.group.as_ref().map(HostGroup::pids).unwrap_or_default();
            for root in &roots {
                pids.extend(root.tree(&all));
            }
            let lives = |stat: &&ProcessEntry| pids.contains(&stat.pid) && !stat.is_dead();
            all.iter().filter(lives).cloned().collect()
        };
        let (_, stubborn) = kill_until_gone(find);
        if let Some(stat) = stubborn.first() {
            return Err(LabError::System {
                what: format!("removing host `{name}`"),
                why: format!("process {} ({}) does not die", stat.pid, stat.name),
                advice: String::new(),
            });
        }
        if let Some(switch) = &world.switch {
            self.unplug(switch, host.number)?;
        }
        if let Some(group) = &host.group {
            group.remove();
        }
        fs::remove_dir_all(&host.info.dir)
            .context(|| format!("removing \"{}\"", host.info.dir.display()))
    }

    /// The end of the lab, whoever asked for it.
    pub(super) fn remove_everything(&self) -> Vec<Removed> {
        {
            let mut world = self.hosts.world();
            world.phase = Phase::Ended;
            // With the last process and these descriptors the namespaces go.
            world.hosts.clear();
            world.switch = None;
        }
        let dir = self.dir.get().map(PathBuf::as_path);
        erase(self.id, dir, &Cgroups::detect())
    }
}

fn has_ended() -> LabError {
    LabError::bad_plan("the lab has ended")
}

fn make_dir(dir: &Path) -> Result<(), LabError> {
    let what = || format!("making the directory \"{}\"", dir.display());
    fs::create_dir(dir).context(what)?;
    open_to_pass(dir)
}

/// Lets servers' users pass through a directory, without seeing what is in it.
fn open_to_pass(dir: &Path) -> Result<(), LabError> {
    let what = || format!("letting users pass through \"{}\"", dir.display());
    fs::set_permissions(dir, fs::Permissions::from_mode(0o711)).context(what)
}

fn machine_cpus() -> f64 {
    kneepoint_linux::Allowed::now().cores()
}

/// Holds a host's group to its limits.
fn hold(group: &HostGroup, limits: &HostLimits, dir: &Path) -> Result<(), LabError> {
    if let Some(iops) = limits.disk_iops {
        group.set_disk(dir, iops)?;
    }
    if limits.cpus.is_some() {
        group.set_cpus(limits.cpus)?;
    }
    limits
        .memory_bytes
        .map_or(Ok(()), |bytes| group.set_memory(bytes))
}

/// Whether the lab can hold a host to what would otherwise be dropped in silence: what a run file says of it must be true.
fn can_hold(world: &World, limits: &HostLimits) -> Result<(), LabError> {
    let without = |what: &str, why: &str| {
        Err(LabError::Unsupported {
            what: what.into(),
            why: why.into(),
        })
    };
    if limits.link_mbit.is_some() && world.switch.is_none() {
        return without(
            "limiting a link",
            "the hosts of this lab have no networks of their own",
        );
    }
    if limits.disk_iops.is_some() && world.cgroups.is_none() {
        return without(
            "limiting what the disk does",
            "this lab runs without control groups",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::LabId;
    use std::sync::OnceLock;
    use std::sync::mpsc::channel;

    /// A keeper of nobody, with the process id of none: there is nothing of it to find and to kill.
    fn keeper() -> Keeper {
        let nobody = Identity {
            pid: u32::MAX,
            start_ticks: 1,
        };
        let (owner, _) = std::os::unix::net::UnixStream::pair().expect("socket pair");
        Keeper {
            id: LabId::of_keeper(nobody),
            dir: OnceLock::new(),
            hosts: Hosts::default(),
            children: Arc::default(),
            servers: super::super::Servers::default(),
            jobs: channel().0,
            owner: Mutex::new(owner),
        }
    }

    #[test]
    fn a_lab_whose_owner_is_gone_already_is_not_made() {
        let base = tempfile::tempdir().expect("temp dir");
        let plan = LabPlan {
            loopback: true,
            ..LabPlan::default()
        };
        let owner = Identity::own().expect("/proc");
        let keeper = keeper();
        keeper.remove_everything();
        assert!(keeper.begin(&plan, owner, base.path()).is_err());
        let left = fs::read_dir(base.path()).expect("directory").count();
        assert_eq!(left, 0, "entries below the base directory");
    }
}
