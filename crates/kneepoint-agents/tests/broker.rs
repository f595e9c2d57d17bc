//! Agents and their coordinator over a real nats-server.

#![expect(
    clippy::disallowed_methods,
    reason = "a test starts its own broker and ends it by its process id"
)]

#[path = "../../../tests/answering.rs"]
mod answering;

use answering::answering;
use kneepoint_agents::{Access, AgentOptions, AgentsError, Fleet, FleetGenerator, Wanted, serve};
use kneepoint_load::{Generator as _, LoadPlan, Mode, Target};
use kneepoint_model::{Address, Arrivals, Workload};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A broker with one account, ended with the test.
struct Broker {
    child: Child,
    address: SocketAddr,
}

impl Broker {
    fn start() -> Self {
        Self::start_with(&["--user", "ann", "--pass", "secret"])
    }

    fn start_with(account: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        // It looks for a free port itself, and says which: one that was free a moment ago may be somebody's by now.
        let child = Command::new("nats-server")
            .args(["-a", "127.0.0.1", "-p", "-1", "--ports_file_dir"])
            .arg(dir.path())
            .args(account)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("nats-server: {error}; run scripts/install-deps"));
        let said = dir.path().join(format!("nats-server_{}.ports", child.id()));
        let until = Instant::now() + PATIENCE;
        let address = loop {
            // {"nats":["nats://127.0.0.1:41234"]}
            let text = std::fs::read_to_string(&said).unwrap_or_default();
            let at = text
                .split('"')
                .find_map(|word| word.strip_prefix("nats://"));
            if let Some(Ok(address)) = at.map(str::parse) {
                break address;
            }
            assert!(Instant::now() < until, "the broker does not listen");
            thread::sleep(Duration::from_millis(20));
        };
        Self { child, address }
    }

    fn access(&self, password: &str) -> Access {
        Access {
            url: format!("nats://ann:{password}@{}", self.address),
            creds: None,
            netns: None,
        }
    }

    fn agent(&self, name: &str, max_rate_hz: Option<f64>) -> AgentOptions {
        AgentOptions {
            access: self.access("secret"),
            name: name.into(),
            tag: None,
            max_rate_hz,
            i_own: Vec::new(),
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn plan(schedule: &str) -> LoadPlan {
    let mode = Mode::Open {
        schedule: schedule.parse().expect("a schedule"),
        arrivals: Arrivals::Even,
    };
    LoadPlan::new(
        Target::http(Address::Tcp(answering()), "a"),
        Workload::single("/"),
        mode,
    )
}

/// Gathers so many agents, as soon as they are there.
fn gathered(access: &Access, wanted: usize) -> Fleet {
    let until = Instant::now() + PATIENCE;
    loop {
        match Fleet::gather(access, Wanted::Some(wanted)) {
            Ok(fleet) => return fleet,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
    }
}

/// Two agents drive one load, which is the load that was asked for; one refuses what is above its cap, and then nothing is sent.
#[test]
fn two_agents_drive_one_load() {
    let broker = Broker::start();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = EndsWith(&stop);
        for (name, cap) in [("a", None), ("b", Some(60.0))] {
            let (options, stop) = (broker.agent(name, cap), &stop);
            scope.spawn(move || serve(&options, &|_| {}, stop).expect("serves"));
        }
        let fleet = gathered(&broker.access("secret"), 2);
        let names: Vec<&str> = fleet.members().iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);

        // The cap of the second makes it the lighter one.
        let told = Mutex::new(Vec::new());
        let tell = |words: &str| told.lock().expect("lock").push(words.to_owned());
        let run = |plan: &LoadPlan| fleet.run(plan, &tell, &|_| {}, &AtomicBool::new(false));
        let point = run(&plan("const(200,2)")).expect("a point");
        assert_eq!(point.arrivals, 400, "{:?}", told.lock());
        assert_eq!(point.outcomes.total(), 400);
        assert_eq!(
            point.seconds.iter().map(|s| s.offered).collect::<Vec<_>>(),
            [200, 200]
        );
        assert_eq!(
            point.response.count(),
            point.outcomes.of(kneepoint_model::Outcome::Ok)
        );
        let parts: Vec<u64> = point.generators.iter().map(|part| part.arrivals).collect();
        assert!(
            parts[1] > 0 && parts[1] <= 60 * 2 && parts[0] + parts[1] == 400,
            "{parts:?}"
        );

        let mut closed = plan("const(1,1)");
        closed.mode = Mode::Closed(kneepoint_model::ClosedLoop::new(64, Duration::from_secs(1)));
        match run(&closed) {
            Err(AgentsError::Refused { name, because }) => {
                assert_eq!(name, "b");
                assert!(because.contains("--max-rate"), "{because}");
            }
            Ok(point) => panic!("{} arrivals", point.arrivals),
            Err(other) => panic!("{other}"),
        }
        // Whoever was ready has gone back to waiting.
        gathered(&broker.access("secret"), 2);
        stop.store(true, Ordering::Relaxed);
    });
}

/// Ends agents however their test ends.
struct EndsWith<'a>(&'a AtomicBool);

impl Drop for EndsWith<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What an agent that may do so much says to a plan, in its own words.
fn refused(options: &AgentOptions, access: &Access, plan: &LoadPlan) -> String {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = EndsWith(&stop);
        let serving = scope.spawn(|| serve(options, &|_| {}, &stop).expect("serves"));
        let fleet = gathered(access, 1);
        let outcome = fleet.run(plan, &|_| {}, &|_| {}, &AtomicBool::new(false));
        stop.store(true, Ordering::Relaxed);
        serving.join().expect("it ends");
        match outcome {
            Err(AgentsError::Refused { name, because }) if name == options.name => because,
            Ok(point) => panic!("{} arrivals", point.arrivals),
            Err(other) => panic!("{other}"),
        }
    })
}

/// The same port by an address that is not taken for this machine.
fn by_another_name(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(
        "::ffff:127.0.0.1".parse().expect("an address"),
        address.port(),
    )
}

#[test]
fn a_target_without_consent_is_refused_by_the_agent() {
    let broker = Broker::start();
    let access = broker.access("secret");
    let mut plan = plan("const(100,1)");
    let server = answering();
    // The server answers everything, and nothing that it says is a consent.
    plan.target = Target::http(Address::Tcp(by_another_name(server)), "shop.test");
    let because = refused(&broker.agent("a", None), &access, &plan);
    assert!(
        because.contains("does not say that it may be loaded") && because.contains("--i-own"),
        "{because}"
    );
    // This machine is not loaded for a coordinator who may be elsewhere, since the broker is.
    plan.target = Target::http(Address::Tcp(server), "shop.test");
    let mut options = broker.agent("b", None);
    options.access.url = format!("nats://ann:secret@{}", by_another_name(broker.address));
    let because = refused(&options, &access, &plan);
    assert!(because.contains("--i-own 127.0.0.1"), "{because}");
}

#[test]
fn a_rate_above_its_cap_is_refused_by_the_agent() {
    let broker = Broker::start();
    let options = broker.agent("a", Some(50.0));
    let because = refused(&options, &broker.access("secret"), &plan("line(10,200,1)"));
    assert!(
        because.contains("goes up to 200/s") && because.contains("--max-rate"),
        "{because}"
    );
}

/// A plan as another release would send it, by hand: whatever else it says, only its version is read.
#[test]
fn a_plan_of_another_version_is_refused_by_the_agent() {
    let broker = Broker::start();
    let stop = AtomicBool::new(false);
    let options = broker.agent("a", None);
    thread::scope(|scope| {
        let _ends = EndsWith(&stop);
        let serving = scope.spawn(|| serve(&options, &|_| {}, &stop).expect("serves"));
        gathered(&broker.access("secret"), 1);
        let mut stream = TcpStream::connect(broker.address).expect("the broker");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let plan = r#"{"v": 9, "message": {"prepare": {"run": "r", "part": "unheard-of"}}}"#;
        let said = format!(
            "CONNECT {{\"user\":\"ann\",\"pass\":\"secret\",\"verbose\":false}}\r\nSUB answers 1\r\n\
             PUB kneepoint.who answers {}\r\n{plan}\r\n",
            plan.len()
        );
        stream.write_all(said.as_bytes()).expect("is sent");
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        let answer = lines
            .skip_while(|line| !line.starts_with("MSG answers"))
            .nth(1);
        let answer = answer.expect("an answer");
        assert!(
            answer.contains("refused")
                && answer.contains("version 9")
                && answer.contains("same release"),
            "{answer}"
        );
        stop.store(true, Ordering::Relaxed);
        serving.join().expect("it ends");
    });
}

#[test]
fn a_broker_that_asks_for_no_account_is_refused_unless_it_is_on_this_machine() {
    let broker = Broker::start_with(&[]);
    let stop = AtomicBool::new(true);
    let mut options = broker.agent("a", None);
    options.access.url = format!("nats://{}", by_another_name(broker.address));
    let error = serve(&options, &|_| {}, &stop).expect_err("anybody could command it");
    assert!(error.to_string().contains("asks for no account"), "{error}");
    options.access.url = format!("nats://{}", broker.address);
    serve(&options, &|_| {}, &stop).expect("on this machine it needs none");
}

/// Two loads in the same seconds, each by a half of the fleet; and a fleet that has lost one goes on without it.
#[test]
fn a_fleet_loads_two_targets_at_once_and_does_without_who_is_away() {
    let broker = Broker::start();
    let [stop, away] = [AtomicBool::new(false), AtomicBool::new(false)];
    let told = Arc::new(Mutex::new(Vec::new()));
    thread::scope(|scope| {
        let _ends = (EndsWith(&stop), EndsWith(&away));
        let agents = [("a", &stop), ("b", &away)].map(|(name, stop)| {
            let options = broker.agent(name, None);
            scope.spawn(move || serve(&options, &|_| {}, stop).expect("serves"))
        });
        let fleet = gathered(&broker.access("secret"), 2);
        let lines = Arc::clone(&told);
        let tell = move |words: &str| lines.lock().expect("lock").push(words.to_owned());
        let generator = FleetGenerator::new(fleet, tell);
        let plans = [plan("const(50,1)"), plan("const(80,1)")];
        let go_on = AtomicBool::new(false);
        let mut by = Vec::new();
        for _ in 0..2 {
            let points = generator.run_both(&plans, &|_| {}, &go_on).expect("both");
            assert_eq!([points[0].arrivals, points[1].arrivals], [50, 80]);
            by.push(points[0].generators[0].name.clone());
        }
        by.sort();
        assert_eq!(by, ["a", "b"], "the halves change sides");
        away.store(true, Ordering::Relaxed);
        let [_, leaving] = agents;
        leaving.join().expect("it ends");
        let alone = generator.run(&plans[0], &|_| {}, &go_on).expect("a point");
        assert_eq!(alone.generators.len(), 1, "it is still there");
        assert_eq!((alone.arrivals, alone.generators[0].share), (50, 1.0));
        let told = told.lock().expect("lock").join("\n");
        assert!(told.contains("agent b does not answer"), "{told}");
        let error = generator
            .run_both(&plans, &|_| {}, &go_on)
            .expect_err("one is no pair");
        assert!(error.to_string().contains("takes two agents"), "{error}");
        stop.store(true, Ordering::Relaxed);
    });
}

/// An agent that answers who is there until it is ready for a load, and then says nothing more, by hand.
fn falls_silent(address: SocketAddr, name: &str) {
    let mut stream = TcpStream::connect(address).expect("the broker");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let hello = format!(
        "CONNECT {{\"user\":\"ann\",\"pass\":\"secret\",\"verbose\":false}}\r\nSUB kneepoint.who 1\r\n\
         SUB kneepoint.agent.{name}.i 2\r\n"
    );
    stream.write_all(hello.as_bytes()).expect("is sent");
    let reading = stream.try_clone().expect("a second handle");
    let mut lines = BufReader::new(reading).lines().map_while(Result::ok);
    let here = format!(
        r#"{{"here": {{"name": "{name}", "instance": "i", "tag": null, "version": "1", "cores": 1, "ceiling_hz": 1000.0, "max_rate_hz": null, "busy": false}}}}"#
    );
    let mut is_ready = false;
    while !is_ready {
        let mut asked = lines.by_ref().skip_while(|line| !line.starts_with("MSG "));
        let asked = asked.next().expect("a message");
        is_ready = asked.contains(" kneepoint.agent.");
        let message = if is_ready { r#""ready""# } else { &here };
        let inbox = asked.split(' ').nth(3).expect("where the answer goes");
        let said = format!(r#"{{"v": 2, "message": {message}}}"#);
        let said = format!("PUB {inbox} {}\r\n{said}\r\n", said.len());
        stream.write_all(said.as_bytes()).expect("is sent");
    }
    // It stays connected until the broker ends.
    lines.for_each(drop);
}

#[test]
fn an_agent_that_falls_silent_before_the_start_ends_no_run() {
    let broker = Broker::start();
    let stop = AtomicBool::new(false);
    let told = Arc::new(Mutex::new(Vec::new()));
    let silent = thread::spawn({
        let address = broker.address;
        move || falls_silent(address, "silent")
    });
    thread::scope(|scope| {
        let _ends = EndsWith(&stop);
        let options = broker.agent("a", None);
        let stop = &stop;
        scope.spawn(move || serve(&options, &|_| {}, stop).expect("serves"));
        let fleet = gathered(&broker.access("secret"), 2);
        let lines = Arc::clone(&told);
        let tell = move |words: &str| lines.lock().expect("lock").push(words.to_owned());
        let generator = FleetGenerator::new(fleet, tell);
        let point = generator.run(&plan("const(50,1)"), &|_| {}, &AtomicBool::new(false));
        assert_eq!(point.expect("a point").arrivals, 50);
        let told = told.lock().expect("lock").join("\n");
        assert!(
            told.contains("gone before the load began: silent"),
            "{told}"
        );
        stop.store(true, Ordering::Relaxed);
    });
    drop(broker);
    silent.join().expect("it ends with the broker");
}

#[test]
fn a_broker_without_our_account_is_refused() {
    let broker = Broker::start();
    let stop = AtomicBool::new(true);
    let mut options = broker.agent("a", None);
    options.access = broker.access("wrong");
    let error = serve(&options, &|_| {}, &stop).expect_err("it refuses us");
    let said = error.to_string();
    assert!(
        said.contains("refuses this account") && !said.contains("wrong"),
        "{said}"
    );
    options.access.url = "nats://127.0.0.1:1".into();
    let error = serve(&options, &|_| {}, &stop).expect_err("nobody listens");
    assert!(error.to_string().contains("nats-server"), "{error}");
}

/// Has so many agents serve while something is done with them.
fn with_agents<T>(broker: &Broker, count: usize, work: impl FnOnce(&Fleet) -> T) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = EndsWith(&stop);
        for agent in 0..count {
            let (options, stop) = (broker.agent(&format!("a{agent}"), None), &stop);
            scope.spawn(move || serve(&options, &|_| {}, stop).expect("serves"));
        }
        work(&gathered(&broker.access("secret"), count))
    })
}

fn run(fleet: &Fleet, plan: &LoadPlan) -> Result<kneepoint_model::LoadPoint, AgentsError> {
    fleet.run(plan, &|_| {}, &|_| {}, &AtomicBool::new(false))
}

/// Connections, requests and arrivals of which there are fewer than agents: whoever would have none is not asked.
#[test]
fn a_load_that_is_too_small_for_all_is_sent_by_some() {
    let broker = Broker::start();
    with_agents(&broker, 3, |fleet| {
        let mut counted = plan("const(1,1)");
        counted.max_connections = 2;
        counted.mode = Mode::Closed(kneepoint_model::ClosedLoop {
            requests: Some(5),
            ..kneepoint_model::ClosedLoop::new(2, Duration::from_secs(60))
        });
        let point = run(fleet, &counted).expect("a point");
        assert_eq!((point.arrivals, point.generators.len()), (5, 2));
        assert!(point.connections_opened <= 2);

        let point = run(fleet, &plan("const(1,1)")).expect("a point");
        assert_eq!((point.arrivals, point.generators.len()), (1, 1));
        assert!(point.validity.is_valid(), "{:?}", point.validity);
    });
}

/// A server that writes down the paths that it is asked for.
fn listing() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let paths = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&paths);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let seen = Arc::clone(&seen);
            thread::spawn(move || {
                let reading = stream.try_clone().expect("a second handle");
                for line in BufReader::new(reading).lines().map_while(Result::ok) {
                    if let Some(path) = line.strip_prefix("GET ") {
                        let path = path.split(' ').next().unwrap_or_default();
                        seen.lock().expect("lock").push(path.to_owned());
                    }
                    if line.is_empty() {
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                    }
                }
            });
        }
    });
    (address, paths)
}

/// Each row is somebody's, and all together have them all.
#[test]
fn rows_of_a_feeder_are_divided_among_agents() {
    let broker = Broker::start();
    let (server, paths) = listing();
    let mut plan = plan("const(40,1)");
    plan.target = Target::http(Address::Tcp(server), "a");
    plan.workload.requests[0].path = "/{{users.name}}".into();
    plan.workload.feeders = vec![kneepoint_model::Feeder {
        name: "users".into(),
        columns: vec!["name".into()],
        order: kneepoint_model::RowOrder::InTurn,
        rows: (0..40).map(|row| vec![format!("u{row}")]).collect(),
    }];
    let point = with_agents(&broker, 2, |fleet| run(fleet, &plan)).expect("a point");
    assert_eq!(point.arrivals, 40);
    let mut seen = paths.lock().expect("lock").clone();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 40, "every row once: {seen:?}");
}

/// Two processes with one name would drive a share twice: the second does not start, and one that answers all the same (by
/// hand here) keeps the load from beginning.
#[test]
fn a_name_that_another_agent_has_is_refused() {
    let broker = Broker::start();
    with_agents(&broker, 1, |_| {
        let stop = AtomicBool::new(true);
        let error = serve(&broker.agent("a0", None), &|_| {}, &stop).expect_err("a second one");
        assert!(error.to_string().contains("called a0 already"), "{error}");
        let address = broker.address;
        thread::spawn(move || falls_silent(address, "a0"));
        let until = Instant::now() + PATIENCE;
        loop {
            match Fleet::gather(&broker.access("secret"), Wanted::Some(1)) {
                Err(error) => {
                    assert!(
                        error.to_string().contains("two of them are called a0"),
                        "{error}"
                    );
                    break;
                }
                Ok(_) => assert!(Instant::now() < until, "the second one does not show"),
            }
        }
    });
}

/// Whoever is told to stop hands over what it has, and ends.
#[test]
fn an_agent_that_is_told_to_stop_during_a_load_ends() {
    let broker = Broker::start();
    let stop = AtomicBool::new(false);
    let told = Mutex::new(Vec::new());
    let point = thread::scope(|scope| {
        let _ends = EndsWith(&stop);
        let (options, heard, stop) = (broker.agent("a", None), &told, &stop);
        let tell = move |words: &str| heard.lock().expect("lock").push(words.to_owned());
        let serving = scope.spawn(move || serve(&options, &tell, stop).expect("serves"));
        let fleet = gathered(&broker.access("secret"), 1);
        let mut ends = Some(serving);
        let progress = |now: &kneepoint_load::Progress| {
            if now.arrivals > 0 {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let plan = plan("const(20,600)");
        let point = fleet.run(&plan, &|_| {}, &progress, &AtomicBool::new(false));
        // It does not wait for the coordinator to let it go.
        ends.take().expect("once").join().expect("it ends");
        point.expect("a point")
    });
    assert!(!point.validity.is_valid() && point.arrivals > 0);
    let said = point.generators[0].said.as_deref().unwrap_or_default();
    assert!(said.contains("stopped by its operator"), "{said}");
    let told = told.lock().expect("lock").join("\n");
    assert!(told.contains("told to stop by a signal"), "{told}");
}

#[test]
fn a_token_is_an_account_and_what_an_account_may_not_is_told() {
    let broker = Broker::start_with(&["--auth", "s3cret"]);
    let mut options = broker.agent("a", None);
    options.access.url = format!("nats://s3cret@{}", broker.address);
    serve(&options, &|_| {}, &AtomicBool::new(true)).expect("the token counts");
    options.access.url = format!("nats://wrong@{}", broker.address);
    let error = serve(&options, &|_| {}, &AtomicBool::new(true)).expect_err("another token");
    assert!(
        error.to_string().contains("refuses this account"),
        "{error}"
    );

    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("nats.conf");
    let text = "authorization { users: [{user: ann, password: secret, permissions: {publish: {deny: \">\"}}}] }";
    std::fs::write(&config, text).expect("is written");
    let config = config.to_string_lossy().into_owned();
    let broker = Broker::start_with(&["-c", &config]);
    let error = Fleet::gather(&broker.access("secret"), Wanted::All).expect_err("it may not ask");
    assert!(
        error
            .to_string()
            .to_lowercase()
            .contains("permissions violation"),
        "{error}"
    );
}
