//! RDS-04: Redis' main thread has no time left.

use crate::rule::prelude::*;

/// Share of a core from which on Redis' thread counts as full \[ours\].
const FULL: f64 = 0.85;

pub(crate) static RULE: Rule = Rule {
    code: "RDS-04",
    name: "redis-core-full",
    since: "0.1.0",
    layers: &[Layer::Cache],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Server("redis"),
    requires: &[metric::CPU_HOTTEST, metric::WORKERS_WAITING],
    yields_to: &["RDS-01"],
    title: "Redis' main thread is at its limit",
    doc: RuleDoc {
        what_it_is: "Redis runs all commands one after the other, in one thread. A command that walks over many members (KEYS, \
            SMEMBERS, HGETALL, SORT, a script) keeps everybody else waiting meanwhile, also those who only want one small \
            value; and no second core helps.",
        how_it_shows: "The main thread of redis-server uses a whole core, workers of PHP wait in recv towards it, and the time \
            of a command grows with the load.",
        how_it_is_confirmed: "SLOWLOG GET and INFO commandstats name the commands; without the dearest of them the limit rises.",
        what_to_write: "Ask for what is needed: SCAN instead of KEYS, HMGET instead of HGETALL, smaller values. Keep what every \
            request reads in APCu. Give sessions, cache and queue a Redis each. Where values are large:\n\n    # redis.conf\n    \
            io-threads 4",
        references: &[
            "https://redis.io/docs/latest/operate/oss_and_stack/management/optimization/latency/",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let phase = evidence.stressed()?;
    let hottest = phase.series.mean(Layer::Cache, metric::CPU_HOTTEST)?;
    if hottest < FULL {
        return None;
    }
    let share = phase.awaiting(Layer::Cache)?;
    let commands = phase.series.rate(Layer::Cache, metric::REDIS_COMMANDS);
    let mut verdict = RULE
        .finds(Layer::Cache, RULE.title)
        .measured(
            format!(
                "Redis' main thread uses {} of a core",
                format_share(hottest)
            ),
            phase,
        )
        .measured(
            format!("workers wait for it {} of their time", format_share(share)),
            phase,
        );
    if let Some(hz) = commands.filter(|hz| *hz > 0.0) {
        verdict = verdict.measured(
            format!(
                "{} commands, {:.3} ms of CPU each",
                format_rate(hz),
                hottest / hz * 1e3
            ),
            phase,
        );
    }
    let longest = evidence.seen_longest(CallKind::Command);
    let longest = if longest.is_empty() {
        evidence.seen_calls(CallKind::Command, |_| true)
    } else {
        longest
    };
    verdict
        .inside(evidence.seen_waiting(|wait| wait == "recv cache"))
        .inside(longest)
        .weight(share)
        .refuted_by("the same limit without the commands that take most of its time")
        .remedy(
            Advice::new(
                evidence,
                "Ask Redis for what is needed instead of whole collections (SCAN, HMGET, MGET), keep what every request reads in \
                 APCu, and give sessions, cache and queue a Redis each.",
            )
            .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{place, traced};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn hot(share: f64) -> Case {
        let at = place("App\\Menu::all", "app/Menu.php", 14);
        let call = traced("GET /", CallKind::Command, "HGETALL menu", at, 1);
        Case::healthy()
            .machine_at(PhaseKind::Over, 0.6)
            .running(PhaseKind::Over, 1.0)
            .waiting(PhaseKind::Over, "recv cache", 7.0)
            .waiting(PhaseKind::Over, "recv db", 0.0)
            .gauge(
                PhaseKind::Over,
                Layer::Cache,
                metric::CPU_HOTTEST,
                "",
                share,
            )
            .traced("GET /", 10, vec![call])
    }

    #[test]
    fn fires_with_the_command_that_takes_its_time() {
        check(
            hot(0.98),
            expect![[r#"
            named: RDS-04
            suspected cache (88 %): Redis' main thread is at its limit
              saw Redis' main thread uses 98 % of a core, at 240/s offered for 10 s
              saw workers wait for it 88 % of their time, at 240/s offered for 10 s
              saw 820/s commands, 1.195 ms of CPU each, at 240/s offered for 10 s
              saw HGETALL menu, once in each GET /, in App\Menu::all at app/Menu.php:14, in 10 requests that were traced, one after the other
              do: Ask Redis for what is needed instead of whole collections (SCAN, HMGET, MGET), keep what every request reads in APCu, and give sessions, cache and queue a Redis each.
        "#]],
        );
    }

    #[test]
    fn stays_silent_while_it_has_time() {
        stays_silent(
            &RULE,
            Case::healthy().gauge(PhaseKind::Over, Layer::Cache, metric::CPU_HOTTEST, "", 0.3),
        );
        stays_silent(&RULE, Case::healthy());
    }
}
