//! What a rule is, and what it finds.

mod admission;
mod askers;
#[cfg(test)]
pub(crate) mod case;
mod directive;
mod fix;
mod kept_in_redis;
pub(crate) mod kept_open;
pub(crate) mod log_page;
mod logged;
mod memory_share;

pub use fix::{Fix, FixFile, shell_word};

use crate::snapshot::{FpmPool, ServedApp, Service, SettingSource, SettingValue, Snapshot};
use kneepoint_model::units::format_span;
use serde::Serialize;
use std::time::Duration;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It costs now, or is seen to fail.
    Problem,
    /// It will cost under load, at a deployment or when something breaks.
    Risk,
    /// True, and little.
    Note,
}

impl Severity {
    /// The word in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Risk => "risk",
            Self::Note => "note",
        }
    }
}

/// One thing that was seen, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// What.
    pub what: String,
    /// A file with its line, a variable, a log; empty where it is the process itself.
    pub source: String,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckFinding {
    /// The rule's code.
    pub code: &'static str,
    /// The rule's name.
    pub rule: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, as a short sentence.
    pub title: String,
    /// Position of the service in the snapshot.
    pub service: usize,
    /// What the service is called, with its pool.
    pub place: String,
    /// What was seen.
    pub seen: Vec<Seen>,
    /// What it costs here.
    pub cost: String,
    /// When it would not matter.
    pub unless: String,
    /// What to do.
    pub fix: Fix,
    /// Other places of which the very same is true.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Larger comes first among findings of one severity; a part of the capacity where that is known, from 0 to 1.
    pub weight: f64,
}

/// One rule: a pure function of what was seen.
#[derive(Debug, Clone, Copy)]
pub struct CheckRule {
    /// The id in the catalogue: `FPM-01`.
    pub code: &'static str,
    /// The pattern's name, in kebab case; also the name of its file.
    pub name: &'static str,
    /// What is wrong, as a short sentence.
    pub title: &'static str,
    /// What it is and why it costs, for somebody who has never heard of it.
    pub what_it_is: &'static str,
    /// How it shows from outside, or in numbers.
    pub how_it_shows: &'static str,
    /// When it does not matter.
    pub unless: &'static str,
    /// What to change, with an example.
    pub what_to_write: &'static str,
    /// The check.
    pub check: fn(&Snapshot, &mut Vec<CheckFinding>),
}

impl CheckRule {
    /// Begins a finding about a service.
    pub(crate) fn at(&self, snapshot: &Snapshot, service: usize, severity: Severity) -> Draft {
        let place = snapshot
            .services
            .get(service)
            .map_or_else(String::new, Service::name);
        Draft(CheckFinding {
            code: self.code,
            rule: self.name,
            severity,
            title: self.title.to_owned(),
            service,
            place,
            seen: Vec::new(),
            cost: String::new(),
            unless: self.unless.to_owned(),
            fix: Fix::default(),
            also: Vec::new(),
            weight: 0.0,
        })
    }
}

/// A finding under way.
#[derive(Debug)]
#[must_use]
pub(crate) struct Draft(CheckFinding);

impl Draft {
    pub(crate) fn title(mut self, title: impl Into<String>) -> Self {
        self.0.title = title.into();
        self
    }

    /// The pool it is about.
    pub(crate) fn pool(mut self, pool: &FpmPool) -> Self {
        self.0.place = format!("pool {} of {}", pool.name, self.0.place);
        self
    }

    /// The application it is about, with the pools that execute it where they are known.
    pub(crate) fn app(mut self, app: &ServedApp) -> Self {
        let pools = match app.pools.as_slice() {
            [] => String::new(),
            [one] => format!("pool {one} of "),
            many => format!("pools {} of ", many.join(", ")),
        };
        self.0.place = format!("{}, served by {pools}{}", app.root, self.0.place);
        self
    }

    /// A setting that was seen.
    pub(crate) fn value(self, name: &str, value: &SettingValue) -> Self {
        let mut draft = self.seen(format!("{name} = {}", value.text), value.source.to_string());
        for (text, source) in value.replaced.iter().rev().take(1) {
            if *text != value.text {
                draft = draft.seen(format!("before: {name} = {text}"), source.to_string());
            }
        }
        draft
    }

    /// Anything else that was seen.
    pub(crate) fn seen(mut self, what: impl Into<String>, source: impl Into<String>) -> Self {
        let (what, source) = (what.into(), source.into());
        self.0.seen.push(Seen { what, source });
        self
    }

    /// Other places of which it is true as well.
    pub(crate) fn also(mut self, places: impl Iterator<Item = String>) -> Self {
        self.0.also.extend(places);
        self
    }

    /// How bad it is, where that is known only now.
    pub(crate) fn severity(mut self, severity: Severity) -> Self {
        self.0.severity = severity;
        self
    }

    pub(crate) fn cost(mut self, cost: impl Into<String>) -> Self {
        self.0.cost = cost.into();
        self
    }

    pub(crate) fn fix(mut self, fix: Fix) -> Self {
        self.0.fix = fix;
        self
    }

    pub(crate) fn weight(mut self, weight: f64) -> Self {
        self.0.weight = weight;
        self
    }

    /// Adds it to what was found.
    pub(crate) fn tell(self, found: &mut Vec<CheckFinding>) {
        found.push(self.0);
    }
}

/// Lines of a log: how often, since when.
pub(crate) fn often(hits: &crate::snapshot::LogHits) -> String {
    let times = match hits.count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    };
    let said = crate::snapshot::said(hits.kind);
    let since = match (hits.first.as_str(), hits.age_s) {
        ("", _) => String::new(),
        (first, None) => format!(" since {first}"),
        (first, Some(age)) => {
            let ago = format_span(Duration::from_secs_f64(age.max(0.0).round()));
            format!(" since {first}, the last {ago} ago")
        }
    };
    format!("{said} {times}{since}")
}

/// `1 line`, `2 lines`, `2 processes`.
pub(crate) fn counted(count: u64, one: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count if one.ends_with('s') => format!("{count} {one}es"),
        count => format!("{count} {one}s"),
    }
}

/// Whether lines of a log tell of today and not of some past.
pub(crate) fn is_recent(hits: &crate::snapshot::LogHits) -> bool {
    hits.age_s.is_none_or(|age| age < crate::snapshot::RECENT_S)
}

/// What every rule's file needs.
pub(crate) mod prelude {
    pub(crate) use super::admission::Admission;
    pub(crate) use super::askers::Askers;
    #[cfg(test)]
    pub(crate) use super::case::{Case, apache, check as verify, haproxy};
    pub(crate) use super::directive::{Around, Directive, Home};
    pub(crate) use super::kept_in_redis::KeptInRedis;
    pub(crate) use super::logged::{Logged, graded};
    pub(crate) use super::memory_share::MemoryShare;
    pub(crate) use super::{CheckFinding, CheckRule, Fix, Severity, counted, is_recent, often};
    pub(crate) use crate::snapshot::{
        FpmPool, Service, ServiceKind, SettingSource, SettingValue, Settings, Snapshot,
    };
    pub(crate) use kneepoint_model::LogKind;
    pub(crate) use kneepoint_model::units::format_bytes;
}

impl Snapshot {
    /// Workers of PHP that were busy, of how many were looked at; of the services that a test holds for.
    #[must_use]
    pub fn busy_workers(&self, pool: &FpmPool) -> Option<(usize, usize)> {
        let states: Vec<bool> = pool
            .workers
            .iter()
            .filter_map(|worker| worker.busy)
            .collect();
        (!states.is_empty()).then(|| (states.iter().filter(|busy| **busy).count(), states.len()))
    }
}

impl Service {
    /// How much CPU it has used since it was started, in words.
    #[must_use]
    pub fn cpu_words(&self) -> Option<String> {
        let cores = self.cpu_s / self.age_s.max(1.0);
        let span = format_span(Duration::from_secs_f64(self.age_s.max(1.0).round()));
        (self.cpu_s > 0.0)
            .then(|| format!("it used {cores:.2} cores on average since its start {span} ago"))
    }
}

impl SettingValue {
    /// Whether nobody set it.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.source == SettingSource::Default
    }
}
