//! NGX-04: the proxy opens a connection to the web server for every request.

use crate::rule::prelude::*;
use crate::saturation::ports;
use kneepoint_model::ports::CLIFF;

/// Connections opened per request from which on nothing is reused (catalogue NGX-04: opens a second about equal
/// to requests a second).
const PER_REQUEST: f64 = 0.5;
/// Fewer requests than this are too few to judge \[ours\].
const FEWEST: f64 = 50.0;
/// CPU of opening and closing a connection on both sides, in seconds: 19 900/s against 37 000/s with keepalive on
/// the same two cores (catalogue NGX-04).
const CONNECT_COST_S: f64 = 0.000_05;
/// What to write at least, per worker process.
const SANE: f64 = 32.0;

pub(crate) static RULE: Rule = Rule {
    code: "NGX-04",
    name: "upstream-keepalive-missing",
    since: "0.1.0",
    layers: &[Layer::Proxy],
    stage: RuleStage::Waits,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Server("nginx"),
    requires: &[metric::ACTIVE_OPENS],
    yields_to: &[],
    title: "the proxy opens a connection to the web server for every request",
    doc: RuleDoc {
        what_it_is: "Until version 1.29.7 nginx closes its connection to the next server after each request. Opening \
            one costs a round trip and CPU on both sides, and its local port stays taken for a minute. With some \
            hundred requests a second the ports run short (KRN-01), and the kernel spends its time looking for a \
            free one. A field report found 93 % of the proxy's CPU samples in connect.",
        how_it_shows: "Connections opened per second about equal requests per second; thousands of sockets in \
            TIME_WAIT; system CPU of the proxy rises steeply at some rate.",
        how_it_is_confirmed: "Switch keepalive on: on the same machine a laboratory run went from 19 900 to 37 000 \
            requests a second.",
        what_to_write: "In the proxy (the last two lines are the default since nginx 1.29.7):\n\n    upstream backend {\n        \
            server web:80;\n        keepalive 32;\n    }\n    location / {\n        proxy_pass http://backend;\n        \
            proxy_http_version 1.1;\n        proxy_set_header Connection \"\";\n    }",
        references: &[
            "field report S4",
            "https://nginx.org/en/docs/http/ngx_http_upstream_module.html#keepalive",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let layer = Layer::Proxy;
    if !evidence.stack.tier(layer)?.own_network || keeps(evidence) {
        return None;
    }
    let phase = evidence.knee()?;
    let opens_hz = phase.series.rate(layer, metric::ACTIVE_OPENS)?;
    let done_hz = phase.load.throughput_hz();
    let share = opens_hz / done_hz.max(f64::MIN_POSITIVE);
    if share < PER_REQUEST || done_hz * phase.load.window_s < FEWEST {
        return None;
    }
    let ports = port_share(evidence);
    let each = opens_hz * CONNECT_COST_S / 2.0;
    let cost = evidence.part_of_cpu(phase, &[(layer, each), (Layer::Web, each)]);
    let in_flight = evidence
        .stressed()
        .and_then(|phase| phase.largest(layer, metric::NGINX_WRITING));
    let processes = evidence
        .stack
        .number(layer, "worker_processes")
        .unwrap_or_else(|| evidence.cores());
    let at_knee = phase.largest(layer, metric::NGINX_WRITING).or(in_flight);
    let wanted = (at_knee.unwrap_or(0.0) / processes.max(1.0))
        .ceil()
        .max(SANE);
    let mut verdict = RULE
        .finds(layer, RULE.title)
        .configured(evidence.quote(layer, "upstream.keepalive"))
        .measured(
            format!(
                "{} connections opened, {share:.2} for each request",
                format_rate(opens_hz)
            ),
            phase,
        );
    if let Some((taken, when)) = ports {
        verdict = verdict.measured(
            format!(
                "{} of the local ports towards one peer taken",
                format_share(taken)
            ),
            when,
        );
    }
    let search = ports::search(evidence, layer);
    if let Some(search) = &search {
        verdict = verdict.measured(search.words.clone(), search.phase);
    }
    let cost = cost.max(search.map_or(0.0, |search| search.part));
    let at_cliff = ports.is_some_and(|(taken, _)| taken >= CLIFF);
    verdict
        .weight(if at_cliff { CLIFF } else { cost })
        .gain(format!(
            "about {} of the limit at this rate; local ports last far longer (KRN-01)",
            format_share(cost)
        ))
        .refuted_by("as many connections opened with upstream keepalive on")
        .remedy(
            Advice::new(
                evidence,
                format!(
                    "Let the proxy keep {wanted:.0} idle connections to the web server in each worker process \
                     (keepalive in the upstream block, HTTP/1.1, and no Connection header)."
                ),
            )
            .set(layer, "upstream.keepalive", wanted)
            .build(),
        )
        .done()
}

fn keeps(evidence: &Evidence) -> bool {
    let name = "upstream.keepalive";
    evidence
        .stack
        .number(Layer::Proxy, name)
        .is_some_and(|kept| kept > 0.0)
}

/// The most of its local ports towards one peer that the proxy held just below the limit, and when. Overload opens
/// connections beyond what any idle list keeps: that is the queue's doing, as for KRN-01.
fn port_share(evidence: &Evidence) -> Option<(f64, &Phase)> {
    let is_quoted = |phase: &&Phase| matches!(phase.kind, PhaseKind::Knee | PhaseKind::Repeat);
    evidence
        .phases
        .iter()
        .filter(is_quoted)
        .flat_map(|phase| ports::uses(evidence, phase, RULE.layers))
        .map(|used| (used.held / used.range, used.phase))
        .max_by(|a, b| a.0.total_cmp(&b.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn opening() -> Case {
        Case::healthy()
            .set(Layer::Proxy, "upstream.keepalive", "0")
            .counter(PhaseKind::Knee, Layer::Proxy, metric::ACTIVE_OPENS, 190.0)
    }

    #[test]
    fn fires_when_every_request_opens_a_connection() {
        check(
            opening(),
            expect![[r#"
                named: CAP-02
                noted proxy (0.5 %): the proxy opens a connection to the web server for every request
                  saw proxy.upstream.keepalive = 0
                  saw 190/s connections opened, 1.00 for each request, at 190/s offered for 10 s
                  saw 0.1 % of the local ports towards one peer taken, at 190/s offered for 10 s
                  set proxy.upstream.keepalive = 32
            "#]],
        );
    }

    #[test]
    fn comes_before_the_ports_it_uses_up() {
        let case = opening().gauge(
            PhaseKind::Knee,
            Layer::Proxy,
            metric::TIME_WAIT,
            "web",
            16_000.0,
        );
        check(
            case,
            expect![[r#"
            named: NGX-04
            suspected proxy (50 %): the proxy opens a connection to the web server for every request
              saw proxy.upstream.keepalive = 0
              saw 190/s connections opened, 1.00 for each request, at 190/s offered for 10 s
              saw 57 % of the local ports towards one peer taken, at 190/s offered for 10 s
              set proxy.upstream.keepalive = 32
        "#]],
        );
    }

    #[test]
    fn ports_count_at_the_rate_that_is_quoted_and_not_beyond_the_limit() {
        let weight = |kind| {
            let case =
                opening()
                    .repeated()
                    .gauge(kind, Layer::Proxy, metric::TIME_WAIT, "web", 16_000.0);
            let finding = (RULE.check)(&case.evidence());
            finding.expect("a finding").weight
        };
        assert!(weight(PhaseKind::Over) < CLIFF);
        assert!(weight(PhaseKind::Repeat) >= CLIFF);
    }

    #[test]
    fn stays_silent_with_keepalive_or_without_a_namespace() {
        stays_silent(&RULE, Case::healthy());
        let shared = opening().tier(Layer::Proxy, |tier| tier.own_network = false);
        stays_silent(&RULE, shared);
    }
}
