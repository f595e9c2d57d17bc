//! Lines of a log, one at a time in bounded memory, unpacked on the way when the log is compressed.

use flate2::bufread::MultiGzDecoder;
use memchr::memchr;
use std::io::{self, BufRead, BufReader};

/// Longest line that is read, in bytes: nginx takes requests of 8 KiB, four times, and escapes them fourfold.
const LONGEST_LINE: usize = 128 << 10;

/// What `gzip` writes first.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The lines of a log.
pub(crate) struct Lines<'r> {
    reader: Box<dyn BufRead + 'r>,
    line: Vec<u8>,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'l> {
    /// Without its end.
    Text(&'l [u8]),
    /// More than [`LONGEST_LINE`] bytes; the rest is skipped, this is how it begins.
    TooLong(&'l [u8]),
}

impl<'r> Lines<'r> {
    /// A log that may be compressed with gzip, in one member or several.
    pub(crate) fn new(mut reader: impl BufRead + 'r) -> io::Result<Self> {
        let packed = reader.fill_buf()?.starts_with(&GZIP_MAGIC);
        let reader: Box<dyn BufRead + 'r> = match packed {
            true => Box::new(BufReader::with_capacity(
                64 << 10,
                MultiGzDecoder::new(reader),
            )),
            false => Box::new(reader),
        };
        Ok(Self {
            reader,
            line: Vec::new(),
        })
    }

    /// The next line; `None` at the end.
    pub(crate) fn read(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let mut any = false;
        let mut too_long = false;
        loop {
            let piece = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                piece => piece?,
            };
            if piece.is_empty() {
                break;
            }
            any = true;
            let end = memchr(b'\n', piece);
            let part = &piece[..end.unwrap_or(piece.len())];
            let room = LONGEST_LINE - self.line.len();
            too_long |= part.len() > room;
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if end.is_some() {
                break;
            }
        }
        let text = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        Ok(any.then_some(match too_long {
            true => Line::TooLong(text),
            false => Line::Text(text),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    fn all(bytes: &[u8]) -> Vec<String> {
        // A tiny buffer, so that lines span several.
        let mut lines = Lines::new(BufReader::with_capacity(7, bytes)).expect("readable");
        let mut found = Vec::new();
        while let Some(line) = lines.read().expect("readable") {
            found.push(match line {
                Line::Text(text) => String::from_utf8_lossy(text).into_owned(),
                Line::TooLong(text) => format!("too long, {}", text.len()),
            });
        }
        found
    }

    fn pack(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).expect("in memory");
        encoder.finish().expect("in memory")
    }

    #[test]
    fn lines_end_as_they_do_on_any_system() {
        assert_eq!(
            all(b"one\r\n\nthree\nno end"),
            ["one", "", "three", "no end"]
        );
        assert!(all(b"").is_empty());
    }

    #[test]
    fn a_line_without_end_takes_no_more_memory_than_any() {
        let mut text = vec![b'x'; 3 * LONGEST_LINE];
        text.extend_from_slice(b"\nnext\n");
        assert_eq!(all(&text), [&format!("too long, {LONGEST_LINE}"), "next"]);
    }

    #[test]
    fn rotated_logs_are_unpacked_member_by_member() {
        let mut packed = pack("one\ntwo\n");
        packed.extend(pack("three\n"));
        assert_eq!(all(&packed), ["one", "two", "three"]);
    }

    #[test]
    fn a_cut_off_archive_is_an_error_and_not_a_short_log() {
        let packed = pack(&"a line that is compressed\n".repeat(1000));
        let mut lines = Lines::new(&packed[..packed.len() - 9]).expect("begins well");
        let error = loop {
            match lines.read() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the end was lost"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
