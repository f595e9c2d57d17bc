//! Worlds whose truth is known.

use super::*;

const SEEDS: std::ops::Range<u64> = 0..12;

fn plan(world: World, agents: usize) -> Plan {
    Plan {
        world,
        timings: Timings::ours(),
        costs: Costs {
            broker_s: 0.0,
            fan_out_s: 0.0,
            connect_s: 0.0,
            message_s: 0.0,
            merge_s: 0.0,
            done_s: 0.0,
            second_bytes: 5000.0,
            done_bytes: 0.0,
            beat_bytes: 0.0,
        },
        agents,
        load_s: 10,
        killed: 0.0,
        outage_s: None,
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

#[test]
fn in_an_ideal_world_all_begin_together_and_nothing_is_lost() {
    for seed in SEEDS {
        let outcome = simulate(&plan(World::ideal(), 20), seed);
        assert_eq!(outcome.skew_s.len(), 20);
        assert!(largest(&outcome.skew_s) < 1e-6, "{:?}", outcome.skew_s);
        assert_eq!((outcome.sent, outcome.merged), (20 * 10, 20 * 10));
        let wrong = (
            outcome.false_late,
            outcome.false_gone,
            outcome.stopped,
            outcome.again,
        );
        assert_eq!(wrong, (0, 0, 0, 0));
        assert_eq!((outcome.stop_s.len(), outcome.done_s.len()), (20, 20));
        // A second takes two ways; the last one of the load arrives after its end.
        assert!(
            largest(&outcome.merged_s) < 0.002_1,
            "{:?}",
            outcome.merged_s
        );
        assert!(
            (outcome.bytes_hz - 20.0 * 9.0 / 10.0 * 5000.0).abs() < 1.0,
            "{}",
            outcome.bytes_hz
        );
    }
}

/// An offset is taken for the middle of the round trip, so it is wrong by half of what the ways differ.
#[test]
fn without_jitter_the_skew_is_half_the_difference_of_the_ways() {
    let world = World {
        delay_s: (0.01, 0.010_001),
        asymmetry: 0.5,
        offset_s: 3.0,
        ..World::ideal()
    };
    for seed in SEEDS {
        let host = world.host(&mut Dice::new(seed));
        let expected = (host.down_s - host.up_s).abs() / 2.0;
        let outcome = simulate(&plan(world, 1), seed);
        assert!(
            (outcome.skew_s[0] - expected).abs() < 1e-6,
            "{} is not {expected}",
            outcome.skew_s[0]
        );
    }
}

/// Whatever the ways are, and however long each message takes.
#[test]
fn without_drift_no_agent_is_further_off_than_is_told() {
    let world = World {
        delay_s: (0.001, 0.1),
        asymmetry: 0.95,
        jitter: 0.3,
        offset_s: 3.0,
        ..World::ideal()
    };
    for seed in SEEDS {
        let outcome = simulate(&plan(world, 50), seed);
        let skew_s = largest(&outcome.skew_s);
        assert!(skew_s <= outcome.bound_s, "{skew_s} > {}", outcome.bound_s);
        assert!(skew_s > outcome.bound_s / 10.0, "the bound says something");
    }
}

/// A clock that runs fast by a share is early by that share of the time since it was looked at.
#[test]
fn a_drift_counts_from_the_look_at_the_clock_to_the_start() {
    let world = World {
        drift: 100e-6,
        ..World::ideal()
    };
    let outcome = simulate(&plan(world, 200), 1);
    let timings = Timings::ours();
    let looks_s = timings.ping_every_s(200) * f64::from(timings.pings);
    let (least_s, lead_s) = (0.5 + plan(world, 200).lead_s(), 200.0 * timings.spread_s);
    let squares: f64 = outcome.skew_s.iter().map(|skew| skew * skew).sum();
    let sd = (squares / 200.0).sqrt();
    // All ways are equal, so rounding decides which look counts. 15 % are two standard errors and a half of 200 clocks.
    let bounds =
        0.85 * (least_s + lead_s) * world.drift..1.15 * (looks_s + least_s + lead_s) * world.drift;
    assert!(bounds.contains(&sd), "{sd} is not within {bounds:?}");
}

#[test]
fn a_death_is_noticed_within_its_bounds() {
    for seed in SEEDS {
        let outcome = simulate(
            &Plan {
                killed: 0.5,
                ..plan(World::ideal(), 40)
            },
            seed,
        );
        let timings = Timings::ours();
        let within = |found: &[f64], silence_s: f64| {
            let (ways_s, look_s) = (0.002_1, timings.look_every_s);
            let bounds = silence_s - timings.beat_every_s..=silence_s + look_s + ways_s;
            assert_eq!(found.len(), 20);
            assert!(found.iter().all(|s| bounds.contains(s)), "{found:?}");
        };
        within(&outcome.late_s, timings.late_s);
        within(&outcome.gone_s, timings.gone_s);
        assert_eq!((outcome.false_late, outcome.false_gone), (0, 0));
        assert_eq!(outcome.merged, outcome.sent);
    }
}

#[test]
fn the_busy_are_not_taken_for_dead_unless_they_stand_still_for_too_long() {
    let busy = |stall_s| World {
        busy_share: 1.0,
        stall_every_s: 2.0,
        stall_s,
        ..World::ideal()
    };
    // To be late would take a stall of twenty times the mean.
    assert_eq!(simulate(&plan(busy(0.05), 50), 1).false_late, 0);
    let stalled = simulate(&plan(busy(1.0), 50), 1);
    assert!(stalled.false_late > 10, "{}", stalled.false_late);
    assert!(
        stalled.false_gone < stalled.false_late / 4,
        "{}",
        stalled.false_gone
    );
    assert_eq!(
        stalled.merged, stalled.sent,
        "what they had to say is heard all the same"
    );
}

#[test]
fn a_broker_that_is_soon_back_costs_nothing_and_one_that_is_not_stops_the_load() {
    let world = World {
        delay_s: (0.05, 0.05),
        ..World::ideal()
    };
    let with = |outage_s| Plan {
        outage_s: Some(outage_s),
        ..plan(world, 10)
    };
    let mut again = 0;
    for seed in 0..50 {
        let (short, long) = (simulate(&with(0.1), seed), simulate(&with(5.0), seed));
        assert_eq!((short.stopped, short.merged), (0, 10 * 10));
        assert_eq!(long.stopped, 10);
        assert_eq!(
            long.merged, long.sent,
            "what was measured before the stop is not lost"
        );
        assert!(long.sent < short.sent);
        again += short.again;
    }
    assert!(
        again > 0,
        "some seconds were under way when the broker ended"
    );
}

/// What a coordinator cannot merge in a second waits, and waits longer from second to second.
#[test]
fn a_coordinator_without_time_falls_behind() {
    let mut plan = plan(World::ideal(), 100);
    plan.costs.merge_s = 0.009;
    let fits = simulate(&plan, 1);
    plan.costs.merge_s = 0.011;
    let bends = simulate(&plan, 1);
    // Nine of ten bursts arrive within the load.
    assert!((fits.cpu_share - 0.81).abs() < 0.01, "{}", fits.cpu_share);
    assert!(largest(&fits.merged_s) < 1.0, "{}", largest(&fits.merged_s));
    let behind_s = largest(&bends.merged_s);
    assert!((behind_s - 2.0).abs() < 0.1, "{behind_s}");
    assert!(bends.waiting_bytes > fits.waiting_bytes);
    assert_eq!(bends.merged, 1000);
}

#[test]
fn equal_seeds_are_equal_simulations() {
    let outcome = |seed| format!("{:?}", simulate(&plan(World::usual(), 30), seed));
    assert_eq!(outcome(3), outcome(3));
    assert_ne!(outcome(3), outcome(4));
}
