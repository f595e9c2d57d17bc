//! Tunables as the servers' tables declare them, and the check of a value against its tunable.

use crate::StackError;
use kneepoint_model::{Apply, Layer, Tunable, Value, ValueKind, value_kind};
use std::collections::BTreeMap;

/// What values a tunable takes: [`ValueKind`] as a constant.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// The spellings of off and on.
    Switch(&'static str, &'static str),
    /// Smallest, largest, and what it counts.
    Integer(i64, i64, &'static str),
    /// Smallest and largest size in bytes.
    Bytes(u64, u64),
    /// Shortest and longest duration in seconds.
    Duration(u64, u64),
    /// The same for a program that takes whole seconds only.
    Seconds(u64, u64),
    /// The words.
    Choice(&'static [&'static str]),
    /// Checked only by the program itself.
    Text,
}

/// One row of a server's table of tunables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TunableSpec {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: Option<&'static str>,
    pub(crate) apply: Apply,
    pub(crate) about: &'static str,
    /// Words accepted beside the kind: `auto`, `-1`.
    pub(crate) words: &'static [&'static str],
}

impl TunableSpec {
    pub(crate) const fn new(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        apply: Apply,
        about: &'static str,
    ) -> Self {
        Self {
            name,
            kind,
            default: if default.is_empty() {
                None
            } else {
                Some(default)
            },
            apply,
            about,
            words: &[],
        }
    }

    pub(crate) const fn or(mut self, words: &'static [&'static str]) -> Self {
        self.words = words;
        self
    }

    pub(crate) fn tunable(&self) -> Tunable {
        let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let values = match self.kind {
            Kind::Switch(off, on) => ValueKind::Switch {
                off: off.into(),
                on: on.into(),
            },
            Kind::Integer(min, max, unit) => ValueKind::Integer {
                min,
                max,
                unit: unit.into(),
                words: texts(self.words),
            },
            Kind::Bytes(min, max) => ValueKind::Bytes {
                min,
                max,
                words: texts(self.words),
            },
            Kind::Duration(min_s, max_s) | Kind::Seconds(min_s, max_s) => ValueKind::Duration {
                min_s,
                max_s,
                whole: matches!(self.kind, Kind::Seconds(..)),
            },
            Kind::Choice(of) => ValueKind::Choice { of: texts(of) },
            Kind::Text => ValueKind::Text,
        };
        Tunable {
            name: self.name.into(),
            about: self.about.into(),
            values,
            default: self.default.map(str::to_owned),
            apply: self.apply,
        }
    }

    /// The value as the program spells it.
    fn check(&self, value: &str, spelling: &Spelling) -> Result<String, String> {
        let value = self.tunable().check(value);
        let value = value.map_err(|expected| format!("use {expected}"))?;
        Ok(match (value, self.kind) {
            (Value::Switch(true), Kind::Switch(_, on)) => on.to_owned(),
            (Value::Switch(_), Kind::Switch(off, _)) => off.to_owned(),
            (Value::Switch(on), _) => on.to_string(),
            (Value::Integer(number), _) => number.to_string(),
            (Value::Bytes(bytes), _) => spelling.bytes(bytes),
            (Value::Duration(time), _) => spelling.duration(time),
            (Value::Word(word), _) => word,
        })
    }
}

/// A switch in a file of settings, where nothing at all means off, as in php.ini.
pub(crate) fn switch(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "" | "none" => Some(false),
        _ => value_kind::switch(value),
    }
}

/// How a program writes sizes and durations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spelling {
    /// Suffixes of KiB, MiB and GiB.
    pub(crate) sizes: [&'static str; 3],
    /// Suffix of whole seconds.
    pub(crate) seconds: &'static str,
    /// Suffix of milliseconds; `None` where the program takes whole seconds only, as its tunables say ([`Kind::Seconds`]).
    pub(crate) milliseconds: Option<&'static str>,
}

impl Spelling {
    fn bytes(&self, bytes: u64) -> String {
        let [kib, mib, gib] = self.sizes;
        for (shift, suffix) in [(30, gib), (20, mib), (10, kib)] {
            if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
                return format!("{}{suffix}", bytes >> shift);
            }
        }
        bytes.to_string()
    }

    fn duration(&self, time: std::time::Duration) -> String {
        match self.milliseconds {
            Some(suffix) if time.subsec_nanos() > 0 => format!("{}{suffix}", time.as_millis()),
            _ => format!("{}{}", time.as_secs(), self.seconds),
        }
    }
}

/// The settings of a tier, each known, within its bounds, and spelled as the program spells it.
pub(crate) fn checked(
    server: &'static str,
    layer: Layer,
    settings: &BTreeMap<String, String>,
    specs: &[TunableSpec],
    spelling: &Spelling,
) -> Result<BTreeMap<String, String>, StackError> {
    let check = |(name, value): (&String, &String)| {
        let spec = specs.iter().find(|spec| spec.name == name).ok_or_else(|| {
            StackError::UnknownSetting {
                server,
                layer,
                name: name.clone(),
                hint: nearest(name, specs),
            }
        })?;
        let value = spec
            .check(value, spelling)
            .map_err(|why| StackError::BadValue {
                layer,
                name: name.clone(),
                value: value.clone(),
                why,
            })?;
        Ok((name.clone(), value))
    };
    settings.iter().map(check).collect()
}

/// What a configuration sets, by tunable name.
pub(crate) fn configured(
    specs: &[TunableSpec],
    get: impl Fn(&str) -> Option<String>,
) -> BTreeMap<String, String> {
    let value = |spec: &TunableSpec| {
        let value = normal(spec, &get(spec.name)?);
        Some((spec.name.to_owned(), value))
    };
    specs.iter().filter_map(value).collect()
}

/// The value as the program would spell it, or unchanged when it fits nothing: a configured value is
/// reported as it is.
fn normal(spec: &TunableSpec, value: &str) -> String {
    match spec.kind {
        Kind::Switch(off, on) => match switch(value.trim()) {
            Some(true) => on.to_owned(),
            Some(false) => off.to_owned(),
            None => value.to_owned(),
        },
        _ => value.trim().to_owned(),
    }
}

fn nearest(name: &str, specs: &[TunableSpec]) -> String {
    let last = |name: &str| name.rsplit('.').next().unwrap_or("").to_owned();
    let near = specs
        .iter()
        .find(|spec| spec.name.eq_ignore_ascii_case(name) || last(spec.name) == last(name));
    match near {
        Some(spec) => format!("; did you mean `{}`?", spec.name),
        None => {
            "; a setting Kneepoint does not know can be written in the tier's configuration file"
                .to_owned()
        }
    }
}

/// A version as numbers: `8.2.35` is `[8, 2, 35]`. What is missing counts as 0.
pub(crate) fn version(text: &str) -> [u32; 3] {
    let mut numbers = text
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse().unwrap_or(0));
    [(); 3].map(|()| numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NGINX: Spelling = Spelling {
        sizes: ["k", "m", "g"],
        seconds: "s",
        milliseconds: Some("ms"),
    };

    fn check(kind: Kind, value: &str) -> Result<String, String> {
        TunableSpec::new("x", kind, "", Apply::Reload, "").check(value, &NGINX)
    }

    #[test]
    fn values_are_checked_and_spelled_as_the_program_spells_them() {
        let ok = |kind, value, spelled: &str| assert_eq!(check(kind, value), Ok(spelled.into()));
        ok(Kind::Switch("off", "on"), "TRUE", "on");
        ok(Kind::Integer(1, 10, "workers"), " 7 ", "7");
        ok(Kind::Bytes(0, 1 << 40), "64MiB", "64m");
        ok(Kind::Bytes(0, 1 << 40), "1000", "1000");
        ok(Kind::Duration(0, 60), "1m", "60s");
        ok(Kind::Duration(0, 60), "250ms", "250ms");
        ok(Kind::Seconds(0, 60), "2000ms", "2s");
        for (kind, value) in [
            (Kind::Switch("off", "on"), "maybe"),
            (Kind::Integer(1, 10, "workers"), "11"),
            (Kind::Integer(1, 10, "workers"), "many"),
            (Kind::Bytes(0, 10), "1k"),
            (Kind::Seconds(0, 60), "250ms"),
            (Kind::Duration(0, 60), "2h"),
            (Kind::Choice(&["a", "b"]), "c"),
            (Kind::Text, "a\nb"),
        ] {
            assert!(check(kind, value).is_err(), "{kind:?} takes {value}");
        }
    }

    #[test]
    fn every_server_takes_what_a_scenario_may_say_and_nothing_else() {
        let takes = |kind: &str, layer, name: &str, value: &str| {
            let tunables = crate::server(kind).expect(kind).tunables(layer, "");
            let tunable = tunables.iter().find(|tunable| tunable.name == name);
            tunable.expect(name).check(value).is_ok()
        };
        // One word is one setting's: what a reader guesses, a program refuses.
        assert!(takes("nginx", Layer::Web, "worker_processes", "auto"));
        assert!(!takes("nginx", Layer::Web, "worker_connections", "auto"));
        assert!(!takes("fpm", Layer::Php, "pm.max_children", "auto"));
        assert!(takes("fpm", Layer::Php, "memory_limit", "-1"));
        assert!(!takes("fpm", Layer::Php, "realpath_cache_size", "-1"));
        assert!(!takes(
            "fpm",
            Layer::Php,
            "pm.process_idle_timeout",
            "500ms"
        ));
        assert!(takes("nginx", Layer::Web, "keepalive_timeout", "500ms"));
        for server in crate::SERVERS {
            let layers = server.layers().iter();
            let tunables = layers.flat_map(|layer| server.tunables(*layer, ""));
            for tunable in tunables {
                let default = tunable.default.as_deref();
                assert!(default.is_none_or(|default| tunable.check(default).is_ok()));
            }
        }
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(version("1.22.1") < version("1.29.7"));
        assert!(version("8.10") > version("8.9.9"));
        assert_eq!(version("7.0.15 (x)"), [7, 0, 15]);
        assert_eq!(version(""), [0, 0, 0]);
    }
}
