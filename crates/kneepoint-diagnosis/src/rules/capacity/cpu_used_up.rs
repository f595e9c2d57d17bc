//! CAP-02: the CPU is used up. Whether nothing is wrong besides is not for this rule to say (`clear.rs`).

use crate::rule::prelude::*;
use kneepoint_model::Health;

/// CPU use from which on it is the limit (catalogue CAP-02; \[ours\]): bursts need the rest.
const USED_UP: f64 = 0.85;
/// Use just below the limit that is as good as used up, where nothing was driven above it \[ours\].
const USED_UP_AT_KNEE: f64 = 0.75;

/// Share of the machine that others use from which on it is not the stack alone that used it up \[ours\].
const BUSY: f64 = 0.15;

pub(crate) static RULE: Rule = Rule {
    code: "CAP-02",
    name: "cpu-used-up",
    since: "0.1.0",
    layers: &[
        Layer::Proxy,
        Layer::Web,
        Layer::Php,
        Layer::Cache,
        Layer::Db,
    ],
    stage: RuleStage::Capacity,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Any,
    requires: &[metric::MACHINE_BUSY_S],
    yields_to: &[],
    title: "the CPU is the limit",
    doc: RuleDoc {
        what_it_is: "The cores simply have no more time, and no other cause was found. This is the limit a well-configured \
            stack should have: no setting moves it much; less work per request or more cores do. The finding says that \
            nothing is wrong only when every rule could judge, PHP's code was looked into, and no function, wait or \
            extension stands out; otherwise it lists what stands out and what is not known.",
        how_it_shows: "The cores are busy, workers are running rather than waiting, goodput no longer follows the \
            offered rate, and no other rule has anything to say.",
        how_it_is_confirmed: "Give the stack one core more or one less: the limit follows in proportion.",
        what_to_write: "Nothing in the configuration. Profile the application for the functions that use most CPU, \
            cache whole pages where visitors see the same, or add cores:\n\n    [hosts]\n    php = { cpus = 4.0 }",
        references: &["field reports S1 (at 10 000 users) and S4"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let (phase, cpu) = [
        (PhaseKind::Over, USED_UP),
        (PhaseKind::Knee, USED_UP_AT_KNEE),
    ]
    .into_iter()
    .filter_map(|(kind, bar)| {
        let phase = evidence.phase(kind)?;
        Some((phase, evidence.cpu_use(phase)?, bar))
    })
    .find_map(|(phase, cpu, bar)| (cpu.share >= bar).then_some((phase, cpu)))?;
    let shares = shares(evidence, phase);
    let largest = shares.first().map_or(Layer::Php, |(layer, _)| *layer);
    // Where one host's own cores are used up, work that is saved elsewhere makes no room.
    let largest = cpu.host.unwrap_or(largest);
    let split: Vec<String> = shares
        .iter()
        .map(|(layer, share)| format!("{layer} {}", format_share(*share)))
        .collect();
    let others = others(evidence, phase);
    let title = match others {
        Some(share) if share >= BUSY => format!(
            "the CPU is used up, {} of the machine by other programs: measure again while it is idle",
            format_share(share)
        ),
        _ => RULE.title.to_owned(),
    };
    let mut verdict = RULE.finds(largest, title).measured(cpu.describe(), phase);
    if let Some(share) = others.filter(|share| *share >= Health::QUIET) {
        verdict = verdict.measured(
            format!("other programs used {} of the machine", format_share(share)),
            phase,
        );
    }
    if !split.is_empty() {
        verdict = verdict.measured(
            format!(
                "of the CPU that the stack and its load used: {}",
                split.join(", ")
            ),
            phase,
        );
    }
    let hz = phase.load.throughput_hz();
    if let Some(cores) = phase
        .series
        .rate(Layer::Generator, metric::MACHINE_BUSY_S)
        .filter(|_| hz > 0.0)
    {
        verdict = verdict.measured(
            format!("{} of CPU for each request", format_ms(cores / hz * 1e3)),
            phase,
        );
    }
    verdict
        .inside(evidence.seen_computing())
        .gain("about in proportion to the cores added, or to the CPU saved in each request")
        .refuted_by("a limit that does not follow when the stack is given one core more or less")
        .remedy(
            Advice::new(
                evidence,
                format!(
                    "Add cores or hosts, or make requests cheaper: profile {largest} first, since most of the CPU \
                     goes there."
                ),
            )
            .build(),
        )
        .done()
}

/// What programs that are no part of the stack used of the machine, between 0 and what the stack left.
fn others(evidence: &Evidence, phase: &Phase) -> Option<f64> {
    let stack: f64 = Layer::TIERS
        .into_iter()
        .filter_map(|layer| phase.cores_used(layer))
        .sum();
    let left = (1.0 - stack / evidence.cores().max(1.0)).max(0.0);
    let share = phase.load.health.foreign_share?;
    Some(share.clamp(0.0, left))
}

/// What each layer uses of all CPU used, largest first; the generator counts where it shares the machine.
fn shares(evidence: &Evidence, phase: &Phase) -> Vec<(Layer, f64)> {
    let mut used: Vec<(Layer, f64)> = Layer::TIERS
        .into_iter()
        .filter_map(|layer| Some((layer, phase.cores_used(layer)?)))
        .collect();
    used.sort_by(|a, b| b.1.total_cmp(&a.1));
    if evidence.machine.shared_with_generator {
        used.push((Layer::Generator, phase.load.health.cpu_share));
    }
    let all: f64 = used.iter().map(|(_, cores)| cores).sum();
    used.retain(|(_, cores)| *cores > 0.0 && all > 0.0);
    used.into_iter()
        .map(|(layer, cores)| (layer, cores / all))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    #[test]
    fn fires_when_the_cores_are_busy_and_nothing_else_is_wrong() {
        check(
            Case::healthy(),
            expect![[r#"
                named: CAP-02
                suspected php (0 %): the CPU is the limit
                  saw 96 % of the machine's 2 cores used, at 240/s offered for 10 s
                  saw of the CPU that the stack and its load used: php 78 %, db 13 %, cache 3.3 %, proxy 2.2 %, web 2.2 %, generator 1.3 %, at 240/s offered for 10 s
                  saw 9.40 ms of CPU for each request, at 240/s offered for 10 s
                  saw which code uses the CPU was not seen
                  do: Add cores or hosts, or make requests cheaper: profile php first, since most of the CPU goes there.
            "#]],
        );
    }

    #[test]
    fn says_what_other_programs_took() {
        let little = Case::healthy().counter(PhaseKind::Over, Layer::Php, metric::CPU_S, 0.6);
        let case = little.with(|evidence| {
            for phase in &mut evidence.phases {
                phase.load.health.foreign_share = Some(0.36);
            }
        });
        let findings = crate::diagnose(&case.evidence());
        let limit = findings.iter().find(|finding| finding.code == "CAP-02");
        let limit = limit.expect("the CPU is the limit");
        assert!(limit.title.contains("by other programs"), "{limit:?}");
    }

    #[test]
    fn fires_when_a_host_has_used_up_its_own_cores() {
        let case = Case::healthy()
            .tier(Layer::Php, |tier| tier.cpus = 1.0)
            .machine_at(PhaseKind::Over, 0.7)
            .counter(PhaseKind::Over, Layer::Php, metric::CPU_S, 0.98);
        check(
            case,
            expect![[r#"
                named: CAP-02
                suspected php (0 %): the CPU is the limit
                  saw 98 % of the 1.00 cores of the php host used, at 240/s offered for 10 s
                  saw of the CPU that the stack and its load used: php 70 %, db 18 %, cache 4.4 %, proxy 2.9 %, web 2.9 %, generator 1.7 %, at 240/s offered for 10 s
                  saw 6.83 ms of CPU for each request, at 240/s offered for 10 s
                  saw which code uses the CPU was not seen
                  do: Add cores or hosts, or make requests cheaper: profile php first, since most of the CPU goes there.
            "#]],
        );
    }

    #[test]
    fn gives_way_to_every_suspicion() {
        let case = Case::healthy().everywhere(Layer::Php, metric::OPCACHE_ENABLED, "", 0.0);
        check(
            case,
            expect![[r#"
            named: OPC-01
            silent
        "#]],
        );
    }

    #[test]
    fn stays_silent_when_there_is_cpu_left() {
        let case = Case::healthy()
            .machine_at(PhaseKind::Over, 0.5)
            .machine_at(PhaseKind::Knee, 0.5)
            .running(PhaseKind::Over, 3.0)
            .gauge(PhaseKind::Over, Layer::Php, metric::WORKERS_BUSY, "", 4.0);
        check(
            case,
            expect![[r#"
                named: nothing
                silent
            "#]],
        );
    }
}
