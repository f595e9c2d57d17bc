//! Work that a deployment does once, and requests do where it did not.

use crate::rule::prelude::*;
use kneepoint_model::{Change, Setting, Unprepared};

/// Part of the CPU of all tiers from which on it is what binds \[ours\]: that it was not prepared is known for certain, and the share
/// scatters by a few percent from one sample to the next.
const BINDS: f64 = 0.1;
/// The same from which on it is worth a note \[ours\].
const NOTICEABLE: f64 = 0.02;

/// What a deployment prepares.
pub(crate) struct Preparation {
    /// What is known to be missing.
    pub(crate) lacks: Unprepared,
    /// Code that does the work in requests: beginnings of names of functions.
    pub(crate) functions: &'static [&'static str],
    /// What is missing, as a person would find it.
    pub(crate) missing: &'static str,
    /// What requests do, as it follows "stacks that computed were".
    pub(crate) doing: &'static str,
    /// What to do.
    pub(crate) advice: &'static str,
    /// What the command is called, and the command.
    pub(crate) command: (&'static str, &'static str),
}

/// The finding that requests do what was not prepared.
pub(crate) fn find(
    rule: &'static Rule,
    evidence: &Evidence,
    preparation: &Preparation,
) -> Option<Finding> {
    if !evidence.unprepared.contains(&preparation.lacks) {
        return None;
    }
    let (share, of) = evidence.computing_in(preparation.functions)?;
    let part = share * evidence.part_of_tiers(Layer::Php);
    if part < NOTICEABLE {
        return None;
    }
    let (name, command) = preparation.command;
    let share = format_share(share);
    rule.finds(Layer::App, format!("{}: {share} of PHP's CPU", rule.title))
        .configured(preparation.missing.to_owned())
        .under(
            format!(
                "{share} of {of} stacks that computed were {}",
                preparation.doing
            ),
            evidence.code_sampled_under(),
        )
        .suspected_if(part >= BINDS)
        .weight(part)
        .gain(format!("at most {} of the stack's CPU", format_share(part)))
        .refuted_by("the same CPU time a request with it prepared")
        .remedy(
            Advice::new(evidence, preparation.advice)
                .set_all([Change::Command { name }.to(command)])
                .build(),
        )
        .done()
}

/// What gives WordPress an object cache for a comparison: where it has none, the stack has a Redis, and PHP can ask it.
pub(crate) fn object_cache(evidence: &Evidence) -> Option<Setting> {
    let lacks = Unprepared::WordpressObjectCache;
    let stack = &evidence.stack;
    let cache = stack.tier(Layer::Cache)?;
    let is_possible = evidence.unprepared.contains(&lacks)
        && cache.server.as_str() == "redis"
        && stack.is_on(Layer::Php, "extension.redis") == Some(true);
    let name = "object-cache";
    // A person's shell, which does not know the variable, stops before it makes the file.
    let write = format!(
        "printf %s \"${{{}:?}}\" > wp-content/object-cache.php",
        Change::OBJECT_CACHE
    );
    is_possible.then(|| Change::Command { name }.to(write))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::test_support::{met, place, sampled};
    use expect_test::{Expect, expect};

    #[test]
    fn an_object_cache_needs_a_redis_that_php_can_ask() {
        let bare = || {
            let case = Case::healthy().set(Layer::Php, "extension.redis", "on");
            case.with(|it| it.unprepared.push(Unprepared::WordpressObjectCache))
        };
        let check = |case: Case, expected: bool| {
            let set = object_cache(&case.evidence());
            assert_eq!(set.is_some(), expected, "{set:?}");
        };
        check(bare(), true);
        check(bare().set(Layer::Php, "extension.redis", "off"), false);
        check(bare().with(|it| it.unprepared.clear()), false);
        let no_redis = |it: &mut Evidence| {
            it.stack.tiers.retain(|tier| tier.layer != Layer::Cache);
        };
        check(bare().with(no_redis), false);
    }

    /// What a rule says where 15 of a hundred stacks do, in this function, what was not prepared, and where 8 do; it says nothing
    /// where one does, nor where it was prepared.
    pub(crate) fn check(
        rule: &'static Rule,
        (lacks, function): (Unprepared, &str),
        [fires, notes]: [Expect; 2],
    ) {
        let doing = |stacks| doing(lacks, function, stacks);
        verify(rule, doing(15), fires);
        verify(rule, doing(8), notes);
        let prepared = doing(15).with(|evidence| evidence.unprepared.clear());
        for case in [doing(1), prepared] {
            verify(
                rule,
                case,
                expect![[r#"
                    named: APP-07
                    silent
                "#]],
            );
        }
    }

    fn doing(lacks: Unprepared, function: &str, stacks: u64) -> Case {
        let stacks = sampled(
            50,
            vec![
                place("main index.php", "index.php", 3),
                place(function, "vendor/x.php", 40),
            ],
            vec![
                met("GET /index.php", &[0, 1], stacks),
                met("GET /index.php", &[0], 100 - stacks),
            ],
        );
        Case::healthy().with(|evidence| {
            evidence.stacks = Some(stacks);
            evidence.unprepared.push(lacks);
        })
    }
}
