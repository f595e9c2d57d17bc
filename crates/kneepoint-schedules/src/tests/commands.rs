//! Command lines of other tools.

use super::{check, check_load, parse};
use expect_test::expect;

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
        expect![
            "ab: `10`: more workers than requests, of which there are 1; write a -n of at least 10"
        ],
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
        expect![[r#"
            open const(1.6666666666666667,90s) first=interval arrivals=even keep-alive=yes timeout=30s method=GET url=http://127.0.0.1/
            note='vegeta follows up to 10 redirects; here a redirect is an answer and is not followed.'"#]],
    );
    check_load(
        "vegeta attack -duration 5s -keepalive=false -header 'A: b'",
        expect![
            "open const(50,5s) first=interval arrivals=even keep-alive=no timeout=30s header='A: b'"
        ],
    );
    check(
        "vegeta attack -rate 0 -max-workers 20 -duration 10s -timeout 0 -redirects -1",
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
        closed workers=20 ramp=0s think=none duration=unlimited requests=10000 connections=20 keep-alive=yes header='Accept-Encoding: gzip, compress, deflate, br' url=http://h/
        note='oha follows up to 10 redirects; here a redirect is an answer and is not followed.'
        note='oha leaves requests that timed out out of its percentiles; here they count.'"#]],
    );
    check(
        "oha -z 1m30s -q 200.5 -n 5 --disable-keepalive -t 2s http://h/",
        expect![[r#"
            open const(200.5,90s) first=start arrivals=even connections=50 keep-alive=no timeout=2s header='Accept-Encoding: gzip, compress, deflate, br' url=http://h/
            note='oha counts a response time from when a worker takes the request up; here it counts from when the schedule wanted it sent.'
            note='oha follows up to 10 redirects; here a redirect is an answer and is not followed.'
            note='oha leaves requests that timed out out of its percentiles; here they count.'
            note='oha drops what is on its way when the time is up; here it is waited for and counts.'"#]],
    );
    check_load(
        "oha -n 300 -q 100 -m POST -d '{\"a\": \"it''s\"}' -T application/json http://h/",
        expect![[
            r#"open const(100,3s) first=start arrivals=even connections=50 keep-alive=yes method=POST header='Content-Type: application/json' header='Accept-Encoding: gzip, compress, deflate, br' data='{"a": "its"}' url=http://h/"#
        ]],
    );
    check(
        "oha -z 1s -w -d abc -r 0 --disable-compression http://h/",
        expect![[r#"
            closed workers=50 ramp=0s think=none duration=1s connections=50 keep-alive=yes method=GET data=abc url=http://h/
            note='oha leaves requests that timed out out of its percentiles; here they count.'"#]],
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
fn a_header_that_closes_connections_is_taken_for_what_it_does() {
    for command in [
        "ab -k -H 'Connection: close' http://h/",
        "wrk -H 'Connection: close' http://h/",
        "oha -H 'connection: Close' http://h/",
        "vegeta attack -duration 1s -header 'Connection: close'",
    ] {
        let read = parse(command).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read.keep_alive, Some(false), "{command}");
        let mut names = read.headers.iter().map(|(name, _)| name);
        assert!(
            !names.any(|name| name.eq_ignore_ascii_case("connection")),
            "{command}"
        );
    }
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
    let group = "<ThreadGroup><stringProp name=\"LoopController.loops\">7</stringProp><stringProp \
                 name=\"ThreadGroup.num_threads\">12</stringProp></ThreadGroup>";
    check_load(
        &format!("{group}<stringProp name=\"LoopController.loops\">99</stringProp>"),
        expect!["closed workers=12 ramp=0s think=none duration=unlimited loops=7 connections=12"],
    );
    check(
        &format!("{group}{group}"),
        expect![
            "JMeter threads: `<ThreadGroup`: only one thread group can be read at a time; write the one that is meant"
        ],
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
