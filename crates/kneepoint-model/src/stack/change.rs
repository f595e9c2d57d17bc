//! Changes that are no setting of a server: a statement for the database, a line of a file of the application, a command
//! in its directory. They are made in the lab only: in its database, and in the arm's private copy of the application.

use super::{Layer, Setting, SettingKey};

/// What a change is made to. Its value says what is put there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// `db.sql.NAME`: a statement that the database runs after its seed, such as one that makes an index.
    Statement {
        /// What the statement is called.
        name: &'a str,
    },
    /// `app.line.FILE:LINE`: the whole text of that line.
    Line {
        /// The file, relative to the application's root.
        file: &'a str,
        /// The line in it, from 1.
        line: usize,
    },
    /// `app.run.NAME`: a command line for a shell, in the application's directory and with its environment.
    Command {
        /// What the command is called.
        name: &'a str,
    },
}

const STATEMENT: &str = "sql.";
const LINE: &str = "line.";
const COMMAND: &str = "run.";

impl<'a> Change<'a> {
    /// What the names of changes look like, for people.
    pub const NAMES: &'static str = "db.sql.NAME, app.line.FILE:LINE or app.run.NAME";
    /// The variable that has, for a command that names it, the text of an object cache of WordPress.
    pub const OBJECT_CACHE: &'static str = "KNEEPOINT_OBJECT_CACHE";

    /// What a key changes; `None` for one of a setting, and for a name that is incomplete.
    #[must_use]
    pub fn of(key: &'a SettingKey) -> Option<Self> {
        let named = |prefix| {
            let rest = key.name.strip_prefix(prefix)?;
            (!rest.is_empty()).then_some(rest)
        };
        match key.layer {
            Layer::Db => named(STATEMENT).map(|name| Self::Statement { name }),
            Layer::App => named(COMMAND)
                .map(|name| Self::Command { name })
                .or_else(|| {
                    let (file, line) = named(LINE)?.rsplit_once(':')?;
                    let line = line.parse().ok().filter(|line| *line > 0)?;
                    (!file.is_empty()).then_some(Self::Line { file, line })
                }),
            _ => None,
        }
    }

    /// The change with what is put there.
    #[must_use]
    pub fn to(&self, value: impl Into<String>) -> Setting {
        Setting {
            key: self.key(),
            value: value.into(),
        }
    }

    /// The key of the change.
    #[must_use]
    pub fn key(&self) -> SettingKey {
        match self {
            Self::Statement { name } => SettingKey::new(Layer::Db, &format!("{STATEMENT}{name}")),
            Self::Line { file, line } => {
                SettingKey::new(Layer::App, &format!("{LINE}{file}:{line}"))
            }
            Self::Command { name } => SettingKey::new(Layer::App, &format!("{COMMAND}{name}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: &str, expected: Option<Change<'_>>) {
        let key: SettingKey = key.parse().expect(key);
        assert_eq!(Change::of(&key), expected, "{key}");
        if let Some(change) = expected {
            assert_eq!(change.key(), key);
        }
    }

    #[test]
    fn a_key_says_what_is_changed() {
        let name = "orders_by_customer";
        check(
            "db.sql.orders_by_customer",
            Some(Change::Statement { name }),
        );
        let file = "conf/local.php";
        check(
            "app.line.conf/local.php:12",
            Some(Change::Line { file, line: 12 }),
        );
        check(
            "app.run.composer",
            Some(Change::Command { name: "composer" }),
        );
    }

    #[test]
    fn settings_and_names_that_are_incomplete_change_nothing() {
        for key in [
            "db.max_connections",
            "web.sql.x",
            "app.redis.persistent",
            "db.sql.",
            "app.run.",
            "app.line.x.php",
            "app.line.x.php:0",
            "app.line.x.php:many",
            "app.line.:3",
        ] {
            check(key, None);
        }
    }
}
