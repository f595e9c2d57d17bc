//! FPM-17: requests wait until somebody reads what they print.

use crate::evidence::Wait;
use crate::rule::prelude::*;
use crate::saturation::waits::Part;

/// Share of the time of busy workers from which on it is what binds \[ours\]: as for a lock that all pages pass through.
const BINDS: f64 = 0.25;
/// The same from which on it is worth a note \[ours\].
const NOTICEABLE: f64 = 0.05;
/// The setting by which what workers print goes through the master.
const CATCH: &str = "catch_workers_output";
/// What telemetry calls the pipes that a worker prints into.
const STDERR: &str = "stderr";
const STDOUT: &str = "stdout";
/// What to do where the master reads them.
const FOR_MASTER: &str = "Let pages print less, or log into a file: the master reads what all of them print, line after line. With \
    catch_workers_output off, what they still print is lost: where it is the log of a container, print less instead.";
/// What to do where somebody else does.
const FOR_OTHERS: &str = "Let pages print less, or log into a file instead of standard error.";

pub(crate) static RULE: Rule = Rule {
    code: "FPM-17",
    name: "output-through-master",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::WORKERS_WAITING],
    yields_to: &[],
    title: "requests wait until what they print on standard error is read",
    doc: RuleDoc {
        what_it_is: "What PHP prints on standard error goes into a pipe, and a page that prints waits while the pipe is full. With \
            catch_workers_output the one master of PHP-FPM reads the pipes of all workers and writes each line into its log. \
            Workers of other runtimes print to what started them: the reader of a container's log, a supervisor. However \
            many workers there are, pages are served no faster than that one process reads what they print.",
        how_it_shows: "Busy workers sleep in write to the pipe of their standard error, and with catch_workers_output the master \
            of PHP-FPM uses most of a core. The rate does not rise with more workers.",
        how_it_is_confirmed: "Switch catch_workers_output off for one run, or send standard error to /dev/null: the limit rises.",
        what_to_write: "Log less, or into a file: in the pool `catch_workers_output = no`, in php.ini\n\n    error_log = \
            /var/log/php/errors.log\n\nand in the application a handler that writes to a file (Monolog: StreamHandler with a \
            path instead of php://stderr). With catch_workers_output off, what is still printed is lost: where it is the log of a \
            container, print less instead.",
        references: &[
            "https://www.php.net/manual/en/install.fpm.configuration.php#catch-workers-output",
            "https://github.com/richarvey/nginx-php-fpm/issues/36",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let through_master = evidence.stack.is_on(Layer::Php, CATCH) == Some(true);
    // A worker of RoadRunner answers on its standard output: there it is no log.
    let is_read =
        |wait: &Wait| wait.is_for_reader(STDERR) || through_master && wait.is_for_reader(STDOUT);
    let part = Part::find(evidence, NOTICEABLE, is_read)?;
    let finding = if through_master {
        let title =
            "requests wait for the master of PHP-FPM, which copies what they print into its log";
        RULE.finds(Layer::Php, title)
            .configured(evidence.quote(Layer::Php, CATCH))
            .remedy(
                Advice::new(evidence, FOR_MASTER)
                    .set(Layer::Php, CATCH, "no")
                    .build(),
            )
    } else {
        RULE.finds(Layer::Php, RULE.title)
            .remedy(Advice::new(evidence, FOR_OTHERS).build())
    };
    finding
        .waited(&part)
        .inside(evidence.seen_waiting(|wait| part.is_it(wait)))
        .suspected_if(part.share >= BINDS)
        .weight(part.share)
        .gain(format!(
            "{} less in each request that prints nothing",
            format_ms(part.ms)
        ))
        .refuted_by("as many waits when nothing is printed")
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{builtin, met, place, sampled};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    /// So many workers of eight wait for the reader of what they print.
    fn printing(workers: f64) -> Case {
        let stacks = sampled(
            50,
            vec![
                place("Log::debug", "lib/log.php", 17),
                builtin("fwrite"),
                builtin("[send stderr]"),
            ],
            vec![met("GET /", &[0, 1, 2], 400)],
        );
        Case::healthy()
            .machine_at(PhaseKind::Over, 0.6)
            .running(PhaseKind::Over, 8.0 - workers)
            .waiting(PhaseKind::Over, "send stderr", workers)
            .with(|evidence| evidence.stacks = Some(stacks))
    }

    #[test]
    fn fires_when_the_master_copies_what_pages_print() {
        check(
            printing(6.0).set(Layer::Php, CATCH, "yes"),
            expect![[r#"
                named: FPM-17
                suspected php (70 %): requests wait for the master of PHP-FPM, which copies what they print into its log
                  saw php.catch_workers_output = yes
                  saw send stderr takes 70 % of the time of busy workers, at 240/s offered for 10 s
                  saw 29.3 ms of it in each request, at 240/s offered for 10 s
                  saw waiting there: GET /, Log::debug at lib/log.php:17, 100 % of 400 stacks, sampled 50 times a second, at 240/s offered for 10 s
                  set php.catch_workers_output = no
            "#]],
        );
    }

    #[test]
    fn standard_output_is_a_log_only_where_the_master_reads_it() {
        let case = || Case::healthy().waiting(PhaseKind::Over, "send stdout", 4.0);
        let found = |case: Case| (RULE.check)(&case.evidence()).is_some();
        assert!(found(case().set(Layer::Php, CATCH, "yes")));
        assert!(!found(case()));
    }

    #[test]
    fn proposes_no_setting_where_another_program_reads() {
        check(
            printing(6.0),
            expect![[r#"
            named: FPM-17
            suspected php (70 %): requests wait until what they print on standard error is read
              saw send stderr takes 70 % of the time of busy workers, at 240/s offered for 10 s
              saw 29.3 ms of it in each request, at 240/s offered for 10 s
              saw waiting there: GET /, Log::debug at lib/log.php:17, 100 % of 400 stacks, sampled 50 times a second, at 240/s offered for 10 s
              do: Let pages print less, or log into a file instead of standard error.
        "#]],
        );
    }

    #[test]
    fn only_notes_a_short_wait() {
        check(
            printing(1.0).set(Layer::Php, CATCH, "yes"),
            expect![[r#"
                named: CAP-02
                noted php (12 %): requests wait for the master of PHP-FPM, which copies what they print into its log
                  saw php.catch_workers_output = yes
                  saw send stderr takes 12 % of the time of busy workers, at 240/s offered for 10 s
                  saw 4.88 ms of it in each request, at 240/s offered for 10 s
                  saw waiting there: GET /, Log::debug at lib/log.php:17, 100 % of 400 stacks, sampled 50 times a second, at 240/s offered for 10 s
                  set php.catch_workers_output = no
            "#]],
        );
    }

    #[test]
    fn stays_silent_where_a_program_is_sent_its_input() {
        let case = Case::healthy().waiting(PhaseKind::Over, "send pipe", 4.0);
        assert_eq!((RULE.check)(&case.evidence()), None);
        stays_silent(&RULE, Case::healthy().set(Layer::Php, CATCH, "yes"));
    }
}
