//! Bounded memories of unbounded streams: which values there were, how often, how many different ones.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use std::collections::{BTreeMap, HashMap};

/// A whole number below `bound`, which is not 0.
fn below(random: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    // The product's upper half: its bias is below bound / 2^64.
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// A uniform number in [0, 1).
pub(crate) fn uniform(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Bytes that a kept value takes beside its text.
pub(crate) const OVERHEAD: usize = 64;

/// Values with their frequencies: exactly while there are few, then a uniform sample of the stream (Vitter 1985,
/// algorithm R), in which a value is as frequent as in the stream on average.
#[derive(Debug)]
pub(crate) enum Sample {
    Exact(HashMap<Box<str>, u64>),
    Reservoir { kept: Vec<Box<str>>, seen: u64 },
}

impl Default for Sample {
    fn default() -> Self {
        Self::Exact(HashMap::new())
    }
}

impl Sample {
    /// Adds one value; keeps at most `capacity` different ones.
    pub(crate) fn add(&mut self, value: &str, capacity: usize, random: &mut Xoshiro256PlusPlus) {
        match self {
            Self::Exact(counts) => {
                if let Some(count) = counts.get_mut(value) {
                    *count += 1;
                } else {
                    counts.insert(value.into(), 1);
                }
                self.shrink(capacity, random);
            }
            Self::Reservoir { kept, seen } => {
                *seen += 1;
                if let Ok(at) = usize::try_from(below(random, *seen))
                    && at < kept.len()
                {
                    kept[at] = value.into();
                }
            }
        }
    }

    fn shrink(&mut self, capacity: usize, random: &mut Xoshiro256PlusPlus) {
        let Self::Exact(counts) = self else { return };
        if counts.len() <= capacity {
            return;
        }
        let seen = counts.values().sum();
        let mut sorted: Vec<_> = std::mem::take(counts).into_iter().collect();
        sorted.sort_unstable();
        let mut sums = sorted
            .iter()
            .scan(0, |sum, (_, count)| {
                *sum += count;
                Some(*sum)
            })
            .collect::<Vec<u64>>();
        sums.pop();
        let kept = (0..capacity)
            .map(|_| {
                let drawn = below(random, seen);
                let at = sums.partition_point(|sum| *sum <= drawn);
                sorted[at].0.clone()
            })
            .collect();
        *self = Self::Reservoir { kept, seen };
    }

    fn seen(&self) -> u64 {
        match self {
            Self::Exact(counts) => counts.values().sum(),
            Self::Reservoir { seen, .. } => *seen,
        }
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        let size = |value: &str| value.len() + OVERHEAD;
        match self {
            Self::Exact(counts) => counts.keys().map(|value| size(value)).sum(),
            Self::Reservoir { kept, .. } => kept.iter().map(|value| size(value)).sum(),
        }
    }

    /// Joins two streams into one.
    pub(crate) fn merge(&mut self, other: Self, capacity: usize, random: &mut Xoshiro256PlusPlus) {
        let seen = self.seen() + other.seen();
        if other.seen() == 0 {
            return;
        }
        if let (Self::Exact(own), Self::Exact(others)) = (&mut *self, &other) {
            for (value, count) in others {
                *own.entry(value.clone()).or_default() += count;
            }
            self.shrink(capacity, random);
            return;
        }
        let share = self.seen() as f64 / seen as f64;
        let sides = [self.weighted(), other.weighted()];
        let kept = (0..capacity)
            .map(|_| {
                let side = &sides[usize::from(uniform(random) >= share)];
                draw(side, uniform(random))
            })
            .collect();
        *self = Self::Reservoir { kept, seen };
    }

    /// The values with their shares of the stream, which add up to 1, the most frequent first.
    pub(crate) fn weighted(&self) -> Vec<(Box<str>, f64)> {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        match self {
            Self::Exact(exact) => counts.extend(exact.iter().map(|(value, n)| (&**value, *n))),
            Self::Reservoir { kept, .. } => {
                for value in kept {
                    *counts.entry(value).or_default() += 1;
                }
            }
        }
        let total: u64 = counts.values().sum();
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
            .into_iter()
            .map(|(value, count)| (value.into(), count as f64 / total as f64))
            .collect()
    }
}

fn draw(values: &[(Box<str>, f64)], at: f64) -> Box<str> {
    let mut sum = 0.0;
    let drawn = values.iter().find(|(_, share)| {
        sum += share;
        at < sum
    });
    let drawn = drawn.or(values.last());
    drawn.map_or_else(|| "/".into(), |(value, _)| value.clone())
}

/// At most `most` of the values, each with its share: all of them while they fit, else every n-th of the stream
/// ordered by frequency (a systematic sample), so that frequent values keep their shares and the rest is stood in
/// for by some of it.
pub(crate) fn thin(weighted: Vec<(Box<str>, f64)>, most: usize) -> Vec<(Box<str>, f64)> {
    if weighted.len() <= most {
        return weighted;
    }
    let step = 1.0 / most as f64;
    let mut picked: Vec<(Box<str>, f64)> = Vec::with_capacity(most);
    let mut sum = 0.0;
    let mut next = step / 2.0;
    for (value, share) in weighted {
        sum += share;
        let mut own = 0.0;
        while next < sum {
            own += step;
            next += step;
        }
        if own > 0.0 {
            picked.push((value, own));
        }
    }
    picked
}

/// How many different values a stream had, from the least of their hashes (Bar-Yossef et al. 2002): exact up to
/// its size, then within 1 / sqrt(size).
#[derive(Debug)]
pub(crate) struct Distinct {
    size: usize,
    /// The least hashes, ascending.
    least: Vec<u64>,
}

impl Distinct {
    pub(crate) fn new(size: usize) -> Self {
        Self {
            size,
            least: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, hash: u64) {
        if self.least.len() == self.size && self.least.last().is_some_and(|most| hash >= *most) {
            return;
        }
        if let Err(at) = self.least.binary_search(&hash) {
            self.least.insert(at, hash);
            self.least.truncate(self.size);
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        other.least.iter().for_each(|hash| self.add(*hash));
    }

    /// Whether [`Distinct::count`] is exact.
    pub(crate) fn is_exact(&self) -> bool {
        self.least.len() < self.size
    }

    pub(crate) fn count(&self) -> u64 {
        match self.least.last() {
            Some(most) if !self.is_exact() => {
                let covered = *most as f64 / u64::MAX as f64;
                ((self.size as f64 - 1.0) / covered).round() as u64
            }
            _ => self.least.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::hash;
    use rand_xoshiro::rand_core::SeedableRng;

    fn random() -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(7)
    }

    fn share(sample: &Sample, value: &str) -> f64 {
        let weighted = sample.weighted();
        let found = weighted.iter().find(|(known, _)| &**known == value);
        found.map_or(0.0, |(_, share)| *share)
    }

    #[test]
    fn few_values_are_counted_exactly() {
        let mut sample = Sample::default();
        for i in 0..1000 {
            sample.add(if i % 4 == 0 { "/a" } else { "/b" }, 2, &mut random());
        }
        assert_eq!(
            sample.weighted(),
            [("/b".into(), 0.75), ("/a".into(), 0.25)]
        );
    }

    #[test]
    fn of_many_values_a_fair_sample_stays() {
        let mut random = random();
        let mut sample = Sample::default();
        // Half of the stream is one value, the rest is never the same twice.
        for i in 0..20_000 {
            let value = if i % 2 == 0 {
                "/hot".to_owned()
            } else {
                format!("/{i}")
            };
            sample.add(&value, 400, &mut random);
        }
        // Standard error 2.5 %.
        assert!((share(&sample, "/hot") - 0.5).abs() < 0.1);
        let total: f64 = sample.weighted().iter().map(|(_, share)| share).sum();
        assert!((total - 1.0).abs() < 1e-9);
    }

    #[test]
    fn joined_streams_keep_their_proportions() {
        let mut random = random();
        let stream = |name: &str, length: usize, random: &mut Xoshiro256PlusPlus| {
            let mut sample = Sample::default();
            for i in 0..length {
                sample.add(&format!("/{name}{}", i % 600), 400, random);
            }
            sample
        };
        let mut sample = stream("a", 3000, &mut random);
        sample.merge(stream("b", 9000, &mut random), 400, &mut random);
        let weighted = sample.weighted();
        let of_b = weighted.iter().filter(|(value, _)| value.starts_with("/b"));
        let of_b: f64 = of_b.map(|(_, share)| share).sum();
        assert!((of_b - 0.75).abs() < 0.1, "{of_b}");
        assert_eq!(sample.seen(), 12_000);
    }

    #[test]
    fn a_thinned_list_keeps_shares() {
        let mut weighted: Vec<(Box<str>, f64)> = vec![("/hot".into(), 0.5)];
        weighted.extend((0..100).map(|i| (format!("/{i}").into(), 0.005)));
        let thinned = thin(weighted.clone(), 10);
        assert!(thinned.len() <= 10);
        assert!((thinned[0].1 - 0.5).abs() < 1e-9, "{thinned:?}");
        let total: f64 = thinned.iter().map(|(_, share)| share).sum();
        assert!((total - 1.0).abs() < 1e-9, "{total}");
        assert_eq!(thin(weighted.clone(), 101), weighted);
    }

    #[test]
    fn different_values_are_counted() {
        let count = |different: u64| {
            let mut distinct = Distinct::new(256);
            (0..different * 3).for_each(|i| distinct.add(hash(&(i % different))));
            distinct.count()
        };
        assert_eq!(count(0), 0);
        assert_eq!(count(255), 255);
        // Within four standard errors.
        assert!(count(50_000).abs_diff(50_000) < 12_500, "{}", count(50_000));
    }
}
