//! `[tune]`: how far tuning may go.

use crate::config::reader::{Reader, Section};
use crate::config::stack::check_key;
use crate::config::suggest::nearest;
use kneepoint_model::{AppSetting, Budget, Layer, SettingKey, TierSpec};
use std::collections::BTreeSet;
use std::time::Duration;

/// What `tune` takes at most when the scenario does not say: DESIGN's main job "in minutes".
const DEFAULT_BUDGET: Duration = Duration::from_secs(20 * 60);

/// Reads the budget.
pub(super) fn read(
    reader: &mut Reader<'_>,
    top: &Section<'_>,
    tiers: &[TierSpec],
    app_settings: &[AppSetting],
) -> Budget {
    let mut budget = Budget {
        time: DEFAULT_BUDGET,
        memory_bytes: None,
        keep: Vec::new(),
    };
    let Some(section) = top
        .get("tune")
        .and_then(|node| reader.section(node, "tune"))
    else {
        return budget;
    };
    if let Some(node) = section.get("budget") {
        budget.time = reader.duration(node).unwrap_or(DEFAULT_BUDGET);
    }
    if let Some(node) = section.get("memory") {
        budget.memory_bytes = reader.memory(node);
    }
    let Some(node) = section.get("keep") else {
        return budget;
    };
    const EXPECTED: &str = "TIER.NAME, such as \"php.pm.max_requests\"";
    let declared: BTreeSet<&str> = app_settings.iter().map(|one| one.name.as_str()).collect();
    for item in reader.array(
        node,
        "an array of settings, such as [\"php.pm.max_requests\"]",
    ) {
        let Some(text) = reader.text(item, EXPECTED) else {
            continue;
        };
        match text.parse::<SettingKey>() {
            Ok(key) => {
                check_key(reader, &key, item.at, tiers, &declared);
                budget.keep.push(key);
            }
            Err(message) => {
                let layer = text.split('.').next().unwrap_or_default();
                let near = nearest(layer, Layer::ALL.map(Layer::name));
                let problem = reader.wrong(item.at, message, EXPECTED);
                if let Some(near) = near {
                    problem.help(format!("did you mean `{near}`?"));
                }
            }
        }
    }
    budget
}
