//! Every way to end, and that nothing is left after any of them.

use crate::support::{
    assert_nothing_left, eventually, host, keeper_of, lab, namespaces_of, nginx, processes, redis,
    script, seen, sh,
};
use kneepoint_lab::{HostPlan, Lab, LabError, Removed};
use libtest_mimic::Failed;
use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// A lab with everything that could stay behind: workers, a daemon in a session of its own, another user's.
fn busy_lab() -> Lab {
    let lab = lab(&["web", "cache"]);
    let (web, cache) = (host(&lab, "web"), host(&lab, "cache"));
    lab.spawn("web", &nginx(&web, 8080)).expect("nginx starts");
    lab.spawn("cache", &redis(&cache, 6396))
        .expect("redis starts");
    let daemon = "(setsid sleep 600 &); (trap '' TERM INT HUP; sleep 600) & wait";
    let mut spec = script(&cache, daemon);
    spec.user = Some("nobody".into());
    spec.dir = "/".into();
    lab.spawn("cache", &spec).expect("the daemon starts");
    lab
}

/// Another process with a lab, to be ended in some way. `how`: `wait`, `churn`, `panic`.
pub(crate) fn victim(how: &str) -> ExitCode {
    let lab = busy_lab();
    let mut out = std::io::stdout();
    let told = writeln!(out, "{}", lab.id()).and_then(|()| out.flush());
    told.expect("the test reads");
    loop {
        match how {
            "panic" => panic!("as the test wants"),
            "churn" => {
                lab.add_host(HostPlan::new("more")).expect("added");
                lab.exec("more", &sh("sleep 600 & true")).expect("runs");
                lab.remove_host("more").expect("removed");
            }
            _ => std::thread::sleep(Duration::from_secs(600)),
        }
    }
}

fn start_victim(how: &str, base: &Path) -> Child {
    // A shell without job control has what it starts in the background ignore SIGINT, and so would the victim.
    Command::new("/usr/bin/env")
        .arg("--default-signal=INT")
        .arg(std::env::current_exe().expect("this program"))
        .args(["__victim", how])
        .env("TMPDIR", base)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("the victim starts")
}

/// Waits until the victim's lab stands; its id.
fn id_of(victim: &mut Child) -> String {
    let mut line = String::new();
    let out = victim.stdout.as_mut().expect("piped");
    BufReader::new(out).read_line(&mut line).expect("readable");
    assert!(!line.is_empty(), "the victim's lab did not start");
    line.trim().to_owned()
}

/// Sends a signal to a process, or to a group for a minus before the number.
fn send(signal: &str, to: &str) {
    let status = Command::new("/bin/kill").args([signal, "--", to]).status();
    assert!(status.expect("kill runs").success(), "{signal} {to}");
}

pub(crate) fn orderly() -> Result<(), Failed> {
    let lab = busy_lab();
    let (id, namespaces) = (lab.id().to_owned(), namespaces_of(lab.keeper_pid()));
    assert_eq!(namespaces.len(), 3, "a switch and two hosts");
    let state = || {
        let mut states = kneepoint_lab::list().into_iter();
        states.find(|state| state.id == id).expect("listed")
    };
    assert!(eventually(|| state().pids.len() >= 6), "{:?}", state());
    let state = state();
    assert!(state.live && state.name == "test", "{state:?}");
    assert_eq!(state.owner_pid, Some(std::process::id()));
    lab.stop()?;
    // Not eventually: when `stop` returns it is done.
    let left = crate::support::left_of(&id, &std::env::temp_dir(), &namespaces);
    assert!(left.is_empty(), "{left:#?}");
    Ok(())
}

fn ends_clean(how: &str, end: impl FnOnce(u32)) -> Result<(), Failed> {
    let base = tempfile::tempdir()?;
    let mut victim = start_victim(how, base.path());
    let id = id_of(&mut victim);
    let namespaces = namespaces_of(keeper_of(&id));
    end(victim.id());
    assert!(!victim.wait()?.success());
    assert_nothing_left(&id, base.path(), &namespaces);
    Ok(())
}

pub(crate) fn panic() -> Result<(), Failed> {
    ends_clean("panic", |_| {})
}

pub(crate) fn interrupt() -> Result<(), Failed> {
    // As a terminal does it: to the whole group.
    ends_clean("wait", |pid| send("-INT", &format!("-{pid}")))
}

/// Freezes a process, so that what it has started by now is all it ever will; the ids of
/// its labs, whose keepers are its children.
fn freeze(pid: u32) -> Vec<String> {
    send("-STOP", &pid.to_string());
    let stopped = || seen(pid).is_none_or(|it| it.is_stopped());
    assert!(eventually(stopped), "process {pid} does not stop");
    let all = processes().into_iter();
    all.filter(|it| it.parent == pid && it.lives())
        .map(|it| it.lab_id())
        .collect()
}

fn labs_in(base: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(base).expect("readable").flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter_map(|name| Some(name.strip_prefix("kneepoint-")?.to_owned()))
        .collect()
}

pub(crate) fn killed_at_random() -> Result<(), Failed> {
    let mut seed = RandomState::new().hash_one("moment");
    for round in 0..10 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Early rounds hit the building of the lab, later ones its use.
        let moment = Duration::from_micros((seed >> 33) % [40_000, 200_000, 1_000_000][round % 3]);
        let base = tempfile::tempdir()?;
        let mut victim = start_victim("churn", base.path());
        std::thread::sleep(moment);
        let labs = freeze(victim.id());
        let keepers = labs.iter().map(|id| keeper_of(id));
        let spaces: BTreeSet<String> = keepers.flat_map(namespaces_of).collect();
        victim.kill().expect("killed");
        victim.wait().expect("collected");
        for id in &labs {
            assert_nothing_left(id, base.path(), &spaces);
        }
        assert_eq!(
            labs_in(base.path()),
            BTreeSet::new(),
            "round {round} at {moment:?}"
        );
    }
    Ok(())
}

pub(crate) fn killed_keeper() -> Result<(), Failed> {
    let lab = busy_lab();
    let (id, namespaces) = (lab.id().to_owned(), namespaces_of(lab.keeper_pid()));
    send("-KILL", &lab.keeper_pid().to_string());
    let error = loop {
        if let Err(error) = lab.exec("web", &sh("true")) {
            break error;
        }
    };
    assert!(matches!(error, LabError::KeeperLost { .. }), "{error}");
    drop(lab);
    let left = crate::support::left_of(&id, &std::env::temp_dir(), &namespaces);
    assert!(left.is_empty(), "{left:#?}");
    Ok(())
}

pub(crate) fn clean() -> Result<(), Failed> {
    let living = busy_lab();
    let base = tempfile::tempdir_in("/tmp")?;
    // The dead lab lives in the usual place, since that is where `clean` looks.
    let mut victim = start_victim("wait", Path::new("/tmp"));
    let id = id_of(&mut victim);
    let keeper = keeper_of(&id);
    let namespaces = namespaces_of(keeper);
    // Stopped first, so that neither can clean up after the other.
    send("-STOP", &victim.id().to_string());
    send("-STOP", &keeper.to_string());
    send("-KILL", &keeper.to_string());
    victim.kill().expect("killed");
    victim.wait().expect("collected");
    assert!(eventually(|| seen(keeper).is_none_or(|it| !it.lives())));
    let dir = PathBuf::from(format!("/tmp/kneepoint-{id}"));
    assert!(dir.exists(), "the double kill left something to clean");
    let stranger = base.path().join("kneepoint-main");
    fs::create_dir(&stranger)?;

    let dead = || {
        let listed = kneepoint_lab::list();
        listed.into_iter().find(|it| it.id == id).expect("listed")
    };
    // What ran on its hosts has ended with their first processes, and those with the keeper.
    assert!(eventually(|| dead().pids.is_empty()), "{:?}", dead());
    let dead = dead();
    assert!(!dead.live && !dead.cgroups.is_empty(), "{dead:?}");
    let removed = kneepoint_lab::clean();
    assert!(removed.contains(&Removed::Directory(dir)), "{removed:?}");
    assert!(
        !removed
            .iter()
            .any(|it| it.to_string().contains(living.id())),
        "{removed:?}"
    );
    assert_nothing_left(&id, Path::new("/tmp"), &namespaces);
    assert!(stranger.exists());
    assert!(
        living.exec("web", &sh("true"))?.success(),
        "the living lab lives on"
    );
    let pids = |labs: Vec<kneepoint_lab::LabState>| {
        labs.into_iter()
            .find(|it| it.id == living.id())
            .map(|it| it.pids.len())
    };
    assert!(pids(kneepoint_lab::list()).is_some_and(|count| count >= 6));
    Ok(())
}

/// Somebody stops the keeper: whoever asks it something does not wait for ever, and nothing is left.
pub(crate) fn stopped_keeper() -> Result<(), Failed> {
    let lab = lab(&["web"]);
    let id = lab.id().to_owned();
    let web = host(&lab, "web");
    lab.spawn("web", &script(&web, "sleep 600"))?;
    let stopped = Command::new("/bin/kill")
        .args(["-STOP", &lab.keeper_pid().to_string()])
        .status()?;
    assert!(stopped.success());
    let began = std::time::Instant::now();
    let error = lab.exec("web", &sh("true")).expect_err("nobody answers");
    assert!(error.to_string().contains("is stopped"), "{error}");
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    drop(lab);
    assert_nothing_left(&id, &std::env::temp_dir(), &BTreeSet::new());
    Ok(())
}
