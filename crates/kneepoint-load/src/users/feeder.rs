//! Who has which row of the feeders.

use crate::plan::{Counter, Numbers};
use kneepoint_model::{Feeder, RowOrder};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The feeders as one thread uses them. Rows in turn are shared out by number: thread *t* of *T* takes *k* = *t*
/// (mod *T*), so that all threads together take every row once before one comes again.
#[derive(Debug)]
pub(crate) struct Rows {
    feeders: Vec<Feeder>,
    /// Of each, how many rows all threads have taken when this one takes its next.
    next: Vec<Counter>,
    random: Xoshiro256PlusPlus,
}

impl Rows {
    pub(crate) fn new(feeders: &[Feeder], seed: u64, numbers: &Numbers) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        // Arrivals and mixture draw from earlier stretches of the period: a shared seed shares no numbers.
        (0..3).for_each(|_| random.long_jump());
        (0..numbers.stretch()).for_each(|_| random.jump());
        Self {
            feeders: feeders.to_vec(),
            next: vec![numbers.counter(); feeders.len()],
            random,
        }
    }

    /// Takes a row of every feeder, as their indices.
    pub(crate) fn take(&mut self, into: &mut Vec<u32>) {
        into.clear();
        for (feeder, next) in self.feeders.iter().zip(&mut self.next) {
            let count = (feeder.rows.len() as u64).max(1);
            let row = match feeder.order {
                RowOrder::InTurn => next.take() % count,
                // The bias of the remainder is below count / 2^64.
                RowOrder::Random => self.random.next_u64() % count,
            };
            into.push(row as u32);
        }
    }

    /// A value of a row.
    pub(crate) fn value(&self, feeder: usize, row: u32, column: usize) -> Option<&[u8]> {
        let row = self.feeders.get(feeder)?.rows.get(row as usize)?;
        row.get(column).map(String::as_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feeder(rows: usize, order: RowOrder) -> Feeder {
        Feeder {
            name: "f".into(),
            columns: vec!["n".into()],
            order,
            rows: (0..rows).map(|n| vec![n.to_string()]).collect(),
        }
    }

    fn taken(rows: &mut Rows, count: usize) -> Vec<u32> {
        let mut row = Vec::new();
        let mut all = Vec::new();
        for _ in 0..count {
            rows.take(&mut row);
            all.push(row[0]);
        }
        all
    }

    #[test]
    fn threads_together_take_every_row_in_turn() {
        let feeders = [feeder(5, RowOrder::InTurn)];
        let mut first = Rows::new(&feeders, 1, &Numbers::of_thread(None, 0, 2));
        let mut second = Rows::new(&feeders, 1, &Numbers::of_thread(None, 1, 2));
        assert_eq!(taken(&mut first, 5), [0, 2, 4, 1, 3]);
        assert_eq!(taken(&mut second, 5), [1, 3, 0, 2, 4]);
        assert_eq!(first.value(0, 3, 0), Some(&b"3"[..]));
        assert_eq!(first.value(0, 5, 0), None);
    }

    #[test]
    fn random_rows_are_all_there_and_the_same_for_a_seed() {
        let feeders = [feeder(3, RowOrder::Random)];
        let numbers = |thread| Numbers::of_thread(None, thread, 2);
        let drawn = |seed, thread| taken(&mut Rows::new(&feeders, seed, &numbers(thread)), 300);
        assert_eq!(drawn(1, 0), drawn(1, 0));
        assert_ne!(drawn(1, 0), drawn(2, 0));
        assert_ne!(drawn(1, 0), drawn(1, 1));
        for row in 0..3 {
            let times = drawn(7, 0).iter().filter(|drawn| **drawn == row).count();
            // 100 expected, with a standard deviation of 8.
            assert!((60..140).contains(&times), "row {row}: {times}");
        }
    }
}
