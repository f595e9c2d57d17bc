//! Whether a value is possible for a tunable.

use super::suggest::nearest;
use kneepoint_model::units::{format_bytes, parse_bytes, parse_duration};
use kneepoint_model::{Tunable, ValueKind};

/// Checks a value, spelled as the program's configuration spells it, against the bounds of a tunable.
///
/// # Errors
/// What would have been accepted, as the continuation of "expected": `` `on` or `off` ``, `1 to 4096 workers`.
pub fn check_value(tunable: &Tunable, value: &str) -> Result<(), String> {
    // A line break would end the directive and start another one of the user's invention.
    if value.chars().any(char::is_control) {
        return Err("a value on one line, without control characters".into());
    }
    // Beside numbers the programs take a few words. Which setting takes which the stack crate knows, and it
    // refuses the rest before anything starts.
    let word = match &tunable.values {
        ValueKind::Integer { .. } => value == "auto",
        ValueKind::Bytes { .. } => value == "-1",
        _ => false,
    };
    if word || tunable.default.as_deref() == Some(value) {
        return Ok(());
    }
    match &tunable.values {
        ValueKind::Switch { off, on } => match switch(value) {
            Some(_) => Ok(()),
            None => check_words(value, &[off, on]),
        },
        ValueKind::Choice { of } => check_words(value, &of.iter().collect::<Vec<_>>()),
        ValueKind::Integer { min, max, unit } => value
            .parse()
            .is_ok_and(|number: i64| (*min..=*max).contains(&number))
            .then_some(())
            .ok_or_else(|| format!("a whole number of {unit} from {min} to {max}")),
        ValueKind::Bytes { min, max } => parse_bytes(value)
            .is_ok_and(|bytes| (*min..=*max).contains(&bytes))
            .then_some(())
            .ok_or_else(|| {
                let (min, max) = (format_bytes(*min), format_bytes(*max));
                format!("a size from {min} to {max}, such as 128M")
            }),
        ValueKind::Duration { min_s, max_s } => parse_duration(value)
            .is_ok_and(|time| (*min_s as f64..=*max_s as f64).contains(&time.as_secs_f64()))
            .then_some(())
            .ok_or_else(|| format!("a duration from {min_s}s to {max_s}s, such as 30s")),
        ValueKind::Text => Ok(()),
    }
}

/// A switch in any spelling: the stack crate writes the program's own.
pub(super) fn switch(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Some(true),
        "0" | "off" | "no" | "false" => Some(false),
        _ => None,
    }
}

fn check_words(value: &str, accepted: &[&String]) -> Result<(), String> {
    if accepted.iter().any(|word| *word == value) {
        return Ok(());
    }
    let words = accepted.iter().map(|word| word.as_str());
    let expected = alternatives(words.clone());
    Err(match nearest(value, words) {
        Some(word) if accepted.len() > 2 => format!("{expected}; did you mean `{word}`?"),
        _ => expected,
    })
}

/// `` `a` ``, `` `a` or `b` ``, `` `a`, `b` or `c` ``.
pub(super) fn alternatives<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
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
    use kneepoint_model::Apply;

    fn tunable(values: ValueKind) -> Tunable {
        Tunable {
            name: "x".into(),
            about: String::new(),
            values,
            default: None,
            apply: Apply::Reload,
        }
    }

    #[track_caller]
    fn check(values: ValueKind, accepted: &[&str], refused: &[&str], expected: &str) {
        let tunable = tunable(values);
        for value in accepted {
            assert_eq!(check_value(&tunable, value), Ok(()), "{value}");
        }
        for value in refused {
            assert_eq!(
                check_value(&tunable, value),
                Err(expected.into()),
                "{value}"
            );
        }
    }

    #[test]
    fn bounds_are_kept_and_named() {
        check(
            ValueKind::Integer {
                min: 1,
                max: 4096,
                unit: "workers".into(),
            },
            &["1", "4096"],
            &["0", "4097", "ten", "", "1.5"],
            "a whole number of workers from 1 to 4096",
        );
        check(
            ValueKind::Bytes {
                min: 8 << 20,
                max: 1 << 30,
            },
            &["8M", "1G", "16777216"],
            &["1M", "2G", "-2", "much"],
            "a size from 8.0 MiB to 1.0 GiB, such as 128M",
        );
        check(
            ValueKind::Duration {
                min_s: 0,
                max_s: 60,
            },
            &["0", "60s", "1m", "500ms"],
            &["61", "soon"],
            "a duration from 0s to 60s, such as 30s",
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
            "`static`, `dynamic` or `ondemand`; did you mean `static`?",
        );
    }

    #[test]
    fn the_words_of_the_programs_are_possible() {
        let values = ValueKind::Integer {
            min: 1,
            max: 8,
            unit: "workers".into(),
        };
        let auto = Tunable {
            default: Some("unset".into()),
            ..tunable(values)
        };
        assert_eq!(check_value(&auto, "unset"), Ok(()));
        assert_eq!(check_value(&auto, "auto"), Ok(()));
        assert!(check_value(&auto, "many").is_err());
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
}
