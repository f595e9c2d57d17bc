//! Dumps of PostgreSQL, as pg_dump and pg_dumpall write them.

use super::scanner::{Piece, Scanner, Syntax};
use super::{Databases, begins, begins_with_any, holds, passed_on, unquoted};
use crate::seed::APP_ROLE;
use std::borrow::Cow;

/// Databases that a dump of all has of the server itself.
const SYSTEM: [&str; 3] = ["postgres", "template0", "template1"];
/// How such a dump begins.
const OF_ALL: &str = "-- PostgreSQL database cluster dump";
/// Statements about roles, databases and what only an owner may do.
const ELSEWHERE: [&str; 19] = [
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
    "CREATE USER ",
    "ALTER USER ",
    "COMMENT ON EXTENSION",
    "SET SESSION AUTHORIZATION",
    "RESET SESSION AUTHORIZATION",
    "CREATE SCHEMA public;",
    "COMMENT ON SCHEMA public ",
    "CREATE SUBSCRIPTION",
    // Of PostgreSQL 17; an older server has no such setting.
    "SET transaction_timeout",
];

/// What becomes of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    LeftOut,
    AsItIs,
    /// As the administrator.
    Extension,
}

/// How far a dump was read.
#[derive(Debug)]
pub(in crate::seed) struct Reading {
    scanner: Scanner,
    /// That of the statement that goes on.
    fate: Fate,
    /// Whether it is `COPY`.
    copies: bool,
    /// Whether rows of `COPY` follow.
    in_rows: bool,
    /// Whether something was made already.
    made: bool,
    /// Whether it is a dump of all databases.
    of_all: bool,
    pub(super) databases: Databases,
}

impl Reading {
    pub(super) fn new() -> Self {
        Self {
            scanner: Scanner::new(Syntax::Postgresql),
            fate: Fate::AsItIs,
            copies: false,
            in_rows: false,
            made: false,
            of_all: false,
            databases: Databases::default(),
        }
    }

    pub(super) fn line<'l>(&mut self, line: &'l [u8]) -> Cow<'l, [u8]> {
        if self.in_rows {
            self.in_rows = line.trim_ascii_end() != b"\\.";
            return match self.databases.of_system {
                true => passed_on(line, Vec::new(), |_| Cow::Borrowed(&[])),
                false => Cow::Borrowed(line),
            };
        }
        self.of_all |= line.starts_with(OF_ALL.as_bytes());
        let pieces = self.scanner.pieces(line);
        passed_on(line, pieces, |piece| self.passed(piece))
    }

    fn passed<'l>(&mut self, piece: Piece<'l>) -> Cow<'l, [u8]> {
        let (text, begins_here, ends) = match piece {
            Piece::Between(text) => return Cow::Borrowed(text),
            Piece::Command(text) => return self.command(text),
            Piece::Statement { text, begins, ends } => (text, begins, ends),
        };
        if begins_here {
            self.fate = self.fate_of(text);
            self.copies = begins(text, "COPY ");
        }
        self.in_rows = ends && self.copies && holds(&text.to_ascii_lowercase(), "from stdin");
        match self.fate {
            Fate::LeftOut => Cow::Borrowed(&[]),
            Fate::Extension if begins_here && ends => Cow::Owned(as_administrator(text)),
            Fate::AsItIs | Fate::Extension => Cow::Borrowed(text),
        }
    }

    /// What psql does itself. It is asked for no other database; and newer dumps have a command that older clients do not know.
    fn command<'l>(&mut self, text: &'l [u8]) -> Cow<'l, [u8]> {
        if begins_with_any(text, &["\\connect ", "\\c "]) {
            self.databases.turn_to(
                connected(text),
                match self.of_all {
                    true => &SYSTEM,
                    false => &[],
                },
            );
            return Cow::Borrowed(&[]);
        }
        match begins_with_any(text, &["\\restrict", "\\unrestrict"]) {
            true => Cow::Borrowed(&[]),
            false => Cow::Borrowed(text),
        }
    }

    fn fate_of(&mut self, statement: &[u8]) -> Fate {
        let is_elsewhere = self.databases.leaves_out(statement)
            || begins_with_any(statement, &ELSEWHERE)
            || begins(statement, "ALTER ") && holds(statement, " OWNER TO ")
            || is_tablespace(statement);
        // What `pg_dump --clean` begins with: in the lab there is nothing yet to be removed.
        let removes = begins(statement, "DROP ")
            || begins(statement, "ALTER TABLE") && holds(statement, " DROP ");
        if is_elsewhere || removes && !self.made {
            return Fate::LeftOut;
        }
        self.made |= begins(statement, "CREATE ");
        match begins(statement, "CREATE EXTENSION") {
            true => Fate::Extension,
            false => Fate::AsItIs,
        }
    }
}

fn is_tablespace(statement: &[u8]) -> bool {
    let is_usual = holds(statement, "''") || holds(statement, "\"\"");
    begins(statement, "SET default_tablespace") && !is_usual
}

/// The database of `\connect name`, or of `\connect -reuse-previous=on "dbname='the name'"`.
fn connected(text: &[u8]) -> String {
    if holds(text, "dbname=") {
        let text = String::from_utf8_lossy(text);
        return unquoted(text.split("dbname=").nth(1).unwrap_or_default().as_bytes());
    }
    let mut words = text.trim_ascii().split(u8::is_ascii_whitespace);
    unquoted(words.next_back().unwrap_or_default())
}

/// Most extensions are made by an administrator alone.
fn as_administrator(text: &[u8]) -> Vec<u8> {
    let back = format!(" SET SESSION AUTHORIZATION {APP_ROLE};");
    let reset: &[u8] = b"RESET SESSION AUTHORIZATION; ";
    [reset, text, back.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::super::{Reading, tests::read};

    fn check(dump: &str, expected: &str, unfit: Option<&str>) {
        let (kept, why) = read(Reading::of("postgresql", "15.14"), dump);
        assert_eq!(kept, expected);
        let said = |unfit| why.as_deref().is_some_and(|why: &str| why.contains(unfit));
        assert_eq!(why.is_some(), unfit.is_some_and(said), "{why:?}");
    }

    #[test]
    fn owners_and_rights_of_another_machine_are_left_out() {
        check(
            "--\n-- Name: a; Type: TABLE; Owner: shop's\n--\n\\restrict abc\nSET transaction_timeout = 0;\nSET default_tablespace = '';\n\
             CREATE TABLE public.a (\n    id integer, -- it's\n    b text\n);\nALTER TABLE public.a OWNER TO shop;\n\
             ALTER TABLE ONLY public.a ADD CONSTRAINT a_key PRIMARY KEY (id);\nGRANT SELECT ON TABLE public.a TO reader; -- for it\n\
             INSERT INTO a VALUES (1);\n",
            "--\n-- Name: a; Type: TABLE; Owner: shop's\n--\nSET default_tablespace = '';\nCREATE TABLE public.a (\n    id integer, -- it's\n\
             \x20   b text\n);\nALTER TABLE ONLY public.a ADD CONSTRAINT a_key PRIMARY KEY (id);\n -- for it\nINSERT INTO a VALUES (1);\n",
            None,
        );
    }

    #[test]
    fn rows_texts_and_bodies_stay_as_they_are() {
        let dump = "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS\n$_$\nGRANT a TO b;\nDROP TABLE a;\n$_$;\n\
                    COPY public.a (note) FROM STDIN;\nGRANT of a week's leave\nUSE\n\\.\n\
                    INSERT INTO a VALUES ('two lines: as $US$ 5\nGRANT it''s one;\nend');\nSELECT 1;\n";
        check(dump, dump, None);
    }

    #[test]
    fn the_one_database_of_a_dump_is_the_labs() {
        let dump = "-- PostgreSQL database cluster dump\nCREATE ROLE shop;\nALTER ROLE shop WITH NOSUPERUSER\n LOGIN;\n\\connect template1\n\
                    CREATE TABLE odd (id int);\nCOPY odd (note) FROM stdin;\nhello\n\\.\n\
                    CREATE DATABASE shop WITH TEMPLATE = template0;\nALTER DATABASE shop OWNER TO shop;\n\\connect shop\n\
                    CREATE TABLE public.a (id integer);\n";
        let kept = "-- PostgreSQL database cluster dump\nCREATE TABLE public.a (id integer);\n";
        check(dump, kept, None);
        let quoted = "\\connect -reuse-previous=on \"dbname='the shop'\"\n\\connect blog\n";
        check(quoted, "", Some("the databases the shop, blog"));
        let own = "\\connect postgres\nCREATE TABLE a (id int);\n";
        check(own, "CREATE TABLE a (id int);\n", None);
        let system = format!("-- PostgreSQL database cluster dump\n{own}");
        check(
            &system,
            "-- PostgreSQL database cluster dump\n",
            Some("only databases that every server has"),
        );
    }

    #[test]
    fn nothing_is_removed_before_something_is_made() {
        check(
            "ALTER TABLE ONLY public.a DROP CONSTRAINT a_key;\nDROP TABLE public.a;\nDROP SCHEMA public;\nCREATE SCHEMA public;\n\
             BEGIN; DROP TABLE a; CREATE TABLE a (id int);\nALTER TABLE a ADD COLUMN b int;\nDROP TABLE a;\n",
            "BEGIN;  CREATE TABLE a (id int);\nALTER TABLE a ADD COLUMN b int;\nDROP TABLE a;\n",
            None,
        );
    }

    #[test]
    fn an_extension_is_made_by_the_administrator() {
        check(
            "CREATE EXTENSION IF NOT EXISTS hstore WITH SCHEMA public;\nCOMMENT ON EXTENSION hstore IS 'pairs';\n",
            "RESET SESSION AUTHORIZATION; CREATE EXTENSION IF NOT EXISTS hstore WITH SCHEMA public; SET SESSION AUTHORIZATION app;\n",
            None,
        );
    }
}
