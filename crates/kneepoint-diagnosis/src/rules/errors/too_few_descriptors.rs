//! NGX-02: a server has no file descriptor left.

use crate::rule::prelude::*;

/// The limit to write at least (catalogue NGX-02), within the hard limit most systems grant.
const SANE: f64 = 16_384.0;

pub(crate) static RULE: Rule = Rule {
    code: "NGX-02",
    name: "too-few-descriptors",
    since: "0.1.0",
    layers: &[Layer::Proxy, Layer::Web, Layer::Php],
    stage: RuleStage::Errors,
    signal: UseSignal::Error,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &[],
    title: "a server has no file descriptor left",
    doc: RuleDoc {
        what_it_is: "Every connection and every open file takes one file descriptor, and the system limits how many a \
            process may have, often to 1024. A proxied connection takes two. When they run out, accepting a visitor \
            or connecting to the next server fails although memory and CPU are there.",
        how_it_shows: "The log says `accept4() failed (24: Too many open files)`, or at start `worker_connections \
            exceed open file resource limit`.",
        how_it_is_confirmed: "Compare the open files of the process with its limit (in /proc/PID/limits); raise the \
            limit, and the errors go away.",
        what_to_write: "For nginx in nginx.conf, at least twice worker_connections:\n\n    worker_rlimit_nofile 16384;\n\n\
            For PHP-FPM in the pool:\n\n    rlimit_files = 16384\n\nFor another server, \
            LimitNOFILE= of its unit in systemd, or ulimit -n before it starts.",
        references: &["https://nginx.org/en/docs/ngx_core_module.html#worker_rlimit_nofile"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let logged = evidence.logged(RULE.layers, LogKind::NoFileDescriptors)?;
    let layer = logged.layer;
    let binds = evidence.refusals_bind(logged.below_the_limit);
    let mut verdict = RULE.finds(
        layer,
        format!("the {layer} server has no file descriptor left"),
    );
    let advice = match limit_of(evidence, layer) {
        Some(name) => {
            verdict = verdict.configured(evidence.quote(layer, name));
            let now = evidence.stack.number(layer, name).unwrap_or(0.0);
            Advice::new(evidence, "Raise the limit of open files of this server.").set(
                layer,
                name,
                SANE.max(2.0 * now),
            )
        }
        None => Advice::new(
            evidence,
            "Raise the limit of open files of this server: LimitNOFILE= of its unit in systemd, or ulimit -n before it \
             starts.",
        ),
    };
    verdict
        .logged(Some(logged))
        .suspected_if(binds)
        .refuted_by(
            "as many errors with a higher limit, or far fewer files open than the limit allows",
        )
        .remedy(advice.build())
        .done()
}

/// The setting by which a server raises its own limit; `None` where it has none that is known.
fn limit_of(evidence: &Evidence, layer: Layer) -> Option<&'static str> {
    match evidence.stack.tier(layer)?.server.as_str() {
        "nginx" => Some("worker_rlimit_nofile"),
        "fpm" => Some("rlimit_files"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::ServerKind;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    #[test]
    fn fires_on_the_log_line() {
        let example = "accept4() failed (24: Too many open files)";
        let case = Case::healthy()
            .set(Layer::Proxy, "worker_rlimit_nofile", "64")
            .log(
                PhaseKind::Over,
                Layer::Proxy,
                LogKind::NoFileDescriptors,
                90,
                example,
            );
        check(
            case,
            expect![[r#"
            named: NGX-02
            suspected proxy (0 %): the proxy server has no file descriptor left
              saw proxy.worker_rlimit_nofile = 64
              saw 90 log lines: accept4() failed (24: Too many open files), at 240/s offered for 10 s
              set proxy.worker_rlimit_nofile = 16384
        "#]],
        );
    }

    #[test]
    fn gives_words_for_a_server_without_such_a_setting() {
        let out_of_files = |layer, server: &str| {
            let case = Case::healthy()
                .tier(layer, |tier| tier.server = ServerKind::new(server))
                .log(PhaseKind::Over, layer, LogKind::NoFileDescriptors, 9, "");
            let finding = (RULE.check)(&case.evidence()).expect("a finding");
            finding.remedy.expect("a remedy")
        };
        for (layer, server) in [(Layer::Proxy, "haproxy"), (Layer::Php, "apache")] {
            let remedy = out_of_files(layer, server);
            assert!(remedy.settings.is_empty(), "{remedy:?}");
            assert!(remedy.text.contains("LimitNOFILE"), "{}", remedy.text);
        }
        let fpm = out_of_files(Layer::Php, "fpm").settings;
        assert_eq!(fpm[0].key.name, "rlimit_files");
    }

    #[test]
    fn stays_silent_without_it() {
        stays_silent(&RULE, Case::healthy());
    }
}
