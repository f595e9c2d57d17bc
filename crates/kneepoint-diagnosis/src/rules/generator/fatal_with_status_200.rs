//! GEN-04: responses with status 200 whose body is a PHP error.

use crate::rule::prelude::*;

pub(crate) static RULE: Rule = Rule {
    code: "GEN-04",
    name: "fatal-with-status-200",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: RuleStage::Generator,
    signal: UseSignal::Error,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &["PG-01", "MYS-01", "RDS-02"],
    title: "responses with status 200 carry a PHP error instead of the page",
    doc: RuleDoc {
        what_it_is: "With display_errors on, a PHP script that dies of a fatal error prints the message into the page \
            and still answers with status 200. Such a page is made very fast, so a broken application looks like a \
            quick one. A laboratory run counted 83 000 successes that way; every one was a fatal error.",
        how_it_shows: "The status is right and the body is not: the text the page must contain is missing, and the \
            first bytes or PHP's log say `Fatal error`.",
        how_it_is_confirmed: "Fetch one page by hand and read it. Fix the error in the application and run again.",
        what_to_write: "In php.ini, so that an error becomes status 500:\n\n    display_errors = 0\n    log_errors = 1\n\n\
            and in the scenario, so that a wrong page never counts:\n\n    expect = { status = 200, body_contains = \
            \"visits\" }",
        references: &["laboratory run of the catalogue"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let (phase, wrong) = evidence
        .phases
        .iter()
        .map(|phase| (phase, phase.load.outcomes.of(Outcome::WrongBody)))
        .max_by_key(|(_, wrong)| *wrong)?;
    let is_too_much = |phase: &Phase| {
        let wrong = phase.load.outcomes.of(Outcome::WrongBody);
        wrong > 0 && wrong as f64 >= evidence.slo.errors * phase.load.arrivals as f64
    };
    if !is_too_much(phase) {
        return None;
    }
    let mut below = evidence
        .phases
        .iter()
        .filter(|phase| phase.kind != PhaseKind::Over);
    let binds = evidence.refusals_bind(below.any(is_too_much));
    let fatal = evidence.logged(&[Layer::Php, Layer::Web, Layer::App], LogKind::PhpFatal);
    let example = phase.load.examples.first();
    let mut verdict = RULE
        .finds(Layer::App, RULE.title)
        .measured(
            format!(
                "{wrong} of {} responses had a body that fails its expectation",
                phase.load.arrivals
            ),
            phase,
        )
        .suspected_if(
            binds && (fatal.is_some() || example.is_some_and(|text| text.contains("rror"))),
        )
        .weight(wrong as f64 / phase.load.arrivals.max(1) as f64);
    if let Some(example) = example {
        verdict = verdict.measured(format!("for example: {example}"), phase);
    }
    if let Some(fatal) = fatal {
        verdict = verdict.under(
            format!(
                "{} fatal errors in PHP's log: {}",
                fatal.count, fatal.example
            ),
            fatal.conditions,
        );
    }
    verdict
        .refuted_by("a page fetched by hand that is whole: then the expectation of the scenario is wrong")
        .remedy(
            Advice::new(
                evidence,
                "Fix the error in the application. Set display_errors = 0, so that an error answers with status 500 \
                 and cannot pass for a page.",
            )
            .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    #[test]
    fn fires_when_the_body_is_an_error() {
        let case = Case::healthy()
            .load(PhaseKind::Knee, |load| {
                load.outcomes.by_outcome.insert(Outcome::WrongBody, 1500);
                load.examples = vec!["<b>Fatal error</b>: Uncaught Error".into()];
            })
            .log(
                PhaseKind::Knee,
                Layer::Php,
                LogKind::PhpFatal,
                1500,
                "PHP Fatal error: Uncaught Error",
            );
        check(
            case,
            expect![[r#"
            named: GEN-04
            suspected app (79 %): responses with status 200 carry a PHP error instead of the page
              saw 1500 of 1900 responses had a body that fails its expectation, at 190/s offered for 10 s
              saw for example: <b>Fatal error</b>: Uncaught Error, at 190/s offered for 10 s
              saw 1500 fatal errors in PHP's log: PHP Fatal error: Uncaught Error, at 190/s offered for 10 s
              do: Fix the error in the application. Set display_errors = 0, so that an error answers with status 500 and cannot pass for a page.
        "#]],
        );
    }

    #[test]
    fn stays_silent_when_every_body_was_right() {
        stays_silent(&RULE, Case::healthy());
    }
}
