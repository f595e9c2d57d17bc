//! RDS-02: Redis has no client slot left.

use crate::rule::prelude::*;
use crate::saturation::pool::SPARE_CONNECTIONS;

/// What Redis accepts by default.
const DEFAULT_MAX_CLIENTS: f64 = 10_000.0;

pub(crate) static RULE: Rule = Rule {
    code: "RDS-02",
    name: "too-many-cache-clients",
    since: "0.1.0",
    layers: &[Layer::Cache],
    stage: RuleStage::Errors,
    signal: UseSignal::Error,
    applies_to: AppliesTo::Server("redis"),
    requires: &[],
    yields_to: &[],
    title: "Redis has no client slot left",
    doc: RuleDoc {
        what_it_is: "Redis refuses connections beyond maxclients. With persistent connections every PHP worker keeps \
            one for each Redis database it uses (session and cache are often two), whether it is busy or not.",
        how_it_shows: "`rejected_connections` of INFO grows, the application logs `max number of clients reached`, \
            and connected_clients is about children times databases.",
        how_it_is_confirmed: "Raise maxclients on the running server (CONFIG SET maxclients): the errors stop.",
        what_to_write: "In redis.conf, more than all workers times the databases each uses:\n\n    maxclients 10000",
        references: &[
            "https://redis.io/docs/latest/develop/reference/clients/",
            "field report S1",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let refused = evidence.logged(&[Layer::Cache, Layer::Php], LogKind::TooManyCacheClients);
    let rejected = evidence
        .phases
        .iter()
        .filter_map(|phase| {
            Some((
                phase,
                phase.series.delta(Layer::Cache, metric::REDIS_REJECTED)?,
            ))
        })
        .filter(|(_, count)| *count > 0.0);
    let part = |phase: &Phase, count: f64| count / phase.load.arrivals.max(1) as f64;
    let below_too = rejected.clone().any(|(phase, count)| {
        phase.kind != PhaseKind::Over && part(phase, count) >= evidence.slo.errors
    });
    let rejected = rejected.max_by(|a, b| part(a.0, a.1).total_cmp(&part(b.0, b.1)));
    if refused.is_none() && rejected.is_none() {
        return None;
    }
    let below = below_too || refused.as_ref().is_some_and(|it| it.below_the_limit);
    let mut verdict = RULE
        .finds(Layer::Cache, RULE.title)
        .suspected_if(evidence.refusals_bind(below))
        .configured(evidence.quote(Layer::Cache, "maxclients"));
    if let Some((phase, count)) = rejected {
        verdict = verdict
            .measured(format!("{count:.0} connections rejected by Redis"), phase)
            .weight(part(phase, count));
    }
    verdict = verdict.logged(refused);
    let workers = evidence
        .stack
        .tier(Layer::Php)
        .and_then(|tier| tier.pool.as_ref())
        .map_or(0.0, |pool| pool.max_workers as f64);
    let wanted = DEFAULT_MAX_CLIENTS.max(4.0 * workers + SPARE_CONNECTIONS);
    verdict
        .refuted_by("as many rejections with more slots than workers times databases")
        .remedy(
            Advice::new(
                evidence,
                "Let Redis accept more clients than all workers can hold.",
            )
            .set(Layer::Cache, "maxclients", wanted)
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
    fn fires_when_redis_rejects() {
        let case = Case::healthy()
            .set(Layer::Cache, "maxclients", "6")
            .counter(PhaseKind::Over, Layer::Cache, metric::REDIS_REJECTED, 20.0);
        check(
            case,
            expect![[r#"
            named: RDS-02
            suspected cache (8.3 %): Redis has no client slot left
              saw cache.maxclients = 6
              saw 200 connections rejected by Redis, at 240/s offered for 10 s
              set cache.maxclients = 10000
        "#]],
        );
    }

    #[test]
    fn stays_silent_when_it_does_not() {
        stays_silent(&RULE, Case::healthy());
    }
}
