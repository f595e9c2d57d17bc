//! The generator across a lab's link: what loopback hides. Needs root, for namespaces.

mod closing_server;

use closing_server::ClosingServer;
use kneepoint_lab::{HostPlan, Lab, LabPlan};
use kneepoint_load::{Engine, LoadPlan, Mode, Target};
use kneepoint_model::{Address, Arrivals, LoadPoint, Outcome, Schedule, Validity, Workload};
use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Ports the kernel hands out by itself: 32768 to 60999 (load-engine.md, section 3, "Pitfalls").
const PORTS: u64 = 28_232;
const CONNECTIONS: u64 = 50_000;

/// 50 000 connections, one for each request, at an even rate from one host of a lab to another.
fn fifty_thousand(server_closes: bool) -> Result<LoadPoint, Failed> {
    let host = |name: &str| HostPlan {
        name: name.into(),
        ..HostPlan::default()
    };
    let lab = Lab::start(LabPlan {
        name: "ports".into(),
        hosts: vec![host("client"), host("server")],
        loopback: false,
    })?;
    let netns = |name: &str| lab.host(name).and_then(|host| host.netns);
    let inside = netns("server").ok_or("the server has no namespace")?;
    let address = lab.host("server").ok_or("no server")?.address;
    let server = ClosingServer::start(&inside, address, server_closes)?;
    let target = Target::Http {
        address: Address::Tcp(server.address),
        host_header: "test".into(),
        keep_alive: false,
    };
    let mode = Mode::Open {
        schedule: Schedule::constant(2500.0, Duration::from_secs(CONNECTIONS / 2500)),
        arrivals: Arrivals::Even,
    };
    let mut plan = LoadPlan::new(target, Workload::single("/"), mode);
    plan.netns = netns("client");
    plan.max_connections = 4000;
    let point = Engine::run(&plan, &|_| {}, &AtomicBool::new(false))?;
    drop(server);
    lab.stop()?;
    Ok(point)
}

/// A share of the requests that must have been fast for "not slow" to be true, and the bound they are held to: the
/// goal of the plan, which a request to a server that answers at once misses only when something stands in its way.
fn must_not_be_slow(point: &LoadPoint) -> Result<(), Failed> {
    let ok = point.outcomes.of(Outcome::Ok);
    let late = ok - point.good;
    if late * 20 > ok {
        return Err(format!("{late} of {ok} responses were late").into());
    }
    Ok(())
}

/// A server that closes first keeps TIME_WAIT on its side: the client's ports are free again at once.
fn ports_last_when_the_server_closes() -> Result<(), Failed> {
    let point = fifty_thousand(true)?;
    assert_eq!(point.arrivals, CONNECTIONS);
    assert_eq!(
        point.outcomes.of(Outcome::NoLocalPort),
        0,
        "{:?}",
        point.outcomes
    );
    assert_eq!(point.connections_opened, CONNECTIONS);
    must_not_be_slow(&point)
}

/// A server that leaves closing to the client lets the client run out of ports, and that is what is said.
fn ports_that_run_out_are_named() -> Result<(), Failed> {
    let point = fifty_thousand(false)?;
    assert_eq!(point.arrivals, CONNECTIONS);
    let without = point.outcomes.of(Outcome::NoLocalPort);
    let ok = point.outcomes.of(Outcome::Ok);
    // TIME_WAIT lasts 60 s and the run 20 s: a port serves once.
    assert!(ok <= PORTS, "{ok} connections from {PORTS} ports");
    assert!(
        without as f64 > 0.9 * (CONNECTIONS - PORTS) as f64,
        "{:?}",
        point.outcomes
    );
    assert_eq!(ok + without, CONNECTIONS, "{:?}", point.outcomes);
    let Validity::Invalid { because } = &point.validity else {
        return Err("the step counts as valid".into());
    };
    let because = because.join("; ");
    assert!(because.contains("found no local port"), "{because}");
    assert!(because.contains("ip_local_port_range"), "{because}");
    must_not_be_slow(&point)
}

fn main() -> ExitCode {
    kneepoint_lab::keeper_entry();
    let root = std::fs::metadata("/proc/self")
        .is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    type Test = fn() -> Result<(), Failed>;
    let tests: [(&str, Test); 2] = [
        (
            "fifty_thousand_connections_that_the_server_closes_need_few_ports",
            ports_last_when_the_server_closes,
        ),
        (
            "fifty_thousand_connections_that_the_client_closes_run_out_of_ports_and_say_so",
            ports_that_run_out_are_named,
        ),
    ];
    let trials = tests.map(|(name, test)| {
        let kind = if root { "" } else { "skipped: needs root" };
        Trial::test(name, test)
            .with_kind(kind)
            .with_ignored_flag(!root)
    });
    let mut arguments = Arguments::from_args();
    // One load at a time.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}
