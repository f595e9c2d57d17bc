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

/// The words behind some marks in the program that a process runs; behind the first stands its version. Programs are
/// searched once, however many processes run them.
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
    let version = |byte: u8| byte.is_ascii_digit();
    let found = marks.iter().enumerate().map(|(nth, mark)| match nth {
        0 => word_after(&bytes, mark, version),
        _ => word_after(&bytes, mark, |_| true),
    });
    let found = found.collect();
    let program = Program { found };
    locked()
        .get_or_insert_default()
        .insert(key, program.clone());
    program
}

/// The first word behind a mark that begins as it should and has any letter or digit in it.
fn word_after(bytes: &[u8], mark: &str, begins: impl Fn(u8) -> bool) -> Option<String> {
    memmem::find_iter(bytes, mark).take(64).find_map(|at| {
        let rest = &bytes[at + mark.len()..];
        let is_word = |byte: &u8| byte.is_ascii_graphic() && !b"'\"%;,()".contains(byte);
        let length = rest
            .iter()
            .take(WORD)
            .take_while(|byte| is_word(byte))
            .count();
        let word = std::str::from_utf8(&rest[..length]).ok()?;
        let told =
            word.chars().any(char::is_alphanumeric) && word.bytes().next().is_some_and(&begins);
        told.then(|| word.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_where_strings_of_a_program_end() {
        let bytes = b"x\0PHP/%s\0X-Powered-By: PHP/8.2.36\0'--with-config-file-path=/etc/php' y";
        let word = |bytes: &[u8], mark: &str| word_after(bytes, mark, |_| true);
        assert_eq!(word(bytes, "PHP/").as_deref(), Some("8.2.36"));
        assert_eq!(
            word(bytes, "--with-config-file-path=").as_deref(),
            Some("/etc/php")
        );
        assert_eq!(word(bytes, "nginx/"), None);
        // A path of nginx's own stands before its version, in some builds.
        let nginx = b"/etc/nginx/nginx.conf\0nginx/1.22.1\0";
        let version = word_after(nginx, "nginx/", |byte| byte.is_ascii_digit());
        assert_eq!(version.as_deref(), Some("1.22.1"));
        assert_eq!(program(u32::MAX, &["x"]), Program::default());
    }
}
