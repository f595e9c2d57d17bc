//! GEN-05: the same load costs more each time it is driven.

use crate::rule::prelude::*;

/// CPU per request of one tier the second time over the first, from which on it is drift and not noise \[ours\].
const COST_RATIO: f64 = 1.2;
/// The same for all tiers together \[ours\]: a tier that uses little may double without costing anything, and equal
/// steps on a shared machine were seen to differ by about 5 % (method.md section 2).
const TOTAL_RATIO: f64 = 1.1;
/// Median response time the second time over the first \[ours\].
const TIME_RATIO: f64 = 1.2;
/// Shares of requests that violate the SLO, and that fail, from which on a load is plainly beyond the limit \[ours\]: there queues
/// decide what the same load costs, no two of them are alike, and work for requests that time out counts for the others.
const OVERLOADED: f64 = 0.2;
const FAILING: f64 = 0.02;

pub(crate) static RULE: Rule = Rule {
    code: "GEN-05",
    name: "drift-during-plateau",
    since: "0.1.0",
    layers: &[Layer::Db, Layer::App],
    stage: RuleStage::Generator,
    signal: UseSignal::Error,
    applies_to: AppliesTo::Any,
    requires: &[metric::CPU_S],
    // Of bursts that are seconds apart, one plateau has more than the other.
    yields_to: &["GEN-01", "KRN-06", "APP-15"],
    title: "the same load costs more each time it is driven",
    doc: RuleDoc {
        what_it_is: "Some pages leave something behind: a row, a session, a log line. When a page also counts or reads \
            what earlier requests left, each request is a little dearer than the one before, and the stack gets \
            slower under a constant load. Two configurations measured one after the other then differ because of \
            the data, not because of the configuration.",
        how_it_shows: "The same rate driven twice takes longer and needs more CPU per request the second time, mostly \
            in the database. A well-known example inserts a row and answers with COUNT(*) of the table.",
        how_it_is_confirmed: "Reset the data between the two runs: the difference goes away.",
        what_to_write: "Let the tool reset the data before each arm (it does so when the scenario names a seed):\n\n    \
            db = { server = \"postgresql\", seed = \"deploy/seed.sql\" }\n\nand in the application keep a counter \
            instead of counting all rows at every request.",
        references: &["field report S2 (its test controller counts a growing table)"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let first = evidence.phase(PhaseKind::Knee)?;
    let again = evidence.phase(PhaseKind::Repeat)?;
    if first.load.violating_share() >= OVERLOADED || first.load.error_share() >= FAILING {
        return None;
    }
    let time_ratio =
        again.load.response.quantile_ms(0.5)? / first.load.response.quantile_ms(0.5)?;
    // Of both the one that makes the whole dearer: full cores alone let a small tier grow by a fifth, too.
    let grown = |layer| Some((layer, cost_s(first, &[layer])?, cost_s(again, &[layer])?));
    let (layer, cost_first, cost_again) = [Layer::Db, Layer::Php]
        .into_iter()
        .filter_map(grown)
        .max_by(|a, b| (a.2 - a.1).total_cmp(&(b.2 - b.1)))?;
    let cost_ratio = cost_again / cost_first;
    let total_ratio = cost_s(again, &Layer::TIERS)? / cost_s(first, &Layer::TIERS)?;
    if time_ratio < TIME_RATIO || cost_ratio < COST_RATIO || total_ratio < TOTAL_RATIO {
        return None;
    }
    let place = if layer == Layer::Db {
        Layer::Db
    } else {
        Layer::App
    };
    RULE.finds(place, RULE.title)
        .measured(
            format!(
                "median response time {:.0} % longer the second time",
                (time_ratio - 1.0) * 100.0
            ),
            again,
        )
        .measured(
            format!(
                "CPU of {layer} per request {:.0} % more the second time",
                (cost_ratio - 1.0) * 100.0
            ),
            again,
        )
        .weight(1.0 - 1.0 / total_ratio)
        .refuted_by("no difference between the two after the data was reset in between")
        .remedy(
            Advice::new(
                evidence,
                "Reset the application's data before each measurement, and have the application keep a counter or an \
                 index instead of reading a table that grows with every request.",
            )
            .build(),
        )
        .done()
}

/// CPU seconds of these tiers per request completed.
fn cost_s(phase: &Phase, layers: &[Layer]) -> Option<f64> {
    let done = phase.load.throughput_hz();
    let cores: f64 = layers
        .iter()
        .filter_map(|layer| phase.cores_used(*layer))
        .sum();
    (done > 0.0 && cores > 0.0).then_some(cores / done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    #[test]
    fn fires_when_the_second_time_is_dearer() {
        let case = Case::healthy()
            .repeated()
            .counter(PhaseKind::Repeat, Layer::Db, metric::CPU_S, 190.0 * 0.0030)
            .load(PhaseKind::Repeat, |load| {
                load.response.clear();
                load.response.record_us(70_000);
            });
        check(
            case,
            expect![[r#"
                named: GEN-05
                suspected db (17 %): the same load costs more each time it is driven
                  saw median response time 75 % longer the second time, at 190/s offered for 10 s
                  saw CPU of db per request 150 % more the second time, at 190/s offered for 10 s
                  do: Reset the application's data before each measurement, and have the application keep a counter or an index instead of reading a table that grows with every request.
            "#]],
        );
    }

    #[test]
    fn an_overload_is_not_judged() {
        let late = Case::healthy()
            .repeated()
            .counter(PhaseKind::Repeat, Layer::Db, metric::CPU_S, 190.0 * 0.0030)
            .load(PhaseKind::Repeat, |load| {
                load.response.clear();
                load.response.record_us(70_000);
            })
            .load(PhaseKind::Knee, |load| {
                let count = load.arrivals / 20;
                load.outcomes.by_outcome.insert(Outcome::Timeout, count);
            });
        stays_silent(&RULE, late);
    }

    /// A host that is frozen again and again answers the same load differently each time.
    #[test]
    fn gives_way_to_a_throttled_host() {
        let case = Case::healthy()
            .repeated()
            .tier(Layer::Php, |tier| tier.cpus = 0.25)
            .everywhere(Layer::Php, metric::CGROUP_PERIODS, "", 0.0)
            .counter(PhaseKind::Knee, Layer::Php, metric::CGROUP_PERIODS, 10.0)
            .counter(PhaseKind::Knee, Layer::Php, metric::CGROUP_THROTTLED, 6.0)
            .counter(PhaseKind::Knee, Layer::Php, metric::CPU_S, 0.25)
            .counter(PhaseKind::Repeat, Layer::Php, metric::CPU_S, 0.60)
            .load(PhaseKind::Repeat, |load| {
                load.response.clear();
                load.response.record_us(70_000);
            });
        let codes: Vec<String> = crate::diagnose(&case.evidence())
            .into_iter()
            .map(|finding| finding.code)
            .collect();
        assert!(codes.contains(&"KRN-06".to_owned()), "{codes:?}");
        assert!(!codes.contains(&"GEN-05".to_owned()), "{codes:?}");
    }

    /// Seen on full cores (a database that counts a table of fixed size): PHP took a quarter more, and a tenth of the whole.
    #[test]
    fn a_small_tier_that_grew_is_not_what_made_the_whole_dearer() {
        let costs = |case: Case, phase, db, php| {
            case.counter(phase, Layer::Db, metric::CPU_S, 190.0 * db)
                .counter(phase, Layer::Php, metric::CPU_S, 190.0 * php)
        };
        let case = Case::healthy().repeated();
        let case = costs(case, PhaseKind::Knee, 0.0066, 0.00074);
        let case = costs(case, PhaseKind::Repeat, 0.0076, 0.00095);
        let slower = case.load(PhaseKind::Repeat, |load| {
            load.response.clear();
            load.response.record_us(70_000);
        });
        stays_silent(&RULE, slower);
    }

    #[test]
    fn stays_silent_when_the_second_time_is_as_the_first_or_only_noisier() {
        stays_silent(&RULE, Case::healthy().repeated());
        let slower_by_chance = Case::healthy().repeated().load(PhaseKind::Repeat, |load| {
            load.response.clear();
            load.response.record_us(70_000);
        });
        let little = slower_by_chance.clone().counter(
            PhaseKind::Repeat,
            Layer::Db,
            metric::CPU_S,
            190.0 * 0.0015,
        );
        stays_silent(&RULE, little);
        stays_silent(&RULE, slower_by_chance);
    }
}
