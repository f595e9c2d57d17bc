//! The check on real servers: nginx, PHP-FPM and Redis in private directories, on loopback. Needs root, as their masters
//! do; says so and passes without it.
#![allow(
    clippy::disallowed_methods,
    reason = "tests start the servers they look at"
)]

#[path = "../../../tests/ports.rs"]
mod ports;
#[path = "../../../tests/skipped.rs"]
mod skip;
#[path = "real/stack.rs"]
mod stack;

use kneepoint_check::{CheckFormat, CheckOptions, Report, Severity, check, redacted, render};
use stack::{Stack, can_run, everything, now};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

/// Everything that is planted in the sick stack.
const PLANTED: [&str; 29] = [
    "OPC-01", "OPC-09", "FPM-01", "FPM-06", "FPM-14", "FPM-15", "FPM-16", "FPM-17", "FPM-20",
    "FPM-23", "GEN-04", "NGX-01", "NGX-03", "NGX-04", "NGX-06", "NGX-07", "NGX-12", "NGX-13",
    "NGX-17", "NGX-20", "RDS-02", "RDS-06", "APP-01", "APP-02", "APP-04", "APP-08", "CHK-01",
    "FPM-21", "FPM-05",
];

fn look(stack: &Stack) -> Report {
    let options = CheckOptions {
        pids: stack.pids(),
        budget: Duration::from_secs(20),
        ..CheckOptions::default()
    };
    let (report, snapshot) = check(&options);
    let hidden = redacted(&report, &snapshot);
    assert_eq!(hidden.findings.len(), report.findings.len());
    report
}

/// What this thread has read so far, in bytes.
fn bytes_read() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/io").expect("counters");
    let count = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    count.expect("rchar").parse().expect("a number")
}

fn codes(report: &Report) -> BTreeSet<&'static str> {
    report.findings.iter().map(|finding| finding.code).collect()
}

#[test]
fn every_planted_fault_is_found() {
    if !can_run("every_planted_fault_is_found") {
        return;
    }
    let stack = Stack::sick();
    // Changed since it was loaded.
    let conf = stack.path("nginx.conf");
    std::thread::sleep(Duration::from_millis(1500));
    let text = fs::read_to_string(&conf).expect("there");
    fs::write(&conf, format!("{text}\n# later\n")).expect("written");
    let report = look(&stack);
    let found = codes(&report);
    let missing: Vec<&str> = PLANTED
        .into_iter()
        .filter(|code| !found.contains(code))
        .collect();
    let text = render(&report, CheckFormat::Terminal { all: true });
    assert!(missing.is_empty(), "not found: {missing:?}\n{text}");
    let seen = |code: &str, words: &str| {
        let mut findings = report
            .findings
            .iter()
            .filter(|finding| finding.code == code);
        assert!(
            findings.any(|finding| format!("{finding:?}").contains(words)),
            "{code} without `{words}`\n{text}"
        );
    };
    let dir = stack.dir.path().display().to_string();
    seen("FPM-01", &format!("{dir}/fpm.conf:9"));
    seen("FPM-01", "3 times since");
    seen("NGX-12", &format!("{dir}/nginx.conf:"));
    // The flag is nowhere in a file, and PHP-FPM writes over its own command line.
    seen("OPC-01", "memory of process");
    seen("APP-02", &format!("{dir}/app/.env:1"));
    // nginx -> PHP -> Redis.
    let joined = |from: usize, to: usize| {
        report
            .links
            .iter()
            .any(|link| (link.from, link.to) == (from, to))
    };
    assert!(joined(0, 1) && joined(1, 2), "{:?}\n{text}", report.links);
    assert_eq!(report.findings[0].severity, Severity::Problem);
}

#[test]
fn nothing_is_found_on_the_healthy_twin_and_nothing_is_changed() {
    if !can_run("nothing_is_found_on_the_healthy_twin_and_nothing_is_changed") {
        return;
    }
    let stack = Stack::healthy();
    let before = everything(stack.dir.path());
    let report = look(&stack);
    // OPcache of PHP-FPM tells its own numbers, where its layout is known.
    let (_, snapshot) = check(&CheckOptions {
        pids: stack.pids(),
        ..CheckOptions::default()
    });
    let php = snapshot.services.iter().find(|one| !one.pools.is_empty());
    if let Some(php) = php.filter(|one| one.version.starts_with("8.2.")) {
        let opcache = php.php.as_ref().and_then(|php| php.opcache);
        assert!(
            opcache.is_some_and(|state| state.free_bytes > 0 && state.most_keys >= 10_000),
            "{opcache:?}"
        );
    }
    assert_eq!(
        before,
        everything(stack.dir.path()),
        "files, logs and times are as they were"
    );
    // Counters of the whole machine, or of all that was started beside: other tests fill queues, and others are killed.
    let found: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| !["KRN-03", "KRN-04", "KRN-08"].contains(&finding.code))
        .collect();
    let text = render(&report, CheckFormat::Terminal { all: true });
    assert!(found.is_empty(), "{text}");
    assert!(report.is_clean() && report.services.len() == 3, "{text}");
    assert!(report.blind.is_empty(), "{text}");
    assert!(report.took_s < 5.0, "{}", report.took_s);
}

/// Another root directory, with links that would lead to the host's files.
#[test]
fn a_chroot_is_read_as_its_process_sees_it() {
    if !can_run("a_chroot_is_read_as_its_process_sees_it") {
        return;
    }
    let stack = Stack::in_another_root(|root| {
        let etc = root.join("etc/nginx");
        fs::create_dir_all(etc.join("sites")).expect("made");
        let main = "user root;\nworker_processes 1;\npid /run/nginx.pid;\nerror_log /log/error.log;\nevents {\n worker_connections 700;\n}\n\
            http {\n access_log off;\n include sites/*;\n}\n";
        fs::write(etc.join("nginx.conf"), main).expect("written");
        // Absolute: on the host it leads to nothing, or to the host's own.
        symlink("/available/site", etc.join("sites/site")).expect("link");
        fs::create_dir(root.join("available")).expect("made");
        let port = ports::free_port();
        let site = format!("gzip on;\ngzip_comp_level 8;\nserver {{ listen 127.0.0.1:{port}; }}\n");
        fs::write(root.join("available/site"), site).expect("written");
    });
    let report = look(&stack);
    let text = render(&report, CheckFormat::Terminal { all: true });
    let level = report
        .findings
        .iter()
        .find(|finding| finding.code == "NGX-12")
        .unwrap_or_else(|| panic!("{text}"));
    assert_eq!(level.seen[0].source, "/etc/nginx/sites/site:2");
    assert_eq!(
        report.services[0].settings["worker_connections"].text, "700",
        "{text}"
    );
    assert!(report.blind.is_empty(), "{text}");
}

#[test]
fn hostile_files_cost_their_own_part_only() {
    if !can_run("hostile_files_cost_their_own_part_only") {
        return;
    }
    let stack = Stack::sick();
    let sites = stack.path("sites");
    let made = std::process::Command::new("mkfifo")
        .arg(sites.join("a-fifo"))
        .status()
        .expect("mkfifo");
    assert!(made.success());
    symlink("/dev/zero", sites.join("b-device")).expect("link");
    symlink("/proc/self/environ", sites.join("c-kernel")).expect("link");
    fs::write(sites.join("d-broken"), "server { listen").expect("written");
    fs::write(sites.join("e-huge"), "# x\n".repeat(1 << 19)).expect("written");
    fs::create_dir(sites.join("f-directory")).expect("made");
    // A log of 100 MB: only its end is read.
    let log = fs::OpenOptions::new()
        .append(true)
        .open(stack.path("nginx.log"))
        .expect("the log");
    let line = format!(
        "{} [error] 1#1: *1 upstream timed out (110: Connection timed out) while reading response header from upstream\n",
        now("%Y/%m/%d %H:%M:%S")
    );
    use std::io::Write as _;
    (&log)
        .write_all(line.repeat(100_000_000 / line.len()).as_bytes())
        .expect("written");
    let before = bytes_read();
    let report = look(&stack);
    let read = bytes_read() - before;
    assert!(read < 50_000_000, "{read} bytes");
    let text = render(&report, CheckFormat::Terminal { all: true });
    for name in [
        "a-fifo",
        "b-device",
        "c-kernel",
        "d-broken",
        "e-huge",
        "f-directory",
    ] {
        assert!(
            report.blind.iter().any(|blind| blind.what.contains(name)),
            "{name}\n{text}"
        );
    }
    // The rest is judged all the same.
    let found = codes(&report);
    for code in ["NGX-12", "NGX-17", "FPM-01", "RDS-06"] {
        assert!(found.contains(code), "{code}\n{text}");
    }
}

#[test]
fn a_process_that_is_gone_is_named_and_the_rest_is_judged() {
    if !can_run("a_process_that_is_gone_is_named_and_the_rest_is_judged") {
        return;
    }
    let stack = Stack::sick();
    let pids = [stack.pids(), vec![u32::MAX]].concat();
    let (report, _) = check(&CheckOptions {
        pids,
        ..CheckOptions::default()
    });
    assert!(
        report
            .blind
            .iter()
            .any(|blind| blind.what.contains(&u32::MAX.to_string()))
    );
    assert!(!report.is_clean());
    let pids = stack.pids();
    drop(stack);
    let (report, _) = check(&CheckOptions {
        pids,
        ..CheckOptions::default()
    });
    assert!(
        report.is_blind() && report.blind.len() == 3,
        "{:?}",
        report.blind
    );
}

#[test]
fn a_pool_and_an_application_narrow_what_is_told() {
    if !can_run("a_pool_and_an_application_narrow_what_is_told") {
        return;
    }
    let stack = Stack::sick();
    let base = CheckOptions {
        pids: stack.pids(),
        budget: Duration::from_secs(20),
        ..CheckOptions::default()
    };
    let (report, _) = check(&CheckOptions {
        pool: Some("slow".into()),
        ..base.clone()
    });
    assert!(
        report
            .findings
            .iter()
            .any(|finding| finding.code == "FPM-05")
    );
    assert!(
        report
            .findings
            .iter()
            .all(|finding| !finding.place.contains("pool www")),
        "{:?}",
        report.findings
    );
    let app = stack.path("app").display().to_string();
    let (report, _) = check(&CheckOptions {
        app: Some(app),
        ..base.clone()
    });
    assert!(codes(&report).contains("APP-02"));
    let (report, _) = check(&CheckOptions {
        app: Some("/nowhere".into()),
        ..base
    });
    assert!(report.is_blind());
}
