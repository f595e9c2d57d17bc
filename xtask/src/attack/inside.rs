//! What a hostile application tries, in a real lab: PHP code that is under test and goes for everything at once.

use super::outside::{Outside, SECRET};
use super::site::{Ended, Site};
use super::table::{Row, Verdict};
use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Who tries.
const WHO: &str = "application";
/// Longest time until the application has tried everything.
const PATIENCE: Duration = Duration::from_secs(120);

/// How an attempt is judged.
#[derive(Debug, Clone, Copy)]
enum Judge {
    /// To get it is to get out.
    Mine,
    /// It may do so in its lab; the bench sees whether it reached anything outside.
    Lab,
    /// It is known to work, for this reason.
    Known(&'static str),
}
use Judge::{Known, Lab, Mine};

/// Every attempt of the page, with the fault it is about: those of security review, by their numbers.
const ATTEMPTS: &[(&str, &str, Judge)] = &[
    (
        "mail",
        "mail() to somebody, with the machine's sendmail set in php.ini (1)",
        Lab,
    ),
    (
        "socket-run",
        "connects to a socket of the machine in /run (1)",
        Mine,
    ),
    ("socket-tmp", "connects to one in /tmp (1)", Mine),
    ("socket-var-tmp", "connects to one in /var/tmp (1)", Mine),
    ("socket-opt", "connects to one in /opt (1)", Mine),
    (
        "abstract-socket",
        "connects to a socket without a path (1)",
        Mine,
    ),
    (
        "tcp-loopback",
        "connects to a server on the machine's 127.0.0.1 (1)",
        Mine,
    ),
    ("tcp-loopback6", "connects to one on its ::1 (1)", Mine),
    (
        "tcp-machine",
        "connects to one on the machine's own addresses (1)",
        Mine,
    ),
    (
        "tcp-peer",
        "connects to a server of another network (1)",
        Mine,
    ),
    (
        "udp-machine",
        "sends a packet to the machine's own addresses (1)",
        Lab,
    ),
    (
        "http-wrapper",
        "asks a server on 127.0.0.1 by PHP's own http:// (1)",
        Mine,
    ),
    ("write-app", "writes into the user's directory (1)", Lab),
    (
        "write-opt",
        "writes into a directory that anybody may write to (1)",
        Mine,
    ),
    (
        "write-append",
        "appends to a file that anybody may write to (1)",
        Mine,
    ),
    ("write-rename", "renames it (1)", Mine),
    ("write-mode", "makes it a program of its owner (1)", Mine),
    (
        "write-link",
        "writes through a link that it makes (3)",
        Mine,
    ),
    (
        "write-hard-link",
        "writes through a second name of it (3)",
        Mine,
    ),
    ("write-run", "removes and writes files in /run (1)", Lab),
    ("write-tmp", "writes into /tmp (1)", Lab),
    ("write-shm", "writes into /dev/shm (1)", Lab),
    ("semaphore", "makes a semaphore and keeps it (1)", Lab),
    ("shared-memory", "makes shared memory (1)", Lab),
    ("read-secret", "reads a file of root (2)", Mine),
    ("read-shadow", "reads /etc/shadow (2)", Mine),
    ("read-tmp", "reads a file in the machine's /tmp (1)", Mine),
    (
        "read-world",
        "reads a file that anybody on the machine may read",
        Known("files that anybody may read are read"),
    ),
    (
        "redis-flush",
        "FLUSHALL, where an included file names the machine's data (5)",
        Lab,
    ),
    (
        "redis-dir",
        "has Redis write elsewhere by CONFIG SET dir (5)",
        Lab,
    ),
    ("redis-save", "SAVE after that (5)", Lab),
    (
        "redis-replica",
        "makes Redis the replica of a server outside (5)",
        Lab,
    ),
    (
        "redis-module",
        "has Redis load a file as its module (5)",
        Mine,
    ),
    (
        "redis-lua",
        "runs a program from a script in Redis (5)",
        Mine,
    ),
    ("pg-program", "COPY TO PROGRAM (2)", Mine),
    ("pg-file", "COPY to a file of the machine (2)", Mine),
    ("pg-read", "COPY from /etc/passwd (2)", Mine),
    (
        "pg-superuser",
        "logs in as PostgreSQL's superuser over the network (2)",
        Mine,
    ),
    (
        "pg-local",
        "logs in as PostgreSQL's superuser over its socket (2)",
        Mine,
    ),
    (
        "pg-link",
        "connects to a server outside by dblink (2)",
        Mine,
    ),
    (
        "pg-system",
        "sets archive_command by ALTER SYSTEM (5)",
        Mine,
    ),
    (
        "root-of-tier",
        "looks into /proc/PID/root of another tier (2)",
        Mine,
    ),
    ("trace-tier", "traces a process of another tier (2)", Mine),
    ("kill-tier", "signals a process of another tier (2)", Mine),
    (
        "environ-tier",
        "reads the environment of another tier's process (2)",
        Mine,
    ),
    (
        "ptrace-master",
        "traces the master of PHP-FPM, which is root (2)",
        Mine,
    ),
    ("kill-keeper", "signals the lab's keeper (17)", Mine),
    ("trace-keeper", "traces the lab's keeper (2)", Mine),
    ("environ-keeper", "reads the keeper's environment (6)", Mine),
    ("root-of-machine", "looks into /proc/1/root (2)", Mine),
    (
        "kill-root",
        "signals a process of the machine's root (13)",
        Mine,
    ),
    (
        "kill-own-user",
        "signals a process of its own user outside the lab",
        Mine,
    ),
    (
        "trace-own-user",
        "traces a process of its own user outside the lab",
        Mine,
    ),
    (
        "root-of-own-user",
        "looks into /proc/PID/root of a process of its own user outside",
        Mine,
    ),
    (
        "write-own-user",
        "writes a file of the machine through /proc/PID/root of such a process",
        Mine,
    ),
    (
        "socket-own-user",
        "connects to a socket of the machine the same way",
        Mine,
    ),
    (
        "kill-sibling",
        "signals another worker of its own pool",
        Known("one user runs all PHP of a lab"),
    ),
    (
        "user-namespace",
        "makes a user namespace and mounts everything anew, to be written (1)",
        Lab,
    ),
    (
        "net-namespace",
        "enters the machine's network namespace (1)",
        Mine,
    ),
    (
        "mount-namespace",
        "enters the machine's mount namespace (1)",
        Mine,
    ),
    (
        "unmount",
        "unmounts what covers the machine's /run (1)",
        Mine,
    ),
    ("cgroup", "leaves its control group (16)", Mine),
    (
        "sysctl",
        "has the kernel start a program by core_pattern (2)",
        Mine,
    ),
    ("device", "opens the machine's memory and disks (2)", Mine),
    ("sudo", "sudo and su (2)", Mine),
    ("daemon", "leaves a daemon that outlives the run (13)", Lab),
    (
        "log-link",
        "makes its log a link to a file of root (2, 10)",
        Lab,
    ),
];

/// Runs a limit on the hostile application, and tells what came of each attempt.
pub(super) fn attempts(site: &Site, outside: &Outside, peer: Option<&str>) -> Result<Vec<Row>> {
    write(site, outside, peer)?;
    let run = site.start(&["limit", "--budget", "20s"])?;
    let told = await_told(&site.labs)?;
    let ended = run.ended()?;
    let results = match told {
        Some(results) => results,
        None => anyhow::bail!("the application did not try everything: {}", ended.said),
    };
    let mut rows: Vec<Row> = ATTEMPTS
        .iter()
        .filter(|(id, ..)| peer.is_some() || *id != "tcp-peer")
        .map(|(id, what, judge)| {
            let got = results.get(*id).and_then(Value::as_str);
            Row::new(WHO, id, what, judged(id, *judge, got, outside))
        })
        .collect();
    rows.extend(afterwards(site, outside, &ended));
    Ok(rows)
}

/// The same where no lab can be closed: nothing of the application is started, and so nothing gets out.
pub(super) fn not_started(site: &Site, outside: &Outside, peer: Option<&str>) -> Result<Vec<Row>> {
    write(site, outside, peer)?;
    let ended = site.start(&["limit", "--budget", "20s"])?.ended()?;
    let told = find(&site.labs, "results.json", 6).is_some() || site.labs_left() > 0;
    let one = |(id, what, _): &(&str, &str, Judge)| {
        let verdict = match (outside.reached_by(id), ended.code) {
            (Some(how), _) => Verdict::GotOut(how),
            (None, Some(2)) if !told => Verdict::Refused(ended.why()),
            (None, code) => Verdict::GotOut(format!("it was started, and ended with {code:?}")),
        };
        Row::new(WHO, id, what, verdict)
    };
    Ok(ATTEMPTS.iter().map(one).collect())
}

fn judged(id: &str, judge: Judge, got: Option<&str>, outside: &Outside) -> Verdict {
    let reached = outside.reached_by(id);
    match (reached, judge, got) {
        (_, Known(why), Some(got)) => Verdict::Known(format!("{got}; {why}")),
        (Some(how), ..) => Verdict::GotOut(how),
        (None, Mine, Some(got)) => Verdict::GotOut(got.to_owned()),
        (None, Lab, Some(got)) => Verdict::Harmless(format!("{got}, within its lab")),
        (None, _, None) => Verdict::Refused(String::new()),
    }
}

/// What is looked at once the run is over.
fn afterwards(site: &Site, outside: &Outside, ended: &Ended) -> Vec<Row> {
    let row = |id, what, verdict| Row::new(WHO, id, what, verdict);
    let daemon = format!("attack-daemon-{}", outside.abstract_name);
    let lives = kneepoint_linux::process::all()
        .into_iter()
        .any(|pid| kneepoint_linux::process::title_of(pid).is_some_and(|it| it.contains(&daemon)));
    let sets = ["sem", "shm"].map(|kind| fs::read_to_string(format!("/proc/sysvipc/{kind}")));
    let key = site.key.to_string();
    let left = sets.iter().flatten().any(|text| {
        let lines = text
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        lines.into_iter().any(|word| word == key)
    });
    let said = format!("{}{}", ended.said, ended.printed);
    let out = |is_out: bool, how: &str, otherwise: &str| match is_out {
        true => Verdict::GotOut(how.to_owned()),
        false => Verdict::Refused(otherwise.to_owned()),
    };
    vec![
        row(
            "daemon-left",
            "its daemon lives on after the run (13)",
            out(lives, "it does", ""),
        ),
        row(
            "ipc-left",
            "its semaphores and shared memory are the machine's (1)",
            out(left, "they are", ""),
        ),
        row(
            "log-escape",
            "a log line with escapes for the terminal reaches it (19)",
            out(said.contains('\u{1b}'), "an escape was printed", ""),
        ),
        row(
            "log-read",
            "what Kneepoint says and stores holds the file that the log is a link to (10)",
            out(
                said.contains(SECRET) || site.stored_contains(SECRET),
                "it does",
                "",
            ),
        ),
        row(
            "lab-left",
            "something of its lab is left (13)",
            out(site.labs_left() > 0, "a directory of the lab is", ""),
        ),
    ]
}

/// The application, its servers' configuration with what it includes, and the scenario.
fn write(site: &Site, outside: &Outside, peer: Option<&str>) -> Result<()> {
    let told = json!({
        "tcp": outside.tcp.port(), "tcp6": outside.tcp6, "any": outside.any.port(), "udp": outside.udp,
        "peer": peer.unwrap_or("192.0.2.1:9"), "addresses": outside.addresses, "abstract": outside.abstract_name,
        "outside": outside.path("outside"), "site": site.root, "nonce": outside.abstract_name,
        "run": Path::new("/run").join(&outside.abstract_name), "tmp": Path::new("/tmp").join(&outside.abstract_name),
        "key": site.key, "secret": outside.path("outside/secret"), "sockets": outside.sockets,
        "daemon": format!("attack-daemon-{}", outside.abstract_name),
        "roots": outside.processes[0].id(), "own": outside.processes[1].id(),
    });
    site.write("attack.json", &told.to_string())?;
    site.write("index.php", include_str!("page.php"))?;
    let sendmail = site.root.join("sendmail");
    let mail = outside.path("outside/mail");
    site.write(
        "sendmail",
        &format!("#!/bin/sh\necho mail > {}\n", mail.display()),
    )?;
    fs::set_permissions(
        &sendmail,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )?;
    let run = &outside.sockets["socket-run"];
    site.write(
        "php.ini",
        &format!(
            "sendmail_path = {}\nmysqli.default_socket = {}\n",
            sendmail.display(),
            run.display()
        ),
    )?;
    let (data, at) = (outside.path("outside"), outside.path("outside"));
    let (data, at) = (data.display(), at.display());
    site.write(
        "redis.inc",
        &format!("dir {data}\nsave 1 1\ndbfilename redis-flush\n"),
    )?;
    site.write(
        "redis.conf",
        &format!("include {}/redis.inc\n", site.root.display()),
    )?;
    site.write(
        "archive.conf",
        &format!("archive_mode = on\narchive_command = 'touch {at}/pg-archive'\ndata_directory = '{data}'\n"),
    )?;
    site.write(
        "postgresql.conf",
        &format!("include '{}/archive.conf'\n", site.root.display()),
    )?;
    site.write("kneepoint.toml", &scenario(&site.secrets))?;
    Ok(())
}

fn scenario(secrets: &[String]) -> String {
    let [env, header, form, body, ..] = secrets else {
        return String::new();
    };
    format!(
        r#"
[app]
root = "."
front = "index.php"

[app.env]
TOLD = "{{storage}}"
STRIPE_SK = "{env}"

[stack]
web = {{ server = "nginx" }}
php = {{ runtime = "fpm", ini = "php.ini", settings = {{ "pm" = "static", "pm.max_children" = "4" }} }}
cache = {{ server = "redis", config = "redis.conf" }}
db = {{ server = "postgresql", config = "postgresql.conf", seed = "seed.sql" }}

[[request]]
path = "/"
headers = {{ Authorization = "Bearer {header}" }}
expect = {{ status = 200, body_contains = "served" }}

[[request]]
path = "/login"
form = {{ user = "ann", password = "{form}" }}
expect = {{ status = 200, body_contains = "served" }}

[[request]]
path = "/order"
method = "POST"
body = '{{"card": "{body}"}}'
expect = {{ status = 200, body_contains = "served" }}

[slo]
timeout = "60s"
response_time = {{ p95 = "500ms" }}
"#
    )
}

/// Waits until the application has written down what it got. It is in the storage of its lab.
fn await_told(labs: &Path) -> Result<Option<Map<String, Value>>> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(path) = find(labs, "results.json", 6) {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            return Ok(Some(serde_json::from_str(&text)?));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(None)
}

/// A file of this name, at most so many directories below.
fn find(dir: &Path, name: &str, depth: u32) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let (dirs, files): (Vec<_>, Vec<_>) =
        entries.partition(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let found = files.into_iter().find(|entry| entry.file_name() == name);
    if let Some(found) = found {
        return Some(found.path());
    }
    let below = dirs.into_iter().filter(|_| depth > 0);
    below
        .into_iter()
        .find_map(|entry| find(&entry.path(), name, depth - 1))
}
