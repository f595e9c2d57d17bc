//! APP-05: workers wait for something outside the stack.

use crate::rules::prelude::*;
use crate::waits::Blocked;

pub(crate) static RULE: Rule = Rule {
    code: "APP-05",
    name: "blocked-on-unknown-peer",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: Stage::Waits,
    signal: Signal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::WORKERS_WAITING, metric::MACHINE_BUSY_S],
    yields_to: &["FPM-10", "SES-01", "SES-02"],
    title: "workers wait for something outside the stack",
    doc: RuleDoc {
        what_it_is: "A page that calls another service over HTTP, sends mail, resolves a name or sleeps keeps its \
            worker for as long as that takes. PHP waits 60 seconds for a silent peer by default. A few slow calls \
            are enough to occupy the whole pool, and pages that need nothing of it wait as well.",
        how_it_shows: "Most busy workers sleep in recv, poll or connect towards an address that is no tier of the \
            stack (often port 443 or 53), or in nanosleep; the CPU is idle.",
        how_it_is_confirmed: "Put a stub that answers at once in the place of the service: the limit rises.",
        what_to_write: "Give every outbound call short timeouts, and move it to a queue where the page can do \
            without:\n\n    $client = new GuzzleHttp\\Client(['connect_timeout' => 1, 'timeout' => 2]);\n\n    ; php.ini\n    \
            default_socket_timeout = 5",
        references: &["https://www.netdata.cloud/guides/php-fpm/php-fpm-worker-exhaustion/"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let blocked = Blocked::find(evidence)?;
    let lock = blocked.waits.iter().any(|wait| wait.is_lock());
    if blocked.layer().is_some() || lock {
        return None;
    }
    RULE.finds(Layer::App, RULE.title)
        .measured(blocked.describe(), blocked.phase)
        .measured(format!("{} of it in each request", format_ms(blocked.ms)), blocked.phase)
        .measured(
            format!("{} of {} used", format_share(blocked.cpu.share), blocked.cpu.of),
            blocked.phase,
        )
        .inside(evidence.seen_waiting(|wait| blocked.is_it(wait)))
        .inside(evidence.seen_calls(CallKind::Http, |call| blocked.has_peer(&call.peer)))
        .suspected_if(blocked.congested() || blocked.has_ample_pool(evidence))
        .weight(1.0 - blocked.cpu.share)
        .refuted_by("the same limit with a stub that answers at once")
        .remedy(
            Advice::new(
                evidence,
                "Give the call a short timeout, cache its answer, or move it to a queue. More workers only help while \
                 the other side keeps up.",
            )
            .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{met, place, traced};
    use kneepoint_model::{Place, StackProfile};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    #[test]
    fn fires_when_workers_wait_for_a_stranger() {
        let case = Case::healthy()
            .machine_at(PhaseKind::Over, 0.2)
            .running(PhaseKind::Over, 0.8)
            .waiting(PhaseKind::Over, "poll 203.0.113.9:443", 6.8);
        check(
            case,
            expect![[r#"
            named: APP-05
            suspected app (80 %): workers wait for something outside the stack
              saw 6.8 of 8.0 busy workers wait: poll 203.0.113.9:443, at 240/s offered for 10 s
              saw 33.2 ms of it in each request, at 240/s offered for 10 s
              saw 20 % of the machine's 2 cores used, at 240/s offered for 10 s
              do: Give the call a short timeout, cache its answer, or move it to a queue. More workers only help while the other side keeps up.
        "#]],
        );
    }

    #[test]
    fn names_route_line_and_host() {
        let at = || place("App\\Rates::show", "app/Rates.php", 31);
        let mut call = traced(
            "GET /rates",
            CallKind::Http,
            "GET http://api.example.org/rates",
            at(),
            1,
        );
        "203.0.113.9:443".clone_into(&mut call.peer);
        "curl_exec".clone_into(&mut call.through);
        let mut other = call.clone();
        "db".clone_into(&mut other.peer);
        let stacks = StackProfile {
            phase: "over".to_owned(),
            rate_hz: 50,
            places: vec![
                at(),
                Place {
                    function: "[poll 203.0.113.9:443]".to_owned(),
                    ..Place::default()
                },
            ],
            stacks: vec![met("GET /rates", &[0, 1], 900), met("GET /", &[0], 100)],
            ..StackProfile::default()
        };
        let case = Case::healthy()
            .machine_at(PhaseKind::Over, 0.2)
            .running(PhaseKind::Over, 0.8)
            .waiting(PhaseKind::Over, "poll 203.0.113.9:443", 6.8)
            .traced("GET /rates", 10, vec![call, other])
            .with(|evidence| evidence.stacks = Some(stacks));
        check(
            case,
            expect![[r#"
            named: APP-05
            suspected app (80 %): workers wait for something outside the stack
              saw 6.8 of 8.0 busy workers wait: poll 203.0.113.9:443, at 240/s offered for 10 s
              saw 33.2 ms of it in each request, at 240/s offered for 10 s
              saw 20 % of the machine's 2 cores used, at 240/s offered for 10 s
              saw waiting there: GET /rates, App\Rates::show at app/Rates.php:31, 100 % of 900 stacks, sampled 50 times a second, at 240/s offered for 10 s
              saw GET http://api.example.org/rates through curl_exec, once in each GET /rates, in App\Rates::show at app/Rates.php:31, in 10 requests that were traced, one after the other
              do: Give the call a short timeout, cache its answer, or move it to a queue. More workers only help while the other side keeps up.
        "#]],
        );
    }

    #[test]
    fn stays_silent_when_the_peer_is_a_tier_or_the_cpu_is_busy() {
        let busy = Case::healthy().waiting(PhaseKind::Over, "poll 203.0.113.9:443", 6.8);
        stays_silent(&RULE, busy);
        stays_silent(&RULE, Case::healthy());
    }
}
