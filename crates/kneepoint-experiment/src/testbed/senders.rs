//! Who sends the load: this process, agents on hosts of the lab, or agents that somebody else started.

use super::CLIENT;
use crate::error::ExperimentError;
use crate::record::{Event, Observer};
use kneepoint_agents::{Fleet, FleetGenerator, LabBroker, Wanted};
use kneepoint_lab::{HostInfo, HostPlan, Lab};
use kneepoint_load::{Engine, Generator};
use kneepoint_model::{CgroupPaths, LoadPoint, Scenario};
use kneepoint_stack::credentials::password;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where a broker is looked for.
const PLACES: [&str; 4] = [
    "/usr/sbin/nats-server",
    "/usr/bin/nats-server",
    "/usr/local/sbin/nats-server",
    "/usr/local/bin/nats-server",
];
/// Where it listens on the client's host.
const PORT: u16 = 4222;
/// How long agents may take to be there: each measures its ceiling for a second, beside the others.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long this process's own ceiling is measured.
const CEILING: Duration = Duration::from_secs(1);

/// Whoever sends.
pub(super) struct Senders {
    pub(super) generator: Box<dyn Generator>,
    /// Requests a second of it against null servers.
    pub(super) ceiling_hz: f64,
    /// Processes of the lab that belong to it.
    pub(super) processes: Vec<(u32, CgroupPaths)>,
    /// Whether they are programs of this machine that are no part of the lab.
    outside: bool,
}

impl Senders {
    /// Those who were given, those that the scenario asks for in the lab, or this process.
    pub(super) fn of(
        scenario: &Scenario,
        given: Option<Box<dyn Generator>>,
        lab: &Lab,
        client: &HostInfo,
        observer: &Arc<dyn Observer + Send + Sync>,
    ) -> Result<Self, ExperimentError> {
        if let Some(generator) = given {
            return given_to(generator, client);
        }
        match scenario.generators {
            Some(count) => in_lab(count, lab, client, observer),
            None => Ok(Self {
                generator: Box::new(Engine),
                ceiling_hz: kneepoint_load::ceiling(1, client.netns.as_deref(), CEILING)?,
                processes: Vec::new(),
                outside: false,
            }),
        }
    }

    /// Whether agents send.
    pub(super) fn are_several(&self) -> bool {
        self.outside || !self.processes.is_empty()
    }

    /// What of the time of others these were while this load ran, as a share of so many cores.
    pub(super) fn share_of_others(&self, point: &LoadPoint, cores: f64) -> f64 {
        if self.outside {
            point.health.cpu_share / cores
        } else {
            0.0
        }
    }
}

/// Agents that run already send only where they reach the stack. Without a network of its own that is so on this machine.
fn given_to(generator: Box<dyn Generator>, client: &HostInfo) -> Result<Senders, ExperimentError> {
    if client.netns.is_some() {
        return Err(ExperimentError::Unfit(
            "--agents: the lab's network is closed, so that agents outside of it do not reach the stack. Write [generators] \
             count = 3 into the scenario, which starts them inside, or put the stack onto this machine's network with \
             --host-network and start the agents here"
                .into(),
        ));
    }
    Ok(Senders {
        ceiling_hz: generator.ceiling_hz().unwrap_or(0.0),
        generator,
        processes: Vec::new(),
        outside: true,
    })
}

/// A broker beside the client, and so many agents on hosts of their own.
fn in_lab(
    count: u32,
    lab: &Lab,
    client: &HostInfo,
    observer: &Arc<dyn Observer + Send + Sync>,
) -> Result<Senders, ExperimentError> {
    let (Some(netns), IpAddr::V4(own)) = (&client.netns, client.address) else {
        return Err(ExperimentError::Unfit(
            "[generators]: a host for each needs a closed lab, and this one has the machine's network; leave out \
             --host-network, or [generators]"
                .into(),
        ));
    };
    let broker = LabBroker {
        listen: SocketAddr::new(client.address, PORT),
        password: password()?,
    };
    let process = lab.spawn(CLIENT, &broker.process(&nats_server()?, &client.dir))?;
    let mut processes = vec![(process.pid, client.cgroup.clone())];
    // A lab's hosts are in one /24.
    let [a, b, c, _] = own.octets();
    let network = format!("{a}.{b}.{c}.0/24");
    let mut agents = Vec::new();
    for nth in 1..=count {
        let name = format!("generator-{nth}");
        let host = lab.add_host(HostPlan::new(&name))?;
        let process = lab.spawn(&name, &broker.agent(&name, &network, &host.dir))?;
        processes.push((process.pid, host.cgroup));
        agents.push(process);
    }
    let until = Instant::now() + PATIENCE;
    let access = broker.access(Some(netns.clone()));
    let fleet = loop {
        let error = match Fleet::gather(&access, Wanted::Some(count as usize)) {
            Ok(fleet) => break fleet,
            Err(error) => error,
        };
        for agent in &agents {
            if let Some(how) = lab.ended(agent)? {
                return Err(ExperimentError::Died {
                    arm: None,
                    words: format!("{} of the lab {how}", agent.name),
                });
            }
        }
        if Instant::now() >= until {
            return Err(ExperimentError::Unfit(format!("[generators]: {error}")));
        }
    };
    let observer = Arc::clone(observer);
    let generator =
        FleetGenerator::new(fleet, move |words| observer.event(&Event::Generator(words)));
    Ok(Senders {
        ceiling_hz: generator.ceiling_hz().unwrap_or(0.0),
        generator: Box::new(generator),
        processes,
        outside: false,
    })
}

fn nats_server() -> Result<PathBuf, ExperimentError> {
    let mut places = PLACES.iter().map(Path::new);
    places.find(|place| place.is_file()).map(Path::to_owned).ok_or_else(|| {
        ExperimentError::Unfit(format!(
            "[generators]: several generators meet at a NATS server, and there is none in {}; install it (Debian and Ubuntu: \
             apt-get install nats-server), or leave out [generators]",
            PLACES.map(|place| place.trim_end_matches("/nats-server")).join(", ")
        ))
    })
}
