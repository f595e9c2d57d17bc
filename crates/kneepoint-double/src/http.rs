//! HTTP/1.1 (RFC 9112) as far as a client needs: requests with bodies are read to their end, and each is answered alike.

use crate::answers::Answers;
use crate::lines::{line, skip};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};

/// Longest line of a head, in bytes, and most lines.
const LINE: usize = 16 << 10;
const LINES: usize = 128;
/// Longest body that is read, in bytes.
const BODY: u64 = 256 << 20;

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Bytes(u64),
    Chunks,
}

/// A request, as far as its answer depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    length: Length,
    /// Whether its answer has no body, as that of HEAD.
    bodiless: bool,
    /// Whether the connection is kept.
    keep: bool,
    /// Whether it wants to hear first that its body is welcome.
    expects: bool,
}

/// Answers requests until the client leaves.
///
/// # Errors
/// It says what cannot be understood, says nothing for too long, or is gone.
pub(crate) fn talk(from: impl Read, mut to: impl Write, answers: &Answers) -> io::Result<()> {
    let mut reader = BufReader::new(from);
    while let Some(head) = read_head(&mut reader)? {
        let Some(asked) = parse(&head) else {
            to.write_all(
                b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            )?;
            return Ok(());
        };
        if asked.expects {
            to.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        read_body(&mut reader, asked.length)?;
        answers.think();
        let end = match asked.bodiless {
            true => answers.head,
            false => answers.response.len(),
        };
        to.write_all(&answers.response[..end])?;
        if !asked.keep {
            break;
        }
    }
    Ok(())
}

/// The lines of a head with their ends; nothing where the client has left.
fn read_head(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    for _ in 0..LINES {
        let Some(line) = line(reader, LINE)? else {
            return Ok(None);
        };
        // Empty lines before a request are passed over (RFC 9112, section 2.2).
        if line.is_empty() && head.is_empty() {
            continue;
        }
        head.extend(&line);
        head.extend(b"\r\n");
        if line.is_empty() {
            return Ok(Some(head));
        }
    }
    Err(ErrorKind::InvalidData.into())
}

fn parse(head: &[u8]) -> Option<Asked> {
    let mut headers = [httparse::EMPTY_HEADER; LINES];
    let mut request = httparse::Request::new(&mut headers);
    if !request.parse(head).ok()?.is_complete() {
        return None;
    }
    let all = |name: &'static str| {
        request
            .headers
            .iter()
            .filter(move |it| it.name.eq_ignore_ascii_case(name))
            .map(|it| String::from_utf8_lossy(it.value).to_ascii_lowercase())
    };
    let says =
        |name, word: &str| all(name).any(|value| value.split(',').any(|part| part.trim() == word));
    let length = match all("content-length").next() {
        _ if says("transfer-encoding", "chunked") => Length::Chunks,
        Some(digits) => Length::Bytes(digits.trim().parse().ok()?),
        None => Length::Bytes(0),
    };
    let keep = match request.version? {
        0 => says("connection", "keep-alive"),
        _ => !says("connection", "close"),
    };
    Some(Asked {
        length,
        bodiless: request.method? == "HEAD",
        keep,
        expects: says("expect", "100-continue"),
    })
}

fn read_body(reader: &mut impl BufRead, length: Length) -> io::Result<()> {
    let too_long = || io::Error::from(ErrorKind::InvalidData);
    match length {
        Length::Bytes(length) if length > BODY => Err(too_long()),
        Length::Bytes(length) => skip(reader, length),
        Length::Chunks => {
            let mut read = 0;
            loop {
                let size = line(reader, LINE)?.ok_or(ErrorKind::UnexpectedEof)?;
                let size = chunk(&size).ok_or_else(too_long)?;
                read += size;
                if size == 0 {
                    break;
                }
                if read > BODY {
                    return Err(too_long());
                }
                skip(reader, size)?;
                line(reader, 0)?;
            }
            // Lines behind the last chunk, and the empty one.
            for _ in 0..LINES {
                match line(reader, LINE)? {
                    Some(line) if !line.is_empty() => {}
                    _ => return Ok(()),
                }
            }
            Err(too_long())
        }
    }
}

/// The size of a chunk, before what may follow behind a semicolon.
fn chunk(line: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(line).ok()?;
    let digits = text.split(';').next()?.trim();
    let hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16)
        .ok()
        .filter(|size| hex && *size <= BODY)
}

#[cfg(test)]
mod tests;
