//! Puts the accounts of several generators together: each second's histograms without loss, and one load point at the end.

mod belief;

use crate::messages::{Account, Report};
use belief::Belief;
use kneepoint_load::{LoadPlan, Mode, Share};
use kneepoint_model::units::format_share;
use kneepoint_model::{
    GeneratorPart, Health, LatencyHistogram, LoadPoint, OutcomeCounts, Second, Validity,
};
use std::collections::BTreeMap;

/// Least achieved share that counts, as for one generator (load-engine.md, section 3.8).
const ACHIEVED: f64 = 0.99;
/// Most examples of what went wrong that are kept, as of one generator.
const EXAMPLES: usize = 8;

/// A second whose every request has ended, at every agent that is waited for.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) record: Second,
    pub(crate) response: Option<Box<LatencyHistogram>>,
}

/// One agent's data.
#[derive(Debug)]
struct Source {
    name: String,
    share: Share,
    /// How far its start may lie from the others', in ms.
    start_within_ms: f64,
    /// Seconds that have come, from the first on and without a gap.
    seconds: u64,
    /// What of them is in the window.
    seen: Seen,
    account: Option<Account>,
    belief: Belief,
}

/// What the seconds of an agent tell of its window, for the case that its account never comes.
#[derive(Debug, Default)]
struct Seen {
    arrivals: u64,
    good: u64,
    outcomes: OutcomeCounts,
    response: LatencyHistogram,
}

impl Source {
    /// Whether its own gates hold; of one that was lost, what is missing says enough.
    fn is_sound(&self) -> bool {
        let account = self.account.as_ref();
        self.belief.is_kept() && account.is_none_or(|account| account.point.validity.is_valid())
    }

    /// Whether everything that it measured has come, or nothing more of it is wanted.
    fn is_whole(&self) -> bool {
        let account = self.account.as_ref();
        let whole = account.is_some_and(|account| account.seconds <= self.seconds);
        whole || !self.belief.is_kept()
    }
}

/// The account over all agents.
#[derive(Debug)]
pub(crate) struct Union {
    skip_s: f64,
    sources: Vec<Source>,
    open: BTreeMap<u64, Whole>,
    finished: Vec<Second>,
}

impl Union {
    /// The agents by number: name, share, and how far their starts may lie apart in ms.
    pub(crate) fn new(plan: &LoadPlan, agents: Vec<(String, Share, f64)>) -> Self {
        let sources = agents
            .into_iter()
            .map(|(name, share, start_within_ms)| Source {
                name,
                belief: Belief::of(plan, &share),
                share,
                start_within_ms,
                seconds: 0,
                seen: Seen::default(),
                account: None,
            });
        Self {
            skip_s: plan.skip.as_secs_f64(),
            sources: sources.collect(),
            open: BTreeMap::new(),
            finished: Vec::new(),
        }
    }

    /// Takes an agent's next second. One that came before is left out, and one that does not follow is asked for again.
    pub(crate) fn second(&mut self, agent: usize, report: Report) {
        let source = &mut self.sources[agent];
        if report.number != source.seconds || !source.belief.second(&report) {
            return;
        }
        source.seconds += 1;
        let Report {
            number,
            record,
            response,
        } = report;
        if record.at_s >= self.skip_s {
            source.seen.arrivals += record.offered;
            source.seen.good += record.good;
            source.seen.outcomes.merge(&record.outcomes);
            if let Some(response) = &response {
                source.seen.response.merge(response);
            }
        }
        if let Some(late) = self.finished.get_mut(number as usize) {
            // Of somebody who was away: the quantiles were told, the counts still become whole.
            add(late, &record);
            return;
        }
        let whole = self.open.entry(number).or_insert_with(|| Whole {
            record: Second {
                at_s: number as f64,
                ..Second::default()
            },
            response: None,
        });
        add(&mut whole.record, &record);
        match (&mut whole.response, response) {
            (Some(sum), Some(more)) => sum.merge(&more),
            (empty @ None, some) => *empty = some,
            (Some(_), None) => {}
        }
    }

    /// Takes an agent's account.
    pub(crate) fn account(&mut self, agent: usize, account: Account) {
        let source = &mut self.sources[agent];
        if source.belief.account(&account) {
            source.account = Some(account);
        }
    }

    /// Why an agent is not believed any more, told once.
    pub(crate) fn newly_doubted(&mut self, agent: usize) -> Option<String> {
        self.sources[agent].belief.newly_lost()
    }

    /// Whether all that an agent measured is there.
    pub(crate) fn is_whole(&self, agent: usize) -> bool {
        self.sources[agent].is_whole()
    }

    /// From which second on an agent is to say again what it said, if one is missing: it has handed over so many.
    pub(crate) fn missing(&self, agent: usize, handed: u64) -> Option<u64> {
        let source = &self.sources[agent];
        if !source.belief.is_kept() {
            return None;
        }
        let told = source
            .account
            .as_ref()
            .map_or(handed, |account| account.seconds.max(handed));
        (source.seconds < told).then_some(source.seconds)
    }

    /// The seconds that have become whole, in order: nobody who is waited for still owes his part of them.
    pub(crate) fn complete(&mut self, is_waited_for: impl Fn(usize) -> bool) -> Vec<Whole> {
        let sources = self.sources.iter().enumerate();
        let owing = sources.filter(|(agent, source)| is_waited_for(*agent) && !source.is_whole());
        let until = owing
            .map(|(_, source)| source.seconds)
            .min()
            .unwrap_or(u64::MAX);
        let mut whole = Vec::new();
        while let Some(entry) = self.open.first_entry()
            && *entry.key() < until
        {
            let mut second = entry.remove();
            let quantile = |q| second.response.as_ref().and_then(|h| h.quantile_ms(q));
            second.record = Second {
                p50_ms: quantile(0.5),
                p90_ms: quantile(0.9),
                p95_ms: quantile(0.95),
                p99_ms: quantile(0.99),
                max_ms: second.response.as_ref().and_then(|h| h.max_ms()),
                ..second.record
            };
            self.finished.push(second.record.clone());
            whole.push(second);
        }
        whole
    }

    /// How long the window was. Of a load that nobody told to stop it is what was asked for, whoever ended early; else, and
    /// where a loop ends with its requests, as long as somebody loaded.
    fn window_s(&self, plan: &LoadPlan, stopped: bool) -> f64 {
        let asked_s = (plan.mode.duration().as_secs_f64() - self.skip_s).max(0.0);
        let by_count = match &plan.mode {
            Mode::Closed(closed) => closed.requests.is_some() || closed.loops.is_some(),
            Mode::Open { .. } => false,
        };
        if !stopped && !by_count {
            return asked_s;
        }
        let accounts = self.sources.iter().filter_map(|it| it.account.as_ref());
        let windows = accounts.map(|account| account.point.window_s);
        match windows.fold(0.0, f64::max) {
            0.0 => (self.finished.len() as f64 - self.skip_s).max(0.0),
            window_s => window_s.min(asked_s),
        }
    }

    /// One load point of it all. A load that was told to stop was to be no longer than it was.
    pub(crate) fn finish(mut self, plan: &LoadPlan, stopped: bool) -> LoadPoint {
        self.complete(|_| false);
        let window_s = self.window_s(plan, stopped);
        let mut point = LoadPoint {
            window_s,
            closed_workers: match &plan.mode {
                Mode::Closed(closed) => Some(closed.workers),
                Mode::Open { .. } => None,
            },
            ..LoadPoint::default()
        };
        let whole = Expected::of(plan, self.skip_s, window_s, stopped);
        let mut achieved = 0.0;
        let (mut because, mut sound) = (Vec::new(), true);
        for source in &self.sources {
            let part = source.add_to(&mut point, &whole, self.skip_s);
            achieved += part.share * part.health.achieved_share;
            because.extend(part.said.clone());
            sound &= source.is_sound();
            point.generators.push(part);
        }
        point
            .slowest
            .sort_by(|a, b| b.response_ms.total_cmp(&a.response_ms));
        point.slowest.truncate(plan.slowest);
        point.offered_hz = whole.hz(plan, point.arrivals);
        point.health = health(&point.generators, achieved);
        if achieved < ACHIEVED || !sound {
            point.validity = Validity::Invalid { because };
        } else {
            point.doubts.extend(because);
        }
        point.seconds = self.finished;
        point
    }
}

/// What the whole load was to be within the window.
struct Expected {
    /// Arrivals by schedule, or requests that a loop counts; `None` where the answers decide.
    arrivals: Option<f64>,
    window_s: f64,
}

impl Expected {
    fn of(plan: &LoadPlan, skip_s: f64, window_s: f64, stopped: bool) -> Self {
        let arrivals = match &plan.mode {
            Mode::Open { schedule, .. } => {
                let scheduled = schedule.area(skip_s + window_s) - schedule.area(skip_s);
                (plan.workload.sessions.is_none()).then_some(scheduled)
            }
            // Of those before the window nobody knows how many they were.
            Mode::Closed(closed) if !stopped && skip_s == 0.0 => {
                closed.requests.map(|requests| requests as f64)
            }
            Mode::Closed(_) => None,
        };
        Self { arrivals, window_s }
    }

    /// The rate that was offered.
    fn hz(&self, plan: &LoadPlan, arrivals: u64) -> f64 {
        let scheduled = self
            .arrivals
            .filter(|_| matches!(plan.mode, Mode::Open { .. }));
        if self.window_s > 0.0 {
            scheduled.unwrap_or(arrivals as f64) / self.window_s
        } else {
            0.0
        }
    }

    /// Which part of a share was driven, by arrivals where they are known, else by time.
    fn reached(&self, share: f64, arrivals: f64, seconds: f64) -> f64 {
        let (got, all) = match self.arrivals {
            Some(all) => (arrivals, all * share),
            None => (seconds, self.window_s),
        };
        if all > 0.0 {
            (got / all).clamp(0.0, 1.0)
        } else {
            1.0
        }
    }
}

impl Source {
    /// Adds what it measured to the whole, and tells what it was.
    fn add_to(&self, point: &mut LoadPoint, whole: &Expected, skip_s: f64) -> GeneratorPart {
        let share = self.share.fraction();
        let part = |arrivals, health, said| GeneratorPart {
            name: self.name.clone(),
            share,
            arrivals,
            start_within_ms: self.start_within_ms,
            health,
            said,
        };
        let called = format!("agent {} ({} of the load)", self.name, format_share(share));
        if let Some(why) = self.belief.lost() {
            let said = format!(
                "{called} is not believed: {why}; what it says is left out, and its share is missing"
            );
            return part(0, Health::default(), Some(said));
        }
        let Some(account) = &self.account else {
            let seen = &self.seen;
            point.arrivals = point.arrivals.saturating_add(seen.arrivals);
            point.good = point.good.saturating_add(seen.good);
            point.outcomes.merge(&seen.outcomes);
            point.response.merge(&seen.response);
            let seconds = (self.seconds as f64 - skip_s).max(0.0);
            let reached = whole.reached(share, seen.arrivals as f64, seconds);
            let health = Health {
                achieved_share: reached,
                ..Health::default()
            };
            let said = format!(
                "{called} was lost: {} s of it came, and nothing is known of the rest; what is missing is not the load that was \
                 asked for",
                self.seconds
            );
            return part(seen.arrivals, health, Some(said));
        };
        let own = &account.point;
        add_point(point, own);
        let mut health = own.health.clone();
        let mut said = Vec::new();
        health.achieved_share = health.achieved_share.clamp(0.0, 1.0) * self.driven(account, whole);
        if let Some(because) = &account.because {
            said.push(format!("{called} ended early: {because}"));
        }
        if let Validity::Invalid { because } = &own.validity {
            said.push(format!("{called}: {}", because.join("; ")));
        }
        let said = (!said.is_empty()).then(|| said.join("; "));
        part(own.arrivals, health, said)
    }

    /// Which part of its share it drove. A loop's requests are divided exactly, and who ended with them or with its time has
    /// driven all.
    fn driven(&self, account: &Account, whole: &Expected) -> f64 {
        let own = &account.point;
        match own.closed_workers {
            Some(_) if account.because.is_none() => 1.0,
            Some(_) => whole.reached(self.share.fraction(), own.arrivals as f64, own.window_s),
            None => {
                let driven = own.offered_hz * own.window_s;
                whole.reached(self.share.fraction(), driven, own.window_s)
            }
        }
    }
}

fn add(sum: &mut Second, more: &Second) {
    sum.offered = sum.offered.saturating_add(more.offered);
    sum.good = sum.good.saturating_add(more.good);
    sum.outcomes.merge(&more.outcomes);
}

fn add_point(sum: &mut LoadPoint, more: &LoadPoint) {
    sum.arrivals = sum.arrivals.saturating_add(more.arrivals);
    sum.good = sum.good.saturating_add(more.good);
    sum.outcomes.merge(&more.outcomes);
    sum.response.merge(&more.response);
    sum.service.merge(&more.service);
    sum.failed_response.merge(&more.failed_response);
    sum.connections_opened = sum
        .connections_opened
        .saturating_add(more.connections_opened);
    sum.sent_again = sum.sent_again.saturating_add(more.sent_again);
    sum.bytes_received = sum.bytes_received.saturating_add(more.bytes_received);
    sum.slowest.extend(more.slowest.iter().cloned());
    for example in &more.examples {
        if sum.examples.len() < EXAMPLES && !sum.examples.contains(example) {
            sum.examples.push(example.clone());
        }
    }
    for doubt in &more.doubts {
        if !sum.doubts.contains(doubt) {
            sum.doubts.push(doubt.clone());
        }
    }
    if let Some(sessions) = &more.sessions {
        sum.sessions.get_or_insert_default().merge(sessions);
    }
    if let Some(visits) = more.visits_offered_hz {
        *sum.visits_offered_hz.get_or_insert(0.0) += visits;
    }
}

/// The generators' health as one: sums, and of what cannot be added the worst.
fn health(parts: &[GeneratorPart], achieved_share: f64) -> Health {
    let each = || parts.iter().map(|part| &part.health);
    let most = |of: fn(&Health) -> f64| each().map(of).fold(0.0, f64::max);
    let ceilings: Option<Vec<f64>> = each().map(|health| health.ceiling_hz).collect();
    Health {
        achieved_share,
        send_lag_p50_ms: most(|health| health.send_lag_p50_ms),
        send_lag_p99_ms: most(|health| health.send_lag_p99_ms),
        backlog_max: each()
            .map(|health| health.backlog_max)
            .fold(0, |sum, more| sum.saturating_add(more)),
        cpu_share: each().map(|health| health.cpu_share).sum(),
        ceiling_hz: ceilings.map(|all| all.iter().sum()),
        steal_share: each()
            .filter_map(|health| health.steal_share)
            .reduce(f64::max),
        ..Health::default()
    }
}

#[cfg(test)]
mod tests;
