//! Real workers that execute a known call graph: every stack that is read must be a path of it, line by line.

#![expect(
    clippy::disallowed_methods,
    reason = "this crate knows no lab: its tests start and end the server themselves"
)]

mod rig;

use kneepoint_model::Place;
use kneepoint_profiler::{
    Attached, Pools, ProfilerError, RecordOptions, Sample, SampleOutcome, Sampler, record,
};
use rig::Rig;
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const ONE_WORKER: &str = "pm = static\npm.max_children = 1";

/// Workers of one test would take the CPU from those of another.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What may call what, from the marks in the scripts: see the head of graph/index.php.
struct Graph {
    /// The function a line belongs to, by file and line.
    owners: HashMap<(String, u32), String>,
    /// What a line calls.
    calls: HashMap<(String, u32), Vec<String>>,
    /// What a function without lines calls.
    internal: HashMap<String, Vec<String>>,
}

fn names(text: &str) -> Vec<String> {
    text.split(", ")
        .map(|name| name.trim().to_owned())
        .collect()
}

impl Graph {
    fn read() -> Self {
        let mut graph = Self {
            owners: HashMap::new(),
            calls: HashMap::new(),
            internal: HashMap::new(),
        };
        let files = [
            ("index.php", include_str!("graph/index.php")),
            ("part.php", include_str!("graph/part.php")),
        ];
        for (file, text) in files {
            let mut owner = String::new();
            for (line, text) in (1..).zip(text.lines()) {
                if let Some((_, name)) = text.split_once("//= ") {
                    owner = name.trim().to_owned();
                }
                let here = (file.to_owned(), line);
                if let Some((_, callees)) = text.split_once("//> ") {
                    graph.calls.insert(here.clone(), names(callees));
                }
                if let Some((name, callees)) = text
                    .strip_prefix("//@ ")
                    .and_then(|rest| rest.split_once(" > "))
                {
                    graph.internal.insert(name.to_owned(), names(callees));
                }
                graph.owners.insert(here, owner.clone());
            }
        }
        graph
    }

    /// Why a stack is no path of the graph that begins at its root, whatever its lines.
    fn wrong(&self, stack: &[Place]) -> Option<String> {
        let first = stack.first().map(name);
        if first.as_deref() != Some("main index.php") {
            return Some(format!("begins with {first:?}"));
        }
        stack.windows(2).find_map(|pair| {
            let (caller, callee) = (name(&pair[0]), name(&pair[1]));
            let lines = self
                .calls
                .iter()
                .filter(|(line, _)| self.owners.get(line) == Some(&caller));
            let mut callees = lines
                .map(|(_, callees)| callees)
                .chain(self.internal.get(&caller));
            let allowed = callees.any(|callees| callees.contains(&callee));
            (!allowed).then(|| format!("{caller} calls {callee}"))
        })
    }

    /// Why the lines of a stack cannot be: a caller is where it calls the next, the last within its function.
    fn wrong_line(&self, stack: &[Place]) -> Option<String> {
        for (index, frame) in stack.iter().enumerate() {
            let Some(here) = place(frame) else {
                continue;
            };
            if self.owners.get(&here) != Some(&name(frame)) {
                return Some(format!("{} is said to be at {here:?}", name(frame)));
            }
            let Some(callee) = stack.get(index + 1).map(name) else {
                continue;
            };
            if !self
                .calls
                .get(&here)
                .is_some_and(|callees| callees.contains(&callee))
            {
                return Some(format!("{} at {here:?} calls {callee}", name(frame)));
            }
        }
        None
    }
}

/// A function as the marks name it, whatever directory and version.
fn name(frame: &Place) -> String {
    let function = frame.function.as_str();
    if function.contains("{closure") {
        return "{closure}".to_owned();
    }
    match function.split_once(" /") {
        Some(("eval", _)) => "eval".to_owned(),
        Some((how, path)) => format!("{how} {}", path.rsplit('/').next().unwrap_or_default()),
        None => function.to_owned(),
    }
}

/// File and line, when the marks know the file.
fn place(frame: &Place) -> Option<(String, u32)> {
    let file = frame.file.as_deref()?.rsplit('/').next()?;
    (!file.contains("eval()'d code")).then_some(())?;
    Some((file.to_owned(), frame.line?))
}

#[derive(Default)]
struct Tally {
    ok: u64,
    salvaged: u64,
    errors: BTreeMap<&'static str, u64>,
    idle: u64,
    engine: u64,
    wrong: Vec<String>,
    wrong_lines: Vec<String>,
    untagged: u64,
    deepest: usize,
    seen: BTreeMap<String, u64>,
    cost_s: f64,
}

impl Tally {
    fn add(&mut self, graph: &Graph, sample: &Sample) {
        match sample.outcome {
            SampleOutcome::Ok => self.ok += 1,
            SampleOutcome::Salvaged => self.salvaged += 1,
            SampleOutcome::Error(why) => *self.errors.entry(why).or_default() += 1,
            SampleOutcome::Idle => self.idle += 1,
            SampleOutcome::Gone => panic!("the worker ended"),
        }
        if sample.stack.is_empty() {
            self.engine += u64::from(sample.outcome == SampleOutcome::Ok);
            return;
        }
        let request = &sample.request;
        let tagged = request.path.as_deref() == Some("/known/route")
            && request.method.as_deref() == Some("GET")
            && request
                .id
                .as_deref()
                .is_some_and(|id| id.starts_with("req-"));
        self.untagged += u64::from(!tagged);
        self.deepest = self.deepest.max(sample.stack.len());
        for name in sample.stack.iter().map(name).collect::<BTreeSet<_>>() {
            *self.seen.entry(name).or_default() += 1;
        }
        if let Some(why) = graph.wrong(&sample.stack) {
            self.wrong.push(format!("{:?}: {why}", sample.outcome));
        } else if let Some(why) = graph.wrong_line(&sample.stack) {
            self.wrong_lines
                .push(format!("{:?}: {why}", sample.outcome));
        }
    }

    fn error(&self) -> u64 {
        self.errors.values().sum()
    }

    fn busy(&self) -> u64 {
        self.ok + self.salvaged + self.error()
    }
}

/// CPU time of this thread, in seconds.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Samples a worker until this many samples found it busy.
fn sample(pid: u32, rate_hz: u32, samples: u64) -> (Attached, Tally) {
    let graph = Graph::read();
    let mut sampler = Sampler::new();
    let attached = sampler.attach(pid).expect("a PHP worker");
    let mut tally = Tally::default();
    let period = Duration::from_secs(1) / rate_hz;
    let mut due = Instant::now();
    while tally.busy() < samples {
        let before = cpu_s();
        let sample = sampler.sample(pid);
        tally.cost_s += cpu_s() - before;
        tally.add(&graph, &sample);
        assert!(tally.idle < 10 * samples, "the worker gets no requests");
        due = (due + period).max(Instant::now());
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    (attached, tally)
}

/// A row of the table, and what was wrong.
#[expect(clippy::print_stderr, reason = "the table is what the test is run for")]
fn show(attached: &Attached, mode: &str, rate_hz: u32, tally: &Tally) {
    let busy = tally.busy();
    eprintln!(
        "| {} | {mode} | {rate_hz} | {busy} | {} | {} | {} | {} | {} | {} | {} | {:.0} |",
        attached.version,
        tally.ok,
        tally.salvaged,
        tally.error(),
        tally.wrong.len(),
        tally.wrong_lines.len(),
        tally.engine,
        tally.deepest,
        tally.cost_s / (busy + tally.idle) as f64 * 1e6,
    );
    for wrong in tally.wrong.iter().take(20) {
        eprintln!("  wrong: {wrong}");
    }
    let mut lines: BTreeMap<&str, u64> = BTreeMap::new();
    for wrong in &tally.wrong_lines {
        *lines.entry(wrong).or_default() += 1;
    }
    for (wrong, count) in lines {
        eprintln!("  wrong line: {count} times {wrong}");
    }
    for (why, count) in &tally.errors {
        eprintln!("  error: {count} times {why}");
    }
}

/// What must hold on every PHP: wrong stacks at most 1 in 5 000, errors at most 0.1 %. Of all samples together, since a
/// few thousand do not tell so small a share; and with what chance makes of a share that is just kept.
fn judge(tallies: &[Tally]) {
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let busy = sum(Tally::busy);
    for (what, count, most) in [
        ("wrong", sum(|tally| tally.wrong.len() as u64), 5000),
        ("errors", sum(Tally::error), 1000),
        // Between the stack and the tag a request may end: more often where others take the CPU from the sampler.
        ("without their request", sum(|tally| tally.untagged), 200),
    ] {
        let allowed = by_chance(busy as f64 / f64::from(most));
        assert!(
            count <= allowed,
            "{count} {what} of {busy} samples, {allowed} by chance"
        );
    }
}

/// The largest count that a Poisson variable of this mean exceeds less often than once in a thousand times.
fn by_chance(mean: f64) -> u64 {
    let mut term = (-mean).exp();
    let (mut count, mut at_most) = (0, term);
    while at_most < 0.999 {
        count += 1;
        term *= mean / count as f64;
        at_most += term;
    }
    count
}

#[test]
fn chance_is_allowed_for_and_no_more() {
    // Tables of the Poisson distribution: P(X > 12 | 4.6) = 0.0010, P(X > 11 | 4.6) = 0.0030.
    assert_eq!(by_chance(4.6), 12);
    assert_eq!(by_chance(0.0), 0);
    assert_eq!(by_chance(1.0), 5);
}

/// Runs the graph on one worker and samples it.
fn check(ini: &[&str], rate_hz: u32, samples: u64) -> Option<Tally> {
    let _alone = alone();
    let rig = Rig::start(ONE_WORKER, ini)?;
    let version = rig.get("do=version");
    let mode = version.split(' ').nth(1).expect("a mode").to_owned();
    let _load = rig.load(1, "do=everything");
    let (attached, tally) = sample(rig.workers()[0], rate_hz, samples);
    assert!(version.starts_with(&attached.version), "{version}");
    show(&attached, &mode, rate_hz, &tally);
    Some(tally)
}

#[test]
fn every_stack_is_a_path_of_the_known_graph() {
    let opcache = [
        "zend_extension=opcache.so",
        "opcache.enable=1",
        "opcache.jit_buffer_size=0",
    ];
    let jit = [
        "zend_extension=opcache.so",
        "opcache.enable=1",
        "opcache.jit_buffer_size=32M",
        "opcache.jit=tracing",
    ];
    let modes: [(&[&str], u32, u64); 4] = [
        (&[], 997, 10_000),
        (&[], 99, 1000),
        (&opcache, 997, 10_000),
        (&jit, 997, 6000),
    ];
    let tallies: Option<Vec<Tally>> = modes
        .into_iter()
        .map(|(ini, rate_hz, samples)| check(ini, rate_hz, samples))
        .collect();
    let Some(tallies) = tallies else {
        return;
    };
    judge(&tallies);
    let seen: BTreeSet<&str> = tallies
        .iter()
        .flat_map(|tally| tally.seen.keys().map(String::as_str))
        .collect();
    // One of each kind of call: some take so little time that they may not be seen in ten seconds, least of all where
    // files are slow.
    for kind in [
        &["fib"][..],
        &["leaf"],
        &["compare"],
        &["numbers", "middle", "outer", "tree"],
        &["{closure}"],
        &["thrower"],
        &["deep"],
        &["eval", "include part.php"],
        &["array_map"],
        &["Known::act", "Known::inner", "Known::__call"],
    ] {
        assert!(
            kind.iter().any(|name| seen.contains(name)),
            "none of {kind:?} was seen: {seen:?}"
        );
    }
    let deepest = tallies.iter().map(|tally| tally.deepest).max();
    assert!(
        deepest > Some(1000),
        "the deep recursion was never seen whole: {deepest:?}"
    );
}

/// The process that traces a worker; 0 when there is none.
fn tracer(pid: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    line.expect("TracerPid").trim().to_owned()
}

#[test]
fn a_worker_is_idle_busy_asleep_and_gone_and_never_traced() {
    let _alone = alone();
    let Some(rig) = Rig::start(ONE_WORKER, &[]) else {
        return;
    };
    rig.get("do=version");
    let pid = rig.workers()[0];
    let mut sampler = Sampler::new();
    sampler.attach(pid).expect("a PHP worker");
    let idle = (0..500).any(|_| {
        thread::sleep(Duration::from_millis(10));
        let sample = sampler.sample(pid);
        sample.outcome == SampleOutcome::Idle && sample.stack.is_empty()
    });
    assert!(idle, "it answered its only request");
    let load = rig.load(1, "do=sleep");
    let asleep = (0..500).find_map(|_| {
        thread::sleep(Duration::from_millis(10));
        let sample = sampler.sample(pid);
        (sample.blocked() && !sample.stack.is_empty() && sample.outcome == SampleOutcome::Ok)
            .then_some(sample)
    });
    let asleep = asleep.expect("it sleeps");
    assert_eq!(
        asleep.stack.iter().map(name).collect::<Vec<_>>(),
        ["main index.php", "usleep"]
    );
    assert_eq!(
        asleep.request.path.as_deref(),
        Some("/known/route"),
        "without its query"
    );
    assert_eq!(tracer(pid), "0");
    let killed = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let gone = (0..500).any(|_| {
        thread::sleep(Duration::from_millis(10));
        match sampler.sample(pid).outcome {
            SampleOutcome::Gone => true,
            SampleOutcome::Error(why) => panic!("{why}"),
            _ => false,
        }
    });
    assert!(gone);
    drop(load);
}

#[test]
fn workers_of_a_master_that_come_and_go_are_no_errors() {
    let _alone = alone();
    let Some(rig) = Rig::start("pm = static\npm.max_children = 3\npm.max_requests = 2", &[]) else {
        return;
    };
    let _load = rig.load(3, "do=everything");
    let options = RecordOptions {
        pid: rig.master(),
        pools: Pools::All,
        rate_hz: 499,
        duration: Duration::from_secs(6),
        by_request: true,
        by_id: false,
    };
    let profile =
        record(&options, &mut |_| None, &|_| {}, &AtomicBool::new(false)).expect("a profile");
    let counts = profile.counts;
    assert!(
        profile.workers > 3,
        "workers were replaced: {}",
        profile.workers
    );
    assert!(
        // Three workers on few cores lose the CPU in the middle of things.
        counts.ok > 100 && counts.error * 100 <= counts.busy(),
        "{counts:?} {:?}",
        profile.errors
    );
    assert_eq!(profile.notes, Vec::<String>::new());
    let folded = profile.folded();
    let expected = |line: &String| {
        line.starts_with("GET /known/route;main /") && line.contains(";everything;")
    };
    assert!(folded.iter().any(expected), "{folded:?}");
    let costs = profile.costs();
    let fib = costs
        .iter()
        .find(|cost| cost.function == "fib")
        .expect("fib");
    assert!(
        fib.file
            .as_deref()
            .is_some_and(|file| file.ends_with("/index.php"))
            && fib.line.is_some()
    );
}

#[test]
fn what_is_no_php_is_refused_by_name() {
    let mut sampler = Sampler::new();
    let error = sampler.attach(std::process::id()).expect_err("no PHP");
    assert!(matches!(error, ProfilerError::NotPhp { .. }), "{error}");
    let nobody = sampler.sample(std::process::id());
    assert_eq!(nobody.outcome, SampleOutcome::Gone);
}
