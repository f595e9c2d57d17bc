//! What a log teaches, put together.

use crate::entry::time::SECOND_US;
use crate::entry::{BadLine, LogEntry};
use crate::error::{LearnError, quoted};
use crate::format::{LineFormat, parse_line};
use crate::options::LearnOptions;
use crate::rate::{PerMinute, Span};
use crate::routes::{Routes, Tally, is_asset};
use crate::sample::thin;
use crate::visits::{Found, Pauses, Seen, Visits};
use kneepoint_model::{
    Expect, Method, Request, Schedule, Sessions, ThinkTime, Workload, units::format_share,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Methods that change nothing and need no body.
const SAFE: &[&str] = &["GET", "HEAD"];
/// How lines are counted that hold no request.
const NO_REQUEST: &str = "no request that can be sent";
/// Most methods that are told apart: clients make them up.
const MOST_METHODS: usize = 20;
/// Most lengths of visits that are told apart; more are grouped.
const MOST_LENGTHS: usize = 100;
/// Most cookie jars the replay keeps.
const MOST_USERS: u64 = 10_000;
/// Share of lines out of order beyond which a log is not in order of time \[ours\]: a slow download is logged late, too.
const DISORDER: f64 = 0.01;

/// What was learnt from an access log.
#[derive(Debug, Clone, PartialEq)]
pub struct Learned {
    /// The format the log was read as.
    pub format: String,
    /// The mix: for each route some of its real paths, weighted as they were frequent, with a client error expected
    /// where that was the answer. With `sessions` where visitors can be told apart: how many requests a visit has,
    /// and the pauses within it, of which those of requests that follow at once are zero.
    pub workload: Workload,
    /// Replayed requests per second, over the whole log.
    pub rate_hz: f64,
    /// The same in the busiest minute.
    pub peak_hz: f64,
    /// What is known of visitors; `None` when the log names none.
    pub visiting: Option<Visiting>,
    /// Lines that are not blank.
    pub lines: u64,
    /// Of these, lines that could not be read.
    pub bad_lines: u64,
    /// The first bad line with its number and what is wrong with it.
    pub bad_example: Option<String>,
    /// Requests that are not replayed, by method, and lines that ask for nothing.
    pub skipped: BTreeMap<String, u64>,
    /// How long a stretch of time the log covers.
    pub span: Duration,
    /// The routes, the most frequent first.
    pub folded: Vec<Route>,
    /// What a person should know before trusting this, in sentences.
    pub notes: Vec<String>,
    covered: Span,
    requests_per_minute: PerMinute,
    visits_per_minute: PerMinute,
}

/// A route: what identifiers, folded, make one of many paths.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Method.
    pub method: String,
    /// The folded path: `/post/{n}`, `/build/*.css`, `/search?q={text}`.
    pub template: String,
    /// The client error that was always the answer; the same path with another answer is another route.
    pub refused: Option<u16>,
    /// How many requests.
    pub requests: u64,
    /// Share of all replayed requests.
    pub share: f64,
    /// How many different paths it stands for.
    pub distinct: u64,
    /// Whether `distinct` is counted and not estimated (within 6 %).
    pub distinct_is_exact: bool,
    /// How many real paths the workload has of it; 0 when it was left out as too rare.
    pub paths: usize,
    /// How many of its requests were answered with a status from 500.
    pub failed: u64,
}

/// Visitors and visits.
#[derive(Debug, Clone, PartialEq)]
pub struct Visiting {
    /// Visits with at least one replayed request.
    pub visits: u64,
    /// Visitors, within 3 %.
    pub visitors: u64,
    /// Mean number of replayed requests of a visit.
    pub mean_requests: f64,
    /// Visits that begin per second, over the whole log.
    pub rate_hz: f64,
    /// Mean think time: from a response to the visitor's next request, where that did not follow at once.
    pub think_mean: Duration,
    /// Median think time.
    pub think_median: Duration,
    /// How many think times that is of.
    pub thoughts: u64,
    /// How many requests followed at once (redirects, what pages embed): no thoughts, and zero pauses in the replay.
    pub at_once: u64,
    /// Visits that may have gone on after the log's end.
    pub cut: u64,
}

impl Learned {
    /// The rate of the log, minute by minute, `times` as high: of visits, which is what arrives when the workload
    /// has sessions, else of requests. A factor that is negative or no number gives a schedule without arrivals.
    #[must_use]
    pub fn schedule_at(&self, times: f64) -> Schedule {
        let per_minute = match self.workload.sessions {
            Some(_) => &self.visits_per_minute,
            None => &self.requests_per_minute,
        };
        let times = if times.is_finite() {
            times.max(0.0)
        } else {
            0.0
        };
        per_minute.schedule(self.covered, times)
    }
}

/// Takes up a log line by line.
pub(crate) struct Learner<'o> {
    options: &'o LearnOptions,
    format: &'o LineFormat,
    routes: Routes,
    visits: Visits,
    requests: PerMinute,
    covered: Span,
    lines: u64,
    bad_lines: u64,
    bad_example: Option<String>,
    skipped: BTreeMap<String, u64>,
    replayed: u64,
    /// Requests that name a visitor, and those with a duration.
    known: u64,
    timed: u64,
    entries: u64,
    resolution_us: i64,
}

impl<'o> Learner<'o> {
    pub(crate) fn new(options: &'o LearnOptions, format: &'o LineFormat) -> Self {
        let us = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4);
        Self {
            options,
            format,
            routes: Routes::new(options.words),
            visits: Visits::new(us(options.visit_gap), us(options.at_once)),
            requests: PerMinute::default(),
            covered: Span::default(),
            lines: 0,
            bad_lines: 0,
            bad_example: None,
            skipped: BTreeMap::new(),
            replayed: 0,
            known: 0,
            timed: 0,
            entries: 0,
            resolution_us: 1,
        }
    }

    pub(crate) fn line(&mut self, line: &str) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match parse_line(self.format, line) {
            Ok(entry) => {
                self.lines += 1;
                self.entry(&entry);
            }
            Err(bad) => self.bad(line, &bad),
        }
    }

    pub(crate) fn bad(&mut self, line: &str, bad: &BadLine) {
        self.lines += 1;
        self.bad_lines += 1;
        let number = self.lines;
        self.bad_example
            .get_or_insert_with(|| format!("line {number}, {:?}: {bad}", quoted(line)));
    }

    fn entry(&mut self, entry: &LogEntry) {
        let Some(request) = &entry.request else {
            self.skip(NO_REQUEST);
            return;
        };
        self.entries += 1;
        self.resolution_us = self.resolution_us.max(entry.resolution_us);
        self.timed += u64::from(entry.timed);
        let replayed = SAFE.contains(&request.method.as_str());
        if replayed {
            self.replayed += 1;
            self.routes.add(request, entry.status);
            self.requests.add(entry.start_us);
            self.covered.include(entry.start_us, entry.end_us);
        } else {
            self.skip(&request.method);
        }
        if entry.cookie.is_some() || entry.client.is_some() {
            self.known += 1;
            self.visits.add(Seen {
                start_us: entry.start_us,
                end_us: entry.end_us,
                resolution_us: entry.resolution_us,
                cookie: entry.cookie,
                client: entry.client,
                asset: is_asset(&request.target),
                replayed,
            });
        }
    }

    fn skip(&mut self, what: &str) {
        if let Some(count) = self.skipped.get_mut(what) {
            *count += 1;
            return;
        }
        let full = self.skipped.len() >= MOST_METHODS;
        let what = if full { "other methods" } else { what };
        *self.skipped.entry(what.to_owned()).or_default() += 1;
    }

    pub(crate) fn finish(self) -> Result<Learned, LearnError> {
        if self.lines == 0 {
            return Err(LearnError::Empty);
        }
        if self.replayed == 0 {
            return Err(LearnError::Nothing {
                lines: self.lines,
                why: self.instead(),
            });
        }
        let mut notes = Vec::new();
        self.say_lines(&mut notes);
        let found = self.visits.finish();
        if self.routes.crowded || found.crowded {
            notes.push("the log has too many different paths or visitors at once for the memory: the rarest were put together".into());
        }
        if found.late as f64 > DISORDER * self.entries as f64 {
            notes.push(format!(
                "the log is not in order of time ({} lines are over a minute older than one above them), so visits and \
                 think times are wrong; sort it by time",
                found.late
            ));
        }
        let visits_per_minute = found.starts.clone();
        let visitors = found.visitors;
        // Half of the requests name nobody: what the others do says nothing about them.
        let nameable = 2 * self.known > self.entries && !found.lengths.is_empty();
        let visits_hz = found.starts.mean_hz(self.covered);
        let visiting = nameable.then(|| visiting(found, self.resolution_us, visits_hz));
        let (visiting, sessions) = visiting.unzip();
        if sessions.is_none() {
            notes.push("the log names no visitors (an address, a session cookie), so every request stands for itself, without think time".into());
        }
        if let Some(visiting) = &visiting {
            say_times(
                visiting,
                self.timed,
                self.entries,
                self.resolution_us,
                &mut notes,
            );
        }
        let tallies = self.routes.finish();
        let mix = mix(&tallies, self.replayed, self.options, sessions.is_some());
        mix.say(&mut notes);
        Ok(Learned {
            format: self.format.name().to_owned(),
            workload: Workload {
                requests: mix.requests,
                users: visitors.clamp(1, MOST_USERS) as u32,
                sessions,
                feeders: Vec::new(),
            },
            rate_hz: self.requests.mean_hz(self.covered),
            peak_hz: self.requests.peak_hz(self.covered),
            visiting,
            lines: self.lines,
            bad_lines: self.bad_lines,
            bad_example: self.bad_example,
            skipped: self.skipped,
            span: self.covered.length(),
            folded: mix.routes,
            notes,
            covered: self.covered,
            requests_per_minute: self.requests,
            visits_per_minute,
        })
    }

    /// What the lines of a log are that has nothing to replay.
    fn instead(&self) -> String {
        let mut what: Vec<String> = Vec::new();
        if let Some(example) = &self.bad_example {
            what.push(format!("{} bad lines: {example}", self.bad_lines));
        }
        what.extend(self.skipped.iter().map(|(name, n)| format!("{name}: {n}")));
        what.join("; ")
    }

    fn say_lines(&self, notes: &mut Vec<String>) {
        if let Some(example) = &self.bad_example {
            notes.push(format!(
                "{} of {} lines could not be read; {example}",
                self.bad_lines, self.lines
            ));
        }
        if !self.skipped.is_empty() {
            let skipped = self.skipped.iter().map(|(name, n)| format!("{name}: {n}"));
            let skipped: Vec<String> = skipped.collect();
            notes.push(format!(
                "not replayed, for a log has no bodies: {}; write what matters as [[request]]",
                skipped.join(", ")
            ));
        }
    }
}

/// Visitors as a person reads them, and as the engine plays them.
fn visiting(found: Found, resolution_us: i64, rate_hz: f64) -> (Visiting, Sessions) {
    let visits: u64 = found.lengths.values().sum();
    let requests: f64 = found
        .lengths
        .iter()
        .map(|(length, n)| f64::from(*length) * *n as f64)
        .sum();
    let lengths = grouped(&found.lengths);
    let (visitors, cut) = (found.visitors, found.cut);
    let (thoughts, at_once) = found.thoughts();
    let think_time = think_time(&thoughts, at_once, resolution_us);
    let visiting = Visiting {
        visits,
        visitors,
        mean_requests: requests / visits as f64,
        rate_hz,
        think_mean: Duration::from_secs_f64(thoughts.mean_s()),
        think_median: Duration::from_secs_f64(thoughts.median_s()),
        thoughts: thoughts.count(),
        at_once,
        cut,
    };
    let sessions = Sessions {
        scripts: Vec::new(),
        lengths,
        think_time,
    };
    (visiting, sessions)
}

fn think_time(thoughts: &Pauses, at_once: u64, resolution_us: i64) -> ThinkTime {
    if thoughts.count() == 0 || thoughts.mean_s() == 0.0 {
        return ThinkTime::None;
    }
    let none = at_once as f64 / (at_once + thoughts.count()) as f64;
    ThinkTime::Empirical {
        quantiles: thoughts.quantiles(none, resolution_us),
    }
}

/// Lengths of visits with their weights: each while there are few, else in groups of about the same length, which
/// keep the mean.
fn grouped(lengths: &BTreeMap<u32, u64>) -> Vec<(u32, f64)> {
    if lengths.len() <= MOST_LENGTHS {
        return lengths
            .iter()
            .map(|(length, n)| (*length, *n as f64))
            .collect();
    }
    let mut groups: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for (length, n) in lengths {
        // Every length up to 20, then steps of a tenth.
        let group = match *length {
            short @ 0..=20 => short,
            long => 20 + ((f64::from(long) / 20.0).ln() / 1.1f64.ln()) as u32,
        };
        let (visits, requests) = groups.entry(group).or_default();
        *visits += *n as f64;
        *requests += f64::from(*length) * *n as f64;
    }
    let groups = groups.into_values();
    groups
        .map(|(visits, requests)| ((requests / visits).round() as u32, visits))
        .collect()
}

fn say_times(
    visiting: &Visiting,
    timed: u64,
    entries: u64,
    resolution_us: i64,
    notes: &mut Vec<String>,
) {
    if timed * 2 < entries {
        notes.push("the log has no durations ($request_time, %D), so think times are too long by the mean duration of a request".into());
    }
    if resolution_us >= SECOND_US {
        notes.push("the log's times are whole seconds: the mean think time holds, its distribution below some seconds does not, and requests side by side cannot be told from one after the other; log $msec to see them".into());
    }
    if visiting.cut * 4 > visiting.visits {
        notes.push(format!(
            "{} of {} visits were still going on at the log's end, so visits are longer than they seem; take a longer log",
            visiting.cut, visiting.visits
        ));
    }
    if visiting.thoughts == 0 {
        notes.push("no visitor came back within a visit, so there is no think time".into());
    }
}

/// The requests of a workload, and the routes they come from.
struct Mix {
    requests: Vec<Request>,
    routes: Vec<Route>,
    total: u64,
}

impl Mix {
    fn say(&self, notes: &mut Vec<String>) {
        let requests = |left: &dyn Fn(&Route) -> bool| -> u64 {
            let routes = self.routes.iter().filter(|route| left(route));
            routes.map(|route| route.requests).sum()
        };
        let share = |n: u64| format_share(n as f64 / self.total as f64);
        let rare = requests(&|route| route.paths == 0);
        if rare > 0 {
            let routes = self.routes.iter().filter(|route| route.paths == 0).count();
            notes.push(format!(
                "{routes} rare routes, {} of the requests, are left out",
                share(rare)
            ));
        }
        let failed: u64 = self.routes.iter().map(|route| route.failed).sum();
        if failed * 100 > self.total {
            notes.push(format!(
                "{} of the requests were answered with a server error: the log is of a stack in trouble",
                share(failed)
            ));
        }
        let refused = requests(&|route| route.refused.is_some());
        if refused * 20 > self.total {
            notes.push(format!(
                "{} of the requests were refused with a client error; the replay asks again and expects the same answer",
                share(refused)
            ));
        }
    }
}

fn mix(tallies: &[Tally], total: u64, options: &LearnOptions, sessions: bool) -> Mix {
    let half = (options.most_requests / 2).max(1);
    let mut requests = Vec::new();
    let mut routes = Vec::new();
    for (index, tally) in tallies.iter().enumerate() {
        let share = tally.requests as f64 / total as f64;
        let paths = match index < half {
            true => {
                ((share * half as f64).ceil() as usize).clamp(1, options.paths_per_route.max(1))
            }
            false => 0,
        };
        let before = requests.len();
        if paths > 0 {
            let kept = thin(tally.examples.weighted(), paths);
            requests.extend(kept.into_iter().map(|(path, of_route)| Request {
                name: None,
                captures: Vec::new(),
                client_mbit: None,
                path: path.into_string(),
                weight: tally.requests as f64 * of_route,
                method: Method(tally.method.clone()),
                headers: Vec::new(),
                body: None,
                expect: Expect {
                    status: tally.refused.into_iter().map(Into::into).collect(),
                    ..Expect::default()
                },
                // A browser sends its cookies with every page.
                session: sessions && !tally.template.contains("/*."),
            }));
        }
        routes.push(Route {
            method: tally.method.clone(),
            template: tally.template.clone(),
            refused: tally.refused,
            requests: tally.requests,
            share,
            distinct: tally.distinct.count(),
            distinct_is_exact: tally.distinct.is_exact(),
            paths: requests.len() - before,
            failed: tally.failed,
        });
    }
    Mix {
        requests,
        routes,
        total,
    }
}
