//! What PHP's CPU went into, by the stacks of workers that computed.

use super::computes;
use kneepoint_model::account::{CodeAccount, FileShare, FunctionShare, OwnerShare};
use kneepoint_model::{Owner, Place, StackProfile};
use std::collections::{BTreeMap, BTreeSet};

/// Files and functions that are kept, the largest.
const KEPT: usize = 12;

/// Divides the stacks that computed by owner, file and function.
///
/// A stack counts for its innermost place with a file: what functions of PHP itself take is their caller's, whose function
/// is told by both. A stack without any such place counts as unnamed, and so does a look at a worker that gave no stack: one
/// that waits always gives its.
pub(super) fn account(profile: &StackProfile) -> CodeAccount {
    let mut sums = Sums {
        stacks: profile.error,
        unnamed: profile.error,
        ..Sums::default()
    };
    for met in &profile.stacks {
        if computes(profile, met) {
            let places: Vec<&Place> = profile.places_of(met).collect();
            sums.add(&places, met.count);
        }
    }
    sums.account(profile)
}

/// Stacks in which something was at work itself, and those in which it was at all.
#[derive(Default, Clone, Copy)]
struct Counted {
    own: u64,
    total: u64,
}

/// What tells functions apart: their name, their file, and who called those of PHP itself: function and file.
type Key<'a> = (&'a str, Option<&'a str>, Option<(&'a str, &'a str)>);

/// A function's stacks, and how many of them were at each of its lines, or at those of its caller.
#[derive(Default)]
struct Function<'a> {
    counted: Counted,
    lines: BTreeMap<(&'a Place, Option<&'a Place>), u64>,
}

#[derive(Default)]
struct Sums<'a> {
    stacks: u64,
    unnamed: u64,
    owners: BTreeMap<Owner, Counted>,
    files: BTreeMap<&'a str, u64>,
    functions: BTreeMap<Key<'a>, Function<'a>>,
}

/// Who called a function of PHP itself: the next place outwards that has a file. Nothing for a function of a file.
fn caller<'a>(outwards: &[&'a Place]) -> Option<&'a Place> {
    let (innermost, rest) = outwards.split_first()?;
    match innermost.file {
        Some(_) => None,
        None => rest.iter().copied().find(|place| place.file.is_some()),
    }
}

fn key<'a>(outwards: &[&'a Place]) -> Option<Key<'a>> {
    let place = *outwards.first()?;
    let caller = caller(outwards).and_then(|by| Some((by.function.as_str(), by.file.as_deref()?)));
    Some((place.function.as_str(), place.file.as_deref(), caller))
}

impl<'a> Sums<'a> {
    /// Counts stacks, whose places begin with the outermost.
    fn add(&mut self, places: &[&'a Place], count: u64) {
        self.stacks += count;
        let outwards: Vec<&Place> = places.iter().rev().copied().collect();
        let Some(named) = outwards.iter().find_map(|place| place.file.as_deref()) else {
            self.unnamed += count;
            return;
        };
        *self.files.entry(named).or_default() += count;
        self.owners.entry(Owner::of_file(named)).or_default().own += count;
        let owners: BTreeSet<Owner> = places.iter().filter_map(|place| place.owner()).collect();
        for owner in owners {
            self.owners.entry(owner).or_default().total += count;
        }
        let mut met = BTreeSet::new();
        for depth in 0..outwards.len() {
            let from = &outwards[depth..];
            let Some(key) = key(from) else { continue };
            let function = self.functions.entry(key).or_default();
            if depth == 0 {
                function.counted.own += count;
                *function.lines.entry((from[0], caller(from))).or_default() += count;
            }
            if met.insert(key) {
                function.counted.total += count;
            }
        }
    }

    fn account(self, profile: &StackProfile) -> CodeAccount {
        let all = self.stacks.max(1) as f64;
        let share = |count: u64| count as f64 / all;
        let mut owners: Vec<OwnerShare> = self
            .owners
            .into_iter()
            .map(|(owner, counted)| OwnerShare {
                owner,
                share: share(counted.own),
                with_calls: share(counted.total),
            })
            .collect();
        owners.sort_by(|a, b| b.share.total_cmp(&a.share));
        let mut files: Vec<FileShare> = self
            .files
            .into_iter()
            .map(|(file, count)| FileShare {
                file: file.to_owned(),
                share: share(count),
            })
            .collect();
        files.sort_by(|a, b| b.share.total_cmp(&a.share));
        files.truncate(KEPT);
        let functions = self.functions.into_values();
        let mut functions: Vec<FunctionShare> = functions
            .filter_map(|function| {
                let lines = function.lines.into_iter();
                let ((place, caller), _) = lines.max_by_key(|(_, count)| *count)?;
                Some(FunctionShare {
                    place: place.clone(),
                    caller: caller.cloned(),
                    owner: caller.unwrap_or(place).owner().unwrap_or_default(),
                    share: share(function.counted.own),
                    with_calls: share(function.counted.total),
                })
            })
            .collect();
        functions.sort_by(|a, b| b.share.total_cmp(&a.share));
        functions.truncate(KEPT);
        CodeAccount {
            phase: profile.phase.clone(),
            stacks: self.stacks,
            owners,
            files,
            functions,
            unnamed: share(self.unnamed),
        }
    }
}
