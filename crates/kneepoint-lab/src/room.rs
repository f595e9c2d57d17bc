//! A host's own view of the file system and of shared memory: a mount and an IPC namespace in which the machine's sockets
//! and the data of its own servers are not there, and nothing but the lab's directory can be written.
//!
//! A socket in the file system belongs to no network namespace: whoever reaches its path reaches the server behind it. So a
//! host's network alone closes nothing.

pub(crate) mod names;
mod sockets;

use crate::LabError;
use names::Names;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_change, mount_remount,
};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::thread;

/// Directories that a host has for itself, empty at first, with their modes: where servers have sockets, locks, queues of
/// mail and temporary files.
const PRIVATE: [(&str, &CStr); 8] = [
    ("/run", c"mode=0755"),
    ("/var/run", c"mode=0755"),
    ("/tmp", c"mode=1777"),
    ("/var/tmp", c"mode=1777"),
    ("/var/spool", c"mode=0755"),
    ("/var/lock", c"mode=1777"),
    ("/dev/shm", c"mode=1777"),
    ("/dev/mqueue", c"mode=0755"),
];

/// The directory of these that a path of the machine lies in, so that a host does not see it.
pub(crate) fn private(path: &Path) -> Option<&'static str> {
    let mut dirs = PRIVATE.iter().map(|(dir, _)| *dir);
    dirs.find(|dir| path.starts_with(dir))
}

/// Data of the machine's own servers, whose users the lab's servers run as: not there, in a host.
const OTHERS_DATA: [&str; 6] = [
    "/var/lib/mysql",
    "/var/lib/postgresql",
    "/var/lib/redis",
    "/var/lib/valkey",
    "/var/lib/php/sessions",
    "/var/mail",
];

/// What a process joins before it runs.
#[derive(Debug)]
pub(crate) struct Room {
    mounts: OwnedFd,
    memory: OwnedFd,
}

impl Room {
    /// Makes a room in which the lab's directory is the only place of the machine that can be written, and in which these
    /// names hold.
    ///
    /// # Errors
    /// The kernel refused, as it does without root; the words say what.
    pub(crate) fn make(lab: &Path, names: Option<&Names>) -> Result<Self, LabError> {
        let made = thread::scope(|scope| {
            thread::Builder::new()
                .name("room".into())
                .spawn_scoped(scope, || furnish(lab, names))?
                .join()
                .map_err(|_| io::Error::other("the thread that made it panicked"))?
        });
        made.map_err(|error| {
            LabError::system("closing a host off from the machine's files", &error)
        })
    }

    /// Moves the calling process into the room. What it has open stays open; its directory is the root afterwards.
    ///
    /// # Errors
    /// The kernel refused. Called between fork and exec: it only makes system calls.
    pub(crate) fn enter(&self) -> io::Result<()> {
        let memory = LinkNameSpaceType::InterProcessCommunication;
        move_into_link_name_space(self.memory.as_fd(), Some(memory))?;
        move_into_link_name_space(self.mounts.as_fd(), Some(LinkNameSpaceType::Mount))?;
        Ok(())
    }
}

/// On a thread of its own: a namespace is a thread's.
fn furnish(lab: &Path, names: Option<&Names>) -> io::Result<Room> {
    let sockets = sockets::of_the_machine().map_err(said("the machine's sockets"))?;
    unshare()?;
    // What is mounted in here must not show outside.
    let apart = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", apart).map_err(said("keeping mounts apart"))?;
    // Opened here, so that it is of this namespace, and before what lies above it is covered.
    let lab_dir = File::open(lab)?;
    only_to_read()?;
    for (dir, mode) in PRIVATE {
        cover(Path::new(dir), mode)?;
    }
    for dir in OTHERS_DATA {
        cover(Path::new(dir), c"mode=0755")?;
    }
    keep(&lab_dir, lab)?;
    names.map_or(Ok(()), Names::hold)?;
    for socket in sockets {
        if !socket.starts_with(lab) {
            while_there(&socket, || mount_bind("/dev/null", &socket))?;
        }
    }
    Ok(Room {
        mounts: File::open("/proc/thread-self/ns/mnt")?.into(),
        memory: File::open("/proc/thread-self/ns/ipc")?.into(),
    })
}

#[expect(
    unsafe_code,
    reason = "rustix marks unshare unsafe for its CLONE_FILES flag"
)]
fn unshare() -> io::Result<()> {
    let flags = UnshareFlags::NEWNS | UnshareFlags::NEWIPC;
    // SAFETY: no CLONE_FILES is asked for, so no descriptor table is taken apart.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(said("unshare"))
}

fn said<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> io::Error {
    move |error| io::Error::other(format!("{what}: {error}"))
}

/// Covers a socket. Its server may take it away at any moment, and then there is nothing to cover.
fn while_there(socket: &Path, cover: impl Fn() -> rustix::io::Result<()>) -> io::Result<()> {
    let is_there = || fs::symlink_metadata(socket).is_ok_and(|it| it.file_type().is_socket());
    match is_there().then(cover) {
        Some(Err(error)) if is_there() => {
            Err(said(&format!("covering {}", socket.display()))(error))
        }
        _ => Ok(()),
    }
}

/// Puts an empty directory over one that is there.
fn cover(dir: &Path, mode: &CStr) -> io::Result<()> {
    if !fs::symlink_metadata(dir).is_ok_and(|about| about.is_dir()) {
        return Ok(());
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", dir, "tmpfs", flags, Some(mode))
        .map_err(said(&format!("an empty {}", dir.display())))
}

/// Makes the lab's directory reachable, and writable, under its own name. The one above it is shut to everybody but root:
/// in here, and only in here, another stands in its place, through which the servers' users pass.
fn keep(lab_dir: &File, lab: &Path) -> io::Result<()> {
    if let Some(above) = lab.parent() {
        fs::create_dir_all(above)?;
        cover(above, c"mode=0711")?;
    }
    fs::create_dir(lab)?;
    let way = format!("/proc/thread-self/fd/{}", lab_dir.as_raw_fd());
    mount_bind(&way, lab).map_err(said("keeping the lab's directory"))?;
    let flags = MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV;
    mount_remount(lab, flags, c"").map_err(said("keeping the lab's directory writable"))
}

/// File systems in which nothing is kept, and that programs write to.
const STAYS: [&str; 6] = ["proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2"];

/// Makes every mount one that can only be read.
fn only_to_read() -> io::Result<()> {
    for mounted in mounts(&fs::read_to_string("/proc/thread-self/mountinfo")?) {
        if STAYS.contains(&mounted.kind.as_str()) {
            continue;
        }
        let flags = mounted.flags | MountFlags::BIND | MountFlags::RDONLY;
        match mount_remount(&mounted.at, flags, c"") {
            Ok(()) => {}
            // Covered by another mount, or gone: it cannot be reached.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
            // A mount that may not be changed stays as whoever made it decided.
            Err(rustix::io::Errno::PERM) if mounted.at != Path::new("/") => {}
            Err(error) => {
                let what = format!("making {} one to read", mounted.at.display());
                return Err(said(&what)(error));
            }
        }
    }
    Ok(())
}

/// A line of `mountinfo`.
#[derive(Debug, PartialEq)]
struct Mounted {
    at: PathBuf,
    kind: String,
    flags: MountFlags,
}

/// What `mountinfo` lists (proc(5)): flags that a remount must repeat, or it would take them away.
fn mounts(text: &str) -> Vec<Mounted> {
    let one = |line: &str| {
        let (own, kind) = line.split_once(" - ")?;
        let fields: Vec<&str> = own.split(' ').collect();
        let mut flags = MountFlags::empty();
        for option in fields.get(5)?.split(',') {
            flags |= match option {
                "nosuid" => MountFlags::NOSUID,
                "nodev" => MountFlags::NODEV,
                "noexec" => MountFlags::NOEXEC,
                "noatime" => MountFlags::NOATIME,
                "nodiratime" => MountFlags::NODIRATIME,
                "relatime" => MountFlags::RELATIME,
                _ => MountFlags::empty(),
            };
        }
        Some(Mounted {
            at: unescaped(fields.get(4)?),
            kind: kind.split(' ').next()?.to_owned(),
            flags,
        })
    };
    text.lines().filter_map(one).collect()
}

/// A path in which the kernel wrote blanks and the like as `\040`.
fn unescaped(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut path = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let octal = (*byte == b'\\')
            .then(|| text.get(at + 1..at + 4))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        path.push(octal.unwrap_or(*byte));
        at += if octal.is_some() { 4 } else { 1 };
    }
    PathBuf::from(std::ffi::OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another server of the machine ends while a host is closed off.
    #[test]
    fn a_socket_that_goes_away_meanwhile_is_no_failure() {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("server.sock");
        let _server = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        let fails = || Err(rustix::io::Errno::PERM);
        let failed = while_there(&socket, fails).expect_err("it is there");
        assert!(failed.to_string().contains("server.sock"), "{failed}");
        let ends = || {
            fs::remove_file(&socket).expect("removed");
            Err(rustix::io::Errno::NOENT)
        };
        assert!(while_there(&socket, ends).is_ok());
        assert!(while_there(&socket, || panic!("nothing to cover")).is_ok());
    }

    #[test]
    fn mounts_are_read_with_the_flags_that_must_stay() {
        let text = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                    23 22 0:21 / /media/a\\040b ro,nosuid,nodev,noexec shared:2 - vfat /dev/sdb1 ro\n";
        let expected = [
            Mounted {
                at: "/".into(),
                kind: "ext4".into(),
                flags: MountFlags::RELATIME,
            },
            Mounted {
                at: "/media/a b".into(),
                kind: "vfat".into(),
                flags: MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
            },
        ];
        assert_eq!(mounts(text), expected);
    }
}
