//! Learning from what a real nginx wrote: traffic with a known mix and known pauses, logged in several formats at
//! once, must be learnt back.
//!
//! What can be learnt depends on what was logged:
//!
//! - `$msec` and `$request_time` (to the millisecond): everything;
//! - whole seconds with `$request_time`: the mix, the visits and the *mean* think time, since rounding takes from one
//!   pause what it adds to another. Not the shape of think times below some seconds, and not which requests ran
//!   side by side;
//! - `combined` (whole seconds, no duration): the mix and the visits. The time from one line of a visitor to the
//!   next is think time *and* the duration of the request, and nothing in the log tells them apart: that sum is
//!   learnt, and a note says so.

#![allow(
    clippy::disallowed_methods,
    reason = "a test starts its own servers and ends them by their process id"
)]

#[path = "../../../tests/ports.rs"]
mod ports;

use kneepoint_access_log::{LearnOptions, Learned, learn};
use kneepoint_model::ThinkTime;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);
const VISITORS: u64 = 60;
/// How long visitors go on.
const TRAFFIC: Duration = Duration::from_secs(12);
const MEAN_PAUSE_S: f64 = 0.3;
/// How long the slow page takes: long enough that mistaking it for thinking would show.
const SLOW: Duration = Duration::from_millis(200);

/// The mix, as what each visitor does twenty times in an order of its own: name of the route, how often.
const DECK: &[(&str, usize)] = &[
    ("/", 7),
    ("/post/{n}", 5),
    ("/search?q=red&page={n}", 2),
    ("/slow", 4),
    ("/theme/*.css", 1),
    ("/gone", 1),
];

const TIMED: &str = r#"$remote_addr $msec $request_time "$request" $status "$cookie_visitor""#;

/// A nginx with its logs, in front of a slow page. It ends with the test, by its process id.
struct Logged {
    address: SocketAddr,
    dir: TempDir,
    master: Child,
}

/// Answers every request after a while, for as long as the process lasts.
fn slow_page() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                while head(&mut reader).is_some() {
                    thread::sleep(SLOW);
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow";
                    if reader.get_mut().write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// The lines of a head; `None` at the end of the connection.
fn head(reader: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        match line.trim_end() {
            "" => return Some(lines),
            text => lines.push(text.to_owned()),
        }
    }
}

impl Logged {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        let address = SocketAddr::from(([127, 0, 0, 1], ports::free_port()));
        let config = format!(
            "daemon off;\nuser root;\nworker_processes 1;\npid ROOT/nginx.pid;\n\
             events {{ worker_connections 512; }}\n\
             http {{\n client_body_temp_path ROOT/body;\n proxy_temp_path ROOT/proxy;\n\
             fastcgi_temp_path ROOT/fastcgi;\n uwsgi_temp_path ROOT/uwsgi;\n scgi_temp_path ROOT/scgi;\n\
             log_format timed '{TIMED}';\n\
             log_format seconds '$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent '\n\
             '\"$http_referer\" \"$http_user_agent\" $request_time';\n\
             log_format object escape=json '{{\"time\":\"$msec\",\"request_time\":\"$request_time\",'\n\
             '\"request\":\"$request\",\"status\":\"$status\",\"remote_addr\":\"$remote_addr\",'\n\
             '\"http_user_agent\":\"$http_user_agent\"}}';\n\
             access_log ROOT/timed.log timed;\n access_log ROOT/seconds.log seconds;\n\
             access_log ROOT/object.log object;\n access_log ROOT/combined.log combined;\n\
             server {{\n listen {address};\n\
             location / {{ return 200 page; }}\n location = /gone {{ return 404 gone; }}\n\
             location = /slow {{ proxy_pass http://{}; }}\n }}\n}}\n",
            slow_page()
        )
        .replace("ROOT", &dir.path().display().to_string());
        let path = dir.path().join("nginx.conf");
        fs::write(&path, config).expect("written");
        let master = Command::new("nginx")
            .arg("-p")
            .arg(dir.path())
            .arg("-e")
            .arg(dir.path().join("nginx.log"))
            .arg("-c")
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("nginx: {error}; run scripts/install-deps"));
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(began.elapsed() < PATIENCE, "nginx does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        Self {
            address,
            dir,
            master,
        }
    }

    /// What is learnt from one of the logs once it has this many lines.
    fn learn(&self, log: &str, lines: usize, format: Option<&str>) -> Learned {
        let path = self.dir.path().join(log);
        let began = Instant::now();
        loop {
            let text = fs::read(&path).expect("the log");
            if text.iter().filter(|byte| **byte == b'\n').count() >= lines {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{log} lacks lines");
            thread::sleep(Duration::from_millis(50));
        }
        let options = LearnOptions {
            format: format.map(str::to_owned),
            ..LearnOptions::default()
        };
        let file = fs::File::open(&path).expect("the log");
        learn(BufReader::new(file), &options).unwrap_or_else(|error| panic!("{log}: {error}"))
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        // The master ends its workers when it is asked to, and orphans them when it is killed.
        let _ = kill_process(Pid::from_child(&self.master), Signal::TERM);
        let _ = self.master.wait();
    }
}

/// Random numbers that are the same in every run: a linear congruential generator (Knuth's MMIX), upper bits.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, bound: usize) -> usize {
        ((self.uniform() * bound as f64) as usize).min(bound - 1)
    }
}

/// What a visitor did.
#[derive(Default)]
struct Done {
    requests: usize,
    /// Seconds from the end of each response to the next request, as they really were: a busy machine wakes late.
    pauses_s: Vec<f64>,
    /// Seconds that each request but the first took.
    took_s: Vec<f64>,
}

/// A visitor with a connection, a cookie and a browser of its own.
fn visit(address: SocketAddr, number: u64) -> Done {
    let mut random = Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for _ in 0..4 {
        random.uniform();
    }
    let stream = TcpStream::connect(address).expect("nginx listens");
    stream.set_nodelay(true).expect("a socket");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut reader = BufReader::new(stream);
    let mut done = Done::default();
    let mut deck: Vec<usize> = Vec::new();
    thread::sleep(Duration::from_secs_f64(random.uniform() * MEAN_PAUSE_S));
    let began = Instant::now();
    let mut answered: Option<Instant> = None;
    while began.elapsed() < TRAFFIC {
        if deck.is_empty() {
            let cards = DECK.iter().enumerate();
            deck = cards.flat_map(|(card, (_, n))| vec![card; *n]).collect();
        }
        let card = deck.swap_remove(random.below(deck.len()));
        let path = DECK[card].0.replace("{n}", &random.below(40).to_string());
        let path = path.replace('*', "site");
        let sent = Instant::now();
        get(&mut reader, &path, number);
        let now = Instant::now();
        if let Some(before) = answered {
            done.pauses_s.push((sent - before).as_secs_f64());
            done.took_s.push((now - sent).as_secs_f64());
        }
        answered = Some(now);
        done.requests += 1;
        let pause_s = -(1.0 - random.uniform()).ln() * MEAN_PAUSE_S;
        thread::sleep(Duration::from_secs_f64(pause_s));
    }
    done
}

/// Asks and reads the whole answer. Tells its status.
fn get(reader: &mut BufReader<TcpStream>, path: &str, visitor: u64) -> u16 {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: site.test\r\nUser-Agent: browser/{visitor}\r\nCookie: theme=dark; visitor={visitor}\r\n\r\n"
    );
    let stream = reader.get_mut();
    stream.write_all(request.as_bytes()).expect("sent");
    let lines = head(reader).expect("nginx hung up");
    let status = lines[0]
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok());
    let length = lines.iter().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let length = name.eq_ignore_ascii_case("content-length");
        length.then(|| value.trim().parse().expect("a length"))
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).expect("the body");
    status.expect("a status")
}

/// Everybody's visit at once.
fn traffic(address: SocketAddr) -> Done {
    let visitors: Vec<_> = (1..=VISITORS)
        .map(|number| thread::spawn(move || visit(address, number)))
        .collect();
    let mut all = Done::default();
    for visitor in visitors {
        let done = visitor.join().expect("a whole visit");
        all.requests += done.requests;
        all.pauses_s.extend(done.pauses_s);
        all.took_s.extend(done.took_s);
    }
    all
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[track_caller]
fn within(what: &str, learned: f64, known: f64, share: f64) {
    assert!(
        (learned / known - 1.0).abs() <= share,
        "{what}: learned {learned:.4}, known {known:.4}"
    );
}

/// The mix within 2 points, in the routes and in the requests of the workload.
#[track_caller]
fn check_mix(log: &str, learned: &Learned) {
    let all: usize = DECK.iter().map(|(_, n)| n).sum();
    assert_eq!(
        learned.folded.len(),
        DECK.len(),
        "{log}: {:?}",
        learned.folded
    );
    let total: f64 = learned.workload.requests.iter().map(|r| r.weight).sum();
    for (template, n) in DECK {
        let known = *n as f64 / all as f64;
        let route = learned
            .folded
            .iter()
            .find(|route| route.template == *template);
        let route = route.unwrap_or_else(|| panic!("{log}: no {template} in {:?}", learned.folded));
        assert!((route.share - known).abs() <= 0.02, "{log}: {route:?}");
        let start = template.split(['{', '*']).next().expect("a beginning");
        let same = |path: &str| match start {
            "/" => path == "/",
            start => path.starts_with(start),
        };
        let requests = learned.workload.requests.iter().filter(|r| same(&r.path));
        let share = requests.map(|r| r.weight).sum::<f64>() / total;
        assert!(
            (share - known).abs() <= 0.02,
            "{log}: {template} replayed at {share}"
        );
    }
}

/// The mean of the pauses the engine would make.
fn replayed_pause_s(learned: &Learned) -> f64 {
    let sessions = learned
        .workload
        .sessions
        .as_ref()
        .expect("visitors are known");
    let ThinkTime::Empirical { quantiles } = &sessions.think_time else {
        panic!("{:?}", sessions.think_time)
    };
    let steps: Vec<f64> = quantiles
        .windows(2)
        .map(|pair| (pair[0] + pair[1]).as_secs_f64() / 2.0)
        .collect();
    mean(&steps)
}

fn said(learned: &Learned, words: &str) -> bool {
    learned.notes.iter().any(|note| note.contains(words))
}

/// What every log with durations teaches of the visitors.
#[track_caller]
fn check_visits(log: &str, learned: &Learned, done: &Done) {
    let requests = done.requests as f64;
    assert_eq!(
        (learned.lines, learned.bad_lines),
        (done.requests as u64, 0),
        "{log}"
    );
    let visiting = learned.visiting.as_ref().expect("visitors are known");
    assert_eq!(
        (visiting.visits, visiting.visitors),
        (VISITORS, VISITORS),
        "{log}"
    );
    within(
        log,
        visiting.mean_requests,
        requests / VISITORS as f64,
        1e-9,
    );
    let pause_s = mean(&done.pauses_s);
    within(log, visiting.think_mean.as_secs_f64(), pause_s, 0.1);
    // The engine pauses for all of them, those at once included, and these are few.
    within(log, replayed_pause_s(learned), pause_s, 0.1);
    assert!(
        visiting.at_once * 20 < visiting.thoughts,
        "{log}: {visiting:?}"
    );
    within(
        log,
        learned.rate_hz,
        requests / learned.span.as_secs_f64(),
        1e-9,
    );
    let twice = learned.schedule_at(2.0).total_area();
    within(log, twice, 2.0 * VISITORS as f64, 1e-6);
}

#[test]
fn the_mix_and_the_think_time_are_learnt_back_from_nginx() {
    let logged = Logged::start();
    let done = traffic(logged.address);
    let (pause_s, took_s) = (mean(&done.pauses_s), mean(&done.took_s));
    assert!(done.pauses_s.len() > 1000, "{} pauses", done.pauses_s.len());

    for (log, format) in [
        ("timed.log", Some(TIMED)),
        ("object.log", None),
        ("seconds.log", None),
    ] {
        let learned = logged.learn(log, done.requests, format);
        check_mix(log, &learned);
        check_visits(log, &learned, &done);
        assert!(
            !said(&learned, "no durations"),
            "{log}: {:?}",
            learned.notes
        );
        assert_eq!(said(&learned, "whole seconds"), log == "seconds.log");
    }

    // Median of an exponential distribution; only a log to the millisecond can tell.
    let timed = logged.learn("timed.log", done.requests, Some(TIMED));
    let median_s = timed.visiting.as_ref().expect("visitors").think_median;
    within("median", median_s.as_secs_f64(), pause_s * 2f64.ln(), 0.15);

    // Without durations the sum is learnt, and said to be one.
    let combined = logged.learn("combined.log", done.requests, None);
    assert_eq!(combined.format, "combined");
    check_mix("combined.log", &combined);
    let visiting = combined.visiting.as_ref().expect("visitors are known");
    let sum_s = visiting.think_mean.as_secs_f64();
    within("combined.log", sum_s, pause_s + took_s, 0.1);
    assert!(said(&combined, "no durations"), "{:?}", combined.notes);

    replay(logged.address, &timed);
}

/// What was learnt can be sent, and is answered as the log said.
fn replay(address: SocketAddr, learned: &Learned) {
    kneepoint_model::check_workload(&learned.workload).expect("it can be sent");
    let stream = TcpStream::connect(address).expect("nginx listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut reader = BufReader::new(stream);
    let mut refused = 0;
    for request in &learned.workload.requests {
        let status = get(&mut reader, &request.path, 0);
        assert!(request.expect.accepts(status), "{status} for {request:?}");
        refused += usize::from(status == 404);
    }
    assert_eq!(refused, 1, "the log has one path that is gone");
}
