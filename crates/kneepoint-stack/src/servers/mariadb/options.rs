//! Option files: `my.cnf`, by the names of the settings.

use crate::StackError;
use crate::text::ini::{self, Ini, Section};

/// The groups of an option file that the server reads; of several entries the last one wins.
const GROUPS: [&str; 4] = ["mysqld", "server", "mariadb", "mariadbd"];

/// A configuration, without the files it includes: those of a machine name the data of the server that runs there.
pub(super) fn parse(file: &str, text: &str) -> Result<Ini, StackError> {
    let own: Vec<String> = text
        .split_inclusive('\n')
        .map(|line| match line.trim_start().starts_with("!include") {
            true => format!("#{line}"),
            false => line.to_owned(),
        })
        .collect();
    ini::parse(&own.concat()).map_err(|error| error.of(file))
}

/// The spellings of a name: dashes and underscores are the same to the server.
fn spellings(name: &str) -> [String; 2] {
    [name.to_owned(), name.replace('_', "-")]
}

/// The value in effect.
pub(super) fn get(document: &Ini, name: &str) -> Option<String> {
    let spellings = spellings(name);
    let mut found = None;
    for group in GROUPS {
        for spelling in &spellings {
            let value = document.get(Section::Named(group), spelling);
            found = value.map(|value| plain(&value)).or(found);
        }
    }
    found
}

/// A value without the comment that `#` opens, as the server reads it; a name alone switches something on.
fn plain(value: &str) -> String {
    match value.split(" #").next().unwrap_or_default().trim() {
        "" => "ON".to_owned(),
        value => value.to_owned(),
    }
}

/// Sets what is in effect, in the user's own spelling where there is one.
pub(super) fn set(document: &mut Ini, name: &str, value: &str) {
    let mut at = (GROUPS[0], name.to_owned());
    for group in GROUPS {
        for spelling in spellings(name) {
            if document.get(Section::Named(group), &spelling).is_some() {
                at = (group, spelling);
            }
        }
    }
    document.set(Section::Named(at.0), &at.1, value);
}

pub(super) fn remove(document: &mut Ini, name: &str) {
    for group in GROUPS {
        for spelling in spellings(name) {
            document.disable(Section::Named(group), &spelling, |_| true);
        }
    }
}
