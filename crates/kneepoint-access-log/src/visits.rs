//! Visitors: whose request is whose, where a visit ends, and how long somebody pauses within it.
//!
//! The pause before a request is its beginning minus the end of what the same visitor asked for before. It is a
//! thought only when somebody could have thought. Not counted are
//!
//! - requests that begin before the ones before have ended, or within [`crate::LearnOptions::at_once`] after: a
//!   browser fetches what a page needs side by side, and follows redirects at once;
//! - assets (stylesheets, scripts, images, fonts), when in this log they come much sooner than pages do: a browser
//!   takes a while to read the page that names them. Whether they do is judged on the whole log, for in one that
//!   serves only files, or where a program asks for them one by one, they are what the visitor came for.
//!
//! With times in whole seconds neither overlap nor an "at once" can be seen: every request but such assets counts,
//! and the differences are kept with their sign, so that their mean is right ([`pauses`]).

mod pauses;

pub(crate) use pauses::Pauses;

use crate::entry::time::{MINUTE_US, SECOND_US};
use crate::rate::PerMinute;
use crate::sample::Distinct;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// A server logs requests as they end. They are put in order of their beginnings as far as this reaches back...
const WINDOW_US: i64 = MINUTE_US;
/// ... and as far as these are enough.
const WINDOW_REQUESTS: usize = 200_000;

/// Most visits followed at once; with more, the idle ones end early.
const MOST_OPEN: usize = 1_000_000;
/// After how many requests ended visits are looked for.
const SWEEP_EVERY: u64 = 100_000;

/// A visitor comes much sooner to assets than to pages when it is this much.
const MUCH_SOONER: f64 = 3.0;

/// Different visitors counted exactly; more are estimated within 3 %.
const COUNTED: usize = 1024;

/// One request as far as visits are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) start_us: i64,
    pub(crate) end_us: i64,
    pub(crate) resolution_us: i64,
    pub(crate) cookie: Option<u64>,
    pub(crate) client: Option<u64>,
    pub(crate) asset: bool,
    /// Whether the replay sends it too.
    pub(crate) replayed: bool,
}

#[derive(Debug)]
struct Visit {
    first_us: i64,
    busy_until_us: i64,
    /// Requests the replay sends too.
    requests: u32,
    /// Whether its visitor is known by address and browser only.
    by_client: bool,
}

impl Visit {
    /// Whether a request that begins then belongs to it: neither long after it nor, in a log that is not in order of time,
    /// long before.
    fn has_room(&self, start_us: i64, gap_us: i64) -> bool {
        start_us - self.busy_until_us <= gap_us && start_us >= self.first_us.saturating_sub(gap_us)
    }
}

/// Follows visitors through a log.
#[derive(Debug)]
pub(crate) struct Visits {
    gap_us: i64,
    at_once_us: i64,
    waiting: BinaryHeap<Reverse<(i64, u64, Seen)>>,
    number: u64,
    newest_us: i64,
    open: HashMap<u64, Visit>,
    visitors: Distinct,
    found: Found,
}

/// What there was to find.
#[derive(Debug)]
pub(crate) struct Found {
    /// Visits with at least one request that is replayed, by their number of such requests.
    pub(crate) lengths: BTreeMap<u32, u64>,
    /// Visits that may have gone on after the end of the log.
    pub(crate) cut: u64,
    /// How many different visitors, about.
    pub(crate) visitors: u64,
    /// Requests that followed at once.
    pub(crate) at_once: u64,
    /// Pauses before pages.
    pages: Pauses,
    /// Pauses before assets.
    assets: Pauses,
    /// Beginnings of visits.
    pub(crate) starts: PerMinute,
    /// Whether there were more visitors at once than can be followed.
    pub(crate) crowded: bool,
    /// Lines that ended longer before one above them than lines are put in order.
    pub(crate) late: u64,
}

impl Found {
    /// The pauses that are thoughts, and how many requests followed without one.
    pub(crate) fn thoughts(self) -> (Pauses, u64) {
        if self.assets_come_along() {
            let without = self.at_once + self.assets.count();
            return (self.pages, without);
        }
        (self.pages.merge(self.assets), self.at_once)
    }

    fn assets_come_along(&self) -> bool {
        if self.pages.count() == 0 {
            return false;
        }
        let (page_s, asset_s) = match self.pages.median_s() {
            // In whole seconds of a fast visitor the median is nothing, and the mean still tells.
            0.0 => (self.pages.mean_s(), self.assets.mean_s()),
            median_s => (median_s, self.assets.median_s()),
        };
        asset_s * MUCH_SOONER < page_s
    }
}

impl Visits {
    pub(crate) fn new(gap_us: i64, at_once_us: i64) -> Self {
        Self {
            gap_us,
            at_once_us,
            waiting: BinaryHeap::new(),
            number: 0,
            newest_us: i64::MIN,
            open: HashMap::new(),
            visitors: Distinct::new(COUNTED),
            found: Found {
                lengths: BTreeMap::new(),
                cut: 0,
                visitors: 0,
                at_once: 0,
                pages: Pauses::new(1),
                assets: Pauses::new(2),
                starts: PerMinute::default(),
                crowded: false,
                late: 0,
            },
        }
    }

    /// Takes up a request in the order of the log.
    pub(crate) fn add(&mut self, seen: Seen) {
        // In whole seconds the order of the log tells more than times do.
        let coarse = seen.resolution_us >= SECOND_US;
        let order_us = if coarse { seen.end_us } else { seen.start_us };
        self.number += 1;
        self.waiting.push(Reverse((order_us, self.number, seen)));
        let older_us = self.newest_us.saturating_sub(seen.end_us);
        self.found.late += u64::from(older_us > WINDOW_US);
        self.newest_us = self.newest_us.max(seen.end_us);
        while let Some(Reverse((order_us, _, _))) = self.waiting.peek() {
            let due = self.newest_us - order_us > WINDOW_US;
            if !due && self.waiting.len() <= WINDOW_REQUESTS {
                break;
            }
            self.next();
        }
        if self.number.is_multiple_of(SWEEP_EVERY) {
            self.sweep();
        }
    }

    fn next(&mut self) {
        if let Some(Reverse((_, _, seen))) = self.waiting.pop() {
            self.step(seen);
        }
    }

    /// What was found, at the end of the log.
    pub(crate) fn finish(mut self) -> Found {
        while !self.waiting.is_empty() {
            self.next();
        }
        let open: Vec<Visit> = self.open.drain().map(|(_, visit)| visit).collect();
        for visit in open {
            if self.newest_us - visit.busy_until_us <= self.gap_us && visit.requests > 0 {
                self.found.cut += 1;
            }
            self.end(&visit);
        }
        self.found.visitors = self.visitors.count();
        self.found
    }

    fn end(&mut self, visit: &Visit) {
        if visit.requests > 0 {
            *self.found.lengths.entry(visit.requests).or_default() += 1;
        }
    }

    fn step(&mut self, seen: Seen) {
        let Some(key) = self.key(&seen) else { return };
        let gap_us = self.gap_us;
        let going_on = self
            .open
            .get(&key)
            .is_some_and(|visit| visit.has_room(seen.start_us, gap_us));
        if !going_on {
            self.begin(key, &seen);
        }
        let Some(visit) = self.open.get_mut(&key) else {
            return;
        };
        let pause_us = seen.start_us - visit.busy_until_us;
        visit.busy_until_us = visit.busy_until_us.max(seen.end_us);
        let first_replayed = seen.replayed && visit.requests == 0;
        visit.requests = visit.requests.saturating_add(u32::from(seen.replayed));
        if first_replayed {
            self.found.starts.add(seen.start_us);
        }
        if going_on {
            self.pause(pause_us, &seen);
        }
    }

    fn pause(&mut self, pause_us: i64, seen: &Seen) {
        let least_us = match seen.resolution_us >= SECOND_US {
            // Rounding may take up to a second from a pause; what is beyond is no rounding.
            true => -seen.resolution_us,
            false => self.at_once_us,
        };
        if pause_us < least_us {
            self.found.at_once += 1;
        } else if seen.asset {
            self.found.assets.add(pause_us);
        } else {
            self.found.pages.add(pause_us);
        }
    }

    /// Whose request it is. A visitor's first request has no cookie yet: when one turns up, the visit that the same
    /// address and browser began without one goes on under its name.
    fn key(&mut self, seen: &Seen) -> Option<u64> {
        let Some(cookie) = seen.cookie else {
            return seen.client;
        };
        if self.open.contains_key(&cookie) {
            return Some(cookie);
        }
        let Some(client) = seen.client else {
            return Some(cookie);
        };
        let takes_over = self
            .open
            .get(&client)
            .is_some_and(|visit| visit.by_client && visit.has_room(seen.start_us, self.gap_us));
        if takes_over && let Some(mut visit) = self.open.remove(&client) {
            visit.by_client = false;
            self.open.insert(cookie, visit);
        }
        Some(cookie)
    }

    fn begin(&mut self, key: u64, seen: &Seen) {
        self.visitors.add(key);
        let visit = Visit {
            first_us: seen.start_us,
            busy_until_us: seen.end_us,
            requests: 0,
            by_client: seen.cookie.is_none(),
        };
        if let Some(before) = self.open.insert(key, visit) {
            self.end(&before);
        }
    }

    /// Ends the visits that are over, and where there are too many, those that have been idle longest.
    fn sweep(&mut self) {
        let mut gap_us = self.gap_us;
        loop {
            let before = self
                .newest_us
                .saturating_sub(WINDOW_US)
                .saturating_sub(gap_us);
            let over: Vec<u64> = self
                .open
                .iter()
                .filter(|(_, visit)| visit.busy_until_us < before)
                .map(|(key, _)| *key)
                .collect();
            for key in over {
                if let Some(visit) = self.open.remove(&key) {
                    self.end(&visit);
                }
            }
            if self.open.len() <= MOST_OPEN || gap_us == 0 {
                return;
            }
            self.found.crowded = true;
            gap_us /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1000;

    /// A page of a visitor, from and to in ms.
    fn page(visitor: u64, from_ms: i64, to_ms: i64) -> Seen {
        Seen {
            start_us: from_ms * MS,
            end_us: to_ms * MS,
            resolution_us: MS,
            cookie: None,
            client: Some(visitor),
            asset: false,
            replayed: true,
        }
    }

    fn asset(visitor: u64, from_ms: i64, to_ms: i64) -> Seen {
        Seen {
            asset: true,
            ..page(visitor, from_ms, to_ms)
        }
    }

    /// In the order of the log: that of their ends.
    fn follow(mut requests: Vec<Seen>) -> Found {
        requests.sort_by_key(|seen| seen.end_us);
        let mut visits = Visits::new(30 * MINUTE_US, 5 * MS);
        requests.into_iter().for_each(|seen| visits.add(seen));
        visits.finish()
    }

    #[track_caller]
    fn check(requests: Vec<Seen>, thoughts: u64, mean_ms: f64, at_once: u64) {
        let (pauses, without) = follow(requests).thoughts();
        assert_eq!((pauses.count(), without), (thoughts, at_once));
        let found_ms = pauses.mean_s() * 1e3;
        assert!((found_ms - mean_ms).abs() < 1e-6, "{found_ms}");
    }

    #[test]
    fn a_pause_is_from_an_end_to_a_beginning() {
        let visitor = vec![page(1, 0, 100), page(1, 1100, 1200), page(1, 4200, 4300)];
        check(visitor, 2, 2000.0, 0);
        // Two visitors do not interrupt each other.
        let two = vec![
            page(1, 0, 100),
            page(2, 50, 150),
            page(1, 1100, 1200),
            page(2, 3150, 3200),
        ];
        check(two, 2, 2000.0, 0);
    }

    #[test]
    fn what_comes_at_once_or_side_by_side_is_no_thought() {
        let redirect = vec![page(1, 0, 100), page(1, 102, 200), page(1, 1200, 1300)];
        check(redirect, 1, 1000.0, 1);
        // A page that streams for a second: what it embeds ends, and is logged, before it.
        let streamed = vec![
            page(1, 0, 1000),
            page(1, 300, 400),
            page(1, 350, 380),
            page(1, 3000, 3100),
        ];
        check(streamed, 1, 2000.0, 2);
    }

    #[test]
    fn assets_a_browser_fetches_are_no_thoughts() {
        let mut requests = Vec::new();
        for i in 0..20 {
            let at = i * 10_100;
            requests.push(page(1, at, at + 100));
            // After 80 ms of reading the page, two side by side.
            requests.push(asset(1, at + 180, at + 200));
            requests.push(asset(1, at + 185, at + 210));
        }
        // From the last asset's end to the next page: 10 100 - 210.
        check(requests, 19, 9890.0, 40);
    }

    #[test]
    fn assets_somebody_asks_for_one_by_one_are_thoughts() {
        let requests = (0..20).map(|i| match i % 3 {
            0 => asset(1, i * 1000, i * 1000 + 100),
            _ => page(1, i * 1000, i * 1000 + 100),
        });
        check(requests.collect(), 19, 900.0, 0);
        let files = (0..20).map(|i| asset(1, i * 1000, i * 1000 + 100));
        check(files.collect(), 19, 900.0, 0);
    }

    #[test]
    fn a_visit_ends_after_the_gap() {
        let minute = 60_000;
        let requests = vec![
            page(1, 0, 100),
            page(1, 29 * minute, 29 * minute + 100),
            page(1, 60 * minute, 60 * minute + 100),
            page(2, 60 * minute, 60 * minute + 100),
        ];
        let found = follow(requests);
        assert_eq!(found.lengths, BTreeMap::from([(1, 2), (2, 1)]));
        assert_eq!((found.visitors, found.cut), (2, 2));
    }

    #[test]
    fn a_log_that_goes_back_in_time_begins_new_visits() {
        let day = 86_400_000;
        let mut visits = Visits::new(30 * MINUTE_US, 5 * MS);
        // The other visitor comes late enough for the first one's requests to be followed.
        let order = [
            (1, day),
            (1, day + 1000),
            (2, day + 120_000),
            (1, 0),
            (1, 1000),
        ];
        for (visitor, at) in order {
            visits.add(page(visitor, at, at + 100));
        }
        let found = visits.finish();
        assert_eq!(found.lengths, BTreeMap::from([(1, 1), (2, 2)]));
        assert_eq!(found.late, 2);
        assert_eq!(found.thoughts().0.count(), 2);
    }

    #[test]
    fn a_visit_goes_on_under_the_cookie_it_was_given() {
        let with = |cookie, seen| Seen {
            cookie: Some(cookie),
            ..seen
        };
        let requests = vec![
            page(1, 0, 100),
            with(77, page(1, 1000, 1100)),
            with(77, page(1, 2000, 2100)),
            // A second visitor behind the same address.
            with(88, page(1, 2500, 2600)),
        ];
        assert_eq!(follow(requests).lengths, BTreeMap::from([(1, 1), (3, 1)]));
    }

    #[test]
    fn what_is_not_replayed_takes_time_and_makes_no_visit() {
        let post = |from, to| Seen {
            replayed: false,
            ..page(1, from, to)
        };
        let found = follow(vec![post(0, 100), page(1, 1100, 1200), post(2200, 2300)]);
        assert_eq!(found.lengths, BTreeMap::from([(1, 1)]));
        assert_eq!(found.thoughts().0.count(), 2);
        assert!(follow(vec![post(0, 100)]).lengths.is_empty());
    }

    #[test]
    fn visits_that_are_over_are_let_go() {
        let mut visits = Visits::new(MINUTE_US, 5 * MS);
        for i in 0..SWEEP_EVERY {
            visits.add(page(i, i as i64 * 100, i as i64 * 100 + 10));
        }
        // A minute of reordering and a minute of gap at ten a second.
        assert!(visits.open.len() <= 1200, "{}", visits.open.len());
        assert_eq!(visits.finish().lengths[&1], SWEEP_EVERY);
    }
}
