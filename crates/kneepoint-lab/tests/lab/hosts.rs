//! Hosts: networks, kernel settings, limits.

use crate::support::{eventually, host, lab, plan, redis, script, sh};
use kneepoint_lab::{HostPlan, Lab};
use kneepoint_model::Signal;
use libtest_mimic::Failed;
use std::fs;
use std::path::Path;
use std::time::Duration;

fn connects(lab: &Lab, from: &str, to: &str) -> bool {
    let (address, port) = to.rsplit_once(':').expect("ADDRESS:PORT");
    let mut command = sh("exec bash -c \"exec 3<>/dev/tcp/$0/$1\"");
    command.args.extend([address.to_owned(), port.to_owned()]);
    command.timeout = Duration::from_secs(20);
    lab.exec(from, &command)
        .is_ok_and(|output| output.success())
}

pub(crate) fn reach() -> Result<(), Failed> {
    let outside = std::net::TcpListener::bind("127.0.0.1:0")?;
    let outside = outside.local_addr()?;
    let lab = lab(&["web", "cache"]);
    assert_eq!(lab.capabilities().missing, Vec::<String>::new());
    let cache = host(&lab, "cache");
    lab.spawn("cache", &redis(&cache, 6399))?;
    let there = format!("{}:6399", cache.address);
    assert!(connects(&lab, "web", &there), "a host reaches its peer");
    assert!(connects(&lab, "cache", &there), "a host reaches itself");
    assert!(
        !connects(&lab, "web", "127.0.0.1:6399"),
        "each host has a loopback of its own"
    );
    assert!(
        !connects(&lab, "web", &outside.to_string()),
        "not the machine's loopback"
    );
    let routes = lab.exec("web", &sh("ip route show; ip -6 route show default"))?;
    let lines: Vec<&str> = routes.stdout.lines().collect();
    assert_eq!(lines.len(), 1, "only the lab's own network: {lines:?}");
    assert!(lines[0].starts_with("198.18.0.0/24"), "{lines:?}");
    assert!(
        !connects(&lab, "web", "192.0.2.1:80"),
        "there is no way out"
    );
    Ok(())
}

pub(crate) fn sysctls() -> Result<(), Failed> {
    let machine = fs::read_to_string("/proc/sys/net/core/somaxconn")?;
    let mut plan = plan(&["web", "php"]);
    let sysctl = &mut plan.hosts[0].limits.sysctl;
    sysctl.insert("net.core.somaxconn".into(), "128".into());
    let lab = Lab::start(plan)?;
    lab.set_sysctl("php", "net.core.somaxconn", "256")?;
    lab.set_sysctl("php", "net.ipv4.ip_local_port_range", "40000 40999")?;
    let seen = |host| lab.exec(host, &sh("cat /proc/sys/net/core/somaxconn"));
    assert_eq!(seen("web")?.stdout.trim(), "128");
    assert_eq!(seen("php")?.stdout.trim(), "256");
    let range = lab.sysctl("php", "net.ipv4.ip_local_port_range")?;
    assert_eq!(range, "40000 40999");
    assert_ne!(lab.sysctl("web", "net.ipv4.ip_local_port_range")?, range);
    let check = |name: &str, value: &str, words: &str| {
        let error = lab
            .set_sysctl("web", name, value)
            .expect_err(name)
            .to_string();
        assert!(error.contains(words), "{name}: {error}");
    };
    check("vm.overcommit_memory", "1", "whole machine");
    check("net.core.no_such_thing", "1", "no such setting");
    check(
        "net.core.somaxconn",
        "many",
        "setting `net.core.somaxconn` to `many`",
    );
    assert_eq!(fs::read_to_string("/proc/sys/net/core/somaxconn")?, machine);
    Ok(())
}

fn counter(file: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(file).expect("the group has statistics");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
    let value = lines.next().and_then(|rest| rest.trim().parse().ok());
    value.expect("the counter is there")
}

pub(crate) fn cpu_limit() -> Result<(), Failed> {
    let mut plan = plan(&["php"]);
    plan.hosts[0].limits.cpus = Some(0.1);
    let lab = Lab::start(plan)?;
    let php = host(&lab, "php");
    assert_eq!(php.cpus, 0.1);
    let stat = php
        .cgroup
        .cpu
        .clone()
        .expect("cpu is accounted")
        .join("cpu.stat");
    lab.spawn("php", &script(&php, "while :; do :; done"))?;
    let before = counter(&stat, "nr_throttled ");
    assert!(
        eventually(|| counter(&stat, "nr_throttled ") > before + 3),
        "throttles"
    );
    lab.set_cpus("php", 64.0)?;
    let machine = std::thread::available_parallelism()?.get() as f64;
    assert_eq!(
        host(&lab, "php").cpus,
        machine,
        "a host has no more cores than the machine"
    );
    let (periods, throttled) = (
        counter(&stat, "nr_periods "),
        counter(&stat, "nr_throttled "),
    );
    assert!(
        eventually(|| counter(&stat, "nr_periods ") > periods + 5),
        "periods go on"
    );
    assert!(
        counter(&stat, "nr_throttled ") <= throttled + 1,
        "the limit is lifted"
    );
    assert!(lab.set_cpus("php", f64::NAN).is_err());
    Ok(())
}

pub(crate) fn memory_limit() -> Result<(), Failed> {
    let mut plan = plan(&["php"]);
    plan.hosts[0].limits.memory_bytes = Some(32 << 20);
    let lab = Lab::start(plan)?;
    let php = host(&lab, "php");
    assert_eq!(php.memory_bytes, 32 << 20);
    // Keeps all it reads in one line, until the limit ends it.
    let greedy = script(&php, "ulimit -v 1000000; exec tail -n 1 /dev/zero");
    let process = lab.spawn("php", &greedy)?;
    assert!(
        eventually(|| lab.ended(&process).expect("known").is_some()),
        "it is killed"
    );
    let how = lab.ended(&process)?.expect("ended");
    for words in ["SIGKILL", "memory limit of host `php`, 32.0 MiB"] {
        assert!(how.contains(words), "{how}");
    }
    let error = lab
        .signal(&process, Signal::Hup)
        .expect_err("it has ended")
        .to_string();
    assert!(error.contains("is not running"), "{error}");
    Ok(())
}

/// Seconds that a command took on a host.
fn seconds(lab: &Lab, host: &str, command: &str) -> Result<f64, Failed> {
    let timed = sh(&format!(
        "s=$(date +%s%N); {command}; e=$(date +%s%N); echo $(((e - s) / 1000))"
    ));
    let output = lab.exec(host, &timed)?;
    let last = output.stdout.lines().last().unwrap_or_default();
    let us: f64 = last.trim().parse().map_err(|_| output.stderr.clone())?;
    Ok(us / 1e6)
}

pub(crate) fn link_limit() -> Result<(), Failed> {
    let mut plan = plan(&["web", "cache"]);
    plan.hosts[0].limits.link_mbit = Some(16.0);
    let lab = Lab::start(plan)?;
    let web = host(&lab, "web");
    fs::write(web.dir.join("page"), vec![b'x'; 2 << 20])?;
    // Two megabytes through 16 Mbit/s take a second and more, and a quarter of them may leave at once.
    let serve = format!(
        "exec socat TCP-LISTEN:8081,fork,reuseaddr OPEN:{}/page,rdonly",
        web.dir.display()
    );
    lab.spawn("web", &script(&web, &serve))?;
    let fetch = format!(
        "for i in $(seq 50); do socat -u TCP:{}:8081 OPEN:/dev/null && break; sleep 0.1; done",
        web.address
    );
    let slow_s = seconds(&lab, "cache", &fetch)?;
    assert!(slow_s > 0.7, "{slow_s} s for 2 MiB through 16 Mbit/s");
    Ok(())
}

pub(crate) fn disk_limit() -> Result<(), Failed> {
    let mut plan = plan(&["db"]);
    plan.hosts[0].limits.disk_iops = Some(20);
    let lab = match Lab::start(plan) {
        // A directory in memory, or a kernel without the controller: that is said.
        Err(why) if why.to_string().contains("limiting what the disk does") => return Ok(()),
        lab => lab?,
    };
    let write = format!(
        "dd if=/dev/zero of={}/log bs=4096 count=40 oflag=dsync",
        host(&lab, "db").dir.display()
    );
    let slow_s = seconds(&lab, "db", &write)?;
    assert!(slow_s > 1.0, "{slow_s} s for 40 writes at 20 a second");
    Ok(())
}

pub(crate) fn come_and_go() -> Result<(), Failed> {
    let lab = lab(&["a-web"]);
    for _ in 0..3 {
        let added = lab.add_host(HostPlan::new("b-web"))?;
        lab.spawn("b-web", &redis(&added, 6398))?;
        lab.spawn("b-web", &script(&added, "(setsid sleep 600 &) ; sleep 600"))?;
        let there = format!("{}:6398", added.address);
        assert!(connects(&lab, "a-web", &there));
        let group = added.cgroup.cpu.clone().expect("cpu is accounted");
        lab.remove_host("b-web")?;
        assert!(!added.dir.exists(), "its directory is gone");
        assert!(!group.exists(), "its group is gone, so its processes are");
        assert!(lab.host("b-web").is_none());
        assert!(!connects(&lab, "a-web", &there), "its address is gone");
    }
    let error = lab
        .exec("b-web", &sh("true"))
        .expect_err("no such host")
        .to_string();
    assert!(error.contains("no host `b-web`; it has a-web"), "{error}");
    assert!(
        lab.add_host(HostPlan::new("a-web")).is_err(),
        "the name is taken"
    );
    let mut wrong = HostPlan::new("c-web");
    wrong
        .limits
        .sysctl
        .insert("net.core.nothing".into(), "1".into());
    assert!(lab.add_host(wrong).is_err());
    lab.add_host(HostPlan::new("c-web"))?;
    Ok(())
}

pub(crate) fn two_labs() -> Result<(), Failed> {
    let (one, two) = (lab(&["web"]), lab(&["web", "other"]));
    let web = host(&one, "web");
    one.spawn("web", &redis(&web, 6397))?;
    let there = format!("{}:6397", web.address);
    assert!(connects(&one, "web", &there));
    assert!(
        !connects(&two, "other", &there),
        "the same address in another lab"
    );
    two.stop()?;
    assert!(
        connects(&one, "web", &there),
        "the end of one lab is not that of another"
    );
    Ok(())
}
