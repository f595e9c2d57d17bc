//! NGX-05: the proxy keeps fewer connections than it needs at once.

use crate::rule::prelude::*;
use crate::saturation::ports;

/// Share of requests on a new connection from which on too few are kept \[ours\] (catalogue NGX-05: reuse ratio
/// below 0.9).
const NEW_SHARE: f64 = 0.1;
/// Fewer requests than this are too few to judge \[ours\].
const FEWEST: f64 = 200.0;
/// CPU of opening and closing a connection on both sides, in seconds (see NGX-04).
const CONNECT_COST_S: f64 = 0.000_05;
/// What to write at least, per worker process.
const SANE: f64 = 32.0;

pub(crate) static RULE: Rule = Rule {
    code: "NGX-05",
    name: "upstream-keepalive-too-small",
    since: "0.1.0",
    layers: &[Layer::Proxy],
    stage: RuleStage::Waits,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Server("nginx"),
    requires: &[metric::ACTIVE_OPENS],
    yields_to: &[],
    title: "the proxy keeps fewer connections than it needs at once",
    doc: RuleDoc {
        what_it_is: "`keepalive N` is how many idle connections each nginx worker process keeps, not how many it may \
            use. When more requests are under way than that, the surplus connections are closed as soon as they are \
            idle and opened again a moment later: the ports and the CPU of NGX-04, only later.",
        how_it_shows: "Connections are opened at more than a tenth of the request rate although keepalive is on; it \
            begins at some concurrency. A field report kept 2 and broke down at 11 000 requests a second; 1024 was fine.",
        how_it_is_confirmed: "Raise keepalive to the number of requests under way: opening stops.",
        what_to_write: "At least the requests under way at the peak, divided by the worker processes:\n\n    upstream \
            backend {\n        server web:80;\n        keepalive 64;\n    }",
        references: &[
            "field report S4",
            "https://nginx.org/en/docs/http/ngx_http_upstream_module.html#keepalive",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let layer = Layer::Proxy;
    let kept = evidence.stack.number(layer, "upstream.keepalive")?;
    if kept <= 0.0 || !evidence.stack.tier(layer)?.own_network {
        return None;
    }
    // Above the limit requests pile up and each needs a connection at once: only the knee tells.
    let phase = evidence.phase(PhaseKind::Knee)?;
    let done = phase.load.throughput_hz() * phase.load.window_s;
    let opened = phase.series.delta(layer, metric::ACTIVE_OPENS)?;
    let under_way = phase.largest(layer, metric::NGINX_WRITING).unwrap_or(0.0);
    // The first connection of each request under way is no churn.
    let churn = (opened - under_way).max(0.0) / done.max(1.0);
    if done < FEWEST || churn < NEW_SHARE {
        return None;
    }
    let processes = evidence
        .stack
        .number(layer, "worker_processes")
        .unwrap_or_else(|| evidence.cores());
    let wanted = (2.0 * under_way / processes.max(1.0))
        .max(2.0 * kept)
        .max(SANE);
    let search = ports::search(evidence, layer);
    let each = churn * phase.load.throughput_hz() * CONNECT_COST_S / 2.0;
    let connecting = evidence.part_of_cpu(phase, &[(layer, each), (Layer::Web, each)]);
    let mut verdict = RULE
        .finds(layer, RULE.title)
        .configured(evidence.quote(layer, "upstream.keepalive"))
        .measured(
            format!(
                "{opened:.0} connections opened for {done:.0} requests, at most {under_way:.0} of which were under way at once"
            ),
            phase,
        );
    if let Some(search) = &search {
        verdict = verdict.measured(search.words.clone(), search.phase);
    }
    verdict
        .weight(connecting.max(search.map_or(0.0, |search| search.part)))
        .refuted_by("as many connections opened with twice the keepalive")
        .remedy(
            Advice::new(
                evidence,
                format!("Let the proxy keep {wanted:.0} idle connections in each worker process."),
            )
            .set(layer, "upstream.keepalive", wanted.ceil())
            .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::account::{KernelStack, NativeAccount};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    /// The kernel was met so often looking for a port, of a hundred times.
    fn searching(stacks: u64) -> NativeAccount {
        let stack = |functions: &[&str], samples| KernelStack {
            functions: functions.iter().map(|name| (*name).to_owned()).collect(),
            samples,
        };
        NativeAccount {
            layer: Some(Layer::Proxy),
            samples: 120,
            kernel: vec![
                stack(&["__sys_connect", "__inet_hash_connect"], stacks),
                stack(&["__sys_recvfrom"], 100 - stacks),
            ],
            ..NativeAccount::default()
        }
    }

    #[test]
    fn weighs_what_the_kernel_takes_to_find_a_port() {
        let case = Case::healthy()
            .set(Layer::Proxy, "upstream.keepalive", "2")
            .counter(PhaseKind::Knee, Layer::Proxy, metric::ACTIVE_OPENS, 70.0)
            .counter(PhaseKind::Knee, Layer::Proxy, metric::CPU_S, 0.8)
            .with(|evidence| evidence.native.push(searching(60)));
        check(
            case,
            expect![[r#"
            named: NGX-05
            suspected proxy (22 %): the proxy keeps fewer connections than it needs at once
              saw proxy.upstream.keepalive = 2
              saw 700 connections opened for 1900 requests, at most 9 of which were under way at once, at 190/s offered for 10 s
              saw 60 % of the kernel's work for the proxy is the search for a free local port (__inet_hash_connect), at 190/s offered for 10 s
              set proxy.upstream.keepalive = 32
        "#]],
        );
    }

    #[test]
    fn fires_when_connections_come_and_go() {
        let case = Case::healthy()
            .set(Layer::Proxy, "upstream.keepalive", "2")
            .counter(PhaseKind::Knee, Layer::Proxy, metric::ACTIVE_OPENS, 70.0);
        check(
            case,
            expect![[r#"
                named: CAP-02
                noted proxy (0.2 %): the proxy keeps fewer connections than it needs at once
                  saw proxy.upstream.keepalive = 2
                  saw 700 connections opened for 1900 requests, at most 9 of which were under way at once, at 190/s offered for 10 s
                  set proxy.upstream.keepalive = 32
            "#]],
        );
    }

    #[test]
    fn stays_silent_when_most_are_reused_or_overload_opens_more() {
        stays_silent(&RULE, Case::healthy());
        let overload =
            Case::healthy().counter(PhaseKind::Over, Layer::Proxy, metric::ACTIVE_OPENS, 60.0);
        stays_silent(&RULE, overload);
    }
}
