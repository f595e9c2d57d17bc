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
        other => other,
    }
}
