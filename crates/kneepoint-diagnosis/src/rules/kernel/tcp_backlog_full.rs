//! FPM-08: the listen queue of PHP's TCP socket is too short.

use crate::rule::prelude::*;
use crate::saturation::backlog::Overflow;
use kneepoint_model::Address;

pub(crate) static RULE: Rule = Rule {
    code: "FPM-08",
    name: "tcp-backlog-full",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Kernel,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::LISTEN_OVERFLOWS],
    yields_to: &["FPM-10"],
    title: "the queue before PHP is too short: bursts wait for retransmissions",
    doc: RuleDoc {
        what_it_is: "Requests that find every PHP worker busy wait in a queue in the kernel, the listen backlog. On a \
            TCP socket a connection that finds the queue full is dropped without a word, and the client tries again \
            after one second, then two, then four. Nothing fails and nothing is logged: some requests simply take \
            one, three or seven seconds longer.",
        how_it_shows: "The kernel's counters ListenOverflows and ListenDrops grow in PHP's network namespace; slow \
            responses cluster at 1 s and 3 s; no log has a line about it.",
        how_it_is_confirmed: "Lengthen the queue: the steps at 1 s and 3 s go away at the same rate. When requests are \
            late all the same, workers are too few or too slow.",
        what_to_write: "In the pool, and on PHP's host (or in its network namespace):\n\n    listen.backlog = 511\n\n    \
            sysctl net.core.somaxconn=4096\n\nthen restart PHP-FPM. The smaller of the two counts.",
        references: &["https://docs.kernel.org/networking/snmp_counter.html"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let tier = evidence.stack.tier(Layer::Php)?;
    if !tier.own_network || !matches!(tier.listen, Some(Address::Tcp(_)) | None) {
        return None;
    }
    let overflows = |phase: &Phase| phase.series.delta(Layer::Php, metric::LISTEN_OVERFLOWS);
    let mut hit = evidence
        .phases
        .iter()
        .filter_map(|phase| Some((phase, overflows(phase).filter(|count| *count > 0.0)?)));
    let (phase, count) = hit.next()?;
    let overflow = Overflow::judge(evidence, phase, phase.kind != PhaseKind::Over);
    RULE.finds(Layer::Php, RULE.title)
        .configured(evidence.quote(Layer::Php, "listen.backlog"))
        .measured(
            format!(
                "{count:.0} connections dropped by a queue of at most {:.0}; the last of a full one waits {}",
                overflow.limit,
                format_ms(overflow.full_wait_s * 1e3)
            ),
            phase,
        )
        .suspected_if(overflow.too_short)
        .weight(count / phase.load.arrivals.max(1) as f64)
        .refuted_by("as many late responses with a longer queue: then workers are too few or too slow")
        .remedy(overflow.remedy(evidence))
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        let listen = "10.0.0.3:9000".parse().ok();
        verify(
            &RULE,
            case.tier(Layer::Php, |tier| tier.listen = listen),
            expected,
        );
    }

    #[test]
    fn fires_when_the_kernel_drops_below_the_limit() {
        let case = Case::healthy()
            .set(Layer::Php, "net.core.somaxconn", "16")
            .everywhere(Layer::Php, metric::QUEUE_LIMIT, "", 16.0)
            .counter(PhaseKind::Knee, Layer::Php, metric::LISTEN_OVERFLOWS, 9.0);
        check(
            case,
            expect![[r#"
            named: FPM-08
            suspected php (4.7 %): the queue before PHP is too short: bursts wait for retransmissions
              saw php.listen.backlog = 511
              saw 90 connections dropped by a queue of at most 16; the last of a full one waits 84.2 ms, at 190/s offered for 10 s
              set php.net.core.somaxconn = 4096
        "#]],
        );
    }

    #[test]
    fn only_notes_drops_of_a_queue_that_is_long_enough() {
        let case =
            Case::healthy().counter(PhaseKind::Over, Layer::Php, metric::LISTEN_OVERFLOWS, 9.0);
        check(
            case,
            expect![[r#"
            named: CAP-02
            noted php (3.8 %): the queue before PHP is too short: bursts wait for retransmissions
              saw php.listen.backlog = 511
              saw 90 connections dropped by a queue of at most 511; the last of a full one waits 2.49 s, at 240/s offered for 10 s
              do: Leave the backlog: it already holds more requests than can be answered in time. Find out why workers take them so slowly.
        "#]],
        );
    }

    #[test]
    fn stays_silent_without_drops() {
        stays_silent(&RULE, Case::healthy());
    }
}
