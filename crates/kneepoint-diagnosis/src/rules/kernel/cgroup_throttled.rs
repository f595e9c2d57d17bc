//! KRN-06: a CPU quota freezes a tier in mid-request.

use crate::rule::prelude::*;

/// Share of quota periods with throttling from which on it matters \[ours\] (catalogue KRN-06).
const THROTTLED: f64 = 0.05;
/// The same, where the quota is not used up on average \[ours\]: bursts must be frozen often to matter.
const THROTTLED_BY_BURSTS: f64 = 0.2;
/// Average use of the quota below which throttling is due to bursts \[ours\].
const NOT_USED_UP: f64 = 0.75;
/// A quota of less than one core freezes even a lone worker.
const ONE_CORE: f64 = 1.0;

pub(crate) static RULE: Rule = Rule {
    code: "KRN-06",
    name: "cgroup-throttled",
    since: "0.1.0",
    layers: &Layer::TIERS,
    stage: RuleStage::Kernel,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::CGROUP_PERIODS, metric::CGROUP_THROTTLED],
    yields_to: &[],
    title: "a CPU quota freezes a tier in mid-request",
    doc: RuleDoc {
        what_it_is: "A container's CPU limit is a budget per tenth of a second. Several workers running at once use it \
            up early, and all of them are then frozen until the next tenth begins. The average CPU use can look \
            harmless while single requests stand still for up to 100 ms.",
        how_it_shows: "nr_throttled in the control group's cpu.stat grows with nr_periods; slow responses come in \
            steps of about 100 ms; CPU use is below the limit or the limit is less than one core.",
        how_it_is_confirmed: "Lift the quota for one run: the steps go away and the limit rises.",
        what_to_write: "Raise the limit to at least one full core, or remove it and keep only the request (the \
            share). In Kubernetes:\n\n    resources:\n      requests: { cpu: \"1\" }\n      limits:   { memory: \"1Gi\" }\n\n\
            and run no more workers than the quota has cores, unless they mostly wait.",
        references: &[
            "https://docs.kernel.org/admin-guide/cgroup-v2.html",
            "field report S3 (containers with CPU limits)",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let phase = evidence.knee()?;
    let (layer, throttled) = Layer::TIERS
        .into_iter()
        .filter_map(|layer| Some((layer, throttled_share(phase, layer)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    if throttled < THROTTLED {
        return None;
    }
    let quota = evidence.cpus(layer);
    let used = phase.cores_used(layer)? / quota;
    // Without OPcache most of the CPU that runs into the quota compiles files: a symptom, until that is gone (OPC-01).
    let compiles =
        layer == Layer::Php && evidence.latest(Layer::Php, metric::OPCACHE_ENABLED) == Some(0.0);
    let by_bursts = used < NOT_USED_UP && throttled > THROTTLED_BY_BURSTS && !compiles;
    RULE.finds(layer, format!("the CPU quota of the {layer} host freezes it in mid-request"))
        .configured(format!("{layer} may use {quota:.2} cores"))
        .measured(format!("throttled in {} of the quota periods", format_share(throttled)), phase)
        .measured(format!("{} of the quota used on average", format_share(used)), phase)
        // A quota of whole cores that is used up is a machine of that size at its honest limit: CAP-02.
        .suspected_if(quota < ONE_CORE || by_bursts)
        .weight(throttled * 0.5)
        .gain("the limit grows with the quota as long as the machine has idle cores")
        .refuted_by("the same limit with the quota lifted")
        .remedy(
            Advice::new(
                evidence,
                format!(
                    "Give the {layer} host a quota of at least one core, or none; with a quota run no more workers \
                     than it has cores, unless they mostly wait."
                ),
            )
            .build(),
        )
        .done()
}

fn throttled_share(phase: &Phase, layer: Layer) -> Option<f64> {
    let periods = phase.series.delta(layer, metric::CGROUP_PERIODS)?;
    let throttled = phase.series.delta(layer, metric::CGROUP_THROTTLED)?;
    (periods > 0.0).then_some(throttled / periods)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn throttled(cpus: f64, share: f64, used: f64) -> Case {
        Case::healthy()
            .tier(Layer::Php, |tier| tier.cpus = cpus)
            .everywhere(Layer::Php, metric::CGROUP_PERIODS, "", 10.0)
            .everywhere(Layer::Php, metric::CGROUP_THROTTLED, "", 10.0 * share)
            .everywhere(Layer::Php, metric::CPU_S, "", used)
    }

    #[test]
    fn fires_when_a_fraction_of_a_core_freezes_workers() {
        check(
            throttled(0.3, 0.9, 0.29),
            expect![[r#"
            named: KRN-06
            suspected php (45 %): the CPU quota of the php host freezes it in mid-request
              saw php may use 0.30 cores
              saw throttled in 90 % of the quota periods, at 190/s offered for 10 s
              saw 97 % of the quota used on average, at 190/s offered for 10 s
              do: Give the php host a quota of at least one core, or none; with a quota run no more workers than it has cores, unless they mostly wait.
        "#]],
        );
    }

    #[test]
    fn only_notes_whole_cores_that_are_used_up() {
        check(
            throttled(1.0, 0.6, 0.96),
            expect![[r#"
            named: CAP-02
            noted php (30 %): the CPU quota of the php host freezes it in mid-request
              saw php may use 1.00 cores
              saw throttled in 60 % of the quota periods, at 190/s offered for 10 s
              saw 96 % of the quota used on average, at 190/s offered for 10 s
              do: Give the php host a quota of at least one core, or none; with a quota run no more workers than it has cores, unless they mostly wait.
        "#]],
        );
    }

    /// Field report S5 with the quota of one core: the CPU that is spent in bursts compiles files.
    #[test]
    fn bursts_of_compiling_are_only_noted() {
        check(
            throttled(1.0, 0.5, 0.74),
            expect![[r#"
            named: KRN-06
            suspected php (25 %): the CPU quota of the php host freezes it in mid-request
              saw php may use 1.00 cores
              saw throttled in 50 % of the quota periods, at 190/s offered for 10 s
              saw 74 % of the quota used on average, at 190/s offered for 10 s
              do: Give the php host a quota of at least one core, or none; with a quota run no more workers than it has cores, unless they mostly wait.
        "#]],
        );
        let compiles =
            throttled(1.0, 0.5, 0.74).everywhere(Layer::Php, metric::OPCACHE_ENABLED, "", 0.0);
        check(
            compiles,
            expect![[r#"
            named: OPC-01
            noted php (25 %): the CPU quota of the php host freezes it in mid-request
              saw php may use 1.00 cores
              saw throttled in 50 % of the quota periods, at 190/s offered for 10 s
              saw 74 % of the quota used on average, at 190/s offered for 10 s
              do: Give the php host a quota of at least one core, or none; with a quota run no more workers than it has cores, unless they mostly wait.
        "#]],
        );
    }

    #[test]
    fn stays_silent_without_throttling_or_without_a_quota() {
        stays_silent(&RULE, throttled(1.0, 0.02, 0.8));
        stays_silent(&RULE, Case::healthy());
    }
}
