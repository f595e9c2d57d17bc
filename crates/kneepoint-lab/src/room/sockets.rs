//! The sockets in the file system that something on the machine listens on.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The paths of all of them, of every network namespace: a path belongs to none.
///
/// # Errors
/// The machine's own table cannot be read: then nobody knows what to cover.
pub(super) fn of_the_machine() -> io::Result<BTreeSet<PathBuf>> {
    let (mut found, mut relative) = (BTreeSet::new(), BTreeMap::new());
    take(
        &fs::read("/proc/thread-self/net/unix")?,
        &mut found,
        &mut relative,
    );
    for table in tables_of_others() {
        // Whose it was may have ended.
        take(
            &fs::read(table).unwrap_or_default(),
            &mut found,
            &mut relative,
        );
    }
    if !relative.is_empty() {
        found.extend(absolute(&relative));
    }
    Ok(found)
}

/// Adds what a table names: absolute paths, and relative ones by the number of the socket.
fn take(table: &[u8], found: &mut BTreeSet<PathBuf>, relative: &mut BTreeMap<u64, PathBuf>) {
    for record in records(table) {
        let Some((inode, path)) = inode_and_path(record) else {
            continue;
        };
        let named = PathBuf::from(OsStr::from_bytes(path));
        match path.first() {
            // An abstract name is of its network namespace.
            None | Some(b'@') => {}
            Some(b'/') => {
                found.insert(named);
            }
            Some(_) => {
                relative.insert(inode, named);
            }
        }
    }
}

/// The lines below the heading. A name may hold a line break: what does not begin as a line does, belongs to the one before.
fn records(table: &[u8]) -> Vec<&[u8]> {
    let begins = |line: &[u8]| {
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit());
        let count = digits.count();
        count >= 8 && line[count..].starts_with(b": ")
    };
    let mut starts: Vec<usize> = (0..table.len())
        .filter(|at| *at > 0 && table[at - 1] == b'\n' && begins(&table[*at..]))
        .collect();
    starts.push(table.len());
    let record = |pair: &[usize]| {
        let record = &table[pair[0]..pair[1]];
        record.strip_suffix(b"\n").unwrap_or(record)
    };
    let pairs: Vec<&[usize]> = starts.windows(2).collect();
    pairs.into_iter().map(record).collect()
}

/// The last two of `Num RefCount Protocol Flags Type St Inode Path`. The inode is padded with blanks, and a path may hold some.
fn inode_and_path(record: &[u8]) -> Option<(u64, &[u8])> {
    let fields = record.splitn(7, |byte| *byte == b' ').nth(6)?;
    let padded = fields.iter().take_while(|byte| **byte == b' ').count();
    let fields = &fields[padded..];
    let end = fields.iter().position(|byte| *byte == b' ')?;
    let inode = std::str::from_utf8(&fields[..end]).ok()?.parse().ok()?;
    Some((inode, &fields[end + 1..]))
}

/// The tables of the network namespaces that other processes are in, one of each.
fn tables_of_others() -> Vec<PathBuf> {
    let own = fs::read_link("/proc/thread-self/ns/net").unwrap_or_default();
    let mut seen = BTreeSet::from([own]);
    let mut tables = Vec::new();
    for process in processes() {
        let Ok(namespace) = fs::read_link(process.join("ns/net")) else {
            continue;
        };
        if seen.insert(namespace) {
            tables.push(process.join("net/unix"));
        }
    }
    tables
}

/// Where sockets are whose name is relative: in the directory of a process that has them open.
fn absolute(relative: &BTreeMap<u64, PathBuf>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for process in processes() {
        let (Ok(open), Ok(dir)) = (
            fs::read_dir(process.join("fd")),
            fs::read_link(process.join("cwd")),
        ) else {
            continue;
        };
        let targets = open
            .flatten()
            .filter_map(|fd| fs::read_link(fd.path()).ok());
        let names = targets.filter_map(|target| relative.get(&inode(&target)?));
        found.extend(names.map(|name| dir.join(name)));
    }
    found
}

/// The number in `socket:[12345]`.
fn inode(target: &Path) -> Option<u64> {
    let text = target.to_str()?.strip_prefix("socket:[")?;
    text.strip_suffix(']')?.parse().ok()
}

fn processes() -> impl Iterator<Item = PathBuf> {
    let all = kneepoint_linux::process::all().into_iter();
    all.map(|pid| PathBuf::from(format!("/proc/{pid}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn every_name_of_a_table_is_read_whatever_bytes_it_has() {
        let table = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            00000000: 00000002 00000000 00010000 0001 01    21 /var/lib/mysql/mysql.sock\n\
            00000000: 00000002 00000000 00010000 0001 01 22345 /srv/a \xff/\nb.sock\n\
            00000000: 00000002 00000000 00010000 0001 01    22 @abstract\n\
            00000000: 00000002 00000000 00010000 0001 01    24 run/own.sock\n\
            00000000: 00000002 00000000 00000000 0001 01    23\n";
        let (mut found, mut relative) = (BTreeSet::new(), BTreeMap::new());
        take(table, &mut found, &mut relative);
        let expected = [
            PathBuf::from(OsStr::from_bytes(b"/srv/a \xff/\nb.sock")),
            PathBuf::from("/var/lib/mysql/mysql.sock"),
        ];
        assert_eq!(found, BTreeSet::from(expected));
        assert_eq!(relative, BTreeMap::from([(24, "run/own.sock".into())]));
    }

    #[test]
    fn a_name_that_is_no_text_hides_no_socket() {
        let dir = tempfile::tempdir().expect("a directory");
        let names = [&b"own.sock"[..], b"\xff\n\x1b.sock"];
        let paths = names.map(|name| dir.path().join(OsStr::from_bytes(name)));
        let _listening = paths
            .each_ref()
            .map(|path| UnixListener::bind(path).expect("bound"));
        let found = of_the_machine().expect("the table");
        assert!(paths.iter().all(|path| found.contains(path)));
    }

    #[test]
    fn a_relative_name_is_one_in_the_directory_of_who_listens() {
        let own = UnixListener::bind(tempfile::tempdir().expect("a directory").path().join("s"));
        let own = own.expect("bound");
        let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&own));
        let number = inode(&fs::read_link(link).expect("a socket")).expect("its number");
        let found = absolute(&BTreeMap::from([(number, "run/s".into())]));
        let here = std::env::current_dir().expect("a directory").join("run/s");
        assert!(found.contains(&here), "{found:?}");
    }
}
