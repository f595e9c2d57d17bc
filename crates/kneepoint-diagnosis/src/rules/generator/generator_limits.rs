//! GEN-01: the generator, not the stack, was at its limit.

use crate::evidence::CPU_HEADROOM;
use crate::rule::prelude::*;
use kneepoint_model::{LoadPoint, Validity};

/// The generator's CPU as a share of one core from which on it is the suspect (catalogue GEN-01).
const CPU_LIMIT: f64 = 0.8;
/// Share of its own ceiling from which on it may be what levels off \[ours\]; the gate for a clean number is a
/// third of it (method.md section 6).
const CEILING_LIMIT: f64 = 0.8;
pub(crate) static RULE: Rule = Rule {
    code: "GEN-01",
    name: "generator-limits",
    since: "0.1.0",
    layers: &[Layer::Generator],
    stage: RuleStage::Generator,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &[],
    title: "the load generator was at its own limit",
    doc: RuleDoc {
        what_it_is: "The program that sends the requests needs CPU, ports and time as well. When it runs out of them, \
            requests leave late or not at all, and the delay looks as if the server had caused it. A number taken \
            then says something about the generator and nothing about the stack.",
        how_it_shows: "The generator uses more than 80 % of a core, or the rate is close to what it reaches against a \
            server that does nothing, or it has no local port left, while the stack still has CPU to spare.",
        how_it_is_confirmed: "Run the same step with the generator on another machine, or with twice the cores. When \
            the limit moves, it was the generator's. One field report had to go from two to four generator cores.",
        what_to_write: "Nothing in the stack. Give the generator cores of its own, for instance by leaving the stack \
            fewer:\n\n    [hosts]\n    php = { cpus = 1.0 }\n\nor run it on a second machine.",
        references: &[
            "field report S5",
            "https://serversideup.net/open-source/benchkit/docs/benchmarks/reading-your-results",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let (phase, limits) = evidence
        .phases
        .iter()
        .map(|phase| (phase, limits(evidence, phase)))
        .filter(|(_, limits)| !limits.is_empty())
        .max_by_key(|(_, limits)| limits.iter().filter(|limit| limit.own).count())?;
    let its_own = limits.iter().any(|limit| limit.own);
    limits
        .iter()
        .fold(RULE.finds(Layer::Generator, RULE.title), |verdict, limit| {
            verdict.measured(limit.text.clone(), phase)
        })
        .suspected_if(its_own)
        .refuted_by("the same limit with the generator on a machine of its own, or with twice its cores")
        .remedy(
            Advice::new(
                evidence,
                "Give the generator more cores or a machine of its own, and measure again: these numbers do not \
                 describe the stack.",
            )
            .build(),
        )
        .done()
}

struct Limit {
    text: String,
    /// Certainly the generator's own doing, not a consequence of a saturated machine.
    own: bool,
}

fn limits(evidence: &Evidence, phase: &Phase) -> Vec<Limit> {
    let health = &phase.load.health;
    let mut limits = Vec::new();
    let busiest = busiest_share(&phase.load);
    if busiest > CPU_LIMIT {
        let whose = match phase.load.generators.len() {
            0 | 1 => "the generator",
            _ => "the busiest of the generators",
        };
        limits.push(Limit {
            text: format!("{whose} used {} of a core", format_share(busiest)),
            own: true,
        });
    }
    let ceiling = health.ceiling_hz.or(evidence.machine.generator_ceiling_hz);
    let sent = phase.load.throughput_hz();
    if let Some(ceiling) = ceiling.filter(|ceiling| sent > CEILING_LIMIT * ceiling) {
        limits.push(Limit {
            text: format!(
                "{} of at most {} that it reaches against a server that does nothing",
                format_rate(sent),
                format_rate(ceiling)
            ),
            own: true,
        });
    }
    let no_port = phase.load.outcomes.of(Outcome::NoLocalPort);
    if no_port > 0 {
        limits.push(Limit {
            text: format!("{no_port} requests found no local port at the generator"),
            // Beyond the limit requests pile up, and each of them holds a connection: the stack is the reason.
            own: phase.kind != PhaseKind::Over,
        });
    }
    if let Validity::Invalid { because } = &phase.load.validity {
        // A saturated machine delays the generator that shares it: only where there was room is it at fault.
        let room = evidence
            .cpu_use(phase)
            .is_some_and(|cpu| cpu.share < CPU_HEADROOM);
        limits.push(Limit {
            text: because.join("; "),
            own: room && phase.kind != PhaseKind::Over,
        });
    }
    limits
}

/// CPU time of the busiest generator as a share of one core: each sends from one thread unless told otherwise, and of several
/// the account in common is the sum.
fn busiest_share(load: &LoadPoint) -> f64 {
    let each = load.generators.iter().map(|part| part.health.cpu_share);
    each.reduce(f64::max).unwrap_or(load.health.cpu_share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::{Confidence, GeneratorPart, Health};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    #[test]
    fn fires_when_the_generator_is_out_of_cpu_or_ports() {
        let case = Case::healthy().load(PhaseKind::Over, |load| {
            load.health.cpu_share = 0.97;
            load.outcomes.by_outcome.insert(Outcome::NoLocalPort, 12);
        });
        check(
            case,
            expect![[r#"
            named: GEN-01
            suspected generator (0 %): the load generator was at its own limit
              saw the generator used 97 % of a core, at 240/s offered for 10 s
              saw 12 requests found no local port at the generator, at 240/s offered for 10 s
              do: Give the generator more cores or a machine of its own, and measure again: these numbers do not describe the stack.
        "#]],
        );
    }

    #[test]
    fn ports_count_at_a_rate_that_the_stack_bears_and_not_beyond() {
        let without_ports = |kind| {
            Case::healthy().load(kind, |load| {
                load.outcomes.by_outcome.insert(Outcome::NoLocalPort, 12);
            })
        };
        let suspects = |case: Case| {
            let finding = (RULE.check)(&case.evidence()).expect("a finding");
            finding.confidence >= Confidence::Suspected
        };
        assert!(suspects(without_ports(PhaseKind::Knee)));
        assert!(!suspects(without_ports(PhaseKind::Over)));
    }

    #[test]
    fn several_generators_are_judged_by_the_busiest() {
        let each_uses = |shares: &[f64]| {
            let part = |share: &f64| GeneratorPart {
                health: Health {
                    cpu_share: *share,
                    ..Health::default()
                },
                ..GeneratorPart::default()
            };
            let case = Case::healthy().load(PhaseKind::Knee, |load| {
                load.health.cpu_share = shares.iter().sum();
                load.generators = shares.iter().map(part).collect();
            });
            (RULE.check)(&case.evidence()).is_some()
        };
        assert!(!each_uses(&[0.5, 0.5, 0.5]));
        assert!(each_uses(&[0.9, 0.1]));
    }

    #[test]
    fn only_notes_a_late_generator_on_a_saturated_machine() {
        let case = Case::healthy().load(PhaseKind::Over, |load| {
            load.validity = Validity::Invalid {
                because: vec!["send lag p99 was 40 ms".into()],
            };
        });
        check(
            case,
            expect![[r#"
            named: CAP-02
            noted generator (0 %): the load generator was at its own limit
              saw send lag p99 was 40 ms, at 240/s offered for 10 s
              do: Give the generator more cores or a machine of its own, and measure again: these numbers do not describe the stack.
        "#]],
        );
    }

    #[test]
    fn is_not_blamed_for_what_others_did() {
        let case = Case::healthy().load(PhaseKind::Knee, |load| {
            load.health.foreign_share = Some(0.5);
        });
        stays_silent(&RULE, case);
    }

    #[test]
    fn stays_silent_when_the_generator_had_room() {
        stays_silent(&RULE, Case::healthy());
    }
}
