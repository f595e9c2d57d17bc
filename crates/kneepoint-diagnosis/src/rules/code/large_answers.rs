//! APP-10: every request reads a great deal from the database.

use crate::rule::prelude::*;
use kneepoint_model::units::format_bytes;
use kneepoint_model::{Change, Remedy};

/// Bytes a request is sent by the database from which on it is a great deal: what WordPress warns of for options that
/// are loaded on every page (catalogue APP-10).
const MUCH: f64 = 800_000.0;
/// Bytes of one option from which on it is not loaded with the others \[ours\]: WordPress 6.6 leaves out of the automatic load
/// what is larger than 150 kB when it is written
/// (<https://make.wordpress.org/core/2024/06/18/options-api-disabling-autoload-for-large-options/>).
const LARGE_OPTION: u64 = 150_000;
/// CPU time of one byte of them, on both sides and in PHP, in seconds: 10 MB of options made a page of 40 ms take 56 ms.
const BYTE_COST_S: f64 = 0.000_000_001_6;

pub(crate) static RULE: Rule = Rule {
    code: "APP-10",
    name: "large-answers",
    since: "0.1.0",
    layers: &[Layer::App, Layer::Db],
    stage: RuleStage::Code,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Server("mariadb"),
    requires: &[metric::DB_BYTES_SENT],
    yields_to: &[],
    title: "every request reads a great deal from the database",
    doc: RuleDoc {
        what_it_is: "Some applications read a table of options or settings whole at the beginning of every page. WordPress \
            does so with every option that is marked autoload; plugins leave theirs behind, caches among them. The \
            database sends, and PHP copies and unserialises, megabytes of which the page needs a few values.",
        how_it_shows: "The database sends hundreds of kilobytes for each request, most of it in one answer; PHP's memory \
            and CPU time a request are large on every page alike.",
        how_it_is_confirmed: "Take the largest options out of the automatic load and compare CPU time a request.",
        what_to_write: "Find them, and switch their loading off:\n\n    SELECT option_name, LENGTH(option_value) FROM \
            wp_options WHERE autoload IN ('yes', 'on') ORDER BY 2 DESC LIMIT 20;\n    UPDATE wp_options SET autoload = \
            'no' WHERE option_name = '...';\n\nElsewhere select the columns and rows that the page needs. A persistent \
            object cache does not help: it reads the same megabytes.",
        references: &[
            "https://developer.wordpress.org/advanced-administration/performance/optimization/",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let phase = evidence.knee()?;
    let sent_hz = phase.series.rate(Layer::Db, metric::DB_BYTES_SENT)?;
    let each = sent_hz / phase.pool_hz().max(f64::MIN_POSITIVE);
    if each < MUCH {
        return None;
    }
    // The database writes what PHP reads.
    let half = sent_hz * BYTE_COST_S / 2.0;
    let cost = evidence.part_of_cpu(phase, &[(Layer::Db, half), (Layer::Php, half)]);
    let much = format_bytes(each as u64);
    RULE.finds(
        Layer::App,
        format!("every request reads {much} from the database"),
    )
    .measured(
        format!("the database sends {much} for each request PHP served"),
        phase,
    )
    .inside(evidence.seen_largest(CallKind::Query))
    .weight(cost)
    .gain(format!(
        "about {} of the limit, from an estimated {:.1} ms of CPU for each MB",
        format_share(cost),
        BYTE_COST_S * 1e9
    ))
    .refuted_by("the same CPU time a request with a tenth of the bytes")
    .remedy(remedy(evidence))
    .done()
}

/// What to do; with a statement where the large answer is that of WordPress's options.
fn remedy(evidence: &Evidence) -> Remedy {
    let text = "Find what the large answer is: in WordPress the options that are loaded on every page (autoload), elsewhere a \
                query without a limit or with every column. Let pages read what they need.";
    let queries = evidence.traced(CallKind::Query);
    let largest = queries.max_by_key(|call| call.answer_bytes);
    let Some(table) = largest.and_then(|call| autoloaded(&call.what)) else {
        return Advice::new(evidence, text).build();
    };
    let statement = format!(
        "UPDATE {table} SET autoload = 'no' WHERE autoload IN ('yes', 'on', 'auto', 'auto-on') AND LENGTH(option_value) > \
         {LARGE_OPTION};"
    );
    let change = Change::Statement {
        name: "large_options",
    };
    Advice::new(
        evidence,
        format!(
            "{text} Here it is the options: an option of more than {} that is not loaded with the others is read when a page asks \
             for it.",
            format_bytes(LARGE_OPTION)
        ),
    )
    .set_all([change.to(statement)])
    .build()
}

/// The table of WordPress's options, when this query loads all that are to be loaded.
fn autoloaded(query: &str) -> Option<&str> {
    let (columns, rest) = query.split_once(" FROM ")?;
    let table = rest.split_whitespace().next()?;
    let plain = table.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_it = columns.contains("option_value") && rest.contains("autoload");
    (is_it && plain && table.ends_with("options")).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{place, traced};
    use kneepoint_model::TracedCall;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn sending(bytes: f64) -> Case {
        let at = || place("wp_load_alloptions", "wp-includes/option.php", 616);
        let query = |what: &str, answer_bytes: u64| TracedCall {
            answer_bytes: answer_bytes * 10,
            ..traced("GET /", CallKind::Query, what, at(), 1)
        };
        Case::healthy()
            .on_mariadb()
            .counter(
                PhaseKind::Knee,
                Layer::Db,
                metric::DB_BYTES_SENT,
                190.0 * bytes,
            )
            .traced(
                "GET /",
                10,
                vec![
                    query(
                        "SELECT option_name, option_value FROM wp_options WHERE autoload IN (?)",
                        1_900_000,
                    ),
                    query("SELECT * FROM wp_posts WHERE ID = ?", 2_000),
                ],
            )
    }

    #[test]
    fn fires_when_every_page_loads_megabytes() {
        check(
            sending(2_000_000.0),
            expect![[r#"
                named: APP-10
                suspected app (34 %): every request reads 1.9 MiB from the database
                  saw the database sends 1.9 MiB for each request PHP served, at 190/s offered for 10 s
                  saw 1.8 MiB in the answer to SELECT option_name, option_value FROM wp_options WHERE autoload IN (?), once in each GET /, in wp_load_alloptions at wp-includes/option.php:616, in 10 requests that were traced, one after the other
                  set db.sql.large_options = UPDATE wp_options SET autoload = 'no' WHERE autoload IN ('yes', 'on', 'auto', 'auto-on') AND LENGTH(option_value) > 150000;
            "#]],
        );
    }

    #[test]
    fn stays_silent_with_answers_of_ordinary_size() {
        stays_silent(&RULE, sending(40_000.0));
        stays_silent(&RULE, Case::healthy());
    }
}
