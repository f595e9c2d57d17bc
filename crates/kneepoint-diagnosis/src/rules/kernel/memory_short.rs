//! KRN-08: everything waits for memory.

use crate::evidence::MEMORY_SHORT;
use crate::rule::prelude::*;
use crate::saturation::pool::worker_bytes;
use kneepoint_model::units::format_bytes;

/// Share of the time in which every task waits for memory, from which on it binds \[ours\].
const BINDS: f64 = 0.05;

pub(crate) static RULE: Rule = Rule {
    code: "KRN-08",
    name: "memory-short",
    since: "0.1.0",
    layers: &[
        Layer::Php,
        Layer::Db,
        Layer::Cache,
        Layer::Web,
        Layer::Proxy,
    ],
    stage: RuleStage::Kernel,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    // A kernel without this counter tells of kills alone.
    requires: &[],
    yields_to: &[],
    title: "everything waits for memory",
    doc: RuleDoc {
        what_it_is: "When memory runs out, the kernel takes pages away that somebody will want again: code of programs, files \
            of the database, and what it writes to swap. Everybody who wants one waits for the disk. At last it kills a \
            process, most often a worker of PHP or the database.",
        how_it_shows: "The line `full` of /proc/pressure/memory grows, vmstat shows major faults and swap, and responses \
            take seconds at a rate that was fine before; `Out of memory: Killed process` in the kernel's log.",
        how_it_is_confirmed: "Halve pm.max_children for one run: the pressure goes away and the rate rises.",
        what_to_write: "As many workers as fit, by what one takes in fact (PSS):\n\n    ; in the pool\n    pm.max_children = \
            12\n\nand smaller caches of the database and Redis; then more memory.",
        references: &["https://docs.kernel.org/accounting/psi.html"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let phase = evidence.stressed()?;
    let full = phase.memory_stall().unwrap_or(0.0);
    let killed = evidence.logged(RULE.layers, LogKind::OutOfMemory);
    if full < MEMORY_SHORT && killed.is_none() {
        return None;
    }
    let takes = |layer: Layer| Some((layer, evidence.largest(layer, metric::PSS_BYTES)?));
    let most = Layer::TIERS
        .into_iter()
        .filter_map(takes)
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let layer = most.map_or(Layer::Php, |(layer, _)| layer);
    let mut verdict = RULE.finds(layer, RULE.title);
    if full >= MEMORY_SHORT {
        verdict = verdict.measured(
            format!(
                "every task waits for memory {} of the time",
                format_share(full)
            ),
            phase,
        );
    }
    if let Some((layer, bytes)) = most {
        verdict = verdict.under(
            format!("{layer} takes most of it, {}", format_bytes(bytes as u64)),
            String::new(),
        );
    }
    if let Some(worker) = worker_bytes(evidence) {
        verdict = verdict.under(
            format!("a worker of PHP takes {}", format_bytes(worker as u64)),
            String::new(),
        );
    }
    let sure = full >= BINDS || killed.is_some();
    verdict
        .logged(killed)
        .suspected_if(sure)
        .weight(full)
        .refuted_by("as much pressure with half of the workers")
        .remedy(
            Advice::new(
                evidence,
                "Fewer workers, by what one takes in fact, or smaller caches of the database and Redis; then more memory.",
            )
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

    fn short(share: f64) -> Case {
        Case::healthy()
            .counter(
                PhaseKind::Over,
                Layer::Generator,
                metric::PSI_MEMORY_FULL_S,
                share,
            )
            .everywhere(Layer::Php, metric::PSS_BYTES, "", 3.0 * 1_073_741_824.0)
    }

    #[test]
    fn fires_when_everything_waits() {
        check(
            short(0.4),
            expect![[r#"
            named: KRN-08
            suspected php (40 %): everything waits for memory
              saw every task waits for memory 40 % of the time, at 240/s offered for 10 s
              saw php takes most of it, 3.0 GiB
              saw a worker of PHP takes 20.0 MiB
              do: Fewer workers, by what one takes in fact, or smaller caches of the database and Redis; then more memory.
        "#]],
        );
    }

    #[test]
    fn fires_when_a_process_was_killed() {
        let killed = short(0.0).log(
            PhaseKind::Over,
            Layer::Php,
            LogKind::OutOfMemory,
            2,
            "Out of memory: Killed process 77 (php-fpm)",
        );
        check(
            killed,
            expect![[r#"
            named: KRN-08
            suspected php (0 %): everything waits for memory
              saw php takes most of it, 3.0 GiB
              saw a worker of PHP takes 20.0 MiB
              saw 2 log lines: Out of memory: Killed process 77 (php-fpm), at 240/s offered for 10 s
              do: Fewer workers, by what one takes in fact, or smaller caches of the database and Redis; then more memory.
        "#]],
        );
    }

    #[test]
    fn stays_silent_while_there_is_memory() {
        stays_silent(&RULE, short(0.002));
        stays_silent(&RULE, Case::healthy());
    }
}
