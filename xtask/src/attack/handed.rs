//! What Kneepoint is handed to read: run files that were made to do harm, links, pipes and endless files where it looks
//! for files of the application, and readers that leave.

use super::outside::{Outside, SECRET};
use super::site::{Ended, Running, Site, run};
use super::table::{Row, Verdict};
use anyhow::{Context as _, Result};
use kneepoint_experiment::{Record, RunStore};
use kneepoint_model::redact::Secrets;
use kneepoint_model::run::{EntryKind, JournalEntry, RUN_VERSION};
use kneepoint_model::{MetStack, Place, Run, StackProfile};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const FORMATS: [&str; 6] = ["terminal", "html", "markdown", "json", "csv", "junit"];
/// Frames of a stack without an end, as the profiler keeps at most.
const DEEP: u32 = 20_000;

/// Tries all of it.
pub(super) fn attempts(site: &Site, outside: &Outside) -> Result<Vec<Row>> {
    let mut rows = secrets(site)?;
    rows.push(changed_link(site, outside)?);
    rows.extend(run_files(site)?);
    rows.extend(shown(site)?);
    rows.extend(gates(site)?);
    rows.extend(applications_files(site, outside)?);
    rows.push(planted_reports(site, outside)?);
    rows.push(failing(site, outside)?);
    Ok(rows)
}

fn row(id: &str, what: &str, verdict: Verdict) -> Row {
    Row::new("handed over", id, what, verdict)
}

fn out(is_out: bool, how: impl Into<String>) -> Verdict {
    match is_out {
        true => Verdict::GotOut(how.into()),
        false => Verdict::Refused(String::new()),
    }
}

/// Secrets of every field of the run that has just been made, in its file and in all it is rendered as.
fn secrets(site: &Site) -> Result<Vec<Row>> {
    let mut texts = vec![("run file", all_bytes(&site.runs))];
    for format in FORMATS {
        let rendered = report(site, &["--format", format])?;
        texts.push((format, rendered.printed.into_bytes()));
    }
    let names = [
        "an environment value",
        "a header",
        "a form field",
        "a body",
        "the seed",
        "the .env",
    ];
    let rows = site.secrets.iter().zip(names).map(|(secret, name)| {
        let has = |bytes: &[u8]| super::site::memchr(bytes, secret.as_bytes());
        let out_of: Vec<&str> = texts
            .iter()
            .filter(|(_, bytes)| has(bytes))
            .map(|(at, _)| *at)
            .collect();
        let what = format!("the secret of {name} is in the run file or one of six reports (6)");
        row(
            &format!("secret-{}", &secret[..4]),
            &what,
            out(!out_of.is_empty(), out_of.join(", ")),
        )
    });
    Ok(rows.collect())
}

/// `[[app.file]]` for an `.env` that is a link to one that all versions of the application share.
fn changed_link(site: &Site, outside: &Outside) -> Result<Row> {
    let scenario = fs::read_to_string(site.root.join("kneepoint.toml"))?;
    let patch = "\n[[app.file]]\npath = \".env\"\ncontent = \"changed\"\n\n[stack]";
    site.write("patched.toml", &scenario.replacen("\n[stack]", patch, 1))?;
    let ended = on(site, "patched.toml", "8s")?;
    let shared = outside.path("outside/dotenv");
    let now = fs::read_to_string(&shared)?;
    let verdict = match (now.contains("changed"), ended.code) {
        (true, _) => Verdict::GotOut(format!("{} was written", shared.display())),
        (false, Some(0)) => Verdict::Harmless("the copy has a file of its own".into()),
        (false, _) => Verdict::Refused(ended.why()),
    };
    Ok(row(
        "file-link",
        "[[app.file]] for an .env that is a link out of the application (3)",
        verdict,
    ))
}

fn run_files(site: &Site) -> Result<Vec<Row>> {
    let dir = site.root.join("handed");
    fs::create_dir_all(&dir)?;
    let table =
        "create table record (id integer primary key, at_s real not null, json text not null);";
    let endless = "create view record as with recursive n(i) as (select 1 union all select i + 1 from n) \
                   select i as id, 0.0 as at_s, '{}' as json from n;";
    let version = format!("pragma user_version = {RUN_VERSION};");
    let scripts = [
        (
            "view",
            "a run file whose records are an endless view (12)",
            format!("{endless}{version}"),
        ),
        (
            "future",
            "a run file of a version to come (12)",
            format!("{table}pragma user_version = 999;"),
        ),
        (
            "trigger",
            "a run file with a trigger and a function that loads code (12)",
            format!(
                "{table}create trigger t after insert on record begin select load_extension('/tmp/x'); end;{version}"
            ),
        ),
        (
            "large",
            "a record of a gigabyte (12)",
            format!("{table}insert into record values (1, 0.0, zeroblob(900000000));{version}"),
        ),
        (
            "json",
            "a record nested without end (12)",
            format!(
                "{table}insert into record values (1, 0.0, printf('%.*c', 5000000, '['));{version}"
            ),
        ),
    ];
    let mut rows = Vec::new();
    for (name, what, script) in scripts {
        let path = dir.join(format!("{name}.kneepoint.sqlite"));
        // The bench has no SQLite of its own to write with.
        let mut python = Command::new("python3");
        let code = "import sqlite3,sys; c = sqlite3.connect(sys.argv[1]); c.executescript(sys.argv[2]); c.commit()";
        python.args(["-c", code]).arg(&path).arg(&script);
        let made = run(&mut python, LIMIT)?;
        if made.code != Some(0) {
            rows.push(row(
                name,
                what,
                Verdict::NotTried("python3 with sqlite3 is not there".into()),
            ));
            continue;
        }
        rows.push(read_refused(site, name, what, &path)?);
    }
    let pipe = dir.join("pipe.kneepoint.sqlite");
    run(Command::new("mkfifo").arg(&pipe), LIMIT)?;
    rows.push(read_refused(
        site,
        "run-pipe",
        "a pipe in place of a run file (12)",
        &pipe,
    )?);
    let zero = dir.join("zero.kneepoint.sqlite");
    symlink("/dev/zero", &zero)?;
    rows.push(read_refused(
        site,
        "run-zero",
        "/dev/zero in place of a run file (12)",
        &zero,
    )?);
    Ok(rows)
}

fn read_refused(site: &Site, id: &str, what: &str, path: &Path) -> Result<Row> {
    let ended = report(site, &[&path.display().to_string()])?;
    let verdict = match (ended.code, ended.in_time) {
        (_, false) => Verdict::GotOut("it is read for ever".into()),
        (Some(2), _) => Verdict::Refused(ended.why()),
        (Some(0), _) => Verdict::Harmless("it is read as an empty run".into()),
        (code, _) => Verdict::GotOut(format!("it ended with {code:?}: {}", ended.why())),
    };
    Ok(row(id, what, verdict))
}

/// A run with words that are meant for a terminal or a browser, and a stack without an end.
fn shown(site: &Site) -> Result<Vec<Row>> {
    let dir = site.root.join("shown");
    let stored = Run {
        version: RUN_VERSION,
        id: "20260101-000000-shown-limit".into(),
        command: "limit".into(),
        ..Run::default()
    };
    let secrets = Secrets::default();
    let mut store = RunStore::create(&dir, &stored)?;
    store.append(0.0, &Record::Header(Box::new(stored)), &secrets)?;
    let text = "ESCAPE]0;titleESCAPE[2J <script>alert(1)</script> ]]> | =cmd()".to_owned();
    let entry = JournalEntry {
        at_s: 1.0,
        kind: EntryKind::Warning,
        text,
    };
    store.append(1.0, &Record::Journal(entry), &secrets)?;
    store.append(2.0, &Record::Stacks(Box::new(deep())), &secrets)?;
    store.append(3.0, &Record::End("failed: ESCAPE[31mred".into()), &secrets)?;
    let path = store.path().display().to_string();
    drop(store);
    // Kneepoint writes no escape; a stranger does.
    let code = "import sqlite3,sys; c = sqlite3.connect(sys.argv[1]); \
                c.execute(\"update record set json = replace(json, 'ESCAPE', '\\\\u001b')\"); c.commit()";
    run(Command::new("python3").args(["-c", code, &path]), LIMIT)?;
    let mut rows = Vec::new();
    for format in FORMATS {
        let ended = report(site, &[&path, "--format", format])?;
        let escape = ended.printed.contains('\u{1b}') || ended.said.contains('\u{1b}');
        let script = format == "html" && ended.printed.contains("<script>alert");
        let verdict = match ended.code {
            Some(0) => out(escape || script, "it is in what is rendered"),
            code => Verdict::GotOut(format!("rendering ended with {code:?}: {}", ended.why())),
        };
        let what = format!(
            "escapes, a script and a stack of {DEEP} frames in a run, as {format} (15, 19)"
        );
        rows.push(row(&format!("shown-{format}"), &what, verdict));
    }
    Ok(rows)
}

fn deep() -> StackProfile {
    let place = Place {
        function: "<img src=x onerror=alert(1)>".into(),
        file: Some("/srv/a.php".into()),
        line: Some(1),
    };
    StackProfile {
        phase: "over".into(),
        rate_hz: 99,
        ok: 1,
        places: vec![place],
        stacks: vec![MetStack {
            places: vec![0; DEEP as usize],
            count: 1,
            ..MetStack::default()
        }],
        ..StackProfile::default()
    }
}

/// A gate whose reader leaves, and one whose baseline is of another load.
fn gates(site: &Site) -> Result<Vec<Row>> {
    let mut command = site.command(&["limit", "/nowhere/kneepoint.toml", "--json", "-"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    drop((child.stdout.take(), child.stderr.take()));
    let status = child.wait()?;
    let mut rows = vec![row(
        "closed-pipe",
        "leaves a failing command that it reads from (4)",
        out(status.code() != Some(2), format!("it ended with {status}")),
    )];
    let plain = "[app]\nroot = \".\"\nfront = \"index.php\"\n[[request]]\npath = \"/\"\n";
    site.write(
        "plain.toml",
        &format!("{plain}expect = {{ body_contains = \"served\" }}\n"),
    )?;
    site.write("other.toml", plain)?;
    let runs = site.root.join("gates");
    let limit = |scenario: &str, more: &[&str]| {
        let mut command = site.command(&["limit"]);
        command
            .arg(site.root.join(scenario))
            .args(["--no-report", "--runs"])
            .arg(&runs)
            .args(more);
        run(&mut command, LIMIT)
    };
    let first = limit("plain.toml", &["--simulate=none"])?;
    let baseline = RunStore::list(&runs).pop().context(first.said)?;
    let second = limit(
        "other.toml",
        &[
            "--ci",
            "--budget",
            "6s",
            "--baseline",
            &baseline.display().to_string(),
        ],
    )?;
    rows.push(row(
        "unlike-loads",
        "compares with a baseline whose pages were judged otherwise (9)",
        match second.code {
            Some(2) => Verdict::Refused(second.why()),
            code => Verdict::GotOut(format!("it ended with {code:?}")),
        },
    ));
    Ok(rows)
}

/// Pipes, endless files and links where the application's own files are looked for.
fn applications_files(site: &Site, outside: &Outside) -> Result<Vec<Row>> {
    let dotenv = site.root.join(".env");
    let mut rows = Vec::new();
    let secret = outside.path("outside/secret");
    let cases: [(&str, &str, &dyn Fn() -> Result<()>); 3] = [
        ("env-pipe", "an .env that is a pipe (10)", &|| {
            run(Command::new("mkfifo").arg(&dotenv), LIMIT).map(drop)
        }),
        (
            "env-zero",
            "an .env that is a link to /dev/zero (10)",
            &|| Ok(symlink("/dev/zero", &dotenv)?),
        ),
        (
            "env-secret",
            "an .env that is a link to a file of root (10)",
            &|| Ok(symlink(&secret, &dotenv)?),
        ),
    ];
    for (id, what, make) in cases {
        fs::remove_file(&dotenv)?;
        make()?;
        let mut command = site.command(&["limit"]);
        command
            .arg(site.root.join("plain.toml"))
            .args(["--simulate=none", "--runs"])
            .arg(&site.runs);
        let ended = run(&mut command, LIMIT)?;
        let verdict = match ended.in_time {
            false => Verdict::GotOut("it is read for ever".into()),
            true => out(
                site.stored_contains(SECRET),
                "what it holds is in a run file",
            ),
        };
        rows.push(row(id, what, verdict));
    }
    fs::remove_file(&dotenv)?;
    Ok(rows)
}

/// Links in the directory of runs, with the names that the next reports would have.
fn planted_reports(site: &Site, outside: &Outside) -> Result<Row> {
    let runs = site.root.join("planted");
    fs::create_dir(&runs)?;
    let (at, victim) = (runs.display(), outside.path("outside/victim"));
    let script = format!(
        "now=$(date +%s); for i in $(seq 0 40); do \
         ln -s {} {at}/$(date -u -d @$((now + i)) +%Y%m%d-%H%M%S)-site-limit.html; done",
        victim.display()
    );
    run(Command::new("sh").args(["-c", &script]), LIMIT)?;
    let before = fs::read(&victim)?;
    let mut command = site.command(&["limit"]);
    command
        .arg(site.root.join("plain.toml"))
        .args(["--simulate=none", "--runs"])
        .arg(&runs);
    let ended = run(&mut command, LIMIT)?;
    let is_out = fs::read(&victim)? != before;
    let verdict = match is_out {
        true => Verdict::GotOut("a report was written through the link".into()),
        false => Verdict::Refused(
            ended
                .said
                .lines()
                .last()
                .unwrap_or_default()
                .chars()
                .take(90)
                .collect(),
        ),
    };
    Ok(row(
        "report-link",
        "plants links where the next report is written (3)",
        verdict,
    ))
}

/// An application that fails when it is asked, with a log that says it with escapes and with a secret of its own.
fn failing(site: &Site, outside: &Outside) -> Result<Row> {
    let page = "<?php error_log(\"\\x1b[2J\\x1b]0;t\\x07 broken\"); $log = ini_get('error_log'); \
                @unlink($log); @symlink('SECRET', $log); http_response_code(500); exit('broken');";
    let secret = outside.path("outside/secret").display().to_string();
    site.write("index.php", &page.replace("SECRET", &secret))?;
    let ended = on(site, "plain.toml", "8s")?;
    let said = format!("{}{}", ended.said, ended.printed);
    let got = if said.contains(SECRET) || site.stored_contains(SECRET) {
        Some("a file of root was quoted")
    } else if said.contains('\u{1b}') {
        Some("an escape reached the terminal")
    } else {
        None
    };
    let verdict = match (got, ended.code) {
        (Some(how), _) => Verdict::GotOut(how.into()),
        (None, Some(2)) => Verdict::Refused(ended.why()),
        (None, code) => Verdict::GotOut(format!("a broken application ended with {code:?}")),
    };
    Ok(row(
        "failing",
        "fails with escapes in its log, which is a link to a file of root (8, 10, 19)",
        verdict,
    ))
}

/// A real limit on a scenario of the site.
fn on(site: &Site, scenario: &str, budget: &str) -> Result<Ended> {
    let mut command = site.command(&["limit"]);
    command
        .arg(site.root.join(scenario))
        .args(["--budget", budget, "--runs"])
        .arg(&site.runs);
    Running::start(&mut command)?.ended()
}

/// A stored run as the program renders it.
fn report(site: &Site, arguments: &[&str]) -> Result<Ended> {
    let mut command = site.command(&["report", "--runs"]);
    run(command.arg(&site.runs).args(arguments), LIMIT)
}

fn all_bytes(dir: &Path) -> Vec<u8> {
    let paths: Vec<PathBuf> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths
        .iter()
        .filter_map(|path| fs::read(path).ok())
        .flatten()
        .collect()
}
