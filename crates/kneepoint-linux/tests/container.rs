//! What is to be had in a container: the test puts itself into a group with a quota that is all it sees of the control groups,
//! as container engines do.

#![expect(clippy::disallowed_methods, reason = "a test starts programs")]

use kneepoint_linux::cgroup::{Version, children};
use kneepoint_linux::{Allowed, Hierarchies};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

#[path = "../../../tests/skipped.rs"]
mod skip;

/// The quota of the container.
const CORES: f64 = 0.5;
/// The variable that says to this program that it is inside.
const INSIDE: &str = "KNEEPOINT_TEST_CONTAINER";

/// The groups of a container, gone with it.
struct Container {
    groups: Vec<(PathBuf, PathBuf)>,
}

impl Container {
    fn make() -> std::io::Result<Self> {
        let found = Hierarchies::detect();
        let cpu = found.cpu.ok_or(std::io::ErrorKind::Unsupported)?;
        // Many machines have both in one place.
        let accounts = found.cpuacct.map(|it| it.root);
        let accounts = accounts.filter(|root| *root != cpu.root);
        let mut made = Self { groups: Vec::new() };
        for root in [cpu.root.clone()].into_iter().chain(accounts) {
            let group = root.join(format!("kneepoint-test-{}", std::process::id()));
            fs::create_dir(&group)?;
            made.groups.push((root, group));
        }
        let group = &made.groups[0].1;
        match cpu.version {
            Version::V1 => fs::write(group.join("cpu.cfs_quota_us"), "50000")?,
            Version::V2 => {
                fs::write(cpu.root.join("cgroup.subtree_control"), "+cpu")?;
                fs::write(group.join("cpu.max"), "50000 100000")?;
            }
        }
        Ok(made)
    }

    /// Runs a test of this program inside; whether it passed, with what it said.
    fn runs(&self, test: &str) -> (bool, String) {
        let mut script = String::from("set -e\n");
        for (root, group) in &self.groups {
            let (root, group) = (root.display(), group.display());
            script += &format!("echo $$ > {group}/cgroup.procs\nmount --bind {group} {root}\n");
        }
        let program = std::env::current_exe().expect("a program");
        script += &format!(
            "exec {} --exact {test} --ignored --nocapture",
            program.display()
        );
        let ran = Command::new("unshare")
            .args(["--mount", "sh", "-c", &script])
            .env(INSIDE, "yes")
            .output()
            .expect("unshare of util-linux");
        let said = [ran.stdout, ran.stderr].concat();
        (
            ran.status.success(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        for (_, group) in &self.groups {
            let _ = fs::remove_dir(group);
        }
    }
}

#[test]
fn a_container_has_its_quota_and_no_more() {
    let container = match Container::make() {
        Ok(container) => container,
        Err(why) => return skip::skipped(&format!("needs control groups: {why}")),
    };
    let (passed, said) = container.runs("within_a_quota");
    assert!(passed && said.contains("1 passed"), "{said}");
    let (_, group) = &container.groups[0];
    assert_eq!(children(group), Vec::<PathBuf>::new());
}

#[test]
#[ignore = "runs in the container that another test makes"]
fn within_a_quota() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let allowed = Allowed::now();
    assert_eq!(
        (allowed.cores(), allowed.quota_cores()),
        (CORES, Some(CORES))
    );
    let before = allowed.used().expect("/proc/stat");
    let until = Instant::now() + Duration::from_secs(1);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| while Instant::now() < until {});
        }
    });
    let after = allowed.used().expect("/proc/stat");
    let all_s = CORES * after.since(&before).as_secs_f64();
    let (running_s, idle_s) = (after.running_s_since(&before), after.idle_s_since(&before));
    // Two threads want all that there is: however busy the machine is besides, none of it is left idle. What runs is theirs, or
    // others' who took it; of the group it is no more than the quota, but for what it did not use in the period before.
    assert!(idle_s < 0.3 * all_s, "{idle_s} of {all_s}");
    assert!(running_s <= all_s + 0.1, "{running_s} of {all_s}");
}
