//! APP-11: visitors start the scheduled work of WordPress.

use crate::rule::prelude::*;
use kneepoint_model::TracedCall;

/// The page that does scheduled work.
const CRON: &str = "wp-cron.php";
/// Share of the stacks of workers from which on it is what binds \[ours\].
const BINDS: f64 = 0.2;

pub(crate) static RULE: Rule = Rule {
    code: "APP-11",
    name: "cron-by-visitors",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: RuleStage::Waits,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &[],
    title: "visitors start the scheduled work of WordPress",
    doc: RuleDoc {
        what_it_is: "WordPress has no clock: each page looks whether scheduled work is due, and if so asks its own server for \
            wp-cron.php. That takes a second worker, starts the whole of WordPress once more, and under load happens again \
            and again, while the work itself competes with the pages.",
        how_it_shows: "POST /wp-cron.php in the access log, one for each page or each minute; workers that are at it while \
            visitors wait.",
        how_it_is_confirmed: "Set DISABLE_WP_CRON for one run: the requests go away and the limit rises.",
        what_to_write: "In wp-config.php:\n\n    define( 'DISABLE_WP_CRON', true );\n\nand a clock of the machine's own:\n\n    \
            */5 * * * * www-data php /srv/site/wp-cron.php",
        references: &[
            "https://developer.wordpress.org/plugins/cron/hooking-wp-cron-into-the-system-task-scheduler/",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let asks = |call: &TracedCall| call.what.contains(CRON);
    let seen = evidence.seen_calls(CallKind::Http, asks);
    let share = share_of_route(evidence);
    if seen.is_empty() && share.is_none() {
        return None;
    }
    let mut verdict = RULE.finds(Layer::App, RULE.title);
    if let Some((share, of)) = share {
        verdict = verdict.under(
            format!(
                "{} of {of} stacks of workers are of {CRON}",
                format_share(share)
            ),
            evidence.sampled_under(),
        );
    }
    let share = share.map_or(0.0, |(share, _)| share);
    verdict
        .inside(seen)
        .suspected_if(share >= BINDS)
        .weight(share)
        .refuted_by("the same limit with DISABLE_WP_CRON")
        .remedy(
            Advice::new(
                evidence,
                "define( 'DISABLE_WP_CRON', true ) in wp-config.php, and run wp-cron.php from the machine's own cron.",
            )
            .build(),
        )
        .done()
}

/// Which share of the stacks are of requests for it, and of how many; `None` where none is.
fn share_of_route(evidence: &Evidence) -> Option<(f64, u64)> {
    let stacks = &evidence.stacks.as_ref()?.stacks;
    let of: u64 = stacks.iter().map(|stack| stack.count).sum();
    let cron = stacks.iter().filter(|stack| stack.route.contains(CRON));
    let cron: u64 = cron.map(|stack| stack.count).sum();
    (cron > 0).then(|| (cron as f64 / of as f64, of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{met, place, sampled, traced};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn asking(stacks: u64) -> Case {
        let at = place("spawn_cron", "wp-includes/cron.php", 900);
        let call = traced(
            "GET /",
            CallKind::Http,
            "POST http://shop.example.test/wp-cron.php",
            at.clone(),
            1,
        );
        let met = vec![
            met("POST /wp-cron.php", &[0], stacks),
            met("GET /", &[0], 100 - stacks),
        ];
        Case::healthy()
            .traced("GET /", 10, vec![call])
            .with(|evidence| evidence.stacks = Some(sampled(50, vec![at], met)))
    }

    #[test]
    fn fires_when_workers_are_at_it() {
        check(
            asking(40),
            expect![[r#"
            named: APP-07, APP-11
            suspected app (40 %): visitors start the scheduled work of WordPress
              saw 40 % of 100 stacks of workers are of wp-cron.php, sampled 50 times a second, at 240/s offered for 10 s
              saw POST http://shop.example.test/wp-cron.php, once in each GET /, in spawn_cron at wp-includes/cron.php:900, in 10 requests that were traced, one after the other
              do: define( 'DISABLE_WP_CRON', true ) in wp-config.php, and run wp-cron.php from the machine's own cron.
        "#]],
        );
    }

    #[test]
    fn stays_silent_where_nobody_asks() {
        stays_silent(&RULE, Case::healthy());
    }
}
