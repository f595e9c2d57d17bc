//! Reading from somebody who may say anything: lines and lengths with a bound.

use std::io::{self, BufRead, ErrorKind, Read};

/// A line without its end, of at most so many bytes; nothing where the other side has ended.
///
/// # Errors
/// It is longer, ends in its middle, or the other side is gone.
pub(crate) fn line(reader: &mut impl BufRead, longest: usize) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let limit = u64::try_from(longest).unwrap_or(u64::MAX);
    reader
        .take(limit.saturating_add(2))
        .read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(ErrorKind::InvalidData.into());
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    if line.len() > longest {
        return Err(ErrorKind::InvalidData.into());
    }
    Ok(Some(line))
}

/// Reads so many bytes and forgets them.
///
/// # Errors
/// The other side ends before, or is gone.
pub(crate) fn skip(reader: &mut impl Read, length: u64) -> io::Result<()> {
    let read = io::copy(&mut reader.take(length), &mut io::sink())?;
    match read == length {
        true => Ok(()),
        false => Err(ErrorKind::UnexpectedEof.into()),
    }
}
