//! The reference of the keys.

use super::{Key, all, title};
use std::fmt::Write as _;

/// The documentation of every key, as Markdown.
#[must_use]
pub fn reference() -> String {
    let mut text = String::from(
        "# The scenario\n\nEvery key of `kneepoint.toml`. Paths are relative to the directory of the file.\n\
         Durations are written `200ms`, `2s`, `20m`; sizes `512K`, `128M`, `2GiB`; shares `0.1%` or `0.001`.\n",
    );
    let mut shown: Vec<&[&str]> = Vec::new();
    for Key { tables, .. } in all() {
        if shown.contains(tables) {
            continue;
        }
        shown.push(tables);
        let titles: Vec<String> = tables.iter().map(|table| title(table)).collect();
        let _ = write!(text, "\n## {}\n\n", titles.join(", "));
        for key in all().filter(|key| key.tables == *tables) {
            let Key {
                name,
                about,
                takes,
                default,
                ..
            } = key;
            let _ = writeln!(
                text,
                "- `{name}`: {about} Takes {takes}. Default: {default}."
            );
        }
    }
    text
}
