//! NGX-13: nginx waits until somebody reads its log.

use crate::rule::prelude::*;
use kneepoint_model::Series;

/// Share of the time of nginx's processes from which on it is what binds \[ours\]: as for a lock that all pages pass through.
const BINDS: f64 = 0.25;
/// The same from which on it is worth a note \[ours\].
const NOTICEABLE: f64 = 0.05;
/// The calls in which nginx waits for the reader of a pipe, as telemetry names them: one with a name, or what nginx was
/// started with.
const FULL: [&str; 3] = ["send pipe", "send stdout", "send stderr"];
const LOG: &str = "access_log";
const DO: &str = "Write the access log into a file, with buffer=64k flush=1s, and let another program bring the lines on from there. Or \
    log less: conditions (if=), shorter lines, or access_log off where another server logs the same requests. A buffer alone does not \
    help: it makes fewer writes of the same bytes.";

pub(crate) static RULE: Rule = Rule {
    code: "NGX-13",
    name: "access-log-unbuffered",
    since: "0.1.0",
    layers: &[Layer::Proxy, Layer::Web],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Server("nginx"),
    requires: &[metric::EVENT_LOOPS],
    yields_to: &[],
    title: "nginx waits until somebody reads its log",
    doc: RuleDoc {
        what_it_is: "A process of nginx serves thousands of connections and writes its log in between. A file takes every line at once. \
            The pipe of a container's log (/dev/stdout) holds 64 KiB; while it is full, the process sleeps in write, and with it all \
            that it serves. No more requests are served than the reader of the log takes lines.",
        how_it_shows: "Processes of nginx sleep in write to a pipe while the CPU is idle; responses are late by the same time for \
            static files and for PHP. Without a buffer each request is a write of its own, in a file, too.",
        how_it_is_confirmed: "Switch access_log off for one run: the limit rises to what the CPU allows.",
        what_to_write: "Into a file, from which another program brings the lines on:\n\n    access_log /var/log/nginx/access.log combined \
            buffer=64k flush=1s;\n\nor, where the log must be the container's, less of it:\n\n    map $status $loggable { ~^[23] 0; \
            default 1; }\n    access_log /dev/stdout combined if=$loggable;",
        references: &[
            "https://nginx.org/en/docs/http/ngx_http_log_module.html",
            "https://man7.org/linux/man-pages/man7/pipe.7.html",
            "field report S5",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let phases = [PhaseKind::Over, PhaseKind::Knee];
    let phases = phases.into_iter().filter_map(|kind| evidence.phase(kind));
    let seen = phases.flat_map(|phase| {
        let of_layer = move |layer: &Layer| Some((*layer, share(phase, *layer)?, phase));
        RULE.layers.iter().filter_map(of_layer)
    });
    let (layer, share, phase) = seen
        .filter(|(_, share, _)| *share >= NOTICEABLE)
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let text = format!(
        "processes of nginx wait for the reader of a pipe {} of the time",
        format_share(share)
    );
    RULE.finds(layer, RULE.title)
        .configured(evidence.quote(layer, LOG))
        .measured(text, phase)
        .cpu_used(evidence, phase)
        .suspected_if(share >= BINDS)
        .weight(share)
        .refuted_by("the same limit with access_log off")
        .remedy(Advice::new(evidence, DO).set(layer, LOG, "off").build())
        .done()
}

/// The share of the time of a tier's processes that they wait for the reader of a pipe.
fn share(phase: &Phase, layer: Layer) -> Option<f64> {
    let all = phase.series.all(layer, metric::EVENT_LOOPS);
    let full = all.filter(|series| FULL.contains(&series.label.as_str()));
    full.filter_map(Series::mean).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    /// The web server's processes wait for this share of the time.
    fn waiting(call: &str, share: f64) -> Case {
        Case::healthy()
            .set(Layer::Web, LOG, "on")
            .machine_at(PhaseKind::Over, 0.2)
            .gauge(
                PhaseKind::Over,
                Layer::Web,
                metric::EVENT_LOOPS,
                call,
                share,
            )
    }

    #[test]
    fn fires_when_the_reader_of_a_pipe_is_slow() {
        check(
            waiting("send pipe", 0.8),
            expect![[r#"
            named: NGX-13
            suspected web (80 %): nginx waits until somebody reads its log
              saw web.access_log = on
              saw processes of nginx wait for the reader of a pipe 80 % of the time, at 240/s offered for 10 s
              saw 20 % of the machine's 2 cores used, at 240/s offered for 10 s
              set web.access_log = off
        "#]],
        );
    }

    #[test]
    fn only_notes_a_short_wait() {
        check(
            waiting("send stdout", 0.1),
            expect![[r#"
            named: CAP-02
            noted web (10 %): nginx waits until somebody reads its log
              saw web.access_log = on
              saw processes of nginx wait for the reader of a pipe 10 % of the time, at 240/s offered for 10 s
              saw 20 % of the machine's 2 cores used, at 240/s offered for 10 s
              set web.access_log = off
        "#]],
        );
    }

    #[test]
    fn stays_silent_where_it_waits_for_events_or_for_a_file() {
        stays_silent(&RULE, waiting("send file", 0.8));
        stays_silent(&RULE, waiting("send pipe", 0.01));
        stays_silent(&RULE, Case::healthy());
    }
}
