//! What a lab is asked to be, and what it turned out to be.

use crate::LabError;
use kneepoint_model::{CgroupPaths, HostLimits};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;

/// The smallest CPU limit in cores: the kernel takes no quota below 1 ms of its 100 ms period.
const LEAST_CPUS: f64 = 0.01;
/// Most hosts of a lab: its network is a /24 whose first and last addresses are not hosts.
pub(crate) const MOST_HOSTS: u8 = 254;

/// A lab to be started.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LabPlan {
    /// What the lab is for, as `lab list` shows it.
    pub name: String,
    /// Its first hosts; more can be added while it runs.
    pub hosts: Vec<HostPlan>,
    /// Work without network namespaces and control groups even as root. Without this, a lab that cannot be closed is not
    /// started: the application would reach whatever the machine reaches.
    pub loopback: bool,
}

/// A host to be added.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HostPlan {
    /// Lower-case letters, digits and hyphens, at most 32: `a-web`.
    pub name: String,
    /// Its limits and kernel settings.
    pub limits: HostLimits,
    /// Names that lead to an address on it, before all that the machine knows: `/etc/hosts` as its programs read it.
    #[serde(default)]
    pub names: Vec<(String, IpAddr)>,
}

impl LabPlan {
    pub(crate) fn check(&self) -> Result<(), LabError> {
        if self.hosts.len() > usize::from(MOST_HOSTS) {
            return Err(LabError::bad_plan(format!(
                "{} hosts, but a lab has at most {MOST_HOSTS}",
                self.hosts.len()
            )));
        }
        for (index, host) in self.hosts.iter().enumerate() {
            host.check()?;
            if self.hosts[..index].iter().any(|it| it.name == host.name) {
                return Err(LabError::bad_plan(format!(
                    "two hosts are named `{}`; give each its own name",
                    host.name
                )));
            }
        }
        Ok(())
    }
}

impl HostPlan {
    /// A host without limits.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn check(&self) -> Result<(), LabError> {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.name.is_empty() || self.name.len() > 32 || !self.name.chars().all(legal) {
            return Err(LabError::bad_plan(format!(
                "`{}` is no host name; use lower-case letters, digits and hyphens, at most 32",
                self.name
            )));
        }
        self.limits.cpus.map_or(Ok(()), check_cpus)?;
        let legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let mut names = self.names.iter();
        if let Some((name, _)) = names.find(|(it, _)| it.is_empty() || !it.chars().all(legal)) {
            return Err(LabError::bad_plan(format!(
                "`{name}` is no name of a host that others are told; use letters, digits, dots and hyphens"
            )));
        }
        let can_pass = |mbit: f64| mbit.is_finite() && mbit > 0.0;
        if self.limits.disk_iops == Some(0) || !self.limits.link_mbit.is_none_or(can_pass) {
            return Err(LabError::bad_plan(format!(
                "host `{}` has a disk or a network that lets nothing through; leave the limit out or name a rate",
                self.name
            )));
        }
        if self.limits.memory_bytes == Some(0) {
            return Err(LabError::bad_plan(format!(
                "host `{}` has 0 bytes of memory; leave the limit out or name a size",
                self.name
            )));
        }
        Ok(())
    }
}

/// Whether a number of cores can be a limit.
pub(crate) fn check_cpus(cpus: f64) -> Result<(), LabError> {
    if cpus.is_finite() && cpus >= LEAST_CPUS {
        Ok(())
    } else {
        Err(LabError::bad_plan(format!(
            "{cpus} cores is no CPU limit; use at least {LEAST_CPUS}"
        )))
    }
}

/// A host of a running lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostInfo {
    /// Its name.
    pub name: String,
    /// The address its servers listen on and its peers connect to.
    pub address: IpAddr,
    /// Its own directory, empty at first and removed with it.
    pub dir: PathBuf,
    /// Its network namespace, as a path to open; `None` in loopback mode.
    pub netns: Option<PathBuf>,
    /// Where its control group is accounted.
    pub cgroup: CgroupPaths,
    /// Cores it may use: its limit, or all of the machine.
    pub cpus: f64,
    /// Memory it may use in bytes: its limit, or all of the machine.
    pub memory_bytes: u64,
}

/// What a lab can do on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Capabilities {
    /// Each host has its own network namespace, address and network sysctls.
    pub namespaces: bool,
    /// Each host has its own view of the file system, without the machine's sockets and with nothing to write but the
    /// lab's directory.
    #[serde(default)]
    pub files: bool,
    /// CPU limits hold, and CPU time is accounted per host.
    pub cpu_limits: bool,
    /// Memory limits hold, and memory is accounted per host.
    pub memory_limits: bool,
    /// Processes can run as another user.
    pub users: bool,
    /// What is missing and why, a sentence each; empty when everything is there.
    pub missing: Vec<String>,
}

/// A server process of a lab.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Process {
    /// The lab's own number for it: unlike the pid it is never used twice.
    pub(crate) key: u64,
    /// Its process id.
    pub pid: u32,
    /// Its name, from the specification.
    pub name: String,
    /// The host it runs on.
    pub host: String,
}

/// How a process came to its end when it was asked to stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stopped {
    /// By itself, within its time.
    Gracefully,
    /// It did not end within its time and was killed.
    Killed,
    /// It had ended before, in this way: `exited with code 1`.
    Before(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(plan: &LabPlan, words: Option<&str>) {
        match (plan.check(), words) {
            (Ok(()), None) => {}
            (Err(error), Some(words)) => assert!(error.to_string().contains(words), "{error}"),
            (result, expected) => panic!("{result:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn a_plan_is_refused_with_the_reason() {
        let with = |host: HostPlan| LabPlan {
            hosts: vec![HostPlan::new("web"), host],
            ..LabPlan::default()
        };
        check(&with(HostPlan::new("a-php")), None);
        check(&with(HostPlan::new("web")), Some("two hosts"));
        for name in ["", "Web", "../x", "a b", &"x".repeat(33)] {
            check(&with(HostPlan::new(name)), Some("no host name"));
        }
        let mut host = HostPlan::new("php");
        for cpus in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            host.limits.cpus = Some(cpus);
            check(&with(host.clone()), Some("CPU limit"));
        }
        host.limits.cpus = Some(0.5);
        host.limits.memory_bytes = Some(0);
        check(&with(host), Some("0 bytes"));
        for mbit in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut host = HostPlan::new("php");
            host.limits.link_mbit = Some(mbit);
            check(&with(host), Some("lets nothing through"));
        }
        let mut host = HostPlan::new("php");
        host.limits.disk_iops = Some(0);
        check(&with(host), Some("lets nothing through"));
        let mut host = HostPlan::new("php");
        host.names = vec![("a b".to_owned(), IpAddr::from([10, 0, 0, 1]))];
        check(&with(host), Some("no name of a host"));
    }
}
