//! Each syntax: what is read, as it is printed back, and what is refused.

use super::*;
use crate::ThinkTime;
use expect_test::{Expect, expect};
use proptest::prelude::*;

/// Prints what was understood, and checks that it reads back to the same; or prints the error.
#[track_caller]
fn check(text: &str, expected: Expect) {
    let shown = match parse(text) {
        Ok(profile) => {
            let printed = profile.to_string();
            assert_eq!(parse(&printed), Ok(profile), "{printed}");
            printed
        }
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&shown);
}

/// The same without the notes.
#[track_caller]
fn check_load(text: &str, expected: Expect) {
    let mut profile = parse(text).unwrap_or_else(|error| panic!("{error}"));
    profile.notes.clear();
    check(&profile.to_string(), expected);
}

#[test]
fn every_example_is_in_its_syntax() {
    for syntax in SYNTAXES {
        let detected = detect(syntax.example).map(|found| found.name);
        assert_eq!(detected, Some(syntax.name), "{}", syntax.example);
        check_read(syntax.example);
    }
}

#[track_caller]
fn check_read(text: &str) {
    let profile = parse(text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(parse(&profile.to_string()), Ok(profile));
}

#[test]
fn yandex_tank() {
    check("line(1,50,2m)const(50, 10m)", expect![[""]]);
    check_load("step(50,5,20,30)const(0,10)", expect![[""]]);
    check_load("rps: const(1,27h103m645)", expect![[""]]);
    check("const(50)", expect![[""]]);
    check("line(1,50,2m) stairs(3)", expect![[""]]);
}

#[test]
fn yandex_tank_instances() {
    check("ramp(5,4s) wait(1m)", expect![[""]]);
    check_load("start(10) wait(5m)", expect![[""]]);
    check_load(
        "load_type: instances schedule: line(1,9,4s) const(9,1m)",
        expect![[""]],
    );
    check_load("instances: const(3,5s)", expect![[""]]);
    check("start(5) wait(10s) start(5) wait(10s)", expect![[""]]);
    check("instances: const(5,10s) const(3,10s)", expect![[""]]);
    check("wait(10s)", expect![[""]]);
    check("start(0) wait(10s)", expect![[""]]);
}

#[test]
fn ab() {
    check(
        "ab -n 1000 -c 10 -k -H 'X-A: b' http://127.0.0.1:8080/",
        expect![[""]],
    );
    check_load("ab -t 30 -kc 4 -s 5 -l http://h/", expect![[""]]);
    check_load("ab -n 100 -t 30 http://h/", expect![[""]]);
    check_load("ab -t 30 -n100 http://h/", expect![[""]]);
    check_load(
        "/usr/bin/ab -p form.txt -T application/x-www-form-urlencoded -C a=b -A me:secret -n 5 http://h/",
        expect![[""]],
    );
    check("ab -c 10 http://h/", expect![[""]]);
    check("ab -n ten http://h/", expect![[""]]);
    check("ab -n 10 -Q http://h/", expect![[""]]);
    check("ab -n 10 http://h/ http://i/", expect![[""]]);
    check("ab -n 10 -c", expect![[""]]);
}

#[test]
fn wrk_and_wrk2() {
    check(
        "wrk -t4 -c10 -d30s --timeout 5s -H 'A: b' --latency http://h/",
        expect![[""]],
    );
    check_load("wrk http://h/", expect![[""]]);
    check("wrk -t2 -c100 -d1m -R2k http://h/", expect![[""]]);
    check_load("zrk -R 100:500 -d 10s http://h/", expect![[""]]);
    check("wrk -s post.lua -d2s", expect![[""]]);
    check("wrk2 -t2 -c10 -d10s http://h/", expect![[""]]);
    check("wrk -t10 -c2 http://h/", expect![[""]]);
    check("wrk -d 1.5s http://h/", expect![[""]]);
    check("wrk -d 0 http://h/", expect![[""]]);
    check("wrk -R 99999999 http://h/", expect![[""]]);
}

#[test]
fn vegeta() {
    check(
        "echo \"GET http://127.0.0.1/\" | vegeta attack -rate=100/1m -duration=1m30s | vegeta report",
        expect![[""]],
    );
    check_load(
        "vegeta attack -duration 5s -keepalive=false -header 'A: b'",
        expect![[""]],
    );
    check(
        "vegeta attack -rate 0 -max-workers 20 -duration 10s -timeout 0",
        expect![[""]],
    );
    check("vegeta attack -rate 0 -duration 10s", expect![[""]]);
    check("vegeta attack -rate 50", expect![[""]]);
    check("vegeta attack -rate fast -duration 1s", expect![[""]]);
    check("vegeta attack -rate 50/parsec -duration 1s", expect![[""]]);
    check("vegeta report", expect![[""]]);
    check("vegeta attack -duration 5s http://h/", expect![[""]]);
}

#[test]
fn oha() {
    check("oha -n 10k -c 20 http://h/", expect![[""]]);
    check(
        "oha -z 1m30s -q 200.5 -n 5 --disable-keepalive -t 2s http://h/",
        expect![[""]],
    );
    check_load(
        "oha -n 300 -q 100 -m POST -d '{\"a\": \"it''s\"}' -T application/json http://h/",
        expect![[""]],
    );
    check("oha -q 0 http://h/", expect![[""]]);
    check("oha -z soon http://h/", expect![[""]]);
    check("oha -n 1 'http://h/", expect![[""]]);
}

#[test]
fn k6() {
    check("10s:5,1m:20", expect![[""]]);
    check_load(
        "k6 run -s 10s:5 --stage 1m:20,0s:3,10s:3 script.js",
        expect![[""]],
    );
    check("k6 run --vus 10 --duration 30s script.js", expect![[""]]);
    check_load("k6 run -u 5 -i 100 script.js", expect![[""]]);
    check_load("k6 run script.js", expect![[""]]);
    check(
        r#"[{"duration":"30s","target":100},{"duration":"1m","target":100}]"#,
        expect![[""]],
    );
    check_load(
        "export const options = { scenarios: { ramp: { executor: 'ramping-arrival-rate', startRate: 30, \
         timeUnit: '1m', preAllocatedVUs: 50, stages: [ { target: 600, duration: '2m' }, // up\n ], }, }, };",
        expect![[""]],
    );
    check_load(
        r#"{"executor":"constant-arrival-rate","rate":90,"timeUnit":"1m","duration":"10s","maxVUs":5}"#,
        expect![[""]],
    );
    check_load(
        r#"{"executor":"per-vu-iterations","vus":4,"iterations":20,"maxDuration":"1h"}"#,
        expect![[""]],
    );
    check("k6 cloud script.js", expect![[""]]);
    check("10s:5,1m", expect![[""]]);
    check(r#"[{"duration":"30 parsecs","target":1}]"#, expect![[""]]);
    check(r#"[{"duration":"30s"}]"#, expect![[""]]);
    check(r#"{"executor":"externally-controlled"}"#, expect![[""]]);
    check(r#"{"stages":[],"speed":3}"#, expect![[""]]);
    check("[]", expect![[""]]);
    check("[1", expect![[""]]);
}

#[test]
fn jmeter_threads() {
    check("jmeter threads=10 ramp=5 loops=3", expect![[""]]);
    check(
        "jmeter -n -t plan.jmx -Jthreads=4 -Jramp=2m -Jloops=-1 -Jduration=60",
        expect![[""]],
    );
    check_load("jmeter threads 10 duration 1m", expect![[""]]);
    check_load(
        "<ThreadGroup><stringProp name=\"LoopController.loops\">7</stringProp><stringProp \
         name=\"ThreadGroup.num_threads\">12</stringProp><stringProp name=\"ThreadGroup.ramp_time\">6</stringProp>\
         <boolProp name=\"ThreadGroup.scheduler\">false</boolProp><stringProp \
         name=\"ThreadGroup.duration\">30</stringProp></ThreadGroup>",
        expect![[""]],
    );
    check("jmeter ramp=5", expect![[""]]);
    check("jmeter threads=10 loops=forever", expect![[""]]);
    check("jmeter threads=many", expect![[""]]);
    check("jmeter --speed", expect![[""]]);
}

#[test]
fn jmeter_open_model() {
    check(
        "rate(1/sec) random_arrivals(2 min) rate(3/sec) pause(2 sec)",
        expect![[""]],
    );
    check(
        "/* up */ rate(0 per min) even_arrivals(1h 30m) rate(60/min) // and then\n pause(10 sec) even_arrivals(5 s)",
        expect![[""]],
    );
    check("random_arrivals(2 min)", expect![[""]]);
    check("rate(1/sec) random_arrivals(2)", expect![[""]]);
    check("rate(5) random_arrivals(2 min)", expect![[""]]);
    check(
        "rate(1/sec) random_arrivals(1 s) even_arrivals(1 s)",
        expect![[""]],
    );
    check("rate(1/sec) concurrency(5)", expect![[""]]);
    check("rate(1/sec)", expect![[""]]);
}

#[test]
fn gatling() {
    check(
        "rampUsersPerSec(1).to(50.5).during(2.minutes), constantUsersPerSec(50.5).during(600)",
        expect![[""]],
    );
    check_load(
        "nothingFor(5) rampUsers(100).during(10.seconds)",
        expect![[""]],
    );
    check_load(
        "incrementUsersPerSec(5).times(3).eachLevelLasting(10)",
        expect![[""]],
    );
    check_load(
        "incrementUsersPerSec(5).times(2).eachLevelLasting(Duration.ofSeconds(10)).separatedByRampsLasting(4)",
        expect![[""]],
    );
    check_load(
        "incrementUsersPerSec(5).times(2).eachLevelLasting(10).separatedByRampsLasting(4).startingFrom(10)",
        expect![[""]],
    );
    check_load(
        "constantUsersPerSec(20).during(15).randomized",
        expect![[""]],
    );
    check_load(
        "constantConcurrentUsers(10).during(1.minute)",
        expect![[""]],
    );
    check("atOnceUsers(10)", expect![[""]]);
    check(
        "constantUsersPerSec(5).during(1).randomized constantUsersPerSec(5).during(1)",
        expect![[""]],
    );
    check("constantUsersPerSec(5)", expect![[""]]);
    check("constantUsersPerSec(5).during(soon)", expect![[""]]);
}

#[test]
fn artillery() {
    check(
        "[{duration: 3, arrivalRate: 1, rampTo: 5, name: 'warm up'}]",
        expect![[""]],
    );
    check_load(
        "config:\n  target: http://h\n  phases:\n    - duration: 60   # a minute\n      arrivalRate: 5\n    - pause: 10\n    \
         - duration: 1\n      arrivalRate: 1\n      rampTo: 4\n      maxVusers: 50\n",
        expect![[""]],
    );
    check_load(r#"{"duration": "2m", "arrivalCount": 30}"#, expect![[""]]);
    check(
        "[{duration: 2.5, arrivalRate: 1, rampTo: 5}]",
        expect![[""]],
    );
    check("[{duration: 60, arrivalRate: 1, speed: 5}]", expect![[""]]);
    check("[{arrivalRate: 1}]", expect![[""]]);
}

#[test]
fn what_is_in_no_syntax_is_told_what_would_be() {
    check("as fast as possible", expect![[""]]);
    check("", expect![[""]]);
    check("open const(5,1m) speed=3", expect![[""]]);
    check("closed workers=3", expect![[""]]);
    check("closed const(5,1m)", expect![[""]]);
    check("open const(5,1m) arrivals=random", expect![[""]]);
}

fn words_of_a_shell() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z/:.?&=]{1,20}",
        "[ -~]{0,12}",
        any::<String>().prop_map(|text| text.chars().take(12).collect()),
    ]
}

fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (1u64..100_000).prop_map(Duration::from_secs),
        (1u64..10_000_000_000_000).prop_map(Duration::from_nanos),
    ]
}

fn think_times() -> impl Strategy<Value = ThinkTime> {
    prop_oneof![
        Just(ThinkTime::None),
        durations().prop_map(ThinkTime::Fixed),
        durations().prop_map(|mean| ThinkTime::Exponential { mean }),
        prop::collection::vec(durations(), 2..5).prop_map(|mut quantiles| {
            quantiles.sort();
            ThinkTime::Empirical { quantiles }
        }),
    ]
}

fn loads() -> impl Strategy<Value = Profile> {
    let segment = (0.0..1e6f64, 0.0..1e6f64, durations())
        .prop_map(|(from, to, duration)| values::line(from, to, duration));
    let first = prop_oneof![
        Just(FirstArrival::AtStart),
        Just(FirstArrival::AfterInterval)
    ];
    let arrivals = prop_oneof![
        Just(Arrivals::Even),
        any::<u64>().prop_map(|seed| Arrivals::Poisson { seed })
    ];
    let open = (prop::collection::vec(segment, 1..5), first, arrivals).prop_map(
        |(segments, first, arrivals)| Profile::Open {
            schedule: Schedule { segments },
            first,
            arrivals,
        },
    );
    let number = || proptest::option::of(1u64..1_000_000);
    let closed = (
        1u32..1_000_000,
        durations(),
        think_times(),
        durations(),
        number(),
        number(),
    )
        .prop_map(|(workers, ramp, think_time, duration, requests, loops)| {
            Profile::Closed(ClosedLoop {
                workers,
                ramp,
                think_time,
                duration,
                requests,
                loops,
            })
        });
    prop_oneof![open, closed]
}

fn profiles() -> impl Strategy<Value = Imported> {
    let count = || proptest::option::of(1usize..1_000_000);
    let word = || proptest::option::of(words_of_a_shell());
    let header = (
        "[A-Za-z-]{1,9}",
        words_of_a_shell().prop_map(|value| value.trim().to_owned()),
    );
    (
        loads(),
        (
            count(),
            count(),
            any::<Option<bool>>(),
            proptest::option::of(durations()),
        ),
        (word(), word(), word(), any::<bool>()),
        prop::collection::vec(header, 0..3),
        prop::collection::vec(words_of_a_shell(), 0..3),
    )
        .prop_map(|(load, numbers, texts, headers, notes)| Imported {
            threads: numbers.0,
            connections: numbers.1,
            keep_alive: numbers.2,
            timeout: numbers.3,
            method: texts.0.map(Method),
            url: texts.1,
            body: texts.2.map(if texts.3 { Body::Text } else { Body::File }),
            headers,
            notes,
            ..Imported::new(load)
        })
}

proptest! {
    #[test]
    fn a_printed_profile_is_the_profile(profile in profiles()) {
        prop_assert_eq!(parse(&profile.to_string()), Ok(profile));
    }

    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let _ = parse(&text);
        for syntax in SYNTAXES {
            let _ = (syntax.read)(text.trim());
        }
    }

    #[test]
    fn no_nearly_right_text_makes_it_panic(
        example in 0..SYNTAXES.len(),
        cut in any::<prop::sample::Index>(),
        middle in "[-0-9.,:;=(){}'\" a-zA-Z/]{0,8}",
        doubled: bool,
    ) {
        let text = SYNTAXES[example].example;
        let at = cut.index(text.len());
        let text = format!("{}{middle}{}", &text[..at], &text[at + usize::from(!doubled)..]);
        if let Ok(profile) = parse(&text) {
            prop_assert_eq!(parse(&profile.to_string()), Ok(profile));
        }
    }
}
