//! What the tests share: the program, the applications, and a look at what a lab leaves behind.

#[path = "../../../../tests/ports.rs"]
mod ports;
#[path = "../../../../tests/skipped.rs"]
mod skip;

pub(crate) mod by_hand;
pub(crate) mod company;

use kneepoint_experiment::RunStore;
use kneepoint_linux::process::parent_of;
pub(crate) use ports::free_port;
pub(crate) use skip::skipped;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) fn kneepoint() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kneepoint"));
    command.stdin(Stdio::null());
    command
}

pub(crate) fn apps() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps")
}

pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// Skips a test in words when it cannot run here.
pub(crate) fn needs_root(test: &str) -> bool {
    if !is_root() {
        skipped(&format!("{test} needs root"));
    }
    is_root()
}

/// A scenario of the plain application in a directory of its own.
pub(crate) fn plain_scenario(directory: &Path, more: &str) -> PathBuf {
    let root = apps()
        .join("plain")
        .canonicalize()
        .expect("apps/plain is in the tree");
    let path = directory.join("kneepoint.toml");
    let text = format!(
        "[app]\nroot = {:?}\nfront = \"public/index.php\"\n{more}",
        root.display().to_string()
    );
    std::fs::write(&path, text).expect("scenario written");
    path
}

/// A page whose cost is all waiting: its rate depends on two workers and this time, not on what else the machine does.
pub(crate) fn waiting_site(directory: &Path, name: &str, wait_ms: u32) -> PathBuf {
    let root = directory.join(name);
    std::fs::create_dir(&root).expect("directory made");
    let page = format!("<?php usleep({wait_ms} * 1000); echo 'served';");
    std::fs::write(root.join("index.php"), page).expect("page written");
    let scenario = r#"
[app]
root = "."
front = "index.php"

[stack]
web = { server = "nginx" }
php = { runtime = "fpm" }

[[request]]
path = "/"
expect = { status = 200, body_contains = "served" }

[slo]
response_time = { p95 = "250ms" }
"#;
    std::fs::write(root.join("kneepoint.toml"), scenario).expect("scenario written");
    // PHP may run as somebody else.
    for path in [directory, &root] {
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, open).expect("opened");
    }
    root
}

/// Waits for a process with a limit, then kills it. Its output is read meanwhile: a full pipe would stop it.
pub(crate) fn wait(mut child: Child, limit: Duration) -> Output {
    let read = |from: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut from) = from {
                from.read_to_end(&mut bytes).expect("output is readable");
            }
            bytes
        })
    };
    let stdout = read(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let stderr = read(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("waitable") {
            break status;
        }
        if began.elapsed() > limit {
            let _ = child.kill();
            let _ = child.wait();
            panic!(
                "still running after {limit:?}: {}",
                text(&stderr.join().expect("stderr"))
            );
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    Output {
        status,
        stdout: stdout.join().expect("stdout"),
        stderr: stderr.join().expect("stderr"),
    }
}

pub(crate) fn start(command: &mut Command) -> Child {
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kneepoint starts")
}

/// Starts `kneepoint limit` on the plain application, and lets it run until it has measured a step and is in the next one.
pub(crate) fn running_limit(directory: &Path, budget: &str) -> Child {
    let scenario = plain_scenario(directory, "");
    let mut child = start(
        kneepoint()
            .arg("limit")
            .arg(&scenario)
            .args((!is_root()).then_some("--host-network"))
            .args(["--budget", budget, "--runs"])
            .arg(directory),
    );
    let began = Instant::now();
    while !has_measured(directory) {
        let has_ended = child.try_wait().expect("waitable").is_some();
        if has_ended || began.elapsed() > Duration::from_secs(120) {
            let _ = child.kill();
            let output = child.wait_with_output().expect("output");
            panic!("no step is measured: {}", text(&output.stderr));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    std::thread::sleep(Duration::from_secs(2));
    child
}

/// Whether the newest run in a directory has a step that was measured to its end.
fn has_measured(runs: &Path) -> bool {
    let files = RunStore::list(runs);
    let run = files.last().and_then(|file| RunStore::read(file).ok());
    run.is_some_and(|run| run.trials.iter().any(|trial| trial.purpose != "cut short"))
}

/// Whether a process was started by another one, or by one that this one started.
pub(crate) fn descends(pid: u32, of: u32) -> bool {
    std::iter::successors(parent_of(pid), |pid| parent_of(*pid)).any(|pid| pid == of)
}

/// Processes whose parent is this one, whichever of its threads started them.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let threads = kneepoint_linux::process::threads(pid).unwrap_or_default();
    let lists = threads
        .iter()
        .map(|thread| std::fs::read(format!("/proc/{pid}/task/{thread}/children")));
    let parsed = lists
        .flatten()
        .map(|list| kneepoint_linux::process::parse_children(&list));
    parsed.flatten().collect()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Everything a lab could leave on the machine, as comparable lines.
pub(crate) fn traces() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/tmp").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("kneepoint-") {
            found.insert(format!("directory /tmp/{name}"));
        }
    }
    cgroups(Path::new("/sys/fs/cgroup"), 3, &mut found);
    for line in std::fs::read_to_string("/proc/self/mountinfo")
        .unwrap_or_default()
        .lines()
    {
        if line.contains("kneepoint") {
            found.insert(format!("mount {line}"));
        }
    }
    processes(&mut found);
    found
}

fn cgroups(directory: &Path, depth: u32, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with("kneepoint-")
        {
            found.insert(format!("cgroup {}", entry.path().display()));
        } else if depth > 0 {
            cgroups(&entry.path(), depth - 1, found);
        }
    }
}

/// Processes that a lab started, and network namespaces other than our own.
fn processes(found: &mut BTreeSet<String>) {
    let own_net = std::fs::read_link("/proc/self/ns/net").ok();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let path = entry.path();
        let Some(pid) = path
            .file_name()
            .and_then(|name| name.to_str())
            .filter(|name| name.parse::<u32>().is_ok())
        else {
            continue;
        };
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        let command =
            text(&std::fs::read(path.join("cmdline")).unwrap_or_default()).replace('\0', " ");
        if text(&environment).contains("KNEEPOINT_LAB=")
            || command.contains("__keeper")
            || command.contains("/tmp/kneepoint-")
        {
            found.insert(format!("process {pid} {command}"));
        }
        if let (Ok(net), Some(own)) = (std::fs::read_link(path.join("ns/net")), &own_net)
            && net != *own
        {
            found.insert(format!("namespace {} of {command}", net.display()));
        }
    }
}

/// Waits until the traces are the same as before, and tells what is left when they are not.
pub(crate) fn assert_nothing_left(before: &BTreeSet<String>, context: &str) {
    let began = Instant::now();
    loop {
        let left: Vec<String> = traces().difference(before).cloned().collect();
        if left.is_empty() {
            return;
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{context} left:\n{}",
            left.join("\n")
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}
