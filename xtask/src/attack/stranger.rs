//! What another user of the machine tries while a lab stands.

use super::outside::Outside;
use super::site::{Ended, Site, run};
use super::table::{Row, Verdict};
use anyhow::Result;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Who tries: `nobody`, by this number.
const WHO: &str = "other user";
const UID: &str = "65534";
const LIMIT: Duration = Duration::from_secs(20);

/// Tries everything while the site's stack stands.
pub(super) fn attempts(site: &Site, outside: &Outside) -> Result<Vec<Row>> {
    // This time the application tries nothing: a run that it ends would not be the stranger's doing.
    site.write("quiet.toml", "[app.env]\nTOLD = \"/nowhere\"\n")?;
    let quiet = site.root.join("quiet.toml").display().to_string();
    let asked = [
        "limit",
        "--overlay",
        &quiet,
        "--budget",
        "20s",
        "--no-report",
    ];
    let running = site.start(&asked)?;
    let end = Instant::now() + Duration::from_secs(60);
    let mut found = Found::default();
    while found.files.len() < 20 || found.sockets.is_empty() {
        if Instant::now() > end {
            let ended = running.ended_within(LIMIT)?;
            anyhow::bail!("the stack does not stand: {}", ended.said);
        }
        std::thread::sleep(Duration::from_millis(200));
        found = Found::default();
        look(&site.labs, &mut found);
    }
    // The rest of it comes within moments.
    std::thread::sleep(Duration::from_secs(3));
    found = Found::default();
    look(&site.labs, &mut found);
    let mut rows = in_the_lab(site, outside, &found, running.pid())?;
    let ended = running.ended()?;
    rows.push(row(
        "run-goes-on",
        "disturbs the run by all of that",
        match ended.code {
            Some(0) => Verdict::Refused(String::new()),
            code => Verdict::GotOut(format!("it ended with {code:?}: {}", ended.why())),
        },
    ));
    let stored = files_of(&site.runs);
    rows.push(refused(
        "run-file",
        "reads a run file (6)",
        &format!(
            "cat {}",
            words(
                &stored
                    .iter()
                    .filter(|path| ends(path, "sqlite"))
                    .collect::<Vec<_>>()
            )
        ),
    )?);
    rows.push(planted_lab(site, outside)?);
    rows.push(stranger_with_an_old_number(site)?);
    rows.push(plain_user(site)?);
    Ok(rows)
}

/// Ends well when one of the sockets after it takes a connection.
const CONNECT: &str = "perl -MSocket -e 'for (@ARGV) { socket(S, PF_UNIX, SOCK_STREAM, 0); exit 0 if connect(S, sockaddr_un($_)) } exit 1'";

/// Ends well, and names it, when one of such files can be read; empty where there is none.
fn reads_one(found: &Found, is_it: &dyn Fn(&Path) -> bool) -> String {
    let files = found.files.iter().filter(|path| is_it(path));
    match files.collect::<Vec<_>>() {
        none if none.is_empty() => String::new(),
        files => format!(
            "for file in {}; do head -c 1 $file 2>/dev/null | grep -q . && echo $file && exit 0; done; exit 1",
            words(&files)
        ),
    }
}

fn in_the_lab(site: &Site, outside: &Outside, found: &Found, owner: u32) -> Result<Vec<Row>> {
    let of = |is_it: &dyn Fn(&Path) -> bool| reads_one(found, is_it);
    let seed = of(&|path| holds(path, site));
    let logs = of(&|path| ends(path, "log"));
    let confs = of(&|path| ends(path, "conf") || ends(path, "ini"));
    let labs = site.labs.display();
    let dirs = directories(found, site);
    let dirs = words(&dirs.iter().collect::<Vec<_>>());
    let sockets = words(&found.sockets.iter().collect::<Vec<_>>());
    let signals = format!("kill -0 {owner} || kill -0 $(pgrep -o -f [_]_keeper)");
    // In a file, so that they are not in the arguments of who searches.
    site.write("words", &site.secrets.join("\n"))?;
    let wanted = site.root.join("words").display().to_string();
    let processes = format!("cat /proc/*/environ 2>/dev/null | grep -qaF -f {wanted}");
    let arguments = format!("cat /proc/*/cmdline 2>/dev/null | grep -qaF -f {wanted}");
    Ok(vec![
        refused(
            "list-lab",
            "lists a lab's directory (2)",
            &format!("ls {labs}/kneepoint-*/"),
        )?,
        refused(
            "seed",
            "reads the seed, the .env and all that holds a secret (11)",
            &seed,
        )?,
        refused("logs", "reads the logs of servers (11)", &logs)?,
        refused(
            "configuration",
            "reads the servers' configuration (11)",
            &confs,
        )?,
        refused(
            "lab-sockets",
            "connects to the lab's sockets (2)",
            &format!("{CONNECT} {sockets}"),
        )?,
        refused(
            "write-lab",
            "makes a file in a lab's directories (2)",
            &format!(
                "for dir in {dirs}; do touch $dir/x 2>/dev/null && echo $dir && exit 0; done; exit 1"
            ),
        )?,
        refused(
            "signal-owner",
            "signals the program and its keeper (17)",
            &signals,
        )?,
        refused(
            "environ",
            "finds secrets in the environment of processes (6)",
            &processes,
        )?,
        refused(
            "cmdline",
            "finds secrets in the arguments of processes (6)",
            &arguments,
        )?,
        refused(
            "outside-secret",
            "reads what root keeps beside it (2)",
            &format!("cat {}", outside.path("outside/secret").display()),
        )?,
    ])
}

fn row(id: &str, what: &str, verdict: Verdict) -> Row {
    Row::new(WHO, id, what, verdict)
}

/// An attempt of another user that must fail.
fn refused(id: &str, what: &str, script: &str) -> Result<Row> {
    if script.is_empty() {
        let why = "the lab had no such file when it was looked at";
        return Ok(row(id, what, Verdict::NotTried(why.into())));
    }
    let tried = as_stranger(script)?;
    let verdict = match (tried.code, tried.in_time) {
        (Some(0), _) => Verdict::GotOut(tried.printed.chars().take(80).collect()),
        (_, true) => Verdict::Refused(String::new()),
        (_, false) => Verdict::NotTried("it took too long".into()),
    };
    Ok(row(id, what, verdict))
}

fn as_stranger(script: &str) -> Result<Ended> {
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid",
        UID,
        "--regid",
        UID,
        "--clear-groups",
        "sh",
        "-c",
        script,
    ]);
    run(&mut command, LIMIT)
}

/// He makes a directory as a lab has, with links in it, and waits for root to clean it up.
fn planted_lab(site: &Site, outside: &Outside) -> Result<Row> {
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
    fs::set_permissions(&site.labs, open)?;
    let dir = site.labs.join("kneepoint-1-1");
    let target = outside.path("outside");
    as_stranger(&format!(
        "mkdir {0} && ln -s {1} {0}/etc && ln -s {1}/victim {0}/lab.json",
        dir.display(),
        target.display()
    ))?;
    let before = outside.changed();
    let cleaned = run(&mut site.command(&["lab", "clean"]), LIMIT)?;
    let left = fs::symlink_metadata(dir.join("etc")).is_ok();
    fs::remove_dir_all(&dir)?;
    let verdict = match outside.changed() == before {
        true if left => Verdict::Refused("it is left alone".into()),
        true => Verdict::Harmless("only his own is removed".into()),
        false => Verdict::GotOut(format!("root removed something: {}", cleaned.printed)),
    };
    Ok(row(
        "planted-lab",
        "plants a lab's directory with links for `lab clean` (13)",
        verdict,
    ))
}

/// A lab of before the last boot, whose keeper's number is another process today.
fn stranger_with_an_old_number(site: &Site) -> Result<Row> {
    let mut child = Command::new("setsid").args(["sleep", "600"]).spawn()?;
    let pid = child.id();
    let dir = site.labs.join(format!("kneepoint-{pid}-1"));
    fs::create_dir(&dir)?;
    let record = format!(
        "{{\"name\":\"old\",\"owner\":{{\"pid\":{pid},\"start_ticks\":1}},\"boot_id\":\"another\"}}"
    );
    fs::write(dir.join("lab.json"), record)?;
    let cleaned = run(&mut site.command(&["lab", "clean"]), LIMIT)?;
    let lives = child.try_wait()?.is_none();
    child.kill()?;
    child.wait()?;
    let verdict = match (lives, dir.exists()) {
        (true, false) => {
            Verdict::Harmless("the directory is removed, and the process lives".into())
        }
        (true, true) => Verdict::Refused("nothing is removed".into()),
        (false, _) => Verdict::GotOut(format!("a stranger was killed: {}", cleaned.printed)),
    };
    let _ = fs::remove_dir_all(dir);
    Ok(row(
        "old-number",
        "bears the number of a dead lab's keeper when `lab clean` runs (13)",
        verdict,
    ))
}

/// Kneepoint itself as a plain user: there is no closed lab then, so nothing is started.
fn plain_user(site: &Site) -> Result<Row> {
    let program = site.command(&[]).get_program().to_owned();
    let script = format!(
        "cd /tmp && runs=$(mktemp -d) && TMPDIR=/tmp {} limit {}/kneepoint.toml --runs $runs; code=$?; rm -rf $runs; exit $code",
        Path::new(&program).display(),
        site.root.display()
    );
    let tried = as_stranger(&script)?;
    let verdict = match tried.code {
        Some(2) => Verdict::Refused(tried.why()),
        code => Verdict::GotOut(format!("it ended with {code:?}")),
    };
    Ok(row("plain-user", "runs a limit without root (1)", verdict))
}

/// What lies in the labs.
#[derive(Debug, Default)]
struct Found {
    files: Vec<PathBuf>,
    sockets: Vec<PathBuf>,
}

fn look(dir: &Path, found: &mut Found) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => look(&path, found),
            Ok(kind) if kind.is_socket() => found.sockets.push(path),
            Ok(kind) if kind.is_file() => found.files.push(path),
            _ => {}
        }
    }
}

/// The directories of the labs, outermost first.
fn directories(found: &Found, site: &Site) -> BTreeSet<PathBuf> {
    let all = found.files.iter().chain(&found.sockets);
    all.flat_map(|path| path.ancestors().skip(1))
        .filter(|dir| dir.starts_with(&site.labs) && **dir != site.labs)
        .map(Path::to_owned)
        .collect()
}

fn holds(path: &Path, site: &Site) -> bool {
    let bytes = fs::read(path).unwrap_or_default();
    site.secrets
        .iter()
        .any(|secret| super::site::memchr(&bytes, secret.as_bytes()))
}

fn files_of(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn ends(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|it| it == extension)
}

fn words(paths: &[&PathBuf]) -> String {
    let paths = paths.iter().map(|path| format!("'{}'", path.display()));
    let all: Vec<_> = paths.collect();
    if all.is_empty() {
        "/nowhere".to_owned()
    } else {
        all.join(" ")
    }
}
