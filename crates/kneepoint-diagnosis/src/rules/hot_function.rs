//! APP-07: one function of PHP code takes much of the CPU.

use crate::inside::Hot;
use crate::rules::prelude::*;

/// Share of the computing stacks in one function from which on it is where to look first \[prop\].
const MUCH: f64 = 0.2;
/// Stacks from which on shares are worth telling.
const ENOUGH: u64 = 100;

pub(crate) static RULE: Rule = Rule {
    code: "APP-07",
    name: "hot-function",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: Stage::Code,
    signal: Signal::Utilisation,
    applies_to: AppliesTo::Any,
    requires: &[],
    // What compiles or checks every file is at work in whatever includes it.
    yields_to: &["OPC-01", "OPC-03", "OPC-04", "OPC-06"],
    title: "one function takes much of PHP's CPU",
    doc: RuleDoc {
        what_it_is: "Pages of one application share code, and sometimes one function of it is most of what they do: it is \
            called far too often, or searches a list again and again. Field report S3 found one that was called \
            430 000 times a request, and 22 000 times when a result was kept.",
        how_it_shows: "The CPU is used up by PHP, and workers that compute are met in one function again and again, whatever \
            page they serve.",
        how_it_is_confirmed: "Measure the limit with the function's result kept (a static variable, a cache): it rises by \
            the share of the function. Hashing a password is meant to be slow, and is left as it is.",
        what_to_write: "kneepoint profile --pid MASTER --svg flame.svg shows who calls it. Call it less often: keep its result \
            for the request, look up by key where it searches, move it out of the loop.",
        references: &["field report S3 (430 000 calls of one function became 22 000)"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let hot = evidence.hot_functions();
    let first = hot
        .first()
        .filter(|hot| hot.of >= ENOUGH && hot.share >= MUCH)?;
    let phase = evidence.stressed()?;
    let cpu = evidence.cpu_use(phase);
    let title = format!(
        "one function takes {} of PHP's CPU: {}",
        format_share(first.share),
        first.place.function
    );
    let within = first.through.map_or_else(String::new, |through| {
        format!(", most of them in {through}")
    });
    let mut verdict = RULE.finds(Layer::App, title).under(
        format!(
            "{} of {} stacks that computed were in {}{within}",
            format_share(first.share),
            first.of,
            first.place
        ),
        evidence.sampled_under(),
    );
    if let Some(cpu) = cpu {
        verdict = verdict.measured(
            format!("{} of {} used", format_share(cpu.share), cpu.of),
            phase,
        );
    }
    verdict
        // Only the application's authors can say whether it need be.
        .suspected_if(false)
        .weight(first.share)
        .refuted_by("the same limit when that function does nothing")
        .remedy(Advice::new(evidence, advice(first)).build())
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

fn advice(hot: &Hot<'_>) -> String {
    let function = &hot.place.function;
    let by_design = hot.through.filter(|through| {
        SLOW_BY_DESIGN
            .iter()
            .any(|begin| through.starts_with(begin))
    });
    match by_design {
        Some(through) => format!(
            "{function} hashes passwords ({through}), which is slow by design: leave it so. Check a password once a \
             visit and keep a session from then on; limit attempts; count logins apart from other pages."
        ),
        None => format!(
            "See what {function} does so often (kneepoint profile shows its callers): call it less, or make it cheaper."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{met, place};
    use kneepoint_model::StackProfile;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    /// So many tenths of the stacks in one function, each of the others in one of its own.
    fn met_in_one(share: u32) -> Case {
        let stacks = StackProfile {
            phase: "over".to_owned(),
            rate_hz: 99,
            places: [place("App\\Tree::find", "app/Tree.php", 12)]
                .into_iter()
                .chain((1..10).map(|nth| place("other", &format!("{nth}.php"), 1)))
                .collect(),
            stacks: (0..10)
                .map(|nth| met("GET /", &[if nth < share { 0 } else { nth }], 100))
                .collect(),
            ..StackProfile::default()
        };
        Case::healthy().with(|evidence| evidence.stacks = Some(stacks))
    }

    #[test]
    fn notes_the_function_that_workers_are_met_in() {
        check(
            met_in_one(7),
            expect![[r#"
                named: CAP-02
                noted app (70 %): one function takes 70 % of PHP's CPU: App\Tree::find
                  saw 70 % of 1000 stacks that computed were in App\Tree::find at app/Tree.php:12, sampled 99 times a second, at 240/s offered for 10 s
                  saw 96 % of the machine's 2 cores used, at 240/s offered for 10 s
                  do: See what App\Tree::find does so often (kneepoint profile shows its callers): call it less, or make it cheaper.
            "#]],
        );
    }

    #[test]
    fn leaves_a_password_check_as_slow_as_it_is_meant_to_be() {
        let case = met_in_one(8).with(|evidence| {
            let stacks = evidence.stacks.as_mut().expect("stacks");
            stacks.places.push(kneepoint_model::Place {
                function: "password_verify".to_owned(),
                ..kneepoint_model::Place::default()
            });
            for stack in &mut stacks.stacks[..8] {
                stack.places.push(10);
            }
        });
        check(
            case,
            expect![[r#"
            named: CAP-02
            noted app (80 %): one function takes 80 % of PHP's CPU: App\Tree::find
              saw 80 % of 1000 stacks that computed were in App\Tree::find at app/Tree.php:12, most of them in password_verify, sampled 99 times a second, at 240/s offered for 10 s
              saw 96 % of the machine's 2 cores used, at 240/s offered for 10 s
              do: App\Tree::find hashes passwords (password_verify), which is slow by design: leave it so. Check a password once a visit and keep a session from then on; limit attempts; count logins apart from other pages.
        "#]],
        );
    }

    #[test]
    fn stays_silent_when_it_is_one_of_many_and_without_stacks() {
        stays_silent(&RULE, met_in_one(1));
        stays_silent(&RULE, Case::healthy());
    }
}
