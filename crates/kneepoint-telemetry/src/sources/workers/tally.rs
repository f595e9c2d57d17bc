//! Counts what workers were seen doing.

use crate::waiting_on::{Doing, KEPT, is_idle};
use std::collections::BTreeMap;

/// How many of the workers looked at did what.
#[derive(Debug, Default, PartialEq)]
pub(in crate::sources) struct Tally {
    pub(in crate::sources) seen: u32,
    pub(super) running: u32,
    pub(in crate::sources) waiting: BTreeMap<String, u32>,
}

impl Tally {
    pub(in crate::sources) fn of(seen: impl Iterator<Item = Doing>) -> Self {
        let mut tally = Self::default();
        for doing in seen {
            match doing {
                Doing::Running => tally.running += 1,
                Doing::Waiting(label) => *tally.waiting.entry(label).or_default() += 1,
                Doing::Gone => continue,
            }
            tally.seen += 1;
        }
        tally
    }

    /// Asleep in a call as a share of the busy ones; `None` when none is busy.
    pub(super) fn blocked_share(&self) -> Option<f64> {
        let busy = self.busy();
        (busy > 0).then(|| f64::from(busy - self.running) / f64::from(busy))
    }

    /// Without a request, and held by a kept connection.
    pub(super) fn pinned(&self) -> u32 {
        self.waiting.get(KEPT).copied().unwrap_or(0)
    }

    /// With a request: running, or asleep in a call that is part of it.
    pub(super) fn busy(&self) -> u32 {
        let blocked = self.waiting.iter().filter(|(label, _)| !is_idle(label));
        blocked.map(|(_, n)| n).sum::<u32>() + self.running
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(label: &str) -> Doing {
        Doing::Waiting(label.into())
    }

    #[test]
    fn only_workers_with_a_request_can_be_blocked() {
        let tally = Tally::of(
            [
                waiting("accept"),
                waiting("recv web"),
                waiting("recv cache"),
                Doing::Running,
                Doing::Gone,
                waiting("sleep"),
            ]
            .into_iter(),
        );
        assert_eq!((tally.seen, tally.running), (5, 1));
        assert_eq!(tally.blocked_share(), Some(2.0 / 3.0));
        assert_eq!((tally.busy(), tally.pinned()), (3, 1));
        assert_eq!(
            Tally::of([waiting("accept")].into_iter()).blocked_share(),
            None
        );
    }
}
