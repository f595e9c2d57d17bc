//! MYS-08: pages count all rows of a table of MariaDB.

use super::full_scan::read_whole;
use crate::causes::{counted_whole, index};
use crate::rule::prelude::*;

pub(crate) static RULE: Rule = Rule {
    code: "MYS-08",
    name: "whole-table-counted",
    since: "0.1.0",
    layers: &[Layer::Db],
    stage: RuleStage::Code,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Server("mariadb"),
    requires: &[metric::DB_ROWS_SCANNED],
    yields_to: &[],
    title: "pages count all rows of a table",
    doc: RuleDoc {
        what_it_is: "InnoDB keeps no number of rows: COUNT(*) without a condition walks over a whole index each time. It is \
            fast on the day the table is made and slower with each row; a counter at the foot of a page, or the last page \
            of a list, then costs more than the page.",
        how_it_shows: "Handler_read_next grows by the size of the table for each request, the database's part of the CPU is \
            large, and pages get slower from week to week. No index helps.",
        how_it_is_confirmed: "Leave the number out for one run: the rows that are read go away and the limit rises.",
        what_to_write: "Keep the number: a row that each INSERT and DELETE changes, or a value that a job writes every minute \
            and the page reads. Where about right is enough:\n\n    SELECT table_rows FROM information_schema.tables WHERE \
            table_name = 'visits'\n\nA list needs no number of pages to have a link to the next.",
        references: &[
            "https://dev.mysql.com/doc/refman/8.0/en/innodb-restrictions-limitations.html",
            "https://mariadb.com/kb/en/count/",
            "field report S2 (its test application counts a table that grows)",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let query = index::waited_for_most(evidence)?;
    let table = counted_whole(&query.what)?;
    read_whole(&RULE, evidence)?
        .refuted_by("as many rows read in each request without the number")
        .remedy(
            Advice::new(
                evidence,
                format!(
                    "Keep the number of rows of {table} in a row of its own or in a cache, written when it changes or once a \
                     minute, and read that. An index does not help: all rows are counted."
                ),
            )
            .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{place, traced};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn asking(query: &str) -> Case {
        let at = place("App\\Footer::visits", "app/Footer.php", 9);
        let rows = metric::DB_ROWS_SCANNED;
        Case::healthy()
            .on_mariadb()
            .counter(PhaseKind::Knee, Layer::Db, rows, 190.0 * 20_000.0)
            .counter(PhaseKind::Knee, Layer::Db, metric::CPU_S, 0.9)
            .traced(
                "GET /",
                10,
                vec![traced("GET /", CallKind::Query, query, at, 1)],
            )
    }

    #[test]
    fn fires_when_what_requests_wait_for_counts_a_whole_table() {
        check(
            asking("select count(*) from visits"),
            expect![[r#"
            named: MYS-08
            suspected db (50 %): pages count all rows of a table: 20000 rows in each request
              saw 20000 rows read one after the other in each request PHP served, at 190/s offered for 10 s
              saw the database uses 0.90 cores, at 190/s offered for 10 s
              saw select count(*) from visits, once in each GET /, in App\Footer::visits at app/Footer.php:9, in 10 requests that were traced, one after the other
              do: Keep the number of rows of visits in a row of its own or in a cache, written when it changes or once a minute, and read that. An index does not help: all rows are counted.
        "#]],
        );
    }

    #[test]
    fn leaves_a_count_with_a_condition_to_the_rule_on_scans() {
        check(
            asking("select count(*) from visits where page = ?"),
            expect![[r#"
                named: MYS-03
                silent
            "#]],
        );
    }
}
