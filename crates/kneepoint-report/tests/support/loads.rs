//! Loads that were asked for by themselves: one that went well, two hops of which one stalls, one cut short.

use super::load::point;
use kneepoint_model::{LoadPoint, Outcome, Second, Threshold, Validity};
use kneepoint_report::{LoadHop, LoadRun};

fn run(hops: Vec<LoadHop>) -> LoadRun {
    LoadRun {
        tool_version: "0.1.0".into(),
        started_at: "2026-11-20T03:12:44Z".into(),
        interrupted: false,
        hops,
    }
}

fn hop(name: &str, plan: &str, mut point: LoadPoint, stall_at: Option<u64>) -> LoadHop {
    let seconds = point.window_s as u64;
    let each = point.arrivals / seconds.max(1);
    point.seconds = (0..seconds)
        .map(|at| second(at, each, stall_at == Some(at)))
        .collect();
    point.bytes_received = point.arrivals * 4096;
    point.connections_opened = 12;
    LoadHop {
        name: name.into(),
        requests: vec!["GET /".into(), "POST /login (weight 2)".into()],
        plan: plan.into(),
        point,
        ..LoadHop::default()
    }
}

fn second(at: u64, offered: u64, stalls: bool) -> Second {
    let mut second = Second {
        at_s: at as f64,
        offered,
        ..Second::default()
    };
    if stalls {
        second.outcomes.by_outcome.insert(Outcome::Timeout, offered);
        return second;
    }
    let ms = 20.0 + (at % 7) as f64;
    second.good = offered;
    second.outcomes.by_outcome.insert(Outcome::Ok, offered);
    second.p50_ms = Some(ms);
    second.p90_ms = Some(ms * 1.8);
    second.p95_ms = Some(ms * 2.1);
    second.p99_ms = Some(ms * 3.4);
    second.max_ms = Some(ms * 4.0);
    second
}

/// A load that went well.
pub(crate) fn steady() -> LoadRun {
    let plan = "const(60,30s), Poisson arrivals, at most 1000 connections";
    let point = point(1, 60.0, 110.0, 30.0);
    let mut hop = hop("http://127.0.0.1:8080/", plan, point, None);
    for written in ["p95<20ms", "errors<1%"] {
        let threshold: Threshold = written.parse().expect("a threshold");
        let judged = threshold.judge(&hop.point);
        hop.judgements.push((written.into(), judged));
    }
    run(vec![hop])
}

/// Two hops; the second stalls for a second, and the generator was late.
pub(crate) fn two_hops() -> LoadRun {
    let plan = "const(120,20s), evenly spaced arrivals, at most 1000 connections";
    let mut late = point(3, 120.0, 95.0, 20.0);
    late.examples = vec!["GET /: timeout: <nothing came>".into()];
    late.validity = Validity::Invalid {
        because: vec!["the generator was late: give it a core of its own".into()],
    };
    run(vec![
        hop(
            "http://127.0.0.1:8080/",
            plan,
            point(2, 120.0, 140.0, 20.0),
            None,
        ),
        hop("fastcgi unix:/run/php/php8.2-fpm.sock", plan, late, Some(9)),
    ])
}

/// A load of which nothing came back, ended by a person.
pub(crate) fn nothing() -> LoadRun {
    LoadRun {
        interrupted: true,
        ..run(vec![LoadHop::default()])
    }
}

/// A load of half an hour.
pub(crate) fn long() -> LoadRun {
    let plan = "closed loop of 10 connections for 1800 s";
    let mut point = point(4, 30.0, 60.0, 1800.0);
    point.closed_workers = Some(10);
    run(vec![hop("http://127.0.0.1:8080/", plan, point, Some(900))])
}

/// Every load with its name.
pub(crate) fn all() -> Vec<(&'static str, LoadRun)> {
    vec![
        ("load-steady", steady()),
        ("load-two-hops", two_hops()),
        ("load-nothing", nothing()),
        ("load-long", long()),
    ]
}
