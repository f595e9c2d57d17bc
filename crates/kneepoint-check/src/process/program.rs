//! What a program says of itself in its own file: its version, and where it was built to look for its configuration.

use memchr::memmem;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, PoisonError};

/// Most bytes of a program that are searched.
const PROGRAM_BYTES: u64 = 96 << 20;
/// Longest value that is taken from a program.
const WORD: usize = 256;

/// What was found in a program's file. Empty where it does not say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Program {
    /// Words behind the marks that were searched for, in their order.
    found: Vec<Option<String>>,
}

impl Program {
    /// What stood behind a mark.
    pub(crate) fn word(&self, mark: usize) -> Option<&str> {
        self.found.get(mark)?.as_deref()
    }
}

type Known = HashMap<(u64, u64), Program>;

/// The words behind some marks in the program that a process runs. Programs are searched once, however many processes
/// run them.
pub(crate) fn program(pid: u32, marks: &[&str]) -> Program {
    static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
    if marks.is_empty() {
        return Program::default();
    }
    let path = format!("/proc/{pid}/exe");
    let Ok(about) = fs::metadata(&path) else {
        return Program::default();
    };
    let key = (about.dev(), about.ino());
    let locked = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = locked().as_ref().and_then(|known| known.get(&key)) {
        return program.clone();
    }
    let mut bytes = Vec::new();
    let read = File::open(&path).map(|file| file.take(PROGRAM_BYTES).read_to_end(&mut bytes));
    if !matches!(read, Ok(Ok(_))) {
        return Program::default();
    }
    let found = marks.iter().map(|mark| word_after(&bytes, mark)).collect();
    let program = Program { found };
    locked()
        .get_or_insert_default()
        .insert(key, program.clone());
    program
}

/// The first word behind a mark that has any letter or digit in it.
fn word_after(bytes: &[u8], mark: &str) -> Option<String> {
    memmem::find_iter(bytes, mark).take(64).find_map(|at| {
        let rest = &bytes[at + mark.len()..];
        let is_word = |byte: &u8| byte.is_ascii_graphic() && !b"'\"%;,()".contains(byte);
        let length = rest
            .iter()
            .take(WORD)
            .take_while(|byte| is_word(byte))
            .count();
        let word = std::str::from_utf8(&rest[..length]).ok()?;
        let told = word.chars().any(char::is_alphanumeric);
        told.then(|| word.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_where_strings_of_a_program_end() {
        let bytes = b"x\0PHP/%s\0X-Powered-By: PHP/8.2.36\0'--with-config-file-path=/etc/php' y";
        assert_eq!(word_after(bytes, "PHP/").as_deref(), Some("8.2.36"));
        assert_eq!(
            word_after(bytes, "--with-config-file-path=").as_deref(),
            Some("/etc/php")
        );
        assert_eq!(word_after(bytes, "nginx/"), None);
        assert_eq!(program(u32::MAX, &["x"]), Program::default());
    }
}
