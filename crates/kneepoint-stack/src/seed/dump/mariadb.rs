//! Dumps of MySQL and MariaDB, as mysqldump, mariadb-dump and phpMyAdmin write them.

use super::scanner::{Piece, Scanner, Syntax};
use super::{Databases, begins, begins_with_any, holds, passed_on, unquoted};
use crate::tunable_spec;
use memchr::memmem;
use std::borrow::Cow;

/// Databases that every server has of its own, or its phpMyAdmin.
const SYSTEM: [&str; 5] = [
    "mysql",
    "sys",
    "information_schema",
    "performance_schema",
    "phpmyadmin",
];
/// Statements about databases, users and the server that wrote the dump. `GTID_PURGED` is MySQL's alone
/// (<https://dev.mysql.com/doc/refman/8.4/en/mysqldump.html>, `--set-gtid-purged`); one that replicates would reach for the real
/// server.
const ELSEWHERE: [&str; 19] = [
    "CREATE DATABASE",
    "CREATE SCHEMA",
    "DROP DATABASE",
    "ALTER DATABASE",
    "CREATE USER",
    "ALTER USER",
    "DROP USER",
    "CREATE ROLE",
    "DROP ROLE",
    "SET PASSWORD",
    "GRANT ",
    "REVOKE ",
    "CHANGE MASTER",
    "CHANGE REPLICATION",
    "START SLAVE",
    "STOP SLAVE",
    "START REPLICA",
    "STOP REPLICA",
    "SET @@GLOBAL.GTID_PURGED",
];
/// Statements that hold rows: nothing in them is changed.
const ROWS: [&str; 2] = ["INSERT", "REPLACE"];

/// MySQL's collations that MariaDB does not know by their names before 11.4.5
/// (<https://mariadb.com/kb/en/supported-character-sets-and-collations/>), and those that compare alike: of Unicode 14 since
/// 10.10, of Unicode 5.2 before.
const COLLATIONS: [(&str, &str, &str); 4] = [
    (
        "utf8mb4_0900_ai_ci",
        "utf8mb4_uca1400_nopad_ai_ci",
        "utf8mb4_unicode_520_nopad_ci",
    ),
    (
        "utf8mb4_0900_as_ci",
        "utf8mb4_uca1400_nopad_as_ci",
        "utf8mb4_unicode_520_nopad_ci",
    ),
    (
        "utf8mb4_0900_as_cs",
        "utf8mb4_uca1400_nopad_as_cs",
        "utf8mb4_nopad_bin",
    ),
    ("utf8mb4_0900_bin", "utf8mb4_nopad_bin", "utf8mb4_nopad_bin"),
];

/// What becomes of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    LeftOut,
    AsItIs,
    ForThisServer,
}

/// How far a dump was read.
#[derive(Debug)]
pub(in crate::seed) struct Reading {
    /// The lab's server, as numbers.
    version: [u32; 3],
    scanner: Scanner,
    /// That of the statement that goes on.
    fate: Fate,
    pub(super) databases: Databases,
}

impl Reading {
    pub(super) fn of(version: &str) -> Self {
        Self {
            version: tunable_spec::version(version),
            scanner: Scanner::new(Syntax::Mysql),
            fate: Fate::AsItIs,
            databases: Databases::default(),
        }
    }

    pub(super) fn line<'l>(&mut self, line: &'l [u8]) -> Cow<'l, [u8]> {
        let pieces = self.scanner.pieces(line);
        passed_on(line, pieces, |piece| self.passed(piece))
    }

    fn passed<'l>(&mut self, piece: Piece<'l>) -> Cow<'l, [u8]> {
        let (text, begins) = match piece {
            Piece::Between(text) | Piece::Command(text) => return Cow::Borrowed(text),
            Piece::Statement { text, begins, .. } => (text, begins),
        };
        if begins {
            self.fate = self.fate_of(text);
        }
        match self.fate {
            Fate::LeftOut => Cow::Borrowed(&[]),
            Fate::AsItIs => Cow::Borrowed(text),
            Fate::ForThisServer => self.known_here(text),
        }
    }

    fn fate_of(&mut self, statement: &[u8]) -> Fate {
        let head = read_of(statement);
        if begins(head, "USE ") {
            let name = head[4..].split(|byte| *byte == b';').next();
            let name = unquoted(name.unwrap_or_default());
            self.databases.turn_to(name, &SYSTEM);
            // The client takes the line for all of it.
            self.scanner.end_statement();
            return Fate::LeftOut;
        }
        if self.databases.leaves_out(head) || begins_with_any(head, &ELSEWHERE) {
            return Fate::LeftOut;
        }
        match begins_with_any(head, &ROWS) {
            true => Fate::AsItIs,
            false => Fate::ForThisServer,
        }
    }

    /// A statement with collations that this server knows, and with its user as the one who made views and triggers: what a user
    /// made who does not exist can be read by nobody.
    fn known_here<'l>(&self, text: &'l [u8]) -> Cow<'l, [u8]> {
        let mut text = Cow::Borrowed(text);
        if holds(&text, "DEFINER=") {
            text = Cow::Owned(made_by_user(&text));
        }
        if self.version < [11, 4, 5] && holds(&text, "utf8mb4_0900_") {
            for (theirs, since_10_10, before) in COLLATIONS {
                let ours = match self.version >= [10, 10, 0] {
                    true => since_10_10,
                    false => before,
                };
                text = Cow::Owned(replaced(&text, theirs, ours));
            }
        }
        text
    }
}

/// A statement without the mark of a comment that is read.
fn read_of(statement: &[u8]) -> &[u8] {
    let marked = statement.strip_prefix(b"/*!");
    let Some(rest) = marked.or_else(|| statement.strip_prefix(b"/*M!")) else {
        return statement;
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest[digits..].trim_ascii_start()
}

/// A statement with ``DEFINER=`user`@`host` `` said of whoever reads it.
fn made_by_user(text: &[u8]) -> Vec<u8> {
    const DEFINER: &str = "DEFINER=";
    let Some(at) = memmem::find(text, DEFINER.as_bytes()) else {
        return text.to_vec();
    };
    let (head, rest) = text.split_at(at + DEFINER.len());
    let mut quoted = false;
    let is_end = |byte: &u8| {
        quoted ^= *byte == b'`';
        !quoted && (byte.is_ascii_whitespace() || *byte == b'*')
    };
    let end = rest.iter().position(is_end).unwrap_or(rest.len());
    [head, b"CURRENT_USER", &rest[end..]].concat()
}

fn replaced(text: &[u8], from: &str, to: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memmem::find(rest, from.as_bytes()) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(to.as_bytes());
        rest = &rest[at + from.len()..];
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Reading, tests::read};

    fn check(version: &str, dump: &str, expected: &str, unfit: Option<&str>) {
        let (kept, why) = read(Reading::of("mariadb", version), dump);
        assert_eq!(kept, expected);
        let said = |unfit| why.as_deref().is_some_and(|why: &str| why.contains(unfit));
        assert_eq!(why.is_some(), unfit.is_some_and(said), "{why:?}");
    }

    const TABLE: &str = "CREATE TABLE `orders` (\n  `note` varchar(9) COLLATE utf8mb4_0900_ai_ci\n) ENGINE=InnoDB COLLATE=utf8mb4_0900_ai_ci;\n";

    #[test]
    fn the_one_database_of_a_dump_is_the_labs() {
        let dump = "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;\n\nUSE `shop`;\n\
                    CREATE TABLE `a` (`id` int);\nINSERT INTO `a` VALUES (1);\n";
        let kept = "CREATE TABLE `a` (`id` int);\nINSERT INTO `a` VALUES (1);\n";
        check("10.11.11", dump, kept, None);
        let all = format!("{dump}USE `mysql`;\nCREATE TABLE `user` (\n  `Host` char(9)\n);\n");
        check("10.11.11", &all, kept, None);
        let two = format!("{dump}USE blog\n");
        check("10.11.11", &two, kept, Some("the databases shop, blog"));
        let none = "USE mysql;\nCREATE TABLE `user` (\n  `Host` char(9)\n);\n";
        check(
            "10.11.11",
            none,
            "",
            Some("only databases that every server has"),
        );
    }

    #[test]
    fn a_statement_is_left_out_and_not_what_stands_beside_it() {
        check(
            "10.11.11",
            "CREATE DATABASE shop; USE shop; INSERT INTO a VALUES (1);\nGRANT ALL ON *.* TO u; -- ours\nCREATE TABLE a (\n id int);\n",
            "  INSERT INTO a VALUES (1);\n -- ours\nCREATE TABLE a (\n id int);\n",
            None,
        );
    }

    #[test]
    fn texts_of_several_lines_and_bodies_stay_as_they_are() {
        let dump = "INSERT INTO posts VALUES ('How to:\nUSE shop;\nCREATE DATABASE x\nit\\'s COLLATE utf8mb4_0900_ai_ci');\n\
                    DELIMITER ;;\nCREATE PROCEDURE p() BEGIN\nSELECT 1;\nEND ;;\nDELIMITER ;\nSELECT 2;\n";
        check("10.11.11", dump, dump, None);
    }

    #[test]
    fn a_collation_of_mysql_8_is_one_that_this_server_has() {
        let with = |name: &str| TABLE.replace("utf8mb4_0900_ai_ci", name);
        check(
            "10.11.11",
            TABLE,
            &with("utf8mb4_uca1400_nopad_ai_ci"),
            None,
        );
        check(
            "10.6.18",
            TABLE,
            &with("utf8mb4_unicode_520_nopad_ci"),
            None,
        );
        check("11.8.2", TABLE, TABLE, None);
        let row = "INSERT INTO `notes` VALUES ('COLLATE utf8mb4_0900_ai_ci');\n";
        check("10.11.11", row, row, None);
    }

    #[test]
    fn a_view_is_made_by_the_user_who_reads_the_dump() {
        check(
            "10.11.11",
            "/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`the shop`@`%` SQL SECURITY DEFINER */\n/*!50001 VIEW v AS select 1 */;\n\
             /*!50003 CREATE*/ /*!50017 DEFINER=`a`@`b`*/ /*!50003 TRIGGER t\n",
            "/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=CURRENT_USER SQL SECURITY DEFINER */\n/*!50001 VIEW v AS select 1 */;\n\
             /*!50003 CREATE*/ /*!50017 DEFINER=CURRENT_USER*/ /*!50003 TRIGGER t\n",
            None,
        );
    }

    #[test]
    fn what_mysql_says_of_its_replication_is_left_out() {
        let dump = "SET @@SESSION.SQL_LOG_BIN= 0;\nSET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'a:1-5,\nb:1-9';\n\
                    CHANGE MASTER TO MASTER_HOST='prod';\n/*!40000 DROP DATABASE IF EXISTS `a`*/;\nSELECT 1;\n";
        check(
            "10.11.11",
            dump,
            "SET @@SESSION.SQL_LOG_BIN= 0;\nSELECT 1;\n",
            None,
        );
    }
}
