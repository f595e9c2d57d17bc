//! NGX-01: nginx has no connection slot left.

use crate::rule::prelude::*;

/// The value to write at least (catalogue NGX-01).
const SANE: f64 = 4096.0;
/// Descriptors per connection: nginx's own and one to the next tier.
const DESCRIPTORS: f64 = 2.0;

pub(crate) static RULE: Rule = Rule {
    code: "NGX-01",
    name: "too-few-worker-connections",
    since: "0.1.0",
    layers: &[Layer::Proxy, Layer::Web],
    stage: RuleStage::Errors,
    signal: UseSignal::Error,
    applies_to: AppliesTo::Server("nginx"),
    requires: &[],
    yields_to: &[],
    title: "nginx has no connection slot left",
    doc: RuleDoc {
        what_it_is: "Each nginx worker process holds at most worker_connections connections. A visitor who is proxied \
            counts twice: once towards the visitor, once towards PHP. When the slots are used up, nginx accepts the \
            next connection and closes it at once, without any status code.",
        how_it_shows: "The error log says `1024 worker_connections are not enough`, clients see resets, and \
            stub_status counts more connections accepted than handled.",
        how_it_is_confirmed: "Quadruple worker_connections: the resets go away at the same rate.",
        what_to_write: "In nginx.conf:\n\n    worker_rlimit_nofile 16384;\n    events {\n        worker_connections 4096;\n    }",
        references: &[
            "https://nginx.org/en/docs/ngx_core_module.html#worker_connections",
            "https://nginx.org/en/docs/http/ngx_http_stub_status_module.html",
            "field report S1, stage 4",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let logged = evidence.logged(RULE.layers, LogKind::NoConnectionSlots);
    let most_dropped = RULE
        .layers
        .iter()
        .flat_map(|layer| evidence.phases.iter().map(move |phase| (*layer, phase)))
        .filter_map(|(layer, phase)| Some((layer, phase, dropped(phase, layer)?)))
        .max_by(|a, b| a.2.total_cmp(&b.2));
    let layer = logged
        .as_ref()
        .map(|logged| logged.layer)
        .or(most_dropped.as_ref().map(|found| found.0))?;
    let drops_below = evidence
        .phases
        .iter()
        .filter(|phase| phase.kind != PhaseKind::Over)
        .any(|phase| dropped(phase, layer).is_some());
    let below = drops_below || logged.as_ref().is_some_and(|it| it.below_the_limit);
    let mut verdict = RULE
        .finds(layer, RULE.title)
        .suspected_if(evidence.refusals_bind(below))
        .configured(evidence.quote(layer, "worker_connections"));
    verdict = verdict.logged(logged);
    if let Some((_, phase, count)) = most_dropped {
        verdict = verdict
            .measured(
                format!("{count:.0} connections accepted and not handled"),
                phase,
            )
            .weight(count / phase.load.arrivals.max(1) as f64);
    }
    let now = evidence
        .stack
        .number(layer, "worker_connections")
        .unwrap_or(0.0);
    let wanted = SANE.max(4.0 * now);
    let files = evidence.stack.number(layer, "worker_rlimit_nofile");
    let mut advice = Advice::new(
        evidence,
        format!("Raise worker_connections of the {layer} nginx to {wanted:.0}, with descriptors to match."),
    )
    .set(layer, "worker_connections", wanted);
    // Where nobody set it, the system's limit holds, often 1024: too few for these connections (NGX-02).
    if files.is_none_or(|files| files < DESCRIPTORS * wanted) {
        advice = advice.also(layer, "worker_rlimit_nofile", DESCRIPTORS * wanted);
    }
    verdict
        .refuted_by("as many resets with four times the slots")
        .remedy(advice.build())
        .done()
}

/// Connections accepted and not handled, more than sampling can explain.
fn dropped(phase: &Phase, layer: Layer) -> Option<f64> {
    let accepted = phase.series.delta(layer, metric::NGINX_ACCEPTS)?;
    let handled = phase.series.delta(layer, metric::NGINX_HANDLED)?;
    (accepted - handled > 1.0).then_some(accepted - handled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    #[test]
    fn fires_on_the_log_line_and_on_the_counters() {
        let case = Case::healthy()
            .set(Layer::Web, "worker_connections", "64")
            .set(Layer::Web, "worker_rlimit_nofile", "1024")
            .log(
                PhaseKind::Over,
                Layer::Web,
                LogKind::NoConnectionSlots,
                211,
                "64 worker_connections are not enough",
            );
        check(
            case,
            expect![[r#"
            named: NGX-01
            suspected web (0 %): nginx has no connection slot left
              saw web.worker_connections = 64
              saw 211 log lines: 64 worker_connections are not enough, at 240/s offered for 10 s
              set web.worker_connections = 4096
              set web.worker_rlimit_nofile = 8192
        "#]],
        );
        let counted = Case::healthy()
            .counter(PhaseKind::Over, Layer::Proxy, metric::NGINX_ACCEPTS, 500.0)
            .counter(PhaseKind::Over, Layer::Proxy, metric::NGINX_HANDLED, 380.0);
        check(
            counted,
            expect![[r#"
            named: NGX-01
            suspected proxy (50 %): nginx has no connection slot left
              saw proxy.worker_connections = 1024
              saw 1200 connections accepted and not handled, at 240/s offered for 10 s
              set proxy.worker_connections = 4096
              set proxy.worker_rlimit_nofile = 8192
        "#]],
        );
    }

    #[test]
    fn leaves_descriptors_alone_where_they_suffice() {
        let case = Case::healthy()
            .set(Layer::Web, "worker_rlimit_nofile", "16384")
            .log(
                PhaseKind::Over,
                Layer::Web,
                LogKind::NoConnectionSlots,
                3,
                "",
            );
        let finding = (RULE.check)(&case.evidence()).expect("a finding");
        assert_eq!(finding.remedy.expect("a remedy").settings.len(), 1);
    }

    #[test]
    fn stays_silent_when_every_connection_was_handled() {
        stays_silent(&RULE, Case::healthy());
    }
}
