//! Which requests of a load took longest, by the names they were sent with.

use crate::request::RequestId;
use kneepoint_model::SlowRequest;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The slowest requests so far.
#[derive(Debug, Default)]
pub(crate) struct Slowest {
    /// How many are kept.
    most: usize,
    /// Response time in us and number, the fastest of them on top.
    kept: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Slowest {
    /// Keeps this many.
    pub(crate) fn of(most: usize) -> Self {
        Self {
            most,
            kept: BinaryHeap::with_capacity(most.saturating_add(1).min(1024)),
        }
    }

    /// A request has ended.
    pub(crate) fn note(&mut self, response_us: u64, number: u64) {
        if self.most == 0 {
            return;
        }
        if self.kept.len() == self.most
            && self
                .kept
                .peek()
                .is_some_and(|Reverse((us, _))| response_us <= *us)
        {
            return;
        }
        self.kept.push(Reverse((response_us, number)));
        if self.kept.len() > self.most {
            self.kept.pop();
        }
    }

    /// Takes over what another thread kept.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.most = self.most.max(other.most);
        for Reverse((response_us, number)) in &other.kept {
            self.note(*response_us, *number);
        }
    }

    /// Slowest first.
    pub(crate) fn to_model(&self) -> Vec<SlowRequest> {
        let mut kept: Vec<(u64, u64)> = self.kept.iter().map(|Reverse(one)| *one).collect();
        kept.sort_unstable_by(|a, b| b.cmp(a));
        kept.into_iter()
            .map(|(response_us, number)| SlowRequest {
                id: String::from_utf8_lossy(RequestId::of(number).as_bytes()).into_owned(),
                response_ms: response_us as f64 / 1000.0,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_slowest_are_kept_whichever_thread_had_them(
            times in proptest::collection::vec(0_u64..1000, 0..60), most in 0_usize..20, cut in 0_usize..60,
        ) {
            let mut threads = [Slowest::of(most), Slowest::of(most)];
            for (number, us) in times.iter().enumerate() {
                threads[usize::from(number < cut)].note(*us, number as u64);
            }
            let [mut kept, other] = threads;
            kept.merge(&other);
            let kept: Vec<f64> = kept.to_model().iter().map(|one| one.response_ms).collect();
            let mut expected = times;
            expected.sort_unstable_by(|a, b| b.cmp(a));
            expected.truncate(most);
            let expected: Vec<f64> = expected.into_iter().map(|us| us as f64 / 1000.0).collect();
            prop_assert_eq!(kept, expected);
        }
    }
}
