//! Doubles of those whom an application must talk to, standing in the lab.

use super::{Arm, Standing, host_name, must_succeed, of_hosts};
use crate::error::ExperimentError;
use crate::testbed::Testbed;
use kneepoint_lab::{HostInfo, HostPlan, Lab};
use kneepoint_linux::cgroup;
use kneepoint_model::{Address, CgroupPaths, CommandSpec, Layer, PeerSpec, Scenario};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The lab's name for the host of the double of somebody.
fn host_of(arm: &str, nth: usize) -> String {
    format!("{}-peer{nth}", of_hosts(arm))
}

/// Those who have a host of their own: each once, in the order of the scenario. A double at an address of loopback stands
/// where PHP runs, since that is where PHP looks for it.
fn distant(peers: &[PeerSpec]) -> Vec<&str> {
    let mut hosts: Vec<&str> = Vec::new();
    for peer in peers {
        let known = hosts
            .iter()
            .any(|host| host.eq_ignore_ascii_case(&peer.host));
        if !known && near(&peer.host).is_none() {
            hosts.push(&peer.host);
        }
    }
    hosts
}

/// The address of loopback that a host is.
fn near(host: &str) -> Option<Ipv4Addr> {
    match host {
        "localhost" => Some(Ipv4Addr::LOCALHOST),
        host => host.parse().ok().filter(Ipv4Addr::is_loopback),
    }
}

/// Stands up the doubles with a host of their own.
pub(super) fn stand_up(
    testbed: &Testbed,
    arm: &str,
    scenario: &Scenario,
    standing: &mut Standing,
) -> Result<(), ExperimentError> {
    if scenario.peers.is_empty() {
        return Ok(());
    }
    if testbed.client.netns.is_none() {
        return Err(ExperimentError::Unfit(
            "[[peer]]: a double needs a closed lab, and this one has the machine's network; leave out --host-network, or the \
             doubles"
                .into(),
        ));
    }
    for (nth, name) in distant(&scenario.peers).into_iter().enumerate() {
        let host = testbed.lab.add_host(HostPlan::new(&host_of(arm, nth)))?;
        let address = match name.parse::<Ipv4Addr>() {
            // The application asks for an address, so its host has that one, too.
            Ok(own) => {
                let command = ip(&["address", "add", &format!("{own}/32"), "dev", "eth0"]);
                must_succeed(&testbed.lab, &host.name, &command)?;
                IpAddr::V4(own)
            }
            Err(_) => {
                standing.names.push((name.to_owned(), host.address));
                host.address
            }
        };
        let mut peers = scenario.peers.iter();
        peers.try_for_each(|peer| {
            if !peer.host.eq_ignore_ascii_case(name) {
                return Ok(());
            }
            spawn(&testbed.lab, &host, peer, address, standing)
        })?;
    }
    Ok(())
}

/// Stands up what belongs to the host of PHP: its ways to doubles at addresses, and the doubles at its own.
pub(super) fn beside_php(
    testbed: &Testbed,
    scenario: &Scenario,
    host: &HostInfo,
    standing: &mut Standing,
) -> Result<(), ExperimentError> {
    for name in distant(&scenario.peers) {
        if let Ok(address) = name.parse::<Ipv4Addr>() {
            let command = ip(&["route", "add", &format!("{address}/32"), "dev", "eth0"]);
            must_succeed(&testbed.lab, &host.name, &command)?;
        }
    }
    for peer in &scenario.peers {
        if let Some(address) = near(&peer.host) {
            spawn(&testbed.lab, host, peer, address.into(), standing)?;
        }
    }
    Ok(())
}

fn ip(args: &[&str]) -> CommandSpec {
    let script = format!("exec ip {}", args.join(" "));
    CommandSpec::new("/bin/sh").args(["-c", &script])
}

fn spawn(
    lab: &Lab,
    host: &HostInfo,
    peer: &PeerSpec,
    address: IpAddr,
    standing: &mut Standing,
) -> Result<(), ExperimentError> {
    let listen = SocketAddr::new(address, peer.port);
    let process = lab.spawn(
        &host.name,
        &kneepoint_double::process(peer, listen, &host.dir),
    )?;
    standing.processes.push(process);
    let name = format!("{}:{}", peer.host, peer.port);
    standing.doubles.push((name, Address::Tcp(listen)));
    Ok(())
}

/// The processes and control groups that account the CPU time of an arm's doubles with a host of their own. Those beside PHP
/// are accounted with its host.
pub(in crate::testbed) fn accounts(name: &str, arm: &Arm, lab: &Lab) -> Vec<(u32, CgroupPaths)> {
    let hosts = (0..).map_while(|nth| lab.host(&host_of(name, nth)));
    let accounts = hosts.flat_map(|host| {
        let own = arm.processes.iter().filter(|it| it.host == host.name);
        accounts_of(&host.cgroup, own.map(|it| it.pid))
    });
    accounts.collect()
}

/// The same of one host: its control group counts all of its processes at once.
fn accounts_of(group: &CgroupPaths, pids: impl Iterator<Item = u32>) -> Vec<(u32, CgroupPaths)> {
    let at_once = cgroup::cpu_s(group.cpuacct.as_deref(), group.cpu.as_deref()).is_some();
    let most = if at_once { 1 } else { usize::MAX };
    pids.take(most).map(|pid| (pid, group.clone())).collect()
}

/// The hosts an arm has in a lab: those of its tiers and of its doubles.
pub(in crate::testbed) fn hosts(arm: &str, lab: &Lab) -> Vec<String> {
    let tiers = Layer::TIERS.into_iter().map(|layer| host_name(arm, layer));
    let tiers = tiers.filter(|host| lab.host(host).is_some());
    let doubles = (0..).map(|nth| host_of(arm, nth));
    let doubles = doubles.take_while(|host| lab.host(host).is_some());
    tiers.chain(doubles).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::PeerKind;
    use std::time::Duration;

    #[test]
    fn what_a_control_group_counts_is_counted_once() {
        let pids = |group: &CgroupPaths| {
            let accounts = accounts_of(group, [7, 8].into_iter());
            accounts
                .into_iter()
                .map(|(pid, _)| pid)
                .collect::<Vec<u32>>()
        };
        assert_eq!(pids(&CgroupPaths::default()), [7, 8]);
        let dir = tempfile::tempdir().expect("a directory");
        let stat = "usage_usec 500\nuser_usec 400\nsystem_usec 100\n";
        std::fs::write(dir.path().join("cpu.stat"), stat).expect("a file");
        let group = CgroupPaths {
            cpu: Some(dir.path().to_owned()),
            ..CgroupPaths::default()
        };
        assert_eq!(pids(&group), [7]);
    }

    #[test]
    fn hosts_are_made_once_for_each_name_and_not_for_loopback() {
        let peer = |host: &str, port| PeerSpec {
            host: host.to_owned(),
            kind: PeerKind::Http,
            port,
            latency: Duration::ZERO,
            capacity: 1,
            status: 200,
            body: String::new(),
        };
        let peers = [
            peer("api.example.test", 80),
            peer("127.0.0.1", 8080),
            peer("API.example.test", 81),
            peer("localhost", 25),
            peer("10.0.0.9", 80),
        ];
        assert_eq!(distant(&peers), ["api.example.test", "10.0.0.9"]);
        assert_eq!(near("127.0.0.53"), Some(Ipv4Addr::new(127, 0, 0, 53)));
        assert_eq!(near("10.0.0.9"), None);
    }
}
