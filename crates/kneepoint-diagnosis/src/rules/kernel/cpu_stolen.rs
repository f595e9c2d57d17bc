//! KRN-07: the hypervisor keeps CPU from the machine.

use crate::rule::prelude::*;

/// Share of CPU time stolen from which on it is worth a note \[ours\] (catalogue KRN-07).
const NOTED: f64 = 0.05;
/// Share from which on it moves the limit more than configuration is likely to \[ours\].
const BINDS: f64 = 0.15;

pub(crate) static RULE: Rule = Rule {
    code: "KRN-07",
    name: "cpu-stolen",
    since: "0.1.0",
    layers: &[Layer::Generator],
    stage: RuleStage::Kernel,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &[],
    title: "the hypervisor keeps CPU from this machine",
    doc: RuleDoc {
        what_it_is: "A virtual machine shares its cores with others. Time in which it wanted to run and was not let is \
            called steal. Cheap instance types (such as t2 and t3) run at full speed only until a credit is used up, \
            often in the middle of a load test.",
        how_it_shows: "`st` in top or vmstat is above 5 %; throughput drops during a run although nothing in the stack \
            changed.",
        how_it_is_confirmed: "Run the same step an hour later, or on a machine with dedicated cores: it is faster and \
            steal is near 0.",
        what_to_write: "Nothing in the stack: use an instance type with fixed performance, or leave a host that is \
            shared with a busy neighbour.",
        references: &["field report S2 (ran on t2.2xlarge)"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let mut seen: Vec<(&Phase, f64)> = evidence
        .phases
        .iter()
        .filter_map(|phase| Some((phase, stolen_share(evidence, phase)?)))
        .collect();
    seen.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (phase, stolen) = *seen.first()?;
    if stolen < NOTED {
        return None;
    }
    // A neighbour who was busy for one phase spoils that phase; who holds the limit down is there in most of them.
    let mostly = seen[seen.len() / 2].1;
    RULE.finds(Layer::Generator, RULE.title)
        .measured(format!("{} of the machine's CPU time stolen", format_share(stolen)), phase)
        .suspected_if(mostly >= BINDS)
        .weight(stolen)
        .refuted_by("the same limit at a time without steal")
        .remedy(
            Advice::new(
                evidence,
                "Measure on a machine with dedicated cores, or again when the neighbours are quiet: no setting of the \
                 stack brings this CPU back.",
            )
            .build(),
        )
        .done()
}

fn stolen_share(evidence: &Evidence, phase: &Phase) -> Option<f64> {
    phase
        .series
        .rate(Layer::Generator, metric::MACHINE_STEAL_S)
        .map(|cores| cores / evidence.cores())
        .or(phase.load.health.steal_share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    #[test]
    fn fires_when_much_is_stolen() {
        let case = Case::healthy().everywhere(Layer::Generator, metric::MACHINE_STEAL_S, "", 0.5);
        check(
            case,
            expect![[r#"
                named: KRN-07
                suspected generator (25 %): the hypervisor keeps CPU from this machine
                  saw 25 % of the machine's CPU time stolen, at 60.0/s offered for 10 s
                  do: Measure on a machine with dedicated cores, or again when the neighbours are quiet: no setting of the stack brings this CPU back.
            "#]],
        );
    }

    #[test]
    fn only_notes_a_little() {
        let case = Case::healthy()
            .without(metric::MACHINE_STEAL_S)
            .load(PhaseKind::Knee, |load| load.health.steal_share = Some(0.07));
        check(
            case,
            expect![[r#"
            named: CAP-02
            noted generator (7.0 %): the hypervisor keeps CPU from this machine
              saw 7.0 % of the machine's CPU time stolen, at 190/s offered for 10 s
              do: Measure on a machine with dedicated cores, or again when the neighbours are quiet: no setting of the stack brings this CPU back.
        "#]],
        );
    }

    #[test]
    fn only_notes_a_neighbour_who_was_busy_for_a_while() {
        let case = Case::healthy().counter(
            PhaseKind::Over,
            Layer::Generator,
            metric::MACHINE_STEAL_S,
            0.6,
        );
        check(
            case,
            expect![[r#"
            named: CAP-02
            noted generator (30 %): the hypervisor keeps CPU from this machine
              saw 30 % of the machine's CPU time stolen, at 240/s offered for 10 s
              do: Measure on a machine with dedicated cores, or again when the neighbours are quiet: no setting of the stack brings this CPU back.
        "#]],
        );
    }

    #[test]
    fn stays_silent_without_steal() {
        stays_silent(&RULE, Case::healthy());
    }
}
