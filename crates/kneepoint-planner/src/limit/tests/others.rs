//! A search beside other programs: what they take of the machine counts where the stack wants it, and nowhere else.

use super::super::*;
use super::budget::go_on;
use crate::simulated::pool::PoolSize;
use crate::simulated::{App, Noise, Others, RequestKind, SimulatedStack, truth};

/// Six workers whose page waits for 80 ms and computes next to nothing: no other program is in its way.
fn waiting() -> App {
    App {
        size: PoolSize {
            workers: 6,
            cores: 2.0,
            backlog: 511,
        },
        kinds: vec![RequestKind {
            weight: 1.0,
            cpu_s: 0.0002,
            wait_s: 0.08,
            pieces: 12,
        }],
        requests_a_visit: None,
    }
}

fn check(app: &App, noise: Noise, wall_s: u64, (most_off, covering): (f64, usize)) {
    let slo = Slo {
        response_time: Duration::from_millis(250),
        ..Slo::default()
    };
    let known_hz = truth(app, &slo, noise, 120, 1).limit_hz;
    let found: Vec<LimitResult> = (0..8)
        .map(|seed| {
            let mut stack = SimulatedStack::new(app.clone(), slo.clone(), noise, seed);
            let workers = stack.saturating_workers();
            let options = LimitOptions {
                seed: seed * 1000,
                ..LimitOptions::by(Duration::from_secs(wall_s), workers)
            };
            let mut search = LimitSearch::new(slo.clone(), options);
            go_on(&mut search, &mut stack);
            search.result("base")
        })
        .collect();
    for found in &found {
        let off = (found.rate_hz.estimate / known_hz - 1.0).abs();
        assert!(off < most_off, "{off} of {known_hz}: {found:?}");
    }
    let covers = found.iter().filter(|it| it.rate_hz.contains(known_hz));
    let covers = covers.count();
    assert!(covers >= covering, "{covers} of {}", found.len());
}

#[test]
fn a_page_that_waits_has_the_same_limit_beside_a_compiler() {
    let beside_a_compiler = Noise {
        others: Others::COMPILER,
        ..Noise::medium()
    };
    check(&waiting(), beside_a_compiler, 40, (0.25, 5));
    check(&waiting(), beside_a_compiler, 180, (0.08, 6));
}
