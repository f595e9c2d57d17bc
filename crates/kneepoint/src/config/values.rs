//! Whether a value is possible for a tunable, for a person who may have mistyped it.

use crate::config::suggest::nearest;
pub(super) use kneepoint_model::value_kind::{alternatives, switch};
use kneepoint_model::{Tunable, ValueKind};

/// Checks a value, spelled as the program's configuration spells it, against the bounds of a tunable.
///
/// # Errors
/// What would have been accepted, as the continuation of "expected": `` `on` or `off` ``, `1 to 4096 workers`.
pub fn check_value(tunable: &Tunable, value: &str) -> Result<(), String> {
    let expected = match tunable.check(value) {
        Ok(_) => return Ok(()),
        Err(expected) => expected,
    };
    let meant = match &tunable.values {
        ValueKind::Choice { of } if of.len() > 2 => nearest(value, of.iter().map(String::as_str)),
        _ => None,
    };
    Err(match meant {
        Some(word) => format!("{expected}; did you mean `{word}`?"),
        None => expected,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::Apply;

    #[test]
    fn a_mistyped_word_is_told_from_a_value_that_is_none() {
        let choice = |words: &[&str]| Tunable {
            name: "x".into(),
            about: String::new(),
            values: ValueKind::Choice {
                of: words.iter().map(|word| (*word).to_owned()).collect(),
            },
            default: None,
            apply: Apply::Reload,
        };
        let pm = choice(&["static", "dynamic", "ondemand"]);
        assert_eq!(check_value(&pm, "static"), Ok(()));
        let wrong = |tunable: &Tunable, value: &str| check_value(tunable, value).expect_err(value);
        assert_eq!(
            wrong(&pm, "statik"),
            "`static`, `dynamic` or `ondemand`; did you mean `static`?"
        );
        assert_eq!(wrong(&pm, "7"), "`static`, `dynamic` or `ondemand`");
        assert_eq!(wrong(&choice(&["yes", "no"]), "yess"), "`yes` or `no`");
    }
}
