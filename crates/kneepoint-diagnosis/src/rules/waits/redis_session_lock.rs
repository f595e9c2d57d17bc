//! SES-02: requests of one session wait for each other's lock in Redis, by sleeping and asking again.

use crate::rule::prelude::*;
use crate::saturation::waits::stuck;

/// Share of busy workers that sleep for the lock from which on it costs \[ours\].
const LOCKED: f64 = 0.2;
/// Share of the sleeping stacks that must be opening a session \[ours\].
const OPENING: f64 = 0.5;
/// Pause between two attempts that leaves little time unused, in microseconds \[ours\]: a tenth of phpredis' own.
const SHORT_WAIT_US: f64 = 2000.0;
/// What phpredis waits and how often it tries unless told otherwise (its redis_session.c).
const USUAL_WAIT_US: f64 = 20_000.0;
const USUAL_RETRIES: f64 = 100.0;
/// Keepers of sessions with which phpredis may be the one who sleeps. `files` is PHP's default: it never sleeps, and an
/// application that keeps sessions in Redis may say so at run time.
const HANDLERS: [&str; 4] = ["", "files", "redis", "rediscluster"];

pub(crate) static RULE: Rule = Rule {
    code: "SES-02",
    name: "redis-session-lock",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::WORKERS_WAITING],
    yields_to: &[],
    title: "requests of one session wait for each other's lock in Redis",
    doc: RuleDoc {
        what_it_is: "With redis.session.locking_enabled, phpredis takes a lock for each session, as session files have \
            one. Redis cannot wake who waits: a request that finds the lock taken sleeps for lock_wait_time, 20 ms \
            unless told otherwise, and asks again. Requests of one visitor run one after the other, with gaps, and \
            each that waits occupies a worker.",
        how_it_shows: "Workers sleep in session_start(); the CPU is idle; Redis sees many SET commands that fail. Under \
            load from few visitors the pool is used up.",
        how_it_is_confirmed: "Give every simulated visitor a cookie of their own: the limit rises.",
        what_to_write: "In the application, as soon as the session is read:\n\n    session_write_close();\n\nWhere it must \
            stay locked, ask more often, and raise the number of attempts by the same factor:\n\n    ; php.ini, the wait in \
            microseconds\n    redis.session.lock_wait_time = 2000\n    redis.session.lock_retries = 1000\n\nAfter \
            lock_retries attempts session_start() fails: with the usual 100, the shorter wait alone would give up after 0.2 \
            s. Without the lock, of two requests that write the same session the last one wins.",
        references: &["https://github.com/phpredis/phpredis/issues/1966"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let handler = evidence.stack.setting(Layer::Php, "session.save_handler");
    if handler.is_some_and(|handler| !HANDLERS.contains(&handler.trim())) {
        return None;
    }
    let opening = evidence.share_of_waits(
        |wait| wait == "sleep",
        |function| function == "session_start",
    );
    let locking = evidence
        .stack
        .is_on(Layer::Php, "redis.session.locking_enabled")
        == Some(true);
    if !opening.map_or(locking, |share| share >= OPENING) {
        return None;
    }
    let (phase, pool, asleep) = stuck(evidence, LOCKED, |wait| wait.call == "sleep")?;
    let mut verdict = RULE
        .finds(Layer::App, RULE.title)
        .measured(
            format!("{asleep:.1} of {:.1} busy workers sleep", pool.busy),
            phase,
        )
        .measured(pool.describe(), phase);
    if let Some(share) = opening {
        verdict = verdict.under(
            format!(
                "{} of those that sleep are in session_start()",
                format_share(share)
            ),
            evidence.sampled_under(),
        );
    }
    verdict
        .inside(evidence.seen_waiting(|wait| wait == "sleep"))
        .weight(asleep / pool.busy.max(1.0))
        .refuted_by("as many sleeping workers when every visitor has a session of their own")
        .remedy(ask_more_often(evidence).build())
        .done()
}

/// A shorter wait between attempts, and so many of them that nobody gives up earlier than now.
fn ask_more_often(evidence: &Evidence) -> Advice<'_> {
    let advice = Advice::new(
        evidence,
        "Close the session as soon as it was read (session_write_close), and ask for its lock more often, with as many \
         more attempts, so that none gives up earlier; in the scenario give the load more users.",
    );
    // phpredis takes 0 for its default.
    let now = |name: &str, usual: f64| {
        let set = evidence.stack.number(Layer::Php, name);
        set.filter(|value| *value != 0.0).unwrap_or(usual)
    };
    let wait_us = now("redis.session.lock_wait_time", USUAL_WAIT_US);
    let retries = now("redis.session.lock_retries", USUAL_RETRIES);
    if wait_us <= SHORT_WAIT_US {
        return advice;
    }
    let advice = advice.set(Layer::Php, "redis.session.lock_wait_time", SHORT_WAIT_US);
    if retries < 0.0 {
        return advice;
    }
    let enough = (retries * wait_us / SHORT_WAIT_US).ceil();
    advice.set(Layer::Php, "redis.session.lock_retries", enough)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{builtin, met, place, sampled};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn asleep_in(function: &str) -> Case {
        let stacks = sampled(
            50,
            vec![
                place("App\\Kernel::handle", "app/Kernel.php", 31),
                builtin(function),
                builtin("[sleep]"),
            ],
            vec![
                met("GET /cart", &[0, 1, 2], 700),
                met("GET /cart", &[0], 100),
            ],
        );
        Case::healthy()
            .machine_at(PhaseKind::Over, 0.3)
            .running(PhaseKind::Over, 1.0)
            .waiting(PhaseKind::Over, "sleep", 6.5)
            .with(|evidence| evidence.stacks = Some(stacks))
    }

    #[test]
    fn fires_when_workers_sleep_while_they_open_a_session() {
        check(
            asleep_in("session_start"),
            expect![[r#"
                named: SES-02
                suspected app (81 %): requests of one session wait for each other's lock in Redis
                  saw 6.5 of 8.0 busy workers sleep, at 240/s offered for 10 s
                  saw 8.0 of at most 8 workers busy, 120.0 requests queue before them, at 240/s offered for 10 s
                  saw 100 % of those that sleep are in session_start(), sampled 50 times a second, at 240/s offered for 10 s
                  saw waiting there: GET /cart, App\Kernel::handle at app/Kernel.php:31, 100 % of 700 stacks, sampled 50 times a second, at 240/s offered for 10 s
                  set php.redis.session.lock_wait_time = 2000
                  set php.redis.session.lock_retries = 1000
            "#]],
        );
    }

    #[test]
    fn nobody_gives_up_earlier_than_before() {
        let proposed = |settings: &[(&str, &str)]| {
            let set = |case: Case, (name, value): &(&str, &str)| {
                case.set(Layer::Php, &format!("redis.session.lock_{name}"), value)
            };
            let case = settings.iter().fold(asleep_in("session_start"), set);
            let finding = (RULE.check)(&case.evidence()).expect("a finding");
            let remedy = finding.remedy.expect("a remedy");
            let value = |name: &str| {
                let mut settings = remedy.settings.iter();
                let of = settings.find(|setting| setting.key.name.ends_with(name))?;
                Some(of.value.clone())
            };
            (value("lock_wait_time"), value("lock_retries"))
        };
        let some = |value: &str| Some(value.to_owned());
        let both = [("wait_time", "50000"), ("retries", "30")];
        assert_eq!(proposed(&both), (some("2000"), some("750")));
        // Without end it stays, and what asks more often already is left alone.
        assert_eq!(proposed(&[("retries", "-1")]), (some("2000"), None));
        assert_eq!(proposed(&[("wait_time", "1000")]), (None, None));
    }

    #[test]
    fn stays_silent_where_sessions_are_kept_by_somebody_else() {
        let found = |handler: &str| {
            let case = asleep_in("session_start").set(Layer::Php, "session.save_handler", handler);
            (RULE.check)(&case.evidence()).is_some()
        };
        assert!(!found("memcached"));
        assert!(found("redis"));
        // PHP's default: the application may have said otherwise at run time.
        assert!(found("files"));
    }

    #[test]
    fn leaves_other_sleep_to_others() {
        check(
            asleep_in("usleep"),
            expect![[r#"
                named: FPM-04
                silent
            "#]],
        );
        stays_silent(&RULE, Case::healthy());
    }
}
