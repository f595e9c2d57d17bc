//! MYS-04: one request runs the same query again and again. The catalogue has it with MySQL; it holds for every
//! database.

use crate::causes::{Repeated, unprepared};
use crate::rule::prelude::*;
use kneepoint_model::{Remedy, TracedCall};

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
            post, the price of each product. Each is fast; together they are a round trip and a bit of CPU on both sides \
            for every row, and the page gets slower with every row that is added. It is called N+1. The code says MYS, \
            and the rule holds for PostgreSQL as well.",
        how_it_shows: "Traced requests send one query, with other values each time, from one line of code. The database \
            is asked far more often than pages are served, and no query of it is slow.",
        how_it_is_confirmed: "Count the queries of one request with twice as many rows: they double. With the rows read \
            together the count stays.",
        what_to_write: "Read what the loop needs before it. In Laravel:\n\n    Order::with('items')->get();\n\nand, so that \
            it cannot come back:\n\n    Model::preventLazyLoading(! app()->isProduction());\n\nIn SQL: a join, or one \
            query with IN (...). Where the table is the application's own cache, keep that in memory instead (APCu, Redis, \
            memcached).",
        references: &[
            "https://laravel.com/docs/eloquent-relationships#eager-loading",
            "https://www.mediawiki.org/wiki/Manual:$wgMainCacheType",
        ],
    },
    check,
};

const OF_WORDPRESS: &str = "Let an object cache of WordPress answer for options and transients: a drop-in \
    (wp-content/object-cache.php) with Redis or APCu.";

/// Tables that are an application's cache: how the name of one begins or ends, the column that it is asked by, and what
/// answers without a query.
const CACHES: [(&str, &str, &str); 4] = [
    (
        "objectcache",
        "keyname",
        "This table is MediaWiki's cache. Keep it in memory: $wgMainCacheType = CACHE_ACCEL (APCu) in LocalSettings.php, or \
         memcached or Redis where several hosts share it.",
    ),
    ("_options", "option_name", OF_WORDPRESS),
    (
        "cache_",
        "cid",
        "This table is Drupal's cache. Keep it in memory, by the module redis or memcache.",
    ),
    (
        "cache",
        "key",
        "This table is a cache. Keep it in memory (in Laravel: CACHE_STORE = redis).",
    ),
];

/// What to do where the query asks a table that is a cache.
fn of_cache(query: &str) -> Option<&'static str> {
    let query = query.to_ascii_lowercase();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words: Vec<&str> = query.split(|c: char| !is_name(c)).collect();
    let is_one = |word: &str, known: &str| match known {
        // Applications put a prefix before the names of their tables.
        "cache" => word == known,
        "cache_" => word.contains(known),
        known => word.ends_with(known),
    };
    let mut caches = CACHES.iter();
    caches
        .find(|(table, column, _)| {
            words.contains(column) && words.iter().any(|word| is_one(word, table))
        })
        .map(|(_, _, advice)| *advice)
}

fn check(evidence: &Evidence) -> Option<Finding> {
    let repeated = Repeated::find(evidence, CallKind::Query)?;
    let mut verdict = repeated.begun(&RULE);
    if let Some(first) = read_before(evidence, repeated.call) {
        verdict = verdict.under(format!("before it, once: {first}"), evidence.traced_under());
    }
    let place = repeated.at();
    let (refuted_by, advice) = match of_cache(&repeated.call.what) {
        Some(advice) => (
            "as many queries of that request with the cache in memory",
            advice.to_owned(),
        ),
        None => (
            "as many queries of that request with twice as many rows",
            format!(
                "Read all rows that the loop{place} needs with one query before it (in Laravel: with(...))."
            ),
        ),
    };
    repeated
        .weighed(verdict)
        .refuted_by(refuted_by)
        .remedy(remedy(evidence, advice))
        .done()
}

/// The advice; with a change where that is an object cache which the lab can have.
fn remedy(evidence: &Evidence, advice: String) -> Remedy {
    let is_it = advice == OF_WORDPRESS;
    let change = unprepared::object_cache(evidence).filter(|_| is_it);
    let measured = if change.is_some() {
        " The comparison has a small one of Kneepoint's own; for visitors install a plugin that is looked after, such as \
         Redis Object Cache."
    } else {
        ""
    };
    Advice::new(evidence, advice + measured)
        .set_all(change)
        .build()
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
    use kneepoint_model::Unprepared;

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
    fn a_table_that_is_a_cache_belongs_into_memory() {
        for (query, whose) in [
            (
                "SELECT keyname,value,exptime FROM `objectcache` WHERE keyname = ?",
                "MediaWiki",
            ),
            (
                "SELECT option_value FROM wp_options WHERE option_name = ? LIMIT ?",
                "WordPress",
            ),
            (
                "SELECT cid, data FROM \"dr_cache_render\" WHERE cid IN (?)",
                "Drupal",
            ),
            ("select * from `cache` where `key` = ?", "Laravel"),
        ] {
            let advice = of_cache(query).unwrap_or_default();
            assert!(advice.contains(whose), "{query}: {advice}");
        }
        for query in [
            "select * from items where order_id = ?",
            "select * from options where id = ?",
        ] {
            assert_eq!(of_cache(query), None, "{query}");
        }
    }

    #[test]
    fn wordpress_tries_an_object_cache_in_the_labs_redis() {
        let asked = |what: &str| {
            let case = Case::healthy().traced("GET /orders", 10, vec![query(what, 9, 51)]);
            let case = case.set(Layer::Php, "extension.redis", "on");
            case.with(|it| it.unprepared.push(Unprepared::WordpressObjectCache))
        };
        let remedy = |case: Case| {
            let finding = super::check(&case.evidence()).expect("it is asked too often");
            finding.remedy.expect("a remedy")
        };
        let options = "SELECT option_value FROM wp_options WHERE option_name = ? LIMIT ?";
        let tried = remedy(asked(options));
        assert!(tried.text.contains("Redis Object Cache"), "{tried:?}");
        assert_eq!(
            tried.settings[0].to_string(),
            "app.run.object-cache = printf %s \"${KNEEPOINT_OBJECT_CACHE:?}\" > wp-content/object-cache.php"
        );
        for case in [
            asked("select * from items where order_id = ?"),
            asked(options).with(|it| it.unprepared.clear()),
        ] {
            let told = remedy(case);
            assert!(told.settings.is_empty(), "{told:?}");
            assert!(!told.text.contains("Redis Object Cache"), "{told:?}");
        }
    }

    #[test]
    fn stays_silent_with_a_few_queries() {
        stays_silent(&RULE, with_calls(6));
        stays_silent(&RULE, Case::healthy());
    }
}
