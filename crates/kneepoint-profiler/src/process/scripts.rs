//! The scripts that OPcache keeps, from the memory that it shares among workers: no script runs, and nothing is asked.
//!
//! The entries of its table stand in one array, in the order in which they came (ext/opcache/zend_accelerator_hash.h). An entry
//! is for a script, which begins with the name of its file (`zend_script`), or for another entry, where the same script is asked
//! for by another path. From PHP 8.1 on the key is a string of PHP; before, its length stands behind it. Which of the two it
//! is, the entries tell: in the other layout numbers stand where pointers do.

use super::ini::texts;
use super::opcache::{looked, table};
use crate::error::ProfilerError;
use crate::memory::{Memory, Range, ReadError, word};
use std::ops;

/// Most entries that are read \[ours\]: four megabytes of them, and some hundred calls for the names.
const MOST: u32 = 100_000;

/// Where the fields of an entry stand, and how long it is.
struct Layout {
    next: usize,
    data: usize,
    indirect: usize,
    bytes: usize,
}

const LAYOUTS: [Layout; 2] = [
    // PHP 8.1 and later: hash, key, next, data, whether it is for another entry.
    Layout {
        next: 16,
        data: 24,
        indirect: 32,
        bytes: 40,
    },
    // Before: hash, key, its length, next, data, and so on.
    Layout {
        next: 24,
        data: 32,
        indirect: 40,
        bytes: 48,
    },
];

/// The files of the scripts that OPcache keeps in a process, of each path its first 512 bytes; `None` where it has no shared
/// memory, is laid out in a way that is not known, or keeps more than a hundred thousand.
///
/// # Errors
/// The process is gone or may not be read.
pub fn opcache_scripts(pid: u32) -> Result<Option<Vec<String>>, ProfilerError> {
    looked(pid, kept)
}

fn kept(memory: &impl Memory, all: &ops::Range<u64>) -> Result<Option<Vec<String>>, ReadError> {
    let Some((state, at)) = table(memory, all)?.filter(|(state, _)| state.keys <= MOST) else {
        return Ok(None);
    };
    if state.keys == 0 {
        return Ok(Some(Vec::new()));
    }
    for layout in &LAYOUTS {
        let length = state.keys as usize * layout.bytes;
        // What is behind the shared memory is not its own.
        if all.end.saturating_sub(at) < length as u64 {
            continue;
        }
        let entries = match memory.bytes(at, length) {
            Err(ReadError::Unmapped) => continue,
            read => read?,
        };
        let scripts = layout.scripts(&entries, all);
        let scripts = scripts.filter(|scripts| scripts.len() >= state.scripts as usize);
        if let Some(scripts) = scripts {
            return names(memory, &scripts, all).map(Some);
        }
    }
    Ok(None)
}

impl Layout {
    /// Where the scripts of entries are; `None` where one of these is laid out otherwise.
    fn scripts(&self, entries: &[u8], all: &ops::Range<u64>) -> Option<Vec<u64>> {
        let leads = |at: &u64| all.contains(at) && at.is_multiple_of(8);
        let mut scripts = Vec::new();
        for entry in entries.chunks_exact(self.bytes) {
            let data = word(entry, self.data).filter(leads)?;
            word(entry, self.next).filter(|next| *next == 0 || leads(next))?;
            match entry.get(self.indirect)? {
                0 => scripts.push(data),
                1 => {}
                _ => return None,
            }
        }
        Some(scripts)
    }
}

/// The names of the files of scripts, as far as they are in the shared memory and can be read.
fn names(
    memory: &impl Memory,
    scripts: &[u64],
    all: &ops::Range<u64>,
) -> Result<Vec<String>, ReadError> {
    let head = |at: &u64| Range { at: *at, len: 8 };
    let heads: Vec<Range> = scripts.iter().map(head).collect();
    let heads = memory.gather(&heads)?;
    let places = (0..scripts.len()).map(|index| word(heads.part(index), 0).unwrap_or(0));
    let names = texts(memory, places.filter(|at| all.contains(at)))?;
    Ok(names.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Words;
    use proptest::prelude::*;

    const START: u64 = 0x1000;
    const GLOBALS: u64 = START + 0x100;
    const ENTRIES: u64 = START + 0x400;
    const ALL: ops::Range<u64> = START..START + (8 << 20);

    /// Memory of OPcache with two scripts, of which the second is asked for by two paths.
    fn memory(layout: &Layout, second: &str) -> Words {
        let mut words = Words::default();
        // `zend_smm_shared_globals`: a segment, free bytes, where it goes back to, and the globals.
        for (at, word) in [
            (0, START),
            (8, 1),
            (16, 64),
            (40, START),
            (48, 64),
            (56, GLOBALS),
        ] {
            words.put(START + at, word);
        }
        // The table: its slots, its entries, three of 463 keys, two scripts.
        for (at, word) in [(48, START), (56, ENTRIES), (64, 463 << 32 | 3), (72, 2)] {
            words.put(GLOBALS + at, word);
        }
        let (scripts, strings) = (START + 0x800, START + 0xa00);
        for (nth, indirect) in [(0, 0), (1, 0), (2, 1)] {
            let entry = ENTRIES + nth * layout.bytes as u64;
            let data = match indirect {
                0 => scripts + nth * 64,
                _ => ENTRIES + layout.bytes as u64,
            };
            // The key, and behind it what is no pointer where the key has a length.
            words.put(entry + 8, strings);
            if layout.next > 16 {
                words.put(entry + 16, 21);
            }
            words.put(entry + layout.data as u64, data);
            words.put(entry + layout.indirect as u64, indirect);
        }
        for (nth, name) in [(0, "/srv/a.php"), (1, second)] {
            words.put(scripts + nth * 64, strings + nth * 0x100);
            words.string(strings + nth * 0x100, name);
        }
        words
    }

    fn found(words: &Words) -> Option<Vec<String>> {
        kept(&words.memory(), &ALL).expect("readable")
    }

    #[test]
    fn each_script_is_named_once_in_both_layouts() {
        for layout in &LAYOUTS {
            let words = memory(layout, "/srv/releases/7/b.php");
            let found = found(&words).expect("a table");
            assert_eq!(found, ["/srv/a.php", "/srv/releases/7/b.php"]);
        }
    }

    #[test]
    fn what_is_laid_out_otherwise_is_not_told() {
        let mut words = memory(&LAYOUTS[0], "/b.php");
        words.put(ENTRIES + 24, 3);
        assert_eq!(found(&words), None);
        let mut words = memory(&LAYOUTS[0], "/b.php");
        words.put(GLOBALS + 72, 3);
        assert_eq!(found(&words), None, "fewer than it says");
        let mut words = memory(&LAYOUTS[0], "/b.php");
        words.put(GLOBALS + 64, 262_237 << 32 | 200_000);
        assert_eq!(found(&words), None, "too many");
    }

    #[test]
    fn nothing_is_read_that_is_not_in_the_shared_memory() {
        let mut words = memory(&LAYOUTS[0], "/b.php");
        words.put(START + 0x800 + 64, 0x100);
        words.string(0x100, "/secret");
        assert_eq!(found(&words), Some(vec!["/srv/a.php".to_owned()]));
        // Its memory ends behind the entries, or within them.
        for nth in 0..3 {
            words.put(ENTRIES + nth * 40 + 24, START + 0x300);
        }
        words.put(START + 0x300, START + 0x320);
        words.string(START + 0x320, "/a.php");
        let of = |bytes: u64| kept(&words.memory(), &(START..ENTRIES + bytes)).expect("readable");
        assert_eq!(of(120).map(|names| names.len()), Some(2));
        assert_eq!(of(119), None);
    }

    proptest! {
        #[test]
        fn no_entries_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for layout in &LAYOUTS {
                let _ = layout.scripts(&bytes, &ALL);
            }
        }
    }
}
