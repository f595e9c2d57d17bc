//! What a program says of itself in its own file: its version, and where it was built to look for its configuration.

use memchr::memmem;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, PoisonError};

/// Most bytes of a program that are searched.
const PROGRAM_BYTES: u64 = 96 << 20;
/// Bytes of it that are searched at once.
const PIECE: u64 = 1 << 20;
/// Longest value that is taken from a program.
const WORD: usize = 256;

/// What was found in a program's file. Empty where it does not say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Program {
    /// Words behind the marks that were searched for, in their order.
    found: Vec<Option<String>>,
    /// Whether it was read to its end, and holds nothing that such a program has.
    other: bool,
}

impl Program {
    /// What stood behind a mark.
    pub(crate) fn word(&self, mark: usize) -> Option<&str> {
        self.found.get(mark)?.as_deref()
    }

    /// One that says these words.
    #[cfg(test)]
    pub(crate) fn saying(words: &[Option<&str>]) -> Self {
        Self {
            found: words.iter().map(|word| word.map(str::to_owned)).collect(),
            other: false,
        }
    }

    /// Whether its file was read, and is surely another program.
    pub(crate) fn is_other(&self) -> bool {
        self.other
    }
}

/// What is searched in a program.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Marks {
    /// Those with words behind them; behind the first stands its version.
    pub(crate) words: &'static [&'static str],
    /// Texts of which every such program has one; none where no text is sure.
    pub(crate) own: &'static [&'static str],
}

type Known = HashMap<(u64, u64, &'static str), Program>;

/// What the program that a process runs says. Programs are searched once, however many processes run them.
pub(crate) fn program(pid: u32, marks: Marks) -> Program {
    static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
    let Some(first) = marks.words.iter().chain(marks.own).next() else {
        return Program::default();
    };
    let path = format!("/proc/{pid}/exe");
    let Ok(about) = fs::metadata(&path) else {
        return Program::default();
    };
    let key = (about.dev(), about.ino(), *first);
    let locked = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = locked().as_ref().and_then(|known| known.get(&key)) {
        return program.clone();
    }
    let read = File::open(&path).and_then(|file| searched(file.take(PROGRAM_BYTES), marks));
    let Ok(program) = read else {
        return Program::default();
    };
    locked()
        .get_or_insert_default()
        .insert(key, program.clone());
    program
}

/// Searches a program piece by piece: some have a hundred megabytes.
fn searched(mut file: impl Read, marks: Marks) -> io::Result<Program> {
    let mut found: Vec<Option<String>> = vec![None; marks.words.len()];
    let mut is_own = marks.own.is_empty();
    let (mut bytes, mut length) = (Vec::new(), 0);
    loop {
        let read = file.by_ref().take(PIECE).read_to_end(&mut bytes)?;
        length += read as u64;
        // What begins near the end of a piece is looked for in the next, where it is whole.
        let ends = match read {
            0 => bytes.len(),
            _ => bytes.len().saturating_sub(2 * WORD),
        };
        for (nth, (word, mark)) in found.iter_mut().zip(marks.words).enumerate() {
            let begins = |byte: u8| nth > 0 || byte.is_ascii_digit();
            if word.is_none() {
                *word = word_after(&bytes, mark, ends, begins);
            }
        }
        let has = |mark: &str| memmem::find(&bytes, mark.as_bytes()).is_some();
        is_own = is_own || marks.own.iter().any(|mark| has(mark));
        if read == 0 || (is_own && found.iter().all(Option::is_some)) {
            break;
        }
        bytes.drain(..ends);
    }
    Ok(Program {
        found,
        other: !is_own && length < PROGRAM_BYTES,
    })
}

/// The first word behind a mark before an end, that begins as it should and has any letter or digit in it.
fn word_after(
    bytes: &[u8],
    mark: &str,
    ends: usize,
    begins: impl Fn(u8) -> bool,
) -> Option<String> {
    let mut places = memmem::find_iter(bytes, mark).take_while(|at| *at < ends);
    places.find_map(|at| {
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
        let word = |bytes: &[u8], mark: &str| word_after(bytes, mark, bytes.len(), |_| true);
        assert_eq!(word(bytes, "PHP/").as_deref(), Some("8.2.36"));
        assert_eq!(
            word(bytes, "--with-config-file-path=").as_deref(),
            Some("/etc/php")
        );
        assert_eq!(word(bytes, "nginx/"), None);
        // A path of nginx's own stands before its version, in some builds.
        let nginx = b"/etc/nginx/nginx.conf\0nginx/1.22.1\0";
        let version = word_after(nginx, "nginx/", nginx.len(), |byte| byte.is_ascii_digit());
        assert_eq!(version.as_deref(), Some("1.22.1"));
        assert_eq!(program(u32::MAX, MARKS), Program::default());
    }

    const MARKS: Marks = Marks {
        words: &["nginx/", "--prefix="],
        own: &["worker_connections"],
    };

    #[test]
    fn a_program_is_another_where_it_holds_nothing_of_its_own() {
        let is_other = |bytes: &[u8], marks| searched(bytes, marks).expect("read").is_other();
        assert!(is_other(b"\x7fELF sleep", MARKS));
        assert!(!is_other(b"\x7fELF worker_connections", MARKS));
        // Where no mark is known, the name is believed; and where the end was not seen.
        assert!(!is_other(b"\x7fELF sleep", Marks::default()));
        let endless = io::repeat(b'x').take(PROGRAM_BYTES);
        assert!(!searched(endless, MARKS).expect("read").is_other());
    }

    #[test]
    fn what_lies_across_two_pieces_is_found() {
        for before in PIECE as usize - 30..PIECE as usize + 3 {
            let mut bytes = vec![b'x'; before];
            bytes.extend(b"\0nginx/1.22.1\0worker_connections\0");
            let found = searched(bytes.as_slice(), MARKS).expect("read");
            assert_eq!(found.word(0), Some("1.22.1"), "{before}");
            assert!(!found.is_other(), "{before}");
        }
    }
}
