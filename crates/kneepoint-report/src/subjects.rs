//! What a report tells of, a subject each, with its HTML, Markdown and terminal form.

pub(crate) mod account;
pub(crate) mod capacity;
pub(crate) mod changes;
pub(crate) mod conditions;
pub(crate) mod contest;
pub(crate) mod findings;
pub(crate) mod gate;
pub(crate) mod inside;
pub(crate) mod limits;
pub(crate) mod replay;
pub(crate) mod stack;
pub(crate) mod summary;

use kneepoint_model::Run;
use stack::waterfall::Pair;

/// The class that gives a configuration its colour: `base` or `best`.
fn tone(arm: &str) -> &'static str {
    if arm == "base" { "base" } else { "best" }
}

/// Whether there is anything to compare the first configuration with.
pub(crate) fn is_compared(run: &Run) -> bool {
    run.limit("best").is_some() || Pair::of_best(run).is_some()
}

/// What a configuration is called: `before` and `after` where there are two, else `as it is`; or its own name.
fn arm_name<'a>(run: &Run, arm: &'a str) -> &'a str {
    match arm {
        "base" if !is_compared(run) => "as it is",
        "base" => "before",
        "best" => "after",
        other => while_tuning(run, other).unwrap_or(other),
    }
}

/// What tuning calls what the run began with, where it looks at it again.
const SEEN_AGAIN: &str = "v1";

/// What a configuration is called that tuning gave a number: one is what the run began with, and each other one had the
/// changes that were kept until then. `None` where nothing was tuned: people name configurations as they like.
fn while_tuning(run: &Run, arm: &str) -> Option<&'static str> {
    let _number: u32 = arm.strip_prefix('v')?.parse().ok()?;
    let name = match arm == SEEN_AGAIN {
        true => "before (seen again)",
        false => "after (while tuning)",
    };
    (!run.decisions.is_empty()).then_some(name)
}

/// What `after (while tuning)` means, where one of the configurations is called so.
fn tuning_note(run: &Run, arms: &[&str]) -> Option<&'static str> {
    let is_so = |arm: &&str| while_tuning(run, arm).is_some_and(|name| name.starts_with("after"));
    arms.iter()
        .any(is_so)
        .then_some("“After (while tuning)” had the changes that were kept until it was measured.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::run::Decision;

    #[test]
    fn a_number_that_tuning_gave_is_no_name_for_people() {
        let mut run = Run::default();
        // Of a comparison of what somebody named so.
        assert_eq!(arm_name(&run, "v3"), "v3");
        run.decisions = vec![Decision {
            code: "OPC-01".to_owned(),
            kept: true,
            ..Decision::default()
        }];
        assert_eq!(arm_name(&run, "v3"), "after (while tuning)");
        assert_eq!(arm_name(&run, "v1"), "before (seen again)");
        assert_eq!(arm_name(&run, "vanilla"), "vanilla");
        assert!(tuning_note(&run, &["base", "v3"]).is_some());
        assert!(tuning_note(&run, &["v1", "best"]).is_none());
    }
}
