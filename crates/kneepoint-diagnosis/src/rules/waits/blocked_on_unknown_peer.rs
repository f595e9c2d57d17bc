//! APP-05: workers wait for something outside the stack.

use crate::evidence::Wait;
use crate::rule::prelude::*;
use crate::saturation::waits::{Blocked, Part};
use kneepoint_model::Remedy;

/// Share of the time of busy workers from which on a wait for an outsider is what binds, whatever the CPU does \[ours\]:
/// more than all else together.
const MOST: f64 = 0.5;
/// The same from which on it is worth a note \[ours\].
const NOTICEABLE: f64 = 0.2;

pub(crate) static RULE: Rule = Rule {
    code: "APP-05",
    name: "blocked-on-unknown-peer",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::WORKERS_WAITING, metric::MACHINE_BUSY_S],
    yields_to: &["FPM-10", "SES-01", "SES-02", "KRN-11", "FPM-17"],
    title: "workers wait for something outside the stack",
    doc: RuleDoc {
        what_it_is: "A page that calls another service over HTTP, sends mail or sleeps keeps its \
            worker for as long as that takes. PHP waits 60 seconds for a silent peer by default. A few slow calls \
            are enough to occupy the whole pool, and pages that need nothing of it wait as well.",
        how_it_shows: "Most busy workers sleep in recv, poll or connect towards an address that is no tier of the \
            stack (often port 443; a service on the same machine too), or in nanosleep. The CPU may be idle, or \
            busy with the rest of the page.",
        how_it_is_confirmed: "Put a stub that answers at once in the place of the service: the limit rises.",
        what_to_write: "Give every outbound call short timeouts, and move it to a queue where the page can do \
            without:\n\n    $client = new GuzzleHttp\\Client(['connect_timeout' => 1, 'timeout' => 2]);\n\n    ; php.ini\n    \
            default_socket_timeout = 5",
        references: &["https://www.netdata.cloud/guides/php-fpm/php-fpm-worker-exhaustion/"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    match Part::find(evidence, NOTICEABLE, Wait::is_for_outsider) {
        Some(outside) if outside.share >= MOST => waits_for(evidence, &outside),
        little => asleep(evidence).or_else(|| waits_for(evidence, little.as_ref()?)),
    }
}

/// Requests spend their time on somebody who is no tier of the stack: whatever the CPU does, and however many workers
/// there are, the answer takes that long.
fn waits_for(evidence: &Evidence, outside: &Part<'_>) -> Option<Finding> {
    let peer = outside.peer();
    let title = format!(
        "requests wait for {peer}, outside the stack, {} of their time",
        format_share(outside.share)
    );
    let phase = outside.phase;
    RULE.finds(Layer::App, title)
        .waited(outside)
        .cpu_used(evidence, phase)
        .inside(evidence.seen_waiting(|wait| outside.is_it(wait)))
        .inside(evidence.seen_calls(CallKind::Http, |call| call.peer == peer))
        .suspected_if(outside.share >= MOST)
        .weight(outside.share)
        .gain(format!(
            "{} less in each request that need not wait",
            format_ms(outside.ms)
        ))
        .refuted_by("the same limit with a stub that answers at once")
        .remedy(advice(evidence))
        .done()
}

/// Most workers of an exhausted pool sleep on nobody in particular.
fn asleep(evidence: &Evidence) -> Option<Finding> {
    let blocked = Blocked::find(evidence)?;
    let is_other = |wait: &Wait| {
        let is_far = wait.is_for_outsider() || wait.is_own_site() || wait.is_for_name();
        wait.is_own_lock() || is_far || wait.is_pause()
    };
    if blocked.layer().is_some() || blocked.waits.iter().any(is_other) {
        return None;
    }
    let (phase, cpu) = (blocked.phase, &blocked.cpu);
    RULE.finds(Layer::App, RULE.title)
        .measured(blocked.describe(), phase)
        .measured(
            format!("{} of it in each request", format_ms(blocked.ms)),
            phase,
        )
        .measured(cpu.describe(), phase)
        .inside(evidence.seen_waiting(|wait| blocked.is_it(wait)))
        .inside(evidence.seen_calls(CallKind::Http, |call| blocked.has_peer(&call.peer)))
        // A pause of a fixed length is the application's own; that a small pool cannot bridge it is the pool's matter.
        .suspected_if(blocked.congested() || blocked.pool.is_ample(evidence))
        .weight(blocked.workers / blocked.pool.busy)
        .refuted_by("the same limit without the wait")
        .remedy(advice(evidence))
        .done()
}

fn advice(evidence: &Evidence) -> Remedy {
    let text = "Give the call a short timeout, cache its answer, or move it to a queue. More workers only help while the \
                other side keeps up.";
    Advice::new(evidence, text).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    #[test]
    fn fires_when_most_of_a_request_is_a_wait_whatever_the_cpu_does() {
        // 5 workers, 30 ms of CPU, then 150 ms at a service on the same machine: the pool is full, the CPU is not idle.
        let case = Case::healthy()
            .pool_of(5)
            .running(PhaseKind::Knee, 1.2)
            .waiting(PhaseKind::Knee, "recv 127.0.0.1:9977", 3.6)
            .waiting(PhaseKind::Knee, "recv db", 0.1)
            .waiting(PhaseKind::Knee, "recv cache", 0.1);
        check(
            case,
            expect![[r#"
                named: APP-05
                suspected app (72 %): requests wait for 127.0.0.1:9977, outside the stack, 72 % of their time
                  saw recv 127.0.0.1:9977 takes 72 % of the time of busy workers, at 190/s offered for 10 s
                  saw 18.9 ms of it in each request, at 190/s offered for 10 s
                  saw 89 % of the machine's 2 cores used, at 190/s offered for 10 s
                  do: Give the call a short timeout, cache its answer, or move it to a queue. More workers only help while the other side keeps up.
            "#]],
        );
    }

    #[test]
    fn fires_before_the_pool_that_is_full_of_workers_which_wait() {
        let case = Case::healthy()
            .pool_of(5)
            .machine_at(PhaseKind::Over, 0.36)
            .running(PhaseKind::Over, 0.8)
            .waiting(PhaseKind::Over, "recv 127.0.0.1:9977", 4.1);
        check(
            case,
            expect![[r#"
                named: APP-05
                suspected app (74 %): requests wait for 127.0.0.1:9977, outside the stack, 74 % of their time
                  saw recv 127.0.0.1:9977 takes 74 % of the time of busy workers, at 240/s offered for 10 s
                  saw 20.0 ms of it in each request, at 240/s offered for 10 s
                  saw 36 % of the machine's 2 cores used, at 240/s offered for 10 s
                  do: Give the call a short timeout, cache its answer, or move it to a queue. More workers only help while the other side keeps up.
            "#]],
        );
    }

    #[test]
    fn fires_before_the_pool_that_grows_too_slowly_for_requests_that_wait() {
        // The waits of requests call for workers that a dynamic pool does not have yet: the waits are the cause.
        let case = Case::healthy()
            .set(Layer::Php, "pm", "dynamic")
            .pool(|pool| {
                (pool.start_workers, pool.max_workers) = (2, 10);
                pool.spawn_per_s = Some(1.0);
            })
            .series(PhaseKind::Knee, Layer::Php, metric::WORKERS, "", |at| {
                (2.0 + at).min(9.0)
            })
            .gauge(PhaseKind::Knee, Layer::Php, metric::QUEUE, "", 14.0)
            .machine_at(PhaseKind::Knee, 0.36)
            .running(PhaseKind::Knee, 0.9)
            .waiting(PhaseKind::Knee, "recv 127.0.0.1:9977", 3.2);
        check(
            case,
            expect![[r#"
            named: APP-05, FPM-03
            suspected app (69 %): requests wait for 127.0.0.1:9977, outside the stack, 69 % of their time
              saw recv 127.0.0.1:9977 takes 69 % of the time of busy workers, at 190/s offered for 10 s
              saw 16.8 ms of it in each request, at 190/s offered for 10 s
              saw 36 % of the machine's 2 cores used, at 190/s offered for 10 s
              do: Give the call a short timeout, cache its answer, or move it to a queue. More workers only help while the other side keeps up.
        "#]],
        );
    }

    #[test]
    fn only_notes_what_is_less_than_all_else_and_a_pause_in_a_small_pool() {
        let third = Case::healthy().running(PhaseKind::Knee, 2.8).waiting(
            PhaseKind::Knee,
            "connect 203.0.113.9:443",
            1.4,
        );
        check(
            third,
            expect![[r#"
                named: CAP-02
                noted app (29 %): requests wait for 203.0.113.9:443, outside the stack, 29 % of their time
                  saw connect 203.0.113.9:443 takes 29 % of the time of busy workers, at 190/s offered for 10 s
                  saw 7.37 ms of it in each request, at 190/s offered for 10 s
                  saw 89 % of the machine's 2 cores used, at 190/s offered for 10 s
                  do: Give the call a short timeout, cache its answer, or move it to a queue. More workers only help while the other side keeps up.
            "#]],
        );
        let pause = Case::healthy()
            .pool_of(2)
            .machine_at(PhaseKind::Over, 0.1)
            .running(PhaseKind::Over, 0.1)
            .waiting(PhaseKind::Low, "sleep", 0.5)
            .waiting(PhaseKind::Over, "sleep", 1.8);
        check(
            pause,
            expect![[r#"
                named: FPM-01
                silent
            "#]],
        );
    }

    #[test]
    fn leaves_waits_for_addresses_of_names_to_their_rule() {
        let case = Case::healthy()
            .pool_of(5)
            .machine_at(PhaseKind::Over, 0.36)
            .running(PhaseKind::Over, 0.8)
            .waiting(PhaseKind::Over, "recv 10.0.0.2:53", 4.1);
        check(
            case,
            expect![[r#"
                named: APP-09
                silent
            "#]],
        );
    }

    #[test]
    fn stays_silent_when_the_peer_is_a_tier_or_little_is_waited() {
        let little = Case::healthy().waiting(PhaseKind::Over, "recv 203.0.113.9:443", 0.5);
        stays_silent(&RULE, little);
        stays_silent(&RULE, Case::healthy());
    }
}
