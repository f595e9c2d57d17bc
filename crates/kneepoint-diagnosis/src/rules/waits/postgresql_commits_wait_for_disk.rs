//! PG-15: commits of PostgreSQL wait for the disk.

use crate::causes::commits;
use crate::rule::prelude::*;

pub(crate) static RULE: Rule = Rule {
    code: "PG-15",
    name: "postgresql-commits-wait-for-disk",
    since: "0.1.0",
    layers: &[Layer::Db],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Server("postgresql"),
    requires: &[metric::WORKERS_WAITING, metric::DB_DISK_WAIT],
    // A lock is held until the commit has ended: who waits for it waits for both.
    yields_to: &["PG-03", "SES-04"],
    title: "commits of PostgreSQL wait for the disk",
    doc: RuleDoc {
        what_it_is: "At the end of each transaction that changed something PostgreSQL writes its log (WAL) and waits \
            until the disk has stored it, so that a crash loses nothing. Without BEGIN, each INSERT and UPDATE is a \
            transaction of its own. A disk of a cloud answers in one to ten milliseconds, and a page that writes five \
            rows one by one waits for five such answers.",
        how_it_shows: "Workers wait in recv towards the database, whose CPU is idle; its processes are in fdatasync nearly all \
            the time (wait_event WALSync and WALWrite in pg_stat_activity); pages that only read are fast.",
        how_it_is_confirmed: "synchronous_commit = off for one run: the waits go away and the limit rises.",
        what_to_write: "One transaction around the statements of a request, so that it waits once:\n\n    \
            $pdo->beginTransaction();\n    ...\n    $pdo->commit();\n\nCount visits and write logs outside of the page, in a \
            queue or in Redis. Where a crash may lose the last half second, for one role or one transaction:\n\n    \
            ALTER ROLE counter SET synchronous_commit = off;\n    SET LOCAL synchronous_commit = off;",
        references: &[
            "https://www.postgresql.org/docs/current/wal-async-commit.html",
            "https://www.postgresql.org/docs/current/monitoring-stats.html#WAIT-EVENT-IO-TABLE",
        ],
    },
    check: |evidence| {
        let relaxed = ("synchronous_commit", ["off"].as_slice());
        commits(
            &RULE,
            evidence,
            relaxed,
            "Put the statements that a request writes into one transaction, and count and log outside of the page. With \
             synchronous_commit = off a commit does not wait: a crash then loses up to about half a second of what was \
             written, and nothing else. Decide whether that may be, for all or for the transactions that may be lost.",
        )
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn writing(workers: f64, syncing: f64) -> Case {
        let synced = metric::DB_DISK_WAIT;
        Case::healthy()
            .machine_at(PhaseKind::Over, 0.3)
            .running(PhaseKind::Over, 8.0 - workers)
            .waiting(PhaseKind::Over, "recv db", workers)
            .waiting(PhaseKind::Over, "recv cache", 0.0)
            .gauge(PhaseKind::Over, Layer::Db, synced, "write", syncing)
    }

    #[test]
    fn fires_when_the_database_waits_for_its_disk_and_the_workers_for_the_database() {
        check(
            writing(7.0, 0.9),
            expect![[r#"
                named: PG-15
                suspected db (79 %): commits of PostgreSQL wait for the disk
                  saw 90 % of the time the database waits until its disk has written, at 240/s offered for 10 s
                  saw workers wait for the database 88 % of their time, 34.1 ms in each request, at 240/s offered for 10 s
                  saw 2.0 transactions in each request, at 240/s offered for 10 s
                  saw the database uses 0.25 cores, at 240/s offered for 10 s
                  saw 30 % of the machine's 2 cores used, at 240/s offered for 10 s
                  set db.synchronous_commit = off
            "#]],
        );
    }

    #[test]
    fn stays_silent_when_the_disk_is_fast() {
        check(
            writing(7.0, 0.05),
            expect![[r#"
            named: FPM-04
            silent
        "#]],
        );
        stays_silent(&RULE, Case::healthy());
    }
}
