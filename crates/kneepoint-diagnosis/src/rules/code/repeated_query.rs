//! MYS-04: one request runs the same query again and again. The catalogue has it with MySQL; it holds for every
//! database.

use crate::causes::Repeated;
use crate::rule::prelude::*;
use kneepoint_model::TracedCall;

pub(crate) static RULE: Rule = Rule {
    code: "MYS-04",
    name: "repeated-query",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: RuleStage::Code,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &[],
    title: "one request runs the same query again and again",
    doc: RuleDoc {
        what_it_is: "A page reads a list with one query and then, in a loop, one more for every row: the author of each \
            post, the price of each product. Each is fast; together they are a round trip and a bit of CPU on both \
            sides for every row, and the page gets slower with every row that is added. It is called N+1.",
        how_it_shows: "Traced requests send one query, with other values each time, from one line of code. The database \
            is asked far more often than pages are served, and no query of it is slow.",
        how_it_is_confirmed: "Count the queries of one request with twice as many rows: they double. With the rows read \
            together the count stays.",
        what_to_write: "Read what the loop needs before it. In Laravel:\n\n    Order::with('items')->get();\n\nand, so that \
            it cannot come back:\n\n    Model::preventLazyLoading(! app()->isProduction());\n\nIn SQL: a join, or one \
            query with IN (...).",
        references: &["https://laravel.com/docs/eloquent-relationships#eager-loading"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let repeated = Repeated::find(evidence, CallKind::Query)?;
    let mut verdict = repeated.begun(&RULE);
    if let Some(first) = read_before(evidence, repeated.call) {
        verdict = verdict.under(format!("before it, once: {first}"), evidence.traced_under());
    }
    let place = repeated.at();
    repeated
        .weighed(verdict)
        .refuted_by("as many queries of that request with twice as many rows")
        .remedy(
            Advice::new(
                evidence,
                format!("Read all rows that the loop{place} needs with one query before it (in Laravel: with(...))."),
            )
            .build(),
        )
        .done()
}

/// The query of the same request that most likely brought the rows: one that runs once, from the same function.
fn read_before<'a>(evidence: &'a Evidence, worst: &TracedCall) -> Option<&'a str> {
    let function = |call: &TracedCall| Some(call.named_place()?.function.clone());
    let mut candidates = evidence.traced(CallKind::Query).filter(|call| {
        call.route == worst.route && call.most == 1 && function(call) == function(worst)
    });
    let only = candidates.next()?;
    candidates.next().is_none().then_some(only.what.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{builtin, met, place, sampled, traced};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn query(what: &str, line: u32, each: u64) -> TracedCall {
        traced(
            "GET /orders",
            CallKind::Query,
            what,
            place("App\\Orders::list", "app/Orders.php", line),
            each,
        )
    }

    fn with_calls(times: u64) -> Case {
        let calls = vec![
            query("select * from orders limit ?", 20, 1),
            query("select * from items where order_id = ?", 23, times),
        ];
        Case::healthy().traced("GET /orders", 10, calls)
    }

    #[test]
    fn fires_when_one_line_asks_for_every_row() {
        let stacks = sampled(
            99,
            vec![
                place("App\\Orders::list", "app/Orders.php", 23),
                place("x", "x.php", 1),
                builtin("PDOStatement::execute"),
            ],
            vec![met("GET /orders", &[0, 2], 40), met("GET /", &[1], 60)],
        );
        check(
            with_calls(51).with(|evidence| evidence.stacks = Some(stacks)),
            expect![[r#"
                named: MYS-04
                suspected app (40 %): one request runs the same query again and again
                  saw select * from items where order_id = ?, 51 times in each GET /orders, in App\Orders::list at app/Orders.php:23, in 10 requests that were traced, one after the other
                  saw before it, once: select * from orders limit ?, in 10 requests that were traced, one after the other
                  saw it takes 40 % of the work of all workers that were met, sampled 99 times a second, at 240/s offered for 10 s
                  do: Read all rows that the loop at app/Orders.php:23 needs with one query before it (in Laravel: with(...)).
            "#]],
        );
    }

    #[test]
    fn stays_silent_with_a_few_queries() {
        stays_silent(&RULE, with_calls(6));
        stays_silent(&RULE, Case::healthy());
    }
}
