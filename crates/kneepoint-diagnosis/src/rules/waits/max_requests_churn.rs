//! FPM-06: workers are thrown away after a few requests.

use crate::rule::prelude::*;

/// Cost of a worker's end and its successor's start in seconds: 18 % of throughput at 500 requests each and 69 % at
/// 20, on a page of a quarter millisecond (catalogue FPM-06), is 11 to 27 ms.
const FORK_COST_S: f64 = 0.02;
/// Share of PHP's CPU from which on it is worth a change \[ours\].
const COSTLY: f64 = 0.05;
/// Starts per setting-implied start from which on workers really are recycled: the rest is sampling.
const OBSERVED: f64 = 0.3;

pub(crate) static RULE: Rule = Rule {
    code: "FPM-06",
    name: "max-requests-churn",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Waits,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Server("fpm"),
    requires: &[metric::CPU_S],
    yields_to: &[],
    title: "PHP workers are thrown away after a few requests",
    doc: RuleDoc {
        what_it_is: "pm.max_requests ends a worker after a fixed number of requests, as a remedy for memory leaks. Each \
            successor is forked, opens its connections anew and fills its own caches; until it is there a worker is \
            missing. With a small number that is a large share of all work: on a light page 500 cost 18 % and 20 \
            cost 69 % of throughput.",
        how_it_shows: "FPM's log is full of `child N exited with code 0 after ... seconds from start` and `child N \
            started`; persistent connections do not last.",
        how_it_is_confirmed: "Set it to 0 for one run and compare CPU per request at the same rate.",
        what_to_write: "In the pool, unless workers really grow:\n\n    pm.max_requests = 0\n\nor at least 10000. When \
            workers leak, watch their memory and choose the number so that it lasts for hours.",
        references: &[
            "https://www.php.net/manual/en/install.fpm.configuration.php",
            "field reports S1 (500) and S5 (1000)",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let each = evidence.stack.number(Layer::Php, "pm.max_requests")?;
    if each < 1.0 {
        return None;
    }
    let phase = evidence.knee()?;
    let implied_hz = phase.pool_hz() / each;
    let seen_hz = phase.starts_hz();
    if seen_hz.is_some_and(|seen| seen < OBSERVED * implied_hz) {
        return None;
    }
    let recycled_hz = seen_hz.unwrap_or(implied_hz).min(implied_hz);
    let php = phase.cores_used(Layer::Php)?;
    let cost = (recycled_hz * FORK_COST_S / php.max(f64::MIN_POSITIVE)).min(0.9);
    RULE.finds(Layer::Php, RULE.title)
        .configured(evidence.quote(Layer::Php, "pm.max_requests"))
        .measured(
            format!(
                "{recycled_hz:.1} workers replaced a second, which costs about {} of PHP's CPU",
                format_share(cost)
            ),
            phase,
        )
        .suspected_if(cost >= COSTLY)
        .weight(cost * evidence.part_of_tiers(Layer::Php))
        .gain(format!(
            "about {} of PHP's CPU, from an estimated {:.0} ms for each replacement",
            format_share(cost),
            FORK_COST_S * 1e3
        ))
        .refuted_by("the same limit with pm.max_requests = 0, or workers that grow without it")
        .remedy(
            Advice::new(
                evidence,
                "Let workers live: pm.max_requests = 0, or 10000 and more where they leak memory.",
            )
            .set(Layer::Php, "pm.max_requests", 0)
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

    fn recycling(after: u32) -> Case {
        let hz = 190.0 / f64::from(after);
        Case::healthy()
            .set(Layer::Php, "pm.max_requests", &after.to_string())
            .counter(PhaseKind::Knee, Layer::Php, metric::WORKER_STARTS, hz)
    }

    #[test]
    fn fires_when_workers_serve_ten_requests() {
        check(
            recycling(10),
            expect![[r#"
                named: FPM-06
                suspected php (22 %): PHP workers are thrown away after a few requests
                  saw php.pm.max_requests = 10
                  saw 19.0 workers replaced a second, which costs about 29 % of PHP's CPU, at 190/s offered for 10 s
                  set php.pm.max_requests = 0
            "#]],
        );
    }

    #[test]
    fn only_notes_a_number_that_costs_little() {
        check(
            recycling(500),
            expect![[r#"
                named: CAP-02
                noted php (0.4 %): PHP workers are thrown away after a few requests
                  saw php.pm.max_requests = 500
                  saw 0.4 workers replaced a second, which costs about 0.6 % of PHP's CPU, at 190/s offered for 10 s
                  set php.pm.max_requests = 0
            "#]],
        );
    }

    #[test]
    fn stays_silent_when_workers_live_or_were_not_replaced() {
        stays_silent(&RULE, Case::healthy());
        stays_silent(
            &RULE,
            Case::healthy().set(Layer::Php, "pm.max_requests", "10"),
        );
    }
}
