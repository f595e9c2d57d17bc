//! Without namespaces: the same lab on loopback.

use crate::support::{assert_nothing_left, eventually, host, nginx, plan, processes, redis, sh};
use kneepoint_lab::Lab;
use libtest_mimic::Failed;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

fn check(lab: &Lab) -> Result<String, Box<dyn std::error::Error>> {
    let web = host(lab, "web");
    assert_eq!(web.netns, None);
    assert_eq!(web.address.to_string(), "127.0.0.1");
    assert!(!lab.capabilities().namespaces);
    let (one, two) = (lab.free_port("web")?, lab.free_port("cache")?);
    assert_ne!(
        one, two,
        "hosts share an address, so they must not share ports"
    );
    let server = lab.spawn("web", &redis(&web, one))?;
    assert_eq!(lab.ended(&server)?, None);
    assert!(lab.exec("cache", &sh("true"))?.success());
    for error in [
        lab.set_sysctl("web", "net.core.somaxconn", "1").err(),
        lab.set_cpus("web", 1.0).err(),
    ] {
        let error = error.ok_or("must not be possible")?.to_string();
        assert!(error.contains("not possible here"), "{error}");
    }
    // A daemon that hides from its parent is still found at the end.
    lab.exec("web", &sh("setsid sleep 600 >/dev/null 2>&1 &"))?;
    Ok(lab.capabilities().missing.join("\n"))
}

/// The part that runs as an unprivileged user.
pub(crate) fn helper() -> ExitCode {
    let refused = Lab::start(plan(&["web", "cache"])).expect_err("it cannot be closed");
    let words = refused.to_string();
    for told in ["need root and this is user", "--host-network"] {
        assert!(words.contains(told), "{words}");
    }
    let mut plan = plan(&["web", "cache"]);
    plan.loopback = true;
    let lab = Lab::start(plan).expect("the lab starts");
    let id = lab.id().to_owned();
    let missing = check(&lab).expect("works on loopback");
    assert!(missing.contains("need root and this is user"), "{missing}");
    lab.stop().expect("ends");
    assert_nothing_left(&id, &std::env::temp_dir(), &BTreeSet::new());
    ExitCode::SUCCESS
}

pub(crate) fn unprivileged() -> Result<(), Failed> {
    let base = tempfile::tempdir()?;
    let mut helper = Command::new(std::env::current_exe()?);
    helper.arg("__unprivileged").env("TMPDIR", base.path());
    if crate::support::is_root() {
        std::fs::set_permissions(base.path(), std::fs::Permissions::from_mode(0o777))?;
        helper.uid(65534).gid(65534).current_dir("/");
    }
    let output = helper.output()?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}");
    assert!(eventually(|| std::fs::read_dir(base.path())
        .expect("readable")
        .count()
        == 0));
    Ok(())
}

/// Without control groups, workers that overwrote their environment are found by their session.
pub(crate) fn killed_keeper() -> Result<(), Failed> {
    let mut plan = plan(&["web"]);
    plan.loopback = true;
    let lab = Lab::start(plan)?;
    let id = lab.id().to_owned();
    let web = host(&lab, "web");
    let server = lab.spawn("web", &nginx(&web, lab.free_port("web")?))?;
    let workers = || {
        let all = processes().into_iter();
        let below = all.filter(|it| it.parent == server.pid);
        below.map(|it| it.pid).collect::<Vec<u32>>()
    };
    assert!(eventually(|| workers().len() == 2), "two workers");
    let workers = workers();
    let killed = Command::new("/bin/kill")
        .args(["-KILL", &lab.keeper_pid().to_string()])
        .status()?;
    assert!(killed.success());
    drop(lab);
    let left: Vec<u32> = processes()
        .iter()
        .filter(|it| workers.contains(&it.pid) && it.lives())
        .map(|it| it.pid)
        .collect();
    assert!(left.is_empty(), "workers {left:?}");
    assert_nothing_left(&id, &std::env::temp_dir(), &BTreeSet::new());
    Ok(())
}

pub(crate) fn forced() -> Result<(), Failed> {
    let mut plan = plan(&["web", "cache"]);
    plan.loopback = true;
    let lab = Lab::start(plan)?;
    let id = lab.id().to_owned();
    let missing = check(&lab)?;
    assert!(missing.contains("the plan asks for loopback"), "{missing}");
    drop(lab);
    assert_nothing_left(&id, &std::env::temp_dir(), &BTreeSet::new());
    Ok(())
}
