//! NGX-24: workers wait until slow clients have read their responses.

use crate::evidence::Wait;
use crate::rule::prelude::*;
use crate::saturation::waits::{Part, has_headroom};

/// Share of the time of busy workers from which on it is what binds \[ours\]: as for a lock that all pages pass through.
const BINDS: f64 = 0.25;
/// The same from which on it is worth a note \[ours\].
const NOTICEABLE: f64 = 0.05;
/// The setting by which nginx takes the responses of PHP before clients do.
const BUFFERING: &str = "fastcgi_buffering";

pub(crate) static RULE: Rule = Rule {
    code: "NGX-24",
    name: "buffering-off",
    since: "0.1.0",
    layers: &[Layer::Web],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Server("nginx"),
    requires: &[metric::WORKERS_WAITING],
    yields_to: &["KRN-10"],
    title: "workers of PHP wait until slow clients have read their responses",
    doc: RuleDoc {
        what_it_is: "nginx normally takes the whole response of PHP, in memory and beyond that in a file, and sends it on as fast \
            as the client reads. With fastcgi_buffering off it takes no more than the client has read: a telephone on a slow \
            line then holds a worker of PHP for seconds, and a few of them hold the pool.",
        how_it_shows: "Busy workers sleep in write towards the web server while the CPU is idle; the slower the clients, the more \
            of them. A load from clients that read at once does not show it.",
        how_it_is_confirmed: "Switch fastcgi_buffering on for one run: the limit rises to what the CPU allows.",
        what_to_write: "In the location of PHP:\n\n    fastcgi_buffering on;\n\nA location that streams (server-sent events) keeps it \
            off, and has a pool of its own. Enough buffers keep responses out of files: fastcgi_buffers 16 16k.",
        references: &[
            "https://nginx.org/en/docs/http/ngx_http_fastcgi_module.html#fastcgi_buffering",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    if evidence.stack.is_on(Layer::Web, BUFFERING) != Some(false) {
        return None;
    }
    let part = Part::find(evidence, NOTICEABLE, Wait::is_for_client)?;
    let text = "Have nginx take responses as PHP makes them: a worker is then free while a slow client still reads. A location that \
                streams keeps it off, and needs a pool of its own.";
    RULE.finds(Layer::Web, RULE.title)
        .configured(evidence.quote(Layer::Web, BUFFERING))
        .waited(&part)
        .cpu_used(evidence, part.phase)
        // A web server that lacks CPU takes responses late, too, whoever asks for them.
        .suspected_if(part.share >= BINDS && has_headroom(evidence, part.phase))
        .weight(part.share)
        .gain(format!("a worker is free {} earlier", format_ms(part.ms)))
        .refuted_by("the same limit with fastcgi_buffering on")
        .remedy(
            Advice::new(evidence, text)
                .set(Layer::Web, BUFFERING, "on")
                .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::Confidence;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    /// So many workers of eight wait until the web server takes more.
    fn held(workers: f64) -> Case {
        Case::healthy()
            .set(Layer::Web, BUFFERING, "off")
            .machine_at(PhaseKind::Over, 0.2)
            .running(PhaseKind::Over, 8.0 - workers)
            .waiting(PhaseKind::Over, "send web", workers)
    }

    #[test]
    fn fires_when_slow_clients_hold_the_pool() {
        check(
            held(7.0),
            expect![[r#"
            named: NGX-24
            suspected web (81 %): workers of PHP wait until slow clients have read their responses
              saw web.fastcgi_buffering = off
              saw send web takes 81 % of the time of busy workers, at 240/s offered for 10 s
              saw 34.1 ms of it in each request, at 240/s offered for 10 s
              saw 20 % of the machine's 2 cores used, at 240/s offered for 10 s
              set web.fastcgi_buffering = on
        "#]],
        );
    }

    #[test]
    fn only_notes_it_where_the_cpu_is_used_up() {
        let finding = (RULE.check)(&held(7.0).machine_at(PhaseKind::Over, 0.97).evidence());
        assert_eq!(finding.expect("a note").confidence, Confidence::Noted);
    }

    #[test]
    fn only_notes_a_few() {
        check(
            held(1.0),
            expect![[r#"
            named: CAP-02
            noted web (12 %): workers of PHP wait until slow clients have read their responses
              saw web.fastcgi_buffering = off
              saw send web takes 12 % of the time of busy workers, at 240/s offered for 10 s
              saw 4.88 ms of it in each request, at 240/s offered for 10 s
              saw 20 % of the machine's 2 cores used, at 240/s offered for 10 s
              set web.fastcgi_buffering = on
        "#]],
        );
    }

    #[test]
    fn stays_silent_where_nginx_takes_responses_at_once() {
        let on = held(7.0).set(Layer::Web, BUFFERING, "on");
        assert_eq!((RULE.check)(&on.evidence()), None);
        stays_silent(&RULE, Case::healthy().set(Layer::Web, BUFFERING, "off"));
    }
}
