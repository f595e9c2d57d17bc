//! PgBouncer: its limits, and what its only database has of its own. Nothing else of its file is kept: lines of databases hold
//! passwords.

use super::{Reader, Subject};
use crate::files;
use crate::snapshot::{SettingSource, Settings};

/// Settings that are kept.
const KEPT: [&str; 8] = [
    "default_pool_size",
    "listen_backlog",
    "logfile",
    "max_client_conn",
    "pool_mode",
    "query_wait_timeout",
    "reserve_pool_size",
    "so_reuseport",
];
/// What a database or a user may have of its own.
const OWN: [&str; 4] = [
    "pool_mode",
    "pool_size",
    "reserve_pool",
    "reserve_pool_size",
];

/// What is in force; `None` where its file cannot be read. `databases` is how many lines of databases there are, and what
/// stands behind `database` holds for the only one; a line for every other name counts as two. `users` is there where some have
/// pools of their own.
pub(crate) fn read(subject: &Subject<'_>, reader: &mut Reader<'_>) -> Option<Settings> {
    // What stands behind `-u` is a user.
    let args = || {
        let pairs = subject.args.windows(2).rev();
        let others = pairs.filter(|pair| !matches!(pair[0].as_str(), "-u" | "--user"));
        others.map(|pair| &pair[1])
    };
    let named = args().find(|arg| arg.ends_with(".ini"));
    let named = named.or_else(|| args().find(|arg| !arg.starts_with('-')));
    let main = named.map_or("/etc/pgbouncer/pgbouncer.ini", String::as_str);
    let main = files::absolute(subject.cwd, main);
    let text = reader.must(&main)?;
    let mut found = Found::default();
    found.file(reader, &text, (&main, subject.cwd));
    Some(found.settings())
}

#[derive(Default)]
struct Found {
    settings: Settings,
    /// The section that the next line is in, whatever file that is of.
    section: String,
    databases: u64,
    /// The last line of a database, and what it says of its pools.
    last: Option<(SettingSource, Vec<(String, String)>)>,
}

impl Found {
    fn file(&mut self, reader: &mut Reader<'_>, text: &str, (path, cwd): (&str, &str)) {
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if let Some(named) = line.strip_prefix("%include") {
                let named = files::absolute(cwd, named.trim());
                for (path, text) in reader.included(&named) {
                    reader.deeper(|reader| self.file(reader, &text, (&path, cwd)));
                }
            } else if let Some(named) = line.strip_prefix('[') {
                let name = named.split(']').next().unwrap_or_default();
                self.section = name.trim().to_owned();
            } else if let Some((name, value)) = line.split_once('=')
                && !line.starts_with([';', '#'])
            {
                let source = SettingSource::file(path, index + 1);
                self.line(name.trim(), value.trim(), source);
            }
        }
    }

    fn line(&mut self, name: &str, value: &str, source: SettingSource) {
        match self.section.as_str() {
            "pgbouncer" if KEPT.contains(&name) => self.settings.set(name, value, source),
            "databases" => {
                self.databases += if name == "*" { 2 } else { 1 };
                self.last = Some((source, own(value)));
            }
            "users" if !own(value).is_empty() => self.settings.set("users", "own pools", source),
            _ => {}
        }
    }

    fn settings(mut self) -> Settings {
        let Some((source, own)) = self.last else {
            return self.settings;
        };
        let count = self.databases.to_string();
        self.settings.set("databases", &count, source.clone());
        for (name, value) in own.iter().filter(|_| self.databases == 1) {
            let name = format!("database {name}");
            self.settings.set(&name, value, source.clone());
        }
        self.settings
    }
}

/// What a line of a database or a user says of its pools: `name=value`, with any blanks around the sign.
fn own(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((name, behind)) = rest.split_once('=') {
        let (value, next) = value(behind.trim_start());
        let name = name.trim();
        if OWN.contains(&name) {
            found.push((name.to_owned(), value));
        }
        rest = next;
    }
    found
}

/// The value that a text begins with, and what is behind it: it ends at a blank, or where it begins with a quote, at the next
/// one. Two quotes in it are one that is meant.
fn value(text: &str) -> (String, &str) {
    let Some(mut rest) = text.strip_prefix('\'') else {
        let end = text.find(|letter: char| letter.is_ascii_whitespace());
        let (value, behind) = text.split_at(end.unwrap_or(text.len()));
        return (value.to_owned(), behind);
    };
    let mut value = String::new();
    while let Some((before, behind)) = rest.split_once('\'') {
        value.push_str(before);
        let Some(more) = behind.strip_prefix('\'') else {
            return (value, behind);
        };
        value.push('\'');
        rest = more;
    }
    value.push_str(rest);
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Memory;

    const MAIN: &str = "/etc/pgbouncer/pgbouncer.ini";

    fn found(files: &[(&str, &str)]) -> Option<Settings> {
        let files = Memory::of(files);
        let args = ["pgbouncer", "-d", MAIN, "-u", "postgres"].map(str::to_owned);
        let subject = Subject::with(&files, &args);
        read(&subject, &mut Reader::new(&subject))
    }

    #[test]
    fn nothing_but_limits_is_kept() {
        let main = "; x = 1\n[databases]\nshop = host=db password='a ; secret' pool_size = 5\n%include /more\n";
        let more = "[pgbouncer]\n#pool_mode = session\nauth_file = /secret\nmax_client_conn=200\n";
        let settings = found(&[(MAIN, main), ("/more", more)]).expect("read");
        assert_eq!(settings.text("databases"), Some("1"));
        assert_eq!(settings.text("database pool_size"), Some("5"));
        assert_eq!(settings.text("pool_mode"), None);
        let most = settings.get("max_client_conn").expect("set");
        assert_eq!(
            (most.text.as_str(), most.source.to_string().as_str()),
            ("200", "/more:4")
        );
        assert!(!format!("{settings:?}").contains("secret"));
    }

    #[test]
    fn what_one_of_several_databases_or_a_user_has_is_not_taken_for_all() {
        let main =
            "[databases]\na = pool_size=5\n* = host=db\n[users]\nb = pool_mode=session\nc = x=1\n";
        let settings = found(&[(MAIN, main)]).expect("read");
        assert_eq!(settings.text("databases"), Some("3"));
        assert_eq!(settings.text("database pool_size"), None);
        assert_eq!(
            settings.get("users").map(|users| users.source.to_string()),
            Some(format!("{MAIN}:5"))
        );
        assert!(found(&[]).is_none(), "there is no file");
        let every = found(&[(MAIN, "[databases]\n* = host=db\n")]).expect("read");
        assert_ne!(every.text("databases"), Some("1"), "any name may be asked");
    }

    #[test]
    fn values_are_taken_as_pgbouncer_takes_them() {
        for (line, expected) in [
            ("password=o'reilly pool_size=60", "pool_size 60"),
            ("host=db  pool_size  =  60 ", "pool_size 60"),
            ("password='a '' pool_size=9' pool_size='60'", "pool_size 60"),
            ("password='pool_size=9", ""),
            ("= pool_size =", ""),
            ("pool_mode='a''b'pool_size=5", "pool_mode a'b, pool_size 5"),
            ("'", ""),
        ] {
            let found = own(line).into_iter();
            let found: Vec<String> = found
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            assert_eq!(found.join(", "), expected, "{line}");
        }
    }

    #[test]
    fn a_user_is_not_its_file() {
        let files = Memory::of(&[("/bouncer", "[pgbouncer]\nmax_client_conn = 7\n")]);
        for option in ["-u", "--user"] {
            let args = ["pgbouncer", "/bouncer", option, "postgres"].map(str::to_owned);
            let subject = Subject::with(&files, &args);
            let found = read(&subject, &mut Reader::new(&subject)).expect("read");
            assert_eq!(found.text("max_client_conn"), Some("7"));
        }
    }
}
