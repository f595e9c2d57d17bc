//! Agents and their coordinator over a real nats-server.

#![expect(
    clippy::disallowed_methods,
    reason = "a test starts its own broker and ends it by its process id"
)]

#[path = "../../../tests/answering.rs"]
mod answering;

use answering::answering;
use kneepoint_agents::{Access, AgentOptions, AgentsError, Fleet, Wanted, serve};
use kneepoint_load::{LoadPlan, Mode, Target};
use kneepoint_model::{Address, Arrivals, Workload};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// A broker with one account, ended with the test.
struct Broker {
    child: Child,
    address: SocketAddr,
}

impl Broker {
    fn start() -> Self {
        let probe = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = probe.local_addr().expect("bound");
        drop(probe);
        let child = Command::new("nats-server")
            .args(["-a", "127.0.0.1", "-p", &address.port().to_string()])
            .args(["--user", "ann", "--pass", "secret"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("nats-server: {error}; run scripts/install-deps"));
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < until, "the broker does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        Self { child, address }
    }

    fn access(&self, password: &str) -> Access {
        Access {
            url: format!("nats://ann:{password}@{}", self.address),
            creds: None,
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
        for (name, cap) in [("a", None), ("b", Some(60.0))] {
            let (options, stop) = (broker.agent(name, cap), &stop);
            scope.spawn(move || serve(&options, &|_| {}, stop).expect("serves"));
        }
        let fleet = gathered(&broker.access("secret"), 2);
        let names: Vec<&str> = fleet.members().iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);

        // The cap of the second makes it the lighter one.
        let told = std::sync::Mutex::new(Vec::new());
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
        closed.mode = Mode::Closed(kneepoint_model::ClosedLoop::new(4, Duration::from_secs(1)));
        match run(&closed) {
            Err(AgentsError::Refused { name, because }) => {
                assert_eq!(name, "b");
                assert!(because.contains("--max-rate"), "{because}");
            }
            other => panic!("{other:?}"),
        }
        // Whoever was ready has gone back to waiting.
        gathered(&broker.access("secret"), 2);
        stop.store(true, Ordering::Relaxed);
    });
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
