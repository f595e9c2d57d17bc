//! OPC-01: PHP compiles every file for every request.

use crate::causes::left_out;
use crate::rule::prelude::*;
use kneepoint_model::Remedy;

/// Share of PHP's CPU that compiling takes: two to five times the latency (catalogue OPC-01); 33 against 119
/// requests a second in field report S2 is 72 %.
const COMPILE_SHARE: f64 = 0.65;

pub(crate) static RULE: Rule = Rule {
    code: "OPC-01",
    name: "opcache-off",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Code,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &[],
    title: "OPcache is off: PHP compiles every file for every request",
    doc: RuleDoc {
        what_it_is: "PHP reads a script, compiles it to instructions and runs them. OPcache keeps the instructions in \
            memory that all workers share. Without it every request compiles every file it includes, hundreds for a \
            framework. Official container images come without it switched on, and a directive such as \
            opcache.memory_consumption in php.ini does nothing when the extension is not loaded.",
        how_it_shows: "The CPU is full although the pages do little; the kernel sees as many files opened per request \
            as the application includes; traces show time that is in neither database nor cache. Pages take two to \
            five times as long.",
        how_it_is_confirmed: "Ask PHP-FPM itself, not the command line, which has settings of its own: \
            opcache_get_status() answers false. Switch it on and compare.",
        what_to_write: "In php.ini (the first line only where the extension is not loaded, and never since PHP 8.5, \
            which has it built in):\n\n    zend_extension = opcache\n    opcache.enable = 1\n\nIn a Dockerfile from the \
            official image:\n\n    RUN docker-php-ext-install opcache",
        references: &[
            "field reports S2 and S3",
            "https://github.com/docker-library/php/issues/276",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let seen = evidence.latest(Layer::Php, metric::OPCACHE_ENABLED);
    let loaded = evidence.stack.is_on(Layer::Php, "extension.opcache");
    let enabled = evidence.stack.is_on(Layer::Php, "opcache.enable");
    let off = match seen {
        Some(seen) => seen == 0.0,
        None => loaded == Some(false) || enabled == Some(false),
    };
    if !off {
        return left_out(&RULE, evidence, COMPILE_SHARE);
    }
    if is_kept(evidence) {
        return off_while_kept(evidence);
    }
    let mut verdict = RULE
        .finds(Layer::Php, RULE.title)
        .configured(evidence.quote(Layer::Php, "opcache.enable"))
        .weight(COMPILE_SHARE * evidence.part_of_tiers(Layer::Php));
    if loaded == Some(false) {
        verdict = verdict
            .configured("the extension is not loaded, so that no opcache directive has an effect");
    }
    if let (Some(_), Some(phase)) = (seen, evidence.phases.last()) {
        verdict = verdict.measured("OPcache answers from within PHP that it is off", phase);
    }
    if let (Some(files), Some(phase)) = (
        evidence.latest(Layer::Php, metric::PHP_FILES),
        evidence.knee(),
    ) {
        let hz = format_rate(files * phase.pool_hz());
        verdict = verdict.measured(
            format!("each request compiles {files:.0} files, {hz} in all"),
            phase,
        );
    }
    verdict
        .inside(evidence.seen_opened())
        .gain("two to five times the rate, from S2 (33 to 119/s) and S3 (880 to 70 files opened a request)")
        .refuted_by("the same limit with OPcache on")
        .remedy(switch_on(evidence))
        .done()
}

/// Whether the runtime keeps the application (Swoole, RoadRunner, FrankenPHP with a worker): each worker compiles its files
/// once, and no request does.
fn is_kept(evidence: &Evidence) -> bool {
    let script = evidence.stack.setting(Layer::Php, "worker");
    script.is_some_and(|script| !script.is_empty())
}

/// OPcache is off where no request compiles anything.
fn off_while_kept(evidence: &Evidence) -> Option<Finding> {
    let title = "OPcache is off: each worker compiles the application when it starts";
    RULE.finds(Layer::Php, title)
        .configured(evidence.quote(Layer::Php, "opcache.enable"))
        .configured(evidence.quote(Layer::Php, "worker"))
        .suspected_if(false)
        .refuted_by("workers that start no faster with OPcache on")
        .remedy(switch_on(evidence))
        .done()
}

fn switch_on(evidence: &Evidence) -> Remedy {
    let text = "Switch OPcache on. Reload PHP at each deployment when timestamps are not checked.";
    let advice = Advice::new(evidence, text).set(Layer::Php, "opcache.enable", 1);
    match evidence.stack.is_on(Layer::Php, "extension.opcache") {
        Some(false) => advice.set(Layer::Php, "extension.opcache", "on"),
        _ => advice,
    }
    .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{place, traced};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    #[test]
    fn tells_the_files_that_were_seen_to_be_opened() {
        let at = place("require_once public/index.php", "public/index.php", 14);
        let calls = vec![
            traced("GET /", CallKind::Open, "config/app.php", at.clone(), 18),
            traced("GET /", CallKind::Open, "vendor/a.php", at, 380),
        ];
        check(
            Case::healthy()
                .everywhere(Layer::Php, metric::OPCACHE_ENABLED, "", 0.0)
                .traced("GET /", 10, calls),
            expect![[r#"
                named: OPC-01
                suspected php (51 %): OPcache is off: PHP compiles every file for every request
                  saw php.opcache.enable = 1
                  saw OPcache answers from within PHP that it is off, at 240/s offered for 10 s
                  saw each request compiles 300 files, 57 000/s in all, at 190/s offered for 10 s
                  saw 398 files opened in each request; most often vendor/a.php, 380 times in public/index.php:14, in 10 requests that were traced, one after the other
                  do: Switch OPcache on. Reload PHP at each deployment when timestamps are not checked.
            "#]],
        );
    }

    #[test]
    fn fires_when_php_itself_says_it_is_off() {
        let case = Case::healthy()
            .set(Layer::Php, "opcache.enable", "0")
            .everywhere(Layer::Php, metric::OPCACHE_ENABLED, "", 0.0);
        check(
            case,
            expect![[r#"
            named: OPC-01
            suspected php (51 %): OPcache is off: PHP compiles every file for every request
              saw php.opcache.enable = 0
              saw OPcache answers from within PHP that it is off, at 240/s offered for 10 s
              saw each request compiles 300 files, 57 000/s in all, at 190/s offered for 10 s
              set php.opcache.enable = 1
        "#]],
        );
    }

    #[test]
    fn fires_when_directives_are_set_and_the_extension_is_not_loaded() {
        let case = Case::healthy()
            .set(Layer::Php, "extension.opcache", "off")
            .everywhere(Layer::Php, metric::OPCACHE_ENABLED, "", 0.0);
        check(
            case,
            expect![[r#"
            named: OPC-01
            suspected php (51 %): OPcache is off: PHP compiles every file for every request
              saw php.opcache.enable = 1
              saw the extension is not loaded, so that no opcache directive has an effect
              saw OPcache answers from within PHP that it is off, at 240/s offered for 10 s
              saw each request compiles 300 files, 57 000/s in all, at 190/s offered for 10 s
              set php.extension.opcache = on
        "#]],
        );
    }

    #[test]
    fn judges_by_the_configuration_where_nobody_could_ask() {
        let case = Case::healthy()
            .without(metric::OPCACHE_ENABLED)
            .set(Layer::Php, "opcache.enable", "off")
            .keep("php.opcache.enable");
        check(
            case,
            expect![[r#"
            named: OPC-01
            suspected php (51 %): OPcache is off: PHP compiles every file for every request
              saw php.opcache.enable = off
              saw each request compiles 300 files, 57 000/s in all, at 190/s offered for 10 s
              do: Switch OPcache on. Reload PHP at each deployment when timestamps are not checked. Not proposed as a change: php.opcache.enable = 1, since it is to be kept as it is.
        "#]],
        );
    }

    #[test]
    fn only_notes_it_where_the_application_is_kept() {
        let case = Case::healthy()
            .set(Layer::Php, "worker", "worker.php")
            .set(Layer::Php, "opcache.enable", "0")
            .everywhere(Layer::Php, metric::OPCACHE_ENABLED, "", 0.0);
        check(
            case,
            expect![[r#"
            named: CAP-02
            noted php (0 %): OPcache is off: each worker compiles the application when it starts
              saw php.opcache.enable = 0
              saw php.worker = worker.php
              set php.opcache.enable = 1
        "#]],
        );
    }

    #[test]
    fn stays_silent_when_it_is_on() {
        stays_silent(&RULE, Case::healthy());
    }
}
