//! The settings of php.ini that are in force in a process, from its memory: no script runs, and nothing is asked.
//!
//! `executor_globals` points to the table of all directives (`EG(ini_directives)`). Where it does so differs between
//! versions, so every word of the globals is tried: the table is the one that has an entry `memory_limit` whose own name
//! is the same. Its layout has been one from PHP 7.4 to 8.5 (Zend/zend_types.h, Zend/zend_ini.h).

use crate::error::ProfilerError;
use crate::memory::{Memory, ProcessMemory, Range, ReadError, half, word};
use crate::process::Finder;
use crate::process::elf::{Globals, Symbol};
use std::collections::BTreeMap;

/// Most bytes of the globals that are searched; no version has more.
const GLOBALS: u64 = 4096;
/// Entries of a table that may be that of the directives.
const ENTRIES: std::ops::RangeInclusive<u32> = 40..=8192;
/// `sizeof(Bucket)`: value, hash, key.
const BUCKET: usize = 32;
/// Longest value that is read, in bytes.
const VALUE: usize = 512;
/// Where the text of a `zend_string` begins, behind its counter, hash and length.
const TEXT: usize = 24;
/// A directive that no PHP is without.
const KNOWN: &str = "memory_limit";

/// Every directive of a process with its value, as PHP has it now. A worker of PHP-FPM has those of its pool.
///
/// # Errors
/// It is no PHP, may not be read, is one that was built for threads, or its memory does not look as expected.
pub fn ini(pid: u32) -> Result<BTreeMap<String, String>, ProfilerError> {
    let symbols = Finder::default().find(pid)?;
    let Globals::Variables { executor, .. } = symbols.globals else {
        return Err(ProfilerError::ThreadSafe { pid });
    };
    let memory = ProcessMemory::of(pid).ok_or(ProfilerError::Gone { pid })?;
    match directives(&memory, executor) {
        Ok(Some(directives)) => Ok(directives),
        Err(ReadError::Gone) => Err(ProfilerError::Gone { pid }),
        Err(ReadError::Denied) => Err(ProfilerError::denied(pid)),
        Ok(None) | Err(ReadError::Unmapped) => Err(ProfilerError::Layout {
            pid,
            version: "7.4 to 8.5".to_owned(),
            field: "executor_globals.ini_directives",
            found: "no such table".to_owned(),
            expected: "a table with the directive `memory_limit`",
        }),
    }
}

fn directives(
    memory: &impl Memory,
    globals: Symbol,
) -> Result<Option<BTreeMap<String, String>>, ReadError> {
    let length = usize::try_from(globals.size.min(GLOBALS)).unwrap_or(0) & !7;
    let words = memory.bytes(globals.at, length)?;
    for offset in (0..length).step_by(8) {
        let Some(table) = word(&words, offset).filter(|at| *at != 0 && at.is_multiple_of(8)) else {
            continue;
        };
        if let Some(directives) = table_at(memory, table)? {
            return Ok(Some(directives));
        }
    }
    Ok(None)
}

/// The directives of a table; `None` where what is there is no table of them.
fn table_at(memory: &impl Memory, at: u64) -> Result<Option<BTreeMap<String, String>>, ReadError> {
    let Some(table) = present(memory.bytes(at, 56))? else {
        return Ok(None);
    };
    let (data, used) = (word(&table, 16).unwrap_or(0), half(&table, 24).unwrap_or(0));
    let elements = half(&table, 28).unwrap_or(0);
    if !ENTRIES.contains(&used) || elements > used || data == 0 || !data.is_multiple_of(8) {
        return Ok(None);
    }
    let Some(buckets) = present(memory.bytes(data, used as usize * BUCKET))? else {
        return Ok(None);
    };
    let pairs: Vec<(u64, u64)> = buckets
        .chunks_exact(BUCKET)
        .filter_map(|bucket| Some((word(bucket, 0)?, word(bucket, 24)?)))
        .filter(|(entry, key)| *entry != 0 && *key != 0)
        .collect();
    let keys = texts(memory, pairs.iter().map(|(_, key)| *key))?;
    if !keys.iter().any(|key| key.as_deref() == Some(KNOWN)) {
        return Ok(None);
    }
    entries(memory, &pairs, keys)
}

/// The values of entries, where their own names are the keys.
fn entries(
    memory: &impl Memory,
    pairs: &[(u64, u64)],
    keys: Vec<Option<String>>,
) -> Result<Option<BTreeMap<String, String>>, ReadError> {
    // `zend_ini_entry`: its name is first, its value behind a function and three arguments.
    let ranges: Vec<Range> = pairs
        .iter()
        .map(|(at, _)| Range { at: *at, len: 48 })
        .collect();
    let found = memory.gather(&ranges)?;
    let fields = |index: usize| (word(found.part(index), 0), word(found.part(index), 40));
    let names = texts(
        memory,
        (0..pairs.len()).map(|index| fields(index).0.unwrap_or(0)),
    )?;
    let same = names
        .iter()
        .zip(&keys)
        .filter(|(name, key)| name == key)
        .count();
    // Other tables may have such a key; their entries do not begin with it.
    if same * 10 < keys.len() * 9 {
        return Ok(None);
    }
    let values = texts(
        memory,
        (0..pairs.len()).map(|index| fields(index).1.unwrap_or(0)),
    )?;
    let all = keys.into_iter().zip(values);
    Ok(Some(
        all.filter_map(|(key, value)| Some((key?, value.unwrap_or_default())))
            .collect(),
    ))
}

/// The texts of strings of PHP; `None` for those that are not there.
pub(super) fn texts(
    memory: &impl Memory,
    places: impl Iterator<Item = u64>,
) -> Result<Vec<Option<String>>, ReadError> {
    let places: Vec<u64> = places.collect();
    let heads: Vec<Range> = places
        .iter()
        .map(|at| Range { at: *at, len: TEXT })
        .collect();
    let heads = memory.gather(&heads)?;
    let bodies: Vec<Range> = places
        .iter()
        .enumerate()
        .map(|(index, at)| {
            let length = word(heads.part(index), 16).unwrap_or(0);
            let length = usize::try_from(length).unwrap_or(0).min(VALUE);
            Range {
                at: at.wrapping_add(TEXT as u64),
                len: length,
            }
        })
        .collect();
    // A range of no bytes would end what is copied in one go.
    let filled: Vec<Range> = bodies.iter().copied().filter(|one| one.len > 0).collect();
    let found = memory.gather(&filled)?;
    let mut next = 0;
    Ok(bodies
        .iter()
        .enumerate()
        .map(|(index, body)| {
            if body.len == 0 {
                let is_there = heads.part(index).len() == TEXT;
                return is_there.then(String::new);
            }
            next += 1;
            let bytes = found.part(next - 1);
            (bytes.len() == body.len).then(|| String::from_utf8_lossy(bytes).into_owned())
        })
        .collect())
}

/// What is not mapped is not there; anything else is an error.
fn present(read: Result<Vec<u8>, ReadError>) -> Result<Option<Vec<u8>>, ReadError> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(ReadError::Unmapped) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fake, Words};
    use proptest::prelude::*;

    const GLOBALS_AT: u64 = 0x1000;
    const TABLE: u64 = 0x2000;
    const DATA: u64 = 0x3000;

    /// A table of so many directives; the third is the one that is looked for.
    fn memory(count: u64, own_names: bool) -> Words {
        let mut words = Words::default();
        for at in (0..64).step_by(8) {
            words.put(GLOBALS_AT + at, 0);
        }
        words.put(GLOBALS_AT + 40, TABLE);
        for at in (0..56).step_by(8) {
            words.put(TABLE + at, 0);
        }
        words.put(TABLE + 16, DATA);
        words.put(TABLE + 24, count | count << 32);
        for index in 0..count {
            let (bucket, entry, key, value) = (
                DATA + index * 32,
                0x10_0000 + index * 0x100,
                0x20_0000 + index * 0x100,
                0x30_0000 + index * 0x100,
            );
            words.put(bucket, entry);
            words.put(bucket + 8, 0);
            words.put(bucket + 16, 0);
            words.put(bucket + 24, key);
            for at in (0..48).step_by(8) {
                words.put(entry + at, 0);
            }
            let name = if index == 3 {
                KNOWN.to_owned()
            } else {
                format!("name.{index}")
            };
            words.string(key, &name);
            words.put(entry, if own_names { key } else { value });
            if index != 4 {
                words.put(entry + 40, value);
            }
            words.string(value, if index == 5 { "" } else { "64M" });
        }
        words
    }

    fn read(words: &Words) -> Option<BTreeMap<String, String>> {
        let globals = Symbol {
            at: GLOBALS_AT,
            size: 64,
        };
        directives(&words.memory(), globals).expect("readable")
    }

    #[test]
    fn the_table_is_found_wherever_the_globals_point_to_it() {
        let found = read(&memory(50, true)).expect("a table");
        assert_eq!(found.len(), 50);
        assert_eq!(found[KNOWN], "64M");
        // Nobody gave it a value; somebody gave it an empty one.
        assert_eq!(
            (found["name.4"].as_str(), found["name.5"].as_str()),
            ("", "")
        );
    }

    #[test]
    fn other_tables_are_not_taken_for_it() {
        assert_eq!(read(&memory(50, false)), None);
        assert_eq!(read(&memory(5, true)), None);
    }

    #[test]
    fn a_process_without_php_is_refused() {
        assert!(matches!(
            ini(std::process::id()),
            Err(ProfilerError::NotPhp { .. })
        ));
    }

    proptest! {
        #[test]
        fn no_memory_panics(words in proptest::collection::vec(prop_oneof![
            (0_u64..512).prop_map(|n| n * 8), any::<u64>(),
        ], 512)) {
            let memory = Fake::flat(&words);
            let _ = directives(&memory, Symbol { at: 8, size: 512 });
        }
    }
}
