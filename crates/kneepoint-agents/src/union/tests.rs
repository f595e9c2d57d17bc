//! Accounts that are put together.

use super::*;
use crate::division::divide;
use kneepoint_load::Target;
use kneepoint_model::{Arrivals, ClosedLoop, Outcome, Workload};
use proptest::prelude::*;

fn plan() -> LoadPlan {
    at("const(100,3)")
}

fn at(schedule: &str) -> LoadPlan {
    let mode = Mode::Open {
        schedule: schedule.parse().expect("a schedule"),
        arrivals: Arrivals::Even,
    };
    let target = Target::http("127.0.0.1:80".parse().expect("an address"), "a");
    LoadPlan::new(target, Workload::single("/"), mode)
}

fn union(agents: usize) -> Union {
    union_of(&plan(), agents)
}

fn union_of(plan: &LoadPlan, agents: usize) -> Union {
    let shares = divide(&vec![1.0; agents]).into_iter().enumerate();
    let named = shares.map(|(agent, share)| (format!("a{agent}"), share, 0.1));
    Union::new(plan, named.collect())
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
            sent_again: 2,
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
        let mut union = union_of(&at("const(1000,3)"), 4);
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
    let point = union.finish(&plan(), false);
    assert!(point.validity.is_valid(), "{:?}", point.validity);
    assert_eq!((point.arrivals, point.response.count()), (300, 300));
    assert_eq!(point.sent_again, 4);
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
    let point = union.finish(&plan(), false);
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
    let point = union.finish(&plan(), false);
    assert!((point.health.achieved_share - (0.5 + 0.5 / 3.0)).abs() < 1e-6);
    let said = point.generators[1].said.as_deref().expect("a reason");
    assert!(said.contains("no sign of the coordinator"), "{said}");
    assert!(!point.validity.is_valid());
}

/// A broker that was away stops all of them: what the schedule had and nobody sent is missing all the same.
#[test]
fn a_load_that_all_ended_early_is_not_what_was_asked_for() {
    let ended = |stopped: bool| {
        let mut union = union(2);
        for agent in 0..2 {
            let because = (!stopped).then_some("no sign of the coordinator");
            let mut early = account(1, &[1000; 50], because);
            early.point.window_s = 1.0;
            early.point.offered_hz = 50.0;
            union.second(agent, report(0, &[1000; 50]));
            union.account(agent, early);
        }
        union.finish(&plan(), stopped)
    };
    let point = ended(false);
    assert!((point.health.achieved_share - 1.0 / 3.0).abs() < 1e-6);
    assert!(!point.validity.is_valid());
    assert!((point.window_s - 3.0).abs() < 1e-9 && (point.offered_hz - 100.0).abs() < 1e-9);
    // Whoever stops a load asks for no more of it.
    let point = ended(true);
    assert!(point.validity.is_valid(), "{:?}", point.validity);
    assert!((point.window_s - 1.0).abs() < 1e-9 && (point.offered_hz - 100.0).abs() < 1e-9);
}

#[test]
fn a_counted_loop_that_all_ended_early_is_not_what_was_asked_for() {
    let mut plan = plan();
    plan.mode = Mode::Closed(ClosedLoop {
        requests: Some(200),
        ..ClosedLoop::new(4, std::time::Duration::from_secs(3600))
    });
    let ended = |requests: usize, because| {
        let mut union = union_of(&plan, 2);
        for agent in 0..2 {
            let mut own = account(0, &vec![1000; requests], because);
            own.point.closed_workers = Some(2);
            union.account(agent, own);
        }
        union.finish(&plan, false)
    };
    assert!(ended(100, None).validity.is_valid());
    let point = ended(50, Some("no sign of the coordinator"));
    assert!((point.health.achieved_share - 0.5).abs() < 1e-6);
    assert!(!point.validity.is_valid());
}

#[test]
fn who_is_not_believed_is_named_and_its_share_is_missing() {
    let mut union = union(2);
    union.account(0, account(0, &[1000; 150], None));
    union.second(1, report(0, &[1000; 50]));
    let mut liar = account(0, &[1000; 150], None);
    liar.point.arrivals = u64::MAX;
    liar.point.bytes_received = u64::MAX;
    union.account(1, liar);
    assert!(union.is_whole(1), "nobody waits for more of it");
    assert_eq!(union.missing(1, u64::MAX), None);
    let why = union.newly_doubted(1).expect("a reason");
    assert!(why.contains("152 at most"), "{why}");
    let mut late = report(1, &[1000; 25]);
    late.record.offered = u64::MAX;
    union.second(1, late);
    let point = union.finish(&plan(), false);
    assert_eq!(point.arrivals, 150);
    assert!((point.health.achieved_share - 0.5).abs() < 1e-6);
    let Validity::Invalid { because } = &point.validity else {
        panic!("it counts");
    };
    assert!(
        because[0].contains("agent a1 (50 % of the load) is not believed"),
        "{because:?}"
    );
}

#[test]
fn what_each_agent_met_is_told_once() {
    let mut union = union(2);
    for agent in 0..2 {
        let mut own = account(0, &[1000; 150], None);
        own.point.examples = vec!["GET /: 500".into()];
        own.point.bytes_received = u64::MAX;
        union.account(agent, own);
    }
    let point = union.finish(&plan(), false);
    assert_eq!(point.examples, ["GET /: 500"]);
    assert_eq!(point.bytes_received, u64::MAX);
}
