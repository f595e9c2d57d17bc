//! What a worker says on a connection: queries, commands and requests, told by their first bytes. Values that may be
//! secret are left out.

use kneepoint_model::folding::{Sql, fold_path, fold_query};

/// Longest query that is kept, in characters.
const QUERY: usize = 300;
/// Longest method and host that are believed, in bytes.
const METHOD: usize = 10;
const HOST: usize = 253;
/// Longest command of Redis that is believed, in bytes.
const COMMAND: usize = 32;

/// Something a worker said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// A query to be executed, without its values.
    Query(String),
    /// A query to be executed later, under this name.
    Prepared(String, String),
    /// That the query of this name is to be executed.
    Execute(String),
    /// The name of a command to Redis.
    Command(String),
    /// A request over HTTP: `GET http://api.example.org/rates/{n}`.
    Http(String),
    /// The beginning of a TLS connection, to a host by its name where that is told.
    Tls(Option<String>),
    /// Something else, or the middle of something.
    Other,
}

/// What was said, in order.
pub(super) fn said(bytes: &[u8]) -> Vec<Said> {
    if let Some(request) = http(bytes) {
        return vec![Said::Http(request)];
    }
    if let Some(hello) = tls(bytes) {
        return vec![Said::Tls(hello)];
    }
    let several = [postgresql, mysql, redis];
    several
        .into_iter()
        .find_map(|protocol| protocol(bytes))
        .unwrap_or_else(|| vec![Said::Other])
}

/// Whether what is written to the web server ends a response: the last record of FastCGI is FCGI_END_REQUEST.
pub(super) fn ends_response(bytes: &[u8]) -> bool {
    let last = bytes.len().checked_sub(16).and_then(|at| bytes.get(at..));
    last.is_some_and(|last| last[..2] == [1, 3] && last[4..6] == [0, 8])
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn shortened(sql: Sql, query: &str) -> String {
    let folded = fold_query(sql, query);
    match folded.char_indices().nth(QUERY) {
        Some((end, _)) => format!("{}...", &folded[..end]),
        None => folded,
    }
}

/// A request of HTTP/1.
fn http(bytes: &[u8]) -> Option<String> {
    let head = &bytes[..bytes.len().min(8192)];
    let line_end = head.iter().position(|byte| *byte == b'\r')?;
    let mut words = text(&head[..line_end])?.split(' ');
    let method = words.next()?;
    let known =
        (1..=METHOD).contains(&method.len()) && method.bytes().all(|b| b.is_ascii_uppercase());
    let target = words.next()?;
    if !known || !words.next()?.starts_with("HTTP/1.") {
        return None;
    }
    if target.starts_with("http://") {
        // To a proxy, which is told the whole.
        return Some(format!("{method} {}", fold_path(target)));
    }
    let headers = head[line_end..].split(|byte| *byte == b'\n');
    let host = headers
        .filter_map(text)
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("host"))
        .map_or("?", |(_, value)| value.trim());
    let host = Some(host).filter(|host| host.len() <= HOST).unwrap_or("?");
    Some(format!("{method} http://{host}{}", fold_path(target)))
}

/// The first message of TLS (RFC 8446, section 4.1.2), and the host it names (RFC 6066, section 3).
fn tls(bytes: &[u8]) -> Option<Option<String>> {
    bytes
        .get(..6)
        .filter(|head| head[0] == 22 && head[1] == 3 && head[5] == 1)?;
    Some(server_name(bytes))
}

fn server_name(bytes: &[u8]) -> Option<String> {
    let short = |at: usize| {
        Some(usize::from(u16::from_be_bytes(
            bytes.get(at..at + 2)?.try_into().ok()?,
        )))
    };
    // The headers of record and message, version, random.
    let mut at = 5 + 4 + 2 + 32;
    at += 1 + usize::from(*bytes.get(at)?);
    at += 2 + short(at)?;
    at += 1 + usize::from(*bytes.get(at)?);
    at += 2;
    while let (Some(kind), Some(length)) = (short(at), short(at + 2)) {
        if kind == 0 {
            // A list of names, the first of which is a host: its kind and its length.
            let name = bytes.get(at + 9..at + 9 + short(at + 7)?)?;
            return text(name)
                .filter(|name| name.len() <= HOST)
                .map(str::to_owned);
        }
        at += 4 + length;
    }
    None
}

/// Messages of the frontend of PostgreSQL's protocol 3 (its documentation, "Message Formats"), all of them whole.
fn postgresql(bytes: &[u8]) -> Option<Vec<Said>> {
    let mut said = Vec::new();
    let mut rest = bytes;
    while let Some(kind) = rest.first() {
        let length = u32::from_be_bytes(rest.get(1..5)?.try_into().ok()?);
        let length = usize::try_from(length).ok()?;
        let body = rest.get(5..1 + length).filter(|_| length >= 4)?;
        let mut texts = body.split(|byte| *byte == 0).map(text);
        match kind {
            b'Q' => {
                let query = texts.next()??;
                // PDO gives up what it prepared: that asks for nothing.
                if !query.starts_with("DEALLOCATE ") {
                    said.push(Said::Query(shortened(Sql::Postgresql, query)));
                }
            }
            b'P' => {
                let name = texts.next()??.to_owned();
                said.push(Said::Prepared(
                    name,
                    shortened(Sql::Postgresql, texts.next()??),
                ));
            }
            b'B' => {
                texts.next()?;
                said.push(Said::Execute(texts.next()??.to_owned()));
            }
            b'D' | b'E' | b'S' | b'C' | b'H' | b'X' | b'p' | b'd' | b'c' | b'f' => {}
            _ => return None,
        }
        rest = &rest[1 + length..];
    }
    (!bytes.is_empty()).then_some(said)
}

/// A command of MySQL's protocol: COM_QUERY and COM_STMT_PREPARE, which is executed once in almost all cases.
fn mysql(bytes: &[u8]) -> Option<Vec<Said>> {
    let length = u32::from_le_bytes([*bytes.first()?, *bytes.get(1)?, *bytes.get(2)?, 0]);
    let whole = usize::try_from(length).ok()? + 4 == bytes.len();
    if !whole || bytes[3] != 0 {
        return None;
    }
    let query =
        || text(bytes.get(5..)?).map(|query| vec![Said::Query(shortened(Sql::Mysql, query))]);
    match bytes.get(4)? {
        0x03 | 0x16 => query(),
        // Execute, close, quit, ping.
        0x17 | 0x19 | 0x01 | 0x0e => Some(Vec::new()),
        _ => None,
    }
}

/// Commands of Redis (RESP): arrays of texts, of which the first is the command. Its arguments may be secret.
fn redis(bytes: &[u8]) -> Option<Vec<Said>> {
    let mut said = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let Some((command, behind)) = redis_command(rest) else {
            break;
        };
        said.push(Said::Command(command));
        rest = behind;
    }
    (!said.is_empty()).then_some(said)
}

fn redis_command(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (count, mut rest) = number(bytes, b'*')?;
    let mut command = None;
    for _ in 0..count {
        let (length, value) = number(rest, b'$')?;
        if command.is_none() {
            let name = value.get(..length).filter(|name| name.len() <= COMMAND)?;
            command = Some(text(name)?.to_ascii_uppercase());
        }
        // What is longer than what was looked at ends what can be told.
        rest = value.get(length + 2..).unwrap_or_default();
    }
    Some((command?, rest))
}

fn number(bytes: &[u8], kind: u8) -> Option<(usize, &[u8])> {
    let line = bytes.strip_prefix(&[kind])?;
    let end = line.iter().take(12).position(|byte| *byte == b'\r')?;
    let number = text(&line[..end])?.parse().ok()?;
    Some((number, line.get(end + 2..)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: &[Said]) {
        assert_eq!(said(bytes), expected, "{}", String::from_utf8_lossy(bytes));
    }

    fn message(kind: u8, body: &str) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).expect("short");
        [&[kind], &length.to_be_bytes()[..], body.as_bytes()].concat()
    }

    #[test]
    fn queries_of_postgresql_are_known_without_their_values() {
        let query = |text: &str| Said::Query(text.to_owned());
        check(&message(b'Q', "select 'secret'\0"), &[query("select ?")]);
        let prepare = [message(b'P', "s1\0select $1\0\0\0"), message(b'S', "")].concat();
        let prepared = Said::Prepared("s1".to_owned(), "select ?".to_owned());
        check(&prepare, &[prepared]);
        let execute = [
            message(b'B', "\0s1\0\0\0"),
            message(b'E', "\0\0\0\0\0"),
            message(b'S', ""),
        ];
        check(&execute.concat(), &[Said::Execute("s1".to_owned())]);
        check(&message(b'X', ""), &[]);
        check(&message(b'Q', "DEALLOCATE pdo_stmt_00000001\0"), &[]);
    }

    #[test]
    fn queries_of_mysql_and_commands_of_redis_are_known() {
        let query = b"\x09\0\0\0\x03select 7";
        check(query, &[Said::Query("select ?".to_owned())]);
        check(b"\x05\0\0\0\x19\x01\0\0\0", &[]);
        check(
            b"\x11\0\0\0\x03select \"a@b.org\"",
            &[Said::Query("select ?".to_owned())],
        );
        let pipelined = b"*2\r\n$3\r\nget\r\n$6\r\nsecret\r\n*1\r\n$4\r\nPING\r\n";
        let command = |name: &str| Said::Command(name.to_owned());
        check(pipelined, &[command("GET"), command("PING")]);
        check(b"*2\r\n$3\r\nSET\r\n$900\r\nsec", &[command("SET")]);
    }

    #[test]
    fn requests_are_known_by_host_and_route() {
        let http = |text: &str| [Said::Http(text.to_owned())];
        check(
            b"GET /rates/77?key=secret HTTP/1.1\r\nAccept: */*\r\nHost: api.example.org:8080\r\n\r\n",
            &http("GET http://api.example.org:8080/rates/{n}"),
        );
        check(b"GET / HTTP/1.0\r\n\r\n", &http("GET http://?/"));
        check(
            b"GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n",
            &http("GET http://a.example/x"),
        );
    }

    #[test]
    fn a_tls_connection_is_known_by_its_host() {
        let name = b"api.example.org";
        let extension = [&[0, 0, 0, 20, 0, 18, 0, 0, 15][..], name].concat();
        let other = [0, 23, 0, 0];
        let hello = [
            &[22, 3, 1, 0, 99, 1, 0, 0, 95, 3, 3][..],
            &[7; 32],
            &[2, 8, 8, 0, 4, 0x13, 1, 0x13, 2, 1, 0, 0, 28],
            &other,
            &extension,
        ];
        check(
            &hello.concat(),
            &[Said::Tls(Some("api.example.org".to_owned()))],
        );
        check(&hello.concat()[..60], &[Said::Tls(None)]);
    }

    #[test]
    fn what_is_nothing_known_is_something_else() {
        for bytes in [&b"HELLO world"[..], b"", b"*x", b"\x16\x03"] {
            check(bytes, &[Said::Other]);
        }
        let end = [1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(ends_response(&end) && ends_response(&[&[9; 40][..], &end].concat()));
        assert!(!ends_response(&end[1..]) && !ends_response(&[0; 40]));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..80),
            start in prop_oneof![
                Just(&b""[..]), Just(&b"Q\0\0\0"[..]), Just(&b"P\0\0\0"[..]), Just(&b"*2\r\n$3\r\n"[..]),
                Just(&b"GET / HTTP/1.1\r\n"[..]), Just(&[22, 3, 1, 0, 9, 1][..]),
            ],
        ) {
            bytes.splice(..0, start.iter().copied());
            said(&bytes);
            ends_response(&bytes);
        }
    }
}
