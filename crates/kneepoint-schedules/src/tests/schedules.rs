//! Schedules, stages and phases of other tools.

use super::{check, check_load};
use expect_test::expect;

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
    check(
        "constant(50,1m)",
        expect![
            "yandex.tank schedule: `constant(50,1m)`: there is no `constant`; write const(RATE,DURATION), line(FROM,TO,DURATION) or step(FROM,TO,INCREMENT,DURATION)"
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
fn k6_command_lines() {
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
}

#[test]
fn k6_scenarios() {
    check(
        r#"[{"duration":"30s","target":100},{"duration":"1m","target":100}]"#,
        expect![[r#"
            open line(0,100,30s) const(100,60s) first=interval arrivals=even
            note='k6 takes stages without an executor for numbers of virtual users; here they are arrivals per second, as in its ramping-arrival-rate.'
            note='k6 drops an iteration when no virtual user is free; here it waits, and its wait counts.'"#]],
    );
    check_load(
        "export const options = { scenarios: { ramp: { executor: 'ramping-arrival-rate', startRate: 30, \
         timeUnit: '1m', preAllocatedVUs: 50, stages: [ { target: 600, duration: '2m' }, // up\n ], }, }, };",
        expect!["open line(0.5,10,120s) first=interval arrivals=even connections=50"],
    );
    check(
        "export const options = { stages: [ { target: 600, duration: '2m' } ] };",
        expect![[r#"
            open line(0,600,120s) first=interval arrivals=even
            note='k6 takes stages without an executor for numbers of virtual users; here they are arrivals per second, as in its ramping-arrival-rate.'
            note='k6 drops an iteration when no virtual user is free; here it waits, and its wait counts.'"#]],
    );
    check(
        r#"{"startRate":0,"stages":[{"target":600,"duration":"2m"}]}"#,
        expect![[r#"
            open line(0,600,120s) first=interval arrivals=even
            note='k6 drops an iteration when no virtual user is free; here it waits, and its wait counts.'"#]],
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
fn what_is_in_no_syntax_is_told_what_would_be() {
    check(
        "as fast as possible",
        expect![[
            r#"load profile: `as fast as possible`: this is in no syntax that is known; write for example `open const(50,60s) first=start arrivals=even` or `ab -n 1000 -c 10 -k http://127.0.0.1/` or `wrk -t2 -c10 -d10s http://127.0.0.1/` or `vegeta attack -rate 50/1s -duration 30s` or `oha -z 10s -c 50 -q 200 http://127.0.0.1/` or `k6 run -s 30s:100,1m:100 script.js` or `jmeter threads=10 ramp=5 loops=3` or `[{"duration":"30s","target":100}]` or `rate(1/sec) random_arrivals(2 min) rate(3/sec)` or `instances: ramp(10,30s) wait(5m)` or `line(1,50,2m) const(50,10m)`"#
        ]],
    );
    check(
        "",
        expect![[
            r#"load profile: ``: this is in no syntax that is known; write for example `open const(50,60s) first=start arrivals=even` or `ab -n 1000 -c 10 -k http://127.0.0.1/` or `wrk -t2 -c10 -d10s http://127.0.0.1/` or `vegeta attack -rate 50/1s -duration 30s` or `oha -z 10s -c 50 -q 200 http://127.0.0.1/` or `k6 run -s 30s:100,1m:100 script.js` or `jmeter threads=10 ramp=5 loops=3` or `[{"duration":"30s","target":100}]` or `rate(1/sec) random_arrivals(2 min) rate(3/sec)` or `instances: ramp(10,30s) wait(5m)` or `line(1,50,2m) const(50,10m)`"#
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
