//! What `/proc` tells of a process: its program, where that is mapped, its children, and whether it runs.

pub(crate) mod cores;
pub(crate) mod elf;
pub(crate) mod ini;
pub(crate) mod ini_files;
pub(crate) mod opcache;
pub(crate) mod scripts;

use crate::error::ProfilerError;
use elf::{Exports, Found, Symbols};
use kneepoint_linux::{Stat, process};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Largest program or library that is looked into, in bytes. A PHP with all its extensions built in has some 50 MB.
const PROGRAM_BYTES: u64 = 512 << 20;

/// Finds the globals of PHP in processes. Programs are read once, however many processes run them.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    /// By device and inode.
    known: Vec<((u64, u64), Option<Exports>)>,
}

impl Finder {
    /// Where the globals of PHP are in a process.
    pub(crate) fn find(&mut self, pid: u32) -> Result<Symbols, ProfilerError> {
        let link = format!("/proc/{pid}/exe");
        let program = std::fs::read_link(&link).map_err(|why| said(pid, &link, &why))?;
        let maps = format!("/proc/{pid}/maps");
        let maps = std::fs::read(&maps).map_err(|why| said(pid, &maps, &why))?;
        let mapped = parse_maps(&maps);
        let candidates = std::iter::once((program.as_os_str().as_bytes(), PathBuf::from(link)))
            .chain(libraries(&mapped).map(|one| (one.path, readable(pid, one))));
        let mut seen: Option<Exports> = None;
        for (path, readable) in candidates {
            let base = mapped
                .iter()
                .find(|one| one.path == path && one.offset == 0);
            let (Some(exports), Some(base)) = (self.look(pid, &readable)?, base) else {
                continue;
            };
            let exports = exports.mapped_at(base.start);
            // The program is the first of them; of several libraries, the one with PHP counts.
            let exports = match seen {
                Some(program) if exports.has_php() => program.with_library(exports),
                Some(_) => continue,
                None => exports,
            };
            match exports.found() {
                Found::Php(symbols) => return Ok(symbols),
                Found::ThreadSafe => return Err(ProfilerError::ThreadSafe { pid }),
                Found::Other => seen = Some(exports),
            }
        }
        Err(ProfilerError::NotPhp {
            pid,
            program: program.display().to_string(),
        })
    }

    fn look(&mut self, pid: u32, path: &Path) -> Result<Option<Exports>, ProfilerError> {
        let failed = |why: io::Error| said(pid, &path.display().to_string(), &why);
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let key = (metadata.dev(), metadata.ino());
        if let Some((_, found)) = self.known.iter().find(|(known, _)| *known == key) {
            return Ok(*found);
        }
        let mut bytes = Vec::new();
        file.take(PROGRAM_BYTES)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        let found = elf::look(&bytes);
        self.known.push((key, found));
        Ok(found)
    }
}

fn said(pid: u32, path: &str, why: &io::Error) -> ProfilerError {
    match why.kind() {
        io::ErrorKind::PermissionDenied => ProfilerError::denied(pid),
        _ if !Path::new(&format!("/proc/{pid}")).exists() => ProfilerError::Gone { pid },
        _ => ProfilerError::Program {
            pid,
            path: path.to_owned(),
            why: why.to_string(),
        },
    }
}

/// Where the file of a mapping can be read: as the process sees it, in its container, or as the kernel keeps it.
pub(crate) fn readable(pid: u32, mapping: &Mapping<'_>) -> PathBuf {
    let mut within = format!("/proc/{pid}/root").into_bytes();
    within.extend(mapping.path);
    let within = PathBuf::from(OsStr::from_bytes(&within));
    if within.exists() {
        return within;
    }
    PathBuf::from(format!("/proc/{pid}/map_files")).join(OsStr::from_bytes(mapping.range))
}

/// A line of `/proc/PID/maps` (proc(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapping<'a> {
    /// Its addresses, as they are written.
    range: &'a [u8],
    pub(crate) start: u64,
    pub(crate) offset: u64,
    pub(crate) path: &'a [u8],
}

impl Mapping<'_> {
    /// The address behind its last byte.
    pub(crate) fn end(&self) -> Option<u64> {
        let (_, end) = std::str::from_utf8(self.range).ok()?.split_once('-')?;
        u64::from_str_radix(end, 16).ok()
    }
}

pub(crate) fn parse_maps(bytes: &[u8]) -> Vec<Mapping<'_>> {
    bytes
        .split(|byte| *byte == b'\n')
        .filter_map(parse_mapping)
        .collect()
}

fn parse_mapping(line: &[u8]) -> Option<Mapping<'_>> {
    let hex = |bytes: &[u8]| u64::from_str_radix(std::str::from_utf8(bytes).ok()?, 16).ok();
    let mut words = line.splitn(6, |byte| *byte == b' ');
    let range = words.next()?;
    let start = hex(range.split(|byte| *byte == b'-').next()?)?;
    let offset = hex(words.nth(1)?)?;
    Some(Mapping {
        range,
        start,
        offset,
        path: words.nth(2)?.trim_ascii_start(),
    })
}

/// Other files that may hold PHP: mod_php, embedded PHP, and a PHP that was started through the dynamic loader.
fn libraries<'a, 'b>(mapped: &'a [Mapping<'b>]) -> impl Iterator<Item = &'a Mapping<'b>> {
    mapped.iter().filter(|one| {
        let name = one
            .path
            .rsplit(|byte| *byte == b'/')
            .next()
            .unwrap_or_default();
        let names = [&b"libphp"[..], b"mod_php", b"php"];
        one.offset == 0 && names.iter().any(|prefix| name.starts_with(prefix))
    })
}

/// Whether a process is gone, or waits only for its parent to take notice.
pub(crate) fn ended(pid: u32) -> bool {
    Stat::of(pid).is_none_or(|stat| stat.has_ended())
}

/// The children of a process that its first thread forked, that run the same program, and that are of these pools.
pub(crate) fn workers(pid: u32, pools: &Pools) -> Result<Vec<u32>, ProfilerError> {
    let children = process::children(pid)
        .map_err(|why| said(pid, &format!("/proc/{pid}/task/{pid}/children"), &why))?;
    let program = |pid: u32| {
        let metadata = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    let own = program(pid);
    let is_one = |child: &u32| program(*child) == own && pools.hold(*child, &children);
    Ok(children.iter().copied().filter(is_one).collect())
}

/// Which workers of a master of PHP-FPM are meant, by their pools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Pools {
    /// All of them.
    #[default]
    All,
    /// Those of this pool.
    Only(String),
    /// All but those of pools whose names end so. FPM names a pool for status after another one: a pool that is named after no
    /// other, and has one that is named after it, is meant all the same.
    Except(&'static [&'static str]),
}

impl Pools {
    /// Whether a worker is meant, by its title (`php-fpm: pool www`). One that was just forked still has its master's,
    /// and is of no pool yet. `all` are the workers of all pools.
    fn hold(&self, pid: u32, all: &[u32]) -> bool {
        if *self == Self::All {
            return true;
        }
        let is_there = |name: &str| {
            let mut pools = all.iter().filter_map(|pid| pool_of(*pid));
            pools.any(|pool| pool == name)
        };
        pool_of(pid).is_some_and(|pool| self.hold_pool(&pool, is_there))
    }

    fn hold_pool(&self, pool: &str, is_there: impl Fn(&str) -> bool) -> bool {
        let is_left_out = |end: &&str| {
            let named_after = pool.strip_suffix(*end);
            named_after.is_some_and(|of| is_there(of) || !is_there(&format!("{pool}{end}")))
        };
        match self {
            Self::All => true,
            Self::Only(name) => pool == name,
            Self::Except(ends) => !ends.iter().any(is_left_out),
        }
    }
}

/// The pool of a worker of PHP-FPM, by its title.
fn pool_of(pid: u32) -> Option<String> {
    let title = process::title_of(pid)?;
    let pool = title.strip_prefix("php-fpm: pool ")?;
    Some(pool.trim_ascii_end().to_owned())
}

/// What a process was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// On a core; or ready to run, where it cannot be told which.
    Running,
    /// Ready to run, without a core.
    Ready,
    /// Asleep in a system call with this number.
    Blocked(i64),
    /// It could not be told.
    Unknown,
}

impl State {
    /// Whether it is on a core or could be.
    pub(crate) fn runs(self) -> bool {
        matches!(self, Self::Running | Self::Ready)
    }

    /// Whether it waits for a connection: a worker without a request.
    pub(crate) fn accepts(self) -> bool {
        matches!(self, Self::Blocked(libc::SYS_accept | libc::SYS_accept4))
    }
}

/// Tells what one process is doing, from `/proc/PID/syscall`. The file is kept open: reading costs a microsecond,
/// opening five. A kept file never shows another process that got the same number.
#[derive(Debug)]
pub(crate) struct Watch {
    file: Option<File>,
    pid: u32,
}

impl Watch {
    pub(crate) fn of(pid: u32) -> Self {
        Self {
            file: File::open(format!("/proc/{pid}/syscall")).ok(),
            pid,
        }
    }

    /// What it does now; `None` when it is gone.
    pub(crate) fn look(&self) -> Option<State> {
        let Some(file) = &self.file else {
            let alive = Path::new(&format!("/proc/{}", self.pid)).exists();
            return alive.then_some(State::Unknown);
        };
        let mut buffer = [0; 256];
        match file.read_at(&mut buffer, 0) {
            Ok(0) => None,
            Ok(length) => Some(parse_state(&buffer[..length])),
            Err(why) if why.raw_os_error() == Some(libc::ESRCH) => None,
            Err(_) => Some(State::Unknown),
        }
    }
}

fn parse_state(bytes: &[u8]) -> State {
    let word = bytes
        .split(u8::is_ascii_whitespace)
        .next()
        .unwrap_or_default();
    match std::str::from_utf8(word) {
        Ok("running") => State::Running,
        Ok(number) => number
            .parse()
            .map_or(State::Unknown, |number: i64| match number {
                // Asleep outside of a call: a page fault.
                ..0 => State::Running,
                _ => State::Blocked(number),
            }),
        Err(_) => State::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAPS: &[u8] =
        b"55d000000000-55d000100000 r--p 00000000 fe:01 1234   /usr/sbin/php-fpm8.2\n\
        55d000100000-55d000400000 r-xp 00100000 fe:01 1234   /usr/sbin/php-fpm8.2\n\
        7f0000000000-7f0000100000 r--p 00000000 fe:01 99     /opt/my libs/libphp8.2.so (deleted)\n\
        7f0000200000-7f0000300000 rw-p 00000000 00:00 0 \n";

    #[test]
    fn mappings_are_read_with_blanks_in_their_path() {
        let mapped = parse_maps(MAPS);
        assert_eq!(mapped.len(), 4);
        assert_eq!(mapped[1].offset, 0x10_0000);
        assert_eq!(mapped[0].start, 0x55d0_0000_0000);
        assert_eq!(mapped[3].path, b"");
        let libraries: Vec<_> = libraries(&mapped).map(|one| one.path).collect();
        assert_eq!(
            libraries,
            [
                &b"/usr/sbin/php-fpm8.2"[..],
                b"/opt/my libs/libphp8.2.so (deleted)"
            ]
        );
    }

    #[test]
    fn a_pool_whose_name_ends_like_one_that_is_left_out_may_be_meant() {
        let pools = Pools::Except(&["probe", "_status"]);
        let held = |pool: &str, all: &[&str]| pools.hold_pool(pool, |name| all.contains(&name));
        let usual = ["www", "www_status", "probe"];
        assert_eq!(usual.map(|pool| held(pool, &usual)), [true, false, false]);
        assert!(!held("www_status", &["www_status"]));
        let odd = ["shop_status", "shop_status_status"];
        assert_eq!(odd.map(|pool| held(pool, &odd)), [true, false]);
    }

    #[test]
    fn states_are_told_from_the_first_word() {
        assert_eq!(parse_state(b"running\n"), State::Running);
        assert_eq!(parse_state(b"-1 0x7ffc 0x7f\n"), State::Running);
        let accept = format!("{} 0x0 0x7ffd\n", libc::SYS_accept);
        assert!(parse_state(accept.as_bytes()).accepts());
        assert_eq!(parse_state(b"\xff"), State::Unknown);
        assert_eq!(Watch::of(u32::MAX).look(), None);
    }

    #[test]
    fn a_process_that_is_no_php_is_refused_by_name() {
        let own = std::process::id();
        let error = Finder::default().find(own).expect_err("no PHP");
        assert!(
            matches!(error, ProfilerError::NotPhp { pid, .. } if pid == own),
            "{error}"
        );
        let error = Finder::default().find(u32::MAX).expect_err("no process");
        assert!(matches!(error, ProfilerError::Gone { .. }), "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse_maps(&bytes);
            parse_state(&bytes);
        }
    }
}
