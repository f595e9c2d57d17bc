//! Files as a process sees them, opened so that nothing in its directories can hurt.
//!
//! A container may hold anything: a link that points out of it, a FIFO that never ends, a log of gigabytes. Every path is
//! resolved within the root directory of the process (`openat2(2)`, `RESOLVE_IN_ROOT`), without the links of `/proc` that
//! lead to descriptors. A file is first opened as a mere path, which has no effect on a FIFO or a device; only a regular
//! file, on no file system of the kernel's own, is then opened for reading, and so many bytes of it are read.

pub(crate) mod abreast;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// Largest file of configuration, in bytes.
pub(crate) const CONFIG_BYTES: u64 = 1 << 20;
/// Most names of a directory.
const NAMES: usize = 20_000;

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Content {
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
    /// When it was changed, in seconds since 1970.
    pub(crate) modified_s: f64,
    /// Its length, of which the bytes may be a part.
    pub(crate) length: u64,
}

impl Content {
    /// As text; what is not UTF-8 is replaced.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Why something could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unread {
    /// It is not there.
    #[error("it is not there")]
    Missing,
    /// It may not be read.
    #[error("it may not be read")]
    Denied,
    /// It is no regular file, or one of the kernel's own.
    #[error("it is {0}, not a file of a disk")]
    NoFile(&'static str),
    /// It is larger than any configuration.
    #[error("it has more than {CONFIG_BYTES} bytes")]
    TooLarge,
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl From<rustix::io::Errno> for Unread {
    fn from(error: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        match error {
            Errno::NOENT | Errno::NOTDIR => Self::Missing,
            Errno::ACCESS | Errno::PERM => Self::Denied,
            Errno::LOOP => Self::NoFile("a link of the kernel's or a circle of links"),
            Errno::NOSYS => Self::Other("this kernel has no openat2 (Linux 5.6)".into()),
            other => Self::Other(io::Error::from(other).to_string()),
        }
    }
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        match rustix::io::Errno::from_io_error(&error) {
            Some(errno) => errno.into(),
            None => Self::Other(error.to_string()),
        }
    }
}

/// Where files are read from.
pub(crate) trait Files {
    /// A whole file of configuration.
    fn read(&self, path: &str) -> Result<Content, Unread>;

    /// The last bytes of a file, however long it is.
    fn tail(&self, path: &str, bytes: u64) -> Result<Content, Unread>;

    /// The names in a directory, sorted, without those that begin with a dot.
    fn names(&self, dir: &str) -> Result<Vec<Name>, Unread>;

    /// Whether a directory can be read and has such a name.
    fn has_names(&self, dir: &str) -> bool {
        self.names(dir).is_ok_and(|names| !names.is_empty())
    }

    /// What makes a file the same as another, wherever it is mounted: device and inode.
    fn identity(&self, path: &str) -> Option<(u64, u64)>;
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    /// The name.
    pub(crate) name: String,
    /// Whether it is a directory (a link to one is none).
    pub(crate) is_dir: bool,
}

/// The root directory of a process.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    fd: Arc<OwnedFd>,
}

impl Root {
    /// Of a process.
    pub(crate) fn of(pid: u32) -> Result<Self, Unread> {
        Self::at(&format!("/proc/{pid}/root"))
    }

    /// A directory as the root.
    pub(crate) fn at(path: &str) -> Result<Self, Unread> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            fd: Arc::new(fs::open(path, flags, Mode::empty())?),
        })
    }

    /// Opens something as a mere path.
    fn path(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Unread> {
        let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        Ok(fs::openat2(&self.fd, path, flags, Mode::empty(), resolve)?)
    }

    /// Opens a log that grows, with what makes it the same file later.
    pub(crate) fn follow(&self, path: &str) -> Result<(File, (u64, u64)), Unread> {
        let (file, stat) = self.open(path)?;
        Ok((file, (stat.st_dev, stat.st_ino)))
    }

    fn dir(&self, path: &str) -> Result<fs::Dir, Unread> {
        let place = self.path(path, OFlags::DIRECTORY)?;
        let again = format!("/proc/self/fd/{}", place.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = fs::open(&again, flags | OFlags::NOATIME, Mode::empty())
            .or_else(|_| fs::open(&again, flags, Mode::empty()))?;
        Ok(fs::Dir::read_from(&opened)?)
    }

    fn open(&self, path: &str) -> Result<(File, fs::Stat), Unread> {
        let place = self.path(path, OFlags::empty())?;
        let stat = fs::fstat(&place)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Fifo => return Err(Unread::NoFile("a FIFO")),
            FileType::Directory => return Err(Unread::NoFile("a directory")),
            FileType::Socket => return Err(Unread::NoFile("a socket")),
            _ => return Err(Unread::NoFile("a device")),
        }
        if of_the_kernel(&place) {
            return Err(Unread::NoFile("a file of the kernel"));
        }
        // The descriptor names the very file that was looked at, whatever its path leads to by now.
        let again = format!("/proc/self/fd/{}", place.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        // Without a new time of access where we may: a check leaves no trace.
        let opened = fs::open(&again, flags | OFlags::NOATIME, Mode::empty())
            .or_else(|_| fs::open(&again, flags, Mode::empty()))?;
        Ok((File::from(opened), stat))
    }
}

/// Whether a file is of `/proc`, `/sys` or a program that answers for a file system (FUSE).
fn of_the_kernel(place: &OwnedFd) -> bool {
    /// `PROC_SUPER_MAGIC`, `SYSFS_MAGIC`, `FUSE_SUPER_MAGIC`, `CGROUP_SUPER_MAGIC`, `CGROUP2_SUPER_MAGIC` (magic.h).
    const MAGIC: [u64; 5] = [0x9fa0, 0x6265_6572, 0x6573_5546, 0x0027_e0eb, 0x6367_7270];
    fs::fstatfs(place).is_ok_and(|about| MAGIC.contains(&(about.f_type as u64)))
}

fn modified_s(stat: &fs::Stat) -> f64 {
    stat.st_mtime as f64 + stat.st_mtime_nsec as f64 / 1e9
}

impl Files for Root {
    fn read(&self, path: &str) -> Result<Content, Unread> {
        let (file, stat) = self.open(path)?;
        let mut bytes = Vec::new();
        file.take(CONFIG_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > CONFIG_BYTES {
            return Err(Unread::TooLarge);
        }
        Ok(Content {
            length: bytes.len() as u64,
            bytes,
            modified_s: modified_s(&stat),
        })
    }

    fn tail(&self, path: &str, most: u64) -> Result<Content, Unread> {
        let (file, stat) = self.open(path)?;
        let length = u64::try_from(stat.st_size).unwrap_or(0);
        let start = length.saturating_sub(most);
        let mut bytes = vec![0; usize::try_from(length - start).unwrap_or(0)];
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read_at(&mut bytes[filled..], start + filled as u64)? {
                0 => break,
                read => filled += read,
            }
        }
        bytes.truncate(filled);
        Ok(Content {
            bytes,
            modified_s: modified_s(&stat),
            length,
        })
    }

    fn names(&self, dir: &str) -> Result<Vec<Name>, Unread> {
        let mut names = Vec::new();
        for entry in self.dir(dir)?.take(NAMES) {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') {
                let is_dir = entry.file_type() == FileType::Directory;
                names.push(Name { name, is_dir });
            }
        }
        names.sort();
        Ok(names)
    }

    fn has_names(&self, dir: &str) -> bool {
        let is_shown = |entry: fs::DirEntry| !entry.file_name().to_bytes().starts_with(b".");
        let entries = self.dir(dir).into_iter().flatten().take(NAMES);
        entries.map_while(Result::ok).any(is_shown)
    }

    fn identity(&self, path: &str) -> Option<(u64, u64)> {
        let place = self.path(path, OFlags::empty()).ok()?;
        let stat = fs::statat(&place, "", AtFlags::EMPTY_PATH).ok()?;
        Some((stat.st_dev, stat.st_ino))
    }
}

/// The files that a pattern names, sorted as the C library's `glob` does: `*`, `?` and `[` in any component, never over a
/// slash, never a leading dot. `None` where more names than are `left` would have to be compared with it.
pub(crate) fn matching(files: &dyn Files, pattern: &str, left: &mut usize) -> Option<Vec<String>> {
    if !is_pattern(pattern) {
        return Some(vec![pattern.to_owned()]);
    }
    let mut places = vec![String::new()];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        if !is_pattern(part) {
            places
                .iter_mut()
                .for_each(|place| *place = format!("{place}/{part}"));
            continue;
        }
        let Ok(wanted) = glob::Pattern::new(part) else {
            return Some(Vec::new());
        };
        let mut found = Vec::new();
        for place in &places {
            let dir = if place.is_empty() { "/" } else { place };
            let names = files.names(dir).unwrap_or_default();
            // A directory costs, however few names it has.
            *left = left.checked_sub(names.len() + 1)?;
            let fitting = names.iter().filter(|name| wanted.matches(&name.name));
            found.extend(fitting.map(|name| format!("{place}/{}", name.name)));
        }
        places = found;
    }
    Some(places)
}

/// Whether what is named as a file is what a program prints to whoever started it.
pub(crate) fn is_printed(path: &str) -> bool {
    const PRINTED: [&str; 6] = [
        "stderr",
        "/dev/stderr",
        "/dev/stdout",
        "/proc/self/fd/2",
        "/proc/self/fd/1",
        "/dev/fd/2",
    ];
    PRINTED.contains(&path)
}

/// Whether a path may name several files.
pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// An absolute path from one that may be relative to a directory.
pub(crate) fn absolute(dir: &str, path: &str) -> String {
    match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("{}/{path}", dir.trim_end_matches('/')),
    }
}

/// The directory of a path.
pub(crate) fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((dir, _)) => dir,
    }
}

/// Files in memory, for tests of what reads them.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Memory(pub(crate) std::collections::BTreeMap<String, String>);

#[cfg(test)]
impl Memory {
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Self(files.iter().map(owned).collect())
    }
}

#[cfg(test)]
impl Files for Memory {
    fn read(&self, path: &str) -> Result<Content, Unread> {
        let text = self.0.get(path).ok_or(Unread::Missing)?;
        Ok(Content {
            bytes: text.clone().into_bytes(),
            modified_s: 100.0,
            length: text.len() as u64,
        })
    }

    fn tail(&self, path: &str, _bytes: u64) -> Result<Content, Unread> {
        self.read(path)
    }

    fn names(&self, dir: &str) -> Result<Vec<Name>, Unread> {
        let prefix = format!("{}/", dir.trim_end_matches('/'));
        let names = self.0.keys().filter_map(|path| path.strip_prefix(&prefix));
        let mut names: Vec<Name> = names
            .map(|rest| match rest.split_once('/') {
                Some((name, _)) => (name, true),
                None => (rest, false),
            })
            .map(|(name, is_dir)| Name {
                name: name.to_owned(),
                is_dir,
            })
            .collect();
        names.dedup();
        Ok(names)
    }

    fn identity(&self, path: &str) -> Option<(u64, u64)> {
        let nth = self.0.keys().position(|known| known == path)?;
        Some((1, nth as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn root(dir: &tempfile::TempDir) -> Root {
        Root::at(dir.path().to_str().expect("a path")).expect("a root")
    }

    #[test]
    fn links_lead_nowhere_but_within_the_root() {
        let dir = tempfile::tempdir().expect("directory");
        std::fs::create_dir(dir.path().join("etc")).expect("made");
        std::fs::write(dir.path().join("etc/passwd"), "ours").expect("written");
        symlink("/etc/passwd", dir.path().join("absolute")).expect("link");
        symlink("../../../../../../etc/passwd", dir.path().join("up")).expect("link");
        symlink("/proc/self/fd/0", dir.path().join("magic")).expect("link");
        symlink("loop", dir.path().join("loop")).expect("link");
        let root = root(&dir);
        for path in ["/absolute", "up", "/etc/passwd"] {
            assert_eq!(root.read(path).expect(path).text(), "ours", "{path}");
        }
        for path in ["/magic", "/nowhere", "/etc/passwd/x"] {
            assert_eq!(root.read(path), Err(Unread::Missing), "{path}");
        }
        assert!(matches!(root.read("/loop"), Err(Unread::NoFile(_))));
    }

    #[test]
    fn only_regular_files_are_read() {
        let dir = tempfile::tempdir().expect("directory");
        let fifo = dir.path().join("fifo");
        fs::mknodat(fs::CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).expect("a FIFO");
        let _socket =
            std::os::unix::net::UnixListener::bind(dir.path().join("socket")).expect("a socket");
        let root = root(&dir);
        assert_eq!(root.read("/fifo"), Err(Unread::NoFile("a FIFO")));
        assert_eq!(root.read("/"), Err(Unread::NoFile("a directory")));
        assert_eq!(root.tail("/socket", 10), Err(Unread::NoFile("a socket")));
        let own = Root::at("/").expect("a root");
        assert_eq!(
            own.read("/proc/uptime"),
            Err(Unread::NoFile("a file of the kernel"))
        );
        assert_eq!(own.read("/dev/null"), Err(Unread::NoFile("a device")));
    }

    #[test]
    fn of_a_long_file_only_the_end_is_read() {
        let dir = tempfile::tempdir().expect("directory");
        let long = File::create(dir.path().join("long")).expect("a file");
        long.set_len(4 << 30).expect("sparse");
        long.write_all_at(b"end", (4 << 30) - 3).expect("written");
        let root = root(&dir);
        assert_eq!(root.read("/long"), Err(Unread::TooLarge));
        let tail = root.tail("/long", 3).expect("its end");
        assert_eq!((tail.bytes.as_slice(), tail.length), (&b"end"[..], 4 << 30));
    }

    #[test]
    fn patterns_name_files_in_their_order() {
        let files = Memory::of(&[
            ("/etc/b.conf", ""),
            ("/etc/a.conf", ""),
            ("/etc/x/c.conf", ""),
            ("/etc/d", ""),
        ]);
        let matching = |pattern: &str| matching(&files, pattern, &mut 1000).expect("few names");
        assert_eq!(matching("/etc/*.conf"), ["/etc/a.conf", "/etc/b.conf"]);
        let nested = matching("/etc/*/c.conf");
        assert!(nested.contains(&"/etc/x/c.conf".to_owned()), "{nested:?}");
        assert_eq!(matching("/etc/d"), ["/etc/d"]);
        assert_eq!(matching("/none/*.conf"), Vec::<String>::new());
        assert_eq!(super::matching(&files, "/*/*", &mut 3), None);
    }
}
