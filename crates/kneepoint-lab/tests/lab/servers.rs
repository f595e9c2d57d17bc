//! Servers and commands.

use crate::support::{eventually, host, lab, nginx, processes, redis, script, sh};
use kneepoint_lab::{LabError, Stopped};
use kneepoint_model::{Address, CommandSpec, Commands as _, Ready, Signal};
use libtest_mimic::Failed;
use std::time::Duration;

fn workers(of: u32) -> Vec<u32> {
    let all = processes().into_iter();
    all.filter(|it| it.parent == of && it.lives())
        .map(|it| it.pid)
        .collect()
}

pub(crate) fn life() -> Result<(), Failed> {
    let lab = lab(&["web"]);
    let web = host(&lab, "web");
    let mut spec = nginx(&web, 8080);
    let server = lab.spawn("web", &spec)?;
    assert!(eventually(|| workers(server.pid).len() == 2), "two workers");
    let before = workers(server.pid);
    lab.reload(&server)?;
    let replaced = || {
        let now = workers(server.pid);
        now.len() == 2 && now.iter().all(|pid| !before.contains(pid))
    };
    assert!(eventually(replaced), "a reload replaces the workers");
    assert_eq!(lab.ended(&server)?, None);
    let taken = lab
        .spawn("web", &nginx(&web, 8080))
        .expect_err("the port is taken");
    assert!(matches!(taken, LabError::AddressTaken { .. }), "{taken}");
    assert_eq!(lab.stop_process(&server)?, Stopped::Gracefully);
    assert_eq!(lab.ended(&server)?.as_deref(), Some("exited with code 0"));

    // A master that is killed leaves its workers behind, still listening: a stop must find them.
    let server = lab.spawn("web", &spec)?;
    assert!(eventually(|| workers(server.pid).len() == 2));
    let orphans = workers(server.pid);
    lab.signal(&server, Signal::Kill)?;
    assert!(eventually(|| lab.ended(&server).expect("known").is_some()));
    let stopped = lab.stop_process(&server)?;
    assert!(
        matches!(&stopped, Stopped::Before(how) if how.contains("SIGKILL")),
        "{stopped:?}"
    );
    let left: Vec<u32> = processes()
        .iter()
        .map(|it| it.pid)
        .filter(|pid| orphans.contains(pid))
        .collect();
    assert!(left.is_empty(), "orphans {left:?}");

    spec.stop = Signal::Cont;
    spec.stop_timeout = Duration::from_millis(200);
    let stubborn = lab.spawn("web", &spec)?;
    assert_eq!(lab.stop_process(&stubborn)?, Stopped::Killed);
    lab.spawn("web", &spec)?;
    Ok(())
}

pub(crate) fn not_ready() -> Result<(), Failed> {
    let lab = lab(&["web"]);
    let web = host(&lab, "web");
    let check = |spec: &kneepoint_model::ProcessSpec, words: &[&str]| {
        let error = lab.spawn("web", spec).expect_err("not ready").to_string();
        for word in words {
            assert!(error.contains(word), "`{word}` in: {error}");
        }
        assert!(!error.contains("old words"), "{error}");
    };
    let mut spec = redis(&web, 6390);
    std::fs::write(&spec.output, "old words\n")?;
    spec.args.extend(["--no-such-option".into(), "1".into()]);
    check(
        &spec,
        &[
            "`redis` did not become ready",
            "exited with code 1",
            "no-such-option",
        ],
    );

    let mut spec = script(&web, "echo I am slow; exec sleep 600");
    spec.ready = Ready::Connects("198.18.0.1:81".parse::<Address>()?);
    spec.ready_timeout = Duration::from_millis(300);
    check(
        &spec,
        &[
            "accepts no connection on 198.18.0.1:81 after 0.3 s",
            "I am slow",
        ],
    );
    spec.ready = Ready::Command(sh("echo not yet >&2; false"));
    check(&spec, &["/bin/sh", "not yet", "after 0.3 s"]);
    spec.ready = Ready::Command(sh("sleep 600"));
    check(&spec, &["does not end"]);
    spec.ready = Ready::Command(CommandSpec::new("/no/such/check"));
    check(&spec, &["/no/such/check", "install"]);
    let busy = || {
        processes()
            .iter()
            .any(|it| it.name == "sleep" && it.has_variable("KNEEPOINT_LAB", lab.id()))
    };
    assert!(!busy(), "what did not become ready does not stay");

    spec.program = "/no/such/server".into();
    check(&spec, &["\"/no/such/server\" does not exist", "install"]);
    // The machine has it, and no host of the lab sees it there.
    let hidden = tempfile::tempdir_in("/var/tmp")?;
    let program = hidden.path().join("server");
    std::fs::copy("/bin/true", &program)?;
    spec.program = program;
    check(&spec, &["lies in /var/tmp", "/opt"]);
    spec = script(&web, "true");
    spec.user = Some("no-such-user".into());
    check(&spec, &["`no-such-user`", "useradd"]);
    spec = script(&web, "true");
    spec.output = web.dir.join("no/such/dir/out");
    check(&spec, &["no/such/dir/out"]);
    Ok(())
}

pub(crate) fn user() -> Result<(), Failed> {
    let lab = lab(&["db"]);
    let db = host(&lab, "db");
    let data = lab.make_dir("db", "data", Some("nobody"))?;
    let mut spec = script(
        &db,
        "id -un; touch made; echo again >>/dev/stderr; sleep 600 & wait",
    );
    spec.user = Some("nobody".into());
    spec.dir = data.clone();
    let server = lab.spawn("db", &spec)?;
    let said = || std::fs::read_to_string(&spec.output).unwrap_or_default();
    assert!(eventually(|| said() == "nobody\nagain\n"), "{}", said());
    assert!(data.join("made").exists());
    assert_eq!(lab.stop_process(&server)?, Stopped::Gracefully);
    assert!(lab.make_dir("db", "../../x", None).is_err());
    Ok(())
}

pub(crate) fn commands() -> Result<(), Failed> {
    let lab = lab(&["web"]);
    let commands = lab.commands("web");
    let mut command = sh("cat; echo $WORD >&2; exit 7");
    command.stdin = Some("x".repeat(1 << 20));
    command.env = vec![("WORD".into(), "err".into())];
    let output = commands.run(&command)?;
    assert_eq!((output.code, output.stdout.len()), (Some(7), 1 << 20));
    assert_eq!(output.stderr, "err\n");
    let mut slow = sh("echo begun; sleep 600 & sleep 600");
    slow.timeout = Duration::from_millis(200);
    let error = commands.run(&slow).expect_err("takes too long");
    assert!(
        error.contains("within 0.2 s") && error.contains("begun"),
        "{error}"
    );
    let sleeps = || {
        processes()
            .iter()
            .any(|it| it.name == "sleep" && it.has_variable("KNEEPOINT_LAB", lab.id()))
    };
    assert!(!sleeps(), "its children die with it");
    // Many at once, each gets its own answer.
    std::thread::scope(|scope| {
        let one = |n: u32| lab.exec("web", &sh(&format!("sleep 0.0{n}; echo {n}")));
        let threads: Vec<_> = (0..8).map(|n| (n, scope.spawn(move || one(n)))).collect();
        for (n, thread) in threads {
            let output = thread.join().expect("no panic").expect("runs");
            assert_eq!(output.stdout.trim(), n.to_string());
        }
    });
    Ok(())
}

/// FPM's reload replaces the program within the process, so that everything settled before must survive exec.
pub(crate) fn fpm() -> Result<(), Failed> {
    let lab = lab(&["php"]);
    let php = host(&lab, "php");
    let listen = format!("{}:9000", php.address);
    let config = php.dir.join("fpm.conf");
    std::fs::write(
        &config,
        format!(
            "[global]\nerror_log = {0}/fpm.log\n[www]\nuser = www-data\nlisten = {listen}\n\
             pm = static\npm.max_children = 2\n",
            php.dir.display()
        ),
    )?;
    let mut spec = script(&php, "");
    spec.name = "fpm".into();
    spec.program = "/usr/sbin/php-fpm8.2".into();
    spec.args = ["-F", "-n", "-y", &config.display().to_string()]
        .map(str::to_owned)
        .to_vec();
    spec.ready = Ready::Connects(listen.parse::<Address>()?);
    spec.reload = Some(Signal::Usr2);
    spec.stop = Signal::Quit;
    let server = lab.spawn("php", &spec)?;
    assert!(eventually(|| workers(server.pid).len() == 2), "two workers");
    let before = workers(server.pid);
    lab.reload(&server)?;
    let replaced = || {
        let now = workers(server.pid);
        now.len() == 2 && now.iter().all(|pid| !before.contains(pid))
    };
    assert!(
        eventually(replaced),
        "the workers are new, their master is not"
    );
    let groups = php
        .cgroup
        .memory
        .clone()
        .expect("memory is accounted")
        .join("cgroup.procs");
    let members = std::fs::read_to_string(groups)?;
    assert_eq!(
        members.lines().count(),
        3,
        "all of them count on the host's account: {members}"
    );
    assert_eq!(lab.stop_process(&server)?, Stopped::Gracefully);
    Ok(())
}

/// PostgreSQL puts each backend into a session of its own, and refuses to run as root.
pub(crate) fn postgresql() -> Result<(), Failed> {
    let lab = lab(&["db"]);
    let db = host(&lab, "db");
    let data = lab.make_dir("db", "data", Some("postgres"))?;
    let sockets = lab.make_dir("db", "run", Some("postgres"))?;
    let bin = "/usr/lib/postgresql/15/bin";
    let as_postgres = |program: &str, args: &[&str]| CommandSpec {
        user: Some("postgres".into()),
        ..CommandSpec::new(format!("{bin}/{program}")).args(args.iter().copied())
    };
    let (data, sockets) = (data.display().to_string(), sockets.display().to_string());
    let made = lab.exec(
        "db",
        &as_postgres("initdb", &["-D", &data, "-A", "trust", "-N"]),
    )?;
    assert!(made.success(), "{}", made.stderr);
    let mut spec = script(&db, "");
    spec.name = "postgresql".into();
    spec.program = format!("{bin}/postgres").into();
    spec.args = ["-D", &data, "-k", &sockets, "-h", &db.address.to_string()]
        .map(str::to_owned)
        .to_vec();
    spec.user = Some("postgres".into());
    spec.ready = Ready::Command(as_postgres("pg_isready", &["-h", &sockets]));
    spec.ready_timeout = Duration::from_secs(30);
    spec.stop = Signal::Int;
    let server = lab.spawn("db", &spec)?;
    let query = as_postgres("psql", &["-h", &sockets, "-Atc", "select 6 * 7"]);
    let output = lab.exec("db", &query)?;
    assert_eq!(output.stdout.trim(), "42", "{}", output.stderr);
    let backends = workers(server.pid);
    assert!(!backends.is_empty(), "background processes");
    assert_eq!(lab.stop_process(&server)?, Stopped::Gracefully);
    let left: Vec<_> = processes()
        .into_iter()
        .filter(|it| backends.contains(&it.pid))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    Ok(())
}
