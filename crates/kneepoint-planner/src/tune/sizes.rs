//! Which sizes of a pool are tried, and in what order, until the smallest that serves as much is known.
//!
//! Throughput over the size of a pool is a plateau and not a peak (method.md section 3), so there is no best size to
//! climb to: what can be found is where the plateau begins.

/// Ratio of neighbouring sizes (method.md section 3).
const STEP: f64 = 1.33;

/// A search among the sizes below the present one, as a state machine: the one that is likely to do first, then halving.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolSizes {
    /// Ascending, the smallest that may do first.
    sizes: Vec<u64>,
    /// Which of them is tried first.
    first: usize,
    /// How many of them, from the front, are known to be too small.
    too_small: usize,
    /// The first of them that is known to serve as much; their number when only the present size does.
    enough: usize,
}

impl PoolSizes {
    /// Of a pool with `present` workers that needs `needed` of them at least, and probably `likely`.
    #[must_use]
    pub fn new(present: u64, needed: u64, likely: u64) -> Self {
        let mut sizes = Vec::new();
        let mut size = needed.max(1);
        while (size as f64) * STEP <= present as f64 {
            sizes.push(size);
            size = (size as f64 * STEP).ceil() as u64;
        }
        let first = sizes.iter().position(|size| *size >= likely);
        Self {
            first: first.unwrap_or(sizes.len().saturating_sub(1)),
            too_small: 0,
            enough: sizes.len(),
            sizes,
        }
    }

    /// The size to try next; none when the smallest is known.
    #[must_use]
    pub fn next_size(&self) -> Option<u64> {
        let open = self.too_small..self.enough;
        let is_new = open == (0..self.sizes.len());
        let index = match is_new {
            true => self.first,
            false => open.start + open.len() / 2,
        };
        open.contains(&index).then(|| self.sizes[index])
    }

    /// Whether the pool serves as much with this size.
    pub fn record(&mut self, size: u64, serves: bool) {
        let Some(index) = self.sizes.iter().position(|known| *known == size) else {
            return;
        };
        if serves {
            self.enough = self.enough.min(index);
        } else {
            self.too_small = self.too_small.max(index + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PoolSizes;
    use expect_test::{Expect, expect};

    /// What is tried where sizes from `enough` on serve as much, and what is found.
    fn check((present, needed, likely): (u64, u64, u64), enough: u64, expected: &Expect) {
        let mut sizes = PoolSizes::new(present, needed, likely);
        let mut tried = Vec::new();
        let mut found = present;
        while let Some(size) = sizes.next_size() {
            tried.push(size);
            assert!(tried.len() <= 10, "{tried:?} has no end");
            sizes.record(size, size >= enough);
            if size >= enough {
                found = found.min(size);
            }
        }
        expected.assert_eq(&format!("tried {tried:?}, found {found}"));
    }

    #[test]
    fn what_is_likely_comes_first_and_then_what_is_smaller() {
        check((50, 3, 8), 5, &expect!["tried [8, 4, 6], found 6"]);
        check((50, 8, 8), 5, &expect!["tried [8], found 8"]);
    }

    #[test]
    fn where_it_is_too_small_sizes_are_halved_between_it_and_the_present_one() {
        check((50, 8, 8), 20, &expect!["tried [8, 20, 15], found 20"]);
        check((50, 3, 8), 40, &expect!["tried [8, 20, 36], found 50"]);
    }

    #[test]
    fn a_pool_that_is_hardly_larger_than_needed_stays() {
        check((10, 8, 8), 1, &expect!["tried [], found 10"]);
        check((4, 9, 9), 1, &expect!["tried [], found 4"]);
    }

    #[test]
    fn a_pool_that_needs_nothing_keeps_one_worker() {
        check((2, 0, 8), 1, &expect!["tried [1], found 1"]);
    }
}
