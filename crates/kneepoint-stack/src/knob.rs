//! Tunables as the servers' tables declare them, and the check of a value against its tunable.

use crate::StackError;
use kneepoint_model::{Apply, Layer, Tunable, ValueKind, units};
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
    /// The words.
    Choice(&'static [&'static str]),
    /// Checked only by the program itself.
    Text,
}

/// One row of a server's table of tunables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Knob {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: Option<&'static str>,
    pub(crate) apply: Apply,
    pub(crate) about: &'static str,
    /// Words accepted beside the kind: `auto`, `-1`.
    pub(crate) words: &'static [&'static str],
}

impl Knob {
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
        let text = |word: &&str| (*word).to_owned();
        let values = match self.kind {
            Kind::Switch(off, on) => ValueKind::Switch {
                off: off.into(),
                on: on.into(),
            },
            Kind::Integer(min, max, unit) => ValueKind::Integer {
                min,
                max,
                unit: unit.into(),
            },
            Kind::Bytes(min, max) => ValueKind::Bytes { min, max },
            Kind::Duration(min_s, max_s) => ValueKind::Duration { min_s, max_s },
            Kind::Choice(of) => ValueKind::Choice {
                of: of.iter().map(text).collect(),
            },
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
        let value = value.trim();
        if self.words.contains(&value) {
            return Ok(value.to_owned());
        }
        match self.kind {
            Kind::Switch(off, on) => match switch(value) {
                Some(true) => Ok(on.to_owned()),
                Some(false) => Ok(off.to_owned()),
                None => Err(format!("it is a switch; use `{off}` or `{on}`")),
            },
            Kind::Integer(min, max, unit) => match value.parse::<i64>() {
                Ok(number) if (min..=max).contains(&number) => Ok(number.to_string()),
                _ => Err(format!("use a whole number of {unit} from {min} to {max}")),
            },
            Kind::Bytes(min, max) => match units::parse_bytes(value) {
                Ok(bytes) if (min..=max).contains(&bytes) => Ok(spelling.bytes(bytes)),
                Ok(_) => Err(format!(
                    "use a size from {} to {}",
                    units::format_bytes(min),
                    units::format_bytes(max)
                )),
                Err(error) => Err(error.to_string()),
            },
            Kind::Duration(min_s, max_s) => match units::parse_duration(value) {
                Ok(time) if (min_s..=max_s).contains(&time.as_secs()) => spelling.duration(time),
                Ok(_) => Err(format!("use a duration from {min_s} s to {max_s} s")),
                Err(error) => Err(error.to_string()),
            },
            Kind::Choice(of) => match of.contains(&value) {
                true => Ok(value.to_owned()),
                false => Err(format!("use one of {}", of.join(", "))),
            },
            Kind::Text => match value.contains(['\n', '\r', '\0']) {
                true => Err("it must be one line".to_owned()),
                false => Ok(value.to_owned()),
            },
        }
    }
}

/// A switch in any spelling.
pub(crate) fn switch(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Some(true),
        "0" | "off" | "no" | "false" | "" | "none" => Some(false),
        _ => None,
    }
}

/// How a program writes sizes and durations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spelling {
    /// Suffixes of KiB, MiB and GiB.
    pub(crate) sizes: [&'static str; 3],
    /// Suffix of whole seconds.
    pub(crate) seconds: &'static str,
    /// Suffix of milliseconds; `None` where the program takes whole seconds only.
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

    fn duration(&self, time: std::time::Duration) -> Result<String, String> {
        if time.subsec_nanos() == 0 {
            return Ok(format!("{}{}", time.as_secs(), self.seconds));
        }
        match self.milliseconds {
            Some(suffix) => Ok(format!("{}{suffix}", time.as_millis())),
            None => Err("use whole seconds".to_owned()),
        }
    }
}

/// The settings of a tier, each known, within its bounds, and spelled as the program spells it.
pub(crate) fn checked(
    server: &'static str,
    layer: Layer,
    settings: &BTreeMap<String, String>,
    knobs: &[Knob],
    spelling: &Spelling,
) -> Result<BTreeMap<String, String>, StackError> {
    let check = |(name, value): (&String, &String)| {
        let knob = knobs.iter().find(|knob| knob.name == name).ok_or_else(|| {
            StackError::UnknownSetting {
                server,
                layer,
                name: name.clone(),
                hint: nearest(name, knobs),
            }
        })?;
        let value = knob
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
    knobs: &[Knob],
    spelling: &Spelling,
    get: impl Fn(&str) -> Option<String>,
) -> BTreeMap<String, String> {
    let value = |knob: &Knob| {
        let value = normal(knob, &get(knob.name)?, spelling);
        Some((knob.name.to_owned(), value))
    };
    knobs.iter().filter_map(value).collect()
}

/// The value as the program would spell it, or unchanged when it fits nothing: a configured value is
/// reported as it is.
fn normal(knob: &Knob, value: &str, spelling: &Spelling) -> String {
    match knob.kind {
        Kind::Switch(..) => knob
            .check(value, spelling)
            .unwrap_or_else(|_| value.to_owned()),
        _ => value.trim().to_owned(),
    }
}

fn nearest(name: &str, knobs: &[Knob]) -> String {
    let last = |name: &str| name.rsplit('.').next().unwrap_or("").to_owned();
    let near = knobs
        .iter()
        .find(|knob| knob.name.eq_ignore_ascii_case(name) || last(knob.name) == last(name));
    match near {
        Some(knob) => format!("; did you mean `{}`?", knob.name),
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
        Knob::new("x", kind, "", Apply::Reload, "").check(value, &NGINX)
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
        for (kind, value) in [
            (Kind::Switch("off", "on"), "maybe"),
            (Kind::Integer(1, 10, "workers"), "11"),
            (Kind::Integer(1, 10, "workers"), "many"),
            (Kind::Bytes(0, 10), "1k"),
            (Kind::Duration(0, 60), "2h"),
            (Kind::Choice(&["a", "b"]), "c"),
            (Kind::Text, "a\nb"),
        ] {
            assert!(check(kind, value).is_err(), "{kind:?} takes {value}");
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
