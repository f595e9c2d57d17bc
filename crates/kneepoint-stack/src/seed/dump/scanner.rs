//! Where the statements of a dump begin and end: outside of quotes, comments and bodies. Read line by line, as a dump may be of
//! any size.

use memchr::{memchr, memchr2, memmem};

/// How a client reads SQL.
#[derive(Debug, Clone, Copy)]
pub(super) enum Syntax {
    /// A backslash escapes within quotes, `#` begins a comment, and what stands in `/*! */` is read.
    Mysql,
    /// A quote within quotes is doubled, and `$tag$` quotes, too.
    Postgresql,
}

/// A piece of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'l> {
    /// White space or a comment between statements.
    Between(&'l [u8]),
    /// What the client does itself: a line that begins with a backslash, or `DELIMITER`.
    Command(&'l [u8]),
    /// A statement, or the part of one that stands on this line.
    Statement {
        text: &'l [u8],
        begins: bool,
        ends: bool,
    },
}

/// Where a statement is read.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Within {
    Code,
    Quotes { quote: u8, escapes: bool },
    Body(Vec<u8>),
    Comment,
}

/// How far a dump was read.
#[derive(Debug)]
pub(super) struct Scanner {
    syntax: Syntax,
    /// `None` between statements.
    within: Option<Within>,
    /// Whether a comment between statements goes on.
    in_comment: bool,
    /// What ends a statement.
    delimiter: Vec<u8>,
}

impl Scanner {
    pub(super) fn new(syntax: Syntax) -> Self {
        Self {
            syntax,
            within: None,
            in_comment: false,
            delimiter: b";".to_vec(),
        }
    }

    /// The statement that was begun ends with the line.
    pub(super) fn end_statement(&mut self) {
        self.within = None;
    }

    /// The pieces of the next line.
    pub(super) fn pieces<'l>(&mut self, line: &'l [u8]) -> Vec<Piece<'l>> {
        let mut pieces = Vec::new();
        let mut at = 0;
        let mut begins = false;
        while at < line.len() {
            if self.within.is_none() {
                let from = at;
                at = self.next_statement(line, at);
                if at > from {
                    pieces.push(Piece::Between(&line[from..at]));
                }
                let rest = &line[at..];
                if rest.is_empty() {
                    break;
                }
                if self.is_command(rest) {
                    pieces.push(Piece::Command(rest));
                    break;
                }
                self.within = Some(Within::Code);
                begins = true;
            }
            let end = self.end_of_statement(line, at);
            pieces.push(Piece::Statement {
                text: &line[at..end.unwrap_or(line.len())],
                begins,
                ends: end.is_some(),
            });
            begins = false;
            at = end.unwrap_or(line.len());
        }
        pieces
    }

    /// Where the next statement begins, behind white space and comments.
    fn next_statement(&mut self, line: &[u8], mut at: usize) -> usize {
        loop {
            if self.in_comment {
                let Some(end) = memmem::find(&line[at..], b"*/") else {
                    return line.len();
                };
                self.in_comment = false;
                at += end + 2;
            }
            let rest = &line[at..];
            at += rest.len() - rest.trim_ascii_start().len();
            let rest = &line[at..];
            if self.is_line_comment(rest) {
                return line.len();
            }
            if !rest.starts_with(b"/*") || self.is_read(rest) {
                return at;
            }
            self.in_comment = true;
            at += 2;
        }
    }

    fn is_line_comment(&self, rest: &[u8]) -> bool {
        match self.syntax {
            Syntax::Mysql => {
                let behind = rest.strip_prefix(b"--");
                let is_dashes =
                    behind.is_some_and(|behind| behind.first().is_none_or(u8::is_ascii_whitespace));
                is_dashes || rest.starts_with(b"#")
            }
            Syntax::Postgresql => rest.starts_with(b"--"),
        }
    }

    /// Whether what stands in this comment is read. (That newer clients of MariaDB call a sandbox is no statement, and older ones
    /// refuse it.)
    fn is_read(&self, rest: &[u8]) -> bool {
        let is_sandbox = rest.starts_with(b"/*M!999999\\-");
        let marked = rest.starts_with(b"/*!") || rest.starts_with(b"/*M!");
        matches!(self.syntax, Syntax::Mysql) && marked && !is_sandbox
    }

    fn is_command(&mut self, rest: &[u8]) -> bool {
        const DELIMITER: &[u8] = b"DELIMITER ";
        let head = rest.get(..DELIMITER.len());
        match self.syntax {
            Syntax::Mysql if head.is_some_and(|head| head.eq_ignore_ascii_case(DELIMITER)) => {
                let word = rest[DELIMITER.len()..].trim_ascii();
                self.delimiter = if word.is_empty() { b";" } else { word }.to_vec();
                true
            }
            Syntax::Mysql => false,
            Syntax::Postgresql => rest.starts_with(b"\\"),
        }
    }

    /// The byte behind the delimiter of the statement that goes on at `at`, where it ends on this line.
    fn end_of_statement(&mut self, line: &[u8], mut at: usize) -> Option<usize> {
        let mut within = self.within.take().unwrap_or(Within::Code);
        while at < line.len() {
            let rest = &line[at..];
            let end = match &within {
                Within::Code if rest.starts_with(&self.delimiter) => {
                    return Some(at + self.delimiter.len());
                }
                Within::Code if self.is_line_comment(rest) => break,
                Within::Code if self.is_plain(rest[0]) => {
                    let plain = rest.iter().take_while(|byte| self.is_plain(**byte));
                    at += plain.count();
                    continue;
                }
                Within::Code => {
                    let (next, length) = self.next_in_code(line, at);
                    within = next;
                    at += length;
                    continue;
                }
                Within::Quotes { quote, escapes } => end_of_quotes(rest, *quote, *escapes),
                Within::Body(tag) => memmem::find(rest, tag).map(|found| found + tag.len()),
                Within::Comment => memmem::find(rest, b"*/").map(|found| found + 2),
            };
            let Some(end) = end else { break };
            at += end;
            within = Within::Code;
        }
        self.within = Some(within);
        None
    }

    /// Whether a byte begins nothing, in code.
    fn is_plain(&self, byte: u8) -> bool {
        !b"'\"`-#/$".contains(&byte) && self.delimiter.first() != Some(&byte)
    }

    /// What begins at a place in code, and how many bytes its beginning has.
    fn next_in_code(&self, line: &[u8], at: usize) -> (Within, usize) {
        let rest = &line[at..];
        let before = at.checked_sub(1).map(|before| line[before]);
        let is_mysql = matches!(self.syntax, Syntax::Mysql);
        match rest[0] {
            b'`' if is_mysql => (quotes(b'`', false), 1),
            b'"' => (quotes(b'"', is_mysql), 1),
            // `E'it\'s'`
            b'\'' => (
                quotes(b'\'', is_mysql || matches!(before, Some(b'E' | b'e'))),
                1,
            ),
            b'/' if rest.starts_with(b"/*") && !self.is_read(rest) => (Within::Comment, 2),
            b'$' if !is_mysql && !before.is_some_and(is_name) => match tag(rest) {
                Some(tag) => (Within::Body(tag.to_vec()), tag.len()),
                None => (Within::Code, 1),
            },
            _ => (Within::Code, 1),
        }
    }
}

fn quotes(quote: u8, escapes: bool) -> Within {
    Within::Quotes { quote, escapes }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

/// `$$`, or `$name$`.
fn tag(rest: &[u8]) -> Option<&[u8]> {
    let length = memchr(b'$', &rest[1..])? + 2;
    let inside = &rest[1..length - 1];
    let begins_well = !inside.first().is_some_and(u8::is_ascii_digit);
    let is_tag = inside
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    (begins_well && is_tag).then(|| &rest[..length])
}

/// The byte behind the closing quote. One that is doubled closes and opens again.
fn end_of_quotes(rest: &[u8], quote: u8, escapes: bool) -> Option<usize> {
    let mut at = 0;
    loop {
        let found = match escapes {
            true => memchr2(quote, b'\\', rest.get(at..)?),
            false => memchr(quote, rest.get(at..)?),
        };
        let found = at + found?;
        if rest[found] == quote {
            return Some(found + 1);
        }
        at = found + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statements of a text, each in brackets.
    fn check(syntax: Syntax, text: &str, expected: &str) {
        let mut scanner = Scanner::new(syntax);
        let mut told = String::new();
        for line in text.split_inclusive('\n') {
            for piece in scanner.pieces(line.as_bytes()) {
                if let Piece::Statement { text, begins, ends } = piece {
                    told.push_str(if begins { "[" } else { "" });
                    told.push_str(&String::from_utf8_lossy(text));
                    told.push_str(if ends { "]" } else { "" });
                }
            }
        }
        assert_eq!(told, expected);
    }

    #[test]
    fn statements_end_outside_of_quotes_and_comments() {
        check(
            Syntax::Mysql,
            "-- it's\nINSERT INTO `a;` VALUES ('x\\';',\";\"); /* ; ' */ # '\nSELECT 1 -- ;\n;SELECT 2;",
            "[INSERT INTO `a;` VALUES ('x\\';',\";\");][SELECT 1 -- ;\n;][SELECT 2;]",
        );
        check(
            Syntax::Postgresql,
            "SELECT 'it''s;', E'\\';', $$;$$, $x$ $$; $x$, a$1;\n/* ; */ DO $$\nBEGIN;\nEND $$;",
            "[SELECT 'it''s;', E'\\';', $$;$$, $x$ $$; $x$, a$1;][DO $$\nBEGIN;\nEND $$;]",
        );
    }

    #[test]
    fn what_mysql_reads_in_comments_is_read_and_its_delimiter_is_known() {
        check(
            Syntax::Mysql,
            "/*M!999999\\- enable the sandbox mode */\n/*!40101 SET NAMES utf8 */;\nDELIMITER ;;\nCREATE TRIGGER t BEGIN SET a = 1; END ;;\nDELIMITER ;\nSELECT 1;",
            "[/*!40101 SET NAMES utf8 */;][CREATE TRIGGER t BEGIN SET a = 1; END ;;][SELECT 1;]",
        );
    }
}
