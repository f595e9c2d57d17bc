//! What OPcache says of itself, from the memory that it shares among workers: no script runs, and nothing is asked.
//!
//! opcache.so exports nothing, but its shared memory begins with `zend_smm_shared_globals` (ext/opcache/zend_shared_alloc.h),
//! which points to `zend_accel_shared_globals` (ext/opcache/ZendAccelerator.h), both within the same memory. They are known
//! by that: every pointer leads into the memory, the size of the table is one of OPcache's primes, and counts fit one
//! another. What does not look so is not told. Compared with opcache_get_status() of PHP 8.2; a version that is laid out
//! otherwise is not recognised.

use crate::error::ProfilerError;
use crate::memory::{Memory, ProcessMemory, ReadError, half, word};
use std::ops::Range;

/// OPcache's memory is no smaller than this, in bytes.
const LEAST: u64 = 8 << 20;
/// Sizes of its table (ext/opcache/zend_accel_hash.c).
const PRIMES: [u32; 18] = [
    5, 11, 19, 53, 107, 223, 463, 983, 1979, 3907, 7963, 16229, 32531, 65407, 130_987, 262_237,
    524_521, 1_048_793,
];
/// Bytes of the globals that are looked at.
const GLOBALS: usize = 1600;
/// `sizeof(zend_string_table)`: two counts and four pointers.
const STRING_TABLE: u64 = 40;

/// OPcache's own numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpcacheState {
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Bytes that old versions of scripts take.
    pub wasted_bytes: u64,
    /// Whether it found no room for something since its last start.
    pub exhausted: bool,
    /// Scripts that were taken from it.
    pub hits: u64,
    /// Scripts that had to be compiled.
    pub misses: u64,
    /// Restarts for want of memory.
    pub oom_restarts: u64,
    /// Restarts for want of keys.
    pub hash_restarts: u64,
    /// Restarts that somebody asked for.
    pub manual_restarts: u64,
    /// Scripts it keeps.
    pub scripts: u32,
    /// Keys in use: a script has one for each path it is asked by.
    pub keys: u32,
    /// Keys there are.
    pub most_keys: u32,
    /// Bytes of the buffer of interned strings that are used, and all of them; `None` where it was not found.
    pub strings: Option<(u64, u64)>,
}

/// OPcache's numbers in a process; `None` where it has no shared memory, or is laid out in a way that is not known.
///
/// # Errors
/// The process is gone or may not be read.
pub fn opcache(pid: u32) -> Result<Option<OpcacheState>, ProfilerError> {
    looked(pid, state)
}

/// What is found first in the memory that a process shares with others.
pub(super) fn looked<T>(
    pid: u32,
    look: impl Fn(&ProcessMemory, &Range<u64>) -> Result<Option<T>, ReadError>,
) -> Result<Option<T>, ProfilerError> {
    let maps = kneepoint_linux::file::read(&format!("/proc/{pid}/maps"))
        .map_err(|_| ProfilerError::Gone { pid })?;
    let memory = ProcessMemory::of(pid).ok_or(ProfilerError::Gone { pid })?;
    for range in shared(&String::from_utf8_lossy(&maps)) {
        match look(&memory, &range) {
            Ok(Some(found)) => return Ok(Some(found)),
            Ok(None) | Err(ReadError::Unmapped) => {}
            Err(ReadError::Gone) => return Err(ProfilerError::Gone { pid }),
            Err(ReadError::Denied) => return Err(ProfilerError::denied(pid)),
        }
    }
    Ok(None)
}

/// Shared memory without a file of a disk, of a size that OPcache may have.
fn shared(maps: &str) -> Vec<Range<u64>> {
    let lines = maps.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let rights = fields.next()?;
        let path = fields.nth(3).unwrap_or_default();
        let kinds = ["/dev/zero", "/anon_hugepage", "/SYSV", "/memfd:"];
        let is_its = path.is_empty() || kinds.iter().any(|kind| path.starts_with(kind));
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let range = hex(start)?..hex(end)?;
        (rights == "rw-s" && is_its && range.end.checked_sub(range.start)? >= LEAST)
            .then_some(range)
    });
    lines.collect()
}

fn state(memory: &impl Memory, all: &Range<u64>) -> Result<Option<OpcacheState>, ReadError> {
    let found = table(memory, all)?;
    Ok(found.map(|(state, _)| state))
}

/// OPcache's numbers, and where the entries of its table are.
pub(super) fn table(
    memory: &impl Memory,
    all: &Range<u64>,
) -> Result<Option<(OpcacheState, u64)>, ReadError> {
    let head = memory.bytes(all.start, 64)?;
    let Some((free_bytes, wasted_bytes, exhausted, at)) = allocator(&head, all) else {
        return Ok(None);
    };
    let length = GLOBALS.min(usize::try_from(all.end - at).unwrap_or(0));
    let globals = memory.bytes(at, length)?;
    let state = numbers(&globals, all).map(|state| OpcacheState {
        free_bytes,
        wasted_bytes,
        exhausted,
        strings: strings(&globals, at, all),
        ..state
    });
    Ok(state.zip(word(&globals, 56)))
}

/// `zend_smm_shared_globals`: free and wasted bytes, whether memory was exhausted, and where OPcache's globals are.
fn allocator(head: &[u8], all: &Range<u64>) -> Option<(u64, u64, bool, u64)> {
    let size = all.end - all.start;
    let pointer = |offset| word(head, offset).filter(|at| all.contains(at) && at.is_multiple_of(8));
    let within = |offset| word(head, offset).filter(|bytes| *bytes <= size);
    pointer(0)?;
    half(head, 8).filter(|segments| (1..=64).contains(segments))?;
    let (free, wasted) = (within(16)?, within(24)?);
    let exhausted = *head.get(32)?;
    // The state that it goes back to at a restart: positions of the segments, and what was free.
    pointer(40)?;
    within(48).filter(|saved| *saved >= free)?;
    let globals = pointer(56)?;
    (exhausted <= 1 && free + wasted <= size).then_some((free, wasted, exhausted == 1, globals))
}

/// `zend_accel_shared_globals` up to its table: six counters, two pointers, three counts.
fn numbers(globals: &[u8], all: &Range<u64>) -> Option<OpcacheState> {
    let count = |offset| word(globals, offset);
    for offset in [48, 56] {
        word(globals, offset).filter(|at| all.contains(at))?;
    }
    let (keys, most_keys, scripts) = (half(globals, 64)?, half(globals, 68)?, half(globals, 72)?);
    let fits = PRIMES.contains(&most_keys) && keys <= most_keys && scripts <= keys;
    Some(OpcacheState {
        hits: count(0)?,
        misses: count(8)?,
        oom_restarts: count(24)?,
        hash_restarts: count(32)?,
        manual_restarts: count(40)?,
        scripts,
        keys,
        most_keys,
        ..OpcacheState::default()
    })
    .filter(|_| fits)
}

/// `zend_string_table`, the last of the globals: two counts, then where the strings begin, are filled to, end, and were
/// filled to at the start. Its slots lie between it and the strings, and count as a part of the buffer.
fn strings(globals: &[u8], at: u64, all: &Range<u64>) -> Option<(u64, u64)> {
    (80..globals.len().saturating_sub(STRING_TABLE as usize))
        .step_by(8)
        .find_map(|offset| {
            let pointers = [8, 16, 24, 32].map(|next| word(globals, offset + next));
            let [Some(start), Some(top), Some(end), Some(saved)] = pointers else {
                return None;
            };
            let slots = at + offset as u64 + STRING_TABLE;
            let inside = all.contains(&start) && end <= all.end && slots < start;
            let ordered = start <= saved && saved <= top && top <= end && start < end;
            (inside && ordered).then(|| (top - slots, end - slots))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn only_large_shared_memory_is_looked_into() {
        let maps = "56069f800000-5606a7800000 rw-s 00000000 00:01 46 /dev/zero (deleted)\n\
            7f0000000000-7f0000001000 rw-s 00000000 00:01 47 /dev/zero (deleted)\n\
            7f0010000000-7f0020000000 rw-p 00000000 00:00 0\n\
            7f0030000000-7f0040000000 rw-s 00000000 fe:00 9 /var/lib/x\n";
        let found: Vec<(u64, u64)> = shared(maps)
            .iter()
            .map(|range| (range.start, range.end))
            .collect();
        assert_eq!(found, [(0x5606_9f80_0000, 0x5606_a780_0000)]);
        assert!(shared("odd\n").is_empty());
    }

    /// Numbers of the status that PHP itself prints, by name.
    fn said(status: &str, name: &str) -> u64 {
        let (_, rest) = status.split_once(&format!("\"{name}\":")).expect(name);
        let end = rest.find(|c: char| !c.is_ascii_digit()).expect("an end");
        rest[..end].parse().expect("a number")
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the test starts the PHP it looks into"
    )]
    fn the_numbers_are_those_that_php_tells_itself() {
        let dir = tempfile::tempdir().expect("directory");
        let file = dir.path().join("a.php");
        std::fs::write(&file, "<?php return 'something of its own';\n").expect("written");
        let script = format!(
            "<?php include '{0}'; include '{0}'; echo json_encode(opcache_get_status(false)), \"\\n\"; fgets(STDIN);",
            file.display()
        );
        let main = dir.path().join("main.php");
        std::fs::write(&main, script).expect("written");
        let php = Command::new("php8.2")
            .args(["-d", "opcache.enable_cli=1"])
            .args(["-d", "opcache.file_update_protection=0"])
            .arg(&main)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        // Without this PHP there is nothing to compare with.
        let Ok(mut php) = php else { return };
        let mut status = String::new();
        let output = php.stdout.take().expect("its output");
        BufReader::new(output)
            .read_line(&mut status)
            .expect("a line");
        let found = opcache(php.id());
        let scripts = crate::process::scripts::opcache_scripts(php.id());
        drop(php.stdin.take());
        php.wait().expect("it ends");
        if !status.contains("memory_usage") {
            return;
        }
        let found = found.expect("it may be read").expect("it is recognised");
        let scripts = scripts.expect("it may be read").expect("recognised");
        assert_eq!(scripts.len(), found.scripts as usize, "{scripts:?}");
        assert!(scripts.contains(&file.display().to_string()), "{scripts:?}");
        let (used, size) = found.strings.expect("the strings");
        let told = [
            ("free_memory", found.free_bytes),
            ("wasted_memory", found.wasted_bytes),
            ("num_cached_scripts", u64::from(found.scripts)),
            ("num_cached_keys", u64::from(found.keys)),
            ("max_cached_keys", u64::from(found.most_keys)),
            ("hits", found.hits),
            ("misses", found.misses),
            ("oom_restarts", found.oom_restarts),
            ("hash_restarts", found.hash_restarts),
            ("buffer_size", size),
        ];
        for (name, own) in told {
            assert_eq!(own, said(&status, name), "{name}: {status}");
        }
        let (_, interned) = status
            .split_once("interned_strings_usage")
            .expect("strings");
        assert_eq!(used, said(interned, "used_memory"), "{status}");
    }

    proptest! {
        #[test]
        fn any_memory_is_judged_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), start in 0..u64::MAX / 2) {
            let all = start..start + LEAST;
            let _ = allocator(&bytes, &all);
            let _ = numbers(&bytes, &all);
            let _ = strings(&bytes, start, &all);
        }
    }
}
