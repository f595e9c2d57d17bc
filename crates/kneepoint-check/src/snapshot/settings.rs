//! Settings with where each value comes from.

use kneepoint_model::units::parse_bytes;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case", tag = "from")]
pub enum SettingSource {
    /// A line of a file, as the process sees its path.
    File {
        /// The path.
        path: String,
        /// The line, from 1.
        line: usize,
    },
    /// A variable of the environment, that a line of a file names.
    Variable {
        /// The variable.
        name: String,
        /// The file that names it.
        path: String,
        /// The line.
        line: usize,
    },
    /// The command line of the process.
    Flag,
    /// The memory of a running process.
    Memory {
        /// The process.
        pid: u32,
    },
    /// Nobody set it: the program's own default.
    Default,
    /// A file of the kernel.
    Kernel {
        /// Its path.
        path: String,
    },
}

impl SettingSource {
    /// A line of a file.
    #[must_use]
    pub fn file(path: &str, line: usize) -> Self {
        Self::File {
            path: path.to_owned(),
            line,
        }
    }

    /// The file it is in, where it is in one.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::File { path, .. } | Self::Variable { path, .. } => Some(path),
            _ => None,
        }
    }
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{path}:{line}"),
            Self::Variable { name, path, line } => {
                write!(f, "variable {name}, by {path}:{line}")
            }
            Self::Flag => f.write_str("command line"),
            Self::Memory { pid } => write!(f, "memory of process {pid}"),
            Self::Default => f.write_str("default: no file that was read sets it"),
            Self::Kernel { path } => f.write_str(path),
        }
    }
}

/// A value in force, with what it replaced.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct SettingValue {
    /// The value as it is written.
    pub text: String,
    /// Where it comes from.
    pub source: SettingSource,
    /// Values that were set before, and where: this one replaced them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<(String, SettingSource)>,
}

impl SettingValue {
    /// A value that replaced nothing.
    #[must_use]
    pub fn new(text: &str, source: SettingSource) -> Self {
        Self {
            text: text.to_owned(),
            source,
            replaced: Vec::new(),
        }
    }

    /// As a number. Sizes with K, M or G are bytes.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        let text = self.text.trim();
        let bytes = || parse_bytes(text).ok().map(|bytes| bytes as f64);
        text.parse().ok().or_else(bytes)
    }

    /// As a number of bytes, where a bare number counts bytes.
    #[must_use]
    pub fn bytes(&self) -> Option<f64> {
        let text = self.text.trim();
        let (digits, unit) = text.split_at(
            text.find(|c: char| c.is_ascii_alphabetic())?
                .min(text.len()),
        );
        let factor = match unit.to_ascii_lowercase().as_str() {
            "k" | "kb" => 1024.0,
            "m" | "mb" => 1_048_576.0,
            "g" | "gb" => 1_073_741_824.0,
            _ => return None,
        };
        Some(digits.trim().parse::<f64>().ok()? * factor)
    }

    /// As bytes; a bare number counts them.
    #[must_use]
    pub fn size(&self) -> Option<f64> {
        self.text.trim().parse().ok().or_else(|| self.bytes())
    }

    /// As seconds: `30`, `30s`, `1m`, `500ms`, `1h`.
    #[must_use]
    pub fn seconds(&self) -> Option<f64> {
        let text = self.text.trim();
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'));
        let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
        let factor = match unit.trim() {
            "" | "s" => 1.0,
            "ms" => 0.001,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        Some(digits.parse::<f64>().ok()? * factor)
    }

    /// As a switch, in any spelling; `None` where it is none.
    #[must_use]
    pub fn is_on(&self) -> Option<bool> {
        match self.text.trim().to_ascii_lowercase().as_str() {
            "1" | "on" | "yes" | "true" => Some(true),
            "0" | "off" | "no" | "false" | "" | "none" => Some(false),
            _ => None,
        }
    }
}

/// Settings by name, and what holds around them where they say nothing. What is around is shared: a host may have
/// thousands of servers and pools, with the settings around them in each.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    values: BTreeMap<String, SettingValue>,
    around: Option<Arc<Settings>>,
    /// First words of names that do not hold from around.
    hidden: Vec<String>,
}

impl Settings {
    /// Settings that say nothing themselves.
    #[must_use]
    pub fn within(around: &Arc<Self>) -> Self {
        Self {
            around: Some(Arc::clone(around)),
            ..Self::default()
        }
    }

    /// Sets a value; what was set before it is kept as replaced.
    pub fn set(&mut self, name: &str, text: &str, source: SettingSource) {
        let mut value = SettingValue::new(text, source);
        let before = self.values.remove(name);
        if let Some(before) = before.or_else(|| self.inherited(name).cloned()) {
            value.replaced = before.replaced;
            value.replaced.push((before.text, before.source));
        }
        self.values.insert(name.to_owned(), value);
    }

    /// Sets a value as it is.
    pub fn put(&mut self, name: &str, value: SettingValue) {
        self.values.insert(name.to_owned(), value);
    }

    /// Takes nothing from around whose name begins with this word.
    pub fn hide(&mut self, word: &str) {
        self.hidden.push(word.to_owned());
    }

    /// Puts others around these, instead of those that are there.
    pub fn surround(&mut self, around: &Arc<Self>) {
        self.around = Some(Arc::clone(around));
    }

    /// Whether these say something that others do not, which the same is around.
    #[must_use]
    pub fn add_to(&self, other: &Self) -> bool {
        match (&self.around, &other.around) {
            (Some(own), Some(around)) if Arc::ptr_eq(own, around) => self.values != other.values,
            _ => self != other,
        }
    }

    /// The value of a name that somebody set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&SettingValue> {
        self.values.get(name).or_else(|| self.inherited(name))
    }

    fn inherited(&self, name: &str) -> Option<&SettingValue> {
        let around = self.around.as_deref().filter(|_| self.shows(name));
        around?.get(name)
    }

    fn shows(&self, name: &str) -> bool {
        let first = name.split(' ').next();
        !self.hidden.iter().any(|word| first == Some(word.as_str()))
    }

    /// The value in force: what is set, or else the program's default.
    #[must_use]
    pub fn or(&self, name: &str, default: &str) -> SettingValue {
        self.get(name)
            .cloned()
            .unwrap_or_else(|| SettingValue::new(default, SettingSource::Default))
    }

    /// The text of a value that somebody set.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).map(|value| value.text.as_str())
    }

    /// Every text that a name was given, in the order of the files: of directives that may stand many times.
    pub fn every(&self, name: &str) -> impl Iterator<Item = (&str, &SettingSource)> {
        let last = self.get(name);
        let before = last.into_iter().flat_map(|value| &value.replaced);
        let all = before.map(|(text, source)| (text.as_str(), source));
        all.chain(last.map(|value| (value.text.as_str(), &value.source)))
    }

    /// Whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let around = self.around.as_ref();
        self.values.is_empty()
            && match self.hidden.is_empty() {
                true => around.is_none_or(|around| around.is_empty()),
                false => self.iter().next().is_none(),
            }
    }

    /// Everything that is set, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &SettingValue)> {
        self.merged().into_iter()
    }

    fn merged(&self) -> Vec<(&str, &SettingValue)> {
        let own = self.values.iter();
        let mut all: Vec<_> = own.map(|(name, value)| (name.as_str(), value)).collect();
        if let Some(around) = &self.around {
            let shown = around.merged().into_iter();
            all.extend(shown.filter(|(name, _)| self.shows(name)));
            // Of two of one name the first is its own: the order of those stays.
            all.sort_by_key(|(name, _)| *name);
            all.dedup_by_key(|(name, _)| *name);
        }
        all
    }

    /// These with others laid over them.
    #[must_use]
    pub fn under(self: &Arc<Self>, over: &Self) -> Self {
        let mut all = Self::within(self);
        for (name, value) in over.iter() {
            all.set(name, &value.text, value.source.clone());
        }
        all
    }
}

impl PartialEq for Settings {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Settings {}

impl Serialize for Settings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_value_keeps_what_it_replaced() {
        let mut settings = Settings::default();
        settings.set("pm", "static", SettingSource::file("/a", 1));
        settings.set("pm", "dynamic", SettingSource::file("/b", 7));
        let value = settings.get("pm").expect("set");
        assert_eq!(value.source.to_string(), "/b:7");
        assert_eq!(
            value.replaced,
            [("static".to_owned(), SettingSource::file("/a", 1))]
        );
        assert_eq!(settings.or("x", "5").source, SettingSource::Default);
        let every: Vec<&str> = settings.every("pm").map(|(text, _)| text).collect();
        assert_eq!(every, ["static", "dynamic"]);
        assert_eq!(settings.every("x").count(), 0);
    }

    #[test]
    fn values_are_read_in_their_units() {
        let value = |text: &str| SettingValue::new(text, SettingSource::Default);
        assert_eq!(value("128M").size(), Some(134_217_728.0));
        assert_eq!(value("1024").size(), Some(1024.0));
        assert_eq!(value("auto").size(), None);
        assert_eq!(value("1m").seconds(), Some(60.0));
        assert_eq!(value("500ms").seconds(), Some(0.5));
        assert_eq!(value("Off").is_on(), Some(false));
        assert_eq!(value("tracing").is_on(), None);
    }

    #[test]
    fn what_is_around_holds_where_nothing_is_said() {
        let mut around = Settings::default();
        around.set("gzip", "on", SettingSource::file("/a", 1));
        around.set("add_header x", "1", SettingSource::file("/a", 2));
        let around = Arc::new(around);
        let mut own = Settings::within(&around);
        assert!(own == *around && !own.add_to(&Settings::within(&around)));
        own.set("gzip", "off", SettingSource::file("/b", 1));
        assert!(own.add_to(&Settings::within(&around)));
        assert_eq!(own.get("gzip").expect("set").replaced[0].0, "on");
        assert_eq!(own.text("add_header x"), Some("1"));
        own.hide("add_header");
        assert_eq!(own.text("add_header x"), None);
        let names: Vec<(&str, &str)> = own
            .iter()
            .map(|(name, value)| (name, value.text.as_str()))
            .collect();
        assert_eq!(names, [("gzip", "off")]);
        let mut within = Settings::within(&Arc::new(own));
        assert!(!within.is_empty());
        assert_eq!(within.text("add_header x"), None);
        within.surround(&around);
        assert_eq!(within.text("gzip"), Some("on"));
        assert_eq!(
            serde_json::to_value(&within).expect("JSON")["gzip"]["text"],
            "on"
        );
    }
}
