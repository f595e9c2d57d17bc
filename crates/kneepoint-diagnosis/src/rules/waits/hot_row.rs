//! MYS-06: requests wait for one another's locks on rows.

use crate::causes::{named_lock, table_of};
use crate::rule::prelude::*;
use kneepoint_model::{LockKind, TracedCall};

/// Share of the time of busy workers that waits for rows take, from which on they are what binds \[ours\].
const BINDS: f64 = 0.2;
/// The same from which on they are worth a note \[ours\].
const NOTICEABLE: f64 = 0.05;
/// Fewer waits than this in a phase are too few to judge, unless they take so much that they bind, and then so many \[ours\].
const FEWEST: f64 = 20.0;
const FEWEST_LONG: f64 = 3.0;

pub(crate) static RULE: Rule = Rule {
    code: "MYS-06",
    name: "hot-row",
    since: "0.1.0",
    layers: &[Layer::Db],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Server("mariadb"),
    requires: &[metric::DB_ROW_LOCK_WAITS, metric::DB_ROW_LOCK_S],
    yields_to: &["SES-04"],
    title: "requests wait for one another's locks on rows",
    doc: RuleDoc {
        what_it_is: "A statement that changes a row locks it until its transaction ends. When every request changes the same \
            row, a counter or the stock of one article, all of them pass through it one after the other, however many \
            workers and cores there are. The longer a transaction goes on after the change, the fewer requests pass.",
        how_it_shows: "Workers wait in recv towards the database while its CPU is idle; Innodb_row_lock_waits and \
            Innodb_row_lock_time grow with the requests.",
        how_it_is_confirmed: "Let each request change a row of its own for one run: the waits go away and the limit rises.",
        what_to_write: "Change the row last in the transaction, or outside of it; add to a counter in a queue or in Redis \
            and write sums; or spread it over several rows:\n\n    UPDATE hits SET n = n + 1 WHERE page = 7 AND slot = \
            FLOOR(RAND() * 16)",
        references: &[
            "https://mariadb.com/kb/en/innodb-status-variables/",
            "https://dev.mysql.com/doc/refman/8.0/en/innodb-locking.html",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    waits_for_rows(evidence).or_else(|| named_lock(&RULE, evidence))
}

/// Statements wait for rows.
fn waits_for_rows(evidence: &Evidence) -> Option<Finding> {
    let phases = [PhaseKind::Over, PhaseKind::Knee].into_iter();
    let (phase, waits, waited_s, share) = phases
        .filter_map(|kind| evidence.phase(kind))
        .filter_map(|phase| {
            // The time of a wait is added when it ends: where many queue, that is after the load.
            let whole = phase.whole();
            let waits = whole.series.delta(Layer::Db, metric::DB_ROW_LOCK_WAITS)?;
            let waited_s = whole.series.delta(Layer::Db, metric::DB_ROW_LOCK_S)?;
            // Seconds waited in each second are statements that wait, and each holds a worker.
            let waiting = whole.series.rate(Layer::Db, metric::DB_ROW_LOCK_S)?;
            let share = (waiting / whole.busy_workers()?).min(1.0);
            Some((phase, waits, waited_s, share))
        })
        .max_by(|a, b| a.3.total_cmp(&b.3))?;
    let fewest = if share >= BINDS { FEWEST_LONG } else { FEWEST };
    if waits < fewest || share < NOTICEABLE {
        return None;
    }
    let each_ms = waited_s / waits * 1e3;
    let calls = evidence.traced(CallKind::Query);
    let table = calls
        .filter(|call| locks(evidence, call))
        .find_map(|call| table_of(&call.what));
    let locked = evidence.queued_behind(|chain| chain.kind == LockKind::Row);
    let locked = locked.map(|queued| queued.most.object.as_str());
    let table = table.or(locked.filter(|table| !table.is_empty()));
    let title = match table {
        Some(table) => format!("{} of {table}", RULE.title),
        None => RULE.title.to_owned(),
    };
    let mut verdict = RULE
        .finds(Layer::Db, title)
        .measured(
            format!(
                "{waits:.0} waits for a row, {} each on average",
                format_ms(each_ms)
            ),
            phase,
        )
        .measured(
            format!(
                "they take {} of the time of busy workers",
                format_share(share)
            ),
            phase,
        );
    if let Some(cores) = phase.cores_used(Layer::Db) {
        verdict = verdict.measured(format!("the database uses {cores:.2} cores"), phase);
    }
    verdict
        .inside(evidence.seen_first(|chain| chain.kind == LockKind::Row))
        .inside(evidence.seen_calls(CallKind::Query, |call| locks(evidence, call)))
        .suspected_if(share >= BINDS)
        .weight(share)
        .refuted_by("the same limit where each request changes a row of its own")
        .remedy(
            Advice::new(
                evidence,
                "Change the row as late in the transaction as can be, or outside of it; count in Redis or a queue and write \
                 sums; or spread a counter over several rows.",
            )
            .build(),
        )
        .done()
}

/// Whether a traced query takes locks on rows, and from a line that was met waiting for the database where stacks were
/// sampled.
fn locks(evidence: &Evidence, call: &TracedCall) -> bool {
    let query = call.what.trim_start().to_ascii_lowercase();
    let takes = ["update", "delete", "insert", "replace"];
    let is_locking =
        takes.iter().any(|verb| query.starts_with(verb)) || query.contains("for update");
    let met = evidence.met_waiting(|wait| wait == "recv db");
    is_locking && (met.is_empty() || met.iter().any(|met| call.named_place() == Some(met.place)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{place, traced};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    /// So many statements wait for a row at any time above the limit.
    fn waiting(statements: f64) -> Case {
        let at = || place("App\\Hits::count", "app/Hits.php", 12);
        let query = |what: &str| traced("GET /", CallKind::Query, what, at(), 1);
        Case::healthy()
            .on_mariadb()
            .machine_at(PhaseKind::Over, 0.3)
            .running(PhaseKind::Over, 8.0 - statements)
            .waiting(PhaseKind::Over, "recv db", statements)
            .waiting(PhaseKind::Over, "recv cache", 0.0)
            .counter(PhaseKind::Over, Layer::Db, metric::DB_ROW_LOCK_WAITS, 180.0)
            .counter(
                PhaseKind::Over,
                Layer::Db,
                metric::DB_ROW_LOCK_S,
                statements,
            )
            .traced(
                "GET /",
                10,
                vec![
                    query("update hits set n = n + ? where page = ?"),
                    query("select * from pages"),
                ],
            )
    }

    #[test]
    fn fires_when_workers_pass_through_a_row_one_after_the_other() {
        check(
            waiting(6.0),
            expect![[r#"
                named: MYS-06
                suspected db (75 %): requests wait for one another's locks on rows of hits
                  saw 1800 waits for a row, 33.3 ms each on average, at 240/s offered for 10 s
                  saw they take 75 % of the time of busy workers, at 240/s offered for 10 s
                  saw the database uses 0.25 cores, at 240/s offered for 10 s
                  saw update hits set n = n + ? where page = ?, once in each GET /, in App\Hits::count at app/Hits.php:12, in 10 requests that were traced, one after the other
                  do: Change the row as late in the transaction as can be, or outside of it; count in Redis or a queue and write sums; or spread a counter over several rows.
            "#]],
        );
    }

    #[test]
    fn only_notes_a_few_waits() {
        let few = waiting(0.8).machine_at(PhaseKind::Over, 0.96);
        check(
            few,
            expect![[r#"
                named: CAP-02
                noted db (10.0 %): requests wait for one another's locks on rows of hits
                  saw 1800 waits for a row, 4.44 ms each on average, at 240/s offered for 10 s
                  saw they take 10.0 % of the time of busy workers, at 240/s offered for 10 s
                  saw the database uses 0.25 cores, at 240/s offered for 10 s
                  saw update hits set n = n + ? where page = ?, once in each GET /, in App\Hits::count at app/Hits.php:12, in 10 requests that were traced, one after the other
                  do: Change the row as late in the transaction as can be, or outside of it; count in Redis or a queue and write sums; or spread a counter over several rows.
            "#]],
        );
    }

    #[test]
    fn counts_waits_that_end_after_the_load() {
        let waited = metric::DB_ROW_LOCK_S;
        let late = waiting(6.0)
            .counter(PhaseKind::Over, Layer::Db, waited, 0.1)
            .with(|evidence| {
                let mut phases = evidence.phases.iter_mut();
                let phase = phases.find(|phase| phase.kind == PhaseKind::Over);
                let phase = phase.expect("a phase above the limit");
                let counted = phase.series.get(Layer::Db, waited);
                let mut later = counted.expect("it was counted").clone();
                later.points = (11..=20_u32)
                    .map(|at| (f64::from(at), 1.0 + 11.9 * f64::from(at - 10)))
                    .collect();
                phase.afterwards.series.push(later);
            });
        check(
            late,
            expect![[r#"
                named: MYS-06
                suspected db (75 %): requests wait for one another's locks on rows of hits
                  saw 1800 waits for a row, 66.7 ms each on average, at 240/s offered for 10 s
                  saw they take 75 % of the time of busy workers, at 240/s offered for 10 s
                  saw the database uses 0.25 cores, at 240/s offered for 10 s
                  saw update hits set n = n + ? where page = ?, once in each GET /, in App\Hits::count at app/Hits.php:12, in 10 requests that were traced, one after the other
                  do: Change the row as late in the transaction as can be, or outside of it; count in Redis or a queue and write sums; or spread a counter over several rows.
            "#]],
        );
    }

    #[test]
    fn stays_silent_when_rows_are_free() {
        stays_silent(&RULE, Case::healthy().on_mariadb());
        stays_silent(&RULE, waiting(0.1).machine_at(PhaseKind::Over, 0.96));
    }
}
