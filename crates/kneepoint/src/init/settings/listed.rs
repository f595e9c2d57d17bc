//! Settings of a database in a list: `'db' => ['host' => 'x', 'dbname' => 'y']`, as TYPO3, CakePHP, CodeIgniter, Magento,
//! PrestaShop and Yii have them. The lab's come before the list, joined to it by `+`: what stands on the left counts.

use super::changes::{FileChange, address};
use super::database::{DbEngine, SettingsFile, is_address};
use super::roles::{
    ABOUT_OTHERS, Role, SECRET, are_marked, is_name, is_socket, of_key_among, port_key,
};
use kneepoint_stack::application::lists::{List, lists};

const WHY: &str = "The lab's database instead of yours: what stands on the left counts. (Yours is not written here.)";

/// A list with the settings of a database.
#[derive(Debug)]
pub(super) struct Listed<'t> {
    pub(super) file: &'t str,
    text: &'t str,
    list: List<'t>,
    /// Whether the names of the database's entries tell them from others.
    marked: bool,
}

/// Those of all files.
pub(super) fn listed(files: &[SettingsFile]) -> Vec<Listed<'_>> {
    files.iter().flat_map(of_file).collect()
}

fn of_file(file: &SettingsFile) -> impl Iterator<Item = Listed<'_>> {
    let found = lists(&file.text).into_iter().filter(is_database);
    found.map(|list| Listed {
        file: &file.path,
        text: &file.text,
        marked: marks(&list),
        list,
    })
}

/// Whether the names of the database's entries tell them from others.
fn marks(list: &List<'_>) -> bool {
    are_marked(list.entries.iter().map(|(key, _)| *key))
}

/// Whether a list says where a database is, and which: one of mail has no name of a database.
fn is_database(list: &List<'_>) -> bool {
    let path = list.path.join(" ").to_ascii_lowercase();
    let marked = marks(list);
    let has = |role: Role| {
        let mut entries = list.entries.iter();
        entries.any(|(key, value)| of_key_among(key, marked) == Some(role) && says(value, role))
    };
    let is_others = ABOUT_OTHERS.iter().any(|word| path.contains(word));
    let is_one = has(Role::Url) || has(Role::Host) && has(Role::Name) || has_port_alone(list);
    let is_sqlite = |(_, value): &(&str, &str)| {
        text_of(value).and_then(DbEngine::of_scheme) == Some(DbEngine::Sqlite)
    };
    is_one && !is_others && !list.entries.iter().any(is_sqlite)
}

/// Whether a list has the port of a database whose address stands elsewhere, as Moodle's `$CFG->dboptions` does.
fn has_port_alone(list: &List<'_>) -> bool {
    let has = |role: Role, marked: bool| {
        let mut keys = list.entries.iter().map(|(key, _)| *key);
        keys.any(|key| of_key_among(key, marked) == Some(role))
    };
    has(Role::Port, true) && !has(Role::Host, false)
}

/// Whether a value is written there, and one that an entry with this role may have.
fn says(value: &str, role: Role) -> bool {
    let fits = |text: &str| match role {
        Role::Url => is_address(text),
        Role::Name => is_name(text),
        _ => true,
    };
    text_of(value).is_some_and(fits)
}

/// A value that is one piece of quoted text.
fn text_of(value: &str) -> Option<&str> {
    let quote = value.chars().next().filter(|c| "'\"".contains(*c))?;
    let inside = value.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inside.contains(quote)).then_some(inside)
}

impl Listed<'_> {
    fn text(&self, role: Role) -> Option<&str> {
        let mut of_role = self
            .list
            .entries
            .iter()
            .filter(|(key, _)| self.role(key) == Some(role));
        let fits = |text: &&str| role != Role::Name || is_name(text);
        of_role.find_map(|(_, value)| text_of(value).filter(fits))
    }

    fn role(&self, key: &str) -> Option<Role> {
        of_key_among(key, self.marked)
    }

    /// Which database it is, where it says so.
    pub(super) fn engine(&self) -> Option<DbEngine> {
        let scheme = || DbEngine::of_scheme(self.text(Role::Url)?);
        let driver = self.text(Role::Driver).and_then(DbEngine::named);
        driver.or_else(scheme)
    }

    /// The name of the database.
    pub(super) fn name(&self) -> Option<&str> {
        self.text(Role::Name)
    }

    /// Whether it stands in a statement that has this text.
    pub(super) fn is_in(&self, statement: &str) -> bool {
        let first = self.list.path.first();
        first.is_some_and(|first| first.contains(statement))
    }

    /// Whether it has the port of a database whose address stands elsewhere.
    pub(super) fn is_port_alone(&self) -> bool {
        has_port_alone(&self.list)
    }

    /// The list with the lab's values on its left, or a sentence where that cannot be written.
    pub(super) fn change(&self, engine: DbEngine) -> Result<FileChange, String> {
        let opens_at = self.list.opens_at;
        let cannot = |why: &str| {
            format!(
                "{} has the settings of the database in a list, {why}: let an [[app.file]] give it the lab's (DB_HOST and so on)",
                self.file
            )
        };
        if self.list.fixed {
            return Err(cannot("which cannot read the environment where it stands"));
        }
        let (from, to) = self
            .head()
            .ok_or_else(|| cannot("whose beginning cannot be told from other lines"))?;
        let find = &self.text[from..to];
        let (before, bracket) = find.split_at(opens_at - from);
        let text = format!("{before}[{}] + {bracket}", self.values(engine).join(", "));
        Ok(FileChange::replace(self.file, find, text, WHY))
    }

    /// Whether it is Magento's, which takes the port behind the host and no other way
    /// (`Magento\Framework\DB\Adapter\Pdo\Mysql::_connect`).
    fn is_magento(&self) -> bool {
        let mut keys = self.list.entries.iter().map(|(key, _)| *key);
        keys.any(|key| ["model", "initStatements"].contains(&key))
    }

    /// The beginning of the list with as many lines before it as make it the only one of the file. No line is taken that may
    /// hold a secret.
    fn head(&self) -> Option<(usize, usize)> {
        let opens_at = self.list.opens_at;
        let bracket = self.text[opens_at..].find(['[', '('])?;
        let to = opens_at + bracket + 1;
        let mut from = opens_at;
        loop {
            from = self.text[..from]
                .trim_end_matches('\n')
                .rfind('\n')
                .map_or(0, |end| end + 1);
            let find = &self.text[from..to];
            let lower = find.to_ascii_lowercase();
            if SECRET.iter().any(|word| lower.contains(word)) || lower.contains("://") {
                return None;
            }
            if self.text.matches(find).count() == 1 {
                return Some((from, to));
            }
            if from == 0 {
                return None;
            }
        }
    }

    /// The entries that the lab's database needs, by the names that this list has for them.
    fn values(&self, engine: DbEngine) -> Vec<String> {
        let mut values = Vec::new();
        let mut has_port = false;
        let mut host_key = None;
        for (key, value) in &self.list.entries {
            let lab = match self.role(key) {
                Some(Role::Host) if self.is_magento() => {
                    has_port = true;
                    "getenv('DB_HOST') . ':' . getenv('DB_PORT')".to_owned()
                }
                Some(Role::Host) => {
                    host_key = Some(*key);
                    "getenv('DB_HOST')".to_owned()
                }
                Some(Role::Port) => {
                    has_port = true;
                    "(int) getenv('DB_PORT')".to_owned()
                }
                // The `base` of a site is a path.
                Some(Role::Name) if value.contains(['/', '=']) => continue,
                Some(Role::Name) => "getenv('DB_DATABASE')".to_owned(),
                Some(Role::User) => "getenv('DB_USERNAME')".to_owned(),
                Some(Role::Password) => "getenv('DB_PASSWORD')".to_owned(),
                Some(Role::Url) => match text_of(value).filter(|text| is_address(text)) {
                    Some(old) => address(engine, old),
                    None => continue,
                },
                Some(Role::Driver) | None if is_socket(key, self.marked) => "''".to_owned(),
                Some(Role::Driver) | None => continue,
            };
            values.push(format!("'{key}' => {lab}"));
        }
        if let Some(key) = host_key.filter(|_| !has_port) {
            values.push(format!("'{}' => (int) getenv('DB_PORT')", port_key(key)));
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// What a file becomes in the copy. No change holds the word `secret`.
    #[track_caller]
    fn check(text: &str, expected: &Expect) {
        let files = [SettingsFile {
            path: "db.php".into(),
            text: text.into(),
        }];
        let mut copy = text.to_owned();
        let mut told = String::new();
        for list in listed(&files) {
            let engine = list.engine();
            told.push_str(&format!("{engine:?} {:?}\n", list.name()));
            match list.change(engine.unwrap_or(DbEngine::Mariadb)) {
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
    fn the_labs_values_stand_on_the_left_of_a_list() {
        check(
            "<?php\n$db['default'] = array(\n\t'hostname' => 'localhost',\n\t'username' => 'u',\n\t'password' => 'secret',\n\
             \t'database' => 'shop',\n\t'dbdriver' => 'mysqli',\n);\n",
            &expect![[r#"
                Some(Mariadb) Some("shop")
                <?php
                $db['default'] = ['hostname' => getenv('DB_HOST'), 'username' => getenv('DB_USERNAME'), 'password' => getenv('DB_PASSWORD'), 'database' => getenv('DB_DATABASE'), 'port' => (int) getenv('DB_PORT')] + array(
                	'hostname' => 'localhost',
                	'username' => 'u',
                	'password' => 'secret',
                	'database' => 'shop',
                	'dbdriver' => 'mysqli',
                );
            "#]],
        );
        check(
            "<?php return ['parameters' => [\n  'database_host' => '127.0.0.1',\n  'database_port' => '',\n  'database_name' => 'shop',\n\
             \x20 'database_user' => 'u',\n  'database_password' => 'secret',\n  'mailer_host' => 'smtp',\n]];\n",
            &expect![[r#"
                None Some("shop")
                <?php return ['parameters' => ['database_host' => getenv('DB_HOST'), 'database_port' => (int) getenv('DB_PORT'), 'database_name' => getenv('DB_DATABASE'), 'database_user' => getenv('DB_USERNAME'), 'database_password' => getenv('DB_PASSWORD')] + [
                  'database_host' => '127.0.0.1',
                  'database_port' => '',
                  'database_name' => 'shop',
                  'database_user' => 'u',
                  'database_password' => 'secret',
                  'mailer_host' => 'smtp',
                ]];
            "#]],
        );
    }

    #[test]
    fn of_entries_with_the_word_and_without_the_first_are_the_databases() {
        check(
            "<?php return [\n  'host' => 'www.shop.test',\n  'user' => 'clerk',\n  'websocket' => 'on',\n\
             \x20 'db_host' => 'h',\n  'db_name' => 'shop',\n  'db_user' => 'u',\n  'db_pass' => 'secret',\n];\n",
            &expect![[r#"
                None Some("shop")
                <?php return ['db_host' => getenv('DB_HOST'), 'db_name' => getenv('DB_DATABASE'), 'db_user' => getenv('DB_USERNAME'), 'db_pass' => getenv('DB_PASSWORD'), 'db_port' => (int) getenv('DB_PORT')] + [
                  'host' => 'www.shop.test',
                  'user' => 'clerk',
                  'websocket' => 'on',
                  'db_host' => 'h',
                  'db_name' => 'shop',
                  'db_user' => 'u',
                  'db_pass' => 'secret',
                ];
            "#]],
        );
    }

    #[test]
    fn a_path_is_no_name_and_a_password_needs_no_word() {
        check(
            "<?php return [\n  'host' => 'h',\n  'base' => '/shop',\n  'dbname' => 'shop',\n];\n",
            &expect![[r#"
                None Some("shop")
                <?php return ['host' => getenv('DB_HOST'), 'dbname' => getenv('DB_DATABASE'), 'port' => (int) getenv('DB_PORT')] + [
                  'host' => 'h',
                  'base' => '/shop',
                  'dbname' => 'shop',
                ];
            "#]],
        );
        check(
            "<?php return [\n  'dbhost' => 'h',\n  'dbuser' => 'u',\n  'password' => 'secret',\n  'dbname' => 'shop',\n];\n",
            &expect![[r#"
                None Some("shop")
                <?php return ['dbhost' => getenv('DB_HOST'), 'dbuser' => getenv('DB_USERNAME'), 'password' => getenv('DB_PASSWORD'), 'dbname' => getenv('DB_DATABASE'), 'dbport' => (int) getenv('DB_PORT')] + [
                  'dbhost' => 'h',
                  'dbuser' => 'u',
                  'password' => 'secret',
                  'dbname' => 'shop',
                ];
            "#]],
        );
    }

    #[test]
    fn freshrss_has_short_names() {
        check(
            "<?php\nreturn array (\n  'db' => array (\n    'type' => 'mysql',\n    'host' => 'h',\n    'user' => 'u',\n\
             \x20   'password' => 'secret',\n    'base' => 'rss',\n  ),\n);\n",
            &expect![[r#"
                Some(Mariadb) Some("rss")
                <?php
                return array (
                  'db' => ['host' => getenv('DB_HOST'), 'user' => getenv('DB_USERNAME'), 'password' => getenv('DB_PASSWORD'), 'base' => getenv('DB_DATABASE'), 'port' => (int) getenv('DB_PORT')] + array (
                    'type' => 'mysql',
                    'host' => 'h',
                    'user' => 'u',
                    'password' => 'secret',
                    'base' => 'rss',
                  ),
                );
            "#]],
        );
    }

    #[test]
    fn a_port_in_a_list_of_its_own_is_the_databases() {
        check(
            "<?php\n$CFG->dbhost = 'h';\n$CFG->dboptions = array (\n  'dbpersist' => 0,\n  'dbport' => 3307,\n  'dbsocket' => '',\n);\n\
             $ports = ['port' => 8080];\n",
            &expect![[r#"
                None None
                <?php
                $CFG->dbhost = 'h';
                $CFG->dboptions = ['dbport' => (int) getenv('DB_PORT'), 'dbsocket' => ''] + array (
                  'dbpersist' => 0,
                  'dbport' => 3307,
                  'dbsocket' => '',
                );
                $ports = ['port' => 8080];
            "#]],
        );
    }

    #[test]
    fn magento_takes_its_port_behind_the_host() {
        check(
            "<?php\nreturn ['db' => ['connection' => ['default' => [\n 'host' => 'db', 'dbname' => 'shop', 'model' => 'mysql4',\n]]]];\n",
            &expect![[r#"
                None Some("shop")
                <?php
                return ['db' => ['connection' => ['default' => ['host' => getenv('DB_HOST') . ':' . getenv('DB_PORT'), 'dbname' => getenv('DB_DATABASE')] + [
                 'host' => 'db', 'dbname' => 'shop', 'model' => 'mysql4',
                ]]]];
            "#]],
        );
    }

    #[test]
    fn what_no_call_may_stand_in_is_said() {
        check(
            "<?php class Db {\n  public $connections = [\n    'default' => ['host' => 'x', 'database' => 'y'],\n  ];\n}\n",
            &expect![[r#"
                None Some("y")
                ! db.php has the settings of the database in a list, which cannot read the environment where it stands: let an [[app.file]] give it the lab's (DB_HOST and so on)
                <?php class Db {
                  public $connections = [
                    'default' => ['host' => 'x', 'database' => 'y'],
                  ];
                }
            "#]],
        );
    }

    #[test]
    fn an_address_in_one_text_keeps_its_form() {
        check(
            "<?php\nreturn [\n  'class' => 'yii\\db\\Connection',\n  'dsn' => 'mysql:host=localhost;dbname=shop',\n  'username' => 'u',\n\
             \x20 'password' => 'secret',\n];\n",
            &expect![[r#"
                Some(Mariadb) None
                <?php
                return ['dsn' => 'mysql:host=' . getenv('DB_HOST') . ';port=' . getenv('DB_PORT') . ';dbname=' . getenv('DB_DATABASE'), 'username' => getenv('DB_USERNAME'), 'password' => getenv('DB_PASSWORD')] + [
                  'class' => 'yii\db\Connection',
                  'dsn' => 'mysql:host=localhost;dbname=shop',
                  'username' => 'u',
                  'password' => 'secret',
                ];
            "#]],
        );
    }

    #[test]
    fn what_is_of_tests_of_mail_or_from_the_environment_stays() {
        let text = "<?php return [\n  'test' => ['host' => 'x', 'database' => 'y'],\n  'mail' => ['host' => 'x', 'username' => 'y'],\n\
                    \x20 'mysql' => ['host' => env('DB_HOST'), 'database' => env('DB_DATABASE')],\n];\n";
        check(
            text,
            &expect![[r#"
            <?php return [
              'test' => ['host' => 'x', 'database' => 'y'],
              'mail' => ['host' => 'x', 'username' => 'y'],
              'mysql' => ['host' => env('DB_HOST'), 'database' => env('DB_DATABASE')],
            ];
        "#]],
        );
    }

    #[test]
    fn a_list_that_cannot_be_told_from_another_is_said() {
        check(
            "<?php\n$a = [\n  'password' => 'secret',\n  'default' => [\n    'host' => 'x', 'database' => 'y'],\n];\n$b = [\n  'password' => 'secret',\n\
             \x20 'default' => [\n    'one' => 1],\n];\n",
            &expect![[r#"
                None Some("y")
                ! db.php has the settings of the database in a list, whose beginning cannot be told from other lines: let an [[app.file]] give it the lab's (DB_HOST and so on)
                <?php
                $a = [
                  'password' => 'secret',
                  'default' => [
                    'host' => 'x', 'database' => 'y'],
                ];
                $b = [
                  'password' => 'secret',
                  'default' => [
                    'one' => 1],
                ];
            "#]],
        );
    }
}
