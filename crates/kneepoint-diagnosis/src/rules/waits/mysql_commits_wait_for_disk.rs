//! MYS-07: commits of MariaDB wait for the disk.

use crate::causes::commits;
use crate::rule::prelude::*;

pub(crate) static RULE: Rule = Rule {
    code: "MYS-07",
    name: "mysql-commits-wait-for-disk",
    since: "0.1.0",
    layers: &[Layer::Db],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Server("mariadb"),
    requires: &[metric::WORKERS_WAITING, metric::DB_DISK_WAIT],
    // A lock is held until the commit has ended: who waits for it waits for both.
    yields_to: &["MYS-06", "SES-04"],
    title: "commits of MariaDB wait for the disk",
    doc: RuleDoc {
        what_it_is: "At the end of each transaction InnoDB writes its log and waits until the disk has stored it, so \
            that a crash of the machine loses nothing. Without a transaction around them, each INSERT and UPDATE is one \
            of its own. A disk of a cloud answers in one to ten milliseconds, and so a page that writes five rows one by \
            one waits up to fifty.",
        how_it_shows: "Workers wait in recv towards the database, whose CPU is idle, while one of its threads is in fsync nearly \
            all the time; pages that only read are fast.",
        how_it_is_confirmed: "innodb_flush_log_at_trx_commit = 2 for one run: the waits go away and the limit rises.",
        what_to_write: "One transaction around the statements of a request, so that it waits once:\n\n    \
            $pdo->beginTransaction();\n    ...\n    $pdo->commit();\n\nCount visits and write logs outside of the page, in a \
            queue or in Redis. Where a crash of the machine may lose the last second:\n\n    \
            [mysqld]\n    innodb_flush_log_at_trx_commit = 2",
        references: &[
            "https://mariadb.com/kb/en/innodb-system-variables/#innodb_flush_log_at_trx_commit",
            "https://mariadb.com/kb/en/group-commit-for-the-binary-log/",
        ],
    },
    check: |evidence| {
        let relaxed = ("innodb_flush_log_at_trx_commit", ["2", "0"].as_slice());
        commits(
            &RULE,
            evidence,
            relaxed,
            "Put the statements that a request writes into one transaction, and count and log outside of the page. With \
             innodb_flush_log_at_trx_commit = 2 a commit does not wait: a crash of the machine, not of the database alone, \
             then loses up to a second of what was written. Decide whether that may be.",
        )
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{builtin, met, place, sampled, traced};
    use kneepoint_model::Confidence;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    /// So many workers that wait for the database, which is in fsync for a share of the time.
    fn writing(workers: f64, syncing: f64) -> Case {
        let at = || place("App\\Visits::log", "app/Visits.php", 12);
        let stacks = sampled(
            50,
            vec![at(), builtin("[recv db]")],
            vec![met("GET /", &[0, 1], 900)],
        );
        let query = traced(
            "GET /",
            CallKind::Query,
            "insert into visits values (?)",
            at(),
            3,
        );
        Case::healthy()
            .on_mariadb()
            .machine_at(PhaseKind::Over, 0.3)
            .running(PhaseKind::Over, 8.0 - workers)
            .waiting(PhaseKind::Over, "recv db", workers)
            .waiting(PhaseKind::Over, "recv cache", 0.0)
            .gauge(
                PhaseKind::Over,
                Layer::Db,
                metric::DB_DISK_WAIT,
                "write",
                syncing,
            )
            .traced("GET /", 10, vec![query])
            .with(|evidence| evidence.stacks = Some(stacks))
    }

    #[test]
    fn fires_with_the_line_that_writes_when_the_database_waits_for_its_disk() {
        check(
            writing(7.0, 0.9),
            expect![[r#"
                named: MYS-07
                suspected db (79 %): commits of MariaDB wait for the disk
                  saw 90 % of the time the database waits until its disk has written, at 240/s offered for 10 s
                  saw workers wait for the database 88 % of their time, 34.1 ms in each request, at 240/s offered for 10 s
                  saw 2.0 transactions in each request, at 240/s offered for 10 s
                  saw the database uses 0.25 cores, at 240/s offered for 10 s
                  saw 30 % of the machine's 2 cores used, at 240/s offered for 10 s
                  saw waiting there: GET /, App\Visits::log at app/Visits.php:12, 100 % of 900 stacks, sampled 50 times a second, at 240/s offered for 10 s
                  saw insert into visits values (?), 3.0 times in each GET /, in App\Visits::log at app/Visits.php:12, in 10 requests that were traced, one after the other
                  set db.innodb_flush_log_at_trx_commit = 2
            "#]],
        );
    }

    #[test]
    fn only_notes_what_takes_a_small_part_of_the_queries_time() {
        let mostly = |insert_us, select_us| {
            let case = writing(7.0, 0.9).with(|evidence| {
                let trace = evidence.calls.as_mut().expect("a trace");
                let at = place("App\\Home::index", "app/Home.php", 9);
                let select = traced("GET /", CallKind::Query, "select * from hats", at, 10);
                trace.calls.push(select);
                trace.calls[0].waited_us = insert_us;
                trace.calls[1].waited_us = select_us;
            });
            let finding = (RULE.check)(&case.evidence()).expect("a finding");
            finding.confidence
        };
        assert_eq!(mostly(6_000, 44_000), Confidence::Noted);
        assert_eq!(mostly(44_000, 6_000), Confidence::Suspected);
    }

    #[test]
    fn stays_silent_when_the_database_waits_for_something_else() {
        let case = writing(7.0, 0.02);
        check(
            case,
            expect![[r#"
            named: FPM-04
            silent
        "#]],
        );
    }

    #[test]
    fn only_notes_it_when_the_cpu_is_used_up() {
        check(
            writing(3.0, 0.9).machine_at(PhaseKind::Over, 0.97),
            expect![[r#"
                named: CAP-02
                noted db (34 %): commits of MariaDB wait for the disk
                  saw 90 % of the time the database waits until its disk has written, at 240/s offered for 10 s
                  saw workers wait for the database 38 % of their time, 14.6 ms in each request, at 240/s offered for 10 s
                  saw 2.0 transactions in each request, at 240/s offered for 10 s
                  saw the database uses 0.25 cores, at 240/s offered for 10 s
                  saw 97 % of the machine's 2 cores used, at 240/s offered for 10 s
                  saw waiting there: GET /, App\Visits::log at app/Visits.php:12, 100 % of 900 stacks, sampled 50 times a second, at 240/s offered for 10 s
                  saw insert into visits values (?), 3.0 times in each GET /, in App\Visits::log at app/Visits.php:12, in 10 requests that were traced, one after the other
                  set db.innodb_flush_log_at_trx_commit = 2
            "#]],
        );
    }

    #[test]
    fn only_notes_it_where_requests_only_read() {
        let case = writing(7.0, 0.9).with(|evidence| {
            for call in &mut evidence.calls.as_mut().expect("traced").calls {
                "select * from visits".clone_into(&mut call.what);
                call.most = 1;
            }
        });
        check(
            case,
            expect![[r#"
            named: FPM-04
            noted db (79 %): commits of MariaDB wait for the disk
              saw 90 % of the time the database waits until its disk has written, at 240/s offered for 10 s
              saw workers wait for the database 88 % of their time, 34.1 ms in each request, at 240/s offered for 10 s
              saw 2.0 transactions in each request, at 240/s offered for 10 s
              saw the database uses 0.25 cores, at 240/s offered for 10 s
              saw 30 % of the machine's 2 cores used, at 240/s offered for 10 s
              saw waiting there: GET /, App\Visits::log at app/Visits.php:12, 100 % of 900 stacks, sampled 50 times a second, at 240/s offered for 10 s
              set db.innodb_flush_log_at_trx_commit = 2
        "#]],
        );
    }

    #[test]
    fn stays_silent_where_commits_do_not_wait() {
        let setting = "innodb_flush_log_at_trx_commit";
        check(
            writing(7.0, 0.9).set(Layer::Db, setting, "2"),
            expect![[r#"
                named: FPM-04
                silent
            "#]],
        );
    }

    #[test]
    fn stays_silent_on_a_healthy_stack() {
        stays_silent(&RULE, Case::healthy().on_mariadb());
    }
}
