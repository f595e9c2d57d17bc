//! What is mapped into the memory of a process that executes PHP.

use super::releases;
use crate::config::IniPlaces;
use crate::snapshot::{PhpService, ServiceProcess};
use kneepoint_profiler::{ini_files, opcache, opcache_scripts};
use std::collections::{BTreeMap, HashMap};

/// Shared memory of at least so many bytes is OPcache's: what PHP-FPM shares by itself is smaller.
const OPCACHE_BYTES: u64 = 8 << 20;

/// Extensions and shared memory, from `/proc/PID/maps`.
pub(super) fn mapped(pid: u32) -> PhpService {
    match std::fs::read(format!("/proc/{pid}/maps")) {
        Ok(bytes) => PhpService {
            // Where it is not known, rules go by what is configured.
            opcache: opcache(pid).ok().flatten(),
            releases: releases::kept(&opcache_scripts(pid).ok().flatten().unwrap_or_default()),
            ..of_maps(&String::from_utf8_lossy(&bytes))
        },
        Err(_) => PhpService::default(),
    }
}

/// The files of settings that PHP read when it was started, where its memory tells of them.
pub(super) fn places(pid: u32) -> Option<IniPlaces> {
    let told = ini_files(pid).ok().flatten()?;
    Some(IniPlaces {
        files: told.main.into_iter().collect(),
        dirs: told.dirs,
        told: true,
    })
}

/// Workers by the titles that PHP-FPM gives them.
pub(super) fn by_title(processes: &[ServiceProcess]) -> HashMap<&str, Vec<ServiceProcess>> {
    let mut found: HashMap<&str, Vec<ServiceProcess>> = HashMap::new();
    for process in processes {
        let title = process.title.trim_end();
        found.entry(title).or_default().push(process.clone());
    }
    found
}

fn of_maps(maps: &str) -> PhpService {
    let mut loaded = BTreeMap::new();
    let mut shared = 0;
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (Some(range), Some(rights)) = (fields.next(), fields.next()) else {
            continue;
        };
        let path = fields.nth(3).unwrap_or_default();
        if let Some(name) = extension(path) {
            loaded.insert(name.to_owned(), path.to_owned());
        }
        // What is shared and has no file.
        if rights == "rw-s"
            && (path.is_empty()
                || path.starts_with("/dev/zero")
                || path.starts_with("/anon_hugepage")
                || path.starts_with("/SYSV")
                || path.starts_with("/memfd:"))
        {
            shared = shared.max(length(range).unwrap_or(0));
        }
    }
    PhpService {
        loaded,
        maps_seen: true,
        opcache_bytes: (shared >= OPCACHE_BYTES).then_some(shared as f64),
        ..PhpService::default()
    }
}

fn length(range: &str) -> Option<u64> {
    let (start, end) = range.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    hex(end)?.checked_sub(hex(start)?)
}

/// The name of an extension of PHP: a library in a directory of an interface's date.
fn extension(path: &str) -> Option<&str> {
    let (dir, file) = path.rsplit_once('/')?;
    let name = file.strip_suffix(".so")?;
    let dir = dir.rsplit('/').next()?;
    let date = dir.rsplit('-').next()?;
    let is_date = date.len() == 8 && date.chars().all(|c| c.is_ascii_digit());
    // Remi's, Alpine's and the panels' directories: `modules`; those of SUSE and NixOS: `extensions`.
    let is_named = matches!(dir, "modules" | "extensions") && path.contains("php");
    (is_date || is_named).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_and_shared_memory_are_found() {
        let maps = "40a8a000-48a8a000 rw-s 00000000 00:01 1026 /dev/zero (deleted)\n\
            7f00-7f01 rw-s 00000000 00:01 1027 /dev/zero (deleted)\n\
            7ff97c2fc000-7ff97c312000 r--p 00000000 fe:00 6 /usr/lib/php/20220829/opcache.so\n\
            7ff97c2fc000-7ff97c312000 r--p 00000000 fe:00 6 /usr/local/lib/php/extensions/no-debug-non-zts-20230831/xdebug.so\n\
            7ff97c2fc000-7ff97c312000 r--p 00000000 fe:00 6 /usr/lib64/php8/extensions/apcu.so\n\
            7ff97c2fc000-7ff97c312000 r--p 00000000 fe:00 6 /opt/editor/extensions/other.so\n\
            7ff97c2fc000-7ff97c312000 r--p 00000000 fe:00 6 /usr/lib/x86_64-linux-gnu/libc.so\n";
        let php = of_maps(maps);
        let loaded: Vec<&String> = php.loaded.keys().collect();
        assert_eq!(loaded, ["apcu", "opcache", "xdebug"]);
        assert_eq!(php.opcache_bytes, Some(134_217_728.0));
        assert_eq!(of_maps("odd").opcache_bytes, None);
    }
}
