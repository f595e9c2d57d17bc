//! Looks again and again who waits for whose lock, and into the worker that holds it: its request and its line of PHP.

use super::Looked;
use kneepoint_model::{LockParty, LockWait, own_place};
use kneepoint_profiler::Sampler;
use kneepoint_telemetry::LockWatch;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two looks: some fifty in a phase, each of about a millisecond where somebody waits. InnoDB tells anew who waits
/// when nobody has asked for a tenth of a second, and what it told before until then (storage/innobase/trx/trx0i_s.cc).
const CADENCE: Duration = Duration::from_millis(150);
/// Workers that hold locks and are looked into at one look.
const AT_ONCE: usize = 8;

/// What was seen at one look.
#[derive(Debug, Clone)]
pub struct Look {
    /// Since the first.
    at: Duration,
    /// Whether the database told of its part.
    answered: bool,
    /// Who waited for whom.
    pub(super) waits: Vec<LockWait>,
}

/// What was seen at each look until somebody asks to stop.
pub(super) fn watch(mut watch: LockWatch, stop: &AtomicBool) -> Looked<Vec<Look>> {
    let mut within = Within::default();
    let mut looks = Vec::new();
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let at = began.elapsed();
        let mut waits = watch.look();
        within.look(&mut waits);
        looks.push(Look {
            at,
            answered: watch.answered(),
            waits,
        });
        thread::sleep(CADENCE);
    }
    match watch.trouble() {
        Some(why) if looks.iter().all(|look| look.waits.is_empty()) => Err(why.to_owned()),
        _ => Ok(looks),
    }
}

/// The looks of this time, in seconds since the first. One at which the database did not answer says of nobody that he does not
/// wait: it is left out, unless it never did.
pub(crate) fn of_load(mut looks: Vec<Look>, load_s: &RangeInclusive<f64>) -> Vec<Vec<LockWait>> {
    looks.retain(|look| load_s.contains(&look.at.as_secs_f64()));
    if looks.iter().any(|look| look.answered) {
        looks.retain(|look| look.answered);
    }
    looks.into_iter().map(|look| look.waits).collect()
}

/// Looks into workers.
#[derive(Default)]
struct Within {
    sampler: Sampler,
    /// Those that were found to be PHP, or not to be.
    known: BTreeMap<u32, bool>,
}

impl Within {
    /// Adds the request and the line to those that hold what others wait for and wait for nobody themselves.
    fn look(&mut self, waits: &mut [LockWait]) {
        let firsts = firsts(waits);
        let mut seen: BTreeMap<u32, LockParty> = BTreeMap::new();
        for pid in firsts.into_iter().take(AT_ONCE) {
            if let Some(party) = self.sample(pid) {
                seen.insert(pid, party);
            }
        }
        for wait in waits {
            let found = wait.holder.worker.and_then(|pid| seen.get(&pid));
            if let Some(found) = found {
                wait.holder.route.clone_from(&found.route);
                wait.holder.place.clone_from(&found.place);
            }
        }
    }

    fn sample(&mut self, pid: u32) -> Option<LockParty> {
        let sampler = &mut self.sampler;
        let is_php = *self
            .known
            .entry(pid)
            .or_insert_with(|| sampler.attach(pid).is_ok());
        if !is_php {
            return None;
        }
        let sample = sampler.sample(pid);
        let innermost = || sample.stack.iter().rev().find(|place| place.file.is_some());
        let route = match sample.request.path {
            Some(_) => sample.request.route(),
            None => String::new(),
        };
        Some(LockParty {
            place: own_place(&sample.stack).or_else(innermost).cloned(),
            route,
            ..LockParty::default()
        })
    }
}

/// The workers that hold something and wait for nobody.
fn firsts(waits: &[LockWait]) -> BTreeSet<u32> {
    let waiting: BTreeSet<&str> = waits.iter().map(|wait| wait.waiter.id.as_str()).collect();
    let holders = waits.iter().map(|wait| &wait.holder);
    holders
        .filter(|holder| !waiting.contains(holder.id.as_str()))
        .filter_map(|holder| holder.worker)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::LockKind;

    fn wait(waiter: u32, holder: u32) -> LockWait {
        let party = |pid: u32| LockParty {
            id: format!("worker {pid}"),
            worker: Some(pid),
            ..LockParty::default()
        };
        LockWait {
            waiter: party(waiter),
            holder: party(holder),
            kind: LockKind::File,
            object: "a".to_owned(),
        }
    }

    #[test]
    fn only_those_that_wait_for_nobody_are_looked_into() {
        let waits = [wait(3, 2), wait(2, 1), wait(5, 4)];
        assert_eq!(firsts(&waits), BTreeSet::from([1, 4]));
        assert!(firsts(&[wait(1, 2), wait(2, 1)]).is_empty());
    }

    #[test]
    fn looks_beside_the_load_and_those_without_an_answer_do_not_count() {
        let look = |at_s: u64, answered: bool, waits: &[LockWait]| Look {
            at: Duration::from_secs(at_s),
            answered,
            waits: waits.to_vec(),
        };
        let waiting = [wait(3, 2)];
        let seen = |looks: &[Look]| of_load(looks.to_vec(), &(1.0..=6.0));
        let with_a_gap = [
            look(0, true, &[]),
            look(1, true, &waiting),
            look(2, false, &[]),
            look(6, true, &[]),
            look(7, true, &[]),
        ];
        assert_eq!(seen(&with_a_gap), [waiting.to_vec(), Vec::new()]);
        let of_files = [look(1, false, &waiting), look(2, false, &[])];
        assert_eq!(seen(&of_files), [waiting.to_vec(), Vec::new()]);
    }

    #[test]
    fn one_that_is_no_php_is_left_as_it_is() {
        let mut waits = [wait(3, std::process::id())];
        Within::default().look(&mut waits);
        assert_eq!(waits, [wait(3, std::process::id())]);
    }
}
