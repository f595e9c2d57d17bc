//! FPM-07: the listen queue of PHP's Unix socket is too short.

use crate::rule::prelude::*;
use crate::saturation::backlog::Overflow;
use kneepoint_model::Address;

pub(crate) static RULE: Rule = Rule {
    code: "FPM-07",
    name: "unix-backlog-full",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Errors,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &["FPM-10"],
    title: "the queue before PHP is too short: bursts become instant errors",
    doc: RuleDoc {
        what_it_is: "Requests that find every PHP worker busy wait in a queue in the kernel, the listen backlog. On a \
            Unix socket a request that finds the queue full is refused at once, and nginx answers 502 within a \
            millisecond. Errors are fast, so requests per second go up and the mean latency goes down while the \
            site is failing. Its length is the smaller of listen.backlog and net.core.somaxconn.",
        how_it_shows: "nginx logs `connect() to unix:... failed (11: Resource temporarily unavailable)`. The queue \
            stands at its limit. PHP-FPM's status page shows a queue of 0 all the while, and no kernel counter moves.",
        how_it_is_confirmed: "Lengthen the queue: errors below the limit go away. When they only turn into requests \
            that are too late, the queue was a symptom: workers are too few or too slow.",
        what_to_write: "In the pool, and on the host (or in the container's network namespace):\n\n    listen.backlog = \
            511\n\n    sysctl net.core.somaxconn=4096\n\nthen restart PHP-FPM.",
        references: &[
            "https://www.php.net/manual/en/install.fpm.configuration.php",
            "https://github.com/php/php-src/issues/9943 (the status page shows 0)",
            "field report S1, stage 4",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    if let Some(Address::Tcp(_)) = evidence.stack.tier(Layer::Php)?.listen {
        return None;
    }
    let logged = evidence.logged(&[Layer::Web, Layer::Proxy], LogKind::UpstreamQueueFull);
    let refused = evidence.phases.iter().find(|phase| {
        evidence.stack.tier(Layer::Web).is_none() && phase.load.outcomes.of(Outcome::Refused) > 0
    });
    let below = logged.as_ref().is_some_and(|logged| logged.below_the_limit)
        || refused.is_some_and(|phase| phase.kind != PhaseKind::Over);
    let phase = match (&logged, refused) {
        (None, None) => return None,
        (Some(_), _) if below => evidence.knee()?,
        (Some(_), _) => evidence.stressed()?,
        (None, Some(phase)) => phase,
    };
    let overflow = Overflow::judge(evidence, phase, below);
    let mut verdict = RULE
        .finds(Layer::Php, RULE.title)
        .configured(evidence.quote(Layer::Php, "listen.backlog"))
        .measured(
            format!(
                "a queue of at most {:.0}; the last of a full one waits {}",
                overflow.limit,
                format_ms(overflow.full_wait_s * 1e3)
            ),
            phase,
        );
    verdict = verdict.logged(logged);
    let failed = phase.load.error_share();
    verdict
        .suspected_if(overflow.too_short)
        .weight(failed)
        .gain(format!(
            "{} of the requests failed {}",
            format_share(failed),
            phase.conditions()
        ))
        .refuted_by("as many failures with a longer queue: then workers are too few or too slow")
        .remedy(overflow.remedy(evidence))
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str =
        "connect() to unix:/run/php.sock failed (11: Resource temporarily unavailable)";

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    #[test]
    fn fires_when_a_short_queue_overflows() {
        let case = Case::healthy()
            .set(Layer::Php, "listen.backlog", "4")
            .set(Layer::Php, "net.core.somaxconn", "128")
            .everywhere(Layer::Php, metric::QUEUE_LIMIT, "", 4.0)
            .log(
                PhaseKind::Knee,
                Layer::Web,
                LogKind::UpstreamQueueFull,
                31,
                EXAMPLE,
            );
        check(
            case,
            expect![[r#"
            named: FPM-07
            suspected php (0 %): the queue before PHP is too short: bursts become instant errors
              saw php.listen.backlog = 4
              saw a queue of at most 4; the last of a full one waits 21.1 ms, at 190/s offered for 10 s
              saw 31 log lines: connect() to unix:/run/php.sock failed (11: Resource temporarily unavailable), at 190/s offered for 10 s
              set php.listen.backlog = 511
              set php.net.core.somaxconn = 4096
        "#]],
        );
    }

    #[test]
    fn only_notes_a_long_queue_that_overload_fills() {
        let case = Case::healthy().log(
            PhaseKind::Over,
            Layer::Web,
            LogKind::UpstreamQueueFull,
            400,
            EXAMPLE,
        );
        check(
            case,
            expect![[r#"
            named: CAP-02
            noted php (15 %): the queue before PHP is too short: bursts become instant errors
              saw php.listen.backlog = 511
              saw a queue of at most 511; the last of a full one waits 2.49 s, at 240/s offered for 10 s
              saw 400 log lines: connect() to unix:/run/php.sock failed (11: Resource temporarily unavailable), at 240/s offered for 10 s
              do: Leave the backlog: it already holds more requests than can be answered in time. Find out why workers take them so slowly.
        "#]],
        );
    }

    #[test]
    fn stays_silent_when_nothing_was_refused() {
        stays_silent(&RULE, Case::healthy());
    }
}
