//! SES-03: requests clear old sessions away.

use crate::rule::prelude::*;

/// Share of the time of busy workers in session_start() from which on it is what binds \[ours\].
const BINDS: f64 = 0.2;
/// The same from which on it is worth a note \[ours\].
const NOTICEABLE: f64 = 0.1;
/// How often a request clears sessions away where php.ini says nothing; more often is a choice.
const USUAL: f64 = 0.01;

pub(crate) static RULE: Rule = Rule {
    code: "SES-03",
    name: "session-cleaning",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Code,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &["SES-01", "SES-02"],
    title: "requests clear old sessions away",
    doc: RuleDoc {
        what_it_is: "PHP removes old sessions within a request: session_start() does it with a probability of \
            session.gc_probability over session.gc_divisor, and reads the whole directory of sessions, or deletes from the \
            whole table. With one hundred thousand sessions that takes long, and with a high probability every page pays.",
        how_it_shows: "Time in session_start(), in the kernel's reading of directories (getdents, stat), that grows with the \
            number of sessions.",
        how_it_is_confirmed: "Set session.gc_probability to 0 for one run: the limit rises.",
        what_to_write: "In php.ini, and clear by cron, as Debian's package does:\n\n    session.gc_probability = 0\n\n    \
            */30 * * * * find /var/lib/php/sessions -name 'sess_*' -mmin +24 -delete",
        references: &[
            "https://www.php.net/manual/en/session.configuration.php#ini.session.gc-probability",
            "https://github.com/php/php-src/blob/master/php.ini-production",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let number = |name| {
        let value = evidence.stack.setting(Layer::Php, name)?;
        value.trim().parse::<f64>().ok()
    };
    let one_in = number("session.gc_probability")? / number("session.gc_divisor").unwrap_or(100.0);
    let met = evidence.most_time_below(|function| function == "session_start")?;
    if one_in <= USUAL || met.share < NOTICEABLE {
        return None;
    }
    RULE.finds(Layer::Php, RULE.title)
        .configured(evidence.quote(Layer::Php, "session.gc_probability"))
        .configured(evidence.quote(Layer::Php, "session.gc_divisor"))
        .under(
            format!(
                "{} of {} stacks of busy workers were in session_start()",
                format_share(met.share),
                met.of
            ),
            evidence.sampled_under(),
        )
        .suspected_if(met.share >= BINDS)
        .weight(met.share)
        .refuted_by("the same limit with session.gc_probability = 0")
        .remedy(
            Advice::new(
                evidence,
                "Clear old sessions by cron instead (session.gc_probability = 0), or keep sessions where they expire by \
                 themselves, as in Redis.",
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

    fn clearing(divisor: &str) -> Case {
        let start = builtin("session_start");
        let stacks = sampled(
            50,
            vec![place("Session::open", "src/Session.php", 9), start],
            vec![met("GET /", &[0, 1], 60), met("GET /", &[0], 40)],
        );
        Case::healthy()
            .set(Layer::Php, "session.gc_probability", "1")
            .set(Layer::Php, "session.gc_divisor", divisor)
            .with(|evidence| evidence.stacks = Some(stacks))
    }

    #[test]
    fn fires_when_every_page_clears_sessions_away() {
        check(
            clearing("1"),
            expect![[r#"
            named: APP-07, SES-03
            suspected php (60 %): requests clear old sessions away
              saw php.session.gc_probability = 1
              saw php.session.gc_divisor = 1
              saw 60 % of 100 stacks of busy workers were in session_start(), sampled 50 times a second, at 240/s offered for 10 s
              do: Clear old sessions by cron instead (session.gc_probability = 0), or keep sessions where they expire by themselves, as in Redis.
        "#]],
        );
    }

    #[test]
    fn stays_silent_at_the_usual_probability() {
        stays_silent(&RULE, Case::healthy());
        check(
            clearing("100"),
            expect![[r#"
            named: APP-07
            silent
        "#]],
        );
    }
}
