//! Lines of PHP at which many workers are met in the same moments, again and again, and hardly anybody in between.

use kneepoint_model::{MetAtOnce, MetStack, Place, StackProfile};
use std::collections::{BTreeMap, BTreeSet};

/// Time in seconds without anybody at a line that parts two bursts \[ours\].
const QUIET_S: f64 = 0.5;
/// Looks in that time at least \[ours\]: where nobody looked, nobody knows that it was quiet.
const LOOKS: usize = 3;
/// Workers at a line at once that are many \[ours\].
const MANY: usize = 3;
/// The same as a share of the most that were met at any moment \[ours\].
const MOST: f64 = 0.66;
/// Bursts just below the limit that are no chance, and with those above it \[ours\].
const BELOW: usize = 2;
const IN_ALL: usize = 3;
/// The longest time from burst to burst over the shortest, up to which it is even \[ours\]: APCu keeps whole seconds.
const EVEN: f64 = 1.5;
/// Part of that time that a burst lasts at most \[ours\]: otherwise it is quiet.
const SHORT: f64 = 0.5;

/// A stretch of time in which workers are met at a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Burst {
    /// When it begins and ends, in seconds.
    start_s: f64,
    end_s: f64,
    /// Most workers at once.
    workers: usize,
    /// How often one was met.
    met: usize,
    /// The number of the last look at which one was.
    look: usize,
}

/// The bursts at a line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bursts {
    /// Those of many workers, in the order of time.
    pub(crate) many: Vec<Burst>,
    /// How many there are of few workers.
    pub(crate) few: usize,
    /// Of those who were met at the line, the share that was in a burst of many.
    pub(crate) share: f64,
}

impl Bursts {
    /// Seconds from each to the next.
    pub(crate) fn apart(&self) -> impl Iterator<Item = f64> {
        let pairs = self.many.windows(2);
        pairs.map(|pair| pair[1].start_s - pair[0].start_s)
    }

    /// Seconds that the longest lasts.
    pub(crate) fn longest_s(&self) -> f64 {
        let lasts = self.many.iter().map(|burst| burst.end_s - burst.start_s);
        lasts.fold(0.0, f64::max)
    }

    /// Most workers that were at the line at once.
    pub(crate) fn workers(&self) -> usize {
        let workers = self.many.iter().map(|burst| burst.workers);
        workers.max().unwrap_or(0)
    }

    /// How often one was met in them.
    pub(crate) fn met(&self) -> usize {
        self.many.iter().map(|burst| burst.met).sum()
    }
}

/// Whether bursts at a line come again and again, at even distances, two at least, and with quiet between them: just below the
/// limit, and above it where they are few.
pub(crate) fn come_again(knee: &Bursts, over: Option<&Bursts>) -> bool {
    let both = || std::iter::once(knee).chain(over);
    let apart = || both().flat_map(|it| it.apart());
    let shortest = apart().fold(f64::INFINITY, f64::min);
    let is_even = apart().count() > 1 && apart().all(|each| each <= EVEN * shortest);
    let count: usize = both().map(|it| it.many.len()).sum();
    knee.many.len() >= BELOW
        && count >= IN_ALL
        && is_even
        && both().all(|it| it.longest_s() <= SHORT * shortest)
}

/// Moments with nobody at a line and somebody of its route elsewhere: that requests pass which do without it.
pub(crate) fn passed_by(profile: &StackProfile, line: &Place, route: &str) -> u64 {
    let is_at = |met: &MetStack| profile.places_of(met).any(|place| place == line);
    let is_without = |moment: &&MetAtOnce| {
        let met: Vec<&MetStack> = stacks_at(profile, moment).collect();
        met.iter().any(|met| met.route == route) && !met.iter().any(|met| is_at(met))
    };
    profile.moments.iter().filter(is_without).count() as u64
}

/// Whether those met there compute or wait for an answer: locks and the disk are matters of their own.
pub(crate) fn is_work(profile: &StackProfile, met: &MetStack) -> bool {
    let wait = profile.wait_of(met);
    wait.is_none_or(|wait| wait == StackProfile::NO_CORE || wait.starts_with("recv "))
}

/// Most workers that were met at one moment.
pub(crate) fn most_at_once(profile: &StackProfile) -> usize {
    let met = profile.moments.iter().map(|moment| moment.stacks.len());
    met.max().unwrap_or(0)
}

/// Bursts of many workers, by the line they are met at.
pub(crate) fn bursts(profile: &StackProfile) -> BTreeMap<&Place, Bursts> {
    let most = MOST * most_at_once(profile) as f64;
    let is_of_many = |burst: &Burst| burst.workers >= MANY && burst.workers as f64 >= most;
    let of_line = |(at, all): (u32, Vec<Burst>)| {
        let line = profile.places.get(usize::try_from(at).ok()?)?;
        let many: Vec<Burst> = all.iter().copied().filter(is_of_many).collect();
        let met: usize = all.iter().map(|burst| burst.met).sum();
        let mut bursts = Bursts {
            few: all.len() - many.len(),
            many,
            share: 0.0,
        };
        bursts.share = bursts.met() as f64 / met as f64;
        (line.file.is_some() && !bursts.many.is_empty()).then_some((line, bursts))
    };
    stretches(profile).into_iter().filter_map(of_line).collect()
}

/// Stretches of time in which each place is met, by its position.
fn stretches(profile: &StackProfile) -> BTreeMap<u32, Vec<Burst>> {
    let mut all: BTreeMap<u32, Vec<Burst>> = BTreeMap::new();
    for (look, moment) in profile.moments.iter().enumerate() {
        let at_s = moment.at_s;
        let goes_on =
            |burst: &&mut Burst| at_s - burst.end_s < QUIET_S || look - burst.look <= LOOKS;
        for (place, workers) in met_at(profile, moment) {
            let bursts = all.entry(place).or_default();
            match bursts.last_mut().filter(goes_on) {
                Some(burst) => {
                    burst.end_s = at_s;
                    burst.look = look;
                    burst.workers = burst.workers.max(workers);
                    burst.met += workers;
                }
                None => bursts.push(Burst {
                    start_s: at_s,
                    end_s: at_s,
                    workers,
                    met: workers,
                    look,
                }),
            }
        }
    }
    all
}

/// The stacks that were met at a moment, one for each worker.
fn stacks_at<'p>(
    profile: &'p StackProfile,
    moment: &'p MetAtOnce,
) -> impl Iterator<Item = &'p MetStack> {
    let stack = |at: &u32| profile.stacks.get(usize::try_from(*at).ok()?);
    moment.stacks.iter().filter_map(stack)
}

/// How many workers were met in each place at a moment.
fn met_at(profile: &StackProfile, moment: &MetAtOnce) -> BTreeMap<u32, usize> {
    let mut met = BTreeMap::new();
    for stack in stacks_at(profile, moment) {
        for place in stack.places.iter().copied().collect::<BTreeSet<u32>>() {
            *met.entry(place).or_default() += 1;
        }
    }
    met
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{met, place, sampled};

    /// When somebody looked and how many workers were at the line then; and the bursts that are.
    fn check(looks: &[(f64, usize)], expected: &[(f64, f64, usize)]) {
        let moments = looks.iter().map(|(at_s, workers)| MetAtOnce {
            at_s: *at_s,
            stacks: vec![0; *workers],
        });
        let profile = StackProfile {
            moments: moments.collect(),
            ..sampled(10, vec![place("f", "a.php", 1)], vec![met("", &[0], 1)])
        };
        let all = bursts(&profile);
        let seen: Vec<_> = all
            .values()
            .flat_map(|bursts| &bursts.many)
            .map(|burst| (burst.start_s, burst.end_s, burst.workers))
            .collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn requests_that_do_without_the_line_are_met_while_nobody_is_at_it() {
        let [line, other] = [1, 2].map(|line| place("f", "a.php", line));
        let looks: [&[u32]; 4] = [&[0, 1], &[1], &[], &[2]];
        let moments = looks.map(|stacks| MetAtOnce {
            at_s: 0.0,
            stacks: stacks.to_vec(),
        });
        let stacks = vec![
            met("GET /", &[0], 1),
            met("GET /", &[1], 2),
            met("GET /b", &[1], 1),
        ];
        let profile = StackProfile {
            moments: moments.to_vec(),
            ..sampled(10, vec![line.clone(), other], stacks)
        };
        assert_eq!(passed_by(&profile, &line, "GET /"), 1);
        assert_eq!(passed_by(&profile, &line, "GET /c"), 0);
    }

    #[test]
    fn a_burst_ends_where_nobody_was_met_and_somebody_looked() {
        check(
            &[(0.0, 3), (0.1, 4), (0.2, 0), (0.4, 0), (0.6, 0), (0.7, 4)],
            &[(0.0, 0.1, 4), (0.7, 0.7, 4)],
        );
        check(&[(0.0, 3), (0.1, 4), (0.7, 4)], &[(0.0, 0.7, 4)]);
        check(&[(0.0, 2), (0.1, 2)], &[]);
    }
}
