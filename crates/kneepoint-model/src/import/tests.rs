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
    check(
        "line(1,50,2m)const(50, 10m)",
        expect![[r#"
        open line(1,50,120s) const(50,600s) first=start arrivals=even
        note='yandex.tank cuts each time to a whole millisecond and each piece to whole requests; here the integral of the rate runs on from piece to piece.'
        note='yandex.tank sends every request of the schedule however late, so an overload makes the run longer; here the schedule ends when it says.'"#]],
    );
    check_load(
        "step(50,5,20,30)const(0,10)",
        expect![
            "open const(50,30s) const(30,30s) const(10,30s) const(5,30s) const(0,10s) first=start arrivals=even"
        ],
    );
    check_load(
        "rps: const(1,27h103m645)",
        expect!["open const(1,104025s) first=start arrivals=even"],
    );
    check(
        "const(50)",
        expect![
            "yandex.tank schedule: `const(50)`: const takes two values; write for example const(50,1m)"
        ],
    );
    check(
        "line(1,50,2m) stairs(3)",
        expect![
            "yandex.tank schedule: `stairs(3)`: there is no `stairs`; write const(RATE,DURATION), line(FROM,TO,DURATION) or step(FROM,TO,INCREMENT,DURATION)"
        ],
    );
}

#[test]
fn yandex_tank_instances() {
    check(
        "ramp(5,4s) wait(1m)",
        expect![[r#"
        closed workers=5 ramp=5s think=none duration=64s connections=5
        note='yandex.tank goes on until its ammunition or loops are used up; here the load ends with the schedule.'"#]],
    );
    check_load(
        "start(10) wait(5m)",
        expect!["closed workers=10 ramp=0s think=none duration=300s connections=10"],
    );
    check_load(
        "load_type: instances schedule: line(1,9,4s) const(9,1m)",
        expect!["closed workers=9 ramp=4.5s think=none duration=64s connections=9"],
    );
    check_load(
        "instances: const(3,5s)",
        expect!["closed workers=3 ramp=0s think=none duration=5s connections=3"],
    );
    check(
        "start(5) wait(10s) start(5) wait(10s)",
        expect![
            "yandex.tank instances: `start(5)`: workers of a closed loop start all at once or over one ramp at the beginning; write one of ramp(COUNT,DURATION) and start(COUNT), and then wait(DURATION)"
        ],
    );
    check(
        "instances: const(5,10s) const(3,10s)",
        expect![
            "yandex.tank instances: `const(3,10s)`: instances cannot be stopped; write a number that is not below the one before"
        ],
    );
    check(
        "wait(10s)",
        expect![
            "yandex.tank instances: `wait(10s)`: no instance is started; write for example start(10) wait(5m)"
        ],
    );
    check(
        "start(0) wait(10s)",
        expect!["yandex.tank instances: `0`: that many send nothing; write at least 1"],
    );
}

#[test]
fn ab() {
    check(
        "ab -n 1000 -c 10 -k -H 'X-A: b' http://127.0.0.1:8080/",
        expect![[r#"
            closed workers=10 ramp=0s think=none duration=unlimited requests=1000 threads=1 connections=10 keep-alive=yes timeout=30s header='X-A: b' url=http://127.0.0.1:8080/
            note='ab speaks HTTP/1.0; requests here are HTTP/1.1.'
            note='ab ends the whole run when a connection is silent for its timeout; here that request ends and counts as a timeout, and the load goes on.'
            note='ab without -l counts a page of another length than the first as failed; lengths are not compared here.'"#]],
    );
    check_load(
        "ab -t 30 -kc 4 -s 5 -l http://h/",
        expect![
            "closed workers=4 ramp=0s think=none duration=30s requests=50000 threads=1 connections=4 keep-alive=yes timeout=5s url=http://h/"
        ],
    );
    check_load(
        "ab -n 100 -t 30 http://h/",
        expect![
            "closed workers=1 ramp=0s think=none duration=30s requests=50000 threads=1 connections=1 keep-alive=no timeout=30s url=http://h/"
        ],
    );
    check_load(
        "ab -t 30 -n100 http://h/",
        expect![
            "closed workers=1 ramp=0s think=none duration=30s requests=100 threads=1 connections=1 keep-alive=no timeout=30s url=http://h/"
        ],
    );
    check_load(
        "/usr/bin/ab -p form.txt -T application/x-www-form-urlencoded -C a=b -A me:secret -n 5 http://h/",
        expect![
            "closed workers=1 ramp=0s think=none duration=unlimited requests=5 threads=1 connections=1 keep-alive=no timeout=30s method=POST header='Cookie: a=b' header='Authorization: Basic bWU6c2VjcmV0' header='Content-Type: application/x-www-form-urlencoded' data-file=form.txt url=http://h/"
        ],
    );
    check(
        "ab -c 10 http://h/",
        expect!["ab: `10`: more workers than requests, of which there are 1; write a -n of at least 10"],
    );
    check(
        "ab -n ten http://h/",
        expect!["ab: `ten`: this is not a whole number; write for example 10"],
    );
    check(
        "ab -n 10 -Q http://h/",
        expect![
            "ab: `-Q`: this flag of ab is not known here; take it out, or write one of -n -c -t -s -k -l -H -m -i -p -u -T -C -A"
        ],
    );
    check(
        "ab -n 10 http://h/ http://i/",
        expect![
            "ab: `http://i/`: this is one argument too many; write the URL once, and quote what has blanks"
        ],
    );
    check(
        "ab -n 10 -c",
        expect!["ab: `-c`: ab wants a value after it"],
    );
}

#[test]
fn wrk_and_wrk2() {
    check(
        "wrk -t4 -c10 -d30s --timeout 5s -H 'A: b' --latency http://h/",
        expect![[r#"
            closed workers=8 ramp=0s think=none duration=30s threads=4 connections=8 keep-alive=yes timeout=5s header='A: b' url=http://h/
            note='wrk puts the times of error responses among those of good ones; here they are apart.'
            note='wrk shares 10 connections out to 4 threads evenly and drops the rest: 8.'
            note='wrk never ends a request at its timeout, it only counts the late response; here the request ends.'"#]],
    );
    check_load(
        "wrk http://h/",
        expect![
            "closed workers=10 ramp=0s think=none duration=10s threads=2 connections=10 keep-alive=yes timeout=2s url=http://h/"
        ],
    );
    check(
        "wrk -t2 -c100 -d1m -R2k http://h/",
        expect![[r#"
        open const(2000,60s) first=start arrivals=even threads=2 connections=100 keep-alive=yes timeout=2s url=http://h/
        note='wrk2 gives each connection its own share of the schedule, so a slow response makes its connection send in bursts; here any free connection takes the next request.'
        note='wrk never ends a request at its timeout, it only counts the late response; here the request ends.'"#]],
    );
    check_load(
        "zrk -R 100:500 -d 10s http://h/",
        expect![
            "open line(100,500,10s) first=start arrivals=even threads=2 connections=10 keep-alive=yes timeout=2s url=http://h/"
        ],
    );
    check(
        "wrk -s post.lua -d2s",
        expect![[r#"
        closed workers=10 ramp=0s think=none duration=2s threads=2 connections=10 keep-alive=yes timeout=2s
        note='wrk puts the times of error responses among those of good ones; here they are apart.'
        note='-s of wrk is left out: the Lua script is not run.'
        note='wrk never ends a request at its timeout, it only counts the late response; here the request ends.'"#]],
    );
    check(
        "wrk2 -t2 -c10 -d10s http://h/",
        expect![
            "wrk: `wrk2 -t2 -c10 -d10s http://h/`: wrk2 wants a rate; write for example -R1000"
        ],
    );
    check(
        "wrk -t10 -c2 http://h/",
        expect!["wrk: `2`: fewer connections than the 10 threads; write a -c of at least 10"],
    );
    check(
        "wrk -d 1.5s http://h/",
        expect![
            "wrk: `1.5s`: this is not a duration; write for example 10, 30s, 2m or 1h (wrk knows whole numbers only)"
        ],
    );
    check(
        "wrk -d 0 http://h/",
        expect!["wrk: `0`: in no time nothing is sent; write a duration such as 30s"],
    );
    check(
        "wrk -R 99999999 http://h/",
        expect![
            "wrk: `99999999`: `99999999` is not a rate; write requests per second between 0 and 10000000, such as 12.5"
        ],
    );
}

#[test]
fn vegeta() {
    check(
        "echo \"GET http://127.0.0.1/\" | vegeta attack -rate=100/1m -duration=1m30s | vegeta report",
        expect![
            "open const(1.6666666666666667,90s) first=interval arrivals=even keep-alive=yes timeout=30s method=GET url=http://127.0.0.1/"
        ],
    );
    check_load(
        "vegeta attack -duration 5s -keepalive=false -header 'A: b'",
        expect![
            "open const(50,5s) first=interval arrivals=even keep-alive=no timeout=30s header='A: b'"
        ],
    );
    check(
        "vegeta attack -rate 0 -max-workers 20 -duration 10s -timeout 0",
        expect!["closed workers=20 ramp=0s think=none duration=10s connections=20 keep-alive=yes"],
    );
    check(
        "vegeta attack -rate 0 -duration 10s",
        expect![
            "vegeta: `0`: an unlimited rate wants -max-workers; write for example -max-workers 10"
        ],
    );
    check(
        "vegeta attack -rate 50",
        expect![
            "vegeta: `-duration 0`: vegeta would go on for ever; write for example -duration 30s"
        ],
    );
    check(
        "vegeta attack -rate fast -duration 1s",
        expect!["vegeta: `fast`: this is not a whole number; write for example 10"],
    );
    check(
        "vegeta attack -rate 50/parsec -duration 1s",
        expect!["vegeta: `1parsec`: this is not a duration; write for example 30s, 1m30s or 500ms"],
    );
    check(
        "vegeta report",
        expect![
            "vegeta: `vegeta report`: only vegeta attack sends; write vegeta attack -rate 50/1s"
        ],
    );
    check(
        "vegeta attack -duration 5s http://h/",
        expect![[
            r#"vegeta: `http://h/`: vegeta reads its targets from its input; write echo "GET URL" | before it"#
        ]],
    );
}

#[test]
fn oha() {
    check(
        "oha -n 10k -c 20 http://h/",
        expect![[r#"
        closed workers=20 ramp=0s think=none duration=unlimited requests=10000 connections=20 keep-alive=yes url=http://h/
        note='oha leaves requests that timed out out of its percentiles; here they count.'"#]],
    );
    check(
        "oha -z 1m30s -q 200.5 -n 5 --disable-keepalive -t 2s http://h/",
        expect![[r#"
            open const(200.5,90s) first=start arrivals=even connections=50 keep-alive=no timeout=2s url=http://h/
            note='oha counts a response time from when a worker takes the request up; here it counts from when the schedule wanted it sent.'
            note='oha leaves requests that timed out out of its percentiles; here they count.'
            note='oha drops what is on its way when the time is up; here it is waited for and counts.'"#]],
    );
    check_load(
        "oha -n 300 -q 100 -m POST -d '{\"a\": \"it''s\"}' -T application/json http://h/",
        expect![[r#"open const(100,3s) first=start arrivals=even connections=50 keep-alive=yes method=POST header='Content-Type: application/json' data='{"a": "its"}' url=http://h/"#]],
    );
    check(
        "oha -q 0 http://h/",
        expect!["oha: `0`: nothing would be sent; write a rate above 0"],
    );
    check(
        "oha -z soon http://h/",
        expect!["oha: `soon`: this is not a duration; write for example 10s, 3m or 2h30m"],
    );
    check(
        "oha -n 1 'http://h/",
        expect![
            "oha: `oha -n 1 'http://h/`: a quotation mark or a backslash has no end; close it or take it out"
        ],
    );
}

#[test]
fn k6() {
    check(
        "10s:5,1m:20",
        expect![[r#"
        open line(0,5,10s) line(5,20,60s) first=interval arrivals=even
        note='k6 takes --stage for numbers of virtual users; here they are arrivals per second, as in its ramping-arrival-rate.'
        note='k6 runs its script once per iteration, with whatever requests and pauses that has; here an iteration is one request.'"#]],
    );
    check_load(
        "k6 run -s 10s:5 --stage 1m:20,0s:3,10s:3 script.js",
        expect!["open line(0,5,10s) line(5,20,60s) const(3,10s) first=interval arrivals=even"],
    );
    check(
        "k6 run --vus 10 --duration 30s script.js",
        expect![[r#"
        closed workers=10 ramp=0s think=none duration=30s connections=10
        note='k6 runs its script once per iteration, with whatever requests and pauses that has; here an iteration is one request.'"#]],
    );
    check_load(
        "k6 run -u 5 -i 100 script.js",
        expect!["closed workers=5 ramp=0s think=none duration=600s requests=100 connections=5"],
    );
    check_load(
        "k6 run script.js",
        expect!["closed workers=1 ramp=0s think=none duration=unlimited requests=1 connections=1"],
    );
    check(
        r#"[{"duration":"30s","target":100},{"duration":"1m","target":100}]"#,
        expect![[r#"
            open line(0,100,30s) const(100,60s) first=interval arrivals=even
            note='k6 drops an iteration when no virtual user is free; here it waits, and its wait counts.'"#]],
    );
    check_load(
        "export const options = { scenarios: { ramp: { executor: 'ramping-arrival-rate', startRate: 30, \
         timeUnit: '1m', preAllocatedVUs: 50, stages: [ { target: 600, duration: '2m' }, // up\n ], }, }, };",
        expect!["open line(0.5,10,120s) first=interval arrivals=even connections=50"],
    );
    check_load(
        r#"{"executor":"constant-arrival-rate","rate":90,"timeUnit":"1m","duration":"10s","maxVUs":5}"#,
        expect!["open const(1.5,10s) first=start arrivals=even connections=5"],
    );
    check_load(
        r#"{"executor":"per-vu-iterations","vus":4,"iterations":20,"maxDuration":"1h"}"#,
        expect!["closed workers=4 ramp=0s think=none duration=3600s loops=20 connections=4"],
    );
    check(
        "k6 cloud script.js",
        expect![
            "k6 command line: `k6 cloud script.js`: only k6 run sends; write k6 run -u 10 -d 30s script.js"
        ],
    );
    check(
        "10s:5,1m",
        expect![
            "k6 command line: `1m`: this is not a stage; write DURATION:TARGET such as 30s:100"
        ],
    );
    check(
        r#"[{"duration":"30 parsecs","target":1}]"#,
        expect![
            "k6 scenario: `30 parsecs`: this is not a duration; write for example 30s, 1m30s or 500ms"
        ],
    );
    check(
        r#"[{"duration":"30s"}]"#,
        expect![
            "k6 scenario: `{duration: 30s}`: a stage has a duration and a target, and here target is missing"
        ],
    );
    check(
        r#"{"executor":"externally-controlled"}"#,
        expect![
            "k6 scenario: `externally-controlled`: this executor has no rate and no fixed number of users; write ramping-arrival-rate, constant-arrival-rate, constant-vus, shared-iterations or per-vu-iterations"
        ],
    );
    check(
        r#"{"stages":[],"speed":3}"#,
        expect![
            "k6 scenario: `speed`: this key of a scenario is not known; the keys are executor stages startRate timeUnit rate duration vus iterations preAllocatedVUs maxVUs maxDuration"
        ],
    );
    check(
        "[]",
        expect!["k6 scenario: `[]`: it lasts no time; write stages with a duration"],
    );
    check(
        "[1",
        expect!["k6 scenario: `the end of the text`: here should be a comma or ]"],
    );
}

#[test]
fn jmeter_threads() {
    check(
        "jmeter threads=10 ramp=5 loops=3",
        expect![[r#"
        closed workers=10 ramp=5s think=none duration=unlimited loops=3 connections=10
        note='JMeter runs all samplers of the plan in a loop; here a loop is one request.'"#]],
    );
    check(
        "jmeter -n -t plan.jmx -Jthreads=4 -Jramp=2m -Jloops=-1 -Jduration=60",
        expect![[r#"
            closed workers=4 ramp=120s think=none duration=60s connections=4
            note='JMeter runs all samplers of the plan in a loop; here a loop is one request.'
            note='JMeter looks at its duration between samplers only; here no request starts after it, and those on their way are waited for.'"#]],
    );
    check_load(
        "jmeter threads 10 duration 1m",
        expect!["closed workers=10 ramp=0s think=none duration=60s connections=10"],
    );
    check_load(
        "<ThreadGroup><stringProp name=\"LoopController.loops\">7</stringProp><stringProp \
         name=\"ThreadGroup.num_threads\">12</stringProp><stringProp name=\"ThreadGroup.ramp_time\">6</stringProp>\
         <boolProp name=\"ThreadGroup.scheduler\">false</boolProp><stringProp \
         name=\"ThreadGroup.duration\">30</stringProp></ThreadGroup>",
        expect!["closed workers=12 ramp=6s think=none duration=unlimited loops=7 connections=12"],
    );
    check(
        "jmeter ramp=5",
        expect![
            "JMeter threads: `jmeter ramp=5`: the number of threads is missing; write for example jmeter threads=10 ramp=5 loops=3"
        ],
    );
    check(
        "jmeter threads=10 loops=forever",
        expect![
            "JMeter threads: `jmeter threads=10 loops=forever`: it would never end; write duration=60, or loops=3"
        ],
    );
    check(
        "jmeter threads=many",
        expect!["JMeter threads: `many`: this is not a whole number; write for example 10"],
    );
    check(
        "jmeter --speed",
        expect![
            "JMeter threads: `--speed`: this says nothing about threads; write for example jmeter threads=10 ramp=5 loops=3 duration=60"
        ],
    );
}

#[test]
fn jmeter_open_model() {
    check(
        "rate(1/sec) random_arrivals(2 min) rate(3/sec) pause(2 sec)",
        expect![[r#"
            open line(1,3,120s) const(0,2s) first=start arrivals=poisson(1)
            note='JMeter draws exactly as many random arrivals as the rate makes; here their number is random too, as in a Poisson process.'
            note='JMeter stops its threads at the end of the schedule; here requests on their way are waited for.'"#]],
    );
    check(
        "/* up */ rate(0 per min) even_arrivals(1h 30m) rate(60/min) // and then\n pause(10 sec) even_arrivals(5 s)",
        expect![[r#"
            open line(0,1,5400s) const(0,10s) const(1,5s) first=start arrivals=even
            note='JMeter knows the word even_arrivals and sends random ones all the same; here they are even.'
            note='JMeter stops its threads at the end of the schedule; here requests on their way are waited for.'"#]],
    );
    check(
        "random_arrivals(2 min)",
        expect![
            "JMeter open model: `random_arrivals(2 min)`: no rate stands before it; begin with rate(0/sec) or another"
        ],
    );
    check(
        "rate(1/sec) random_arrivals(2)",
        expect![
            "JMeter open model: `2`: this is not a duration; write for example 2 min, 10 sec or 1h 30m"
        ],
    );
    check(
        "rate(5) random_arrivals(2 min)",
        expect![
            "JMeter open model: `rate(5)`: this is no rate; write for example rate(50/sec) or rate(10/min)"
        ],
    );
    check(
        "rate(1/sec) random_arrivals(1 s) even_arrivals(1 s)",
        expect![
            "JMeter open model: `even_arrivals`: arrivals are random everywhere or even everywhere; write one of the two"
        ],
    );
    check(
        "rate(1/sec) concurrency(5)",
        expect![
            "JMeter open model: `concurrency(5)`: there is no such step; write rate(1/sec), random_arrivals(2 min) or pause(2 sec)"
        ],
    );
    check(
        "rate(1/sec)",
        expect!["JMeter open model: `rate(1/sec)`: it lasts no time; write stages with a duration"],
    );
}

#[test]
fn gatling() {
    check(
        "rampUsersPerSec(1).to(50.5).during(2.minutes), constantUsersPerSec(50.5).during(600)",
        expect![[r#"
            open line(1,50.5,120s) const(50.5,600s) first=start arrivals=even
            note='Gatling starts users who run a scenario; here an arrival is one request, unless visitors are described.'
            note='Gatling rounds each step to whole users; here the integral of the rate runs on from step to step.'"#]],
    );
    check_load(
        "nothingFor(5) rampUsers(100).during(10.seconds)",
        expect!["open const(0,5s) const(10,10s) first=start arrivals=even"],
    );
    check_load(
        "incrementUsersPerSec(5).times(3).eachLevelLasting(10)",
        expect!["open const(0,10s) const(5,10s) const(10,10s) first=start arrivals=even"],
    );
    check_load(
        "incrementUsersPerSec(5).times(2).eachLevelLasting(Duration.ofSeconds(10)).separatedByRampsLasting(4)",
        expect![
            "open line(0,5,4s) const(5,10s) line(5,10,4s) const(10,10s) first=start arrivals=even"
        ],
    );
    check_load(
        "incrementUsersPerSec(5).times(2).eachLevelLasting(10).separatedByRampsLasting(4).startingFrom(10)",
        expect!["open const(10,10s) line(10,15,4s) const(15,10s) first=start arrivals=even"],
    );
    check_load(
        "constantUsersPerSec(20).during(15).randomized",
        expect!["open const(20,15s) first=start arrivals=poisson(1)"],
    );
    check_load(
        "constantConcurrentUsers(10).during(1.minute)",
        expect!["closed workers=10 ramp=0s think=none duration=60s connections=10"],
    );
    check(
        "atOnceUsers(10)",
        expect![
            "Gatling injection: `atOnceUsers(10)`: this step is not known in this form; write constantUsersPerSec(50).during(600), rampUsersPerSec(1).to(50).during(120), incrementUsersPerSec(5).times(4).eachLevelLasting(30), rampUsers(100).during(60), nothingFor(10) or, alone, constantConcurrentUsers(10).during(60)"
        ],
    );
    check(
        "constantUsersPerSec(5).during(1).randomized constantUsersPerSec(5).during(1)",
        expect![
            "Gatling injection: `.randomized`: arrivals are random in all steps or in none; write .randomized after each of them, or after none"
        ],
    );
    check(
        "constantUsersPerSec(5)",
        expect![
            "Gatling injection: `constantUsersPerSec(5)`: this step is not known in this form; write constantUsersPerSec(50).during(600), rampUsersPerSec(1).to(50).during(120), incrementUsersPerSec(5).times(4).eachLevelLasting(30), rampUsers(100).during(60), nothingFor(10) or, alone, constantConcurrentUsers(10).during(60)"
        ],
    );
    check(
        "constantUsersPerSec(5).during(soon)",
        expect![
            "Gatling injection: `soon`: this is not a duration; write for example 10, 10.seconds or 2.minutes"
        ],
    );
}

#[test]
fn artillery() {
    check(
        "[{duration: 3, arrivalRate: 1, rampTo: 5, name: 'warm up'}]",
        expect![[r#"
            open const(1,1s) const(3,1s) const(5,1s) first=interval arrivals=even
            note='Artillery runs a scenario of requests and pauses for each arrival; here an arrival is one request, unless visitors are described.'"#]],
    );
    check_load(
        "config:\n  target: http://h\n  phases:\n    - duration: 60   # a minute\n      arrivalRate: 5\n    - pause: 10\n    \
         - duration: 1\n      arrivalRate: 1\n      rampTo: 4\n      maxVusers: 50\n",
        expect![
            "open const(5,60s) const(0,10s) const(2,1s) first=interval arrivals=even connections=50"
        ],
    );
    check_load(
        r#"{"duration": "2m", "arrivalCount": 30}"#,
        expect!["open const(0.25,120s) first=interval arrivals=even"],
    );
    check(
        "[{duration: 2.5, arrivalRate: 1, rampTo: 5}]",
        expect![
            "Artillery phases: `{duration: 2.5, arrivalRate: 1, rampTo: 5}`: a ramp has one stair a second: its duration is whole seconds, at most 10000"
        ],
    );
    check(
        "[{duration: 60, arrivalRate: 1, speed: 5}]",
        expect![
            "Artillery phases: `speed`: this key of a phase is not known; the keys are duration arrivalRate rampTo arrivalCount pause maxVusers name"
        ],
    );
    check(
        "[{arrivalRate: 1}]",
        expect![
            "Artillery phases: `{arrivalRate: 1}`: this is no phase; write {duration: 60, arrivalRate: 5}, with rampTo for a ramp, or {pause: 10}"
        ],
    );
}

#[test]
fn what_is_in_no_syntax_is_told_what_would_be() {
    check(
        "as fast as possible",
        expect![[
            r#"load profile: `as fast as possible`: this is in no syntax that is known; write for example `open const(50,60s) first=start arrivals=even` or `ab -n 1000 -c 10 -k http://127.0.0.1/` or `wrk -t2 -c10 -d10s http://127.0.0.1/` or `vegeta attack -rate 50/1s -duration 30s` or `oha -z 10s -c 50 -q 200 http://127.0.0.1/` or `k6 run -s 30s:100,1m:100 script.js` or `jmeter threads=10 ramp=5 loops=3` or `[{duration: 60, arrivalRate: 5, rampTo: 50}]` or `[{"duration":"30s","target":100}]` or `rampUsersPerSec(1).to(50).during(120), constantUsersPerSec(50).during(600)` or `rate(1/sec) random_arrivals(2 min) rate(3/sec)` or `instances: ramp(10,30s) wait(5m)` or `line(1,50,2m) const(50,10m)`"#
        ]],
    );
    check(
        "",
        expect![[
            r#"load profile: ``: this is in no syntax that is known; write for example `open const(50,60s) first=start arrivals=even` or `ab -n 1000 -c 10 -k http://127.0.0.1/` or `wrk -t2 -c10 -d10s http://127.0.0.1/` or `vegeta attack -rate 50/1s -duration 30s` or `oha -z 10s -c 50 -q 200 http://127.0.0.1/` or `k6 run -s 30s:100,1m:100 script.js` or `jmeter threads=10 ramp=5 loops=3` or `[{duration: 60, arrivalRate: 5, rampTo: 50}]` or `[{"duration":"30s","target":100}]` or `rampUsersPerSec(1).to(50).during(120), constantUsersPerSec(50).during(600)` or `rate(1/sec) random_arrivals(2 min) rate(3/sec)` or `instances: ramp(10,30s) wait(5m)` or `line(1,50,2m) const(50,10m)`"#
        ]],
    );
    check(
        "open const(5,1m) speed=3",
        expect![
            "kneepoint profile: `speed`: there is no such key here; the keys are first arrivals threads connections keep-alive timeout method header data data-file url note"
        ],
    );
    check(
        "closed workers=3",
        expect![
            "kneepoint profile: `closed workers=3`: it would never end; write a duration or a number of requests"
        ],
    );
    check(
        "closed const(5,1m)",
        expect![
            "kneepoint profile: `const(5,1m)`: a closed loop has no schedule; write closed workers=10 duration=30s"
        ],
    );
    check(
        "open const(5,1m) arrivals=random",
        expect![
            "kneepoint profile: `random`: arrivals is even or poisson(SEED), such as poisson(1)"
        ],
    );
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
