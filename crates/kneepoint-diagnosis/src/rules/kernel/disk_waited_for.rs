//! KRN-11: workers wait for the disk.

use crate::evidence::Wait;
use crate::rule::prelude::*;
use crate::saturation::waits::Part;

/// Share of the time of busy workers from which on the disk is what binds \[ours\].
const BINDS: f64 = 0.2;
/// The same from which on it is worth a note \[ours\].
const NOTICEABLE: f64 = 0.05;
/// Calls on files in which a worker sleeps only while the disk works, as telemetry names them.
const DISK: [&str; 3] = ["fsync", "recv file", "send file"];

pub(crate) static RULE: Rule = Rule {
    code: "KRN-11",
    name: "disk-waited-for",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Kernel,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::WORKERS_WAITING],
    yields_to: &["KRN-08"],
    title: "workers wait for the disk",
    doc: RuleDoc {
        what_it_is: "Sessions, caches, logs and uploads that a page writes to files are fast as long as the kernel keeps them in \
            memory. fsync, a full page cache, an overlay of a container or a disk over the network makes the page wait for the \
            device itself, and a worker with it.",
        how_it_shows: "Workers sleep in fsync, read or write on files; the line `some` of /proc/pressure/io grows; the CPU \
            has time left.",
        how_it_is_confirmed: "Put the directory in memory (tmpfs) for one run: the waits go away and the limit rises.",
        what_to_write: "Keep what is short-lived in memory or in Redis:\n\n    ; php.ini\n    session.save_path = \
            \"/dev/shm/sessions\"\n    sys_temp_dir = \"/dev/shm\"\n\nand write what must last outside of the page, in a queue.",
        references: &["https://docs.kernel.org/accounting/psi.html"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let part = Part::find(evidence, NOTICEABLE, is_disk)?;
    let mut verdict = RULE.finds(Layer::Php, RULE.title).waited(&part);
    let io = part
        .phase
        .series
        .rate(Layer::Generator, metric::PSI_IO_SOME_S);
    if let Some(some) = io {
        verdict = verdict.measured(
            format!("some task waits for IO {} of the time", format_share(some)),
            part.phase,
        );
    }
    verdict
        .inside(evidence.seen_waiting(|wait| DISK.contains(&wait)))
        .suspected_if(part.share >= BINDS)
        .weight(part.share)
        .refuted_by("the same limit with the files in memory (tmpfs)")
        .remedy(
            Advice::new(
                evidence,
                "Keep what is short-lived in memory or in Redis (session.save_path, sys_temp_dir, the cache's directory), and \
                 write what must last outside of the page.",
            )
            .build(),
        )
        .done()
}

fn is_disk(wait: &Wait) -> bool {
    DISK.contains(&wait.label().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{builtin, met, place, sampled};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn syncing(workers: f64) -> Case {
        let stacks = sampled(
            50,
            vec![
                place("App\\Audit::write", "app/Audit.php", 12),
                builtin("fsync"),
                builtin("[fsync]"),
            ],
            vec![met("POST /orders", &[0, 1, 2], 300)],
        );
        Case::healthy()
            .machine_at(PhaseKind::Over, 0.4)
            .running(PhaseKind::Over, 8.0 - workers)
            .waiting(PhaseKind::Over, "fsync", workers)
            .waiting(PhaseKind::Over, "recv db", 0.0)
            .waiting(PhaseKind::Over, "recv cache", 0.0)
            .with(|evidence| evidence.stacks = Some(stacks))
    }

    #[test]
    fn fires_with_the_line_that_waits() {
        check(
            syncing(6.0),
            expect![[r#"
            named: KRN-11
            suspected php (75 %): workers wait for the disk
              saw fsync takes 75 % of the time of busy workers, at 240/s offered for 10 s
              saw 29.3 ms of it in each request, at 240/s offered for 10 s
              saw waiting there: POST /orders, App\Audit::write at app/Audit.php:12, 100 % of 300 stacks, sampled 50 times a second, at 240/s offered for 10 s
              do: Keep what is short-lived in memory or in Redis (session.save_path, sys_temp_dir, the cache's directory), and write what must last outside of the page.
        "#]],
        );
    }

    #[test]
    fn stays_silent_while_files_are_in_memory() {
        stays_silent(&RULE, Case::healthy());
    }
}
