//! OPC-04: fewer places in OPcache than the application has files.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-04",
    name: "opcache-too-few-files",
    title: "OPcache has fewer places than the applications have files",
    what_it_is: "OPcache keeps scripts in a table whose size is fixed at the start: the next of a list of primes at or above \
        opcache.max_accelerated_files. A script may take two places. When the table is full the rest is compiled for every \
        request (11 times the time of a page in the lab), and it never heals by itself.",
    how_it_shows: "num_cached_keys equals max_cached_keys in opcache_get_status(), and some pages are always slow.",
    unless: "Most of the files are never included: tests, tools, other languages.",
    what_to_write: "opcache.max_accelerated_files = twice the number of files of PHP, and no less than PHP's own 10000.",
    check,
};

/// The sizes there are (ext/opcache/zend_accelerator_hash.c).
const PRIMES: [u64; 16] = [
    5, 11, 19, 53, 107, 223, 463, 983, 1979, 3907, 7963, 16229, 32531, 65407, 130_987, 262_237,
];

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.with_opcache() {
        let Some(php) = &service.php else { continue };
        let value = php.ini.or("opcache.max_accelerated_files", "10000");
        let Some(asked) = value.number() else {
            continue;
        };
        let asked = asked as u64;
        let primes = PRIMES.iter().find(|prime| **prime >= asked);
        let places = primes.copied().unwrap_or(asked);
        let code = Code::of(snapshot, at);
        // What OPcache says itself: nothing is guessed from the number of files then.
        let full = php.opcache.map(|state| state.keys >= state.most_keys);
        if !full.unwrap_or(code.files > places) {
            continue;
        }
        let there_are = php
            .opcache
            .map_or(places, |state| u64::from(state.most_keys));
        let (better, why) = code.places(there_are);
        let mut fix = Fix::ini(
            service,
            &[("opcache.max_accelerated_files", better.to_string())],
        );
        fix.text = format!("{why} {}", fix.text);
        let mut draft = RULE
            .at(snapshot, at, Severity::Risk)
            .value("opcache.max_accelerated_files", &value)
            .seen(code.words(), code.roots.join(", "))
            .cost("once it is full, what does not fit is compiled for every request, for ever")
            .fix(fix)
            .weight(0.35);
        if let Some(state) = php.opcache {
            draft = draft.severity(Severity::Problem)
                .title("OPcache has no place left for one more file")
                .seen(
                    format!(
                        "{} of {} keys are taken, by {}",
                        state.keys,
                        state.most_keys,
                        counted(u64::from(state.scripts), "script")
                    ),
                    format!("OPcache's memory, of process {}", service.pid),
                )
                .cost("every further file is compiled in every request (11 times the time of a page with 178 such files, in the lab)")
                .weight(0.55);
        } else {
            draft = draft.seen(
                format!("there are {places} places"),
                "the next prime that OPcache has",
            );
        }
        draft.tell(found);
    }
}

/// What PHP has where nobody writes a number, and the most that it takes.
const USUAL: u64 = 10_000;
const MOST: u64 = 1_000_000;

/// The code that one PHP-FPM executes, as far as it was found.
struct Code<'a> {
    files: u64,
    cut: bool,
    roots: Vec<&'a str>,
}

impl<'a> Code<'a> {
    fn of(snapshot: &'a Snapshot, at: usize) -> Self {
        let apps = || snapshot.apps.iter().filter(|app| app.service == at);
        Self {
            files: apps().map(|app| app.php_files).sum(),
            cut: apps().any(|app| app.cut),
            roots: apps().map(|app| app.root.as_str()).collect(),
        }
    }

    fn words(&self) -> String {
        let least = if self.cut { "at least " } else { "" };
        let files = counted(self.files, "file");
        match self.roots.len() {
            0 => "no application was found whose files could be counted".into(),
            1 => format!("the application has {least}{files} of PHP, counted by name"),
            _ => format!("the applications have {least}{files} of PHP, counted by name"),
        }
    }

    /// How many places to write, where there are so many now, and why.
    fn places(&self, now: u64) -> (u64, String) {
        // A script may have two keys: the path that it was asked by, and the one that this leads to.
        let needed = (2 * self.files).max(USUAL);
        let more = (2 * now).clamp(USUAL, MOST);
        match (self.files, needed > now) {
            (0, _) => (
                more,
                "Twice what there is now, since no application's files could be counted.".into(),
            ),
            (_, true) if needed == USUAL => (
                needed,
                "What PHP has by itself is enough for these files.".into(),
            ),
            (files, true) => (
                needed.min(MOST),
                format!(
                    "Two places for each of the {} that were counted.",
                    counted(files, "file")
                ),
            ),
            (_, false) => (
                more,
                format!(
                    "The files that were counted need no more than {needed} places: others are kept beside them, such as older \
                     releases or compiled templates. Until these are found, twice what there is now."
                ),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let large = |snapshot: &mut Snapshot| snapshot.apps[0].php_files = 17_000;
        let full = |files, places| {
            Case::healthy()
                .opcache(|state| (state.keys, state.most_keys) = (places, places))
                .with(|snapshot| snapshot.apps[0].php_files = files)
        };
        let case = Case::healthy()
            .pool_with("", "opcache.max_accelerated_files=10000")
            .with(large);
        verify(
            &RULE,
            &[
                (
                    Case::healthy().opcache(|state| state.keys = state.most_keys),
                    Severity::Problem,
                    "32531 of 32531 keys",
                ),
                (case, Severity::Risk, "16229 places"),
                (
                    full(500, 463),
                    Severity::Problem,
                    "max_accelerated_files = 10000",
                ),
                (
                    full(9000, 463),
                    Severity::Problem,
                    "max_accelerated_files = 18000",
                ),
                (
                    full(9000, 463),
                    Severity::Problem,
                    "9000 files of PHP, counted",
                ),
                // More than the code can need: nobody knows what fills it.
                (
                    full(500, 16_229),
                    Severity::Problem,
                    "max_accelerated_files = 32458",
                ),
                (full(500, 16_229), Severity::Problem, "older releases"),
                (
                    Case::healthy().pool_with("", "opcache.max_accelerated_files=200"),
                    Severity::Risk,
                    "500 files",
                ),
            ],
        );
    }
}
