//! PG-04: queries read whole tables of PostgreSQL.

use crate::rule::prelude::*;

pub(crate) static RULE: Rule = Rule {
    code: "PG-04",
    name: "sequential-scan",
    since: "0.1.0",
    layers: &[Layer::Db],
    stage: RuleStage::Code,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Server("postgresql"),
    requires: &[metric::DB_ROWS_SCANNED],
    yields_to: &[],
    title: "queries read whole tables of PostgreSQL",
    doc: RuleDoc {
        what_it_is: "A condition that no index serves makes PostgreSQL read every row of the table (a sequential scan) and \
            throw most of them away. It is right for a small table; the time grows with the table, and with a hundred \
            thousand rows one request keeps a core busy for hundredths of a second.",
        how_it_shows: "seq_tup_read of a table in pg_stat_user_tables grows by thousands for each request; the database's part \
            of the CPU is large though it answers few queries.",
        how_it_is_confirmed: "EXPLAIN of the query says Seq Scan; with the index it says Index Scan, and the limit rises.",
        what_to_write: "An index over the columns of the condition, in the order equality first:\n\n    CREATE INDEX \
            CONCURRENTLY orders_by_customer ON orders (customer_id, created_at);\n\nA function around the column needs an \
            index over that expression; a pattern that begins with % needs pg_trgm.",
        references: &[
            "https://www.postgresql.org/docs/current/using-explain.html",
            "https://www.postgresql.org/docs/current/monitoring-stats.html#MONITORING-PG-STAT-ALL-TABLES-VIEW",
        ],
    },
    check: |evidence| super::full_scan::find(&RULE, evidence),
};

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn scanning(rows: f64) -> Case {
        let read = 190.0 * rows;
        Case::healthy()
            .counter(PhaseKind::Knee, Layer::Db, metric::DB_ROWS_SCANNED, read)
            .counter(PhaseKind::Knee, Layer::Db, metric::CPU_S, 0.9)
            .with(|evidence| {
                let knee = evidence.phases.iter_mut();
                for phase in knee.filter(|phase| phase.kind == PhaseKind::Knee) {
                    for (at_s, value) in [(0.0, 0.0), (10.0, read * 10.0)] {
                        let of = metric::DB_TABLE_ROWS_SCANNED;
                        phase.series.push(Layer::Db, of, "articles", at_s, value);
                    }
                }
            })
    }

    #[test]
    fn fires_with_the_table_that_is_read_whole() {
        check(
            scanning(10_000.0),
            expect![[r#"
            named: PG-04
            suspected db (43 %): queries read whole tables of PostgreSQL: 10000 rows in each request, most of them of articles
              saw 10000 rows read one after the other in each request PHP served, at 190/s offered for 10 s
              saw the database uses 0.90 cores, at 190/s offered for 10 s
              do: EXPLAIN the queries that are listed; give the one that reads every row (type ALL, Seq Scan) an index over the columns of its condition.
        "#]],
        );
    }

    #[test]
    fn stays_silent_when_tables_are_small() {
        stays_silent(&RULE, scanning(300.0));
        stays_silent(&RULE, Case::healthy());
    }
}
