//! Independent experiments on every core.

use std::sync::atomic::{AtomicU64, Ordering};

/// The results of `0..count`, in order, on as many threads as there are cores.
pub(super) fn map<T: Send>(count: u64, experiment: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(0);
    let work = || {
        let mut results = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return results;
            }
            results.push((index, experiment(index)));
        }
    };
    let mut results = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        handles
            .into_iter()
            .flat_map(|handle| match handle.join() {
                Ok(results) => results,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect::<Vec<_>>()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn every_experiment_is_run_once_and_the_order_kept() {
        assert_eq!(
            map(50, |index| index * 2),
            (0..50).map(|i| i * 2).collect::<Vec<_>>()
        );
    }
}
