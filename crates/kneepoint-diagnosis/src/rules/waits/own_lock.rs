//! APP-17: requests wait for a lock of the application's own.

use crate::evidence::chains::is_session_file;
use crate::evidence::worker_insight::is_session_lock;
use crate::evidence::{LOCKS, Wait};
use crate::rule::prelude::*;
use crate::saturation::waits::Part;
use kneepoint_model::{LockChain, LockKind};
use std::collections::BTreeMap;

/// Share of the time of busy workers from which on the lock is what binds \[ours\]: with less, the part outside of it sets
/// the pace.
const BINDS: f64 = 0.25;
/// The same from which on it is worth a note \[ours\].
const NOTICEABLE: f64 = 0.1;
/// The wait of sem_acquire(), as telemetry names it.
const SEMAPHORE: &str = "semaphore";
/// What to do about a lock on a file.
const FOR_FILES: &str = "Hold the lock only while the file is changed; replace it by rename() instead of locking it; or keep \
    what it guards in Redis.";
/// What to do about a semaphore.
const FOR_SEMAPHORES: &str = "Hold the semaphore only while what it guards is changed; give each thing that is guarded a \
    semaphore of its own; or keep it in Redis, whose commands need no lock.";

pub(crate) static RULE: Rule = Rule {
    code: "APP-17",
    name: "own-lock",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::WORKERS_WAITING],
    // Workers that compile what a full OPcache could not take wait for its own lock, a file's as well.
    yields_to: &["OPC-03", "OPC-04"],
    title: "requests wait for one another's lock",
    doc: RuleDoc {
        what_it_is: "The application keeps others away from something while it works on it: a file of statistics, a cache, \
            an index, by flock(), a semaphore or a lock file. Every page that takes the same lock passes through it one \
            after the other, however many workers and cores there are.",
        how_it_shows: "Workers sleep in flock or in a semaphore on one path that is no session's, the CPU has time left, and \
            the rate does not rise with more workers: it is one over the time the lock is held.",
        how_it_is_confirmed: "Take the lock out for one run, or give each page a file of its own: the limit rises.",
        what_to_write: "Hold the lock for the change alone, not for the whole page; write to a new file and rename() it over \
            the old one, which needs no lock to be read; or count in Redis or a queue, and write sums.",
        references: &[
            "https://www.php.net/manual/en/function.flock.php",
            "public reports of file caches",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let part = Part::find(evidence, NOTICEABLE, Wait::is_own_lock)?;
    let of_semaphore = part.is_it(SEMAPHORE);
    // Whose lock on a file it is, only the stacks say; without any it is taken for the session's, the commonest (SES-01). PHP's
    // own sessions take no semaphore.
    if !of_semaphore && evidence.share_of_session_locks()? >= 0.5 {
        return None;
    }
    let finding = if of_semaphore {
        RULE.finds(Layer::App, titled(semaphore_of_most(evidence)))
            .waited(&part)
            .inside(evidence.seen_first(is_semaphore))
            .inside(evidence.seen_waiting(|wait| part.is_it(wait)))
            .refuted_by("as many waits for locks when each page takes a semaphore of its own")
            .remedy(Advice::new(evidence, FOR_SEMAPHORES).build())
    } else {
        RULE.finds(Layer::App, titled(evidence.locked_paths().first().copied()))
            .waited(&part)
            .inside(evidence.seen_first(is_own_file))
            .inside(evidence.seen_waiting(|wait| LOCKS.contains(&wait)))
            .inside(evidence.seen_calls(CallKind::Lock, |call| !is_session_lock(call)))
            .refuted_by("as many waits for locks when each page locks a file of its own")
            .remedy(Advice::new(evidence, FOR_FILES).build())
    };
    finding
        .suspected_if(part.share >= BINDS)
        .weight(part.share)
        .done()
}

fn titled(lock: Option<&str>) -> String {
    match lock {
        Some(lock) => format!("{} on {lock}", RULE.title),
        None => RULE.title.to_owned(),
    }
}

/// The semaphore that most wait for.
fn semaphore_of_most(evidence: &Evidence) -> Option<&str> {
    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    for chain in evidence.chains.chains.iter().filter(|it| is_semaphore(it)) {
        *shares.entry(&chain.object).or_default() += chain.share;
    }
    let most = shares.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    most.map(|(object, _)| object)
}

/// Whether what is locked is a semaphore.
fn is_semaphore(chain: &LockChain) -> bool {
    chain.kind == LockKind::Semaphore
}

/// Whether what is locked is a file that is no session's.
fn is_own_file(chain: &LockChain) -> bool {
    chain.kind == LockKind::File && !is_session_file(chain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{builtin, met, place, sampled, traced};
    use kneepoint_model::LockChains;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    /// So many workers wait in `flock`, called by a function of PHP itself.
    fn locked(workers: f64, through: &str) -> Case {
        let at = || place("Stats::begin", "lib/stats.php", 17);
        let stacks = sampled(
            50,
            vec![at(), builtin(through), builtin("[flock]")],
            vec![met("GET /", &[0, 1, 2], 400)],
        );
        let mut call = traced("GET /", CallKind::Lock, "data/stats.json", at(), 1);
        through.clone_into(&mut call.through);
        Case::healthy()
            .machine_at(PhaseKind::Over, 0.3)
            .running(PhaseKind::Over, 8.0 - workers)
            .waiting(PhaseKind::Over, "flock", workers)
            .traced("GET /", 10, vec![call])
            .with(|evidence| evidence.stacks = Some(stacks))
    }

    #[test]
    fn fires_when_pages_pass_through_one_file() {
        check(
            locked(6.0, "flock"),
            expect![[r#"
            named: APP-17
            suspected app (70 %): requests wait for one another's lock on data/stats.json
              saw flock takes 70 % of the time of busy workers, at 240/s offered for 10 s
              saw 29.3 ms of it in each request, at 240/s offered for 10 s
              saw waiting there: GET /, Stats::begin at lib/stats.php:17, 100 % of 400 stacks, sampled 50 times a second, at 240/s offered for 10 s
              saw data/stats.json through flock, once in each GET /, in Stats::begin at lib/stats.php:17, in 10 requests that were traced, one after the other
              do: Hold the lock only while the file is changed; replace it by rename() instead of locking it; or keep what it guards in Redis.
        "#]],
        );
    }

    #[test]
    fn leaves_a_lock_of_sessions_to_its_own_rule() {
        check(
            locked(6.0, "session_start"),
            expect![[r#"
            named: SES-01
            silent
        "#]],
        );
    }

    #[test]
    fn only_notes_a_short_wait() {
        check(
            locked(1.0, "flock").machine_at(PhaseKind::Over, 0.96),
            expect![[r#"
                named: CAP-02
                noted app (12 %): requests wait for one another's lock on data/stats.json
                  saw flock takes 12 % of the time of busy workers, at 240/s offered for 10 s
                  saw 4.88 ms of it in each request, at 240/s offered for 10 s
                  saw waiting there: GET /, Stats::begin at lib/stats.php:17, 100 % of 400 stacks, sampled 50 times a second, at 240/s offered for 10 s
                  saw data/stats.json through flock, once in each GET /, in Stats::begin at lib/stats.php:17, in 10 requests that were traced, one after the other
                  do: Hold the lock only while the file is changed; replace it by rename() instead of locking it; or keep what it guards in Redis.
            "#]],
        );
    }

    #[test]
    fn a_semaphore_is_named_with_who_has_it() {
        let at = || place("Stats::begin", "lib/stats.php", 17);
        let stacks = sampled(
            50,
            vec![at(), builtin("sem_acquire"), builtin("[semaphore]")],
            vec![met("GET /", &[0, 1, 2], 400)],
        );
        let chain = LockChain {
            kind: LockKind::Semaphore,
            object: "the semaphore with key 0x4b50".to_owned(),
            doing: "in recv db".to_owned(),
            route: "GET /export".to_owned(),
            place: Some(place("Stats::write", "lib/stats.php", 31)),
            share: 1.0,
            longest: 1,
            circle: false,
        };
        // Nobody waits for the file that requests lock as well.
        let mut call = traced("GET /", CallKind::Lock, "data/other.lock", at(), 1);
        "flock".clone_into(&mut call.through);
        let case = Case::healthy()
            .machine_at(PhaseKind::Over, 0.3)
            .running(PhaseKind::Over, 2.0)
            .waiting(PhaseKind::Over, SEMAPHORE, 6.0)
            .traced("GET /", 10, vec![call])
            .with(|evidence| {
                evidence.stacks = Some(stacks);
                evidence.chains = LockChains {
                    phase: "over".to_owned(),
                    looks: 80,
                    waiting: 6.0,
                    chains: vec![chain],
                };
            });
        check(
            case,
            expect![[r#"
            named: APP-17
            suspected app (70 %): requests wait for one another's lock on the semaphore with key 0x4b50
              saw semaphore takes 70 % of the time of busy workers, at 240/s offered for 10 s
              saw 29.3 ms of it in each request, at 240/s offered for 10 s
              saw 100 % of those who waited were behind GET /export, Stats::write at lib/stats.php:31 (in recv db), which holds the semaphore with key 0x4b50, looked at 80 times, at 240/s offered for 10 s
              saw waiting there: GET /, Stats::begin at lib/stats.php:17, 100 % of 400 stacks, sampled 50 times a second, at 240/s offered for 10 s
              do: Hold the semaphore only while what it guards is changed; give each thing that is guarded a semaphore of its own; or keep it in Redis, whose commands need no lock.
        "#]],
        );
    }

    #[test]
    fn stays_silent_without_locks() {
        stays_silent(&RULE, Case::healthy());
    }
}
