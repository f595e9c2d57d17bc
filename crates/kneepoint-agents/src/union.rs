//! Puts the accounts of several generators together: each second's histograms without loss, and one load point at the end.

use crate::messages::{Account, Report};
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
        account.is_none_or(|account| account.point.validity.is_valid())
    }

    /// Whether everything that it measured has come.
    fn is_whole(&self) -> bool {
        self.account
            .as_ref()
            .is_some_and(|account| account.seconds <= self.seconds)
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
        if report.number != source.seconds {
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
        self.sources[agent].account = Some(account);
    }

    /// Whether all that an agent measured is there.
    pub(crate) fn is_whole(&self, agent: usize) -> bool {
        self.sources[agent].is_whole()
    }

    /// From which second on an agent is to say again what it said, if one is missing: it has handed over so many.
    pub(crate) fn missing(&self, agent: usize, handed: u64) -> Option<u64> {
        let source = &self.sources[agent];
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

    /// One load point of it all.
    pub(crate) fn finish(mut self, plan: &LoadPlan) -> LoadPoint {
        self.complete(|_| false);
        let accounts = || {
            self.sources
                .iter()
                .filter_map(|source| source.account.as_ref())
        };
        let windows = accounts().map(|account| account.point.window_s);
        let window_s = match windows.fold(0.0, f64::max) {
            0.0 => (self.finished.len() as f64 - self.skip_s).max(0.0),
            window_s => window_s,
        };
        let mut point = LoadPoint {
            window_s,
            closed_workers: match &plan.mode {
                Mode::Closed(closed) => Some(closed.workers),
                Mode::Open { .. } => None,
            },
            ..LoadPoint::default()
        };
        let whole = Expected::of(plan, self.skip_s, window_s);
        let mut achieved = 0.0;
        let (mut because, mut sound) = (Vec::new(), true);
        for source in &self.sources {
            let part = source.add_to(&mut point, &whole);
            achieved += part.share * part.health.achieved_share;
            because.extend(part.said.clone());
            sound &= source.is_sound();
            point.generators.push(part);
        }
        point
            .slowest
            .sort_by(|a, b| b.response_ms.total_cmp(&a.response_ms));
        point.slowest.truncate(plan.slowest);
        point.offered_hz = whole.hz(point.arrivals);
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
    /// Arrivals by schedule; `None` where the answers decide.
    arrivals: Option<f64>,
    window_s: f64,
    /// Seconds of the load until the window's end.
    seconds: f64,
}

impl Expected {
    fn of(plan: &LoadPlan, skip_s: f64, window_s: f64) -> Self {
        let arrivals = match &plan.mode {
            Mode::Open { schedule, .. } => {
                Some(schedule.area(skip_s + window_s) - schedule.area(skip_s))
            }
            Mode::Closed(_) => None,
        };
        Self {
            arrivals: arrivals.filter(|_| plan.workload.sessions.is_none()),
            window_s,
            seconds: skip_s + window_s,
        }
    }

    fn hz(&self, arrivals: u64) -> f64 {
        if self.window_s > 0.0 {
            self.arrivals.unwrap_or(arrivals as f64) / self.window_s
        } else {
            0.0
        }
    }

    /// Which part of a share was driven, by arrivals where they are known, else by time.
    fn reached(&self, share: f64, arrivals: f64, seconds: f64) -> f64 {
        let (got, all) = match self.arrivals {
            Some(all) => (arrivals, all * share),
            None => (seconds, self.seconds),
        };
        if all > 0.0 { (got / all).min(1.0) } else { 1.0 }
    }
}

impl Source {
    /// Adds what it measured to the whole, and tells what it was.
    fn add_to(&self, point: &mut LoadPoint, whole: &Expected) -> GeneratorPart {
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
        let Some(account) = &self.account else {
            let seen = &self.seen;
            point.arrivals += seen.arrivals;
            point.good += seen.good;
            point.outcomes.merge(&seen.outcomes);
            point.response.merge(&seen.response);
            let reached = whole.reached(share, seen.arrivals as f64, self.seconds as f64);
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
        if let Some(because) = &account.because {
            let driven = own.offered_hz * own.window_s;
            health.achieved_share *= whole.reached(share, driven, own.window_s);
            said.push(format!("{called} ended early: {because}"));
        }
        if let Validity::Invalid { because } = &own.validity {
            said.push(format!("{called}: {}", because.join("; ")));
        }
        let said = (!said.is_empty()).then(|| said.join("; "));
        part(own.arrivals, health, said)
    }
}

fn add(sum: &mut Second, more: &Second) {
    sum.offered += more.offered;
    sum.good += more.good;
    sum.outcomes.merge(&more.outcomes);
}

fn add_point(sum: &mut LoadPoint, more: &LoadPoint) {
    sum.arrivals += more.arrivals;
    sum.good += more.good;
    sum.outcomes.merge(&more.outcomes);
    sum.response.merge(&more.response);
    sum.service.merge(&more.service);
    sum.failed_response.merge(&more.failed_response);
    sum.connections_opened += more.connections_opened;
    sum.bytes_received += more.bytes_received;
    sum.slowest.extend(more.slowest.iter().cloned());
    let room = EXAMPLES.saturating_sub(sum.examples.len());
    sum.examples
        .extend(more.examples.iter().take(room).cloned());
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
        backlog_max: each().map(|health| health.backlog_max).sum(),
        cpu_share: each().map(|health| health.cpu_share).sum(),
        ceiling_hz: ceilings.map(|all| all.iter().sum()),
        steal_share: each()
            .filter_map(|health| health.steal_share)
            .reduce(f64::max),
        ..Health::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::division::divide;
    use kneepoint_load::Target;
    use kneepoint_model::{Arrivals, Outcome, Workload};
    use proptest::prelude::*;

    fn plan() -> LoadPlan {
        let mode = Mode::Open {
            schedule: "const(100,3)".parse().expect("a schedule"),
            arrivals: Arrivals::Even,
        };
        let target = Target::http("127.0.0.1:80".parse().expect("an address"), "a");
        LoadPlan::new(target, Workload::single("/"), mode)
    }

    fn union(agents: usize) -> Union {
        let shares = divide(&vec![1.0; agents]).into_iter().enumerate();
        let named = shares.map(|(agent, share)| (format!("a{agent}"), share, 0.1));
        Union::new(&plan(), named.collect())
    }

    /// A second in which these response times were met.
    fn report(number: u64, times: &[u64]) -> Report {
        let mut response = LatencyHistogram::default();
        times.iter().for_each(|us| response.record_us(*us));
        let mut record = Second {
            at_s: number as f64,
            offered: times.len() as u64,
            good: times.len() as u64,
            ..Second::default()
        };
        record
            .outcomes
            .by_outcome
            .insert(Outcome::Ok, times.len() as u64);
        Report {
            number,
            record,
            response: Some(Box::new(response)),
        }
    }

    fn account(seconds: u64, times: &[u64], because: Option<&str>) -> Account {
        let own = report(0, times);
        Account {
            point: LoadPoint {
                arrivals: times.len() as u64,
                offered_hz: times.len() as f64 / 3.0,
                window_s: 3.0,
                response: *own.response.expect("times"),
                outcomes: own.record.outcomes,
                health: Health {
                    achieved_share: 1.0,
                    ..Health::default()
                },
                ..LoadPoint::default()
            },
            seconds,
            began_ns: 0,
            because: because.map(str::to_owned),
        }
    }

    proptest! {
        /// However the times of a second are dealt out, the merged histogram is the one that holds them all.
        #[test]
        fn merged_is_as_if_one_had_measured_all(
            times in prop::collection::vec((1u64..50_000_000, 0usize..4), 1..300),
        ) {
            let mut union = union(4);
            let mut one = LatencyHistogram::default();
            times.iter().for_each(|(us, _)| one.record_us(*us));
            for agent in 0..4 {
                let own: Vec<u64> = times.iter().filter(|(_, whose)| *whose == agent).map(|(us, _)| *us).collect();
                // As it goes over the wire.
                let text = serde_json::to_vec(&report(0, &own)).expect("is written");
                union.second(agent, serde_json::from_slice(&text).expect("is read"));
            }
            let whole = union.complete(|_| true).remove(0);
            prop_assert_eq!(whole.record.offered, times.len() as u64);
            prop_assert_eq!(whole.record.p99_ms, one.quantile_ms(0.99));
            prop_assert_eq!(whole.response.as_deref(), Some(&one));
        }
    }

    #[test]
    fn a_second_is_whole_when_nobody_who_is_waited_for_owes_it() {
        let mut union = union(2);
        union.second(0, report(0, &[5]));
        union.second(0, report(1, &[5]));
        assert!(union.complete(|_| true).is_empty());
        union.second(1, report(1, &[7]));
        assert!(
            union.complete(|_| true).is_empty(),
            "its first second is missing"
        );
        assert_eq!(union.missing(1, 2), Some(0));
        union.second(1, report(0, &[7]));
        union.second(1, report(0, &[7]));
        let whole = union.complete(|_| true);
        assert_eq!(whole.len(), 1);
        assert_eq!(whole[0].record.offered, 2, "a second counts once");
        // Nobody waits for the other one; what it says later still counts.
        assert_eq!(union.complete(|agent| agent == 0).len(), 1);
        union.second(1, report(1, &[9, 9]));
        assert_eq!(union.finished[1].offered, 3);
    }

    #[test]
    fn a_load_of_sound_agents_is_the_sum_of_them() {
        let mut union = union(2);
        for agent in 0..2 {
            (0..3).for_each(|number| union.second(agent, report(number, &[1000; 50])));
            union.account(agent, account(3, &[1000; 150], None));
            assert!(union.is_whole(agent));
        }
        let point = union.finish(&plan());
        assert!(point.validity.is_valid(), "{:?}", point.validity);
        assert_eq!((point.arrivals, point.response.count()), (300, 300));
        assert!((point.offered_hz - 100.0).abs() < 1e-9);
        assert!((point.health.achieved_share - 1.0).abs() < 1e-9);
        assert_eq!(point.seconds.len(), 3);
    }

    #[test]
    fn a_lost_share_is_named_and_the_load_is_not_what_was_asked_for() {
        let mut union = union(4);
        for agent in 0..3 {
            (0..3).for_each(|number| union.second(agent, report(number, &[1000; 25])));
            union.account(agent, account(3, &[1000; 75], None));
        }
        union.second(3, report(0, &[1000; 25]));
        let point = union.finish(&plan());
        // A quarter of the load was driven for a third of the time.
        assert!((point.health.achieved_share - (0.75 + 0.25 / 3.0)).abs() < 1e-6);
        let Validity::Invalid { because } = &point.validity else {
            panic!("it counts");
        };
        assert!(
            because[0].contains("agent a3 (25 % of the load) was lost: 1 s"),
            "{because:?}"
        );
        assert_eq!(point.arrivals, 250);
    }

    #[test]
    fn an_agent_that_ended_early_is_named_with_its_reason() {
        let mut union = union(2);
        union.account(0, account(3, &[1000; 150], None));
        let mut early = account(1, &[1000; 50], Some("no sign of the coordinator"));
        early.point.window_s = 1.0;
        early.point.offered_hz = 50.0;
        union.account(1, early);
        let point = union.finish(&plan());
        assert!((point.health.achieved_share - (0.5 + 0.5 / 3.0)).abs() < 1e-6);
        let said = point.generators[1].said.as_deref().expect("a reason");
        assert!(said.contains("no sign of the coordinator"), "{said}");
        assert!(!point.validity.is_valid());
    }
}
