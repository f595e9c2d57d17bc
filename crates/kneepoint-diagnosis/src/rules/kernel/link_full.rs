//! KRN-10: the network link of a tier is full.

use crate::rule::prelude::*;
use kneepoint_model::Metric;
use kneepoint_model::units::format_bytes;

/// Share of what the link carries from which on it is full \[ours\]: it rests while packets come in bursts.
const FULL: f64 = 0.85;
/// The same from which on it is worth a note \[ours\]: there packets begin to queue behind one another.
const NEARLY_FULL: f64 = 0.6;
/// The two ways of a link, as telemetry counts them.
const WAYS: [(&str, Metric); 2] = [
    ("sends", metric::NET_SENT_BYTES),
    ("receives", metric::NET_RECEIVED_BYTES),
];

pub(crate) static RULE: Rule = Rule {
    code: "KRN-10",
    name: "link-full",
    since: "0.1.0",
    layers: &Layer::TIERS,
    stage: RuleStage::Kernel,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    // Where nobody says what the link carries, there is nothing to judge.
    requires: &[],
    yields_to: &[],
    title: "the network link is full",
    doc: RuleDoc {
        what_it_is: "A link carries a fixed number of bits a second. A 1 Gbit card carries 118 MB a second: 240 pages of \
            500 kB fill it. A small machine of a cloud often has a tenth of that after its first minutes. What does not \
            fit waits in a queue, or is dropped and sent again.",
        how_it_shows: "The bytes a second stop growing while the CPU has time left; responses get slower with their size, and \
            segments are sent again.",
        how_it_is_confirmed: "Ask for the same pages without their large parts for one run: the limit rises by as much as they \
            shrink.",
        what_to_write: "Send less: compress what is text, let browsers and a CDN keep what does not change, send pictures in \
            the size that is shown.\n\n    gzip on;\n    gzip_types text/css application/javascript application/json \
            image/svg+xml;\n    location ~ \\.(css|js|jpg|webp)$ { expires 30d; }\n\nOr take a faster link.",
        references: &[
            "https://nginx.org/en/docs/http/ngx_http_gzip_module.html",
            "field report S2 (bandwidth was what bound after the application was mended)",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let phases = [PhaseKind::Over, PhaseKind::Knee].into_iter();
    let used = phases
        .filter_map(|kind| evidence.phase(kind))
        .flat_map(|phase| evidence.stack.tiers.iter().map(move |tier| (phase, tier)))
        .filter_map(|(phase, tier)| LinkUse::of(phase, tier.layer, tier.link_mbit?))
        .max_by(|a, b| a.share().total_cmp(&b.share()))?;
    if used.share() < NEARLY_FULL {
        return None;
    }
    let full = match used.share() >= FULL {
        true => "full",
        false => "nearly full",
    };
    let phase = used.phase;
    let cpu = evidence.cpu_use(phase).map_or(0.0, |cpu| cpu.share);
    let mut verdict = RULE
        .finds(
            used.layer,
            format!("the network link of the {} host is {full}", used.layer),
        )
        .measured(
            format!(
                "it {} {:.1} Mbit/s of {:.1} that the link carries",
                used.way, used.mbit, used.link_mbit
            ),
            phase,
        );
    if let Some(bytes) = phase.load.response_bytes() {
        let each = format!("{} in each response", format_bytes(bytes as u64));
        verdict = verdict.measured(each, phase);
    }
    if let Some(again) = phase.series.rate(used.layer, metric::RETRANS) {
        verdict = verdict.measured(format!("{again:.1} segments a second sent again"), phase);
    }
    verdict
        .cpu_used(evidence, phase)
        .suspected_if(used.share() >= FULL)
        // What the CPU has left is what a wider link gives at most.
        .weight(1.0 - cpu)
        .gain("the limit grows with the link, and with what responses shrink by")
        .refuted_by("the same limit with a faster link, or with smaller responses")
        .remedy(
            Advice::new(
                evidence,
                "Send less: compress what is text, let browsers and a CDN keep what does not change, send pictures in the size \
                 that is shown; or take a faster link.",
            )
            .build(),
        )
        .done()
}

/// How a link is used, the way in which it carries more.
struct LinkUse<'a> {
    phase: &'a Phase,
    layer: Layer,
    way: &'static str,
    mbit: f64,
    link_mbit: f64,
}

impl<'a> LinkUse<'a> {
    fn of(phase: &'a Phase, layer: Layer, link_mbit: f64) -> Option<Self> {
        let ways = WAYS.into_iter().filter_map(|(way, metric)| {
            let bytes_hz = phase.series.rate(layer, metric)?;
            Some((way, bytes_hz * 8.0 / 1e6))
        });
        let (way, mbit) = ways.max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Self {
            phase,
            layer,
            way,
            mbit,
            link_mbit,
        })
    }

    fn share(&self) -> f64 {
        self.mbit / self.link_mbit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    /// A proxy with a link of 20 Mbit/s that sends so many.
    fn sending(mbit: f64) -> Case {
        Case::healthy()
            .tier(Layer::Proxy, |tier| tier.link_mbit = Some(20.0))
            .machine_at(PhaseKind::Over, 0.4)
            .counter(
                PhaseKind::Over,
                Layer::Proxy,
                metric::NET_SENT_BYTES,
                mbit * 1e6 / 8.0,
            )
    }

    #[test]
    fn fires_when_the_link_is_full() {
        check(
            sending(19.2),
            expect![[r#"
                named: KRN-10
                suspected proxy (60 %): the network link of the proxy host is full
                  saw it sends 19.2 Mbit/s of 20.0 that the link carries, at 240/s offered for 10 s
                  saw 40 % of the machine's 2 cores used, at 240/s offered for 10 s
                  do: Send less: compress what is text, let browsers and a CDN keep what does not change, send pictures in the size that is shown; or take a faster link.
            "#]],
        );
    }

    #[test]
    fn notes_a_link_that_is_nearly_full() {
        check(
            sending(13.0),
            expect![[r#"
                named: CAP-02
                noted proxy (60 %): the network link of the proxy host is nearly full
                  saw it sends 13.0 Mbit/s of 20.0 that the link carries, at 240/s offered for 10 s
                  saw 40 % of the machine's 2 cores used, at 240/s offered for 10 s
                  do: Send less: compress what is text, let browsers and a CDN keep what does not change, send pictures in the size that is shown; or take a faster link.
            "#]],
        );
    }

    #[test]
    fn stays_silent_while_there_is_room_or_nobody_knows_the_link() {
        check(
            sending(5.0),
            expect![[r#"
                named: CAP-02
                silent
            "#]],
        );
        check(
            sending(100.0).tier(Layer::Proxy, |tier| tier.link_mbit = None),
            expect![[r#"
                named: CAP-02
                silent
            "#]],
        );
    }
}
