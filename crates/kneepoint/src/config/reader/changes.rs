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
                if let Some(text) = reader.any_text(&entry.node) {
                    changes.insert(key, text.to_owned());
                }
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
        Some(_) => Ok(()),
    }
}
