//! Finds the PHP-FPM that is meant, by what people know of it: a PID, a pool, a container.

use crate::args::ProfileArgs;
use anyhow::{Result, bail};
use kneepoint_linux::{cgroup, process};
use std::collections::{BTreeMap, BTreeSet};

/// A process of PHP-FPM, by its title.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Role {
    Master,
    /// A worker of this pool, and its parent.
    Worker(String, u32),
}

/// The process to profile: the one that was named, or the master of the pool or container.
pub(super) fn find(args: &ProfileArgs) -> Result<u32> {
    if let Some(pid) = args.pid {
        return Ok(pid);
    }
    let mut processes = processes();
    if args.pool.is_none() && args.container.is_none() {
        bail!("{}", ways(&processes));
    }
    if let Some(container) = &args.container {
        processes.retain(|pid, _| is_in(*pid, container));
        if processes.is_empty() {
            bail!(
                "no PHP-FPM runs in a container whose id begins with `{container}`: `docker ps` tells ids; as another user \
                 than root, its processes may not be seen"
            );
        }
    }
    choose(&processes, args.pool.as_deref()).map_err(anyhow::Error::msg)
}

/// The ways to name what is to be profiled, and the pools that run.
fn ways(processes: &BTreeMap<u32, Role>) -> String {
    let mut pools: BTreeMap<(&str, u32), usize> = BTreeMap::new();
    for role in processes.values() {
        if let Role::Worker(pool, master) = role {
            *pools.entry((pool.as_str(), *master)).or_default() += 1;
        }
    }
    let mut text = "say what to profile: --pool NAME, --pid PID (a worker, a master of PHP-FPM, or a server with PHP in its \
                    threads) or --container ID"
        .to_owned();
    if pools.is_empty() {
        text.push_str("; no pool of PHP-FPM is seen to run here (as another user than root, some may be hidden)");
    } else {
        text.push_str("; these pools run:");
    }
    for ((pool, master), workers) in pools {
        let workers = match workers {
            1 => "1 worker".to_owned(),
            many => format!("{many} workers"),
        };
        text.push_str(&format!("\n  --pool {pool}  {workers}, master {master}"));
    }
    text
}

/// The one master there is, or that of a pool.
fn choose(processes: &BTreeMap<u32, Role>, pool: Option<&str>) -> Result<u32, String> {
    let mut masters = BTreeSet::new();
    let mut pools = BTreeSet::new();
    for (pid, role) in processes {
        match (role, pool) {
            (Role::Master, None) => _ = masters.insert(*pid),
            (Role::Worker(name, parent), Some(wanted)) if name == wanted => {
                masters.insert(*parent);
            }
            (Role::Worker(name, _), _) => _ = pools.insert(name.as_str()),
            (Role::Master, Some(_)) => {}
        }
    }
    let mut found = masters.iter();
    match (found.next(), found.next(), pool) {
        (Some(pid), None, _) => Ok(*pid),
        (Some(_), Some(_), _) => {
            let masters: Vec<String> = masters.iter().map(u32::to_string).collect();
            Err(format!(
                "there are several PHP-FPM it could be; name the master with --pid: {}",
                masters.join(", ")
            ))
        }
        (None, _, Some(pool)) if pools.is_empty() => Err(format!(
            "no worker of a pool `{pool}` runs: is PHP-FPM started? Workers of `pm = ondemand` come with the first request"
        )),
        (None, _, Some(pool)) => {
            let pools: Vec<&str> = pools.into_iter().collect();
            Err(format!(
                "no worker of a pool `{pool}` runs; there are workers of: {}",
                pools.join(", ")
            ))
        }
        (None, _, None) => Err("no master of PHP-FPM runs there".to_owned()),
    }
}

/// Every process of PHP-FPM that can be seen.
fn processes() -> BTreeMap<u32, Role> {
    let roles = process::all().into_iter();
    roles.filter_map(|pid| Some((pid, role(pid)?))).collect()
}

fn role(pid: u32) -> Option<Role> {
    let title = process::title_of(pid)?;
    let title = title.strip_prefix("php-fpm: ")?;
    match title.strip_prefix("pool ") {
        Some(pool) => Some(Role::Worker(
            pool.trim_end().to_owned(),
            process::parent_of(pid)?,
        )),
        None => title.starts_with("master process").then_some(Role::Master),
    }
}

/// Whether a process is in a container: the path of its control group holds the id, as Docker, Podman, containerd and
/// Kubernetes have it.
fn is_in(pid: u32, container: &str) -> bool {
    let groups = cgroup::of_process(pid);
    groups.iter().any(|group| names(group, container))
}

fn names(groups: &str, container: &str) -> bool {
    !container.is_empty()
        && groups
            .split(['/', '-', '\n', ':', '.'])
            .any(|part| part.len() >= 12 && part.starts_with(container))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fpm() -> BTreeMap<u32, Role> {
        let worker = |pool: &str, parent| Role::Worker(pool.to_owned(), parent);
        BTreeMap::from([
            (10, Role::Master),
            (11, worker("www", 10)),
            (12, worker("www", 10)),
            (13, worker("shop", 10)),
            (20, Role::Master),
            (21, worker("shop", 20)),
        ])
    }

    #[track_caller]
    fn check(processes: &BTreeMap<u32, Role>, pool: Option<&str>, expected: Result<u32, &str>) {
        let chosen = choose(processes, pool);
        match expected {
            Ok(pid) => assert_eq!(chosen, Ok(pid)),
            Err(words) => assert!(
                chosen.clone().is_err_and(|why| why.contains(words)),
                "{chosen:?}"
            ),
        }
    }

    #[test]
    fn a_pool_is_found_by_its_name() {
        check(&fpm(), Some("www"), Ok(10));
        check(
            &fpm(),
            Some("shop"),
            Err("name the master with --pid: 10, 20"),
        );
        check(&fpm(), Some("blog"), Err("there are workers of: shop, www"));
        check(&BTreeMap::new(), Some("www"), Err("is PHP-FPM started?"));
        check(&fpm(), None, Err("10, 20"));
        check(&BTreeMap::from([(10, Role::Master)]), None, Ok(10));
    }

    #[test]
    fn who_names_nothing_is_told_the_ways_and_the_pools() {
        let said = ways(&fpm());
        assert!(
            said.contains("--pid PID") && said.contains("--container ID"),
            "{said}"
        );
        assert!(said.contains("--pool www  2 workers, master 10"), "{said}");
        assert!(said.contains("--pool shop  1 worker, master 20"), "{said}");
        assert!(ways(&BTreeMap::new()).contains("no pool of PHP-FPM"));
    }

    #[test]
    fn a_container_is_known_by_its_control_group() {
        let id = "3f2b8c1d9a0e4f5b6c7d8e9f0a1b2c3d4e5f60718293a4b5c6d7e8f901234567";
        for groups in [
            format!("0::/system.slice/docker-{id}.scope\n"),
            format!("12:cpu:/docker/{id}\n"),
            format!("0::/kubepods.slice/pod7.slice/cri-containerd-{id}.scope\n"),
        ] {
            assert!(
                names(&groups, "3f2b8c1d9a0e") && names(&groups, id),
                "{groups}"
            );
            assert!(!names(&groups, "8c1d") && !names(&groups, ""), "{groups}");
        }
        assert!(
            !names("0::/docker-desktop/init.scope", "docker"),
            "that is no id"
        );
    }
}
