//! What of an agent's account can be true: nobody sends more arrivals than its share of the load has.

use crate::messages::{Account, Report};
use kneepoint_load::{LoadPlan, Mode, Share};
use kneepoint_model::{Arrivals, OutcomeCounts};

/// Most requests of one agent where the answers decide how many they are.
const MOST: u64 = 1_000_000_000_000;
/// Arrivals that an even share may be off by, where a schedule ends between two.
const ROUNDING: u64 = 2;
/// Seconds by which an account may be longer than its load.
const LONGER_S: u64 = 60;

/// Whether an agent is believed.
#[derive(Debug)]
pub(super) struct Belief {
    /// Most arrivals that its share has, and seconds of the load.
    most: u64,
    most_seconds: u64,
    /// Arrivals of its seconds so far, and requests of them that have ended.
    arrivals: u64,
    ended: u64,
    lost: Option<String>,
    told: bool,
}

impl Belief {
    pub(super) fn of(plan: &LoadPlan, share: &Share) -> Self {
        let most = match &plan.mode {
            Mode::Open { .. } if plan.workload.sessions.is_some() => MOST,
            Mode::Open { schedule, arrivals } => match arrivals {
                Arrivals::Even => share.count_below(schedule.total_arrivals()) + ROUNDING,
                Arrivals::Poisson { .. } => {
                    // Eight standard errors: chance does not reach that far.
                    let mean = schedule.total_area() * share.fraction();
                    (mean + 8.0 * mean.sqrt()) as u64 + 20
                }
            },
            Mode::Closed(closed) => closed.requests.map_or(MOST, |all| share.count_below(all)),
        };
        let lasts = plan.mode.duration() + plan.slo.timeout;
        Self {
            most,
            most_seconds: lasts.as_secs() + LONGER_S,
            arrivals: 0,
            ended: 0,
            lost: None,
            told: false,
        }
    }

    pub(super) fn is_kept(&self) -> bool {
        self.lost.is_none()
    }

    /// Why it is not believed.
    pub(super) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// The same, the first time that somebody asks.
    pub(super) fn newly_lost(&mut self) -> Option<String> {
        let why = self.lost.clone().filter(|_| !self.told);
        self.told |= why.is_some();
        why
    }

    /// Takes a second. Tells whether it is believed.
    pub(super) fn second(&mut self, report: &Report) -> bool {
        let record = &report.record;
        self.arrivals = self.arrivals.saturating_add(record.offered);
        self.ended = self.ended.saturating_add(total(&record.outcomes));
        let answered = report.response.as_ref().map_or(0, |times| times.count());
        let counts = [self.arrivals, self.ended, record.good, answered];
        self.judge(&counts, report.number.saturating_add(1));
        self.is_kept()
    }

    /// Takes the account. Tells whether it is believed.
    pub(super) fn account(&mut self, account: &Account) -> bool {
        let point = &account.point;
        let counts = [
            point.arrivals,
            total(&point.outcomes),
            point.good,
            point.response.count(),
            point.service.count(),
            point.failed_response.count(),
        ];
        self.judge(&counts, account.seconds);
        let visits = point.sessions.iter();
        let visits = visits.flat_map(|it| [it.started, it.completed, it.broken_off]);
        if let Some(count) = visits.max().filter(|count| *count > MOST) {
            self.lose(format!("it speaks of {count} visits"));
        }
        self.is_kept()
    }

    fn judge(&mut self, counts: &[u64], seconds: u64) {
        let most = counts.iter().copied().max().unwrap_or(0);
        if most > self.most {
            let own = self.most;
            self.lose(format!(
                "it speaks of {most} requests, and its share has {own} at most"
            ));
        }
        if seconds > self.most_seconds {
            self.lose(format!(
                "it speaks of {seconds} s, and the load has {} at most",
                self.most_seconds
            ));
        }
    }

    fn lose(&mut self, why: String) {
        self.lost.get_or_insert(why);
    }
}

/// All requests, by outcomes or by statuses, whichever are more; of numbers that may be anything.
fn total(counts: &OutcomeCounts) -> u64 {
    let outcomes = counts.by_outcome.values();
    let statuses = counts.by_status.values();
    let sum = |sum: u64, more: &u64| sum.saturating_add(*more);
    outcomes.fold(0, sum).max(statuses.fold(0, sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_load::Target;
    use kneepoint_model::{ClosedLoop, Outcome, Second, Workload};
    use std::time::Duration;

    /// A quarter of a hundred arrivals a second for three seconds.
    fn belief(arrivals: Arrivals) -> Belief {
        of(Mode::Open {
            schedule: "const(100,3)".parse().expect("a schedule"),
            arrivals,
        })
    }

    fn of(mode: Mode) -> Belief {
        let target = Target::http("127.0.0.1:80".parse().expect("an address"), "a");
        let plan = LoadPlan::new(target, Workload::single("/"), mode);
        Belief::of(&plan, &Share::new(vec![1], 4).expect("a share"))
    }

    fn second(number: u64, offered: u64) -> Report {
        Report {
            number,
            record: Second {
                offered,
                ..Second::default()
            },
            response: None,
        }
    }

    #[test]
    fn more_than_a_share_has_is_not_believed() {
        let mut honest = belief(Arrivals::Even);
        for number in 0..3 {
            assert!(honest.second(&second(number, 25)));
        }
        assert!(!honest.second(&second(3, 25)));
        let why = honest.newly_lost().expect("a reason");
        assert!(
            why.contains("100 requests") && why.contains("77 at most"),
            "{why}"
        );
        assert_eq!(honest.newly_lost(), None, "it is told once");

        assert!(!belief(Arrivals::Even).second(&second(0, u64::MAX)));
        assert!(!belief(Arrivals::Even).second(&second(u64::MAX, 1)));
        assert!(belief(Arrivals::Poisson { seed: 1 }).second(&second(0, 110)));
        assert!(!belief(Arrivals::Poisson { seed: 1 }).second(&second(0, 219)));
    }

    #[test]
    fn an_account_that_cannot_be_true_is_not_believed() {
        let account = || Account {
            point: kneepoint_model::LoadPoint::default(),
            seconds: 3,
            began_ns: 0,
            because: None,
        };
        let lies: [fn(&mut Account); 5] = [
            |it| it.point.arrivals = u64::MAX,
            |it| it.point.good = 78,
            |it| it.seconds = u64::MAX,
            |it| {
                let counts = &mut it.point.outcomes.by_outcome;
                counts.insert(Outcome::Ok, u64::MAX);
                counts.insert(Outcome::Timeout, u64::MAX);
            },
            |it| {
                it.point.outcomes.by_status.insert(200, u64::MAX);
            },
        ];
        assert!(belief(Arrivals::Even).account(&account()));
        for lie in lies {
            let mut account = account();
            lie(&mut account);
            assert!(!belief(Arrivals::Even).account(&account));
        }
        let loops = ClosedLoop {
            requests: Some(8),
            ..ClosedLoop::new(4, Duration::from_secs(1))
        };
        let mut counted = account();
        counted.point.arrivals = 2;
        assert!(of(Mode::Closed(loops.clone())).account(&counted));
        counted.point.arrivals = 3;
        assert!(!of(Mode::Closed(loops)).account(&counted));
    }
}
