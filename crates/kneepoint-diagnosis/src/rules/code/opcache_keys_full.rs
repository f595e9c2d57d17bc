//! OPC-04: OPcache's hash of scripts is full and stays full.

use crate::rule::prelude::*;

/// Keys used from which on the hash is full.
const KEYS_FULL: f64 = 0.99;
/// Misses over lookups at a steady load from which on it costs \[ours\]; a warm cache has none.
const MISSES: f64 = 0.01;
/// Time of a file looked up in vain over a cached one (catalogue OPC-04: 11 times with 178 of about 400 files not
/// cached).
const MISS_COST: f64 = 22.0;
/// PHP's default, the least worth writing.
const SANE: f64 = 10_000.0;

pub(crate) static RULE: Rule = Rule {
    code: "OPC-04",
    name: "opcache-keys-full",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Code,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::OPCACHE_KEYS, metric::OPCACHE_MAX_KEYS],
    yields_to: &["OPC-01"],
    title: "OPcache has no key left: the rest of the files is compiled again and again",
    doc: RuleDoc {
        what_it_is: "OPcache finds scripts by keys, and the number of keys is fixed by opcache.max_accelerated_files \
            (rounded up to a prime). A script can take more than one key, one for each way it is written in an \
            include. When they are used up no further script is cached, however much memory is free, and those are \
            compiled at every request for ever.",
        how_it_shows: "opcache_get_status() says num_cached_keys = max_cached_keys; misses keep growing under a steady \
            load; hash_restarts stays 0. A laboratory page took 2.5 ms instead of 0.2.",
        how_it_is_confirmed: "Double the number, restart, run the same load twice: the second time has no misses.",
        what_to_write: "In php.ini, more than twice the number of PHP files (`find . -name '*.php' | wc -l`); restart \
            PHP-FPM:\n\n    opcache.max_accelerated_files = 20000",
        references: &[
            "https://www.php.net/manual/en/opcache.configuration.php",
            "https://github.com/zendtech/ZendOptimizerPlus/issues/216",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let phase = evidence.knee()?;
    let last = |of| phase.series.last(Layer::Php, of);
    let keys = last(metric::OPCACHE_KEYS)?;
    let most = last(metric::OPCACHE_MAX_KEYS)?;
    if most <= 0.0 || keys < KEYS_FULL * most {
        return None;
    }
    let misses = phase
        .series
        .rate(Layer::Php, metric::OPCACHE_MISSES)
        .unwrap_or(0.0);
    let hits = phase
        .series
        .rate(Layer::Php, metric::OPCACHE_HITS)
        .unwrap_or(0.0);
    let share = misses / (hits + misses).max(f64::MIN_POSITIVE);
    let files = phase.files_per_request().unwrap_or(0.0);
    let wanted = (4.0 * files).max(2.0 * most).max(SANE).ceil();
    RULE.finds(Layer::Php, RULE.title)
        .configured(evidence.quote(Layer::Php, "opcache.max_accelerated_files"))
        .measured(format!("{keys:.0} of {most:.0} keys used"), phase)
        .measured(
            format!("{} misses, {} of the lookups", format_rate(misses), format_share(share)),
            phase,
        )
        .suspected_if(share >= MISSES)
        .weight((1.0 - 1.0 / (1.0 + share * MISS_COST)) * evidence.part_of_tiers(Layer::Php))
        .gain("up to 11 times on a page of which half is not cached (laboratory run of the catalogue)")
        .refuted_by("as many misses with twice the keys once every page was requested")
        .remedy(
            Advice::new(evidence, "Give OPcache more keys than twice the application's PHP files; restart PHP for it.")
                .set(Layer::Php, "opcache.max_accelerated_files", wanted)
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
    fn fires_when_the_keys_are_used_up() {
        let case = Case::healthy()
            .set(Layer::Php, "opcache.max_accelerated_files", "200")
            .everywhere(Layer::Php, metric::OPCACHE_FULL, "", 1.0)
            .everywhere(Layer::Php, metric::OPCACHE_KEYS, "", 223.0)
            .everywhere(Layer::Php, metric::OPCACHE_MAX_KEYS, "", 223.0)
            .counter(
                PhaseKind::Knee,
                Layer::Php,
                metric::OPCACHE_MISSES,
                19_000.0,
            );
        check(
            case,
            expect![[r#"
                named: OPC-04
                suspected php (67 %): OPcache has no key left: the rest of the files is compiled again and again
                  saw php.opcache.max_accelerated_files = 200
                  saw 223 of 223 keys used, at 190/s offered for 10 s
                  saw 19 000/s misses, 25 % of the lookups, at 190/s offered for 10 s
                  set php.opcache.max_accelerated_files = 10000
            "#]],
        );
    }

    #[test]
    fn stays_silent_with_keys_to_spare() {
        stays_silent(&RULE, Case::healthy());
    }
}
