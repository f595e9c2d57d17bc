//! Settings of a database in an INI file, as Matomo has them. Such a file cannot read the environment: the lab's values are
//! written into the copy. They stand before yours, in the section of yours; yours fall into one that nobody reads.

use super::changes::FileChange;
use super::database::{DbEngine, SettingsFile, files_named, is_address};
use super::environment::address;
use super::known::REFUSES;
use super::roles::{
    ABOUT_OTHERS, Role, SECRET, are_marked, is_name, is_socket, of_key_among, port_key,
};
use std::path::Path;

const WHY: &str = "The lab's database instead of yours. (Yours is not written here.)";
/// Why Matomo does not insist on TLS.
const TLS: &str = "The lab asks without TLS: the site would send its visitors to https.";
/// Where Matomo has its settings.
const MATOMO: &str = "config/config.ini.php";
/// Where applications have such files.
const USUAL: &[&str] = &[
    MATOMO,
    "config/config.ini",
    "config.ini",
    "config.ini.php",
    "config/database.ini",
    "app/config/config.ini",
    "conf/config.ini",
];
/// What the name of an entry about TLS has, which the lab's database does without.
const NEEDLESS: [&str; 2] = ["ssl", "tls"];

/// A section of an INI file.
#[derive(Debug)]
pub(super) struct Section<'t> {
    pub(super) file: &'t str,
    /// The text of the whole file.
    text: &'t str,
    /// Its name, and that in its brackets.
    name: &'t str,
    header: &'t str,
    entries: Vec<Entry<'t>>,
    /// Whether the names of the database's entries tell them from others.
    marked: bool,
}

#[derive(Debug)]
struct Entry<'t> {
    key: &'t str,
    /// As it is written, with its quotes.
    value: &'t str,
    /// The entry without a comment behind it.
    whole: &'t str,
}

/// The INI files of an application. `public` is the directory of the front controller, relative to the root.
pub(super) fn files(root: &Path, public: &Path) -> Vec<SettingsFile> {
    files_named(USUAL, root, public)
}

/// The sections of all files that say where a database is, and which.
pub(super) fn databases(files: &[SettingsFile]) -> Vec<Section<'_>> {
    let all = files.iter().flat_map(sections);
    let mut found: Vec<Section<'_>> = all.filter(Section::is_database).collect();
    // Of two with one name it is said once that they cannot be told apart.
    found.dedup_by(|second, first| (second.file, second.header) == (first.file, first.header));
    found
}

fn sections(file: &SettingsFile) -> Vec<Section<'_>> {
    let mut found: Vec<Section<'_>> = Vec::new();
    let mut rest = file.text.as_str();
    while !rest.is_empty() {
        let line = rest.split('\n').next().unwrap_or_default().trim();
        let inside = line.strip_prefix('[');
        let mut ends_at = 0;
        if let Some((name, _)) = inside.and_then(|inside| inside.split_once(']')) {
            found.push(Section {
                file: &file.path,
                text: &file.text,
                name,
                header: &line[..name.len() + 2],
                entries: Vec::new(),
                marked: false,
            });
        } else if !line.starts_with([';', '#'])
            && let Some((entry, end)) = first_entry(rest)
        {
            ends_at = end;
            if let Some(section) = found.last_mut() {
                section.entries.push(entry);
            }
        }
        let behind = rest[ends_at..].split_once('\n');
        rest = behind.map_or("", |(_, behind)| behind);
    }
    for section in &mut found {
        section.marked = are_marked(section.entries.iter().map(|entry| entry.key));
    }
    found
}

/// The entry in the first line of a text, and where it ends: a value in quotes may take more than one line.
fn first_entry(text: &str) -> Option<(Entry<'_>, usize)> {
    let line = text.split('\n').next()?;
    let (key, behind) = line.split_once('=')?;
    let begins_at = line.len() - behind.trim_start().len();
    let quote = behind.trim_start().chars().next();
    let quote = quote.filter(|c| "'\"".contains(*c));
    let closes = quote.and_then(|quote| text[begins_at + 1..].find(quote));
    let ends_at = match closes {
        Some(length) => begins_at + 1 + length + 1,
        None => {
            let value = line[begins_at..].split(';').next().unwrap_or_default();
            begins_at + value.trim_end().len()
        }
    };
    let entry = Entry {
        key: key.trim(),
        value: &text[begins_at..ends_at],
        whole: text[..ends_at].trim(),
    };
    Some((entry, ends_at))
}

/// What a value says without its quotes.
fn bare(value: &str) -> &str {
    let quote = value.chars().next().filter(|c| "'\"".contains(*c));
    match quote {
        Some(quote) => value.trim_matches(quote),
        None => value,
    }
}

impl Entry<'_> {
    /// Whether it is copied to the letter: it holds no secret, and the lab has a use for it.
    fn is_kept(&self, role: Option<Role>) -> bool {
        // A quote that nothing closes may have swallowed other entries.
        let names = match self.value.contains('\n') {
            true => self.whole.to_ascii_lowercase(),
            false => self.key.to_ascii_lowercase(),
        };
        let value = self.value.to_ascii_lowercase();
        let has_user = value.contains("://") && value.contains('@');
        let mut words = SECRET.iter().chain(&NEEDLESS);
        let tells = |text: &str| SECRET.iter().any(|word| text.contains(word));
        let is_secret = words.any(|word| names.contains(word)) || has_user || tells(&value);
        !is_secret && role != Some(Role::Url)
    }
}

impl Section<'_> {
    /// What the first entry with this role says. A name is one that a database may have.
    fn text(&self, role: Role) -> Option<&str> {
        let of_role = self.entries.iter();
        let mut of_role = of_role.filter(|entry| self.role(entry) == Some(role));
        let entry = of_role.find(|entry| role != Role::Name || is_name(bare(entry.value)))?;
        Some(bare(entry.value))
    }

    fn role(&self, entry: &Entry<'_>) -> Option<Role> {
        of_key_among(entry.key, self.marked)
    }

    /// Whether it is about the application's database. `${DB_HOST}` comes from the environment already.
    fn is_database(&self) -> bool {
        let section = self.name.to_ascii_lowercase();
        let is_others = ABOUT_OTHERS.iter().any(|word| section.contains(word));
        let is_host = |text: &str| !text.contains("${");
        !is_others && self.text(Role::Host).is_some_and(is_host) && self.text(Role::Name).is_some()
    }

    /// Which database it is, where it says so.
    pub(super) fn engine(&self) -> Option<DbEngine> {
        let says = |entry: &&Entry<'_>| {
            let key = entry.key.to_ascii_lowercase();
            let words = ["adapter", "driver", "type"];
            words.iter().any(|word| key.contains(word))
        };
        let mut drivers = self.entries.iter().filter(says);
        let driver = drivers.find_map(|entry| DbEngine::named(bare(entry.value)));
        let scheme = || DbEngine::of_scheme(self.text(Role::Url)?);
        driver.or_else(scheme)
    }

    /// The name of the database.
    pub(super) fn name(&self) -> Option<&str> {
        self.text(Role::Name)
    }

    /// The section with the lab's values, or a sentence where that cannot be written.
    pub(super) fn change(&self) -> Result<FileChange, String> {
        let entries = self.entries.iter();
        let lines: Vec<String> = entries.filter_map(|entry| self.in_lab(entry)).collect();
        let text = format!("{}\n{}\n\n[as_it_was]", self.header, lines.join("\n"));
        self.replace(self.header, text, WHY)
    }

    /// What an entry is in the lab; `None` leaves it out.
    fn in_lab(&self, entry: &Entry<'_>) -> Option<String> {
        let key = entry.key;
        let set = |value: &str| Some(format!("{key} = {value}"));
        let role = self.role(entry);
        match role {
            Some(Role::Host) if self.text(Role::Port).is_none() => {
                let port = port_key(key);
                set(&format!("\"{{DB_HOST}}\"\n{port} = {{DB_PORT}}"))
            }
            Some(Role::Host) => set("\"{DB_HOST}\""),
            Some(Role::Port) => set("{DB_PORT}"),
            Some(Role::Name) if is_name(bare(entry.value)) => set("\"{DB_DATABASE}\""),
            Some(Role::User) => set("\"{DB_USERNAME}\""),
            Some(Role::Password) => set("\"{DB_PASSWORD}\""),
            Some(Role::Url) if is_address(bare(entry.value)) => {
                set(&format!("\"{}\"", address(bare(entry.value))))
            }
            _ if is_socket(key, self.marked) => set("\"\""),
            _ => entry.is_kept(role).then(|| entry.whole.to_owned()),
        }
    }

    /// Another text in the place of one of the file that is there once.
    fn replace(&self, find: &str, text: String, why: &str) -> Result<FileChange, String> {
        if self.text.matches(find).count() == 1 {
            return Ok(FileChange::replace(self.file, find, text, why));
        }
        Err(format!(
            "{} has {find} in more than one place: let an [[app.file]] change the right one ({{DB_HOST}} and so on stand for \
             the lab's values)",
            self.file
        ))
    }
}

/// What Matomo needs beside its database: it answers by whatever name it is called, and without TLS.
pub(super) fn matomo(files: &[SettingsFile]) -> Vec<Result<FileChange, String>> {
    let is_matomo = |section: &Section<'_>| {
        let mut entries = section.entries.iter();
        section.name == "General" && entries.any(|it| ["trusted_hosts[]", "salt"].contains(&it.key))
    };
    let file = files.iter().find(|file| file.path == MATOMO);
    let Some(general) = file.and_then(|file| sections(file).into_iter().find(is_matomo)) else {
        return Vec::new();
    };
    let mut changes = Vec::new();
    let (mut added, mut whys) = (String::new(), Vec::new());
    for (key, why) in [("enable_trusted_host_check", REFUSES), ("force_ssl", TLS)] {
        let new = format!("{key} = 0");
        // What is set last holds.
        match general.entries.iter().rfind(|entry| entry.key == key) {
            None => {
                added.push('\n');
                added.push_str(&new);
                whys.push(why);
            }
            Some(old) if bare(old.value) == "0" => {}
            Some(old) => changes.push(general.replace(old.whole, new, why)),
        }
    }
    if !added.is_empty() {
        let text = format!("{}{added}", general.header);
        changes.push(general.replace(general.header, text, &whys.join(" ")));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// What a file becomes in the copy. No change holds the word `secret`.
    #[track_caller]
    fn check(text: &str, expected: &Expect) {
        let files = [SettingsFile {
            path: MATOMO.into(),
            text: text.into(),
        }];
        let found = databases(&files);
        let mut told = String::new();
        for section in &found {
            told.push_str(&format!("{:?} {:?}\n", section.engine(), section.name()));
        }
        let mut copy = text.to_owned();
        for change in found.iter().map(Section::change).chain(matomo(&files)) {
            match change {
                Ok(change) => {
                    let find = change.find.as_deref().expect("a replacement");
                    assert!(!find.contains("secret") && !change.text.contains("secret"));
                    assert_eq!(copy.matches(find).count(), 1, "{find}");
                    copy = copy.replace(find, &change.text);
                }
                Err(note) => told.push_str(&format!("! {note}\n")),
            }
        }
        expected.assert_eq(&format!("{told}{copy}"));
    }

    #[test]
    fn matomo_gets_the_labs_values_and_answers_by_any_name() {
        check(
            "; <?php exit; ?> DO NOT REMOVE THIS LINE\n[database]\nhost = \"127.0.0.1\"\nusername = \"u\"\n\
             password = \"secret\"\ndbname = \"matomo\"\ntables_prefix = \"matomo_\" ; was secret\n\
             adapter = \"PDO\\MYSQL\"\ntype = \"InnoDB\"\nssl_ca = \"/etc/ca.pem\"\ncharset = utf8mb4\n\n\
             [General]\nsalt = \"secret\"\ntrusted_hosts[] = \"stats.example\"\nforce_ssl = 1\n",
            &expect![[r#"
                Some(Mariadb) Some("matomo")
                ; <?php exit; ?> DO NOT REMOVE THIS LINE
                [database]
                host = "{DB_HOST}"
                port = {DB_PORT}
                username = "{DB_USERNAME}"
                password = "{DB_PASSWORD}"
                dbname = "{DB_DATABASE}"
                tables_prefix = "matomo_"
                adapter = "PDO\MYSQL"
                type = "InnoDB"
                charset = utf8mb4

                [as_it_was]
                host = "127.0.0.1"
                username = "u"
                password = "secret"
                dbname = "matomo"
                tables_prefix = "matomo_" ; was secret
                adapter = "PDO\MYSQL"
                type = "InnoDB"
                ssl_ca = "/etc/ca.pem"
                charset = utf8mb4

                [General]
                enable_trusted_host_check = 0
                salt = "secret"
                trusted_hosts[] = "stats.example"
                force_ssl = 0
            "#]],
        );
    }

    #[test]
    fn an_entry_keeps_its_name_and_a_secret_is_left_out() {
        check(
            "# the shop\n[db]\ndb_host=localhost ; here\ndb_port=3306\ndb_name=shop\ndb_user=u\ndb_pass=secret\n\
             unix_socket=/run/mysqld.sock\ndsn='mysql:host=localhost;dbname=shop'\napi_key=\"secret\"\n\
             proxy=http://u:secret@p\nodbc=\"Server=x;Password=secret\"\nhello=\"a\n[b] = c\"\n",
            &expect![[r#"
                Some(Mariadb) Some("shop")
                # the shop
                [db]
                db_host = "{DB_HOST}"
                db_port = {DB_PORT}
                db_name = "{DB_DATABASE}"
                db_user = "{DB_USERNAME}"
                db_pass = "{DB_PASSWORD}"
                unix_socket = ""
                dsn = "mysql:host={DB_HOST};port={DB_PORT};dbname={DB_DATABASE}"
                hello="a
                [b] = c"

                [as_it_was]
                db_host=localhost ; here
                db_port=3306
                db_name=shop
                db_user=u
                db_pass=secret
                unix_socket=/run/mysqld.sock
                dsn='mysql:host=localhost;dbname=shop'
                api_key="secret"
                proxy=http://u:secret@p
                odbc="Server=x;Password=secret"
                hello="a
                [b] = c"
            "#]],
        );
    }

    #[test]
    fn what_is_of_tests_of_mail_or_from_the_environment_stays() {
        check(
            "host = x\ndbname = y\n[database_tests]\nhost = \"x\"\ndbname = \"y\"\n[mail]\nhost = x\nusername = y\n\
             [store]\nhost = x\ndatabase = 14\n[database]\nhost = ${DB_HOST}\ndbname = ${DB_DATABASE}\n\
             ; [General]\n; salt = x\n",
            &expect![[r#"
                host = x
                dbname = y
                [database_tests]
                host = "x"
                dbname = "y"
                [mail]
                host = x
                username = y
                [store]
                host = x
                database = 14
                [database]
                host = ${DB_HOST}
                dbname = ${DB_DATABASE}
                ; [General]
                ; salt = x
            "#]],
        );
    }

    #[test]
    fn a_section_of_another_program_stays() {
        let text = "[Redis]\nhost = x\ndatabase = shop\n[smtp]\nhost = x\nuser = y\n[influxdb]\nhost = x\ndb = y\n\
                    [site]\nhost = www.shop.test\nbase = /shop\n[directory]\nhost = x\nbase = dc=shop\n";
        let files = [SettingsFile {
            path: MATOMO.into(),
            text: text.into(),
        }];
        assert!(databases(&files).is_empty(), "{:?}", databases(&files));
    }

    #[test]
    fn of_entries_with_the_word_and_without_the_first_are_the_databases() {
        check(
            "[production]\nhost = www.shop.test\nport = 8080\nurl = https://www.shop.test/\nuser = clerk\n\
             websocket = on\ndb_host = localhost\ndb_name = shop\ndb_user = u\ndb_password = secret\n",
            &expect![[r#"
                None Some("shop")
                [production]
                host = www.shop.test
                port = 8080
                url = https://www.shop.test/
                user = clerk
                websocket = on
                db_host = "{DB_HOST}"
                db_port = {DB_PORT}
                db_name = "{DB_DATABASE}"
                db_user = "{DB_USERNAME}"
                db_password = "{DB_PASSWORD}"

                [as_it_was]
                host = www.shop.test
                port = 8080
                url = https://www.shop.test/
                user = clerk
                websocket = on
                db_host = localhost
                db_name = shop
                db_user = u
                db_password = secret
            "#]],
        );
    }

    #[test]
    fn a_path_is_no_name_of_a_database() {
        check(
            "[shop]\nhost = localhost\nbase = /shop\nuser = u\npassword = secret\ndbname = shop\n",
            &expect![[r#"
                None Some("shop")
                [shop]
                host = "{DB_HOST}"
                port = {DB_PORT}
                base = /shop
                user = "{DB_USERNAME}"
                password = "{DB_PASSWORD}"
                dbname = "{DB_DATABASE}"

                [as_it_was]
                host = localhost
                base = /shop
                user = u
                password = secret
                dbname = shop
            "#]],
        );
    }

    #[test]
    fn sections_that_cannot_be_told_apart_are_said() {
        check(
            "[database]\nhost = x\npassword = secret\ndbname = y\n[database]\nhost = z\ndbname = y\n",
            &expect![[r#"
                None Some("y")
                ! config/config.ini.php has [database] in more than one place: let an [[app.file]] change the right one ({DB_HOST} and so on stand for the lab's values)
                [database]
                host = x
                password = secret
                dbname = y
                [database]
                host = z
                dbname = y
            "#]],
        );
    }
}
