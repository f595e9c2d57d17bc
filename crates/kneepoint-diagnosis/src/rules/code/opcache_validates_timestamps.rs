//! OPC-06: PHP asks the file system about every file at every request.

use crate::rule::prelude::*;

/// Time of one check in seconds: 401 of them made a page of 0.22 ms take 0.99 ms (catalogue OPC-06).
const CHECK_COST_S: f64 = 0.000_001_9;
/// Share of PHP's CPU from which on it is worth a change \[ours\].
const COSTLY: f64 = 0.02;
/// Scripts checked in each request, on average, from which on the default interval is worth a note \[ours\].
const WORTH_A_NOTE: f64 = 1.0;

pub(crate) static RULE: Rule = Rule {
    code: "OPC-06",
    name: "opcache-validates-timestamps",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Code,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &["OPC-01"],
    title: "OPcache asks the file system whether scripts have changed",
    doc: RuleDoc {
        what_it_is: "With opcache.validate_timestamps on, OPcache looks whether a cached script has changed on disk, at \
            most once in opcache.revalidate_freq seconds for each script. With the default of 2 seconds that costs \
            next to nothing. With 0 it happens for every file at every request, and on a network file system each \
            look is a round trip.",
        how_it_shows: "The kernel sees as many stat calls per request as the application includes files.",
        how_it_is_confirmed: "Set revalidate_freq to 60 for one run and compare CPU per request.",
        what_to_write: "In production, with a reload of PHP-FPM at each deployment:\n\n    opcache.validate_timestamps = \
            0\n\nor, without the reload:\n\n    opcache.revalidate_freq = 60",
        references: &[
            "https://www.php.net/manual/en/opcache.configuration.php",
            "https://symfony.com/doc/current/performance.html",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    if evidence
        .stack
        .is_on(Layer::Php, "opcache.validate_timestamps")
        != Some(true)
    {
        return None;
    }
    let every_request = evidence
        .stack
        .number(Layer::Php, "opcache.revalidate_freq")
        .is_some_and(|freq| freq == 0.0);
    let checked = evidence.checked_scripts();
    if !every_request && checked.is_some_and(|checked| checked < WORTH_A_NOTE) {
        return None;
    }
    let phase = evidence.knee()?;
    let files = phase.files_per_request();
    let cost = every_request
        .then(|| Some(files? * CHECK_COST_S * phase.pool_hz() / phase.cores_used(Layer::Php)?))
        .flatten();
    let mut verdict = RULE
        .finds(Layer::Php, RULE.title)
        .configured(evidence.quote(Layer::Php, "opcache.validate_timestamps"))
        .configured(evidence.quote(Layer::Php, "opcache.revalidate_freq"));
    if let (Some(files), Some(cost)) = (files, cost) {
        verdict = verdict
            .measured(
                format!(
                    "{files:.0} files checked in each request, about {} of PHP's CPU",
                    format_share(cost)
                ),
                phase,
            )
            .weight(cost * evidence.part_of_tiers(Layer::Php));
    }
    if let Some(checked) = checked {
        verdict = verdict.under(
            format!(
                "{checked:.0} {} looked up by the engine itself in each request",
                if checked < 1.5 { "script" } else { "scripts" }
            ),
            evidence.traced_under(),
        );
    }
    verdict
        .suspected_if(cost.is_some_and(|cost| cost >= COSTLY))
        .refuted_by("the same CPU per request without the checks")
        .remedy(
            Advice::new(
                evidence,
                "Switch the checks off and reload PHP at each deployment; without a reload, check once a minute \
                 (opcache.revalidate_freq = 60).",
            )
            .set(Layer::Php, "opcache.validate_timestamps", 0)
            .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{place, traced};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    #[test]
    fn fires_when_every_request_checks_hundreds_of_files() {
        check(
            Case::healthy().set(Layer::Php, "opcache.revalidate_freq", "0"),
            expect![[r#"
                named: OPC-06
                suspected php (6.4 %): OPcache asks the file system whether scripts have changed
                  saw php.opcache.validate_timestamps = 1
                  saw php.opcache.revalidate_freq = 0
                  saw 300 files checked in each request, about 8.1 % of PHP's CPU, at 190/s offered for 10 s
                  set php.opcache.validate_timestamps = 0
            "#]],
        );
    }

    #[test]
    fn only_notes_the_default_and_an_application_of_few_files() {
        check(
            Case::healthy(),
            expect![[r#"
            named: CAP-02
            noted php (0 %): OPcache asks the file system whether scripts have changed
              saw php.opcache.validate_timestamps = 1
              saw php.opcache.revalidate_freq = 2
              set php.opcache.validate_timestamps = 0
        "#]],
        );
        let small = Case::healthy()
            .set(Layer::Php, "opcache.revalidate_freq", "0")
            .everywhere(Layer::Php, metric::OPCACHE_HITS, "", 6.0 * 190.0);
        check(
            small,
            expect![[r#"
                named: CAP-02
                noted php (0.1 %): OPcache asks the file system whether scripts have changed
                  saw php.opcache.validate_timestamps = 1
                  saw php.opcache.revalidate_freq = 0
                  saw 6 files checked in each request, about 0.2 % of PHP's CPU, at 190/s offered for 10 s
                  set php.opcache.validate_timestamps = 0
            "#]],
        );
    }

    #[test]
    fn counts_the_checks_of_the_engine_and_not_what_the_application_asks_for() {
        let look = |what: &str, through: &str, each| {
            let at = place("App\\View::find", "app/View.php", 9);
            let mut call = traced("GET /", CallKind::Look, what, at, each);
            through.clone_into(&mut call.through);
            call
        };
        let asked = || look("templates/index.html", "file_exists", 18);
        // By default OPcache looks every two seconds: hardly a request does so.
        let default = Case::healthy().traced("GET /", 10, vec![asked()]);
        stays_silent(&RULE, default);
        let each_time = Case::healthy()
            .set(Layer::Php, "opcache.revalidate_freq", "0")
            .traced(
                "GET /",
                10,
                vec![
                    asked(),
                    look("app/View.php", "", 1),
                    look("app/Home.php", "", 1),
                ],
            );
        check(
            each_time,
            expect![[r#"
                named: OPC-06
                suspected php (6.4 %): OPcache asks the file system whether scripts have changed
                  saw php.opcache.validate_timestamps = 1
                  saw php.opcache.revalidate_freq = 0
                  saw 300 files checked in each request, about 8.1 % of PHP's CPU, at 190/s offered for 10 s
                  saw 2 scripts looked up by the engine itself in each request, in 10 requests that were traced, one after the other
                  set php.opcache.validate_timestamps = 0
            "#]],
        );
    }

    #[test]
    fn stays_silent_when_checks_are_off() {
        stays_silent(
            &RULE,
            Case::healthy().set(Layer::Php, "opcache.validate_timestamps", "0"),
        );
    }
}
