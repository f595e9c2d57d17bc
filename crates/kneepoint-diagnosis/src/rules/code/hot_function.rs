//! APP-07: one function of PHP code, or one plugin, takes much of the CPU.

use crate::causes::Taker;
use crate::evidence::CPU_HEADROOM;
use crate::rule::prelude::*;

/// Part of the CPU of all tiers from which on it is what binds \[ours\]: without it the stack sustains a third more.
const BINDS: f64 = 0.25;

/// CPU time of a request in ms that is worth somebody's work \[ours\]: the code of a page that takes half of it is all in a
/// few functions.
const LEAST_MS: f64 = 1.0;

pub(crate) static RULE: Rule = Rule {
    code: "APP-07",
    name: "hot-function",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: RuleStage::Code,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Any,
    requires: &[],
    // What compiles or checks every file is at work in whatever includes it.
    yields_to: &["OPC-01", "OPC-03", "OPC-04", "OPC-06", "APP-06"],
    title: "one function or plugin takes much of PHP's CPU",
    doc: RuleDoc {
        what_it_is: "Pages of one application share code, and sometimes one function of it is most of what they do: it is \
            called far too often, or searches a list again and again. A field report found one that was called 430 000 times \
            a request, and 22 000 times once its result was kept. Or a plugin that every page calls does more than the page \
            itself.",
        how_it_shows: "The CPU is used up by PHP, or what a page computes takes most of the time that the SLO allows, and \
            workers that compute are met in one function again and again, whatever page they serve, or in one plugin's code \
            and in what it calls.",
        how_it_is_confirmed: "Measure the limit with the function's result kept (a static variable, a cache), or with the \
            plugin switched off: it rises by its share. Hashing a password is meant to be slow, and is left as it is.",
        what_to_write: "kneepoint profile --pid MASTER --svg flame.svg shows who calls it. Call it less often: keep its result \
            for the request, look up by key where it searches, move it out of the loop.",
        references: &["field report S3 (430 000 calls of one function became 22 000)"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let taker = Taker::find(evidence)?;
    let phase = evidence.stressed()?;
    let part = taker.share * evidence.part_of_tiers(Layer::Php);
    let is_used_up = evidence
        .cpu_use(phase)
        .is_none_or(|cpu| cpu.share >= CPU_HEADROOM);
    let binds = is_used_up || evidence.computes_too_long();
    let php_ms = evidence.knee().and_then(|knee| knee.cpu_ms(Layer::Php));
    let is_worth_it = php_ms.is_none_or(|ms| ms * taker.share >= LEAST_MS);
    RULE.finds(Layer::App, taker.title.clone())
        .under(&taker.seen, evidence.code_sampled_under())
        .cpu_used(evidence, phase)
        .suspected_if(binds && is_worth_it && part >= BINDS)
        .weight(part)
        .refuted_by(format!("the same limit when {} does nothing", taker.name))
        .remedy(Advice::new(evidence, advice(&taker)).build())
        .done()
}

/// Beginnings of functions of PHP itself that are slow on purpose: a password that is quick to check is quick to guess.
const SLOW_BY_DESIGN: [&str; 6] = [
    "password_",
    "crypt",
    "hash_pbkdf2",
    "openssl_pbkdf2",
    "sodium_crypto_pwhash",
    "scrypt",
];

fn advice(taker: &Taker<'_>) -> String {
    let name = &taker.name;
    let by_design = taker.through.filter(|through| {
        SLOW_BY_DESIGN
            .iter()
            .any(|begin| through.starts_with(begin))
    });
    match by_design {
        Some(through) => format!(
            "{name} hashes passwords ({through}), which is slow by design: leave it so. Check a password once a \
             visit and keep a session from then on; limit attempts; count logins apart from other pages."
        ),
        None => format!(
            "See what {name} does so often at {} (kneepoint profile shows its callers): call it less, make it cheaper, or do \
             without it.",
            taker.place.at()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{builtin, met, place, sampled};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    /// So many tenths of the stacks in one function, each of the others in one of its own.
    fn met_in_one(share: u32) -> Case {
        let stacks = sampled(
            99,
            [place("App\\Tree::find", "app/Tree.php", 12)]
                .into_iter()
                .chain((1..10).map(|nth| place("other", &format!("{nth}.php"), 1)))
                .collect(),
            (0..10)
                .map(|nth| met("GET /", &[if nth < share { 0 } else { nth }], 100))
                .collect(),
        );
        Case::healthy().with(|evidence| evidence.stacks = Some(stacks))
    }

    /// One function takes most of the CPU of a machine that is mostly idle.
    fn on_an_idle_machine() -> Case {
        met_in_one(7)
            .machine_at(PhaseKind::Knee, 0.36)
            .machine_at(PhaseKind::Over, 0.39)
    }

    #[test]
    fn notes_the_function_that_workers_are_met_in() {
        check(
            met_in_one(7),
            expect![[r#"
                named: APP-07
                suspected app (55 %): one function takes 70 % of PHP's CPU: App\Tree::find
                  saw 70 % of 1000 stacks that computed were in App\Tree::find at app/Tree.php:12, sampled 99 times a second, at 240/s offered for 10 s
                  saw 96 % of the machine's 2 cores used, at 240/s offered for 10 s
                  do: See what App\Tree::find does so often at app/Tree.php:12 (kneepoint profile shows its callers): call it less, make it cheaper, or do without it.
            "#]],
        );
    }

    #[test]
    fn leaves_a_password_check_as_slow_as_it_is_meant_to_be() {
        let case = met_in_one(8).with(|evidence| {
            let stacks = evidence.stacks.as_mut().expect("stacks");
            stacks.places.push(builtin("password_verify"));
            for stack in &mut stacks.stacks[..8] {
                stack.places.push(10);
            }
        });
        check(
            case,
            expect![[r#"
                named: APP-07
                suspected app (63 %): one function takes 80 % of PHP's CPU: App\Tree::find
                  saw 80 % of 1000 stacks that computed were in App\Tree::find at app/Tree.php:12, most of them in password_verify, sampled 99 times a second, at 240/s offered for 10 s
                  saw 96 % of the machine's 2 cores used, at 240/s offered for 10 s
                  do: App\Tree::find hashes passwords (password_verify), which is slow by design: leave it so. Check a password once a visit and keep a session from then on; limit attempts; count logins apart from other pages.
            "#]],
        );
    }

    #[test]
    fn only_notes_a_function_of_a_page_that_takes_next_to_nothing() {
        let light = met_in_one(7).counter(PhaseKind::Knee, Layer::Php, metric::CPU_S, 0.2);
        check(
            light,
            expect![[r#"
            named: CAP-02
            noted app (25 %): one function takes 70 % of PHP's CPU: App\Tree::find
              saw 70 % of 1000 stacks that computed were in App\Tree::find at app/Tree.php:12, sampled 99 times a second, at 240/s offered for 10 s
              saw 96 % of the machine's 2 cores used, at 240/s offered for 10 s
              do: See what App\Tree::find does so often at app/Tree.php:12 (kneepoint profile shows its callers): call it less, make it cheaper, or do without it.
        "#]],
        );
    }

    #[test]
    fn only_notes_a_function_where_the_cpu_is_not_used_up() {
        // Whatever takes most of the CPU, there is more of it: something else binds.
        check(
            on_an_idle_machine(),
            expect![[r#"
                named: nothing
                noted app (55 %): one function takes 70 % of PHP's CPU: App\Tree::find
                  saw 70 % of 1000 stacks that computed were in App\Tree::find at app/Tree.php:12, sampled 99 times a second, at 240/s offered for 10 s
                  saw 39 % of the machine's 2 cores used, at 240/s offered for 10 s
                  do: See what App\Tree::find does so often at app/Tree.php:12 (kneepoint profile shows its callers): call it less, make it cheaper, or do without it.
            "#]],
        );
    }

    #[test]
    fn names_a_function_that_makes_a_page_miss_the_slo_on_an_idle_machine() {
        check(
            on_an_idle_machine()
                .with(|evidence| evidence.slo.response_time = std::time::Duration::from_millis(5)),
            expect![[r#"
                named: APP-07
                suspected app (55 %): one function takes 70 % of PHP's CPU: App\Tree::find
                  saw 70 % of 1000 stacks that computed were in App\Tree::find at app/Tree.php:12, sampled 99 times a second, at 240/s offered for 10 s
                  saw 39 % of the machine's 2 cores used, at 240/s offered for 10 s
                  do: See what App\Tree::find does so often at app/Tree.php:12 (kneepoint profile shows its callers): call it less, make it cheaper, or do without it.
            "#]],
        );
    }

    #[test]
    fn names_the_plugin_with_all_that_it_calls() {
        let stacks = sampled(
            99,
            vec![
                place("main doku.php", "doku.php", 36),
                place("Menu::tree", "lib/plugins/menu/action.php", 12),
                place("io_readFile", "inc/io.php", 105),
                place("p_read", "inc/parserutils.php", 80),
            ],
            vec![
                met("GET /", &[0, 1, 2], 300),
                met("GET /", &[0, 1, 3], 400),
                met("GET /", &[0], 300),
            ],
        );
        let case = Case::healthy().with(|evidence| evidence.stacks = Some(stacks));
        check(
            case,
            expect![[r#"
            named: APP-07
            suspected app (55 %): plugin menu takes 70 % of PHP's CPU, with all that it calls
              saw 70 % of 1000 stacks that computed pass through its code, most of all at Menu::tree at lib/plugins/menu/action.php:12, sampled 99 times a second, at 240/s offered for 10 s
              saw 96 % of the machine's 2 cores used, at 240/s offered for 10 s
              do: See what plugin menu does so often at lib/plugins/menu/action.php:12 (kneepoint profile shows its callers): call it less, make it cheaper, or do without it.
        "#]],
        );
    }

    #[test]
    fn stays_silent_when_it_is_one_of_many_and_without_stacks() {
        stays_silent(&RULE, met_in_one(1));
        stays_silent(&RULE, Case::healthy());
    }
}
