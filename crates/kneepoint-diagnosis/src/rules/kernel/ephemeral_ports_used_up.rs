//! KRN-01: a tier runs out of local ports towards the next one.

use crate::rule::prelude::*;
use crate::saturation::ports;
use kneepoint_model::ports::{CLIFF, count_of_range};

/// The setting.
const RANGE: &str = "net.ipv4.ip_local_port_range";
/// A range smaller than this was narrowed by somebody \[ours\]; the default has 28 232 ports.
const NARROW: f64 = 20_000.0;
/// The range to write \[ours\]: servers listen below it, and one whose port a connection holds does not start again.
const WIDE: &str = "15000 65535";
/// Connections opened per request from which on reuse is what is missing.
const NO_REUSE: f64 = 0.2;

pub(crate) static RULE: Rule = Rule {
    code: "KRN-01",
    name: "ephemeral-ports-used-up",
    since: "0.1.0",
    layers: &[Layer::Proxy, Layer::Web, Layer::Php],
    stage: RuleStage::Kernel,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &[],
    title: "a tier runs out of local ports towards the next one",
    doc: RuleDoc {
        what_it_is: "Every connection a server opens takes one local port, and the port stays taken for a minute \
            after the connection was closed (TIME_WAIT). About 28 000 ports are there by default, for each address \
            and port connected to. Opening a connection for every request uses them up at a few hundred requests a \
            second. Trouble starts at half of them, without an error: the kernel looks for a free port in ever \
            longer searches and burns CPU.",
        how_it_shows: "Thousands of sockets in TIME_WAIT towards one peer; system CPU rises steeply and throughput \
            falls; at the end `connect() failed (99: Cannot assign requested address)`. A test on one machine hides \
            it, since ports on the loopback device are reused at once.",
        how_it_is_confirmed: "Widen the range or reuse connections: the limit moves at once.",
        what_to_write: "Reuse connections first (keepalive between nginx tiers, persistent connections to Redis and \
            the database). Then, in the network namespace (the container) that connects:\n\n    sysctl \
            net.ipv4.ip_local_port_range=\"15000 65535\"\n    sysctl net.ipv4.tcp_tw_reuse=1\n\nNot lower: services \
            listen there (3306, 5432, 6379, 9000), and one whose port a connection holds does not start again.",
        references: &[
            "field report S4",
            "https://blog.cloudflare.com/linux-transport-protocol-port-selection-performance/",
            "https://docs.kernel.org/networking/ip-sysctl.html",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let logged = evidence.logged(RULE.layers, LogKind::NoLocalPort);
    let worst = evidence
        .phases
        .iter()
        // Overload opens connections beyond what any idle list keeps: that is the queue's doing, not the ports'.
        .filter(|phase| phase.kind != PhaseKind::Over)
        .flat_map(|phase| ports::uses(evidence, phase, RULE.layers))
        .filter(|used| used.held >= CLIFF * used.range && used.keeps_up())
        .max_by(|a, b| (a.held / a.range).total_cmp(&(b.held / b.range)));
    let (layer, range, binds) = match (&worst, &logged) {
        (Some(used), _) => (used.layer, Some(used.range), true),
        (None, Some(logged)) => {
            let set = evidence.stack.setting(logged.layer, RANGE);
            let binds = evidence.refusals_bind(logged.below_the_limit);
            (logged.layer, set.map(count_of_range), binds)
        }
        (None, None) => return None,
    };
    let narrow = range.is_some_and(|range| range < NARROW);
    let opens_anew = opens_per_request(evidence, layer).is_some_and(|share| share > NO_REUSE);
    let mut verdict = RULE
        .finds(
            layer,
            format!("{layer} runs out of local ports towards the next tier"),
        )
        .configured(evidence.quote(layer, RANGE))
        // With a range of ordinary size it is the missing reuse that uses it up, and another rule names that.
        .suspected_if(binds && (narrow || !opens_anew));
    if let Some(used) = &worst {
        verdict = verdict
            .measured(
                format!(
                    "{:.0} of {:.0} local ports towards {} taken, most by closed connections",
                    used.held, used.range, used.peer
                ),
                used.phase,
            )
            .weight(used.held / used.range);
    }
    if let Some(search) = ports::search(evidence, layer) {
        verdict = verdict.measured(search.words, search.phase);
    }
    verdict = verdict.logged(logged);
    verdict
        .refuted_by("the same limit with a range of 50 000 ports")
        .remedy(more_ports(evidence, layer, worst.as_ref()).build())
        .done()
}

/// Reuse, and more ports where there are fewer than could be.
fn more_ports<'a>(
    evidence: &'a Evidence,
    layer: Layer,
    worst: Option<&ports::Use<'_>>,
) -> Advice<'a> {
    let set = evidence.stack.setting(layer, RANGE).unwrap_or_default();
    let now = worst.map_or_else(|| count_of_range(set), |used| used.range);
    if now >= count_of_range(WIDE) {
        let text = "Reuse connections to the next tier. net.ipv4.tcp_tw_reuse = 1 helps where reuse is impossible.";
        return Advice::new(evidence, text);
    }
    Advice::new(
        evidence,
        "Reuse connections to the next tier; and let the host use more ports, from 15000 on: services listen below, and one \
         whose port a connection holds does not start again. net.ipv4.tcp_tw_reuse = 1 helps where reuse is impossible.",
    )
    .set(layer, RANGE, WIDE)
}

fn opens_per_request(evidence: &Evidence, layer: Layer) -> Option<f64> {
    let phase = evidence.knee()?;
    let done = phase.load.throughput_hz();
    (done > 0.0).then_some(phase.series.rate(layer, metric::ACTIVE_OPENS)? / done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    #[test]
    fn fires_when_a_narrow_range_fills() {
        let case = Case::healthy()
            .set(Layer::Proxy, "net.ipv4.ip_local_port_range", "32768 33791")
            .everywhere(Layer::Proxy, metric::PORT_RANGE, "", 1024.0)
            .gauge(
                PhaseKind::Knee,
                Layer::Proxy,
                metric::TIME_WAIT,
                "web",
                990.0,
            )
            .counter(PhaseKind::Knee, Layer::Proxy, metric::ACTIVE_OPENS, 20.0)
            .log(
                PhaseKind::Over,
                Layer::Proxy,
                LogKind::NoLocalPort,
                55,
                "(99: Cannot assign requested address)",
            );
        check(
            case,
            expect![[r#"
                named: KRN-01
                suspected proxy (95 %): proxy runs out of local ports towards the next tier
                  saw proxy.net.ipv4.ip_local_port_range = 32768 33791
                  saw 990 of 1024 local ports towards web taken, most by closed connections, at 190/s offered for 10 s
                  saw 55 log lines: (99: Cannot assign requested address), at 240/s offered for 10 s
                  set proxy.net.ipv4.ip_local_port_range = 15000 65535
            "#]],
        );
    }

    #[test]
    fn only_notes_a_full_range_of_ordinary_size_where_reuse_is_missing() {
        let case = Case::healthy()
            .set(Layer::Proxy, "upstream.keepalive", "0")
            .gauge(
                PhaseKind::Knee,
                Layer::Proxy,
                metric::TIME_WAIT,
                "web",
                17_000.0,
            )
            .counter(PhaseKind::Knee, Layer::Proxy, metric::ACTIVE_OPENS, 290.0);
        check(
            case,
            expect![[r#"
            named: NGX-04
            noted proxy (60 %): proxy runs out of local ports towards the next tier
              saw proxy.net.ipv4.ip_local_port_range = (not set)
              saw 17000 of 28232 local ports towards web taken, most by closed connections, at 190/s offered for 10 s
              set proxy.net.ipv4.ip_local_port_range = 15000 65535
        "#]],
        );
    }

    #[test]
    fn takes_no_ports_from_a_range_that_is_wider() {
        let case = Case::healthy()
            .set(Layer::Proxy, "net.ipv4.ip_local_port_range", "1024 65535")
            .log(PhaseKind::Low, Layer::Proxy, LogKind::NoLocalPort, 55, "");
        let finding = (RULE.check)(&case.evidence()).expect("a finding");
        assert!(finding.remedy.expect("a remedy").settings.is_empty());
    }

    /// The log's words are exact, whatever the load was when they were written.
    #[test]
    fn fires_on_the_log_line_alone() {
        let case = Case::healthy().log(
            PhaseKind::Low,
            Layer::Proxy,
            LogKind::NoLocalPort,
            55,
            "(99: Cannot assign requested address)",
        );
        check(
            case,
            expect![[r#"
            named: KRN-01
            suspected proxy (0 %): proxy runs out of local ports towards the next tier
              saw proxy.net.ipv4.ip_local_port_range = (not set)
              saw 55 log lines: (99: Cannot assign requested address), at 60.0/s offered for 10 s
              set proxy.net.ipv4.ip_local_port_range = 15000 65535
        "#]],
        );
    }

    #[test]
    fn stays_silent_about_what_an_earlier_overload_left() {
        let case = Case::healthy()
            .gauge(
                PhaseKind::Knee,
                Layer::Proxy,
                metric::TIME_WAIT,
                "web",
                20_000.0,
            )
            .counter(PhaseKind::Knee, Layer::Proxy, metric::ACTIVE_OPENS, 3.0);
        stays_silent(&RULE, case);
    }

    #[test]
    fn stays_silent_with_ports_to_spare_or_without_a_namespace() {
        stays_silent(&RULE, Case::healthy());
        let shared = Case::healthy()
            .tier(Layer::Proxy, |tier| tier.own_network = false)
            .gauge(
                PhaseKind::Knee,
                Layer::Proxy,
                metric::TIME_WAIT,
                "web",
                20_000.0,
            );
        stays_silent(&RULE, shared);
    }
}
