//! APP-13: requests start another program, or send mail, and wait for it.

use crate::rule::prelude::*;

/// Share of the time of busy workers from which on it is what binds \[ours\].
const BINDS: f64 = 0.25;
/// The same from which on it is worth a note \[ours\].
const NOTICEABLE: f64 = 0.05;

/// Functions of PHP that start a program and wait until it is done, or for what it says. `mail` starts what
/// `sendmail_path` names (https://www.php.net/manual/en/function.mail.php).
const STARTS: [&str; 10] = [
    "mail",
    "mb_send_mail",
    "exec",
    "shell_exec",
    "system",
    "passthru",
    "popen",
    "pclose",
    "proc_open",
    "proc_close",
];

pub(crate) static RULE: Rule = Rule {
    code: "APP-13",
    name: "program-per-request",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &[],
    title: "requests wait for a program that they start",
    doc: RuleDoc {
        what_it_is: "mail(), exec() and their like start another program and keep the worker until it is done: the mail \
            program hands the message over, a converter makes a picture or a PDF. A visitor waits for what need not be done \
            before the page is shown, and the worker serves no other request meanwhile.",
        how_it_shows: "Workers wait for a child or for a pipe, below mail() or exec() in PHP's stacks; new processes are started \
            at the rate of the requests.",
        how_it_is_confirmed: "Let the program do nothing for one run (sendmail_path = /bin/true): the limit rises by its share.",
        what_to_write: "Put the message or the job into a queue and let a worker outside of the web do it: Symfony Messenger or \
            Laravel's queue, a table and a cron job, a mail program that only queues (msmtpq, postfix with defer_transports).",
        references: &["https://www.php.net/manual/en/function.mail.php"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let started = evidence.most_time_below(|function| STARTS.contains(&function))?;
    if started.share < NOTICEABLE {
        return None;
    }
    let share = format_share(started.share);
    let mut verdict = RULE
        .finds(
            Layer::App,
            format!(
                "requests wait for a program that they start with {}()",
                started.function
            ),
        )
        .under(
            format!(
                "{share} of {} stacks of busy workers were in {}()",
                started.of, started.function
            ),
            evidence.sampled_under(),
        );
    if let Some(place) = started.from {
        verdict = verdict.under(format!("called from {place}"), evidence.sampled_under());
    }
    if started.function.contains("mail") {
        verdict = verdict.configured(evidence.quote(Layer::Php, "sendmail_path"));
    }
    verdict
        .suspected_if(started.share >= BINDS)
        .weight(started.share)
        .refuted_by("the same limit when the program does nothing")
        .remedy(
            Advice::new(
                evidence,
                "Put it into a queue, and let a worker outside of the web send the mail or run the program.",
            )
            .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{builtin, met, place, sampled};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    /// So many of a hundred stacks wait for a child of `mail()`.
    fn mailing(stacks: u64) -> Case {
        let stacks = sampled(
            50,
            vec![
                place("Alert::tell", "plugins/alert/alert.php", 9),
                builtin("mail"),
                builtin("[child]"),
                place("page", "page.php", 1),
            ],
            vec![
                met("GET /", &[0, 1, 2], stacks),
                met("GET /", &[3], 100 - stacks),
            ],
        );
        Case::healthy().with(|evidence| evidence.stacks = Some(stacks))
    }

    #[test]
    fn fires_when_pages_send_mail_themselves() {
        check(
            mailing(60),
            expect![[r#"
            named: APP-13
            suspected app (60 %): requests wait for a program that they start with mail()
              saw 60 % of 100 stacks of busy workers were in mail(), sampled 50 times a second, at 240/s offered for 10 s
              saw called from Alert::tell at plugins/alert/alert.php:9, sampled 50 times a second, at 240/s offered for 10 s
              saw php.sendmail_path = (not set)
              do: Put it into a queue, and let a worker outside of the web send the mail or run the program.
        "#]],
        );
    }

    #[test]
    fn stays_silent_when_they_hardly_do() {
        stays_silent(&RULE, mailing(1));
        stays_silent(&RULE, Case::healthy());
    }
}
