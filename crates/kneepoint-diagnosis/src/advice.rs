//! Turns a wish to change settings into a remedy that respects what may be touched.

use crate::Evidence;
use kneepoint_model::{Change, Layer, Remedy, Setting, SettingKey, ValueKind};
use std::fmt::Display;

/// A remedy under construction.
pub(crate) struct Advice<'a> {
    evidence: &'a Evidence,
    text: String,
    needed: Vec<Setting>,
    helpful: Vec<Setting>,
}

impl<'a> Advice<'a> {
    pub(crate) fn new(evidence: &'a Evidence, text: impl Into<String>) -> Self {
        Self {
            evidence,
            text: text.into(),
            needed: Vec::new(),
            helpful: Vec::new(),
        }
    }

    /// A setting without which the remedy makes no sense: when it cannot be proposed, none is.
    pub(crate) fn set(mut self, layer: Layer, name: &str, value: impl Display) -> Self {
        self.needed.push(Setting::new(layer, name, value));
        self
    }

    /// A setting that goes along when it can.
    pub(crate) fn also(mut self, layer: Layer, name: &str, value: impl Display) -> Self {
        self.helpful.push(Setting::new(layer, name, value));
        self
    }

    /// Settings without which the remedy makes no sense, ready made.
    pub(crate) fn set_all(mut self, settings: impl IntoIterator<Item = Setting>) -> Self {
        self.needed.extend(settings);
        self
    }

    /// The remedy: settings that have their value already are left out; what may not or cannot be set turns
    /// into words.
    pub(crate) fn build(mut self) -> Remedy {
        let mut settings = Vec::new();
        let mut obstacles = Vec::new();
        for setting in std::mem::take(&mut self.needed) {
            match self.obstacle(&setting.key) {
                Some(obstacle) => obstacles.push((setting, obstacle)),
                None => settings.push(setting),
            }
        }
        if !obstacles.is_empty() {
            settings.clear();
        }
        for setting in std::mem::take(&mut self.helpful) {
            match self.obstacle(&setting.key) {
                Some(obstacle) => obstacles.push((setting, obstacle)),
                None if settings.is_empty() => {}
                None => settings.push(setting),
            }
        }
        for (setting, obstacle) in obstacles {
            self.text.push_str(&format!(
                " Not proposed as a change: {setting}, since {obstacle}."
            ));
        }
        settings.retain(|setting| !self.holds(setting));
        Remedy {
            text: self.text,
            settings,
        }
    }

    fn holds(&self, setting: &Setting) -> bool {
        let Setting { key, value } = setting;
        self.evidence.stack.setting(key.layer, &key.name) == Some(value.as_str())
    }

    fn obstacle(&self, key: &SettingKey) -> Option<String> {
        if self.evidence.keep.contains(key) {
            return Some("it is to be kept as it is".to_owned());
        }
        let stack = &self.evidence.stack;
        if Change::of(key).is_some() && (key.layer == Layer::App || stack.tier(key.layer).is_some())
        {
            return None;
        }
        if key.layer == Layer::App {
            return (stack.tunable(key).is_none())
                .then(|| "the application declares no such setting".to_owned());
        }
        let Some(tier) = stack.tier(key.layer) else {
            return Some(format!("the stack has no {} tier", key.layer));
        };
        if key.is_sysctl() {
            // A setting of the host, not of the program: its tunables do not list it.
            let shared = !tier.own_network && key.name.starts_with("net.");
            return shared.then(|| "the tier has no network namespace of its own".to_owned());
        }
        // An empty list means that nobody listed the tunables, not that there are none.
        (!tier.tunables.is_empty() && stack.tunable(key).is_none())
            .then(|| format!("{} has no such tunable here", tier.server))
    }
}

/// The setting by which the application declares that it can keep connections (its name ends in `suffix`), with the
/// value that switches it on; `None` when there is none or it is on already.
pub(crate) fn app_switch(evidence: &Evidence, suffix: &str) -> Option<Setting> {
    let stack = &evidence.stack;
    let tunable = stack
        .app_settings
        .iter()
        .find(|tunable| tunable.name.ends_with(suffix))?;
    let on = match &tunable.values {
        ValueKind::Switch { on, .. } => on.clone(),
        ValueKind::Choice { of } => of.iter().find(|value| means_on(value))?.clone(),
        _ => return None,
    };
    let now = stack
        .app_values
        .get(&tunable.name)
        .or(tunable.default.as_ref());
    (!now.is_some_and(|now| means_on(now))).then(|| Setting::new(Layer::App, &tunable.name, on))
}

fn means_on(value: &str) -> bool {
    matches!(
        value.to_ascii_lowercase().as_str(),
        "1" | "on" | "yes" | "true" | "persistent"
    )
}
