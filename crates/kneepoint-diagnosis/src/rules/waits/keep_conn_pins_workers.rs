//! FPM-10: kept-alive FastCGI connections pin workers that have nothing to do.

use crate::rule::prelude::*;
use crate::saturation::pool::PoolState;
use crate::saturation::waits::has_headroom;

/// Share of the pool pinned by idle connections from which on it costs \[ours\].
const PINNED: f64 = 0.25;
/// Kept connections over workers from which on the arithmetic alone is a reason (catalogue FPM-10).
const RISK: f64 = 0.5;

pub(crate) static RULE: Rule = Rule {
    code: "FPM-10",
    name: "keep-conn-pins-workers",
    since: "0.1.0",
    layers: &[Layer::Php, Layer::Web],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Server("fpm"),
    requires: &[],
    yields_to: &[],
    title: "kept-alive FastCGI connections hold PHP workers that have nothing to do",
    doc: RuleDoc {
        what_it_is: "A PHP-FPM worker serves one connection until it is closed. With `fastcgi_keep_conn on` and \
            `keepalive N` nginx keeps up to N idle connections open in each of its worker processes, and each of \
            them occupies a PHP worker that waits for a request which may never come. When N times the processes \
            reaches the size of the pool, other requests starve in the queue while the CPU is idle. A field report \
            saw its errors rise from 50 to 85 % this way and never learnt why.",
        how_it_shows: "FPM's full status shows workers in the state `Reading headers` while nothing is running; all \
            workers are active, the CPU is idle, requests wait. After the load stops the workers stay active.",
        how_it_is_confirmed: "Switch fastcgi_keep_conn off: goodput rises at once. Or stop the load and look: the \
            workers are still active.",
        what_to_write: "On a local socket connecting costs next to nothing, so in the location:\n\n    fastcgi_keep_conn \
            off;\n\nand no `keepalive` in the upstream block. Over a network keep few: keepalive times \
            worker_processes below half of pm.max_children, with a short keepalive_timeout.",
        references: &[
            "field report S1, stage 3",
            "https://nginx.org/en/docs/http/ngx_http_upstream_module.html#keepalive",
            "https://github.com/haproxy/haproxy/issues/2936",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    if evidence.stack.is_on(Layer::Web, "fastcgi_keep_conn") != Some(true) {
        return None;
    }
    let kept = kept_connections(evidence)?;
    // Overload keeps the connections that there are busy, so that none is idle: who has none starves all the same, which
    // shows below the limit.
    let starved = [
        PhaseKind::Over,
        PhaseKind::Knee,
        PhaseKind::Repeat,
        PhaseKind::Low,
    ]
    .into_iter()
    .filter_map(|kind| evidence.phase(kind))
    .find(|phase| starves(evidence, phase, kept));
    let starving = starved.is_some();
    let phase = starved.or_else(|| evidence.stressed())?;
    let pool = PoolState::read(evidence, phase)?;
    if !starving && kept < RISK * pool.max {
        return None;
    }
    RULE.finds(Layer::Php, RULE.title)
        .configured(evidence.quote(Layer::Web, "fastcgi_keep_conn"))
        .configured(format!(
            "nginx keeps up to {kept:.0} idle connections, and there are {:.0} workers",
            pool.max
        ))
        .measured(pool.describe(), phase)
        .measured(format!("{:.1} workers held by an idle connection", pool.pinned), phase)
        .suspected_if(starving)
        .weight(if starving { pool.pinned_share().max(RISK) } else { 0.0 })
        .refuted_by("as many workers active and as long a queue with fastcgi_keep_conn off")
        .remedy(
            Advice::new(
                evidence,
                "Switch kept-alive connections between nginx and PHP off; on the way to PHP-FPM they reserve workers.",
            )
            .set(Layer::Web, "fastcgi_keep_conn", "off")
            .also(Layer::Web, "upstream.keepalive", 0)
            .build(),
        )
        .done()
}

/// Whether requests wait for workers that have nothing to do.
fn starves(evidence: &Evidence, phase: &Phase, kept: f64) -> bool {
    let idle_cpu = has_headroom(evidence, phase);
    PoolState::read(evidence, phase).is_some_and(|pool| {
        let pinned = pool.pinned_share() >= PINNED;
        pool.exhausted() && idle_cpu && (pinned || unseen(phase) && kept >= pool.max)
    })
}

/// Whether nobody counted pinned workers.
fn unseen(phase: &Phase) -> bool {
    phase.pinned().is_none()
}

/// Idle connections nginx may keep towards PHP, over all its processes.
fn kept_connections(evidence: &Evidence) -> Option<f64> {
    let keepalive = evidence.stack.number(Layer::Web, "upstream.keepalive")?;
    let processes = evidence
        .stack
        .number(Layer::Web, "worker_processes")
        .unwrap_or_else(|| evidence.cores());
    (keepalive > 0.0).then_some(keepalive * processes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn keeping(connections: &str) -> Case {
        Case::healthy()
            .set(Layer::Web, "fastcgi_keep_conn", "on")
            .set(Layer::Web, "upstream.keepalive", connections)
    }

    #[test]
    fn fires_when_idle_connections_starve_the_pool() {
        let case = keeping("30")
            .machine_at(PhaseKind::Over, 0.3)
            .gauge(PhaseKind::Over, Layer::Php, metric::WORKERS_PINNED, "", 5.0)
            .running(PhaseKind::Over, 3.0);
        check(
            case,
            expect![[r#"
            named: FPM-10
            suspected php (62 %): kept-alive FastCGI connections hold PHP workers that have nothing to do
              saw web.fastcgi_keep_conn = on
              saw nginx keeps up to 60 idle connections, and there are 8 workers
              saw 8.0 of at most 8 workers busy, 120.0 requests queue before them, at 240/s offered for 10 s
              saw 5.0 workers held by an idle connection, at 240/s offered for 10 s
              set web.fastcgi_keep_conn = off
              set web.upstream.keepalive = 0
        "#]],
        );
    }

    #[test]
    fn fires_when_they_starve_it_below_the_limit_only() {
        let case = keeping("30")
            .machine_at(PhaseKind::Knee, 0.3)
            .gauge(PhaseKind::Knee, Layer::Php, metric::WORKERS_BUSY, "", 8.0)
            .gauge(PhaseKind::Knee, Layer::Php, metric::QUEUE, "", 6.0)
            .gauge(PhaseKind::Knee, Layer::Php, metric::WORKERS_PINNED, "", 5.0)
            .running(PhaseKind::Knee, 3.0);
        check(
            case,
            expect![[r#"
            named: FPM-10
            suspected php (62 %): kept-alive FastCGI connections hold PHP workers that have nothing to do
              saw web.fastcgi_keep_conn = on
              saw nginx keeps up to 60 idle connections, and there are 8 workers
              saw 8.0 of at most 8 workers busy, 6.0 requests queue before them, at 190/s offered for 10 s
              saw 5.0 workers held by an idle connection, at 190/s offered for 10 s
              set web.fastcgi_keep_conn = off
              set web.upstream.keepalive = 0
        "#]],
        );
    }

    #[test]
    fn only_notes_the_risk() {
        check(
            keeping("4"),
            expect![[r#"
            named: CAP-02
            noted php (0 %): kept-alive FastCGI connections hold PHP workers that have nothing to do
              saw web.fastcgi_keep_conn = on
              saw nginx keeps up to 8 idle connections, and there are 8 workers
              saw 8.0 of at most 8 workers busy, 120.0 requests queue before them, at 240/s offered for 10 s
              saw 0.0 workers held by an idle connection, at 240/s offered for 10 s
              set web.fastcgi_keep_conn = off
              set web.upstream.keepalive = 0
        "#]],
        );
    }

    #[test]
    fn stays_silent_with_few_kept_or_none() {
        stays_silent(&RULE, keeping("1"));
        stays_silent(&RULE, Case::healthy());
    }
}
