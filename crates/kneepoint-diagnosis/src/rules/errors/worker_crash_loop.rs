//! FPM-21: workers die of signals.

use crate::rule::prelude::*;

/// Crashes from which on it is a pattern \[ours\]; a single one may be an operator's kill.
const PATTERN: u64 = 3;

pub(crate) static RULE: Rule = Rule {
    code: "FPM-21",
    name: "worker-crash-loop",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Errors,
    signal: UseSignal::Error,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &[],
    title: "PHP workers die while they serve requests",
    doc: RuleDoc {
        what_it_is: "A worker that crashes takes its request with it, and the web server answers 502. Signal 11 is a \
            bug in PHP or in an extension; signal 9 is somebody's kill, most often the kernel's when memory ran out.",
        how_it_shows: "PHP-FPM's log says `child N exited on signal 11 (SIGSEGV)` or `signal 9`, nginx's log says \
            `recv() failed (104: Connection reset by peer)`.",
        how_it_is_confirmed: "Switch off extensions one by one (first JIT and profilers) until it stops. For signal 9 \
            halve pm.max_children: when it stops, it was memory.",
        what_to_write: "In php-fpm.conf, so that a crashing pool restarts as a whole:\n\n    emergency_restart_threshold \
            = 10\n    emergency_restart_interval = 1m\n\nand upgrade PHP and the extension that crashes.",
        references: &[
            "https://www.php.net/manual/en/install.fpm.configuration.php",
            "field report S1, stage 2",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let crashed = evidence.logged(&[Layer::Php], LogKind::WorkerCrashed)?;
    let killed = evidence.logged(&Layer::TIERS, LogKind::OutOfMemory);
    let by_memory = killed.is_some() || crashed.example.contains("signal 9");
    let text = if by_memory {
        "The kernel ended workers for want of memory: fewer children, a lower memory_limit, or more memory."
    } else {
        "Upgrade PHP and its extensions; switch off JIT and profilers first. A core dump names the extension."
    };
    let mut verdict = RULE
        .finds(Layer::Php, RULE.title)
        .under(
            format!(
                "{} workers ended by a signal: {}",
                crashed.count, crashed.example
            ),
            crashed.conditions,
        )
        .suspected_if(crashed.count >= PATTERN || by_memory);
    if let Some(killed) = killed {
        verdict = verdict.under(
            format!(
                "{} kills for want of memory: {}",
                killed.count, killed.example
            ),
            killed.conditions,
        );
    }
    verdict
        .refuted_by(
            "no crash over the same load with extensions switched off and half the children",
        )
        .remedy(Advice::new(evidence, text).build())
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    #[test]
    fn fires_when_workers_segfault() {
        let example = "child 812 exited on signal 11 (SIGSEGV) after 3.2 seconds from start";
        let case = Case::healthy().log(
            PhaseKind::Knee,
            Layer::Php,
            LogKind::WorkerCrashed,
            7,
            example,
        );
        check(
            case,
            expect![[r#"
            named: FPM-21
            suspected php (0 %): PHP workers die while they serve requests
              saw 7 workers ended by a signal: child 812 exited on signal 11 (SIGSEGV) after 3.2 seconds from start, at 190/s offered for 10 s
              do: Upgrade PHP and its extensions; switch off JIT and profilers first. A core dump names the extension.
        "#]],
        );
    }

    #[test]
    fn stays_silent_without_crashes() {
        stays_silent(&RULE, Case::healthy());
    }
}
