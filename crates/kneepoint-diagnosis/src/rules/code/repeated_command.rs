//! RDS-05: one request asks Redis again and again.

use crate::causes::Repeated;
use crate::rule::prelude::*;

pub(crate) static RULE: Rule = Rule {
    code: "RDS-05",
    name: "repeated-command",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: RuleStage::Code,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &[],
    title: "one request asks Redis for one value after the other",
    doc: RuleDoc {
        what_it_is: "A page reads what it needs from the cache one value at a time, in a loop or through a helper that nobody \
            thinks of as a network call. Each GET takes a tenth of a millisecond; a hundred of them are a page's time, and \
            they keep Redis' only thread busy as well.",
        how_it_shows: "Traced requests send one command many times from one line; total_commands_processed grows by dozens for \
            each page.",
        how_it_is_confirmed: "Read the values with one MGET for one run: the commands of a request fall, and the limit rises.",
        what_to_write: "One command for all that is needed:\n\n    $values = $redis->mGet($keys);   // Laravel: \
            Cache::many($keys)\n\nor a pipeline; and what every request reads belongs in APCu or in a property of the object.",
        references: &[
            "https://redis.io/docs/latest/develop/use/pipelining/",
            "https://redis.io/docs/latest/operate/oss_and_stack/management/optimization/latency/",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let repeated = Repeated::find(evidence, CallKind::Command)?;
    let mut verdict = repeated.begun(&RULE);
    if let Some((phase, each)) = commands_per_request(evidence) {
        verdict = verdict.measured(
            format!("Redis runs {each:.0} commands for each request PHP served"),
            phase,
        );
    }
    repeated
        .weighed(verdict)
        .refuted_by("the same limit with the values read by one command")
        .remedy(Advice::new(evidence, advice(&repeated)).build())
        .done()
}

fn commands_per_request(evidence: &Evidence) -> Option<(&Phase, f64)> {
    let phase = evidence.knee()?;
    let hz = phase.series.rate(Layer::Cache, metric::REDIS_COMMANDS)?;
    let served = phase.pool_hz();
    (served > 0.0).then(|| (phase, hz / served))
}

fn advice(repeated: &Repeated<'_>) -> String {
    let place = repeated.at();
    format!(
        "Read all values that the loop{place} needs with one command before it (MGET, a pipeline), and keep what every request \
         reads in APCu."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{builtin, met, place, sampled, traced};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn asking(times: u64) -> Case {
        let at = || place("App\\Prices::of", "app/Prices.php", 23);
        let call = traced("GET /", CallKind::Command, "GET price:{n}", at(), times);
        let stacks = sampled(
            99,
            vec![at(), place("x", "x.php", 1), builtin("Redis::get")],
            vec![met("GET /", &[0, 2], 30), met("GET /", &[1], 70)],
        );
        Case::healthy()
            .traced("GET /", 10, vec![call])
            .with(|evidence| evidence.stacks = Some(stacks))
    }

    #[test]
    fn fires_when_one_line_asks_for_every_value() {
        check(
            asking(60),
            expect![[r#"
            named: RDS-05
            suspected app (30 %): one request asks Redis for one value after the other
              saw GET price:{n}, 60 times in each GET /, in App\Prices::of at app/Prices.php:23, in 10 requests that were traced, one after the other
              saw Redis runs 4 commands for each request PHP served, at 190/s offered for 10 s
              saw it takes 30 % of the work of all workers that were met, sampled 99 times a second, at 240/s offered for 10 s
              do: Read all values that the loop at app/Prices.php:23 needs with one command before it (MGET, a pipeline), and keep what every request reads in APCu.
        "#]],
        );
    }

    #[test]
    fn stays_silent_with_a_few_commands() {
        stays_silent(&RULE, asking(5));
        stays_silent(&RULE, Case::healthy());
    }
}
