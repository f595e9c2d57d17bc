//! Signals at random moments to each process that a run has: nothing is left, nothing stands still, and no finished step is lost.
//!
//! `cargo xtask signals --count 1000` runs this with more of them.

use crate::support::by_hand::ByHand;
use crate::support::company::alone;
use crate::support::{
    assert_nothing_left, children, kneepoint, needs_root, start, text, traces, waiting_site,
};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How many there are in `make test`.
const USUAL: u64 = 60;
/// So many runs at a time. What one leaves must not be swept away by another, so all are looked at before the next begin.
const AT_A_TIME: u64 = 15;
/// So many of the first are the worst that can happen to a run: its program is killed.
const KILLS: u64 = 20;
/// Longest time until a run has ended that was asked to.
const LIMIT: Duration = Duration::from_secs(60);

/// Who gets a signal.
#[derive(Debug, Clone, Copy)]
enum Victim {
    /// The program that measures, whose threads are the generator.
    Owner,
    /// Who owns its lab.
    Keeper,
    /// The first process of one of its hosts.
    First,
    /// The program that shows a trace.
    Viewer,
    /// Who traces for it.
    Tracer,
    /// A generator by itself.
    Generator,
}
use Victim::{First, Generator, Keeper, Owner, Tracer, Viewer};

/// Half of the signals go to runs with a lab, which have the most to leave.
const VICTIMS: [Victim; 8] = [
    Owner, Owner, Keeper, Keeper, First, Viewer, Tracer, Generator,
];
const SIGNALS: [&str; 4] = ["-KILL", "-TERM", "-HUP", "-STOP"];

/// Numbers that follow from a seed (xorshift64).
struct Random(u64);

impl Random {
    fn of(seed: u64, nth: u64) -> Self {
        let mixed = seed ^ nth.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(mixed | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[(self.next() >> 11) as usize % all.len()]
    }

    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// One signal to one process.
#[derive(Debug)]
struct Shot {
    nth: u64,
    victim: Victim,
    signal: &'static str,
    /// What the run does.
    command: &'static str,
    moment: Duration,
    /// How long a stopped process stands still.
    still: Duration,
}

impl Shot {
    fn of(seed: u64, nth: u64) -> Self {
        let mut random = Random::of(seed, nth);
        random.next();
        let share = random.share();
        let (victim, signal) = match nth < KILLS {
            true => (Owner, "-KILL"),
            false => (random.pick(&VICTIMS), random.pick(&SIGNALS)),
        };
        Self {
            nth,
            victim,
            signal,
            command: random.pick(&["limit", "tune"]),
            // Half of the moments fall into the first quarter, where everything is being made; a third are behind the first
            // step.
            moment: Duration::from_secs_f64(12.0 * share * share + 0.01),
            still: Duration::from_secs_f64(1.5 * random.share()),
        }
    }
}

fn send(signal: &str, pid: u32) {
    // One that has ended meanwhile is as good.
    let mut kill = Command::new("kill");
    let _ = kill
        .args([signal, &pid.to_string()])
        .stderr(Stdio::null())
        .status();
}

/// Whom the signal of a shot goes to; the owner where there is nobody else yet.
fn whom(victim: Victim, owner: u32) -> u32 {
    let below = |pid: u32, name: &str| {
        let is_it = |pid: &u32| {
            let comm = fs::read_to_string(format!("/proc/{pid}/comm"));
            comm.is_ok_and(|comm| comm.trim() == name)
        };
        children(pid).into_iter().find(is_it)
    };
    let keeper = || below(owner, "kneepoint-keep");
    let found = match victim {
        Owner | Viewer | Generator => None,
        Keeper => keeper(),
        First => keeper().and_then(|keeper| below(keeper, "kneepoint-first")),
        Tracer => children(owner).first().copied(),
    };
    found.unwrap_or(owner)
}

/// Steps and lines of the journal that the file of the only run in a directory holds; `None` without a file.
fn kept(runs: &Path) -> Option<(usize, usize)> {
    let file = fs::read_dir(runs).ok()?.flatten().find(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().ends_with(".kneepoint.sqlite")
    })?;
    let output = kneepoint()
        .arg("report")
        .arg(file.path())
        .args(["--format", "json"])
        .output()
        .expect("report");
    // A file that has only been made has no run in it yet.
    let run: Value = serde_json::from_slice(&output.stdout).ok()?;
    let count = |name: &str| run["run"][name].as_array().map(Vec::len);
    Some((count("trials")?, count("journal")?))
}

/// Waits for the end of a program, which must come by itself once it is asked for.
fn ended(mut child: Child, shot: &Shot) {
    let end = Instant::now() + LIMIT;
    while child.try_wait().expect("waitable").is_none() {
        if Instant::now() > end {
            let stack = fs::read_to_string(format!("/proc/{}/stack", child.id()));
            let _ = child.kill();
            let _ = child.wait();
            panic!("{shot:?}: it stands still: {stack:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends the signal, lets a stopped process go on, and asks for the end.
fn shoot(shot: &Shot, owner: u32) {
    let pid = whom(shot.victim, owner);
    send(shot.signal, pid);
    if shot.signal == "-STOP" {
        std::thread::sleep(shot.still);
        send("-CONT", pid);
    }
    std::thread::sleep(Duration::from_millis(300));
    send("-INT", owner);
}

/// A signal to a run with a lab.
/// How many steps and lines it had written down before, none of which was lost.
fn at_a_run(shot: &Shot, site: &Path, directory: &Path) -> usize {
    let own = directory.join(shot.nth.to_string());
    let [labs, runs] = ["labs", "runs"].map(|name| own.join(name));
    for dir in [&own, &labs, &runs] {
        fs::create_dir(dir).expect("a directory");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(dir, mode).expect("opened");
    }
    let child = kneepoint()
        .env("TMPDIR", &labs)
        .arg(shot.command)
        .arg(site.join("kneepoint.toml"))
        .args(["--budget", "5m", "--no-report", "--runs"])
        .arg(&runs)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("kneepoint starts");
    std::thread::sleep(shot.moment);
    let before = kept(&runs);
    shoot(shot, child.id());
    ended(child, shot);
    let after = kept(&runs);
    let kept = before.map_or(0, |(steps, lines)| steps + lines);
    let holds = match (before, after) {
        (Some(before), Some(after)) => after.0 >= before.0 && after.1 >= before.1,
        (before, _) => before.is_none(),
    };
    assert!(
        holds,
        "{shot:?}: {before:?} steps and lines, then {after:?}"
    );
    let end = Instant::now() + Duration::from_secs(15);
    loop {
        let left: Vec<PathBuf> = fs::read_dir(&labs)
            .expect("a directory")
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().contains("/kneepoint-"))
            .collect();
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < end, "{shot:?} left {left:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    fs::remove_dir_all(&own).expect("removed");
    kept
}

/// Servers that go on, and are traced by one at a time.
struct Bystanders {
    servers: ByHand,
    traced: Mutex<()>,
}

impl Bystanders {
    /// A signal to a trace of their workers, which go on.
    fn at_a_trace(&self, shot: &Shot) {
        let _one = self.traced.lock().unwrap_or_else(PoisonError::into_inner);
        let load = start(&mut self.servers.load(&["-z", "5m"]));
        let mut command = kneepoint();
        command.args(self.servers.long_trace());
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("kneepoint starts");
        std::thread::sleep(shot.moment.min(Duration::from_secs(2)));
        shoot(shot, child.id());
        ended(child, shot);
        let end = Instant::now() + Duration::from_secs(20);
        while !self.are_free() {
            assert!(Instant::now() < end, "{shot:?}: a worker is held");
            std::thread::sleep(Duration::from_millis(20));
        }
        send("-INT", load.id());
        ended(load, shot);
        let asked = self.servers.load(&["-n", "10"]).output().expect("load");
        assert!(asked.status.success(), "{shot:?}: {}", text(&asked.stderr));
    }

    /// Whether no worker is traced or stopped.
    fn are_free(&self) -> bool {
        children(self.servers.fpm()).iter().all(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let is_stopped = status.contains("State:\tT") || status.contains("State:\tt");
            status.contains("TracerPid:\t0\n") && !is_stopped
        })
    }

    fn at_a_generator(&self, shot: &Shot) {
        let child = start(&mut self.servers.load(&["-z", "5m"]));
        std::thread::sleep(shot.moment.min(Duration::from_secs(2)));
        shoot(shot, child.id());
        ended(child, shot);
    }
}

/// How many signals, and the seed of the first.
fn wanted() -> (u64, u64) {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let now = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(1, |since| since.as_nanos() as u64)
    };
    (
        number("KNEEPOINT_SIGNALS").unwrap_or(USUAL),
        number("KNEEPOINT_SIGNALS_SEED").unwrap_or_else(now),
    )
}

#[test]
fn signals_at_random_moments_leave_nothing_and_lose_nothing() {
    if !needs_root("signals_at_random_moments_leave_nothing_and_lose_nothing") {
        return;
    }
    let _place = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let site = waiting_site(directory.path(), "site", 5);
    let others = Bystanders {
        servers: ByHand::start(),
        traced: Mutex::new(()),
    };
    let (count, seed) = wanted();
    let steps = AtomicUsize::new(0);
    eprintln!("{count} signals, seed {seed}");
    for first in (0..count).step_by(AT_A_TIME as usize) {
        let shots: Vec<Shot> = (first..count.min(first + AT_A_TIME))
            .map(|nth| Shot::of(seed, nth))
            .collect();
        let before = traces();
        std::thread::scope(|scope| {
            for shot in &shots {
                let (site, directory, others, steps) = (&site, directory.path(), &others, &steps);
                scope.spawn(move || match shot.victim {
                    Owner | Keeper | First => {
                        steps.fetch_add(at_a_run(shot, site, directory), Ordering::Relaxed);
                    }
                    Viewer | Tracer => others.at_a_trace(shot),
                    Generator => others.at_a_generator(shot),
                });
            }
        });
        assert_nothing_left(&before, &format!("seed {seed}: {shots:?}"));
        if count > USUAL {
            eprintln!("{} of {count}", first + shots.len() as u64);
        }
    }
    let steps = steps.into_inner();
    eprintln!(
        "{count} signals: {steps} finished steps and lines of journals, none lost; nothing left, nothing stands still"
    );
    assert!(
        steps > 0 || count < USUAL,
        "no run had written anything down"
    );
}
