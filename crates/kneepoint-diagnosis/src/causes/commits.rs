//! Requests that wait until the disk has a database's log.

use crate::rule::prelude::*;
use crate::saturation::waits::has_headroom;

/// Share of the time of busy workers from which on commits are what binds \[ours\].
const BINDS: f64 = 0.2;
/// The same from which on they are worth a note \[ours\].
const NOTICEABLE: f64 = 0.05;
/// Share of the time in which the database waits for its disk, below which commits are not what its clients wait for
/// \[ours\]: a checkpoint waits now and then.
const OFTEN: f64 = 0.2;
/// The calls that wait until the disk has what was written, as telemetry names them.
const WRITE: &str = "write";

/// Workers wait for a database that waits for its disk. `relaxed` is the setting and its values with which a commit does not
/// wait, the one to be proposed first.
pub(crate) fn commits(
    rule: &Rule,
    evidence: &Evidence,
    (setting, relaxed): (&str, &[&str]),
    advice: &str,
) -> Option<Finding> {
    let present = evidence.stack.setting(Layer::Db, setting);
    if present.is_some_and(|present| relaxed.contains(&present)) {
        return None;
    }
    let (phase, waiting, syncing) = [PhaseKind::Knee, PhaseKind::Over]
        .into_iter()
        .filter_map(|kind| of_phase(evidence.phase(kind)?))
        .max_by(|a, b| (a.1 * a.2).total_cmp(&(b.1 * b.2)))?;
    let share = waiting * syncing;
    if share < NOTICEABLE || syncing < OFTEN {
        return None;
    }
    let idle = has_headroom(evidence, phase);
    let each_ms = waiting * phase.busy_workers()? / phase.pool_hz().max(f64::MIN_POSITIVE) * 1e3;
    let mut verdict = rule
        .finds(Layer::Db, rule.title)
        .measured(
            format!(
                "{} of the time the database waits until its disk has written",
                format_share(syncing)
            ),
            phase,
        )
        .measured(
            format!(
                "workers wait for the database {} of their time, {} in each request",
                format_share(waiting),
                format_ms(each_ms)
            ),
            phase,
        );
    if let Some(hz) = phase.series.rate(Layer::Db, metric::DB_TRANSACTIONS) {
        let each = hz / phase.pool_hz().max(f64::MIN_POSITIVE);
        verdict = verdict.measured(format!("{each:.1} transactions in each request"), phase);
    }
    if let Some(cores) = phase.cores_used(Layer::Db) {
        verdict = verdict.measured(format!("the database uses {cores:.2} cores"), phase);
    }
    let written = evidence.seen_calls(CallKind::Query, |call| writes(&call.what));
    // Requests that only read, or whose other queries take most of the time, wait for something else, whatever the database does
    // beside.
    let reads_only = written.is_empty() && evidence.traced(CallKind::Query).next().is_some();
    let reads_mostly = part_of_writes(evidence).is_some_and(|part| part < BINDS);
    verdict
        .cpu_used(evidence, phase)
        .inside(evidence.seen_waiting(|wait| wait == "recv db"))
        .inside(written)
        .suspected_if(share >= BINDS && idle && !reads_only && !reads_mostly)
        .weight(share)
        .refuted_by("the same limit where a commit does not wait for the disk")
        .remedy(
            Advice::new(evidence, advice)
                .set(Layer::Db, setting, relaxed[0])
                .build(),
        )
        .done()
}

/// Of the time of busy workers, the share in which they wait for the database; of all time, that in which the database
/// waits for its disk.
fn of_phase(phase: &Phase) -> Option<(&Phase, f64, f64)> {
    let syncing = phase
        .series
        .labelled(Layer::Db, metric::DB_DISK_WAIT, WRITE)?
        .mean()?;
    Some((phase, phase.awaiting(Layer::Db)?, syncing))
}

/// The part of the time until the answers to traced queries came that statements took which change something; `None` where nobody
/// saw how long they took.
fn part_of_writes(evidence: &Evidence) -> Option<f64> {
    let waited = |of: &dyn Fn(&str) -> bool| -> u64 {
        let queries = evidence.traced(CallKind::Query);
        let asked = queries.filter(|call| of(&call.what));
        asked.map(|call| call.waited_us).sum()
    };
    let all = waited(&|_| true);
    (all > 0).then(|| waited(&writes) as f64 / all as f64)
}

/// Whether a statement changes something, or ends a transaction that did.
fn writes(query: &str) -> bool {
    let query = query.trim_start().to_ascii_lowercase();
    let verbs = ["insert", "update", "delete", "replace", "commit"];
    verbs.iter().any(|verb| query.starts_with(verb))
}
