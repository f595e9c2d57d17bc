//! A lock of the database that has a name of the application's own.

use crate::rule::LEAST_PART;
use crate::rule::prelude::*;
use crate::saturation::waits::Part;
use kneepoint_model::{LockKind, TracedCall};

/// Share of the time of busy workers that the waits take, from which on they are what binds \[ours\].
const BINDS: f64 = 0.2;
/// Queries that wait for a lock which has a name of the application's own, or for a whole table: MariaDB's and PostgreSQL's.
const NAMED_LOCKS: [&str; 3] = ["get_lock(", "pg_advisory", "lock table"];

/// Workers wait for the database where they ask it for such a lock.
pub(crate) fn named_lock(rule: &Rule, evidence: &Evidence) -> Option<Finding> {
    let part = Part::find(evidence, LEAST_PART, |wait| {
        wait.is_for_answer_of(Layer::Db)
    })?;
    let asks = |call: &&TracedCall| {
        let query = call.what.to_ascii_lowercase();
        NAMED_LOCKS.iter().any(|lock| query.contains(lock))
    };
    let call = evidence.traced(CallKind::Query).find(asks)?;
    let met = evidence.met_waiting(|wait| part.is_it(wait));
    let there = met
        .iter()
        .filter(|met| call.named_place() == Some(met.place));
    let share = part.share * there.map(|met| met.share).sum::<f64>();
    // A database that works is no lock.
    let works = part.phase.cores_used(Layer::Db).unwrap_or(0.0);
    if share < LEAST_PART || works > share * part.phase.busy_workers()? / 4.0 {
        return None;
    }
    let title = format!(
        "requests wait for one another's lock in the database: {}",
        call.what
    );
    rule.finds(Layer::Db, title)
        .measured(
            format!(
                "waiting for it takes {} of the time of busy workers",
                format_share(share)
            ),
            part.phase,
        )
        .inside(evidence.seen_first(|chain| chain.kind == LockKind::Named))
        .inside(evidence.seen_waiting(|wait| part.is_it(wait)))
        .inside(evidence.seen_calls(CallKind::Query, |one| asks(&one)))
        .suspected_if(share >= BINDS)
        .weight(share)
        .refuted_by("the same limit where each request takes a lock of its own")
        .remedy(
            Advice::new(
                evidence,
                "Hold the lock only for what needs it, give it a name for each thing it guards instead of one for everybody, \
                 or do the work outside of the page.",
            )
            .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{builtin, check_code, met, place, sampled, traced};

    fn check(case: Case, expected: expect_test::Expect) {
        check_code("MYS-06", case, expected);
    }

    #[test]
    fn fires_when_one_name_locks_everybody_out() {
        let at = || place("Report::begin", "plugins/report/report.php", 12);
        let call = traced("GET /", CallKind::Query, "SELECT GET_LOCK(?, ?)", at(), 1);
        let stacks = sampled(
            50,
            vec![at(), builtin("[recv db]")],
            vec![met("GET /", &[0, 1], 200)],
        );
        let case = Case::healthy()
            .on_mariadb()
            .machine_at(PhaseKind::Over, 0.3)
            .running(PhaseKind::Over, 2.0)
            .waiting(PhaseKind::Over, "recv db", 6.0)
            .counter(PhaseKind::Over, Layer::Db, metric::DB_ROW_LOCK_WAITS, 0.0)
            .counter(PhaseKind::Over, Layer::Db, metric::DB_ROW_LOCK_S, 0.0)
            .traced("GET /", 10, vec![call])
            .with(|evidence| evidence.stacks = Some(stacks));
        check(
            case,
            expect![[r#"
                named: MYS-06
                suspected db (73 %): requests wait for one another's lock in the database: SELECT GET_LOCK(?, ?)
                  saw waiting for it takes 73 % of the time of busy workers, at 240/s offered for 10 s
                  saw waiting there: GET /, Report::begin at plugins/report/report.php:12, 100 % of 200 stacks, sampled 50 times a second, at 240/s offered for 10 s
                  saw SELECT GET_LOCK(?, ?), once in each GET /, in Report::begin at plugins/report/report.php:12, in 10 requests that were traced, one after the other
                  do: Hold the lock only for what needs it, give it a name for each thing it guards instead of one for everybody, or do the work outside of the page.
            "#]],
        );
    }
}
