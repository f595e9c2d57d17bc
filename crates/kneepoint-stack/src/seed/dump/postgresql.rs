//! Dumps of PostgreSQL, as pg_dump and pg_dumpall write them.

use super::{LEFT_OUT, begins, begins_with_any, ends, holds, take, unquoted};
use crate::servers::postgresql::APP_ROLE;
use memchr::memchr_iter;
use std::borrow::Cow;

/// Databases that every server has of its own.
const SYSTEM: [&str; 3] = ["postgres", "template0", "template1"];
/// Statements about roles, databases and what only an owner may do.
const ELSEWHERE: [&str; 16] = [
    "GRANT ",
    "REVOKE ",
    "ALTER DEFAULT PRIVILEGES",
    "CREATE DATABASE",
    "DROP DATABASE",
    "ALTER DATABASE",
    "COMMENT ON DATABASE",
    "CREATE ROLE",
    "ALTER ROLE",
    "DROP ROLE",
    "COMMENT ON EXTENSION",
    "SET SESSION AUTHORIZATION",
    "RESET SESSION AUTHORIZATION",
    "CREATE SCHEMA public;",
    "COMMENT ON SCHEMA public ",
    // Of PostgreSQL 17; an older server has no such setting.
    "SET transaction_timeout",
];
/// What `pg_dump --clean` begins with: in the lab there is nothing yet to be removed.
const REMOVES: [&str; 2] = ["DROP ", "ALTER TABLE"];

/// Where a line stands.
#[derive(Debug, PartialEq, Eq)]
enum Within {
    /// At the beginning of a statement.
    Nothing,
    /// In a statement that goes on.
    Statement,
    /// In a statement that is left out.
    LeftOut,
    /// Among the rows of `COPY`.
    Rows,
    /// In a text between two of these tags: the body of a function.
    Body(Vec<u8>),
    /// In a text in quotes.
    Text,
}

/// How far a dump was read.
#[derive(Debug)]
pub(in crate::seed) struct Reading {
    within: Within,
    /// Whether something was made already.
    made: bool,
    /// Whether what follows is of a database that every server has.
    of_system: bool,
    /// Databases that the dump names.
    pub(super) databases: Vec<String>,
}

impl Reading {
    pub(super) fn new() -> Self {
        Self {
            within: Within::Nothing,
            made: false,
            of_system: false,
            databases: Vec::new(),
        }
    }

    pub(super) fn line<'l>(&mut self, line: &'l [u8]) -> Cow<'l, [u8]> {
        let begins_here = self.within == Within::Nothing;
        if begins_here && begins_with_any(line, &["\\connect ", "\\c "]) {
            self.connect(line);
            return LEFT_OUT;
        }
        let is_left_out = self.of_system
            || self.within == Within::LeftOut
            || begins_here && self.is_elsewhere(line);
        self.step(line, is_left_out);
        match is_left_out {
            true => LEFT_OUT,
            false if begins_here && begins(line, "CREATE EXTENSION") && ends(line) => {
                Cow::Owned(as_administrator(line))
            }
            false => Cow::Borrowed(line),
        }
    }

    fn connect(&mut self, line: &[u8]) {
        let last = line.trim_ascii().split(u8::is_ascii_whitespace).next_back();
        // `\connect -reuse-previous=on "dbname='the shop'"` where the name has a character that needs quotes.
        let name = match holds(line, "dbname=") {
            true => {
                let text = String::from_utf8_lossy(line);
                let name = text.split("dbname=").nth(1).unwrap_or_default();
                unquoted(name.as_bytes())
            }
            false => unquoted(last.unwrap_or_default()),
        };
        self.of_system = SYSTEM.contains(&name.as_str());
        if !self.of_system {
            take(&mut self.databases, &name);
        }
    }

    /// Whether a statement that begins with this line is for another machine.
    fn is_elsewhere(&mut self, line: &[u8]) -> bool {
        let removes = !self.made && begins_with_any(line, &REMOVES);
        self.made |= begins(line, "CREATE ") && !begins_with_any(line, &ELSEWHERE);
        let names_owner = begins(line, "ALTER ") && holds(line, " OWNER TO ");
        let in_tablespace =
            begins(line, "SET default_tablespace") && !holds(line, "''") && !holds(line, "\"\"");
        removes || names_owner || in_tablespace || begins_with_any(line, &ELSEWHERE)
    }

    /// Where the next line stands.
    fn step(&mut self, line: &[u8], is_left_out: bool) {
        self.within = match std::mem::replace(&mut self.within, Within::Nothing) {
            Within::Rows if line.trim_ascii_end() == b"\\." => Within::Nothing,
            Within::Rows => Within::Rows,
            Within::Body(tag) => match holds_bytes(line, &tag) {
                true => after_text(line),
                false => Within::Body(tag),
            },
            Within::Text => match quotes(line) % 2 {
                1 => after_text(line),
                _ => Within::Text,
            },
            Within::LeftOut if !ends(line) => Within::LeftOut,
            Within::LeftOut => Within::Nothing,
            Within::Nothing if is_comment(line) => Within::Nothing,
            Within::Nothing | Within::Statement => next(line, is_left_out),
        };
    }
}

/// Most extensions are made by an administrator alone.
fn as_administrator(line: &[u8]) -> Vec<u8> {
    let back = format!(" SET SESSION AUTHORIZATION {APP_ROLE};\n");
    [
        b"RESET SESSION AUTHORIZATION; ".as_slice(),
        line.trim_ascii_end(),
        back.as_bytes(),
    ]
    .concat()
}

fn is_comment(line: &[u8]) -> bool {
    line.trim_ascii().is_empty() || begins(line, "--") || begins(line, "\\")
}

/// What the line after this one stands in, where this one is part of a statement and of no text.
fn next(line: &[u8], is_left_out: bool) -> Within {
    let is_ended = ends(line);
    if is_left_out {
        return match is_ended {
            true => Within::Nothing,
            false => Within::LeftOut,
        };
    }
    if begins(line, "COPY ") && line.trim_ascii_end().ends_with(b"FROM stdin;") {
        return Within::Rows;
    }
    if let Some(tag) = opened(line) {
        return Within::Body(tag);
    }
    match (quotes(line) % 2, is_ended) {
        (1, _) => Within::Text,
        (_, true) => Within::Nothing,
        (_, false) => Within::Statement,
    }
}

/// The same behind the end of a text.
fn after_text(line: &[u8]) -> Within {
    match ends(line) {
        true => Within::Nothing,
        false => Within::Statement,
    }
}

fn quotes(line: &[u8]) -> usize {
    memchr_iter(b'\'', line).count()
}

fn holds_bytes(line: &[u8], what: &[u8]) -> bool {
    memchr::memmem::find(line, what).is_some()
}

/// The tag of a text that begins on this line and does not end on it: `$$`, or `$_$` with anything between.
fn opened(line: &[u8]) -> Option<Vec<u8>> {
    let find = |words: &[u8]| memchr::memmem::find(line, words);
    let start = find(b"AS $").or_else(|| find(b"as $"))? + 3;
    let length = line[start + 1..].iter().position(|byte| *byte == b'$')? + 2;
    let (tag, rest) = line[start..].split_at(length);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let is_tag = tag[1..length - 1].iter().all(is_name);
    (is_tag && !holds_bytes(rest, tag)).then(|| tag.to_vec())
}

#[cfg(test)]
mod tests {
    use super::super::{Reading, tests::read};

    fn check(dump: &str, expected: &str, databases: &[&str]) {
        let (kept, names) = read(Reading::of("postgresql", "15.14"), dump);
        assert_eq!(kept, expected);
        assert_eq!(names, databases);
    }

    #[test]
    fn owners_and_rights_of_another_machine_are_left_out() {
        check(
            "--\n-- Name: a; Type: TABLE; Owner: shop's\n--\nSET transaction_timeout = 0;\nSET default_tablespace = '';\n\
             CREATE TABLE public.a (\n    id integer\n);\nALTER TABLE public.a OWNER TO shop;\n\
             ALTER TABLE ONLY public.a ADD CONSTRAINT a_key PRIMARY KEY (id);\nGRANT SELECT ON TABLE public.a TO reader;\n",
            "--\n-- Name: a; Type: TABLE; Owner: shop's\n--\nSET default_tablespace = '';\nCREATE TABLE public.a (\n    id integer\n);\n\
             ALTER TABLE ONLY public.a ADD CONSTRAINT a_key PRIMARY KEY (id);\n",
            &[],
        );
    }

    #[test]
    fn rows_texts_and_bodies_stay_as_they_are() {
        let dump = "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS $_$\nGRANT a TO b;\n$_$;\n\
                    COPY public.a (note) FROM stdin;\nGRANT of a week's leave\nUSE\n\\.\n\
                    INSERT INTO a VALUES ('two lines:\nGRANT it''s one;\nend');\nSELECT 1;\n";
        check(dump, dump, &[]);
    }

    #[test]
    fn the_one_database_of_a_dump_is_the_labs() {
        let dump = "CREATE ROLE shop;\nALTER ROLE shop WITH NOSUPERUSER\n LOGIN;\n\\connect template1\nCREATE TABLE odd (id int);\n\
                    CREATE DATABASE shop WITH TEMPLATE = template0;\nALTER DATABASE shop OWNER TO shop;\n\\connect shop\n\
                    CREATE TABLE public.a (id integer);\n";
        let kept = "CREATE TABLE public.a (id integer);\n";
        check(dump, kept, &[]);
        let quoted = "\\connect -reuse-previous=on \"dbname='the shop'\"\n\\connect blog\n";
        check(quoted, "", &["the shop", "blog"]);
    }

    #[test]
    fn nothing_is_removed_before_something_is_made() {
        check(
            "ALTER TABLE ONLY public.a DROP CONSTRAINT a_key;\nDROP TABLE public.a;\nDROP SCHEMA public;\nCREATE SCHEMA public;\n\
             CREATE TABLE a (id int);\nDROP TABLE a;\n",
            "CREATE TABLE a (id int);\nDROP TABLE a;\n",
            &[],
        );
    }

    #[test]
    fn an_extension_is_made_by_the_administrator() {
        check(
            "CREATE EXTENSION IF NOT EXISTS hstore WITH SCHEMA public;\nCOMMENT ON EXTENSION hstore IS 'pairs';\n",
            "RESET SESSION AUTHORIZATION; CREATE EXTENSION IF NOT EXISTS hstore WITH SCHEMA public; SET SESSION AUTHORIZATION app;\n",
            &[],
        );
    }
}
