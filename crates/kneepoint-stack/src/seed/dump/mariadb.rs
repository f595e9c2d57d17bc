//! Dumps of MySQL and MariaDB, as mysqldump, mariadb-dump and phpMyAdmin write them.

use super::{LEFT_OUT, begins, begins_with_any, ends, holds, take, unquoted};
use crate::tunable_spec;
use memchr::memmem;
use std::borrow::Cow;

/// Databases that every server has of its own.
const SYSTEM: [&str; 4] = ["mysql", "sys", "information_schema", "performance_schema"];
/// Statements about databases, and about the server that wrote the dump. `GTID_PURGED` is MySQL's alone
/// (<https://dev.mysql.com/doc/refman/8.4/en/mysqldump.html>, `--set-gtid-purged`).
const ELSEWHERE: [&str; 7] = [
    "CREATE DATABASE",
    "CREATE SCHEMA",
    "DROP DATABASE",
    "ALTER DATABASE",
    "/*!40000 DROP DATABASE",
    "/*!32312 CREATE DATABASE",
    "SET @@GLOBAL.GTID_PURGED",
];
/// Lines that hold rows: nothing in them is changed.
const ROWS: [&str; 3] = ["INSERT", "REPLACE", "("];
/// Lines that make a view, a trigger, a routine or an event.
const MAKES: [&str; 2] = ["/*!5", "CREATE"];

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

/// How far a dump was read.
#[derive(Debug)]
pub(in crate::seed) struct Reading {
    /// The lab's server, as numbers.
    version: [u32; 3],
    /// Whether a statement that is left out goes on.
    leaving: bool,
    /// Whether what follows is of a database that every server has.
    of_system: bool,
    /// Databases that the dump names.
    pub(super) databases: Vec<String>,
}

impl Reading {
    pub(super) fn of(version: &str) -> Self {
        Self {
            version: tunable_spec::version(version),
            leaving: false,
            of_system: false,
            databases: Vec::new(),
        }
    }

    pub(super) fn line<'l>(&mut self, line: &'l [u8]) -> Cow<'l, [u8]> {
        if self.leaving {
            self.leaving = !ends(line);
            return LEFT_OUT;
        }
        if let Some(name) = used(line) {
            self.of_system = SYSTEM.contains(&name.as_str());
            if !self.of_system {
                take(&mut self.databases, &name);
            }
            return LEFT_OUT;
        }
        if self.of_system || begins_with_any(line, &ELSEWHERE) {
            self.leaving = !self.of_system && !ends(line);
            return LEFT_OUT;
        }
        match begins_with_any(line, &ROWS) {
            true => Cow::Borrowed(line),
            false => self.known_here(line),
        }
    }

    /// The line with collations that this server knows, and with its user as the one who made views and triggers: what a user
    /// made who does not exist can be read by nobody.
    fn known_here<'l>(&self, line: &'l [u8]) -> Cow<'l, [u8]> {
        let mut line = Cow::Borrowed(line);
        if begins_with_any(&line, &MAKES) && holds(&line, "DEFINER=") {
            line = Cow::Owned(made_by_user(&line));
        }
        if self.version < [11, 4, 5] && holds(&line, "utf8mb4_0900_") {
            for (theirs, since_10_10, before) in COLLATIONS {
                let ours = match self.version >= [10, 10, 0] {
                    true => since_10_10,
                    false => before,
                };
                line = Cow::Owned(replaced(&line, theirs, ours));
            }
        }
        line
    }
}

/// The database of ``USE `name`;``. A text of several lines may have one that begins so.
fn used(line: &[u8]) -> Option<String> {
    let rest = line.trim_ascii();
    let name = unquoted(rest.get(4..)?.strip_suffix(b";")?);
    let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
    (begins(rest, "USE ") && is_name).then_some(name)
}

/// The line with ``DEFINER=`user`@`host` `` said of whoever reads it.
fn made_by_user(line: &[u8]) -> Vec<u8> {
    const DEFINER: &str = "DEFINER=";
    let Some(at) = memmem::find(line, DEFINER.as_bytes()) else {
        return line.to_vec();
    };
    let (head, rest) = line.split_at(at + DEFINER.len());
    let mut quoted = false;
    let is_end = |byte: &u8| {
        quoted ^= *byte == b'`';
        !quoted && (byte.is_ascii_whitespace() || *byte == b'*')
    };
    let end = rest.iter().position(is_end).unwrap_or(rest.len());
    [head, b"CURRENT_USER", &rest[end..]].concat()
}

fn replaced(line: &[u8], from: &str, to: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(line.len());
    let mut rest = line;
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

    fn check(version: &str, dump: &str, expected: &str, databases: &[&str]) {
        let (kept, names) = read(Reading::of("mariadb", version), dump);
        assert_eq!(kept, expected);
        assert_eq!(names, databases);
    }

    const TABLE: &str = "CREATE TABLE `orders` (\n  `note` varchar(9) COLLATE utf8mb4_0900_ai_ci\n) ENGINE=InnoDB COLLATE=utf8mb4_0900_ai_ci;\n";

    #[test]
    fn the_one_database_of_a_dump_is_the_labs() {
        let dump = "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;\n\nUSE `shop`;\n\
                    CREATE TABLE `a` (`id` int);\nINSERT INTO `a` VALUES (1);\n";
        let kept = "CREATE TABLE `a` (`id` int);\nINSERT INTO `a` VALUES (1);\n";
        check("10.11.11", dump, kept, &[]);
        let all = format!("{dump}USE `mysql`;\nCREATE TABLE `user` (\n  `Host` char(9)\n);\n");
        check("10.11.11", &all, kept, &[]);
        let text = "Use the blue one;\nuse it\n";
        check("10.11.11", text, text, &[]);
        let two = format!("{dump}USE `blog`;\n");
        check("10.11.11", &two, kept, &["shop", "blog"]);
    }

    #[test]
    fn a_collation_of_mysql_8_is_one_that_this_server_has() {
        let with = |name: &str| TABLE.replace("utf8mb4_0900_ai_ci", name);
        check("10.11.11", TABLE, &with("utf8mb4_uca1400_nopad_ai_ci"), &[]);
        check("10.6.18", TABLE, &with("utf8mb4_unicode_520_nopad_ci"), &[]);
        check("11.8.2", TABLE, TABLE, &[]);
        let row = "INSERT INTO `notes` VALUES ('COLLATE utf8mb4_0900_ai_ci');\n";
        check("10.11.11", row, row, &[]);
    }

    #[test]
    fn a_view_is_made_by_the_user_who_reads_the_dump() {
        check(
            "10.11.11",
            "/*!50013 DEFINER=`the shop`@`%` SQL SECURITY DEFINER */\n/*!50003 CREATE*/ /*!50017 DEFINER=`a`@`b`*/ /*!50003 TRIGGER t\n",
            "/*!50013 DEFINER=CURRENT_USER SQL SECURITY DEFINER */\n/*!50003 CREATE*/ /*!50017 DEFINER=CURRENT_USER*/ /*!50003 TRIGGER t\n",
            &[],
        );
    }

    #[test]
    fn what_mysql_says_of_its_replication_is_left_out() {
        let dump = "SET @@SESSION.SQL_LOG_BIN= 0;\nSET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'a:1-5,\nb:1-9';\nSELECT 1;\n";
        check(
            "10.11.11",
            dump,
            "SET @@SESSION.SQL_LOG_BIN= 0;\nSELECT 1;\n",
            &[],
        );
    }
}
