//! `[changes]`: changes that are no setting of a server.

use super::files::within_app;
use crate::config::reader::{Reader, Section};
use kneepoint_model::{Change, Layer, SettingKey, TierSpec};
use std::collections::BTreeMap;

/// Reads the changes, by name.
pub(in crate::config) fn read(
    reader: &mut Reader<'_>,
    top: &Section<'_>,
    tiers: &[TierSpec],
) -> BTreeMap<SettingKey, String> {
    let mut changes = BTreeMap::new();
    let Some(node) = top.get("changes") else {
        return changes;
    };
    for entry in reader.entries(node, "a table of changes") {
        let key = match entry.key.parse::<SettingKey>() {
            Ok(key) => check(&key, tiers).map(|()| key),
            Err(_) => Err(format!("`{}` is no change", entry.key)),
        };
        match key {
            Ok(key) => {
                let Some(text) = reader.any_text(&entry.node) else {
                    continue;
                };
                if let Err(message) = check_text(&key, text) {
                    reader.wrong(entry.node.at, message, "a text on one line");
                }
                changes.insert(key, text.to_owned());
            }
            Err(message) => {
                reader.wrong(entry.key_at, message, Change::NAMES);
            }
        }
    }
    changes
}

/// Whether a key names a change that this stack can have; else what is wrong with it.
pub fn check(key: &SettingKey, tiers: &[TierSpec]) -> Result<(), String> {
    let has_db = tiers.iter().any(|tier| tier.layer == Layer::Db);
    match Change::of(key) {
        None => Err(format!("`{key}` is no change")),
        Some(Change::Statement { .. }) if !has_db => {
            Err(format!("`{key}` is for a database, and the chain has none"))
        }
        Some(Change::Line { file, .. }) if within_app(file).is_none() => {
            Err(format!("`{file}` leads out of app.root"))
        }
        Some(change) => {
            let is_plain = match change {
                Change::Line { file, .. } => within_app(file) == Some(file.into()),
                _ => true,
            };
            match change.key() == *key && is_plain {
                true => Ok(()),
                false => Err(format!(
                    "`{key}` can be written in a plainer way, and has to be"
                )),
            }
        }
    }
}

/// Whether a text can be what a change puts there: more lines than one would move all that follow.
pub fn check_text(key: &SettingKey, text: &str) -> Result<(), String> {
    let is_line = matches!(Change::of(key), Some(Change::Line { .. }));
    match is_line && text.contains(['\n', '\r']) {
        true => Err(format!("`{key}` is given more than one line")),
        false => Ok(()),
    }
}
