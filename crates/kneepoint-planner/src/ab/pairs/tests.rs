use super::*;
use kneepoint_model::{Second, Validity};

/// A step that served so much a second, at so many ms of CPU a request.
fn point(served: u64, cpu_ms: f64, (foreign, idle): (f64, f64)) -> LoadPoint {
    let mut second = Second::default();
    second.outcomes.by_outcome.insert(Outcome::Ok, served);
    let mut point = LoadPoint {
        window_s: 1.0,
        arrivals: served,
        outcomes: second.outcomes.clone(),
        seconds: vec![second],
        cpu_ms: Some(cpu_ms),
        ..LoadPoint::default()
    };
    point.health.foreign_share = Some(foreign);
    point.health.idle_share = Some(idle);
    point
}

/// What the steps of a comparison do: A, B, and what a request costs each of them at once.
struct World {
    served: [u64; 2],
    cost_ms: [f64; 2],
    foreign: [f64; 2],
    idle: [f64; 2],
}

const EQUAL: World = World {
    served: [1000, 1000],
    cost_ms: [2.0, 2.0],
    foreign: [0.0, 0.0],
    idle: [0.02, 0.02],
};

/// So many steps of a comparison; which they were.
fn played(world: &World, steps: usize) -> (Pairs, String) {
    let mut pairs = Pairs::new(7, true);
    let mut told = String::new();
    for _ in 0..steps {
        let of = |side: Side| {
            let at = side as usize;
            point(
                world.served[at],
                world.cost_ms[at],
                (world.foreign[at], world.idle[at]),
            )
        };
        match pairs.next() {
            Turns::Alone(side) => {
                let point = of(side);
                pairs.record_alone(side, served(&point), &point);
                told.push(if side == Side::A { 'a' } else { 'b' });
            }
            Turns::Both(_) => {
                pairs.record_both(&of(Side::A), &of(Side::B));
                told.push('2');
            }
        }
    }
    told = told.replace("ba", "ab");
    (pairs, told)
}

#[test]
fn where_the_cpu_binds_three_steps_of_both_follow_each_pair_alone() {
    assert_eq!(played(&EQUAL, 10).1, "ab222ab222");
}

#[test]
fn where_it_does_not_bind_or_the_arms_are_very_unlike_each_is_measured_alone() {
    let idle = World {
        idle: [0.02, 0.4],
        ..EQUAL
    };
    assert_eq!(played(&idle, 6).1, "ababab");
    let unlike = World {
        served: [100, 900],
        ..EQUAL
    };
    assert_eq!(played(&unlike, 6).1, "ababab");
}

#[test]
fn who_comes_first_in_a_pair_loses_nothing_by_it() {
    for seed in 0..200 {
        let mut pairs = Pairs::new(seed, false);
        let firsts = (0..8).filter(|_| {
            let Turns::Alone(first) = pairs.next() else {
                return false;
            };
            for side in [Side::A, Side::B] {
                let point = point(100, 1.0, (0.0, 0.5));
                pairs.record_alone(side, served(&point), &point);
            }
            first == Side::A
        });
        assert_eq!(firsts.count(), 4, "of eight pairs, seed {seed}");
    }
}

#[test]
fn capacity_follows_from_cost_and_from_how_much_of_the_cpu_an_arm_can_use() {
    let ratio = |world: &World| played(world, 12).0.effect().mean().exp();
    let cheaper = World {
        served: [1000, 1100],
        cost_ms: [2.2, 2.0],
        ..EQUAL
    };
    assert!((ratio(&cheaper) - 1.1).abs() < 0.01, "{}", ratio(&cheaper));
    // B costs a tenth less and leaves a tenth of the machine idle: it serves no more.
    let held_up = World {
        served: [1000, 1000],
        cost_ms: [2.2, 2.0],
        idle: [0.02, 0.11],
        ..EQUAL
    };
    assert!((ratio(&held_up) - 1.0).abs() < 0.01, "{}", ratio(&held_up));
}

#[test]
fn how_well_idle_time_is_known_is_one_error_of_all_pairs_of_cost() {
    let error = |idle_of_b: [f64; 2]| {
        let mut pairs = Pairs::new(7, true);
        for _ in 0..20 {
            match pairs.next() {
                Turns::Alone(side) => {
                    let idle = match side {
                        Side::A => 0.02,
                        Side::B => idle_of_b[pairs.alone_count() % 2],
                    };
                    let point = point(1000, 2.0, (0.0, idle));
                    pairs.record_alone(side, served(&point), &point);
                }
                Turns::Both(_) => {
                    let cost_ms = [2.0, 2.02][pairs.begun() % 2];
                    let (a, b) = (
                        point(1000, cost_ms, (0.0, 0.02)),
                        point(1000, 2.0, (0.0, 0.02)),
                    );
                    pairs.record_both(&a, &b);
                }
            }
        }
        let [cost, _] = pairs.kinds();
        (cost.count(), cost.standard_error())
    };
    // Twelve pairs of cost that agree within 1 %. Of the four looks at what was idle, two do not.
    let (steady, scattered) = (error([0.02, 0.02]), error([0.02, 0.12]));
    assert_eq!((steady.0, scattered.0), (12, 12));
    assert!(steady.1 < 0.01, "{steady:?}");
    assert!(scattered.1 > 0.02, "{scattered:?}");
}

#[test]
fn what_others_used_is_no_effect_of_the_change() {
    let beside = World {
        served: [1000, 700],
        foreign: [0.0, 0.3],
        ..EQUAL
    };
    let (pairs, _) = played(&beside, 12);
    assert!(pairs.effect().mean().abs() < 0.01, "{:?}", pairs.effect());
    assert_eq!(pairs.void(), 0, "and no step is left out for it");
    // Where the CPU does not bind, they took nothing from it.
    let waiting = World {
        served: [1000, 1000],
        idle: [0.6, 0.3],
        ..beside
    };
    assert!(played(&waiting, 12).0.effect().mean().abs() < 0.01);
}

#[test]
fn a_step_that_the_generator_could_not_drive_voids_its_pair() {
    let mut pairs = Pairs::new(7, true);
    let invalid = LoadPoint {
        validity: Validity::Invalid {
            because: vec!["lag".into()],
        },
        ..LoadPoint::default()
    };
    let valid = point(100, 1.0, (0.0, 0.0));
    pairs.record_alone(Side::A, served(&valid), &valid);
    pairs.record_alone(Side::B, served(&invalid), &invalid);
    assert_eq!((pairs.count(), pairs.void()), (0, 1));
}

#[test]
fn steps_of_both_that_tell_no_cost_end_after_three_in_a_row() {
    let mut pairs = Pairs::new(7, true);
    let mut told = String::new();
    let known = point(1000, 2.0, (0.0, 0.02));
    let unknown = LoadPoint {
        cpu_ms: None,
        ..known.clone()
    };
    for _ in 0..15 {
        match pairs.next() {
            Turns::Alone(side) => {
                pairs.record_alone(side, served(&known), &known);
                told.push('1');
            }
            Turns::Both(_) => {
                // The first tells it, so that the two after it are no row of three.
                let first = told == "11";
                let point = if first { &known } else { &unknown };
                pairs.record_both(point, point);
                told.push('2');
            }
        }
        let is_said = !pairs.cost_given_up().is_empty();
        assert_eq!(is_said, told.matches('2').count() == 4, "{told}");
    }
    assert_eq!(told, "112221121111111");
    assert_eq!((pairs.void(), pairs.count()), (3, 6));
}

#[test]
fn steps_in_which_next_to_nothing_was_served_are_no_pair() {
    let mut pairs = Pairs::new(7, true);
    let mut take = |a: u64, b: u64| {
        for (side, count) in [(Side::A, a), (Side::B, b)] {
            let point = point(count, 1.0, (0.0, 0.5));
            pairs.record_alone(side, served(&point), &point);
        }
        (pairs.count(), pairs.void(), pairs.tell_the_least())
    };
    assert_eq!(take(0, 7), (0, 1, false));
    assert_eq!(take(0, 100), (1, 1, true));
}

#[test]
fn each_measure_is_told_by_itself() {
    let told = played(&EQUAL, 13).0.measures("throughput");
    let told: Vec<_> = told
        .iter()
        .map(|it| (it.quantity.as_str(), it.pairs))
        .collect();
    let expected = [("CPU time a request, both at once", 7), ("throughput", 3)];
    assert_eq!(told, expected);
}
