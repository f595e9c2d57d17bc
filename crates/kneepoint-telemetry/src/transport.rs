//! The small clients that ask status pages: HTTP/1.0, FastCGI and Redis' protocol over TCP or Unix sockets.
//!
//! Every wait is bounded. The thread that calls is within the network namespace of the tier.

use crate::bounded::Bounded;
use kneepoint_model::Address;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt,
};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Longest wait for a connection, and for each piece of an answer.
const TIMEOUT: Duration = Duration::from_millis(800);
/// Longest answer that is read. A full FPM status of a thousand workers is half a megabyte.
const ANSWER_BYTES: usize = 8 << 20;

/// A connection to a status page.
#[derive(Debug)]
pub(crate) enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Connects, with timeouts for the connection and for each later read and write.
    pub(crate) fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, TIMEOUT)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
            Address::Unix(path) => {
                let socket = socket_with(
                    AddressFamily::UNIX,
                    SocketType::STREAM,
                    SocketFlags::CLOEXEC,
                    None,
                )?;
                // Connecting to a Unix socket whose queue is full waits for as long as sending may.
                sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(TIMEOUT))?;
                sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(TIMEOUT))?;
                connect(&socket, &SocketAddrUnix::new(path.as_path())?)?;
                Ok(Self::Unix(socket.into()))
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.to_owned())
}

/// GETs a page over HTTP/1.0 and returns its body.
pub(crate) fn http_get(address: &Address, path: &str) -> io::Result<Vec<u8>> {
    let mut stream = Stream::connect(address)?;
    let host = match address {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(_) => "localhost".to_owned(),
    };
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: kneepoint\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    Bounded::of(stream)
        .take(ANSWER_BYTES as u64)
        .read_to_end(&mut answer)?;
    parse_http(&answer).map(<[u8]>::to_vec)
}

/// The body of a response whose status is 200.
fn parse_http(answer: &[u8]) -> io::Result<&[u8]> {
    let line = answer.split(|b| *b == b'\r').next().unwrap_or_default();
    let status = kneepoint_linux::file::words(line)
        .nth(1)
        .and_then(kneepoint_linux::file::number);
    if !answer.starts_with(b"HTTP/1.") || status != Some(200) {
        let line = String::from_utf8_lossy(&line[..line.len().min(100)]);
        return Err(broken(&format!("it answered `{line}` instead of 200 OK")));
    }
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    Ok(&answer[end.ok_or_else(|| broken("the response has no end of headers"))? + 4..])
}

/// Every parser of this file on the same bytes.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(bytes: &[u8]) {
    let _ = parse_http(bytes);
    let _ = parse_bulk(bytes);
    let output = match fastcgi_complete(bytes) {
        true => fastcgi_output(bytes),
        false => bytes.to_vec(),
    };
    let _ = fastcgi_body(&output);
}

const FCGI_BEGIN: u8 = 1;
const FCGI_END: u8 = 3;
const FCGI_PARAMS: u8 = 4;
const FCGI_STDIN: u8 = 5;
const FCGI_STDOUT: u8 = 6;

/// Asks a FastCGI responder (FastCGI specification 1.0) and returns the body of its answer.
pub(crate) fn fastcgi_get(address: &Address, script: &str, query: &str) -> io::Result<Vec<u8>> {
    let mut stream = Stream::connect(address)?;
    let name = script.rsplit('/').next().unwrap_or(script);
    let params = [
        ("SCRIPT_FILENAME", script),
        ("SCRIPT_NAME", if query.is_empty() { name } else { script }),
        ("REQUEST_URI", script),
        ("QUERY_STRING", query),
        ("REQUEST_METHOD", "GET"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("SERVER_NAME", "kneepoint"),
    ];
    let mut pairs = Vec::new();
    for (name, value) in params {
        for length in [name.len(), value.len()] {
            match u8::try_from(length) {
                Ok(short) if short < 128 => pairs.push(short),
                _ => pairs.extend((length as u32 | 0x8000_0000).to_be_bytes()),
            }
        }
        pairs.extend([name.as_bytes(), value.as_bytes()].concat());
    }
    let mut request = record(FCGI_BEGIN, &[0, 1, 0, 0, 0, 0, 0, 0]);
    for (kind, body) in [
        (FCGI_PARAMS, &pairs[..]),
        (FCGI_PARAMS, &[]),
        (FCGI_STDIN, &[]),
    ] {
        request.extend(record(kind, body));
    }
    stream.write_all(&request)?;
    let mut stream = Bounded::of(stream);
    let mut answer = Vec::new();
    let mut buffer = [0; 16 * 1024];
    while !fastcgi_complete(&answer) && answer.len() < ANSWER_BYTES {
        match stream.read(&mut buffer)? {
            0 => break,
            length => answer.extend(&buffer[..length]),
        }
    }
    fastcgi_body(&fastcgi_output(&answer))
}

fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut record = vec![1, kind, 0, 1];
    record.extend((body.len() as u16).to_be_bytes());
    record.extend([0, 0]);
    record.extend(body);
    record
}

/// The complete records of an answer: kind and content.
fn records(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let header = bytes.get(..8)?;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let content = bytes.get(8..8 + length)?;
        bytes = bytes.get(8 + length + usize::from(header[6])..)?;
        Some((header[1], content))
    })
}

fn fastcgi_complete(answer: &[u8]) -> bool {
    records(answer).any(|(kind, _)| kind == FCGI_END)
}

fn fastcgi_output(answer: &[u8]) -> Vec<u8> {
    let parts = records(answer).filter(|(kind, _)| *kind == FCGI_STDOUT);
    parts
        .flat_map(|(_, content)| content.iter().copied())
        .collect()
}

fn fastcgi_body(output: &[u8]) -> io::Result<Vec<u8>> {
    let end = output.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.ok_or_else(|| broken("the FastCGI answer has no end of headers"))?;
    let headers = String::from_utf8_lossy(&output[..end]);
    let status = headers
        .lines()
        .find_map(|line| line.strip_prefix("Status: "));
    match status {
        Some(status) if !status.starts_with("200") => {
            Err(broken(&format!("it answered `{status}`")))
        }
        _ => Ok(output[end + 4..].to_vec()),
    }
}

/// A bulk string of Redis' protocol at the start of some bytes; `None` when more must be read.
pub(crate) fn parse_bulk(bytes: &[u8]) -> io::Result<Option<&[u8]>> {
    let Some(end) = bytes.windows(2).position(|window| window == b"\r\n") else {
        return Ok(None);
    };
    let line = &bytes[..end];
    match line.first() {
        Some(b'$') => {
            let length = kneepoint_linux::file::number(&line[1..])
                .and_then(|length| usize::try_from(length).ok())
                .filter(|length| *length <= ANSWER_BYTES)
                .ok_or_else(|| broken("the length of the answer is not a number"))?;
            Ok(bytes.get(end + 2..end + 2 + length))
        }
        _ => {
            let line = String::from_utf8_lossy(&line[..line.len().min(200)]);
            Err(broken(&format!("it answered `{line}`")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_200_counts() {
        assert_eq!(
            parse_http(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody").expect("200"),
            b"body"
        );
        let refused = parse_http(b"HTTP/1.1 403 Forbidden\r\n\r\n")
            .expect_err("403")
            .to_string();
        assert!(refused.contains("403 Forbidden"), "{refused}");
    }

    #[test]
    fn fastcgi_answers_are_put_together_from_records() {
        let mut answer = record(FCGI_STDOUT, b"Content-Type: a\r\n\r\n{\"a\"");
        answer.extend(record(7, b"a warning on standard error"));
        answer.extend(record(FCGI_STDOUT, b":1}"));
        assert!(!fastcgi_complete(&answer));
        answer.extend(record(FCGI_END, &[0; 8]));
        assert!(fastcgi_complete(&answer));
        assert_eq!(
            fastcgi_body(&fastcgi_output(&answer)).expect("body"),
            b"{\"a\":1}"
        );
        let missing =
            fastcgi_body(b"Status: 404 Not Found\r\n\r\nFile not found.").expect_err("404");
        assert!(missing.to_string().contains("404"));
    }

    #[test]
    fn a_bulk_string_waits_for_its_end() {
        assert_eq!(parse_bulk(b"$5\r\nhel").expect("fine"), None);
        assert_eq!(
            parse_bulk(b"$5\r\nhello\r\n").expect("fine"),
            Some(&b"hello"[..])
        );
        assert!(parse_bulk(b"-ERR max number of clients reached\r\n").is_err());
        assert!(parse_bulk(b"$99999999999999999999\r\n").is_err());
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), text in "[$*+0-9\r\nHTP/.: ]{0,80}") {
            for bytes in [&bytes[..], text.as_bytes()] {
                let _ = parse_http(bytes);
                let _ = fastcgi_body(&fastcgi_output(bytes));
                fastcgi_complete(bytes);
                let _ = parse_bulk(bytes);
            }
        }
    }
}
