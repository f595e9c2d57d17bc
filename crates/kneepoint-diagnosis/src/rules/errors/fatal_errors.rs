//! APP-14: pages of the application end with an error of its own.

use crate::evidence::Logged;
use crate::rule::prelude::*;

/// Share of the responses that fail from which on it is what breaks the SLO \[ours\].
const MANY: f64 = 0.001;
/// Lines of the log for each error from which on they account for the errors \[ours\]: one line in a thousand does not.
const ACCOUNTS: f64 = 0.1;

pub(crate) static RULE: Rule = Rule {
    code: "APP-14",
    name: "fatal-errors",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: RuleStage::Errors,
    signal: UseSignal::Error,
    applies_to: AppliesTo::Any,
    requires: &[],
    // Where there is no slot left behind PHP, or no memory, its errors only pass that on.
    yields_to: &["GEN-04", "PG-01", "MYS-01", "RDS-02", "FPM-21", "KRN-08"],
    title: "pages end with an error of the application",
    doc: RuleDoc {
        what_it_is: "An exception that nobody catches ends the page with status 500. Some come only under load: two requests \
            that create the same row or directory at once, a cache that is rebuilt by several, a lock that is not got in \
            time, a limit of time or memory that only a busy machine reaches.",
        how_it_shows: "Responses with status 500 that grow with the rate, and `PHP Fatal error: Uncaught ...` in PHP's log, with \
            file and line.",
        how_it_is_confirmed: "Group the lines of the log by class and place; mend the first and drive the same rate again.",
        what_to_write: "Keep the log on while you test:\n\n    ; php.ini\n    log_errors = On\n    error_log = \
            /var/log/php/error.log\n\nand mend what it names: INSERT ... ON CONFLICT DO NOTHING instead of looking first, \
            mkdir() that may lose the race, a lock with a time.",
        references: &["field reports S1 and S5 (errors of the application under load)"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    const LAYERS: [Layer; 3] = [Layer::Php, Layer::Web, Layer::App];
    let errors = |phase: &Phase| phase.load.outcomes.of(Outcome::HttpError);
    let failures: u64 = evidence.phases.iter().map(errors).sum();
    // An exception for a connection that the server had closed is a kind of its own.
    let kinds = [
        (LogKind::PhpFatal, "fatal errors"),
        (LogKind::KeptConnectionLost, "lost connections"),
    ];
    let logged = |(kind, called)| Some((kind, evidence.logged(&LAYERS, kind)?, called));
    // That a connection was lost may be a warning, after which the page went on: there must be about as many as errors.
    let accounts = |(kind, logged, _): &(LogKind, Logged, &str)| {
        *kind == LogKind::PhpFatal || logged.count * 2 >= failures
    };
    let (_, fatal, called) = kinds
        .into_iter()
        .filter_map(logged)
        .filter(accounts)
        .max_by_key(|(_, logged, _)| logged.count)?;
    let failed = |phase: &Phase| {
        let failed = phase.load.outcomes.of(Outcome::HttpError) as f64;
        failed / phase.load.arrivals.max(1) as f64
    };
    let (phase, share) = evidence
        .phases
        .iter()
        .map(|phase| (phase, failed(phase)))
        .filter(|(_, share)| *share > 0.0)
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let of_these = (fatal.count as f64 / failures.max(1) as f64).min(1.0);
    let tolerated = evidence.slo.errors.max(MANY);
    let fails_below = |phase: &Phase| phase.kind != PhaseKind::Over && failed(phase) >= tolerated;
    let below = evidence.phases.iter().any(fails_below);
    let low = evidence.phase(PhaseKind::Low).map(failed);
    let mut verdict = RULE
        .finds(Layer::App, RULE.title)
        .measured(
            format!(
                "{} of the responses have an error's status",
                format_share(share)
            ),
            phase,
        )
        .under(
            format!("{} {called} in PHP's log: {}", fatal.count, fatal.example),
            fatal.conditions,
        );
    if low.is_some_and(|share| share <= 0.0) {
        verdict = verdict.under("none at low load: they come with the load", String::new());
    }
    verdict
        .suspected_if(
            share >= MANY && of_these >= ACCOUNTS && evidence.refusals_bind(below),
        )
        .weight(of_these * share)
        .refuted_by("as many errors once what the log names is mended")
        .remedy(
            Advice::new(
                evidence,
                "Mend what the log names, file and line, the most frequent first; keep log_errors on while you test.",
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

    fn failing(responses: u64) -> Case {
        Case::healthy()
            .load(PhaseKind::Over, |load| {
                load.outcomes
                    .by_outcome
                    .insert(Outcome::HttpError, responses);
            })
            .log(
                PhaseKind::Over,
                Layer::Php,
                LogKind::PhpFatal,
                responses,
                "PHP Fatal error:  Uncaught RuntimeException: busy in app/Cache.php:31",
            )
    }

    #[test]
    fn fires_with_the_line_that_the_log_names() {
        check(
            failing(300),
            expect![[r#"
            named: APP-14
            suspected app (12 %): pages end with an error of the application
              saw 12 % of the responses have an error's status, at 240/s offered for 10 s
              saw 300 fatal errors in PHP's log: PHP Fatal error:  Uncaught RuntimeException: busy in app/Cache.php:31, at 240/s offered for 10 s
              saw none at low load: they come with the load
              do: Mend what the log names, file and line, the most frequent first; keep log_errors on while you test.
        "#]],
        );
    }

    #[test]
    fn a_connection_that_was_lost_is_an_error_too() {
        let lost = Case::healthy()
            .load(PhaseKind::Over, |load| {
                load.outcomes.by_outcome.insert(Outcome::HttpError, 300);
            })
            .log(
                PhaseKind::Over,
                Layer::Php,
                LogKind::KeptConnectionLost,
                300,
                "PHP Fatal error:  Uncaught PDOException: MySQL server has gone away in app/Db.php:9",
            );
        check(
            lost,
            expect![[r#"
            named: APP-14
            suspected app (12 %): pages end with an error of the application
              saw 12 % of the responses have an error's status, at 240/s offered for 10 s
              saw 300 lost connections in PHP's log: PHP Fatal error:  Uncaught PDOException: MySQL server has gone away in app/Db.php:9, at 240/s offered for 10 s
              saw none at low load: they come with the load
              do: Mend what the log names, file and line, the most frequent first; keep log_errors on while you test.
        "#]],
        );
    }

    #[test]
    fn only_notes_a_single_error() {
        check(
            failing(1),
            expect![[r#"
            named: CAP-02
            noted app (0.042 %): pages end with an error of the application
              saw 0.042 % of the responses have an error's status, at 240/s offered for 10 s
              saw 1 fatal errors in PHP's log: PHP Fatal error:  Uncaught RuntimeException: busy in app/Cache.php:31, at 240/s offered for 10 s
              saw none at low load: they come with the load
              do: Mend what the log names, file and line, the most frequent first; keep log_errors on while you test.
        "#]],
        );
    }

    #[test]
    fn one_line_does_not_account_for_every_error() {
        let otherwise = failing(3).load(PhaseKind::Over, |load| {
            load.outcomes.by_outcome.insert(Outcome::HttpError, 2000);
        });
        check(
            otherwise,
            expect![[r#"
            named: CAP-02
            noted app (0.1 %): pages end with an error of the application
              saw 83 % of the responses have an error's status, at 240/s offered for 10 s
              saw 3 fatal errors in PHP's log: PHP Fatal error:  Uncaught RuntimeException: busy in app/Cache.php:31, at 240/s offered for 10 s
              saw none at low load: they come with the load
              do: Mend what the log names, file and line, the most frequent first; keep log_errors on while you test.
        "#]],
        );
    }

    #[test]
    fn stays_silent_without_errors() {
        stays_silent(&RULE, Case::healthy());
        stays_silent(&RULE, failing(0));
    }
}
