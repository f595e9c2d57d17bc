//! RDS-01: every request opens a connection to Redis.

use crate::advice::app_switch;
use crate::causes::database::fleeting_words;
use crate::rule::prelude::*;
use crate::saturation::ports::does_not_last;

/// Connections per request PHP served from which on connecting is the habit: the brief ones of a mix in which not
/// every page uses Redis count too \[ours\]. Kept connections give about 1 per max_requests.
const PER_REQUEST: f64 = 0.2;
/// Fewer connections than this are too few to judge \[ours\].
const FEWEST: f64 = 20.0;
/// CPU of a connect, its AUTH and SELECT and the close, on both sides together, in seconds (catalogue section 0,
/// fact 5: 54 us of system time a request on one side).
const CONNECT_COST_S: f64 = 0.000_15;

pub(crate) static RULE: Rule = Rule {
    code: "RDS-01",
    name: "redis-connect-per-request",
    since: "0.1.0",
    layers: &[Layer::Cache],
    stage: RuleStage::Waits,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Server("redis"),
    requires: &[metric::REDIS_CONNECTIONS],
    yields_to: &["RDS-02"],
    title: "every request opens a connection to Redis",
    doc: RuleDoc {
        what_it_is: "PHP forgets everything between requests, connections included. Unless told otherwise it connects \
            to Redis at the start of each request, logs in, selects a database, and closes at the end, often twice \
            (session and cache). Each time costs a round trip and a local port that stays taken for a minute. With \
            Redis on another machine a few hundred requests a second use up the ports (KRN-01). A field \
            report suspected every other layer first; keeping sessions in files instead of Redis brought its errors \
            down to 0.03 %.",
        how_it_shows: "`total_connections_received` of Redis grows as fast as the requests; PHP's host has thousands of \
            sockets in TIME_WAIT towards port 6379; slow logs end in connect of PhpRedis.",
        how_it_is_confirmed: "Switch persistent connections on, and compare at the same rate.",
        what_to_write: "PhpRedis: pconnect instead of connect, with an id for each use. Laravel, config/database.php:\n\n    \
            'default' => [\n        'persistent' => true,\n        'persistent_id' => 'default',\n        ...\n    ],\n\n\
            PHP's own sessions:\n\n    session.save_path = \"tcp://redis:6379?persistent=1\"\n\nand let Redis accept \
            more clients than workers times databases.",
        references: &["field report S1", "https://github.com/phpredis/phpredis"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let phase = evidence.knee()?;
    let opened = phase
        .series
        .delta(Layer::Cache, metric::REDIS_CONNECTIONS)?;
    let hz = phase.series.rate(Layer::Cache, metric::REDIS_CONNECTIONS)?;
    let share = hz / phase.pool_hz().max(f64::MIN_POSITIVE);
    if share < PER_REQUEST || opened < FEWEST || phase.is_recycling(hz) {
        return None;
    }
    let commands = phase.series.rate(Layer::Cache, metric::REDIS_COMMANDS);
    let connecting = phase.connecting(Layer::Cache);
    let each = hz * CONNECT_COST_S / 2.0;
    let cpu = evidence.part_of_cpu(phase, &[(Layer::Php, each), (Layer::Cache, each)]);
    let fleeting = does_not_last(evidence, phase, Layer::Cache, hz);
    let cost = cpu.max(connecting).max(fleeting);
    let mut verdict = RULE
        .finds(Layer::Cache, RULE.title)
        .measured(
            format!("{} connections accepted, {share:.2} for each request PHP served", format_rate(hz)),
            phase,
        )
        .gain(format!(
            "about {} of the limit, from {:.0} us of CPU for each connect; more where Redis is on another machine",
            format_share(cpu),
            CONNECT_COST_S * 1e6
        ));
    if let Some(commands) = commands {
        verdict = verdict.measured(
            format!("{:.1} commands for each connection", commands / hz),
            phase,
        );
    }
    if connecting > 0.0 {
        verdict = verdict.measured(
            format!(
                "{} of the busy workers wait in connect",
                format_share(connecting)
            ),
            phase,
        );
    }
    if fleeting > 0.0 {
        verdict = verdict.measured(fleeting_words(fleeting), phase);
    }
    verdict
        .inside(evidence.seen_calls(CallKind::Connect, |call| call.peer == Layer::Cache.name()))
        .weight(cost)
        .refuted_by("as many connections accepted with persistent connections on")
        .remedy(
            Advice::new(
                evidence,
                "Keep connections to Redis between requests: pconnect in PhpRedis, `persistent` in Laravel's \
                 config/database.php, `persistent=1` in session.save_path.",
            )
            .set_all(app_switch(evidence, "redis.persistent"))
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

    fn connecting(hz: f64) -> Case {
        Case::healthy()
            .set(Layer::App, "redis.persistent", "false")
            .counter(PhaseKind::Knee, Layer::Cache, metric::REDIS_CONNECTIONS, hz)
    }

    #[test]
    fn notes_that_requests_connect_and_uses_the_switch_of_the_application() {
        check(
            connecting(380.0),
            expect![[r#"
                named: CAP-02
                noted cache (3.2 %): every request opens a connection to Redis
                  saw 380/s connections accepted, 2.00 for each request PHP served, at 190/s offered for 10 s
                  saw 2.0 commands for each connection, at 190/s offered for 10 s
                  set app.redis.persistent = true
            "#]],
        );
    }

    #[test]
    fn fires_when_the_connections_take_more_ports_than_last() {
        let case = connecting(380.0)
            .everywhere(Layer::Php, metric::PORT_RANGE, "", 28_232.0)
            .gauge(
                PhaseKind::Knee,
                Layer::Php,
                metric::TIME_WAIT,
                "cache",
                3_600.0,
            );
        check(
            case,
            expect![[r#"
                named: RDS-01
                suspected cache (38 %): every request opens a connection to Redis
                  saw 380/s connections accepted, 2.00 for each request PHP served, at 190/s offered for 10 s
                  saw 2.0 commands for each connection, at 190/s offered for 10 s
                  saw 38 % of that rate lasts less than a minute: each closed connection keeps a local port for so long, at 190/s offered for 10 s
                  set app.redis.persistent = true
            "#]],
        );
    }

    #[test]
    fn notes_connections_that_cost_little() {
        check(
            connecting(60.0),
            expect![[r#"
                named: CAP-02
                noted cache (0.5 %): every request opens a connection to Redis
                  saw 60.0/s connections accepted, 0.32 for each request PHP served, at 190/s offered for 10 s
                  saw 12.7 commands for each connection, at 190/s offered for 10 s
                  set app.redis.persistent = true
            "#]],
        );
    }

    #[test]
    fn proposes_nothing_that_is_to_be_kept() {
        check(
            connecting(380.0).keep("app.redis.persistent"),
            expect![[r#"
                named: CAP-02
                noted cache (3.2 %): every request opens a connection to Redis
                  saw 380/s connections accepted, 2.00 for each request PHP served, at 190/s offered for 10 s
                  saw 2.0 commands for each connection, at 190/s offered for 10 s
                  do: Keep connections to Redis between requests: pconnect in PhpRedis, `persistent` in Laravel's config/database.php, `persistent=1` in session.save_path. Not proposed as a change: app.redis.persistent = true, since it is to be kept as it is.
            "#]],
        );
    }

    #[test]
    fn stays_silent_when_connections_are_kept_or_workers_are_new() {
        stays_silent(&RULE, Case::healthy());
        let churn =
            connecting(60.0).counter(PhaseKind::Knee, Layer::Php, metric::WORKER_STARTS, 40.0);
        stays_silent(&RULE, churn);
        // Most workers that serve one request are gone before anybody counts them; the log has them all.
        let said = "child 7 exited with code 0";
        let short = connecting(190.0)
            .counter(PhaseKind::Knee, Layer::Php, metric::WORKER_STARTS, 25.0)
            .log(
                PhaseKind::Knee,
                Layer::Php,
                LogKind::WorkerRecycled,
                1900,
                said,
            );
        stays_silent(&RULE, short);
    }
}
