//! APP-09: requests wait for DNS.

use crate::evidence::Wait;
use crate::rule::prelude::*;
use crate::saturation::waits::{Part, has_headroom};
use std::net::SocketAddr;

/// Share of the time of busy workers from which on it is worth a note \[ours\].
const NOTICEABLE: f64 = 0.05;
/// The same from which on it is what binds \[ours\], where the CPU has time left.
const BINDS: f64 = 0.2;
/// The same whatever the CPU does.
const MOST: f64 = 0.5;

/// What to do in any case.
const LESS: &str = "Ask for fewer names: keep connections to the database and Redis open, and the answers of other services in \
    a cache.";
/// Where a nameserver of the network is asked.
const FAR: &str = "Let a cache on PHP's own host answer (systemd-resolved, dnsmasq, nscd), and write `options timeout:1 \
    attempts:2 ndots:1` into resolv.conf.";
/// Where such a cache is asked already.
const NEAR: &str =
    "Who answers is on PHP's own host: see how long it keeps addresses, and whom it asks.";
/// The C library asks the next nameserver after that time, as it comes (resolv.conf(5)).
const SILENT: &str =
    "Where waits last 5 s, a nameserver does not answer: take it out of resolv.conf.";

pub(crate) static RULE: Rule = Rule {
    code: "APP-09",
    name: "names-asked-again",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::WORKERS_WAITING],
    yields_to: &[],
    title: "requests wait for DNS",
    doc: RuleDoc {
        what_it_is: "PHP keeps no address from one request to the next. Each new connection to a host by its name asks a \
            nameserver anew, and the worker waits for the answer. Where resolv.conf has search domains and a high `ndots` \
            (Kubernetes writes 5), one name costs several questions. A nameserver that does not answer costs 5 seconds before \
            the next one is asked.",
        how_it_shows: "Workers, or curl's own thread, wait for DNS (port 53 of a nameserver); packets to port 53 grow \
            with the requests; with a silent nameserver, response times come in steps of 5 s. With musl (Alpine) the \
            nameserver is not seen: workers wait in poll.",
        how_it_is_confirmed: "Write the names with their addresses into /etc/hosts for one run: the limit rises by the share of \
            the wait.",
        what_to_write: "Keep connections to the database and to Redis from request to request, and the answers of other services \
            in a cache. Let a cache for names run on PHP's host: systemd-resolved, dnsmasq or nscd. In /etc/resolv.conf \
            (Kubernetes: dnsConfig of the pod):\n\n    options timeout:1 attempts:2 ndots:1\n\nand no nameserver that does not \
            answer. A name that ends with a dot is asked for as it is, without search domains.",
        references: &[
            "https://man7.org/linux/man-pages/man5/resolv.conf.5.html",
            "https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let part = Part::find(evidence, NOTICEABLE, Wait::is_for_name)?;
    let peer = part.peer();
    let has_cpu = evidence
        .stressed()
        .is_none_or(|phase| has_headroom(evidence, phase));
    RULE.finds(Layer::App, RULE.title)
        .waited(&part)
        .cpu_used(evidence, part.phase)
        .inside(evidence.seen_waiting(|wait| part.is_it(wait)))
        .inside(evidence.seen_calls(CallKind::Connect, |call| call.peer == peer))
        .suspected_if(part.share >= MOST || (part.share >= BINDS && has_cpu))
        .weight(part.share)
        .gain(format!(
            "{} less in each request that need not ask",
            format_ms(part.ms)
        ))
        .refuted_by("the same limit with the addresses in /etc/hosts")
        .remedy(Advice::new(evidence, advice(peer)).build())
        .done()
}

fn advice(peer: &str) -> String {
    let address = peer.parse::<SocketAddr>();
    let is_far = address.is_ok_and(|address| !address.ip().is_loopback());
    let cache = if is_far { FAR } else { NEAR };
    format!("{LESS} {cache} {SILENT}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{place, traced};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn asking(label: &str, workers: f64) -> Case {
        Case::healthy()
            .running(PhaseKind::Knee, 4.0 - workers)
            .waiting(PhaseKind::Knee, label, workers)
    }

    #[test]
    fn fires_when_workers_wait_for_a_nameserver_and_says_who_asks() {
        let at = place("Rates::today", "src/Rates.php", 12);
        let mut call = traced("GET /rates", CallKind::Connect, "10.0.0.2:53", at, 1);
        "10.0.0.2:53".clone_into(&mut call.peer);
        "file_get_contents".clone_into(&mut call.through);
        check(
            asking("recv 10.0.0.2:53", 2.0)
                .machine_at(PhaseKind::Over, 0.4)
                .traced("GET /rates", 10, vec![call]),
            expect![[r#"
                named: APP-09
                suspected app (44 %): requests wait for DNS
                  saw recv 10.0.0.2:53 takes 44 % of the time of busy workers, at 190/s offered for 10 s
                  saw 10.5 ms of it in each request, at 190/s offered for 10 s
                  saw 89 % of the machine's 2 cores used, at 190/s offered for 10 s
                  saw 10.0.0.2:53 through file_get_contents, once in each GET /rates, in Rates::today at src/Rates.php:12, in 10 requests that were traced, one after the other
                  do: Ask for fewer names: keep connections to the database and Redis open, and the answers of other services in a cache. Let a cache on PHP's own host answer (systemd-resolved, dnsmasq, nscd), and write `options timeout:1 attempts:2 ndots:1` into resolv.conf. Where waits last 5 s, a nameserver does not answer: take it out of resolv.conf.
            "#]],
        );
    }

    #[test]
    fn a_wait_beside_a_cpu_that_is_used_up_does_not_bind() {
        check(
            asking("recv 10.0.0.2:53", 2.0),
            expect![[r#"
            named: CAP-02
            noted app (44 %): requests wait for DNS
              saw recv 10.0.0.2:53 takes 44 % of the time of busy workers, at 190/s offered for 10 s
              saw 10.5 ms of it in each request, at 190/s offered for 10 s
              saw 89 % of the machine's 2 cores used, at 190/s offered for 10 s
              do: Ask for fewer names: keep connections to the database and Redis open, and the answers of other services in a cache. Let a cache on PHP's own host answer (systemd-resolved, dnsmasq, nscd), and write `options timeout:1 attempts:2 ndots:1` into resolv.conf. Where waits last 5 s, a nameserver does not answer: take it out of resolv.conf.
        "#]],
        );
    }

    #[test]
    fn notes_a_smaller_part_and_knows_who_is_on_the_same_host() {
        check(
            asking("recv 127.0.0.53:53", 0.5),
            expect![[r#"
            named: CAP-02
            noted app (11 %): requests wait for DNS
              saw recv 127.0.0.53:53 takes 11 % of the time of busy workers, at 190/s offered for 10 s
              saw 2.63 ms of it in each request, at 190/s offered for 10 s
              saw 89 % of the machine's 2 cores used, at 190/s offered for 10 s
              do: Ask for fewer names: keep connections to the database and Redis open, and the answers of other services in a cache. Who answers is on PHP's own host: see how long it keeps addresses, and whom it asks. Where waits last 5 s, a nameserver does not answer: take it out of resolv.conf.
        "#]],
        );
        for peer in [
            "[::1]:53",
            "unix:/run/nscd/socket",
            "unix:/run/systemd/resolve/io.systemd.Resolve",
        ] {
            assert!(advice(peer).contains(NEAR), "{peer}");
        }
    }

    #[test]
    fn stays_silent_when_little_is_asked_and_of_any_other_port() {
        stays_silent(&RULE, asking("recv 10.0.0.2:53", 0.1));
        stays_silent(&RULE, asking("recv 10.0.0.2:5353", 0.2));
        stays_silent(&RULE, Case::healthy());
    }
}
