//! What values a setting takes, and the one judge of a value: the reader of scenarios and the programs that write
//! configurations ask it alike.

use crate::units;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What values a tunable takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum ValueKind {
    /// A switch, with the program's own two spellings (`off`/`on`, `0`/`1`).
    Switch {
        /// How the configuration spells "off".
        off: String,
        /// How the configuration spells "on".
        on: String,
    },
    /// A whole number within bounds, both included.
    Integer {
        /// Smallest accepted value.
        min: i64,
        /// Largest accepted value.
        max: i64,
        /// What it counts: `workers`, `connections`, `requests`, `seconds`.
        unit: String,
        /// Words that are accepted beside numbers: `auto`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        words: Vec<String>,
    },
    /// A size in bytes, written with K, M or G.
    Bytes {
        /// Smallest accepted value in bytes.
        min: u64,
        /// Largest accepted value in bytes.
        max: u64,
        /// Words that are accepted beside sizes: `-1`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        words: Vec<String>,
    },
    /// A duration.
    Duration {
        /// Smallest accepted value in seconds.
        min_s: u64,
        /// Largest accepted value in seconds.
        max_s: u64,
        /// Whether the program takes whole seconds only.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        whole: bool,
    },
    /// One of a few words.
    Choice {
        /// The accepted words.
        of: Vec<String>,
    },
    /// Free text, checked only by the program itself.
    Text,
}

/// What a value means, for whoever spells it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Off or on.
    Switch(bool),
    /// A whole number.
    Integer(i64),
    /// A size in bytes.
    Bytes(u64),
    /// A duration.
    Duration(Duration),
    /// Something that is written as it stands.
    Word(String),
}

impl ValueKind {
    /// What a value means, blanks around it left out.
    ///
    /// # Errors
    /// What would have been accepted, as the continuation of "expected": `` `on` or `off` ``, `a whole number of workers
    /// from 1 to 4096`.
    pub fn check(&self, value: &str) -> Result<Value, String> {
        let value = value.trim();
        // A line break would end the directive and start another one of the user's invention.
        if value.chars().any(char::is_control) {
            return Err("a value on one line, without control characters".into());
        }
        if self.words().iter().any(|word| word == value) {
            return Ok(Value::Word(value.to_owned()));
        }
        self.meaning(value).ok_or_else(|| self.expected())
    }

    fn words(&self) -> &[String] {
        match self {
            Self::Integer { words, .. }
            | Self::Bytes { words, .. }
            | Self::Choice { of: words } => words,
            Self::Switch { .. } | Self::Duration { .. } | Self::Text => &[],
        }
    }

    fn meaning(&self, value: &str) -> Option<Value> {
        match self {
            Self::Switch { off, on } => match value {
                _ if value == on => Some(Value::Switch(true)),
                _ if value == off => Some(Value::Switch(false)),
                _ => switch(value).map(Value::Switch),
            },
            Self::Integer { min, max, .. } => {
                let number = value.parse().ok()?;
                (*min..=*max)
                    .contains(&number)
                    .then_some(Value::Integer(number))
            }
            Self::Bytes { min, max, .. } => {
                let bytes = units::parse_bytes(value).ok()?;
                (*min..=*max)
                    .contains(&bytes)
                    .then_some(Value::Bytes(bytes))
            }
            Self::Duration {
                min_s,
                max_s,
                whole,
            } => {
                let time = units::parse_duration(value).ok()?;
                let fits = (*min_s as f64..=*max_s as f64).contains(&time.as_secs_f64())
                    && (!whole || time.subsec_nanos() == 0);
                fits.then_some(Value::Duration(time))
            }
            Self::Choice { .. } => None,
            Self::Text => Some(Value::Word(value.to_owned())),
        }
    }

    fn expected(&self) -> String {
        let or_words = |expected: String, words: &[String]| match words {
            [] => expected,
            words => format!(
                "{expected}, or {}",
                alternatives(words.iter().map(String::as_str))
            ),
        };
        match self {
            Self::Switch { off, on } => alternatives([off.as_str(), on.as_str()]),
            Self::Integer {
                min,
                max,
                unit,
                words,
            } => {
                let of = match unit.as_str() {
                    "" => String::new(),
                    unit => format!(" of {unit}"),
                };
                or_words(format!("a whole number{of} from {min} to {max}"), words)
            }
            Self::Bytes { min, max, words } => {
                let (min, max) = (units::format_bytes(*min), units::format_bytes(*max));
                or_words(format!("a size from {min} to {max}, such as 128M"), words)
            }
            Self::Duration {
                min_s,
                max_s,
                whole,
            } => {
                let what = if *whole {
                    "whole seconds"
                } else {
                    "a duration"
                };
                format!("{what} from {min_s}s to {max_s}s, such as 30s")
            }
            Self::Choice { of } => alternatives(of.iter().map(String::as_str)),
            Self::Text => "a value on one line".into(),
        }
    }
}

/// A switch in any spelling.
#[must_use]
pub fn switch(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Some(true),
        "0" | "off" | "no" | "false" => Some(false),
        _ => None,
    }
}

/// `` `a` ``, `` `a` or `b` ``, `` `a`, `b` or `c` ``.
#[must_use]
pub fn alternatives<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        None => "nothing".into(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Apply, Tunable};

    #[track_caller]
    fn check(values: ValueKind, accepted: &[&str], refused: &[&str], expected: &str) {
        for value in accepted {
            assert!(values.check(value).is_ok(), "{value}");
        }
        for value in refused {
            assert_eq!(values.check(value), Err(expected.into()), "{value}");
        }
    }

    fn workers(words: &[&str]) -> ValueKind {
        ValueKind::Integer {
            min: 1,
            max: 4096,
            unit: "workers".into(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
        }
    }

    #[test]
    fn bounds_are_kept_and_named() {
        check(
            workers(&[]),
            &["1", "4096", " 7 "],
            &["0", "4097", "ten", "", "1.5", "auto"],
            "a whole number of workers from 1 to 4096",
        );
        check(
            ValueKind::Bytes {
                min: 8 << 20,
                max: 1 << 30,
                words: Vec::new(),
            },
            &["8M", "1G", "16777216"],
            &["1M", "2G", "-1", "much"],
            "a size from 8.0 MiB to 1.0 GiB, such as 128M",
        );
        let duration = |whole| ValueKind::Duration {
            min_s: 0,
            max_s: 60,
            whole,
        };
        check(
            duration(false),
            &["0", "60s", "1m", "500ms"],
            &["61", "60500ms", "soon"],
            "a duration from 0s to 60s, such as 30s",
        );
        check(
            duration(true),
            &["0", "60s", "1m", "2000ms"],
            &["500ms", "61"],
            "whole seconds from 0s to 60s, such as 30s",
        );
    }

    #[test]
    fn words_are_known_words() {
        check(
            ValueKind::Switch {
                off: "0".into(),
                on: "1".into(),
            },
            &["0", "1", "on", "FALSE"],
            &["2", "enabled", ""],
            "`0` or `1`",
        );
        let of = ["static", "dynamic", "ondemand"].map(String::from).to_vec();
        check(
            ValueKind::Choice { of },
            &["static"],
            &["statik"],
            "`static`, `dynamic` or `ondemand`",
        );
    }

    #[test]
    fn a_word_beside_numbers_is_that_settings_own() {
        check(
            workers(&["auto"]),
            &["auto", "4"],
            &["-1", "many"],
            "a whole number of workers from 1 to 4096, or `auto`",
        );
        check(
            ValueKind::Bytes {
                min: 0,
                max: 1 << 30,
                words: vec!["-1".into()],
            },
            &["-1", "128M"],
            &["auto"],
            "a size from 0 B to 1.0 GiB, such as 128M, or `-1`",
        );
    }

    #[test]
    fn the_default_is_possible_as_it_is_documented() {
        let tunable = Tunable {
            name: "x".into(),
            about: String::new(),
            values: workers(&[]),
            default: Some("unset".into()),
            apply: Apply::Reload,
        };
        assert_eq!(tunable.check("unset"), Ok(Value::Word("unset".into())));
        assert_eq!(tunable.check("7"), Ok(Value::Integer(7)));
        assert!(tunable.check("auto").is_err());
    }

    #[test]
    fn no_value_can_smuggle_in_a_second_line() {
        check(
            ValueKind::Text,
            &["a b"],
            &["a\nuser = root", "\0"],
            "a value on one line, without control characters",
        );
    }

    #[test]
    fn a_kind_of_an_older_record_has_no_words() {
        let old = r#"{"kind":"integer","min":1,"max":8,"unit":"workers"}"#;
        let read: ValueKind = serde_json::from_str(old).expect("an older record");
        assert_eq!(serde_json::to_string(&read).expect("JSON"), old);
        assert!(read.check("auto").is_err());
    }
}
