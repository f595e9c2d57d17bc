//! The size of the pool: the values FPM demands of each other, and what it means for requests.

use super::documents::Documents;
use crate::{StackError, TierContext};
use kneepoint_model::{Layer, SettingKey, WorkerPool};
use std::collections::BTreeMap;

/// Most children FPM forks in one second, whatever is idle (its default `pm.max_spawn_rate`, and a constant
/// before PHP 8.1; catalogue, fact 3).
const SPAWN_CAP: u64 = 32;
/// Children an `ondemand` pool adds in a second while it is saturated: 40 took 9 to 10 s (catalogue FPM-05).
/// FPM forks one child for a connection that arrives while none is idle, and none for those already waiting, so
/// the figure depends on how they arrive; this one is of clients that wait for their answers.
const ONDEMAND_SPAWN_PER_S: f64 = 4.0;
/// Children per core of a pool nobody sized.
const CHILDREN_PER_CPU: f64 = 4.0;

/// Fills in the sizes nobody chose, so that FPM's rules hold.
pub(super) fn settle(documents: &mut Documents, context: &TierContext) -> Result<(), StackError> {
    let number = |documents: &Documents, name: &str| -> Option<u64> {
        documents.get(name)?.trim().parse().ok()
    };
    if documents.get("pm").is_none() {
        documents.set("pm", "static")?;
    }
    let start = number(documents, "pm.start_servers");
    let min_spare = number(documents, "pm.min_spare_servers");
    let max_spare = number(documents, "pm.max_spare_servers");
    let dynamic = documents.get("pm").as_deref() == Some("dynamic");
    let max = match number(documents, "pm.max_children") {
        Some(max) => max,
        None => {
            let by_cpu = (context.cpus * CHILDREN_PER_CPU).ceil().max(4.0) as u64;
            let asked = [start, min_spare, max_spare].into_iter().flatten().max();
            let max = by_cpu.max(asked.filter(|_| dynamic).unwrap_or(0));
            documents.set("pm.max_children", &max.to_string())?;
            max
        }
    };
    if !dynamic {
        return Ok(());
    }
    // Who asks for a smaller pool asks for no more spare children than it has, whatever the file says.
    let smaller = context.settings.contains_key("pm.max_children");
    let within = |name: &str, given: Option<u64>| {
        let of_file = smaller && !context.settings.contains_key(name);
        given.map(|value| if of_file { value.min(max) } else { value })
    };
    let sizes = Sizes::complete(
        max,
        within("pm.start_servers", start),
        within("pm.min_spare_servers", min_spare),
        within("pm.max_spare_servers", max_spare),
    );
    sizes.check().map_err(|rule| StackError::Inconsistent {
        layer: context.layer,
        rule,
    })?;
    for (name, given, value) in [
        ("pm.start_servers", start, sizes.start),
        ("pm.min_spare_servers", min_spare, sizes.min_spare),
        ("pm.max_spare_servers", max_spare, sizes.max_spare),
    ] {
        if given != Some(value) {
            documents.set(name, &value.to_string())?;
        }
    }
    Ok(())
}

/// The sizes of a dynamic pool.
#[derive(Debug, PartialEq, Eq)]
struct Sizes {
    max: u64,
    start: u64,
    min_spare: u64,
    max_spare: u64,
}

impl Sizes {
    /// Chooses what is not given within what is.
    fn complete(
        max: u64,
        start: Option<u64>,
        min_spare: Option<u64>,
        max_spare: Option<u64>,
    ) -> Self {
        let ceiling = [start, max_spare].into_iter().flatten().fold(max, u64::min);
        let min_spare = min_spare.unwrap_or((max / 4).clamp(1, ceiling.max(1)));
        let max_spare = max_spare.unwrap_or_else(|| {
            let floor = min_spare.max(start.unwrap_or(0)).min(max);
            (max / 2).max(floor).max(1)
        });
        // FPM's own default for the start.
        let start = start.unwrap_or(min_spare + max_spare.saturating_sub(min_spare) / 2);
        Self {
            max,
            start,
            min_spare,
            max_spare,
        }
    }

    /// The rules of `fpm_conf.c`.
    fn check(&self) -> Result<(), String> {
        let Self {
            max,
            start,
            min_spare,
            max_spare,
        } = self;
        let rules = [
            (
                min_spare <= max,
                format!(
                    "pm.min_spare_servers ({min_spare}) must not exceed pm.max_children ({max})"
                ),
            ),
            (
                max_spare <= max,
                format!(
                    "pm.max_spare_servers ({max_spare}) must not exceed pm.max_children ({max})"
                ),
            ),
            (
                min_spare <= max_spare,
                format!(
                    "pm.min_spare_servers ({min_spare}) must not exceed pm.max_spare_servers ({max_spare})"
                ),
            ),
            (
                min_spare <= start && start <= max_spare,
                format!(
                    "pm.start_servers ({start}) must lie between pm.min_spare_servers ({min_spare}) and pm.max_spare_servers ({max_spare})"
                ),
            ),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(format!(
                "{rule}; change one of them, or remove it and Kneepoint chooses"
            )),
            None => Ok(()),
        }
    }
}

/// The saturation model of a pool with these effective settings.
pub(super) fn workers(settings: &BTreeMap<String, String>) -> WorkerPool {
    let number = |name: &str| {
        settings
            .get(name)
            .and_then(|value| value.parse::<u64>().ok())
    };
    let max_workers = number("pm.max_children").unwrap_or(0);
    let (start_workers, spawn_per_s) = match settings.get("pm").map(String::as_str) {
        Some("dynamic") => {
            let cap = number("pm.max_spawn_rate").unwrap_or(SPAWN_CAP);
            let spare = number("pm.min_spare_servers").unwrap_or(1);
            (
                number("pm.start_servers").unwrap_or(0),
                Some(spare.min(cap) as f64),
            )
        }
        Some("ondemand") => (0, Some(ONDEMAND_SPAWN_PER_S)),
        _ => (max_workers, None),
    };
    WorkerPool {
        worker: "FPM child".into(),
        max_workers,
        start_workers,
        spawn_per_s,
        size_key: SettingKey::new(Layer::Php, "pm.max_children"),
        // -1 leaves it to the kernel's limit, which is far above any useful queue.
        queue_limit: number("listen.backlog").unwrap_or(u64::from(u16::MAX)),
        keeps_queue: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn given_sizes_that_break_a_rule_are_named() {
        let broken = |max, start, min, spare, words: &str| {
            let rule = Sizes::complete(max, start, min, spare)
                .check()
                .expect_err(words);
            assert!(rule.contains(words), "{rule}");
        };
        broken(
            3,
            Some(2),
            Some(1),
            Some(5),
            "pm.max_spare_servers (5) must not exceed pm.max_children (3)",
        );
        broken(
            10,
            None,
            Some(6),
            Some(4),
            "pm.min_spare_servers (6) must not exceed pm.max_spare_servers (4)",
        );
        broken(
            10,
            Some(9),
            Some(1),
            Some(4),
            "pm.start_servers (9) must lie between",
        );
        broken(
            4,
            None,
            Some(8),
            None,
            "pm.min_spare_servers (8) must not exceed pm.max_children (4)",
        );
    }

    proptest! {
        #[test]
        fn sizes_nobody_chose_keep_the_rules(max in 1u64..500, share in 0.0f64..=1.0, which in 0..4) {
            let one = ((max as f64 * share) as u64).max(1);
            let given = |at| (which == at).then_some(one);
            let sizes = Sizes::complete(max, given(0), given(1), given(2));
            prop_assert_eq!(sizes.check(), Ok(()), "{:?}", sizes);
        }
    }
}
