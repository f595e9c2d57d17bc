//! MYS-03: queries read whole tables of MariaDB.

use crate::causes::index;
use crate::rule::FindingBuilder;
use crate::rule::prelude::*;

/// CPU time of reading one row of a table one after the other, in seconds \[ours\].
const ROW_COST_S: f64 = 0.000_000_4;
/// Rows scanned in a request from which on they are worth a word \[ours\]: small tables are read whole with good reason.
const MANY_ROWS: f64 = 1_000.0;
/// Reads of a whole table, for each request, below which rows come by an index \[ours\].
const SCANS: f64 = 0.05;

pub(crate) static RULE: Rule = Rule {
    code: "MYS-03",
    name: "full-scan",
    since: "0.1.0",
    layers: &[Layer::Db],
    stage: RuleStage::Code,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Server("mariadb"),
    requires: &[metric::DB_ROWS_SCANNED],
    yields_to: &["MYS-08"],
    title: "queries read whole tables of MariaDB",
    doc: RuleDoc {
        what_it_is: "A condition that no index serves makes the database read every row of the table and throw most of \
            them away. With a hundred rows it does not show; the time grows with the table, and with a hundred thousand \
            one request keeps a core busy for a tenth of a second.",
        how_it_shows: "Handler_read_rnd_next or Handler_read_next grows by thousands for each request, Select_scan with the requests; the \
            database's part of the CPU is large though it answers few queries.",
        how_it_is_confirmed: "EXPLAIN of the query says type ALL; with the index it reads a few rows, and the limit rises.",
        what_to_write: "An index over the columns of the condition, in the order equality first:\n\n    CREATE INDEX \
            orders_by_customer ON orders (customer_id, created_at);\n\nA function around the column, a leading % in LIKE \
            or another type than the column's keep an index from being used.",
        references: &[
            "https://mariadb.com/kb/en/explain/",
            "https://dev.mysql.com/doc/refman/8.0/en/table-scan-avoidance.html",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    find(&RULE, evidence)
}

/// The table of which most rows were read, where the database tells tables apart.
fn most_read(phase: &Phase) -> Option<&str> {
    let tables = phase.series.all(Layer::Db, metric::DB_TABLE_ROWS_SCANNED);
    let read = tables.filter_map(|table| Some((table.label.as_str(), table.delta()?)));
    let most = read.max_by(|a, b| a.1.total_cmp(&b.1));
    most.filter(|(_, rows)| *rows > 0.0).map(|(table, _)| table)
}

/// The same for whichever database the rule is about.
pub(super) fn find(rule: &Rule, evidence: &Evidence) -> Option<Finding> {
    let read = most_read(evidence.knee()?);
    read_whole(rule, evidence)?
        .refuted_by("as many rows read in each request with an index for the query")
        .remedy(index::missing(rule, evidence, read))
        .done()
}

/// What was measured of tables that are read whole, and what it costs.
pub(super) fn read_whole(rule: &Rule, evidence: &Evidence) -> Option<FindingBuilder> {
    let phase = evidence.knee()?;
    let rows_hz = phase.series.rate(Layer::Db, metric::DB_ROWS_SCANNED)?;
    let rows = rows_hz / phase.pool_hz().max(f64::MIN_POSITIVE);
    // Rows that an index leads to are read one after the other, too. No whole table is read where few are read in their order.
    let scans_hz = phase.series.rate(Layer::Db, metric::DB_SCANS);
    let of_tables_hz = phase.series.rate(Layer::Db, metric::DB_ROWS_OF_TABLES);
    let by_index = scans_hz.zip(of_tables_hz).is_some_and(|(scans, rows)| {
        scans < SCANS * phase.pool_hz() && rows < MANY_ROWS * phase.pool_hz()
    });
    if rows < MANY_ROWS || by_index {
        return None;
    }
    // No more than the database uses at all.
    let used = phase.cores_used(Layer::Db)?;
    let cores = (rows_hz * ROW_COST_S).min(used);
    let cost = evidence.part_of_cpu(phase, &[(Layer::Db, cores)]);
    let of =
        most_read(phase).map_or_else(String::new, |table| format!(", most of them of {table}"));
    let mut verdict = rule
        .finds(
            Layer::Db,
            format!("{}: {rows:.0} rows in each request{of}", rule.title),
        )
        .measured(
            format!("{rows:.0} rows read one after the other in each request PHP served"),
            phase,
        )
        .measured(format!("the database uses {used:.2} cores"), phase);
    if let Some(scans_hz) = scans_hz {
        verdict = verdict.measured(
            format!(
                "{:.1} SELECTs a request read a whole table",
                scans_hz / phase.pool_hz()
            ),
            phase,
        );
    }
    let mut queries = evidence.seen_longest(CallKind::Query);
    if queries.is_empty() {
        queries = evidence.seen_calls(CallKind::Query, index::waited_for(evidence));
    }
    let gain = format!(
        "about {} of the limit, from an estimated {:.1} us of CPU for each row",
        format_share(cost),
        ROW_COST_S * 1e6
    );
    let verdict = verdict.inside(evidence.seen_waiting(|wait| wait == "recv db"));
    Some(verdict.inside(queries).weight(cost).gain(gain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{builtin, met, place, sampled, traced};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn scanning(rows: f64) -> Case {
        Case::healthy()
            .on_mariadb()
            .counter(
                PhaseKind::Knee,
                Layer::Db,
                metric::DB_ROWS_SCANNED,
                190.0 * rows,
            )
            .counter(PhaseKind::Knee, Layer::Db, metric::DB_SCANS, 190.0)
            .counter(PhaseKind::Knee, Layer::Db, metric::CPU_S, 0.9)
    }

    #[test]
    fn fires_when_a_request_reads_thousands_of_rows_and_names_the_query() {
        let at = || place("App\\Orders::of", "app/Orders.php", 12);
        let other = place("App\\Home::index", "app/Home.php", 9);
        let calls = vec![
            traced(
                "GET /orders",
                CallKind::Query,
                "select * from orders where mail = ?",
                at(),
                1,
            ),
            traced("GET /", CallKind::Query, "select ?", other, 1),
        ];
        let stacks = sampled(
            50,
            vec![at(), builtin("[recv db]")],
            vec![met("GET /orders", &[0, 1], 900)],
        );
        let case = scanning(10_000.0)
            .traced("GET /orders", 10, calls)
            .with(|evidence| evidence.stacks = Some(stacks));
        check(
            case,
            expect![[r#"
                named: MYS-03
                suspected db (43 %): queries read whole tables of MariaDB: 10000 rows in each request
                  saw 10000 rows read one after the other in each request PHP served, at 190/s offered for 10 s
                  saw the database uses 0.90 cores, at 190/s offered for 10 s
                  saw 1.0 SELECTs a request read a whole table, at 190/s offered for 10 s
                  saw waiting there: GET /orders, App\Orders::of at app/Orders.php:12, 100 % of 900 stacks, sampled 50 times a second, at 240/s offered for 10 s
                  saw select * from orders where mail = ?, once in each GET /orders, in App\Orders::of at app/Orders.php:12, in 10 requests that were traced, one after the other
                  set db.sql.orders_by_mail = CREATE INDEX orders_by_mail ON orders (mail);
            "#]],
        );
    }

    #[test]
    fn stays_silent_when_tables_are_small() {
        stays_silent(&RULE, scanning(400.0));
        stays_silent(&RULE, Case::healthy().on_mariadb());
    }
}
