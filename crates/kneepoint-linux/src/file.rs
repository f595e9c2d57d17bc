//! Reads small files of the kernel, numbers and words in them, and files that somebody else may put there.

use rustix::fs::{Mode, OFlags};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Reads a whole small file.
///
/// # Errors
/// The file cannot be opened or read, with its path in the message.
pub fn read(path: &str) -> io::Result<Vec<u8>> {
    let named = |why: io::Error| io::Error::new(why.kind(), format!("`{path}`: {why}"));
    let mut file = File::open(path).map_err(named)?;
    // `fs::read` asks for the size first, which `/proc` does not know.
    let mut bytes = vec![0; 4096];
    let mut length = 0;
    loop {
        if length == bytes.len() {
            bytes.resize(length * 2, 0);
        }
        match file.read(&mut bytes[length..]).map_err(named)? {
            0 => break,
            n => length += n,
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// Reads a file of `/proc` that fits one read: half the system calls of [`read`], for what is read often.
///
/// # Errors
/// The file cannot be opened or read.
pub fn read_once<'a>(path: &str, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let length = File::open(path)?.read(buffer)?;
    Ok(&buffer[..length])
}

/// Opens a file that somebody else owns, who could put something else in its place: no link is followed, nothing is waited
/// for, and nothing is opened that has no end.
///
/// # Errors
/// It is not there, may not be read, or is no regular file.
pub fn open_untrusted(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// Most files of `/proc` that one reader keeps open.
const KEPT: usize = 1024;

/// One file of `/proc/PID` of many processes, read again and again: kept open, since opening costs more than
/// reading. A kept file never shows another process that got the same PID.
#[derive(Debug)]
pub struct Kept {
    name: &'static str,
    files: HashMap<u32, File>,
}

impl Kept {
    /// Of a name within `/proc/PID`.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            files: HashMap::new(),
        }
    }

    /// Reads the file of a process.
    ///
    /// # Errors
    /// The process is gone, or may not be read.
    pub fn read<'a>(&mut self, pid: u32, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
        if let Some(file) = self.files.get(&pid) {
            if let Ok(length @ 1..) = file.read_at(buffer, 0) {
                return Ok(&buffer[..length]);
            }
            self.files.remove(&pid);
        }
        let file = File::open(format!("/proc/{pid}/{}", self.name))?;
        let length = file.read_at(buffer, 0)?;
        if self.files.len() >= KEPT {
            self.files.clear();
        }
        self.files.insert(pid, file);
        Ok(&buffer[..length])
    }

    /// Closes the files of processes that are not among these.
    pub fn retain(&mut self, pids: &[u32]) {
        if self.files.len() > pids.len() {
            let pids: HashSet<_> = pids.iter().collect();
            self.files.retain(|pid, _| pids.contains(pid));
        }
    }
}

/// A decimal number at the start of some bytes.
#[must_use]
pub fn number(bytes: &[u8]) -> Option<u64> {
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    std::str::from_utf8(&bytes[..digits]).ok()?.parse().ok()
}

/// The blank-separated words of some bytes.
pub fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

/// The number behind `key` at the start of a line: `nr_periods 5`, `Pss:   120 kB`.
#[must_use]
pub fn keyed(bytes: &[u8], key: &str) -> Option<u64> {
    bytes.split(|b| *b == b'\n').find_map(|line| {
        let rest = line.strip_prefix(key.as_bytes())?;
        rest.first()?.is_ascii_whitespace().then_some(())?;
        number(rest.trim_ascii_start())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyed_numbers_need_the_whole_key() {
        assert_eq!(keyed(b"a 1\nnr_throttled 3\n", "nr_throttled"), Some(3));
        assert_eq!(keyed(b"nr_throttled 3\n", "nr"), None);
        let status = b"Name:\tx\nVmHWMX:\t 1 kB\nVmHWM:\t    2048 kB\nVmRSS:\t1024 kB\n";
        assert_eq!(keyed(status, "VmHWM:"), Some(2048));
        assert_eq!(keyed(status, "Pss:"), None);
        assert_eq!(keyed(b"Pss:\tmany kB\n", "Pss:"), None);
    }

    #[test]
    fn a_file_is_kept_for_its_process() {
        let mut kept = Kept::new("stat");
        let mut buffer = [0; 512];
        let own = std::process::id();
        for _ in 0..2 {
            let stat = kept.read(own, &mut buffer).expect("we live");
            assert_eq!(number(stat), Some(u64::from(own)));
        }
        kept.retain(&[]);
        assert!(kept.read(u32::MAX, &mut buffer).is_err());
        let error = read("/proc/none/stat").expect_err("no such file");
        assert!(error.to_string().contains("`/proc/none/stat`"), "{error}");
    }

    #[test]
    fn what_blocks_or_never_ends_is_not_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::fs::write(&file, "x").expect("a file");
        std::os::unix::fs::symlink("/etc/passwd", &link).expect("a link");
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .expect("a pipe");
        assert!(open_untrusted(&file).is_ok());
        for path in [&link, &pipe, Path::new("/dev/zero"), dir.path()] {
            assert!(open_untrusted(path).is_err(), "{}", path.display());
        }
    }
}
