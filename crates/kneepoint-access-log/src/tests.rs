//! What a whole log teaches.

use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use kneepoint_model::{ThinkTime, Workload};
use proptest::prelude::*;
use std::io::Write as _;
use std::time::Duration;

const FORMAT: &str = "$remote_addr $msec $request_time \"$request\" $status \"$cookie_sid\"";

/// A line of [`FORMAT`]: one that ended at `end_s` and took `took_s`.
fn line(visitor: u32, end_s: f64, took_s: f64, request: &str, status: u16) -> String {
    let at = 1_795_223_700.0 + end_s;
    format!("10.0.0.{visitor} {at:.3} {took_s:.3} \"{request} HTTP/1.1\" {status} \"-\"\n")
}

fn options() -> LearnOptions {
    LearnOptions {
        format: Some(FORMAT.into()),
        ..LearnOptions::default()
    }
}

#[track_caller]
fn learnt(log: &str) -> Learned {
    learn(log.as_bytes(), &options()).unwrap_or_else(|error| panic!("{error}"))
}

fn mix(workload: &Workload) -> Vec<String> {
    let requests = workload.requests.iter();
    requests
        .map(|r| {
            let expected = r
                .expect
                .status
                .first()
                .map_or(String::new(), |range| format!(" -> {}", range.from));
            format!("{} {}{expected}: {:.0}", r.method.0, r.path, r.weight)
        })
        .collect()
}

#[test]
fn the_mix_is_what_was_asked_for() {
    let mut log = String::new();
    for i in 0..10 {
        let at = f64::from(i);
        log += &line(1, at, 0.01, "GET /", 200);
        log += &line(
            2,
            at + 0.1,
            0.01,
            &format!("GET /post/{}?page=2", i % 2),
            200,
        );
        if i < 3 {
            log += &line(2, at + 0.2, 0.01, "GET /gone", 404);
            log += &line(2, at + 0.3, 0.01, "HEAD /", 304);
            log += &line(2, at + 0.4, 0.01, "POST /login", 302);
        }
    }
    log += "rubbish\n\n";
    log += "10.0.0.1 1795223700.000 0.000 \"\\x16\\x03\" 400 \"-\"\n";
    let learned = learnt(&log);
    assert_eq!(
        mix(&learned.workload),
        [
            "GET /: 10",
            "GET /post/0?page=2: 5",
            "GET /post/1?page=2: 5",
            "HEAD /: 3",
            "GET /gone -> 404: 3"
        ]
    );
    assert_eq!((learned.lines, learned.bad_lines), (31, 1));
    let example = learned.bad_example.expect("a bad line");
    assert!(
        example.starts_with("line 30, \"rubbish\": it does not have"),
        "{example}"
    );
    assert_eq!(learned.skipped["POST"], 3);
    assert_eq!(learned.skipped.values().sum::<u64>(), 4);
    let post = &learned.folded[1];
    assert_eq!(
        (post.template.as_str(), post.requests),
        ("/post/{n}?page={n}", 10)
    );
    assert_eq!(
        (post.distinct, post.distinct_is_exact, post.paths),
        (2, true, 2)
    );
}

#[test]
fn visits_pauses_and_rates_are_what_was_done() {
    let mut log: Vec<(f64, String)> = Vec::new();
    // Ten visitors come a minute apart, ask four times, and pause two seconds after half a second of work.
    for visitor in 0..10u32 {
        for i in 0..4u32 {
            let end = f64::from(visitor) * 60.0 + f64::from(i) * 2.5 + 0.5;
            log.push((end, line(visitor, end, 0.5, "GET /", 200)));
        }
    }
    log.sort_by(|a, b| a.0.total_cmp(&b.0));
    let log: String = log.into_iter().map(|(_, line)| line).collect();
    let learned = learnt(&log);
    let visiting = learned.visiting.as_ref().expect("addresses are logged");
    assert_eq!((visiting.visits, visiting.visitors), (10, 10));
    assert_eq!(visiting.mean_requests, 4.0);
    assert_eq!(visiting.think_mean, Duration::from_secs(2));
    assert_eq!((visiting.thoughts, visiting.at_once), (30, 0));
    let sessions = learned.workload.sessions.as_ref().expect("sessions");
    assert_eq!(sessions.lengths, [(4, 10.0)]);
    let ThinkTime::Empirical { quantiles } = &sessions.think_time else {
        panic!("{:?}", sessions.think_time)
    };
    assert!(quantiles.iter().all(|q| *q == Duration::from_secs(2)));
    assert_eq!(learned.workload.users, 10);

    // 40 requests within 9 minutes and 8 seconds; the schedule is of visits.
    assert_eq!(learned.span, Duration::from_secs(548));
    assert!((learned.rate_hz - 40.0 / 548.0).abs() < 1e-9);
    assert!((learned.schedule_at(1.0).total_area() - 10.0).abs() < 1e-6);
    assert!((learned.schedule_at(3.0).total_area() - 30.0).abs() < 1e-6);
    assert!((visiting.rate_hz - 10.0 / 548.0).abs() < 1e-9);
}

#[test]
fn a_log_without_visitors_is_a_mix_of_single_requests() {
    let log = "1795223700.000 \"GET / HTTP/1.1\" 200\n1795223701.000 \"GET /a HTTP/1.1\" 200\n";
    let options = LearnOptions {
        format: Some("$msec \"$request\" $status".into()),
        ..LearnOptions::default()
    };
    let learned = learn(log.as_bytes(), &options).expect("in order");
    assert_eq!(
        (&learned.visiting, &learned.workload.sessions),
        (&None, &None)
    );
    assert!(
        learned
            .notes
            .iter()
            .any(|note| note.contains("names no visitors"))
    );
    // Then the schedule is of requests.
    assert!((learned.schedule_at(2.0).total_area() - 4.0).abs() < 1e-6);
}

#[test]
fn of_many_paths_a_bounded_number_is_replayed() {
    let mut log = String::new();
    for i in 0..5000u32 {
        log += &line(1, f64::from(i), 0.0, &format!("GET /post/{i}"), 200);
        log += &line(1, f64::from(i), 0.0, "GET /", 200);
    }
    let learned = learnt(&log);
    assert_eq!(learned.workload.requests.len(), 51);
    let total: f64 = learned.workload.requests.iter().map(|r| r.weight).sum();
    assert!((total - 10_000.0).abs() < 1e-6, "{total}");
    let posts = learned
        .folded
        .iter()
        .find(|route| route.template == "/post/{n}");
    let posts = posts.expect("folded");
    assert_eq!(
        (posts.requests, posts.paths, posts.distinct_is_exact),
        (5000, 50, false)
    );
    assert!(posts.distinct.abs_diff(5000) < 1300, "{}", posts.distinct);
}

#[test]
fn rare_routes_beyond_the_bound_are_left_out_and_said() {
    let mut log = String::new();
    for i in 0..20u8 {
        let name = char::from(b'a' + i);
        for _ in 0..=i {
            log += &line(1, f64::from(i), 0.0, &format!("GET /{name}"), 200);
        }
    }
    let options = LearnOptions {
        most_requests: 20,
        ..options()
    };
    let learned = learn(log.as_bytes(), &options).expect("in order");
    assert_eq!(learned.workload.requests.len(), 10);
    assert_eq!(learned.folded.len(), 20);
    let note = "10 rare routes, 26 % of the requests, are left out";
    assert!(
        learned.notes.iter().any(|said| said == note),
        "{:?}",
        learned.notes
    );
}

#[test]
fn a_log_that_is_not_in_order_of_time_says_so() {
    let day = |number: f64| -> String {
        (0..10)
            .map(|i| {
                let at = number * 86_400.0 + f64::from(i) * 10.0;
                line(1, at, 0.01, "GET /", 200)
            })
            .collect()
    };
    let said = |log: &str| {
        let notes = learnt(log).notes;
        notes.iter().any(|note| note.contains("in order of time"))
    };
    let (older, newer) = (day(0.0), day(1.0));
    assert!(said(&format!("{newer}{older}")));
    assert!(!said(&format!("{older}{newer}")));
}

#[test]
fn a_compressed_log_teaches_the_same() {
    let log: String = (0..100)
        .map(|i| line(i % 7, f64::from(i), 0.01, &format!("GET /post/{i}"), 200))
        .collect();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(log.as_bytes()).expect("in memory");
    let packed = encoder.finish().expect("in memory");
    let unpacked = learn(&packed[..], &options()).expect("in order");
    assert_eq!(unpacked, learnt(&log));
}

#[test]
fn what_teaches_nothing_says_why() {
    let check = |log: &str, expected: &str| {
        let error = learn(log.as_bytes(), &LearnOptions::default()).expect_err("nothing in it");
        assert!(error.to_string().contains(expected), "{error}");
    };
    check("", "is empty");
    check("\n\n", "is empty");
    check(
        "Nov 21 sshd[1]: Accepted\n",
        "its first line is \"Nov 21 sshd[1]: Accepted\"",
    );
    check(
        "::1 - - [21/Nov/2026:01:15:12 +0000] \"POST / HTTP/1.1\" 200 5\n",
        "1 lines and none is a GET or HEAD request that can be replayed (POST: 1)",
    );
}

#[test]
fn cookies_and_secrets_are_not_kept() {
    let log = "10.0.0.1 1795223700.000 0.000 \"GET /reset?token=s3cret HTTP/1.1\" 200 \"s3cret\"\n";
    let learned = learnt(log);
    assert!(!format!("{learned:?}").contains("s3cret"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_log_makes_it_panic(log in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = learn(&log[..], &LearnOptions::default());
        let _ = learn(&log[..], &options());
    }

    /// Lines that are nearly right, with times all over the place.
    #[test]
    fn no_nearly_right_log_makes_it_panic(
        lines in prop::collection::vec(("[0-9]{1,13}", "[0-9]{1,5}", "/[a-z/{}?=&%0-9.*]{0,20}", 0u16..1000), 1..30)
    ) {
        let log: String = lines.iter().map(|(at, took, path, status)| {
            format!("10.0.0.1 {at}.5 {took}.25 \"GET {path} HTTP/1.1\" {status} \"-\"\n")
        }).collect();
        if let Ok(learned) = learn(log.as_bytes(), &options()) {
            let total: f64 = learned.workload.requests.iter().map(|r| r.weight).sum();
            let requests: u64 = learned.folded.iter().map(|r| r.requests).sum();
            prop_assert!((total - requests as f64).abs() < 1e-6);
            prop_assert!(kneepoint_model::check_workload(&learned.workload).is_ok());
            let schedule = learned.schedule_at(2.0);
            prop_assert!(schedule.segments.iter().all(|s| s.from_hz.is_finite()));
            let text = schedule.to_string();
            prop_assert!(text.parse::<kneepoint_model::Schedule>().is_ok(), "{}", text);
        }
    }
}
