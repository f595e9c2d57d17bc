//! APP-16: requests ask their own site over HTTP.

use crate::evidence::Wait;
use crate::rule::prelude::*;
use crate::saturation::waits::Part;

/// Share of the time of busy workers from which on it is worth a note \[ours\].
const NOTICEABLE: f64 = 0.05;
/// The same from which on it is what binds \[ours\]: besides the wait, each such page takes a second worker.
const BINDS: f64 = 0.2;

pub(crate) static RULE: Rule = Rule {
    code: "APP-16",
    name: "asks-itself",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::WORKERS_WAITING],
    yields_to: &[],
    title: "requests ask their own site over HTTP",
    doc: RuleDoc {
        what_it_is: "While it serves a page, the application fetches another page of the same site by its address. That takes \
            a second worker and builds the whole application once more, while the first worker waits. When every worker \
            waits so, none is left to answer: the site stands still until a timeout.",
        how_it_shows: "Workers wait in recv for the web server before them; the access log has more requests than visitors \
            made; above some rate nothing is served any more, while the CPU is idle, and it recovers when the load stops.",
        how_it_is_confirmed: "Leave the inner request out for one run: the limit at least doubles.",
        what_to_write: "Call the code, not the address: include the file, call the function, read the file from disk. Where it \
            must be HTTP, give it a pool of workers of its own and a short timeout.",
        references: &["loopback requests of content management systems, in public reports"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let part = Part::find(evidence, NOTICEABLE, Wait::is_own_site)?;
    RULE.finds(Layer::App, RULE.title)
        .waited(&part)
        .cpu_used(evidence, part.phase)
        .inside(evidence.seen_waiting(|wait| part.is_it(wait)))
        .inside(evidence.seen_calls(CallKind::Http, |call| call.peer == part.peer()))
        .suspected_if(part.share >= BINDS)
        .weight(part.share)
        .refuted_by("the same limit without the inner request")
        .remedy(
            Advice::new(
                evidence,
                "Call the code instead of its address, or read the file from disk. Where it must be HTTP, give it a pool of \
                 its own and a short timeout.",
            )
            .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn asking(workers: f64) -> Case {
        Case::healthy()
            .running(PhaseKind::Knee, 4.0 - workers)
            .waiting(PhaseKind::Knee, "recv the-site-itself", workers)
    }

    #[test]
    fn fires_when_workers_wait_for_their_own_site() {
        check(
            asking(2.0),
            expect![[r#"
            named: APP-16
            suspected app (44 %): requests ask their own site over HTTP
              saw recv the-site-itself takes 44 % of the time of busy workers, at 190/s offered for 10 s
              saw 10.5 ms of it in each request, at 190/s offered for 10 s
              saw 89 % of the machine's 2 cores used, at 190/s offered for 10 s
              do: Call the code instead of its address, or read the file from disk. Where it must be HTTP, give it a pool of its own and a short timeout.
        "#]],
        );
    }

    #[test]
    fn stays_silent_when_workers_only_wait_for_work() {
        stays_silent(&RULE, asking(0.1));
        stays_silent(
            &RULE,
            Case::healthy().waiting(PhaseKind::Knee, "recv web", 0.2),
        );
    }
}
