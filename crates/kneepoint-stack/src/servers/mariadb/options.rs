//! Option files: `my.cnf`, by the names of the settings.

use crate::text::ini::{self, Ini, Section};
use crate::{StackError, tunable_spec};

/// The groups of an option file that the server reads; of several entries the last one of the file wins, whatever its group.
const GROUPS: [&str; 6] = [
    "mysqld",
    "server",
    "mariadb",
    "mariadbd",
    "galera",
    "client-server",
];

/// Whether a server of a version reads a group: one of its own, or one with that version behind it (`mariadb-10.11`). Where
/// the version is empty, any may stand there.
fn is_read(group: &str, version: &str) -> bool {
    let (name, only) = match group.split_once('-') {
        Some((name, rest)) if rest.starts_with(|first: char| first.is_ascii_digit()) => {
            (name, rest)
        }
        _ => (group, version),
    };
    let release = |version: &str| {
        let [major, minor, _] = tunable_spec::version(version);
        (major, minor)
    };
    GROUPS.iter().any(|own| own.eq_ignore_ascii_case(name))
        && (version.is_empty() || release(only) == release(version))
}

/// A configuration, without the files it includes: those of a machine name the data of the server that runs there.
pub(super) fn parse(file: &str, text: &str) -> Result<Ini, StackError> {
    let own: Vec<String> = text.split_inclusive('\n').map(own_line).collect();
    ini::parse(&own.concat()).map_err(|error| error.of(file))
}

/// A line without the file it includes, and with its comment above it where it is a name alone: to other programs that read
/// such files `#` opens none, so that it would count as a part of the name.
fn own_line(line: &str) -> String {
    let body = line.trim_start();
    if body.starts_with('!') {
        return format!("#{line}");
    }
    match body.split_once('#') {
        Some((name, comment)) if !name.is_empty() && !name.contains(['=', '[', ';']) => {
            format!("# {}\n{}\n", comment.trim(), name.trim_end())
        }
        _ => line.to_owned(),
    }
}

/// The groups and keys of the entries whose names pass a test, in the order of the file.
fn entries(document: &Ini, version: &str, is_it: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let mut entries = document.entries_of(|group| is_read(group, version));
    entries.retain(|(_, key)| is_it(&name_of(key)));
    entries
}

/// The name that a key spells: to the server dashes and underscores are the same, and `loose-` belongs to no name.
fn name_of(key: &str) -> String {
    let name = key.replace('-', "_");
    name.strip_prefix("loose_").unwrap_or(&name).to_owned()
}

/// The value in effect.
pub(super) fn get(document: &Ini, version: &str, name: &str) -> Option<String> {
    let (group, key) = entries(document, version, |one| one == name).pop()?;
    let value = document.get(Section::Named(&group), &key)?;
    Some(plain(&value))
}

/// A value without the comment that `#` opens, as the server reads it; a name alone switches something on.
fn plain(value: &str) -> String {
    match value.split(" #").next().unwrap_or_default().trim() {
        "" => "ON".to_owned(),
        value => value.to_owned(),
    }
}

/// Sets what is in effect, in the user's own spelling where there is one.
pub(super) fn set(document: &mut Ini, version: &str, name: &str, value: &str) {
    let last = entries(document, version, |one| one == name).pop();
    let (group, key) = last.unwrap_or_else(|| (GROUPS[0].to_owned(), name.to_owned()));
    document.set(Section::Named(&group), &key, value);
}

/// Removes every setting whose name passes a test, also from the groups of other versions.
pub(super) fn remove(document: &mut Ini, is_it: impl Fn(&str) -> bool) {
    for (group, key) in entries(document, "", is_it) {
        document.disable(Section::Named(&group), &key, |_| true);
    }
}
