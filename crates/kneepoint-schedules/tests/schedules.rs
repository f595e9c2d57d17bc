//! Schedules in every open syntax against the closed form: arrival *k* comes where the integral of the rates that are
//! written reaches *k*, or *k + 1* for tools that wait an interval first.
//!
//! The integral is inverted here by bisection, with none of the code under test.

use kneepoint_model::{FirstArrival, Schedule};
use kneepoint_schedules::{ImportedLoad, parse};
use proptest::prelude::*;

/// A text, and what its tool would do with it.
#[derive(Debug, Clone)]
struct Written {
    text: String,
    /// Rate at the beginning and at the end per second, and length in seconds.
    pieces: Vec<(f64, f64, f64)>,
    /// Integral of the rate at the first arrival: 0 or 1.
    first: u64,
}

impl Written {
    fn new(text: String, pieces: Vec<(f64, f64, f64)>, first: u64) -> Self {
        Self {
            text,
            pieces,
            first,
        }
    }

    fn length_s(&self) -> f64 {
        self.pieces.iter().map(|piece| piece.2).sum()
    }

    /// The integral from the start to `t`: trapezoids.
    fn area(&self, t: f64) -> f64 {
        let mut left = t;
        let mut area = 0.0;
        for (from, to, length) in &self.pieces {
            let inside = left.clamp(0.0, *length);
            let share = if *length > 0.0 { inside / length } else { 0.0 };
            area += inside * (from + (from + (to - from) * share)) / 2.0;
            left -= inside;
        }
        area
    }

    fn arrivals(&self) -> u64 {
        (self.area(self.length_s()) + 1e-7).floor() as u64
    }

    /// When arrival `k` comes: at the latest time where the integral is not above `k`, or at the earliest where it is
    /// `k + 1`.
    fn time_of(&self, k: u64) -> f64 {
        let before = |t: f64| match self.first {
            0 => self.area(t) <= k as f64 + 1e-9,
            _ => self.area(t) < (k + 1) as f64 - 1e-9,
        };
        let (mut low, mut high) = (0.0, self.length_s());
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if before(middle) {
                low = middle
            } else {
                high = middle
            }
        }
        (low + high) / 2.0
    }
}

/// A whole or half rate.
fn rate() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        (0u32..300).prop_map(|halves| f64::from(halves) / 2.0)
    ]
}

fn length() -> impl Strategy<Value = u32> {
    1u32..15
}

/// (from, to, seconds) of some pieces.
fn ramps() -> impl Strategy<Value = Vec<(f64, f64, u32)>> {
    prop::collection::vec((rate(), rate(), length()), 1..5)
}

fn spread(ramps: &[(f64, f64, u32)]) -> Vec<(f64, f64, f64)> {
    ramps
        .iter()
        .map(|(from, to, length)| (*from, *to, f64::from(*length)))
        .collect()
}

fn joined(parts: impl Iterator<Item = String>, between: &str) -> String {
    parts.collect::<Vec<_>>().join(between)
}

fn tank() -> impl Strategy<Value = Written> {
    (ramps(), rate(), rate(), 1u32..40, length()).prop_map(
        |(ramps, from, to, increment, length)| {
            let lines = ramps.iter().map(|(from, to, length)| {
                if from == to {
                    format!("const({from},{length})")
                } else {
                    format!("line({from}, {to}, {length}s)")
                }
            });
            let text = joined(lines, " ") + &format!("step({from},{to},{increment},{length}s)");
            let mut pieces = spread(&ramps);
            let (increment, seconds) = (f64::from(increment), f64::from(length));
            let mut level = from;
            while (to - level).abs() >= increment {
                pieces.push((level, level, seconds));
                level += increment.copysign(to - from);
            }
            // The last full step may be the end itself; else the end comes after it.
            if level == to {
                pieces.push((to, to, seconds));
            } else {
                pieces.push((level, level, seconds));
                pieces.push((to, to, seconds));
            }
            Written::new(text, pieces, 0)
        },
    )
}

/// Stages from one target to the next; a length of 0 is a jump.
fn stages() -> impl Strategy<Value = Vec<(f64, u32)>> {
    prop::collection::vec((rate(), prop_oneof![4 => length(), 1 => Just(0)]), 1..6)
        .prop_filter("it must last", |stages| {
            stages.iter().any(|stage| stage.1 > 0)
        })
}

fn staged(start: f64, stages: &[(f64, u32)]) -> Vec<(f64, f64, f64)> {
    let mut from = start;
    let mut pieces = Vec::new();
    for (target, length) in stages {
        pieces.push((from, *target, f64::from(*length)));
        from = *target;
    }
    pieces
}

fn k6_stages() -> impl Strategy<Value = Written> {
    (stages(), rate(), any::<bool>()).prop_map(|(stages, start, object)| {
        if !object {
            let text = joined(
                stages
                    .iter()
                    .map(|(target, length)| format!("{length}s:{target}")),
                ",",
            );
            return Written::new(text, staged(0.0, &stages), 1);
        }
        let listed = stages.iter().map(|(target, length)| {
            format!(
                "{{\"duration\": \"{}ms\", \"target\": {}}}",
                length * 1000,
                target * 60.0
            )
        });
        let text = format!(
            "{{\"startRate\": {}, \"timeUnit\": \"1m\", \"stages\": [{}]}}",
            start * 60.0,
            joined(listed, ", ")
        );
        Written::new(text, staged(start, &stages), 1)
    })
}

/// Tools with one constant rate.
fn constants() -> impl Strategy<Value = Written> {
    (1u32..200, length(), 0usize..5).prop_map(|(rate, length, tool)| {
        let (hz, seconds) = (f64::from(rate), f64::from(length));
        let (text, hz, first) = match tool {
            0 => (format!("wrk2 -t2 -c5 -R{rate} -d{length}s http://h/"), hz, 0),
            1 => (format!("vegeta attack -rate {rate}/1s -duration {length}s"), hz, 1),
            2 => (format!("vegeta attack -rate={rate}/4s -duration={length}s"), hz / 4.0, 1),
            3 => (format!("oha -q {rate} -z {length}s http://h/"), hz, 0),
            _ => (
                format!("{{executor: 'constant-arrival-rate', rate: {rate}, timeUnit: '5s', duration: '{length}s'}}"),
                hz / 5.0,
                0,
            ),
        };
        Written::new(text, vec![(hz, hz, seconds)], first)
    })
}

fn oha_by_number() -> impl Strategy<Value = Written> {
    (1u32..500, 1u32..100).prop_map(|(requests, rate)| {
        let (hz, seconds) = (f64::from(rate), f64::from(requests) / f64::from(rate));
        let text = format!("oha -n {requests} -q {rate} http://h/");
        Written::new(text, vec![(hz, hz, seconds)], 0)
    })
}

fn jmeter_open() -> impl Strategy<Value = Written> {
    (ramps(), length(), any::<bool>(), any::<bool>()).prop_map(|(ramps, pause, even, stays)| {
        let word = if even {
            "even_arrivals"
        } else {
            "random_arrivals"
        };
        let steps = ramps.iter().map(|(from, to, length)| {
            format!(
                "rate({}/min) {word}({length} sec) rate({to} per sec)",
                from * 60.0
            )
        });
        let mut text = joined(steps, " /* on */ ") + &format!(" pause({pause} s)");
        let mut pieces = spread(&ramps);
        pieces.push((0.0, 0.0, f64::from(pause)));
        if stays {
            // The rate before the pause goes on after it.
            text += &format!(" {word}(3 sec)");
            let rate = ramps[ramps.len() - 1].1;
            pieces.push((rate, rate, 3.0));
        }
        Written::new(text, pieces, 0)
    })
}

fn written() -> impl Strategy<Value = Written> {
    prop_oneof![
        tank(),
        k6_stages(),
        constants(),
        oha_by_number(),
        jmeter_open()
    ]
}

fn schedule_of(text: &str) -> (Schedule, FirstArrival) {
    let profile = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let printed = profile.to_string();
    assert_eq!(parse(&printed).as_ref(), Ok(&profile), "{printed}");
    match profile.load {
        ImportedLoad::Open {
            schedule, first, ..
        } => (schedule, first),
        ImportedLoad::Closed(_) => panic!("{text}: it has a rate, so it is an open loop"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn arrivals_come_where_the_written_rates_say(written in written()) {
        let (schedule, first) = schedule_of(&written.text);
        let arrivals = written.arrivals();
        prop_assert_eq!(schedule.total_arrivals(), arrivals, "{}", written.text);
        prop_assert!((schedule.duration().as_secs_f64() - written.length_s()).abs() < 1e-6);
        let checked = (0..arrivals).step_by(arrivals as usize / 100 + 1).chain(arrivals.checked_sub(1));
        for k in checked {
            let at = schedule.arrival_time_from(first, k).expect("within").as_secs_f64();
            let expected = written.time_of(k);
            // Where the rate falls to zero, the smallest error of the integral is a long time.
            prop_assert!(
                (at - expected).abs() < 5e-4,
                "{}: arrival {k} at {at} s, not at {expected} s", written.text
            );
        }
        prop_assert_eq!(schedule.arrival_time_from(first, arrivals), None);
    }
}
