//! Telemetry against real servers: what it must see that the servers' own pages do not say, and what it must
//! survive.

mod rig;

use kneepoint_model::metric::{self, Metric};
use kneepoint_model::{CgroupPaths, Layer, LogKind};
use kneepoint_telemetry::{Collector, CollectorOptions, Recording, sample_once};
use rig::{Plan, Rig};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Runs the stack, samples it while `load` runs, and returns the recording.
fn check(rig: &Rig, load: impl FnOnce(&Rig)) -> Recording {
    let collector = Collector::start(rig.tiers(), CollectorOptions::default()).expect("threads");
    load(rig);
    collector.finish()
}

fn seconds(s: f64) {
    thread::sleep(Duration::from_secs_f64(s));
}

/// Mean number of workers with a label.
fn waiting(recording: &Recording, label: &str) -> f64 {
    let series = recording
        .series
        .labelled(Layer::Php, metric::WORKERS_WAITING, label);
    series.and_then(|series| series.mean()).unwrap_or(0.0)
}

fn labels(recording: &Recording) -> Vec<(String, Option<f64>)> {
    let all = recording.series.all(Layer::Php, metric::WORKERS_WAITING);
    all.map(|series| (series.label.clone(), series.mean()))
        .collect()
}

fn up(recording: &Recording, layer: Layer, source: &str) -> Option<f64> {
    recording.series.labelled(layer, metric::UP, source)?.last()
}

fn count(recording: &Recording, layer: Layer, kind: LogKind) -> u64 {
    let found = recording
        .log
        .iter()
        .find(|event| event.layer == layer && event.kind == kind);
    found.map_or(0, |event| event.count)
}

#[test]
fn a_full_unix_queue_is_seen_though_fpm_says_zero() {
    let Some(rig) = Rig::start(&Plan::default()) else {
        return;
    };
    let mut page = String::new();
    let recording = check(&rig, |rig| {
        let clients = rig.clients(30, "/?do=sleep&ms=120");
        seconds(0.4);
        page = rig.get("/status");
        clients
            .into_iter()
            .for_each(|client| assert!(client.join().expect("client").ends_with("done")));
    });
    assert!(
        page.contains("listen queue:         0"),
        "FPM itself: {page}"
    );
    let queue = recording
        .series
        .max(Layer::Php, metric::QUEUE)
        .expect("queue");
    assert!(
        (20.0..=30.0).contains(&queue),
        "most of 30 clients wait for two workers: {queue}"
    );
    assert_eq!(
        recording.series.last(Layer::Php, metric::QUEUE_LIMIT),
        Some(128.0)
    );
    assert_eq!(
        recording.series.max(Layer::Php, metric::WORKERS_BUSY),
        Some(2.0)
    );
    assert!(
        waiting(&recording, "sleep") > 1.0,
        "{:?}",
        labels(&recording)
    );
    assert!(recording.series.max(Layer::Php, metric::WORKERS_BLOCKED) > Some(0.9));
}

#[test]
fn every_source_answers_on_a_whole_stack() {
    let plan = Plan {
        postgresql: true,
        ..Plan::default()
    };
    let Some(rig) = Rig::start(&plan) else { return };
    let mut client = rig.database().connect(postgres::NoTls).expect("a session");
    client
        .batch_execute("CREATE TABLE shelf AS SELECT generate_series(1, 500) AS book; SELECT count(*) FROM shelf")
        .expect("a table that is read whole");
    drop(client);
    let mut tiers = rig.tiers();
    for php in tiers.iter_mut().filter(|tier| tier.layer == Layer::Php) {
        // What PHP does is a job here: the processes of one are counted as those of a tier are.
        php.jobs.push(("pages".to_owned(), php.pid));
    }
    let collector = Collector::start(tiers, CollectorOptions::default()).expect("threads");
    for what in ["ping", "ping", "spin&ms=200", "pop", "query"] {
        let path = format!("/?do={what}");
        assert!(rig.get(&path).ends_with("done"), "{path}");
    }
    let recording = collector.finish();
    assert_eq!(recording.notes, Vec::<String>::new());
    for series in recording
        .series
        .series
        .iter()
        .filter(|series| series.metric == metric::UP.name)
    {
        assert_eq!(
            series.last(),
            Some(1.0),
            "{} of {}",
            series.label,
            series.layer
        );
    }
    // Not on this stack: a control group, a script that counts included files, a runtime with a queue of its own, MariaDB.
    let absent = [
        metric::CGROUP_PERIODS,
        metric::CGROUP_THROTTLED,
        metric::CGROUP_THROTTLED_S,
        metric::PHP_FILES,
        metric::WORKERS_QUEUED,
        metric::DB_ROW_LOCK_WAITS,
        metric::DB_ROW_LOCK_S,
        metric::DB_ROWS_OF_TABLES,
        metric::DB_BYTES_SENT,
    ];
    for wanted in metric::STANDARD
        .iter()
        .filter(|wanted| !absent.contains(wanted))
    {
        let found = recording
            .series
            .series
            .iter()
            .any(|series| series.metric == wanted.name);
        assert!(found, "no series of {}", wanted.name);
    }
    let of_shelf = recording
        .series
        .labelled(Layer::Db, metric::DB_TABLE_ROWS_SCANNED, "shelf");
    assert_eq!(of_shelf.and_then(|series| series.last()), Some(500.0));
    numbers_of_the_whole_stack(&recording);
    frozen_and_full(&rig);
}

/// What the requests of the test must have left in the numbers.
fn numbers_of_the_whole_stack(recording: &Recording) {
    let delta = |layer, metric: Metric| recording.series.delta(layer, metric).expect(metric.name);
    let last = |layer, metric: Metric| recording.series.last(layer, metric);
    assert!(
        delta(Layer::Php, metric::CPU_S) > 0.18,
        "a script burned 0.2 s"
    );
    assert!(delta(Layer::Php, metric::WORKER_REQUESTS) >= 5.0);
    assert!(delta(Layer::Cache, metric::REDIS_CONNECTIONS) >= 3.0);
    assert!(delta(Layer::Web, metric::NGINX_REQUESTS) >= 5.0);
    assert!(delta(Layer::Db, metric::DB_TRANSACTIONS) >= 1.0);
    for label in ["recv cache", "recv db"] {
        assert!(waiting(recording, label) > 0.0, "{:?}", labels(recording));
    }
    assert_eq!(last(Layer::Db, metric::DB_MAX_CONNECTIONS), Some(12.0));
    assert_eq!(last(Layer::Php, metric::OPCACHE_ENABLED), Some(1.0));
    assert_eq!(last(Layer::Php, metric::WORKERS), Some(2.0));
    assert!(recording.cost_s > 0.0);
}

/// A database that does not answer, and one that has no slot left: both are notes, not ends.
fn frozen_and_full(rig: &Rig) {
    let options = CollectorOptions {
        patience: Duration::from_millis(300),
        ..CollectorOptions::default()
    };
    // The postmaster is asleep: a new connection hangs.
    rig.signal("postgresql", Signal::STOP);
    let frozen = Collector::start(rig.tiers(), options)
        .expect("threads")
        .finish();
    rig.signal("postgresql", Signal::CONT);
    assert_eq!(up(&frozen, Layer::Cache, "redis-info"), Some(1.0));
    assert_eq!(up(&frozen, Layer::Db, "postgresql"), Some(0.0));
    assert!(
        frozen
            .notes
            .iter()
            .any(|note| note.starts_with("db: postgresql:")),
        "{:?}",
        frozen.notes
    );
    let connect = || rig.database().connect(postgres::NoTls).ok();
    let taken: Vec<_> = std::iter::repeat_with(connect)
        .take(20)
        .map_while(|client| client)
        .collect();
    // The line that says so is written by another process: the sample after the refused one reads it.
    let full = check(rig, |_| seconds(1.3));
    assert_eq!(up(&full, Layer::Db, "postgresql"), Some(0.0));
    let said = full
        .notes
        .iter()
        .any(|note| note.contains("too many clients already"));
    assert!(said, "{} connections: {:?}", taken.len(), full.notes);
    assert!(
        count(&full, Layer::Db, LogKind::TooManyDbClients) >= 1,
        "{:?}",
        full.log
    );
}

#[test]
fn namespaces_ports_and_peers_are_seen_from_inside() {
    let plan = Plan {
        namespaces: true,
        ..Plan::default()
    };
    let Some(rig) = Rig::start(&plan) else { return };
    let recording = check(&rig, |rig| {
        for _ in 0..60 {
            assert!(rig.get("/?do=ping").ends_with("done"));
        }
        let clients = rig.clients(2, "/?do=pop");
        clients
            .into_iter()
            .for_each(|client| assert!(client.join().expect("client").ends_with("done")));
        let clients = rig.clients(2, "/?do=unreachable");
        clients.into_iter().for_each(|client| drop(client.join()));
    });
    assert_eq!(recording.notes, Vec::<String>::new());
    let series = &recording.series;
    let time_wait = series
        .labelled(Layer::Php, metric::TIME_WAIT, "cache")
        .and_then(|series| series.max());
    assert!(
        time_wait >= Some(60.0),
        "each request left one: {time_wait:?}"
    );
    assert_eq!(
        series
            .labelled(Layer::Php, metric::TIME_WAIT, "db")
            .and_then(|s| s.max()),
        Some(0.0)
    );
    assert_eq!(series.last(Layer::Php, metric::PORT_RANGE), Some(1000.0));
    assert!(series.delta(Layer::Php, metric::ACTIVE_OPENS) >= Some(62.0));
    assert_eq!(
        series.delta(Layer::Cache, metric::ACTIVE_OPENS),
        Some(0.0),
        "Redis connects to nobody"
    );
    assert!(
        series.last(Layer::Php, metric::QUEUE_LIMIT).is_some(),
        "the Unix listener of a namespace"
    );
    assert!(
        series.last(Layer::Cache, metric::QUEUE_LIMIT).is_some(),
        "the TCP listener of a namespace"
    );
    assert!(
        waiting(&recording, "recv cache") > 0.0,
        "{:?}",
        labels(&recording)
    );
    assert!(
        waiting(&recording, "connect db") > 0.0,
        "{:?}",
        labels(&recording)
    );
}

#[test]
fn a_tier_that_dies_is_noted_and_the_rest_goes_on() {
    let Some(mut rig) = Rig::start(&Plan::default()) else {
        return;
    };
    let collector = Collector::start(rig.tiers(), CollectorOptions::default()).expect("threads");
    for name in ["redis", "fpm"] {
        rig.signal(name, Signal::KILL);
        rig.wait(name);
    }
    let recording = collector.snapshot();
    assert_eq!(up(&recording, Layer::Cache, "redis-info"), Some(0.0));
    assert_eq!(up(&recording, Layer::Php, "processes"), Some(0.0));
    assert_eq!(up(&recording, Layer::Web, "nginx-stub"), Some(1.0));
    let noted = |of: &str| {
        recording
            .notes
            .iter()
            .filter(|note| note.starts_with(of))
            .count()
    };
    assert_eq!(
        (noted("cache: redis-info:"), noted("php: workers:")),
        (1, 1),
        "{:?}",
        recording.notes
    );
    assert!(count(&collector.finish(), Layer::Php, LogKind::PhpFatal) == 0);
}

#[test]
fn logs_and_locks_and_pool_limits_are_told_by_meaning() {
    let pool = "pm = dynamic\npm.max_children = 3\npm.start_servers = 1\npm.min_spare_servers = 1\n\
                pm.max_spare_servers = 1\npm.max_requests = 4\nlisten.backlog = 1";
    let Some(rig) = Rig::start(&Plan {
        pool,
        ..Plan::default()
    }) else {
        return;
    };
    rig.get("/?do=fatal");
    let recording = check(&rig, |rig| {
        rig.get("/?do=fatal");
        let clients = rig.clients(12, "/?do=flock");
        clients.into_iter().for_each(|client| drop(client.join()));
        // FPM adds one worker a second at most, and looks once a second whether the pool is used up.
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            let clients = rig.clients(5, "/?do=sleep&ms=400");
            clients.into_iter().for_each(|client| drop(client.join()));
        }
    });
    let of = |layer, kind| count(&recording, layer, kind);
    assert_eq!(
        of(Layer::Php, LogKind::PhpFatal),
        1,
        "the one before the start is not ours: {:?}",
        recording.log
    );
    assert!(
        of(Layer::Web, LogKind::UpstreamQueueFull) >= 1,
        "{:?}",
        recording.log
    );
    assert!(
        of(Layer::Php, LogKind::PoolExhausted) >= 1,
        "{:?}",
        recording.log
    );
    assert!(
        of(Layer::Php, LogKind::WorkerRecycled) >= 1,
        "{:?}",
        recording.log
    );
    assert!(recording.series.delta(Layer::Php, metric::WORKER_STARTS) >= Some(2.0));
    assert!(recording.log.iter().all(|event| event.example.len() <= 400));
}

#[test]
fn a_lock_that_workers_queue_for_is_named() {
    let Some(rig) = Rig::start(&Plan {
        pool: "pm = static\npm.max_children = 6",
        ..Plan::default()
    }) else {
        return;
    };
    let recording = check(&rig, |rig| {
        let clients = rig.clients(6, "/?do=flock");
        clients
            .into_iter()
            .for_each(|client| assert!(client.join().expect("client").ends_with("done")));
    });
    assert!(
        waiting(&recording, "flock") > 1.0,
        "{:?}",
        labels(&recording)
    );
    let total = recording
        .series
        .mean(Layer::Php, metric::WORKERS_RUNNING)
        .expect("running")
        + labels(&recording)
            .iter()
            .filter_map(|(_, mean)| *mean)
            .sum::<f64>();
    assert!(
        (total - 6.0).abs() < 1e-6,
        "every worker does something: {total}"
    );
}

#[test]
fn a_worker_that_asks_its_own_site_is_told_from_one_that_is_pinned() {
    let Some(rig) = Rig::start(&Plan {
        pool: "pm = static\npm.max_children = 4",
        ..Plan::default()
    }) else {
        return;
    };
    let recording = check(&rig, |rig| {
        let clients = rig.clients(2, &format!("/?do=itself&at={}", rig.web()));
        clients
            .into_iter()
            .for_each(|client| assert!(client.join().expect("client").ends_with("done")));
    });
    assert!(
        waiting(&recording, "recv the-site-itself") > 1.0,
        "{:?}",
        labels(&recording)
    );
    assert_eq!(
        recording.series.max(Layer::Php, metric::WORKERS_PINNED),
        Some(0.0)
    );
}

#[test]
fn a_worker_pinned_by_a_kept_connection_is_told_from_a_busy_one() {
    let Some(rig) = Rig::start(&Plan::default()) else {
        return;
    };
    assert!(rig.get("/kept").ends_with("done"));
    let recording = check(&rig, |_| seconds(1.2));
    let last = |metric| recording.series.last(Layer::Php, metric);
    assert_eq!(last(metric::WORKERS_PINNED), Some(1.0));
    assert_eq!(
        last(metric::WORKERS_BUSY),
        Some(1.0),
        "FPM counts it as busy"
    );
    for label in ["recv web", "accept"] {
        let series = recording
            .series
            .labelled(Layer::Php, metric::WORKERS_WAITING, label);
        assert_eq!(
            series.and_then(|series| series.last()),
            Some(1.0),
            "{:?}",
            labels(&recording)
        );
    }
    let blocked = recording.series.get(Layer::Php, metric::WORKERS_BLOCKED);
    assert!(
        blocked.is_none_or(|series| series.points.len() < 5),
        "nobody works: {blocked:?}"
    );
}

/// Puts the processes of a tier into a control group of version 1 that allows a fifth of a core.
fn throttled(pids: &[u32]) -> std::io::Result<CgroupPaths> {
    let name = format!("kpt-{}", std::process::id());
    let dir = |controller: &str| Path::new("/sys/fs/cgroup").join(controller).join(&name);
    for controller in ["cpu", "cpuacct"] {
        fs::create_dir(dir(controller))?;
        for pid in pids {
            fs::write(dir(controller).join("cgroup.procs"), pid.to_string())?;
        }
    }
    fs::write(dir("cpu").join("cpu.cfs_quota_us"), "20000")?;
    Ok(CgroupPaths {
        cpu: Some(dir("cpu")),
        cpuacct: Some(dir("cpuacct")),
        memory: None,
    })
}

#[test]
fn throttling_and_cpu_time_come_from_the_control_group() {
    let Some(rig) = Rig::start(&Plan::default()) else {
        return;
    };
    let mut pids = rig.children("fpm");
    pids.push(rig.pid("fpm"));
    let cgroup = match throttled(&pids) {
        Ok(cgroup) => cgroup,
        Err(why) => return rig::skipped(&format!("needs control groups of version 1: {why}")),
    };
    let mut tiers = rig.tiers();
    tiers[1].cgroup = cgroup.clone();
    let collector = Collector::start(tiers, CollectorOptions::default()).expect("threads");
    assert!(rig.get("/?do=spin&ms=200").ends_with("done"));
    let recording = collector.finish();
    drop(rig);
    for dir in [cgroup.cpu, cgroup.cpuacct].into_iter().flatten() {
        fs::remove_dir(dir).expect("the group is empty");
    }
    let delta = |metric| recording.series.delta(Layer::Php, metric);
    assert!(
        delta(metric::CGROUP_THROTTLED) > Some(3.0),
        "200 ms at 20 ms a period"
    );
    assert!(delta(metric::CGROUP_THROTTLED_S) > Some(0.1));
    assert!(delta(metric::CPU_S) > Some(0.2));
    assert_eq!(recording.notes, Vec::<String>::new());
}

#[test]
fn a_mark_begins_a_phase_at_zero() {
    let Some(rig) = Rig::start(&Plan::default()) else {
        return;
    };
    let collector = Collector::start(rig.tiers(), CollectorOptions::default()).expect("threads");
    (0..5).for_each(|_| drop(rig.get("/?do=ping")));
    // Taken before the phase begins: whatever holds this thread up in between, no sample is later than that.
    let began = Instant::now();
    collector.mark();
    (0..3).for_each(|_| drop(rig.get("/?do=ping")));
    seconds(0.3);
    let recording = collector.snapshot();
    let length_s = began.elapsed().as_secs_f64();
    let received = recording
        .series
        .delta(Layer::Cache, metric::REDIS_CONNECTIONS);
    assert_eq!(received, Some(3.0), "only those of the phase");
    for series in &recording.series.series {
        let times = || series.points.iter().map(|point| point.0);
        assert!(
            times().is_sorted() && times().all(|at_s| (0.0..=length_s).contains(&at_s)),
            "{series:?}"
        );
        assert!(
            series.points.first().is_some_and(|first| first.0 == 0.0)
                || series.metric == metric::CPU_HOTTEST.name
                || series.metric == metric::WORKERS_BLOCKED.name,
            "{series:?}"
        );
    }
    let once = sample_once(rig.tiers()).expect("threads");
    assert!(
        once.series
            .series
            .iter()
            .all(|series| series.points[0].0 == 0.0)
    );
    assert!(once.series.last(Layer::Php, metric::WORKERS).is_some());
}

#[test]
fn ten_looks_at_a_time_tell_of_a_hundred_workers() {
    let Some(rig) = Rig::start(&Plan {
        pool: "pm = static\npm.max_children = 100",
        ..Plan::default()
    }) else {
        return;
    };
    let recording = check(&rig, |rig| {
        let clients = rig.clients(100, "/?do=sleep&ms=2500");
        seconds(3.0);
        clients.into_iter().for_each(|client| drop(client.join()));
    });
    assert!(
        waiting(&recording, "sleep") > 30.0,
        "{:?}",
        labels(&recording)
    );
}
