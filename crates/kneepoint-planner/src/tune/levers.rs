//! A few settings that are searched together: the values each may take.

use kneepoint_model::{Setting, SettingKey, Stack, Tunable, ValueKind};

/// Most of them: with more, the combinations that can be tried in an hour say nothing (method.md section 3).
pub const MOST_LEVERS: usize = 5;
/// What a number or a size is multiplied with: steps of a third near where it is, wider ones beyond.
const FACTORS: [f64; 7] = [0.25, 0.5, 0.75, 1.0, 1.33, 2.0, 4.0];

/// A setting with the values that are tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Lever {
    /// Which setting.
    pub key: SettingKey,
    /// In order where they have one.
    pub values: Vec<String>,
    /// Which of them is set at present.
    pub present: usize,
    /// Whether they have an order, so that neighbours are alike.
    pub ordered: bool,
}

impl Lever {
    /// Of a setting of a stack; `None` where it has none but the present value, or nobody says what it may be.
    #[must_use]
    pub fn of(stack: &Stack, key: &SettingKey) -> Option<Self> {
        let tunable = stack.tunable(key)?;
        let set = stack.setting(key.layer, &key.name);
        let now = set.or(tunable.default.as_deref())?.trim().to_owned();
        let values = values(tunable, &now)?;
        let present = values.iter().position(|value| *value == now)?;
        let ordered = matches!(
            tunable.values,
            ValueKind::Integer { .. } | ValueKind::Bytes { .. }
        );
        (values.len() > 1).then(|| Self {
            key: key.clone(),
            values,
            present,
            ordered,
        })
    }

    /// The setting with one of its values; `None` for the present one.
    #[must_use]
    pub fn setting(&self, index: usize) -> Option<Setting> {
        let value = self.values.get(index).filter(|_| index != self.present)?;
        Some(Setting {
            key: self.key.clone(),
            value: value.clone(),
        })
    }
}

/// The values of a tunable that are worth trying from its present one.
fn values(tunable: &Tunable, now: &str) -> Option<Vec<String>> {
    match &tunable.values {
        ValueKind::Switch { off, on } => Some(vec![off.clone(), on.clone()]),
        ValueKind::Choice { of } => Some(of.clone()),
        ValueKind::Integer { min, max, .. } => {
            let bounds = (u64::try_from(*min).unwrap_or(0), u64::try_from(*max).ok()?);
            Some(around(now.parse().ok()?, bounds, ""))
        }
        ValueKind::Bytes { min, max } => {
            let digits = now.trim_end_matches(|c: char| !c.is_ascii_digit());
            let unit = &now[digits.len()..];
            let bytes = match unit.chars().next().map(|c| c.to_ascii_lowercase()) {
                None => 1,
                Some('k') => 1 << 10,
                Some('m') => 1 << 20,
                Some('g') => 1 << 30,
                Some(_) => return None,
            };
            let bounds = (min.div_ceil(bytes), max / bytes);
            Some(around(digits.parse().ok()?, bounds, unit))
        }
        ValueKind::Duration { .. } | ValueKind::Text => None,
    }
}

/// Multiples of a number within bounds, ascending. Of 0, which mostly means "off" or "no end", there are none.
fn around(now: u64, (min, max): (u64, u64), unit: &str) -> Vec<String> {
    let mut numbers: Vec<u64> = FACTORS
        .iter()
        .map(|factor| (now as f64 * factor).round() as u64)
        .filter(|number| (min..=max).contains(number) && *number > 0)
        .chain([now])
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
        .iter()
        .map(|number| format!("{number}{unit}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(values: ValueKind, now: &str, expected: &Expect) {
        let tunable = Tunable {
            name: "some".into(),
            about: String::new(),
            values,
            default: None,
            apply: kneepoint_model::Apply::Restart,
        };
        let found = super::values(&tunable, now).map(|values| values.join(" "));
        expected.assert_eq(found.as_deref().unwrap_or("none"));
    }

    fn workers(min: i64, max: i64) -> ValueKind {
        ValueKind::Integer {
            min,
            max,
            unit: "workers".into(),
        }
    }

    #[test]
    fn numbers_are_tried_around_the_present_one_and_within_their_bounds() {
        check(workers(1, 1000), "20", &expect!["5 10 15 20 27 40 80"]);
        check(workers(1, 30), "20", &expect!["5 10 15 20 27"]);
        check(workers(1, 1000), "1", &expect!["1 2 4"]);
        check(workers(0, 1000), "0", &expect!["0"]);
        check(workers(0, 1000), "auto", &expect!["none"]);
    }

    #[test]
    fn sizes_keep_their_unit() {
        let size = || ValueKind::Bytes {
            min: 1 << 20,
            max: 1 << 30,
        };
        check(size(), "128M", &expect!["32M 64M 96M 128M 170M 256M 512M"]);
        check(size(), "2MB", &expect!["1MB 2MB 3MB 4MB 8MB"]);
        check(size(), "max", &expect!["none"]);
    }

    #[test]
    fn switches_and_words_are_all_tried() {
        let switch = ValueKind::Switch {
            off: "off".into(),
            on: "on".into(),
        };
        check(switch, "on", &expect!["off on"]);
        let words = ValueKind::Choice {
            of: ["static", "dynamic", "ondemand"].map(str::to_owned).into(),
        };
        check(words, "static", &expect!["static dynamic ondemand"]);
        check(ValueKind::Text, "x", &expect!["none"]);
    }
}
