//! Looks again and again who waits for whose lock, and into the worker that holds it: its request and its line of PHP.

use super::Looked;
use kneepoint_model::{LockParty, LockWait, own_place};
use kneepoint_profiler::Sampler;
use kneepoint_telemetry::LockWatch;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Time between two looks: some eighty in a phase, each of about a millisecond where somebody waits.
const CADENCE: Duration = Duration::from_millis(95);
/// Workers that hold locks and are looked into at one look.
const AT_ONCE: usize = 8;

/// What was seen at each look until somebody asks to stop.
pub(super) fn watch(mut watch: LockWatch, stop: &AtomicBool) -> Looked<Vec<Vec<LockWait>>> {
    let mut within = Within::default();
    let mut looks = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut waits = watch.look();
        within.look(&mut waits);
        looks.push(waits);
        thread::sleep(CADENCE);
    }
    match watch.trouble() {
        Some(why) if looks.iter().all(Vec::is_empty) => Err(why.to_owned()),
        _ => Ok(looks),
    }
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
    fn one_that_is_no_php_is_left_as_it_is() {
        let mut waits = [wait(3, std::process::id())];
        Within::default().look(&mut waits);
        assert_eq!(waits, [wait(3, std::process::id())]);
    }
}
