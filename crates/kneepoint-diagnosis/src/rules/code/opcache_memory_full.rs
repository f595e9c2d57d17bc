//! OPC-03: OPcache's memory is full and stays full.

use crate::rule::prelude::*;

/// Misses over lookups at a steady load from which on it costs \[ours\]; a warm cache has none.
const MISSES: f64 = 0.01;
/// Keys used from which on it is the hash that is full (OPC-04).
const KEYS_FULL: f64 = 0.99;
/// Free share of the memory below which it counts as full even while the flag is not set.
const FREE: f64 = 0.02;
/// Time of a compiled file over a cached one (catalogue section 0, fact 7: 31 times at 51 % misses).
const MISS_COST: f64 = 60.0;
/// PHP's default in MB, the least worth writing.
const SANE_MB: f64 = 128.0;
const MB: f64 = 1_048_576.0;

pub(crate) static RULE: Rule = Rule {
    code: "OPC-03",
    name: "opcache-memory-full",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Code,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::OPCACHE_FULL, metric::OPCACHE_MISSES],
    yields_to: &["OPC-01"],
    title: "OPcache's memory is full: the rest of the files is compiled again and again",
    doc: RuleDoc {
        what_it_is: "OPcache takes scripts in until its memory is full, and then it takes no more. It starts over only \
            when enough of what it holds is outdated (wasted), which never happens while no file changes. So the \
            scripts that came last are compiled at every request, for ever. A laboratory page took 19 ms instead of \
            0.6.",
        how_it_shows: "opcache_get_status() says cache_full = true with hardly any wasted memory; misses keep growing \
            under a steady load; oom_restarts stays 0, so that alerts on restarts never ring.",
        how_it_is_confirmed: "Double the memory and run the same load twice: the second time has no misses.",
        what_to_write: "In php.ini, half as much again as a fully warm cache uses; restart PHP-FPM:\n\n    \
            opcache.memory_consumption = 256",
        references: &[
            "https://github.com/php/php-src/blob/master/ext/opcache/ZendAccelerator.c",
            "https://github.com/zendtech/ZendOptimizerPlus/issues/220",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let phase = evidence.knee()?;
    let last = |of| phase.series.last(Layer::Php, of);
    let used = last(metric::OPCACHE_USED_BYTES);
    let free = last(metric::OPCACHE_FREE_BYTES);
    let nothing_free =
        matches!((used, free), (Some(used), Some(free)) if free < FREE * (used + free));
    if last(metric::OPCACHE_FULL)? == 0.0 && !nothing_free {
        return None;
    }
    let keys = last(metric::OPCACHE_KEYS).zip(last(metric::OPCACHE_MAX_KEYS));
    if keys.is_some_and(|(keys, most)| keys >= KEYS_FULL * most) {
        return None;
    }
    let misses = phase.series.rate(Layer::Php, metric::OPCACHE_MISSES)?;
    let hits = phase
        .series
        .rate(Layer::Php, metric::OPCACHE_HITS)
        .unwrap_or(0.0);
    let share = misses / (hits + misses).max(f64::MIN_POSITIVE);
    let now = evidence
        .stack
        .number(Layer::Php, "opcache.memory_consumption");
    let wanted = wanted_mb(
        now,
        used,
        last(metric::OPCACHE_SCRIPTS),
        phase.files_per_request(),
    );
    RULE.finds(Layer::Php, RULE.title)
        .configured(evidence.quote(Layer::Php, "opcache.memory_consumption"))
        .measured(format!("{:.1} MB used, {:.1} MB free", used.unwrap_or(0.0) / MB, free.unwrap_or(0.0) / MB), phase)
        .measured(
            format!("{} misses, {} of the lookups", format_rate(misses), format_share(share)),
            phase,
        )
        .suspected_if(share >= MISSES)
        .weight((1.0 - 1.0 / (1.0 + share * MISS_COST)) * evidence.part_of_tiers(Layer::Php))
        .gain("up to 31 times on a page of which half is not cached (laboratory run of the catalogue)")
        .refuted_by("as many misses with twice the memory once every page was requested")
        .remedy(
            Advice::new(
                evidence,
                format!("Give OPcache {wanted:.0} MB. PHP must be restarted for it, a reload is not enough."),
            )
            .set(Layer::Php, "opcache.memory_consumption", wanted)
            .build(),
        )
        .done()
}

/// Half as much again as all files of a request would need, at least twice what there is, in steps of 64 MB.
fn wanted_mb(now: Option<f64>, used: Option<f64>, scripts: Option<f64>, files: Option<f64>) -> f64 {
    let cached_share = match (scripts, files) {
        (Some(scripts), Some(files)) if scripts > 0.0 => (files / scripts).max(1.0),
        _ => 1.0,
    };
    let needed = 1.5 * used.unwrap_or(0.0) / MB * cached_share;
    let least = SANE_MB.max(2.0 * now.unwrap_or(0.0)).max(needed);
    (least / 64.0).ceil() * 64.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn full(misses: f64) -> Case {
        Case::healthy()
            .set(Layer::Php, "opcache.memory_consumption", "8")
            .everywhere(Layer::Php, metric::OPCACHE_FULL, "", 1.0)
            .everywhere(Layer::Php, metric::OPCACHE_USED_BYTES, "", 7.9 * MB)
            .everywhere(Layer::Php, metric::OPCACHE_FREE_BYTES, "", 0.1 * MB)
            .everywhere(Layer::Php, metric::OPCACHE_SCRIPTS, "", 150.0)
            .counter(PhaseKind::Knee, Layer::Php, metric::OPCACHE_MISSES, misses)
    }

    #[test]
    fn fires_when_a_full_cache_misses() {
        check(
            full(20_000.0),
            expect![[r#"
                named: OPC-03
                suspected php (74 %): OPcache's memory is full: the rest of the files is compiled again and again
                  saw php.opcache.memory_consumption = 8
                  saw 7.9 MB used, 0.1 MB free, at 190/s offered for 10 s
                  saw 20 000/s misses, 26 % of the lookups, at 190/s offered for 10 s
                  set php.opcache.memory_consumption = 128
            "#]],
        );
    }

    #[test]
    fn only_notes_a_full_cache_that_holds_all_that_is_used() {
        check(
            full(0.0),
            expect![[r#"
            named: CAP-02
            noted php (0 %): OPcache's memory is full: the rest of the files is compiled again and again
              saw php.opcache.memory_consumption = 8
              saw 7.9 MB used, 0.1 MB free, at 190/s offered for 10 s
              saw 0.0/s misses, 0 % of the lookups, at 190/s offered for 10 s
              set php.opcache.memory_consumption = 128
        "#]],
        );
    }

    #[test]
    fn stays_silent_with_memory_to_spare() {
        stays_silent(&RULE, Case::healthy());
    }
}
