//! Control groups: which container a process is of, and what it may use.

use crate::snapshot::{Container, Limits, ResourceLimit, Runtime, SettingSource};
use std::fs;
use std::path::{Path, PathBuf};

/// A limit of version 1 that means none: the largest multiple of a page that fits.
const NO_LIMIT: f64 = 9.0e18;
/// Length of a container's id in hexadecimal digits.
const ID: usize = 64;

/// Name prefixes of the groups of containers, and who writes them.
const PREFIXES: [(&str, Runtime); 5] = [
    ("docker-", Runtime::Docker),
    ("cri-containerd-", Runtime::Containerd),
    ("crio-", Runtime::Crio),
    ("libpod-", Runtime::Podman),
    ("cri-containerd:", Runtime::Containerd),
];

/// The container that the groups of a process name, from `/proc/PID/cgroup`.
pub(crate) fn container(groups: &str) -> Option<Container> {
    groups.lines().find_map(|line| {
        let path = line.splitn(3, ':').nth(2)?;
        let parts: Vec<&str> = path.split('/').collect();
        parts.iter().rev().find_map(|part| of_part(part, path))
    })
}

fn of_part(part: &str, path: &str) -> Option<Container> {
    let named = |id: &str, runtime, name: Option<&str>| Container {
        id: id.to_owned(),
        runtime,
        name: name.map(str::to_owned),
        compose_service: None,
        in_pod: path.contains("kubepods") || path.contains("/pod"),
    };
    for prefix in ["lxc.payload.", "lxc.payload:"] {
        if let Some(name) = part.strip_prefix(prefix) {
            return Some(named(name, Runtime::Lxc, Some(name)));
        }
    }
    let bare = part.strip_suffix(".scope").unwrap_or(part);
    let is_id = |text: &str| text.len() == ID && text.chars().all(|c| c.is_ascii_hexdigit());
    // containerd's own driver: `kubepods-pod….slice:cri-containerd:ID`.
    if let Some((_, id)) = bare
        .rsplit_once("cri-containerd:")
        .filter(|(_, id)| is_id(id))
    {
        return Some(named(id, Runtime::Containerd, None));
    }
    for (prefix, runtime) in PREFIXES {
        if let Some(id) = bare.strip_prefix(prefix).filter(|id| is_id(id)) {
            return Some(named(id, runtime, None));
        }
    }
    if !is_id(bare) {
        return None;
    }
    let runtime = match path {
        _ if path.contains("/docker/") => Runtime::Docker,
        _ if path.contains("kubepods") => Runtime::Containerd,
        _ if path.contains("libpod") => Runtime::Podman,
        _ => Runtime::Other,
    };
    Some(named(bare, runtime, None))
}

/// The unit of the system's systemd that the groups of a process name. A user's own systemd makes groups of any name below
/// `user@N.service`: what stands there is no unit of the system, whatever it is called.
pub(crate) fn unit(groups: &str) -> Option<String> {
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let mut units = paths.filter_map(|path| {
        let parts: Vec<&str> = path.split('/').collect();
        let is_users = parts.iter().any(|part| part.starts_with("user@"));
        let unit = parts.into_iter().rev().find(|part| is_unit(part));
        unit.filter(|_| !is_users)
    });
    units.next().map(str::to_owned)
}

/// Whether a name is one that systemd gives to a service (systemd.unit(5)). It becomes a part of commands.
fn is_unit(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    name.ends_with(".service") && name.len() <= 255 && name.chars().all(fits)
}

/// Limits of a process: the tightest of its groups and of all above them.
pub(crate) fn limits(pid: u32, groups: &str) -> Limits {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut limits = Limits {
        files: super::file_limit(pid),
        allowed_cores: super::allowed_cores(pid),
        ..Limits::default()
    };
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let Some(mount) = mount_of(&mounts, controllers) else {
            continue;
        };
        read_all(&upwards(&mount, path), controllers, &mut limits);
    }
    limits
}

/// Where a hierarchy is mounted: that of version 2 where no controller is named.
fn mount_of(mounts: &str, controllers: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        let fits = match controllers {
            "" => kind == "cgroup2",
            _ => {
                let first = controllers.split(',').next()?;
                kind == "cgroup" && options.split(',').any(|option| option == first)
            }
        };
        fits.then(|| before.split(' ').nth(4).map(PathBuf::from))?
    })
}

/// A group and every one above it, the innermost first.
fn upwards(mount: &Path, path: &str) -> Vec<PathBuf> {
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if parts.contains(&"..") {
        return Vec::new();
    }
    let mut dirs = Vec::new();
    loop {
        let mut dir = mount.to_owned();
        dir.extend(&parts);
        dirs.push(dir);
        if parts.pop().is_none() {
            return dirs;
        }
    }
}

fn read_group(dir: &Path, controllers: &str, limits: &mut Limits) {
    let read = |name: &str| fs::read_to_string(dir.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<f64>().ok();
    let at = |name: &str| SettingSource::Kernel {
        path: dir.join(name).display().to_string(),
    };
    let has = |one: &str| has_controller(controllers, one);
    if has("memory") {
        for name in ["memory.max", "memory.limit_in_bytes"] {
            if let Some(value) = number(name).filter(|value| *value < NO_LIMIT) {
                let limit = ResourceLimit {
                    value,
                    source: at(name),
                };
                if tighter(&mut limits.memory, limit) {
                    limits.memory_used =
                        number("memory.current").or_else(|| number("memory.usage_in_bytes"));
                }
            }
        }
    }
    let quota = has("cpu").then(|| kneepoint_linux::cgroup::quota_cores(dir));
    if let Some(value) = quota.flatten() {
        let is_second = dir.join("cpu.max").exists();
        let name = if is_second {
            "cpu.max"
        } else {
            "cpu.cfs_quota_us"
        };
        let limit = ResourceLimit {
            value,
            source: at(name),
        };
        if tighter(&mut limits.cpus, limit) {
            limits.throttled = read("cpu.stat").and_then(|text| {
                let periods = super::keyed(&text, "nr_periods").filter(|n| *n > 0.0)?;
                let value = super::keyed(&text, "nr_throttled")? / periods;
                Some(ResourceLimit {
                    value,
                    source: at("cpu.stat"),
                })
            });
        }
    }
}

/// Whether a hierarchy has a controller; that of version 2 has all.
fn has_controller(controllers: &str, one: &str) -> bool {
    controllers.is_empty() || controllers.split(',').any(|name| name == one)
}

/// Reads the limits of a group and of those above it, the innermost first.
fn read_all(dirs: &[PathBuf], controllers: &str, limits: &mut Limits) {
    for dir in dirs {
        read_group(dir, controllers, limits);
    }
    if let Some(own) = dirs.first() {
        read_kills(own, controllers, limits);
    }
}

/// How many processes of a group the kernel killed. The groups above it count those of all below them: of other services.
fn read_kills(dir: &Path, controllers: &str, limits: &mut Limits) {
    if !has_controller(controllers, "memory") {
        return;
    }
    for name in ["memory.events", "memory.oom_control"] {
        let path = dir.join(name);
        let text = fs::read_to_string(&path).ok();
        let kills = text.and_then(|text| super::keyed(&text, "oom_kill"));
        if let Some(value) = kills.filter(|kills| *kills > 0.0) {
            let path = path.display().to_string();
            limits.oom_kills = Some(ResourceLimit {
                value,
                source: SettingSource::Kernel { path },
            });
            limits.kills_of_anybody = is_in(std::process::id(), dir);
        }
    }
}

/// Whether a process is in a group.
fn is_in(pid: u32, dir: &Path) -> bool {
    let members = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    members.lines().any(|member| member.parse() == Ok(pid))
}

/// Takes a limit over where it is tighter than the one known.
fn tighter(known: &mut Option<ResourceLimit>, limit: ResourceLimit) -> bool {
    let is = known.as_ref().is_none_or(|known| limit.value < known.value);
    if is {
        *known = Some(limit);
    }
    is
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_known_by_their_group() {
        let id = "0123456789abcdef".repeat(4);
        let check = |path: String, runtime| {
            let groups = format!("4:memory:{path}\n0::/\n");
            let found = container(&groups).unwrap_or_else(|| panic!("{path}"));
            assert_eq!((found.id.as_str(), found.runtime), (id.as_str(), runtime));
        };
        check(format!("/docker/{id}"), Runtime::Docker);
        check(format!("/system.slice/docker-{id}.scope"), Runtime::Docker);
        check(
            format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope"),
            Runtime::Containerd,
        );
        check(
            format!("/kubepods-besteffort-pod1.slice:cri-containerd:{id}"),
            Runtime::Containerd,
        );
        check(
            format!("/kubepods/besteffort/pod1/{id}"),
            Runtime::Containerd,
        );
        check(
            format!("/machine.slice/libpod-{id}.scope/container"),
            Runtime::Podman,
        );
        check(format!("/x/crio-{id}.scope"), Runtime::Crio);
        assert_eq!(
            container("0::/lxc.payload.web/system.slice\n")
                .expect("lxc")
                .id,
            "web"
        );
        assert_eq!(container("0::/system.slice/nginx.service\n"), None);
        assert_eq!(
            unit("0::/system.slice/nginx.service\n").as_deref(),
            Some("nginx.service")
        );
    }

    #[test]
    fn a_group_that_a_user_made_is_no_unit_of_the_system() {
        let user = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/php-fpm.service\n";
        assert_eq!(unit(user), None);
        for name in ["x;id>owned;: ", "$(id)", "a b", "`id`", "a\'b", "é"] {
            assert_eq!(unit(&format!("0::/system.slice/{name}.service\n")), None);
        }
        let kept = [r"a\x2db@1.service", "php8.2-fpm.service"];
        for name in kept {
            let groups = format!("1:name=systemd:/system.slice/{name}/inner\n");
            assert_eq!(unit(&groups).as_deref(), Some(name));
        }
    }

    #[test]
    fn kills_are_those_of_the_group_itself() {
        let dir = tempfile::tempdir().expect("directory");
        fs::create_dir(dir.path().join("app")).expect("made");
        let kills = |own: &str| {
            let write = |path, text| fs::write(dir.path().join(path), text).expect("written");
            write("memory.events", "oom 9\noom_kill 9\n");
            write("app/memory.events", own);
            let mut limits = Limits::default();
            read_all(&upwards(dir.path(), "/app"), "", &mut limits);
            limits.oom_kills.map(|kills| kills.value)
        };
        assert_eq!(kills("oom 3\noom_kill 2\n"), Some(2.0));
        assert_eq!(kills("oom 3\noom_kill 0\n"), None);
    }

    #[test]
    fn kills_in_the_checks_own_group_may_be_anybodys() {
        let dir = tempfile::tempdir().expect("directory");
        let write = |path, text: &str| fs::write(dir.path().join(path), text).expect("written");
        write("memory.events", "oom_kill 2\n");
        let of_anybody = |members: &str| {
            write("cgroup.procs", members);
            let mut limits = Limits::default();
            read_kills(dir.path(), "", &mut limits);
            limits.kills_of_anybody
        };
        let own = std::process::id();
        assert!(of_anybody(&format!("1\n{own}\n")));
        assert!(!of_anybody(&format!("1\n{own}0\n")));
    }

    #[test]
    fn the_tightest_limit_of_all_groups_above_counts() {
        let dir = tempfile::tempdir().expect("directory");
        let inner = dir.path().join("pod/app");
        fs::create_dir_all(&inner).expect("made");
        let write =
            |path: &str, text: &str| fs::write(dir.path().join(path), text).expect("written");
        write("pod/app/memory.max", "max\n");
        write("pod/memory.max", "536870912\n");
        write("pod/memory.current", "1000\n");
        write("memory.max", "1073741824\n");
        write("pod/app/cpu.max", "150000 100000\n");
        write("pod/app/cpu.stat", "nr_periods 100\nnr_throttled 25\n");
        let mut limits = Limits::default();
        read_all(&upwards(dir.path(), "/pod/app"), "", &mut limits);
        assert_eq!(limits.memory.expect("a limit").value, 536_870_912.0);
        assert_eq!(limits.memory_used, Some(1000.0));
        assert_eq!(limits.cpus.expect("a quota").value, 1.5);
        assert_eq!(limits.throttled.expect("a share").value, 0.25);
        assert!(upwards(dir.path(), "/../x").is_empty());
    }
}
